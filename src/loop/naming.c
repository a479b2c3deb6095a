// SPDX-License-Identifier: MIT
// Inquiries about names, as jobs of the pool.
#include "loop/naming.h"

#include <string.h>

#include "base/alloc.h"

static void run(struct mare__job *job)
{
    struct mare__inquiry *inquiry = (struct mare__inquiry *)job;
    if (*inquiry->host)
        mare__naming_forward(&inquiry->naming, inquiry->host);
    else
        mare__naming_back(&inquiry->naming);
}

static void end(struct mare__job *job)
{
    mare__free(job);
}

struct mare__inquiry *mare__inquiry_new(mare_runtime *runtime, const char *host)
{
    struct mare__inquiry *inquiry = mare__alloc_zero(sizeof *inquiry + strlen(host) + 1);
    if (!inquiry || !mare__job_init(&inquiry->job, runtime, MARE__LANE_NAMES, run, end)) {
        mare__free(inquiry);
        return NULL;
    }
    strcpy(inquiry->host, host);
    return inquiry;
}
