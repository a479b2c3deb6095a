// SPDX-License-Identifier: MIT
// Sessions that are resumed, if the options want it. A server gives out tickets, which only it can
// open, with keys that live as long as its rules do. A server that asks for certificates gives out
// none, because a client that comes back with a ticket would show none. A client keeps the last
// session with each host that it has verified. Another context, or `replace`, is another set of
// sessions.
//
// The list of sessions belongs to the rules, and is changed under their mutex, by any thread.
#include <openssl/rand.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "platform/tls_inner.h"

enum { SESSIONS_MOST = 64, SECONDS = 3600 };

struct mare__tls_kept {
    struct mare__tls_kept *next; // the one that was used before this
    SSL_SESSION *session;
    char name[];
};

static void forget(struct mare__tls_kept *kept)
{
    SSL_SESSION_free(kept->session);
    mare__free(kept);
}

// Takes the session with a host out of the list; or, of a list that is full, the last.
static struct mare__tls_kept *take_out(struct mare__tls_rules *rules, const char *name)
{
    struct mare__tls_kept **at = &rules->kept;
    for (int i = 1; *at; at = &(*at)->next, i++) {
        struct mare__tls_kept *one = *at;
        if (name ? strcasecmp(one->name, name) == 0 : i == SESSIONS_MOST) {
            *at = one->next;
            return one;
        }
    }
    return NULL;
}

void mare__tls_keep_session(struct mare__tls_rules *rules, const char *name, SSL_SESSION *session)
{
    // A copy: OpenSSL gives up the one that it has if the connection ends without TLS's own end.
    SSL_SESSION *own = SSL_SESSION_dup(session);
    struct mare__tls_kept *kept = own ? mare__alloc(sizeof *kept + strlen(name) + 1) : NULL;
    if (!kept) {
        SSL_SESSION_free(own);
        return;
    }
    strcpy(kept->name, name);
    kept->session = own;
    pthread_mutex_lock(&rules->mutex);
    struct mare__tls_kept *before = take_out(rules, name);
    if (!before)
        before = take_out(rules, NULL);
    kept->next = rules->kept;
    rules->kept = kept;
    pthread_mutex_unlock(&rules->mutex);
    if (before)
        forget(before);
}

void mare__tls_use_session(struct mare__tls_rules *rules, const char *name, SSL *ssl)
{
    pthread_mutex_lock(&rules->mutex);
    struct mare__tls_kept *kept = take_out(rules, name);
    pthread_mutex_unlock(&rules->mutex);
    if (!kept)
        return;
    SSL_set_session(ssl, kept->session); // if it cannot be used there is a whole handshake
    // With TLS 1.3 the server gives a new one each time (RFC 8446, appendix C.4); not so before.
    if (SSL_SESSION_get_protocol_version(kept->session) < TLS1_3_VERSION)
        mare__tls_keep_session(rules, name, kept->session);
    forget(kept);
}

void mare__tls_forget_sessions(struct mare__tls_rules *rules)
{
    for (struct mare__tls_kept *kept; (kept = rules->kept) != NULL;) {
        rules->kept = kept->next;
        forget(kept);
    }
}

bool mare__tls_resume(struct mare__tls_rules *rules, int (*on_session)(SSL *, SSL_SESSION *))
{
    unsigned char own[16];
    SSL_CTX *ssl = rules->ssl;
    rules->resumes = true;
    SSL_CTX_clear_options(ssl, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ssl, 1);
    SSL_CTX_set_timeout(ssl, SECONDS);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ssl, on_session);
    return RAND_bytes(own, sizeof own) == 1 &&
           SSL_CTX_set_session_id_context(ssl, own, sizeof own) == 1;
}
