// SPDX-License-Identifier: MIT
// Sessions. OpenSSL reads and writes the descriptor through a BIO of ours, so that bytes are not
// copied once more, no write raises SIGPIPE, and it is known whether anything was read.
//
// What OpenSSL has begun to write it must be given again, and nothing else before it. So bytes that
// it could not write at once are kept here until it has:
//
//   write: bytes --> a record --> descriptor          flush: `unsent` --> record --> descriptor
//                       '--> `unsent`, if it is full
//
// Threads have queues of errors, and a session's routine may move between threads: each call to
// OpenSSL begins with an empty queue.
#include "platform/tls.h"

#include <errno.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/tls_inner.h"

enum { RECORD_MAX = 16384 };

struct mare__tls {
    SSL *ssl;
    struct mare__tls_rules *rules;
    int fd;
    bool server;
    bool ready;       // the handshake is over, and went well
    bool ended;       // the descriptor has no more to read
    bool moved;       // the last call read from the descriptor
    bool shut;        // the peer was told that we send no more
    bool to_write[2]; // by operation: what it waits for
    int broken;       // an errno value: what reading or writing the descriptor came to
    char *early;
    size_t early_first, early_end;
    char *unsent;
    size_t unsent_size;
    char *name;                      // of the host that a client wants
    struct mare__tls_error *error;   // what ended the session
    struct mare__tls_error *refusal; // of the peer's certificate
};

static const struct mare__tls_error no_memory = {MARE_NOMEM, "not enough memory"};

// ---- The descriptor -----------------------------------------------------------------------------

static int bio_read(BIO *bio, char *bytes, int size)
{
    struct mare__tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t early = tls->early_end - tls->early_first;
    if (early > 0) {
        size_t part = early < (size_t)size ? early : (size_t)size;
        memcpy(bytes, tls->early + tls->early_first, part);
        tls->early_first += part;
        tls->moved = true;
        return (int)part;
    }
    ssize_t got = mare__socket_read(tls->fd, bytes, (size_t)size);
    if (got == -EAGAIN) {
        BIO_set_retry_read(bio);
        return -1;
    }
    tls->moved = true;
    tls->ended = got == 0;
    if (got < 0)
        tls->broken = (int)-got;
    return got < 0 ? -1 : (int)got;
}

static int bio_write(BIO *bio, const char *bytes, int size)
{
    struct mare__tls *tls = BIO_get_data(bio);
    struct iovec piece = {(char *)bytes, (size_t)size};
    BIO_clear_retry_flags(bio);
    ssize_t sent = mare__socket_write(tls->fd, &piece, 1);
    if (sent == -EAGAIN)
        BIO_set_retry_write(bio);
    else if (sent < 0)
        tls->broken = (int)-sent;
    return sent < 0 ? -1 : (int)sent;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    const struct mare__tls *tls = BIO_get_data(bio);
    return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && tls->ended);
}

// Made once, like a constant.
static BIO_METHOD *descriptor_method;

static void make_method(void)
{
    descriptor_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mare");
    if (descriptor_method) {
        BIO_meth_set_read(descriptor_method, bio_read);
        BIO_meth_set_write(descriptor_method, bio_write);
        BIO_meth_set_ctrl(descriptor_method, bio_control);
    }
}

// ---- What went wrong ----------------------------------------------------------------------------

// Alerts by which a peer says that it does not like our certificate, or that there is none.
static bool is_about_certificate(int alert)
{
    return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
           alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
           alert == SSL_AD_CERTIFICATE_REQUIRED;
}

static void explain_alert(struct mare__tls_error *error, int alert)
{
    mare_err code = is_about_certificate(alert) ? MARE_DENIED : MARE_REFUSED;
    mare__tls_refuse(error, code, "the peer refused: %s", SSL_alert_desc_string_long(alert));
}

static const char versions[] = "there is no version of TLS that both sides allow";
static const char no_tls[] = "what came is not TLS";

