// SPDX-License-Identifier: MIT
// Keys that both sides have from elsewhere, instead of certificates: external pre-shared keys of
// TLS 1.3 (RFC 8446 section 4.2.11; RFC 9257 says what to mind). The key itself never crosses the
// network. Each session has fresh keys by Diffie-Hellman beside it, so that somebody who gets hold
// of the key later cannot read what was said before (psk_dhe_ke; OpenSSL does no other).
//
// A key goes with a hash, here SHA-256, and only with suites that use it: so no others are allowed.
#include <openssl/rand.h>
#include <string.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "platform/tls_inner.h"

static const char suites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
static const unsigned char suite_of_keys[] = {0x13, 0x01}; // the first of them, on the wire

// One of the packed keys of a context.
struct key {
    const unsigned char *identity, *bytes;
    size_t identity_size, size;
};

// Reads the key that begins there, and finds where the next begins. False: no whole key is there.
static bool next_key(const struct mare__tls_rules *rules, size_t *at, struct key *key)
{
    const unsigned char *all = rules->keys;
    size_t left = rules->keys_size - *at;
    if (left < 1 || left < 1u + all[*at] + 2u)
        return false;
    key->identity = all + *at + 1;
    key->identity_size = all[*at];
    const unsigned char *size = key->identity + key->identity_size;
    key->size = (size_t)size[0] << 8 | size[1];
    key->bytes = size + 2;
    size_t whole = 1 + key->identity_size + 2 + key->size;
    *at += whole;
    return whole <= left;
}

static bool find_key(const struct mare__tls_rules *rules, const unsigned char *identity,
                     size_t size, struct key *key)
{
    struct key one;
    for (size_t at = 0; next_key(rules, &at, &one);)
        if (one.identity_size == size && memcmp(one.identity, identity, size) == 0) {
            *key = one;
            return true;
        }
    return false;
}

static const struct mare__tls_rules *rules_of(const SSL *ssl)
{
    return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

// Where a session has the identity of its key, with the byte before it; made once, like a constant.
static int identity_index = -1;

static void make_index(void)
{
    identity_index = SSL_SESSION_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

// What OpenSSL wants a key to be: a session that seems to have been agreed on before. NULL: not
// enough memory.
static SSL_SESSION *session_of(SSL *ssl, const struct key *key)
{
    const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, suite_of_keys);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && suite && SSL_SESSION_set_cipher(session, suite) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
        // The identity is the rules', which outlive the session.
        SSL_SESSION_set_ex_data(session, identity_index, (void *)(key->identity - 1)) == 1 &&
        // At last: see mare__secret_copy for why nothing should come behind it.
        SSL_SESSION_set1_master_key(session, key->bytes, key->size) == 1)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

// As a client. `hash`: that of the suite, if one has been chosen.
static int offer(SSL *ssl, const EVP_MD *hash, const unsigned char **identity, size_t *size,
                 SSL_SESSION **session)
{
    size_t at = 0;
    struct key key;
    *session = NULL;
    if ((hash && !EVP_MD_is_a(hash, "SHA256")) || !next_key(rules_of(ssl), &at, &key))
        return 1; // without
    *session = session_of(ssl, &key);
    *identity = key.identity;
    *size = key.identity_size;
    return *session != NULL;
}

// As a server. A peer with an unknown name is refused like one with a wrong key, and so cannot find
// out which names we know: RFC 8446 section 4.2.11 asks for that.
static int look_up(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session)
{
    unsigned char nobodys[32];
    struct key key = {.identity = (const unsigned char *)"" + 1, .bytes = nobodys, .size = 32};
    *session = NULL;
    if (!find_key(rules_of(ssl), identity, size, &key) && RAND_bytes(nobodys, 32) != 1)
        return 0;
    *session = session_of(ssl, &key);
    return *session != NULL;
}

static bool are_well_formed(const struct mare__tls_rules *rules)
{
    struct key key;
    size_t at = 0;
    while (at < rules->keys_size)
        if (!next_key(rules, &at, &key) || key.identity_size == 0 || key.size < MARE__TLS_KEY_MIN ||
            key.size > MARE__TLS_KEY_MAX)
            return false;
    return true;
}

bool mare__tls_use_keys(struct mare__tls_rules *rules, const struct mare__tls_options *options,
                        struct mare__tls_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_index);
    rules->keys = mare__alloc(options->keys_size);
    if (!rules->keys)
        return mare__tls_refuse(error, MARE_NOMEM, "%s", mare_strerror(MARE_NOMEM));
    mare__secret_copy(rules->keys, options->keys, options->keys_size);
    rules->keys_size = options->keys_size;
    if (!are_well_formed(rules))
        return mare__tls_refuse(error, MARE_INVALID, "psk: a key has %d to %d bytes",
                                MARE__TLS_KEY_MIN, MARE__TLS_KEY_MAX);
    SSL_CTX_set_app_data(rules->ssl, rules);
    SSL_CTX_set_num_tickets(rules->ssl, 0); // with which a session could do without the key
    SSL_CTX_set_psk_use_session_callback(rules->ssl, offer);
    SSL_CTX_set_psk_find_session_callback(rules->ssl, look_up);
    return (SSL_CTX_set_ciphersuites(rules->ssl, suites) == 1 &&
            SSL_CTX_set_min_proto_version(rules->ssl, TLS1_3_VERSION) == 1) ||
           mare__tls_refuse(error, MARE_INVALID, "psk: it needs TLS 1.3");
}

void mare__tls_forget_keys(struct mare__tls_rules *rules)
{
    if (rules->keys)
        OPENSSL_cleanse(rules->keys, rules->keys_size);
    mare__free(rules->keys);
}

bool mare__tls_key_identity(SSL *ssl, char identity[MARE__TLS_IDENTITY_MAX + 1])
{
    bool agreed = rules_of(ssl) && SSL_session_reused(ssl);
    const SSL_SESSION *session = agreed ? SSL_get0_session(ssl) : NULL;
    const unsigned char *found = session ? SSL_SESSION_get_ex_data(session, identity_index) : NULL;
    if (!found)
        return false;
    memcpy(identity, found + 1, *found);
    identity[*found] = '\0';
    return true;
}
