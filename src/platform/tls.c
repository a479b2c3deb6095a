// SPDX-License-Identifier: MIT
// Sessions. OpenSSL reads and writes the transport below through a BIO of ours, so that bytes are
// not copied once more, and it is known whether anything was read.
//
// What OpenSSL has begun to write it must be given again, and nothing else before it. So bytes that
// it could not write at once are kept here until it has:
//
//   write: bytes --> a record --> below          flush: `unsent` --> record --> below
//                       '--> `unsent`, if it is full
//
// OpenSSL keeps a queue of errors per thread, and a session's routine may move between threads. So
// each call to OpenSSL begins with an empty queue.
#include "platform/tls.h"

#include <errno.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/tls_inner.h"

enum { RECORD_MAX = 16384 };

struct tls {
    struct mare__transport transport;
    struct mare__transport *below;
    SSL *ssl;
    struct mare__tls_rules *rules;
    uint64_t handshake_until;
    bool server;
    bool http2; // it is offered
    bool ready; // the handshake is over, and went well
    bool ended; // the transport below has no more to read
    bool dry;   // the last read below took all there was
    bool shut;  // the peer was told that we send no more
    bool closed;
    bool to_write[MARE__WAYS]; // by what was asked for: whether the way below is to write
    int broken;                // an errno value: what reading or writing below came to
    char *early;
    size_t early_first, early_end;
    char *unsent;
    size_t unsent_size;
    char *name;                      // of the host that a client wants
    struct mare__tls_error *error;   // what ended the session
    struct mare__tls_error *refusal; // of the peer's certificate
};

static struct tls *of(struct mare__transport *transport)
{
    return (struct tls *)transport;
}

static const struct tls *constant(const struct mare__transport *transport)
{
    return (const struct tls *)transport;
}

static const struct mare__tls_error no_memory = {MARE_NOMEM, "not enough memory"};

// ---- Below --------------------------------------------------------------------------------------

static int bio_read(BIO *bio, char *bytes, int size)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    size_t early = tls->early_end - tls->early_first;
    if (early > 0) {
        size_t part = early < (size_t)size ? early : (size_t)size;
        memcpy(bytes, tls->early + tls->early_first, part);
        tls->early_first += part;
        tls->transport.moved = true;
        tls->dry = false;
        return (int)part;
    }
    ssize_t got = mare__transport_read(tls->below, bytes, (size_t)size);
    if (got == -EAGAIN) {
        BIO_set_retry_read(bio);
        return -1;
    }
    tls->transport.moved = true;
    tls->dry = tls->below->ops->plain && got > 0 && got < size;
    tls->ended = got == 0;
    if (got < 0)
        tls->broken = (int)-got;
    return got < 0 ? -1 : (int)got;
}

static int bio_write(BIO *bio, const char *bytes, int size)
{
    struct tls *tls = BIO_get_data(bio);
    struct iovec piece = {(char *)bytes, (size_t)size};
    BIO_clear_retry_flags(bio);
    ssize_t sent = mare__transport_write(tls->below, &piece, 1);
    if (sent == -EAGAIN)
        BIO_set_retry_write(bio);
    else if (sent < 0)
        tls->broken = (int)-sent;
    return sent < 0 ? -1 : (int)sent;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    const struct tls *tls = BIO_get_data(bio);
    return command == BIO_CTRL_FLUSH || (command == BIO_CTRL_EOF && tls->ended);
}

// Made once, like a constant.
static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mare");
    if (method) {
        BIO_meth_set_read(method, bio_read);
        BIO_meth_set_write(method, bio_write);
        BIO_meth_set_ctrl(method, bio_control);
    }
}

// ---- What went wrong ----------------------------------------------------------------------------

// Empties the queue before a call. It is nearly always empty, and looking is cheaper than clearing.
static void forget_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

// The session is over.
static int fail(struct tls *tls)
{
    if (tls->broken && ERR_peek_error() == 0)
        return -tls->broken;
    if (!tls->error && (tls->error = mare__alloc(sizeof *tls->error)) != NULL)
        mare__tls_explain(tls->rules, tls->ready, tls->refusal, tls->error);
    tls->broken = EPROTO;
    ERR_clear_error();
    return -EPROTO;
}

// Interprets a call to OpenSSL that has not succeeded.
static int outcome(struct tls *tls, int result, bool *to_write)
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

static const struct mare__tls_error *failure(const struct mare__transport *transport)
{
    const struct tls *tls = constant(transport);
    return tls->error ? tls->error : &no_memory;
}

// ---- The peer's certificate ---------------------------------------------------------------------

// OpenSSL tells what it found; what it calls an error stays one.
static int on_certificate(int good, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *tls = SSL_get_app_data(ssl);
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
    if (tls->rules->keys) {
        mare__tls_refuse(tls->refusal, MARE_DENIED, "%s", mare__tls_no_key);
        return good;
    }
    if (one)
        mare__tls_name_text(X509_get_subject_name(one), text, sizeof text);
    mare__tls_refuse(tls->refusal, MARE_DENIED, "the certificate of '%s' is refused: %s", text,
                     X509_verify_cert_error_string(err));
    return good;
}