static void explain(const struct mare__tls *tls, struct mare__tls_error *error)
{
    unsigned long err = ERR_peek_error();
    int reason = ERR_GET_REASON(err);
    const char *text = ERR_reason_error_string(err);
    if (ERR_GET_LIB(err) != ERR_LIB_SSL) {
        mare__tls_refuse(error, MARE_IO, "%s", text ? text : "OpenSSL failed");
        return;
    }
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        if (tls->refusal)
            *error = *tls->refusal;
        else
            mare__tls_refuse(error, MARE_DENIED, "the peer's certificate is not valid");
        return;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        mare__tls_refuse(error, MARE_DENIED, "the peer has given no certificate");
        return;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        if (tls->ready)
            mare__tls_refuse(error, MARE_IO, "the stream was cut off: TLS did not end it");
        else
            mare__tls_refuse(error, MARE_CLOSED, "the peer left during the handshake");
        return;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        mare__tls_refuse(error, MARE_REFUSED, "%s", versions);
        return;
    case SSL_R_NO_SHARED_CIPHER:
        mare__tls_refuse(error, MARE_REFUSED, "there is no cipher that both sides allow");
        return;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_UNKNOWN_PROTOCOL:
        mare__tls_refuse(error, MARE_BADMSG, "%s", no_tls);
        return;
    default:
        if (reason >= SSL_AD_REASON_OFFSET)
            explain_alert(error, reason - SSL_AD_REASON_OFFSET);
        else
            mare__tls_refuse(error, MARE_BADMSG, "TLS: %s", text ? text : "an error without name");
    }
}

// The session is over.
static int fail(struct mare__tls *tls)
{
    if (tls->broken && ERR_peek_error() == 0)
        return -tls->broken;
    if (!tls->error && (tls->error = mare__alloc(sizeof *tls->error)) != NULL)
        explain(tls, tls->error);
    tls->broken = EPROTO;
    ERR_clear_error();
    return -EPROTO;
}

// What a call to OpenSSL that has not succeeded means.
static int outcome(struct mare__tls *tls, int result, bool *to_write)
{
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        *to_write = false;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        *to_write = true;
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        return fail(tls);
    }
}

const struct mare__tls_error *mare__tls_failure(const struct mare__tls *tls)
{
    return tls->error ? tls->error : &no_memory;
}

// ---- The peer's certificate ---------------------------------------------------------------------

// OpenSSL tells what it found; what it calls an error stays one.
static int on_certificate(int good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct mare__tls *tls = SSL_get_app_data(ssl);
    if (good || tls->refusal || (tls->refusal = mare__alloc(sizeof *tls->refusal)) == NULL)
        return good;
    int err = X509_STORE_CTX_get_error(store);
    X509 *one = X509_STORE_CTX_get_current_cert(store);
    char text[160] = "";
    if (err == X509_V_ERR_HOSTNAME_MISMATCH || err == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        size_t size = one ? mare__tls_names(one, text, sizeof text) : 0;
        for (size_t i = 0; i + 1 < size; i++)
            text[i] = (char)(text[i] ? text[i] : ' ');
        mare__tls_refuse(tls->refusal, MARE_DENIED,
                         "the certificate is for another host: %s, not %s",
                         size > 0 ? text : "it names none", tls->name);
        return good;
    }
    if (one)
        mare__tls_name_text(X509_get_subject_name(one), text, sizeof text);
    mare__tls_refuse(tls->refusal, MARE_DENIED, "the certificate of '%s' is refused: %s", text,
                     X509_verify_cert_error_string(err));
    return good;
}

static bool expect_host(SSL *ssl, const char *name)
{
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    // The common name is no name of a host: RFC 9110 section 4.3.4, RFC 9525 section 6.3.
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                                X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return mare__tls_is_number(name) ? X509_VERIFY_PARAM_set1_ip_asc(wanted, name) == 1
                                     : X509_VERIFY_PARAM_set1_host(wanted, name, 0) == 1;
}

