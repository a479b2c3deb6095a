// SPDX-License-Identifier: MIT
// TLS 1.2 and 1.3 by OpenSSL, whose headers no other folder includes. A context is what one side
// brings along: certificates, whom it trusts, what it allows. A session is one connection, over a
// descriptor that never blocks.
#pragma once

#include <mare.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/object.h"
#include "platform/lock.h"
#include "platform/socket.h"

struct mare__tls_error {
    mare_err code;
    char text[248];
};

// ---- Contexts -----------------------------------------------------------------------------------
// Whom a side wants to know. As a client, all but NOBODY mean the server. As a server, only the
// last two mean anything: a client is asked for its certificate, and may, or may not, have none.
enum mare__tls_verify { MARE__TLS_NOBODY, MARE__TLS_SERVERS, MARE__TLS_REQUEST, MARE__TLS_REQUIRE };

struct mare__tls_options {
    const char *certificate, *key; // paths of PEM files, or PEM text; NULL: none
    const char *password;          // of the key, or NULL
    const char *authorities;       // a file, a folder or text; NULL: the system's
    const char *ciphers, *suites;  // of TLS 1.2, of 1.3; NULL: OpenSSL's choice
    const char *protocols;         // for ALPN: each name after a byte with its length
    size_t protocols_size;
    enum mare__tls_verify verify;
    int oldest, newest; // versions: 2 for TLS 1.2, 3 for TLS 1.3
};

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

// Whether a server can be made with it: it has a certificate and its key.
bool mare__tls_context_serves(struct mare__tls_context *context);

// Whether clients made with it verify servers by the system's authorities, which nobody has read
// yet: the first such client does, or whoever calls the other one before. That reads files.
bool mare__tls_context_owes(struct mare__tls_context *context);
void mare__tls_context_trust(struct mare__tls_context *context);

// As a server that is asked for this name ("*.host" is any one word before ".host"), it uses what
// the other context has now. Before sessions are made with it. False: not enough memory.
bool mare__tls_context_name(struct mare__tls_context *context, const char *name,
                            struct mare__tls_context *other);

// From now on sessions are made as by the other one; those that exist stay as they are.
void mare__tls_context_replace(struct mare__tls_context *context, struct mare__tls_context *other);

// Gives back what OpenSSL keeps for the calling thread; it gets it again when it needs it.
void mare__tls_leave_thread(void);

// ---- Sessions -----------------------------------------------------------------------------------
// One thread at a time may use a session. Its calls return a number of bytes, or 0; or an errno
// value, negated: -EAGAIN, not now (mare__tls_waits_to_write tells what for); -EPROTO, see
// mare__tls_failure, and the session is over.
struct mare__tls;

// What the session was asked to do.
enum { MARE__TLS_READS, MARE__TLS_WRITES };

// The session of a client, or of a server. A client that verifies needs the `name` of the host that
// it wants, or its number. `early` are bytes that were read from the descriptor before. NULL:
// `error` tells why.
struct mare__tls *mare__tls_new(struct mare__tls_context *context, int fd, bool server,
                                const char *name, const char *early, size_t early_size,
                                struct mare__tls_error *error);
void mare__tls_free(struct mare__tls *tls);

// The other calls begin with it too.
int mare__tls_handshake(struct mare__tls *tls);
bool mare__tls_is_ready(const struct mare__tls *tls); // it is over, and went well

ssize_t mare__tls_read(struct mare__tls *tls, void *bytes, size_t size); // 0: the peer has ended

// Takes bytes, a record at the most. They are on their way when mare__tls_flush says so.
ssize_t mare__tls_write(struct mare__tls *tls, const struct iovec *pieces, int count);
int mare__tls_flush(struct mare__tls *tls);

// Tells the peer that this side sends no more.
int mare__tls_shutdown(struct mare__tls *tls);

// The same without trying again: before the descriptor is closed.
void mare__tls_leave(struct mare__tls *tls);

// Whether the descriptor must become writable (or else readable) before what said "not now".
bool mare__tls_waits_to_write(const struct mare__tls *tls, int operation);

// Whether the last call read from the descriptor, which may have been what another waits for.
bool mare__tls_moved(const struct mare__tls *tls);

const struct mare__tls_error *mare__tls_failure(const struct mare__tls *tls);

// What was agreed on, and who the peer is. Texts that do not fit are cut.
struct mare__tls_facts {
    const char *version, *cipher; // static; NULL before the handshake is over
    const char *server_name;      // that the client asked for, or NULL
    char protocol[256];           // by ALPN; empty: none
    bool verified;                // the peer's certificate was asked for and is valid
    bool has_peer;                // it gave a certificate, and what follows is of that
    char subject[512], issuer[512];
    char names[4096]; // each with its zero byte
    size_t names_size;
    char fingerprint[65]; // SHA-256, in hexadecimal
    int64_t expires;      // in seconds since 1970
};

void mare__tls_look(const struct mare__tls *tls, struct mare__tls_facts *facts);

// ---- Certificates -------------------------------------------------------------------------------
// A new key and a certificate for some names, signed by that key itself, as PEM text, to be freed.
// Negative `seconds`: it has expired.
bool mare__tls_selfsigned(const char *const *names, int count, int64_t seconds, char **certificate,
                          char **key, struct mare__tls_error *error);
