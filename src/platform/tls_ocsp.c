// SPDX-License-Identifier: MIT
// What an authority says of a certificate today (OCSP, RFC 6960), given by the server in the
// handshake (stapled, RFC 6066 section 8): a server gives what it was given, a client that wants it
// verifies it. Nobody is asked over the network here.
//
// What a server gives belongs to its rules. It is the one thing of them that changes while sessions
// are made, under their mutex.
#include <errno.h>
#include <openssl/ocsp.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "platform/file.h"
#include "platform/tls_inner.h"

enum {
    RESPONSE_MOST = 65536,    // bytes
    SKEW = 300,               // seconds by which clocks may differ
    AGE_MOST = 7 * 24 * 3600, // of a response that does not say how long it holds, in seconds
};

struct mare__tls_staple {
    int64_t until; // seconds since 1970; INT64_MAX: it does not say
    int size;
    unsigned char bytes[];
};

// ---- What a server gives ------------------------------------------------------------------------

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm parts;
    return time && ASN1_TIME_to_tm(time, &parts) == 1 ? (int64_t)timegm(&parts) : INT64_MAX;
}

// What is said of the certificate with this number, or NULL. The answer alone verifies nothing.
static OCSP_SINGLERESP *by_number(OCSP_BASICRESP *basic, const ASN1_INTEGER *wanted)
{
    for (int i = 0; i < OCSP_resp_count(basic); i++) {
        OCSP_SINGLERESP *one = OCSP_resp_get0(basic, i);
        ASN1_INTEGER *number;
        OCSP_id_get0_info(NULL, NULL, NULL, &number, (OCSP_CERTID *)OCSP_SINGLERESP_get0_id(one));
        if (ASN1_INTEGER_cmp(number, wanted) == 0)
            return one;
    }
    return NULL;
}

// The body of a response in DER form. NULL: it is not a response, or one without a body.
static OCSP_BASICRESP *body_of(const unsigned char *bytes, size_t size)
{
    const unsigned char *at = bytes;
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE(NULL, &at, (long)size);
    bool whole = response && at == bytes + size &&
                 OCSP_response_status(response) == OCSP_RESPONSE_STATUS_SUCCESSFUL;
    OCSP_BASICRESP *basic = whole ? OCSP_response_get1_basic(response) : NULL;
    OCSP_RESPONSE_free(response);
    return basic;
}

// Whether what was given is a response, and not the path of one: an ASN.1 sequence of that size.
static bool is_response(const char *source, size_t size)
{
    return size > 2 && source[0] == 0x30 &&
           ((unsigned char)source[1] >= 0x80 || (size_t)source[1] == size - 2);
}

static struct mare__tls_staple *make(const struct mare__tls_rules *rules, const char *bytes,
                                     size_t size, const char *called, struct mare__tls_error *error)
{
    struct mare__tls_staple *made = NULL;
    const X509 *own = SSL_CTX_get0_certificate(rules->ssl);
    OCSP_BASICRESP *basic = body_of((const unsigned char *)bytes, size);
    OCSP_SINGLERESP *one = basic && own ? by_number(basic, X509_get0_serialNumber(own)) : NULL;
    if (!own)
        mare__tls_refuse(error, MARE_INVALID, "staple: there is no certificate");
    else if (!basic)
        mare__tls_refuse(error, MARE_BADMSG, "staple: %s: no OCSP response in DER form", called);
    else if (!one)
        mare__tls_refuse(error, MARE_BADMSG, "staple: %s: it is about another certificate", called);
    else if ((made = mare__alloc(sizeof *made + size)) == NULL)
        mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    if (made) {
        ASN1_GENERALIZEDTIME *until = NULL;
        OCSP_single_get0_status(one, NULL, NULL, NULL, &until);
        made->until = seconds_of(until);
        made->size = (int)size;
        memcpy(made->bytes, bytes, size);
    }
    OCSP_BASICRESP_free(basic);
    return made;
}

bool mare__tls_use_staple(struct mare__tls_rules *rules, const char *source, size_t size,
                          struct mare__tls_error *error)
{
    char *loaded = NULL;
    const char *called = is_response(source, size) ? "what was given" : source;
    ERR_clear_error();
    if (called == source) {
        int err = mare__files_live.load(NULL, source, RESPONSE_MOST, &loaded, &size);
        if (err < 0)
            return mare__tls_refuse(error, err == -EACCES ? MARE_DENIED : MARE_IO, "staple: %s: %s",
                                    source, strerror(-err));
        source = loaded;
    }
    struct mare__tls_staple *made = make(rules, source, size, called, error);
    mare__free(loaded);
    if (!made)
        return false;
    pthread_mutex_lock(&rules->mutex);
    struct mare__tls_staple *before = rules->staple;
    rules->staple = made;
    pthread_mutex_unlock(&rules->mutex);
    mare__free(before);
    return true;
}