// ---- From birth to end --------------------------------------------------------------------------

static bool set_role(struct mare__tls *tls, struct mare__tls_error *error)
{
    enum mare__tls_verify verify = tls->rules->verify;
    if (tls->server) {
        int mode = verify == MARE__TLS_REQUIRE   ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                   : verify == MARE__TLS_REQUEST ? SSL_VERIFY_PEER
                                                 : SSL_VERIFY_NONE;
        SSL_set_verify(tls->ssl, mode, on_certificate);
        SSL_set_accept_state(tls->ssl);
        return SSL_get_privatekey(tls->ssl) != NULL ||
               mare__tls_refuse(error, MARE_INVALID, "a server needs a certificate");
    }
    bool checks = verify != MARE__TLS_NOBODY;
    if (checks && !tls->name)
        return mare__tls_refuse(error, MARE_INVALID,
                                "the name of the host is needed to verify its certificate");
    if (checks)
        mare__tls_rules_trust_system(tls->rules);
    SSL_set_verify(tls->ssl, checks ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, on_certificate);
    SSL_set_connect_state(tls->ssl);
    if (!tls->name)
        return true;
    return ((mare__tls_is_number(tls->name) || SSL_set_tlsext_host_name(tls->ssl, tls->name)) &&
            (!checks || expect_host(tls->ssl, tls->name))) ||
           mare__tls_refuse(error, MARE_INVALID, "'%.100s' cannot be the name of a host",
                            tls->name);
}

static bool start(struct mare__tls *tls, struct mare__tls_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    tls->ssl = SSL_new(tls->rules->ssl);
    BIO *bio = tls->ssl && descriptor_method ? BIO_new(descriptor_method) : NULL;
    if (!bio)
        return mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    return set_role(tls, error);
}

static char *copy(const char *bytes, size_t size)
{
    char *own = mare__alloc(size);
    if (own)
        memcpy(own, bytes, size);
    return own;
}

struct mare__tls *mare__tls_new(struct mare__tls_context *context, int fd, bool server,
                                const char *name, const char *early, size_t early_size,
                                struct mare__tls_error *error)
{
    ERR_clear_error();
    struct mare__tls *tls = mare__alloc_zero(sizeof *tls);
    if (tls) {
        tls->rules = mare__tls_rules_take(context);
        tls->fd = fd;
        tls->server = server;
        tls->name = name ? copy(name, strlen(name) + 1) : NULL;
        tls->early = early_size ? copy(early, early_size) : NULL;
        tls->early_end = early_size;
    }
    if (!tls || (name && !tls->name) || (early_size && !tls->early))
        mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    else if (start(tls, error))
        return tls;
    mare__tls_free(tls);
    return NULL;
}

void mare__tls_free(struct mare__tls *tls)
{
    if (!tls)
        return;
    SSL_free(tls->ssl);
    mare__tls_rules_drop(tls->rules);
    mare__free(tls->early);
    mare__free(tls->unsent);
    mare__free(tls->name);
    mare__free(tls->error);
    mare__free(tls->refusal);
    mare__free(tls);
}

// ---- What is asked of it ------------------------------------------------------------------------

bool mare__tls_is_ready(const struct mare__tls *tls)
{
    return tls->ready;
}

static int shake_hands(struct mare__tls *tls, bool *to_write)
{
    if (tls->broken)
        return -tls->broken;
    if (tls->ready)
        return 0;
    ERR_clear_error();
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1) {
        int err = outcome(tls, result, to_write);
        return err ? err : -EPIPE;
    }
    tls->ready = true;
    mare__free(tls->early);
    tls->early = NULL; // the rest of it is in OpenSSL's buffer
    return 0;
}

int mare__tls_handshake(struct mare__tls *tls)
{
    tls->moved = false;
    return shake_hands(tls, &tls->to_write[MARE__TLS_READS]);
}

