// SPDX-License-Identifier: MIT
// Resolving names without holding back a worker.
#include <string.h>

#include "base/alloc.h"
#include "loop/stream.h"

static void destroy(struct mare__object *object)
{
    struct mare__lookup *lookup = (struct mare__lookup *)object;
    mare_chan_unref(lookup->done);
    mare__free(lookup);
}

static void on_done(struct mare__resolving *resolving)
{
    struct mare__lookup *lookup = MARE__ENTRY(resolving, struct mare__lookup, resolving);
    mare_message message;
    mare__message_init(&message);
    mare__chan_send(lookup->done, &message, NULL);
    mare__request_done(&lookup->request);
    mare__unref(&lookup->object);
}

static void start(struct mare__request *request, struct mare__loop *loop)
{
    struct mare__lookup *lookup = MARE__ENTRY(request, struct mare__lookup, request);
    mare__resolve(loop, &lookup->resolving, lookup->host);
}

struct mare__lookup *mare__lookup_start(mare_runtime *runtime, const char *host)
{
    struct mare__lookup *lookup = mare__alloc_zero(sizeof *lookup + strlen(host) + 1);
    mare_channel *done = lookup ? mare__chan_new(runtime, 1) : NULL;
    if (!done) {
        mare__free(lookup);
        return NULL;
    }
    mare__object_init(&lookup->object, MARE__KIND_REQUEST, destroy);
    strcpy(lookup->host, host);
    lookup->done = done;
    lookup->request.start = start;
    lookup->resolving.done = on_done;
    mare__ref(&lookup->object); // the loop's
    if (mare__request_start(runtime, &lookup->request))
        return lookup;
    mare__unref(&lookup->object);
    mare__unref(&lookup->object);
    return NULL;
}