bool mare__tls_context_staple(struct mare__tls_context *context, const char *source, size_t size,
                              struct mare__tls_error *error)
{
    struct mare__tls_rules *rules = mare__tls_rules_take(context);
    bool done = mare__tls_use_staple(rules, source, size, error);
    mare__tls_rules_drop(rules);
    return done;
}

// One that holds no more is not given: a client would refuse us because of it, and may do without.
bool mare__tls_give_staple(SSL *ssl, struct mare__tls_rules *rules)
{
    unsigned char *copy = NULL;
    int size = 0;
    pthread_mutex_lock(&rules->mutex);
    const struct mare__tls_staple *staple = rules->staple;
    if (staple && staple->until > (int64_t)time(NULL)) {
        size = staple->size;
        copy = OPENSSL_memdup(staple->bytes, (size_t)size);
    }
    pthread_mutex_unlock(&rules->mutex);
    return copy && SSL_set_tlsext_status_ocsp_resp(ssl, copy, size) == 1; // which takes it over
}

// ---- What a client verifies ---------------------------------------------------------------------

// What is said of a certificate of that issuer, or NULL.
static OCSP_SINGLERESP *said_of(OCSP_BASICRESP *basic, const X509 *certificate, const X509 *issuer)
{
    for (int i = 0; i < OCSP_resp_count(basic); i++) {
        OCSP_SINGLERESP *one = OCSP_resp_get0(basic, i);
        const OCSP_CERTID *id = OCSP_SINGLERESP_get0_id(one);
        ASN1_OBJECT *digest;
        OCSP_id_get0_info(NULL, &digest, NULL, NULL, (OCSP_CERTID *)id);
        const EVP_MD *by = EVP_get_digestbyobj(digest);
        OCSP_CERTID *own = by ? OCSP_cert_to_id(by, certificate, issuer) : NULL;
        bool is_it = own && OCSP_id_cmp(own, id) == 0;
        OCSP_CERTID_free(own);
        if (is_it)
            return one;
    }
    return NULL;
}

static bool is_good(SSL *ssl, OCSP_BASICRESP *basic, struct mare__tls_error *error)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    int last = sk_X509_num(chain) - 1, reason = -1;
    if (last < 0 || OCSP_basic_verify(basic, SSL_get_peer_cert_chain(ssl),
                                      SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl)), 0) != 1)
        return mare__tls_refuse(error, MARE_DENIED,
                                "the OCSP response is not the authority's: its signature is not "
                                "valid");
    // A certificate that is trusted itself may stand alone, and be its own issuer.
    OCSP_SINGLERESP *one = said_of(basic, sk_X509_value(chain, 0), sk_X509_value(chain, last > 0));
    if (!one)
        return mare__tls_refuse(error, MARE_DENIED,
                                "the OCSP response is about another certificate");
    ASN1_GENERALIZEDTIME *since = NULL, *until = NULL;
    int status = OCSP_single_get0_status(one, &reason, NULL, &since, &until);
    if (OCSP_check_validity(since, until, SKEW, until ? -1 : AGE_MOST) != 1)
        return mare__tls_refuse(error, MARE_DENIED, "the OCSP response does not hold now");
    if (status == V_OCSP_CERTSTATUS_REVOKED)
        return mare__tls_refuse(error, MARE_DENIED, "the certificate was revoked (%s)",
                                reason < 0 ? "no reason was given" : OCSP_crl_reason_str(reason));
    return status == V_OCSP_CERTSTATUS_GOOD ||
           mare__tls_refuse(error, MARE_DENIED, "the authority does not know the certificate");
}

bool mare__tls_verify_staple(SSL *ssl, bool required, struct mare__tls_error *error)
{
    const unsigned char *bytes = NULL;
    if (SSL_session_reused(ssl)) // it was verified when the session began
        return true;
    long size = SSL_get_tlsext_status_ocsp_resp(ssl, &bytes);
    if (!bytes || size <= 0) {
        X509 *certificate = SSL_get0_peer_certificate(ssl); // which may say that it must (RFC 7633)
        required =
            required || !certificate || X509_get_ext_by_NID(certificate, NID_tlsfeature, -1) >= 0;
        return !required || mare__tls_refuse(error, MARE_DENIED,
                                             "the server has given no OCSP "
                                             "response for its certificate");
    }
    OCSP_BASICRESP *basic = body_of(bytes, (size_t)size);
    bool good = basic ? is_good(ssl, basic, error)
                      : mare__tls_refuse(error, MARE_DENIED,
                                         "what the server has given is no OCSP response");
    OCSP_BASICRESP_free(basic);
    return good;
}
