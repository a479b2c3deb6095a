// SPDX-License-Identifier: MIT
// What the files about TLS share.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "platform/tls.h"

// Never changed once sessions exist, but for what is under the mutex; referred to by the context
// and by the sessions made with it.
struct mare__tls_rules {
    atomic_uint references;
    SSL_CTX *ssl;
    enum mare__tls_verify verify;
    enum mare__tls_ocsp ocsp;
    struct mare__tls_staple *staple; // what a server gives, see tls_ocsp.c; under the mutex
    unsigned char *protocols;
    unsigned protocols_size;
    unsigned char *keys; // pre-shared, as in the options; NULL: there are certificates
    size_t keys_size;
    struct mare__tls_named
        *named;                  // what a server brings along instead, by the name it is asked for
    struct mare__tls_kept *kept; // sessions with servers, see tls_resume.c; under the mutex
    bool resumes;                // sessions are
    atomic_bool owes_system;     // the system's authorities are trusted, and not loaded yet
    pthread_mutex_t mutex;       // held while they are
};

// Before anything else is asked of OpenSSL, which would otherwise tidy up when the program exits,
// under the hands of threads that still run.
void mare__tls_begin(void);

struct mare__tls_rules *mare__tls_rules_take(struct mare__tls_context *context);
void mare__tls_rules_drop(struct mare__tls_rules *rules);

// For ALPN: "h2" and "http/1.1"; and whether the session was told to offer them.
extern const unsigned char mare__tls_http2[12];
bool mare__tls_offers_http2(const SSL *ssl);

// Loads the system's authorities, if they are meant and it has not been done.
void mare__tls_rules_trust_system(struct mare__tls_rules *rules);

// What the queue of errors says of a session. `ready`: its handshake was over; `refusal`: of the
// peer's certificate, or NULL.
void mare__tls_explain(const struct mare__tls_rules *rules, bool ready,
                       const struct mare__tls_error *refusal, struct mare__tls_error *error);
extern const char mare__tls_no_key[];

// Writes the error, as printf does; returns false.
bool mare__tls_refuse(struct mare__tls_error *error, mare_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Pre-shared keys (tls_psk.c): sessions use those of the options, and nothing else; they are wiped;
// the identity of the one that a session was agreed on by, if it was.
bool mare__tls_use_keys(struct mare__tls_rules *rules, const struct mare__tls_options *options,
                        struct mare__tls_error *error);
void mare__tls_forget_keys(struct mare__tls_rules *rules);
bool mare__tls_key_identity(SSL *ssl, char identity[MARE__TLS_IDENTITY_MAX + 1]);

// Sessions that are resumed (tls_resume.c): from now on they are, and `on_session` hears of those
// that a client could resume; keeps one with a host, or has the one that is kept used; forgets all.
bool mare__tls_resume(struct mare__tls_rules *rules, int (*on_session)(SSL *, SSL_SESSION *));
void mare__tls_keep_session(struct mare__tls_rules *rules, const char *name, SSL_SESSION *session);
void mare__tls_use_session(struct mare__tls_rules *rules, const char *name, SSL *ssl);
void mare__tls_forget_sessions(struct mare__tls_rules *rules);
int mare__tls_on_session(SSL *ssl, SSL_SESSION *session);

// OCSP responses (tls_ocsp.c): as a server, what is given from now on, and to this session; as a
// client, whether what was given is good, or nothing was and that will do.
bool mare__tls_use_staple(struct mare__tls_rules *rules, const char *source, size_t size,
                          struct mare__tls_error *error);
bool mare__tls_give_staple(SSL *ssl, struct mare__tls_rules *rules);
bool mare__tls_verify_staple(SSL *ssl, bool required, struct mare__tls_error *error);
int mare__tls_on_status(SSL *ssl, void *rules);

// The names of a certificate, each with its zero byte; returns their size.
size_t mare__tls_names(X509 *certificate, char *names, size_t room);

// A name as one line of text.
void mare__tls_name_text(const X509_NAME *name, char *text, size_t room);

// What a certificate says of itself, as facts about the peer that has it.
void mare__tls_look_at_certificate(X509 *certificate, struct mare__tls_facts *facts);

// Adds alternative names, hosts or numbers; an extension, as OpenSSL's configuration writes it
// (`issuer`: NULL if that says nothing of it).
bool mare__tls_add_names(X509 *certificate, const char *const *names, int count);
bool mare__tls_add_extension(X509 *certificate, X509 *issuer, int kind, const char *value);

// What was written to a BIO, as text to be freed; or NULL.
char *mare__tls_text_of(BIO *bio);

// A private key, from text in PEM form and to it (Ed25519 alone), to be wiped and freed. NULL:
// OpenSSL says why, or there was not enough memory.
EVP_PKEY *mare__tls_read_key(const char *text, pem_password_cb *password, void *user);
char *mare__tls_write_key(const EVP_PKEY *key);

// What a session says of itself.
void mare__tls_look_at(SSL *ssl, struct mare__tls_facts *facts);

// Whether a host is given by its number.
bool mare__tls_is_number(const char *host);
