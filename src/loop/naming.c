// SPDX-License-Identifier: MIT
// Inquiries about names, as requests to the loop.
#include "loop/naming.h"

#include <string.h>

#include "base/alloc.h"

static void destroy(struct mare__object *object)
{
    struct mare__inquiry *inquiry = (struct mare__inquiry *)object;
    mare_chan_unref(inquiry->done);
    mare__free(inquiry);
}

static void on_done(struct mare__naming *naming)
{
    struct mare__inquiry *inquiry = MARE__ENTRY(naming, struct mare__inquiry, naming);
    mare_message message;
    mare__message_init(&message);
    mare__chan_send(inquiry->done, &message, NULL);
    mare__request_done(&inquiry->request);
    mare__unref(&inquiry->object);
}

static void start(struct mare__request *request, struct mare__loop *loop)
{
    struct mare__inquiry *inquiry = MARE__ENTRY(request, struct mare__inquiry, request);
    if (*inquiry->host)
        mare__naming_forward(loop, &inquiry->naming, inquiry->host);
    else
        mare__naming_back(loop, &inquiry->naming);
}

struct mare__inquiry *mare__inquiry_new(mare_runtime *runtime, const char *host)
{
    struct mare__inquiry *inquiry = mare__alloc_zero(sizeof *inquiry + strlen(host) + 1);
    mare_channel *done = inquiry ? mare__chan_new(runtime, 1) : NULL;
    if (!done) {
        mare__free(inquiry);
        return NULL;
    }
    mare__object_init(&inquiry->object, MARE__KIND_REQUEST, destroy);
    strcpy(inquiry->host, host);
    inquiry->done = done;
    inquiry->request.start = start;
    inquiry->naming.done = on_done;
    return inquiry;
}

bool mare__inquiry_start(mare_runtime *runtime, struct mare__inquiry *inquiry)
{
    mare__ref(&inquiry->object); // the loop's
    bool started = mare__request_start(runtime, &inquiry->request);
    if (!started)
        mare__unref(&inquiry->object);
    return started;
}