ssize_t mare__tls_read(struct mare__tls *tls, void *bytes, size_t size)
{
    size_t got;
    bool *to_write = &tls->to_write[MARE__TLS_READS];
    tls->moved = false;
    int err = shake_hands(tls, to_write);
    if (err)
        return err;
    ERR_clear_error();
    int result = SSL_read_ex(tls->ssl, bytes, size, &got);
    return result == 1 ? (ssize_t)got : outcome(tls, result, to_write);
}

// Gives OpenSSL bytes that make a record at the most: how many it wrote.
static ssize_t put(struct mare__tls *tls, const char *bytes, size_t size)
{
    size_t sent;
    ERR_clear_error();
    int result = SSL_write_ex(tls->ssl, bytes, size, &sent);
    if (result == 1)
        return (ssize_t)sent;
    int err = outcome(tls, result, &tls->to_write[MARE__TLS_WRITES]);
    return err ? err : -EPIPE;
}

static int flush(struct mare__tls *tls)
{
    while (tls->unsent_size > 0) {
        ssize_t sent = put(tls, tls->unsent, tls->unsent_size);
        if (sent < 0)
            return (int)sent;
        tls->unsent_size -= (size_t)sent;
        memmove(tls->unsent, tls->unsent + sent, tls->unsent_size);
    }
    mare__free(tls->unsent);
    tls->unsent = NULL;
    return 0;
}

int mare__tls_flush(struct mare__tls *tls)
{
    tls->moved = false;
    int err = shake_hands(tls, &tls->to_write[MARE__TLS_WRITES]);
    return err ? err : flush(tls);
}

// The pieces, or what a record takes of them, as one; `room` is needed only if they are several.
static const char *gather(const struct iovec *pieces, int count, char room[RECORD_MAX],
                          size_t *size)
{
    *size = pieces->iov_len < RECORD_MAX ? pieces->iov_len : RECORD_MAX;
    if (count == 1 || *size == RECORD_MAX)
        return pieces->iov_base;
    *size = 0;
    for (int i = 0; i < count && *size < RECORD_MAX; i++) {
        size_t left = RECORD_MAX - *size;
        size_t part = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        memcpy(room + *size, pieces[i].iov_base, part);
        *size += part;
    }
    return room;
}

ssize_t mare__tls_write(struct mare__tls *tls, const struct iovec *pieces, int count)
{
    char room[RECORD_MAX];
    size_t size;
    int err = mare__tls_flush(tls);
    if (err)
        return err;
    if (tls->shut)
        return -EPIPE;
    const char *bytes = gather(pieces, count, room, &size);
    if (size == 0)
        return 0;
    ssize_t sent = put(tls, bytes, size);
    if (sent != -EAGAIN)
        return sent;
    tls->unsent = copy(bytes, size);
    if (!tls->unsent) { // what OpenSSL has begun could not be given to it again
        tls->broken = ENOMEM;
        return -ENOMEM;
    }
    tls->unsent_size = size;
    return (ssize_t)size;
}

int mare__tls_shutdown(struct mare__tls *tls)
{
    int err = mare__tls_flush(tls);
    if (err || tls->shut)
        return err;
    ERR_clear_error();
    int result = SSL_shutdown(tls->ssl); // 0: sent, and the peer has not answered with its own
    if (result < 0 && (err = outcome(tls, result, &tls->to_write[MARE__TLS_WRITES])) != 0)
        return err;
    tls->shut = true;
    return 0;
}

void mare__tls_leave(struct mare__tls *tls)
{
    if (tls->ready && !tls->broken)
        mare__tls_shutdown(tls);
    ERR_clear_error();
}

bool mare__tls_waits_to_write(const struct mare__tls *tls, int operation)
{
    return tls->to_write[operation];
}

void mare__tls_look(const struct mare__tls *tls, struct mare__tls_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    if (tls->ready)
        mare__tls_look_at(tls->ssl, facts);
}

bool mare__tls_moved(const struct mare__tls *tls)
{
    return tls->moved;
}
