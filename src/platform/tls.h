// SPDX-License-Identifier: MIT
// TLS 1.2 and 1.3 by OpenSSL, whose headers no other folder includes. A context has the settings of
// one side: its certificates, whom it trusts, what it allows. A session is one connection: a
// transport over another transport.
#pragma once

#include <mare.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/object.h"
#include "platform/lock.h"
#include "platform/transport.h"

struct mare__tls_error {
    mare_err code;
    char text[248];
};

// ---- Contexts -----------------------------------------------------------------------------------
// How a side verifies its peer. A client verifies the server in every mode but NOBODY. A server
// asks for the client's certificate in the last two: REQUEST also takes a client without one.
enum mare__tls_verify { MARE__TLS_NOBODY, MARE__TLS_SERVERS, MARE__TLS_REQUEST, MARE__TLS_REQUIRE };

// Whether a client asks for an OCSP response on the server's certificate, which must be good if
// there is one; and whether there must be one.
enum mare__tls_ocsp { MARE__TLS_UNASKED, MARE__TLS_CHECK_OCSP, MARE__TLS_REQUIRE_OCSP };

struct mare__tls_options {
    const char *certificate, *key; // paths of PEM files, or PEM text; NULL: none
    const char *password;          // of the key, or NULL
    const char *authorities;       // a file, a folder or text; NULL: the system's
    const char *revoked;           // lists of whom they have revoked: a file or text; NULL: none
    const char *ciphers, *suites;  // of TLS 1.2, of 1.3; NULL: ours, OpenSSL's
    const char *protocols;         // for ALPN: each name after a byte with its length
    size_t protocols_size;
    // Keys that both sides have, instead of certificates: for each its identity, after a byte with
    // the length of that, and the key after two, the more significant first. A client offers the
    // first, a server takes any. NULL: none.
    const char *keys;
    size_t keys_size;
    // An OCSP response that a server gives: DER, or the path of a file; NULL: none.
    const char *staple;
    size_t staple_size;
    enum mare__tls_verify verify;
    enum mare__tls_ocsp ocsp;
    int oldest, newest; // versions: 2 for TLS 1.2, 3 for TLS 1.3
    bool resumes;       // sessions are resumed
};

// Bytes of such a key, and of its identity at the most.
enum { MARE__TLS_KEY_MIN = 16, MARE__TLS_KEY_MAX = 256, MARE__TLS_IDENTITY_MAX = 255 };

struct mare__tls_rules; // what new sessions are made with

// Any thread may use it, and it may be shared between processes.
struct mare__tls_context {
    struct mare__object object;
    mare__lock lock; // guards `rules`
    struct mare__tls_rules *rules;
};

// Reads files, so it may be slow once. NULL: `error` tells why.
struct mare__tls_context *mare__tls_context_new(const struct mare__tls_options *options,
                                                struct mare__tls_error *error);

// Whether a server can be made with it: it has a certificate and its key, or pre-shared keys.
bool mare__tls_context_serves(struct mare__tls_context *context);
extern const char mare__tls_no_server[]; // what is said if not

// Whether clients made with it verify servers by the system's authorities, which nobody has read
// yet: the first such client does, or an earlier call of the other function. That reads files.
bool mare__tls_context_owes(struct mare__tls_context *context);
void mare__tls_context_trust(struct mare__tls_context *context);

// As a server that is asked for this name ("*.host" is any one word before ".host"), it uses what
// the other context has now. Before sessions are made with it. False: not enough memory.
bool mare__tls_context_name(struct mare__tls_context *context, const char *name,
                            struct mare__tls_context *other);

// From now on sessions are made as by the other one; those that exist stay as they are.
void mare__tls_context_replace(struct mare__tls_context *context, struct mare__tls_context *other);

// From now on it gives another OCSP response, as in the options. Reads a file, so it may be slow.
// False: `error` tells why, and nothing has changed.
bool mare__tls_context_staple(struct mare__tls_context *context, const char *source, size_t size,
                              struct mare__tls_error *error);

// Frees what OpenSSL keeps for the calling thread. OpenSSL makes it again when it needs it.
void mare__tls_leave_thread(void);

// ---- Sessions -----------------------------------------------------------------------------------

struct mare__tls_session {
    bool server;
    const char *name;  // of the host that a client wants, or its number: needed if it verifies
    const char *early; // bytes that were read from the transport before
    size_t early_size;
    uint64_t handshake_until; // a deadline of the runtime's clock
};

// A transport whose bytes go through TLS over the other one, which belongs to it from then on. The
// handshake is made by the first call that reads, writes or flushes; until it is over, none waits
// longer than for its deadline. -EPROTO: see `failure`, and the session is over. NULL: `error`
// tells why, and the other one is as it was.
struct mare__transport *mare__tls_new(struct mare__tls_context *context,
                                      struct mare__transport *below,
                                      const struct mare__tls_session *session,
                                      struct mare__tls_error *error);

// Before the handshake: HTTP/2 and HTTP/1.1 are offered by ALPN, unless the context says what is.
// False: it is no transport of TLS.
bool mare__tls_offer_http2(struct mare__transport *transport);

// What was agreed on, and who the peer is, once the handshake is over. Texts that do not fit are
// cut.
struct mare__tls_facts {
    const char *version, *cipher; // static; NULL before the handshake is over
    const char *server_name;      // that the client asked for, or NULL
    char protocol[256];           // by ALPN; empty: none
    bool resumed;                 // the session is
    bool stapled;  // the server has given an OCSP response, which a client has verified
    bool verified; // the peer has shown who it is: its certificate was asked for and is valid, or
                   // it has the key
    char identity[MARE__TLS_IDENTITY_MAX + 1]; // of the pre-shared key; empty: there was none
    bool has_peer;                             // it gave a certificate, and what follows is of that
    char subject[512], issuer[512];
    char names[4096]; // each with its zero byte
    size_t names_size;
    char fingerprint[65];   // SHA-256, in hexadecimal
    int64_t expires;        // in seconds since 1970
    char certificate[8192]; // the peer's, as PEM text; empty: it is longer, or not a connection's
};

// ---- Certificates -------------------------------------------------------------------------------
// A new key and a certificate for some names, signed by that key itself, as PEM text, to be freed.
// Negative `seconds`: it has expired.
bool mare__tls_selfsigned(const char *const *names, int count, int64_t seconds, char **certificate,
                          char **key, struct mare__tls_error *error);
