// SPDX-License-Identifier: MIT
// What TLS reads from the disk: certificates, keys and authorities. Threads of the pool do it.
#include <string.h>

#include "base/alloc.h"
#include "base/secret.h"
#include "loop/stream.h"

static void run(struct mare__job *job)
{
    struct mare__tls_job *tls = (struct mare__tls_job *)job;
    const struct mare__tls_options *options = &tls->options;
    struct mare__tls_context *context = tls->context;
    if (context && options->staple) {
        if (!mare__tls_context_staple(context, options->staple, options->staple_size,
                                      &tls->error)) {
            tls->context = NULL;
            mare__unref(&context->object);
        }
    } else if (context) {
        mare__tls_context_trust(context);
    } else {
        tls->context = mare__tls_context_new(options, &tls->error);
    }
    // OpenSSL keeps memory for each thread. This thread may idle until the program exits, and is
    // never joined: free its memory now.
    mare__tls_leave_thread();
}

static void end(struct mare__job *job)
{
    struct mare__tls_job *tls = (struct mare__tls_job *)job;
    if (tls->context)
        mare__unref(&tls->context->object);
    explicit_bzero(tls->text, tls->text_size); // keys, passwords
    mare__free(tls);
}

static struct mare__tls_job *create(mare_runtime *runtime, size_t text)
{
    struct mare__tls_job *tls = mare__alloc_zero(sizeof *tls + text);
    if (!tls || !mare__job_init(&tls->job, runtime, MARE__LANE_FILES, run, end)) {
        mare__free(tls);
        return NULL;
    }
    tls->text_size = text;
    // The runtime waits for this job when it stops: the host may shut OpenSSL down right after
    // that.
    tls->job.holds_up = true;
    return tls;
}

struct mare__tls_job *mare__tls_job_make(mare_runtime *runtime,
                                         const struct mare__tls_options *options)
{
    const char *const given[] = {options->certificate, options->key,     options->password,
                                 options->authorities, options->ciphers, options->suites,
                                 options->revoked};
    enum { TEXTS = sizeof given / sizeof *given };
    size_t size = options->protocols_size + options->keys_size + options->staple_size + 1;
    for (int i = 0; i < TEXTS; i++)
        size += given[i] ? strlen(given[i]) + 1 : 0;
    struct mare__tls_job *tls = create(runtime, size);
    if (!tls)
        return NULL;
    tls->options = *options;
    struct mare__tls_options *own = &tls->options;
    const char **const copies[TEXTS] = {&own->certificate, &own->key,     &own->password,
                                        &own->authorities, &own->ciphers, &own->suites,
                                        &own->revoked};
    char *room = tls->text;
    for (int i = 0; i < TEXTS; i++)
        if (given[i]) {
            *copies[i] = room;
            room = mare__secret_copy(room, given[i], strlen(given[i]) + 1);
        }
    if (options->protocols)
        own->protocols = memcpy(room, options->protocols, options->protocols_size);
    room += options->protocols_size;
    if (options->keys) {
        mare__secret_copy(room, options->keys, options->keys_size);
        own->keys = room;
    }
    if (options->staple) // the text has its zero byte already
        own->staple = memcpy(room + options->keys_size, options->staple, options->staple_size);
    return tls;
}

struct mare__tls_job *mare__tls_job_staple(mare_runtime *runtime, struct mare__tls_context *context,
                                           const char *source, size_t size)
{
    struct mare__tls_job *tls = create(runtime, size + 1);
    if (!tls)
        return NULL;
    tls->context = mare__ref(&context->object);
    tls->options.staple = memcpy(tls->text, source, size);
    tls->options.staple_size = size;
    return tls;
}

struct mare__tls_job *mare__tls_job_trust(mare_runtime *runtime, struct mare__tls_context *context)
{
    struct mare__tls_job *tls = create(runtime, 0);
    if (tls)
        tls->context = mare__ref(&context->object);
    return tls;
}