// A server is asked for an OCSP response of its certificate, or a client has come to where it would
// have got one.
int mare__tls_on_status(SSL *ssl, void *rules)
{
    struct tls *tls = SSL_get_app_data(ssl);
    if (tls->server)
        return mare__tls_give_staple(ssl, rules) ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
    struct mare__tls_error error;
    if (mare__tls_verify_staple(ssl, tls->rules->ocsp == MARE__TLS_REQUIRE_OCSP, &error))
        return 1;
    if (!tls->refusal && (tls->refusal = mare__alloc(sizeof *tls->refusal)) != NULL)
        *tls->refusal = error;
    return 0;
}

// A session that a client could resume: it is kept with the name that was verified, if one was.
int mare__tls_on_session(SSL *ssl, SSL_SESSION *session)
{
    const struct tls *tls = SSL_get_app_data(ssl);
    bool sure = tls->rules->verify == MARE__TLS_NOBODY || SSL_get_verify_result(ssl) == X509_V_OK;
    if (!tls->server && tls->name && sure)
        mare__tls_keep_session(tls->rules, tls->name, session);
    return 0; // it was not taken, but copied
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

static bool set_role(struct tls *tls, struct mare__tls_error *error)
{
    enum mare__tls_verify verify = tls->rules->verify;
    if (tls->server) {
        int mode = verify == MARE__TLS_REQUIRE   ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                   : verify == MARE__TLS_REQUEST ? SSL_VERIFY_PEER
                                                 : SSL_VERIFY_NONE;
        SSL_set_verify(tls->ssl, mode, on_certificate);
        SSL_set_accept_state(tls->ssl);
        if (mode != SSL_VERIFY_NONE) { // who comes back must show his certificate again
            SSL_set_options(tls->ssl, SSL_OP_NO_TICKET);
            SSL_set_num_tickets(tls->ssl, 0);
        }
        return tls->rules->keys || SSL_get_privatekey(tls->ssl) != NULL ||
               mare__tls_refuse(error, MARE_INVALID, "%s", mare__tls_no_server);
    }
    // With a pre-shared key nobody else is believed: a certificate is refused in any case.
    bool checks = verify != MARE__TLS_NOBODY || tls->rules->keys;
    if (checks && !tls->rules->keys && !tls->name)
        return mare__tls_refuse(error, MARE_INVALID,
                                "the name of the host is needed to verify its certificate");
    if (checks)
        mare__tls_rules_trust_system(tls->rules);
    SSL_set_verify(tls->ssl, checks ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, on_certificate);
    SSL_set_connect_state(tls->ssl);
    if (tls->rules->ocsp != MARE__TLS_UNASKED)
        SSL_set_tlsext_status_type(tls->ssl, TLSEXT_STATUSTYPE_ocsp);
    if (!tls->name)
        return true;
    if (tls->rules->resumes)
        mare__tls_use_session(tls->rules, tls->name, tls->ssl);
    return ((mare__tls_is_number(tls->name) || SSL_set_tlsext_host_name(tls->ssl, tls->name)) &&
            (!checks || expect_host(tls->ssl, tls->name))) ||
           mare__tls_refuse(error, MARE_INVALID, "'%.100s' cannot be the name of a host",
                            tls->name);
}

static bool start(struct tls *tls, struct mare__tls_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    tls->ssl = SSL_new(tls->rules->ssl);
    BIO *bio = tls->ssl && method ? BIO_new(method) : NULL;
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

// Frees a session, also one that was only half made, but not the transport below.
static void destroy(struct tls *tls)
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

static int shake_hands(struct tls *tls, bool *to_write)
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
    char identity[MARE__TLS_IDENTITY_MAX + 1];
    if (tls->rules->keys && !mare__tls_key_identity(tls->ssl, identity))
        return fail(tls); // which cannot be: nothing else was allowed
    tls->ready = tls->transport.settled = true;
    mare__free(tls->early);
    tls->early = NULL; // the rest of it is in OpenSSL's buffer
    return 0;
}

static ssize_t read_some(struct mare__transport *transport, void *bytes, size_t size)
{
    struct tls *tls = of(transport);
    size_t got;
    bool *to_write = &tls->to_write[MARE__TO_READ];
    tls->transport.moved = tls->transport.settled = tls->transport.dry = false;
    int err = shake_hands(tls, to_write);
    if (err)
        return err;
    forget_errors();
    int result = SSL_read_ex(tls->ssl, bytes, size, &got);
    ssize_t count = result == 1 ? (ssize_t)got : outcome(tls, result, to_write);
    if (count >= 0)
        tls->transport.moved = true; // there may be another record, or the end for others too
    if (count > 0 && tls->dry && !SSL_has_pending(tls->ssl)) {
        tls->transport.dry = true;
        *to_write = false; // what comes next is for the transport below to tell
    }
    return count;
}

// Gives OpenSSL bytes that make a record at the most: how many it wrote.
static ssize_t put(struct tls *tls, const char *bytes, size_t size)
{
    size_t sent;
    forget_errors();
    int result = SSL_write_ex(tls->ssl, bytes, size, &sent);
    if (result == 1)
        return (ssize_t)sent;
    int err = outcome(tls, result, &tls->to_write[MARE__TO_WRITE]);
    return err ? err : -EPIPE;
}

static int put_unsent(struct tls *tls)
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

static int flush(struct mare__transport *transport)
{
    struct tls *tls = of(transport);
    tls->transport.moved = tls->transport.settled = false;
    int err = shake_hands(tls, &tls->to_write[MARE__TO_WRITE]);
    return err ? err : put_unsent(tls);
}

// Joins the pieces, as far as one record takes them. `room` is used only if there are several.
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

// Takes a record at the most.
static ssize_t write_some(struct mare__transport *transport, struct iovec *pieces, int count)
{
    struct tls *tls = of(transport);
    char room[RECORD_MAX];
    size_t size;
    int err = flush(transport);
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

static int shut_down(struct mare__transport *transport)
{
    struct tls *tls = of(transport);
    int err = flush(transport);
    if (err || tls->shut)
        return err;
    ERR_clear_error();
    int result = SSL_shutdown(tls->ssl); // 0: sent, and the peer has not answered with its own
    if (result < 0 && (err = outcome(tls, result, &tls->to_write[MARE__TO_WRITE])) != 0)
        return err;
    tls->shut = true;
    return 0;
}

static void waits(const struct mare__transport *transport, int *way, uint64_t *deadline)
{
    const struct tls *tls = constant(transport);
    *way = tls->to_write[*way] ? MARE__TO_WRITE : MARE__TO_READ;
    if (!tls->ready && tls->handshake_until < *deadline)
        *deadline = tls->handshake_until;
    mare__transport_waits(tls->below, way, deadline);
}

static mare_channel *await(struct mare__transport *transport, int way)
{
    return mare__transport_await(of(transport)->below, way);
}

// What TLS itself holds is not looked for.
static bool is_open(struct mare__transport *transport, int way)
{
    struct mare__transport *below = of(transport)->below;
    return below->ops->is_open(below, way);
}

// Tells the peer that the session ends, if that needs no waiting.
static void close_it(struct mare__transport *transport, bool cut)
{
    struct tls *tls = of(transport);
    if (tls->closed) // so that the descriptor may be another's by now
        return;
    tls->closed = true;
    if (tls->ready && !tls->broken && !cut)
        shut_down(transport);
    ERR_clear_error();
    mare__transport_close(tls->below, cut);
}

static void release(struct mare__transport *transport)
{
    mare__transport_release(of(transport)->below);
    destroy(of(transport));
}

static int descriptor(const struct mare__transport *transport)
{
    const struct mare__transport *below = constant(transport)->below;
    return below->ops->descriptor(below);
}

static bool facts_of(const struct mare__transport *transport, struct mare__tls_facts *facts)
{
    const struct tls *tls = constant(transport);
    memset(facts, 0, sizeof *facts);
    if (tls->ready)
        mare__tls_look_at(tls->ssl, facts);
    return true;
}

static const struct mare__transport_ops ops = {
    .read = read_some,
    .write = write_some,
    .flush = flush,
    .shutdown = shut_down,
    .waits = waits,
    .await = await,
    .is_open = is_open,
    .close = close_it,
    .release = release,
    .descriptor = descriptor,
    .failure = failure,
    .facts = facts_of,
    .plain = false,
};

struct mare__transport *mare__tls_new(struct mare__tls_context *context,
                                      struct mare__transport *below,
                                      const struct mare__tls_session *session,
                                      struct mare__tls_error *error)
{
    ERR_clear_error();
    size_t early = session->early_size;
    struct tls *tls = mare__alloc_zero(sizeof *tls);
    if (tls) {
        tls->transport.ops = &ops;
        tls->below = below;
        tls->rules = mare__tls_rules_take(context);
        tls->handshake_until = session->handshake_until;
        tls->server = session->server;
        tls->name = session->name ? copy(session->name, strlen(session->name) + 1) : NULL;
        tls->early = early ? copy(session->early, early) : NULL;
        tls->early_end = early;
    }
    if (!tls || (session->name && !tls->name) || (early && !tls->early))
        mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    else if (start(tls, error))
        return &tls->transport;
    destroy(tls);
    return NULL;
}

const unsigned char mare__tls_http2[12] = "\2h2\10http/1.1";

bool mare__tls_offers_http2(const SSL *ssl)
{
    const struct tls *tls = SSL_get_app_data(ssl);
    return tls && tls->http2;
}

bool mare__tls_offer_http2(struct mare__transport *transport)
{
    if (transport->ops != &ops)
        return false;
    struct tls *tls = of(transport);
    tls->http2 = true;
    if (!tls->server && tls->rules->protocols_size == 0)
        SSL_set_alpn_protos(tls->ssl, mare__tls_http2, sizeof mare__tls_http2);
    return true;
}
