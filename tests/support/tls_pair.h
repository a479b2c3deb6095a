// SPDX-License-Identifier: MIT
// Two contexts that talk to each other over TLS, for tests of streams.
#pragma once

#include "base/alloc.h"
#include "platform/tls.h"

// Makes one that serves as localhost, with a certificate of its own, and one that trusts it. False:
// one is NULL.
static inline bool tls_pair(struct mare__tls_context **serving, struct mare__tls_context **asking)
{
    const char *names[] = {"localhost"};
    char *certificate, *key;
    struct mare__tls_error error;
    if (!mare__tls_selfsigned(names, 1, 3600, &certificate, &key, &error))
        return false;
    struct mare__tls_options serves = {
        .certificate = certificate, .key = key, .oldest = 2, .newest = 3};
    struct mare__tls_options asks = {
        .authorities = certificate, .verify = MARE__TLS_SERVERS, .oldest = 2, .newest = 3};
    *serving = mare__tls_context_new(&serves, &error);
    *asking = mare__tls_context_new(&asks, &error);
    mare__free(certificate);
    mare__free(key);
    return *serving && *asking;
}
