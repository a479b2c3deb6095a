// SPDX-License-Identifier: MIT
// Resolving names without holding back a worker.
#include <string.h>

#include "base/alloc.h"
#include "loop/stream.h"

static void run(struct mare__job *job)
{
    struct mare__lookup *lookup = (struct mare__lookup *)job;
    struct mare__resolving *naming = &lookup->naming;
    if (naming->is_service && *lookup->host)
        naming->port = mare__service_number(lookup->host, naming->datagrams);
    else if (naming->is_service)
        mare__service_name(naming->port, naming->name);
    else if (*lookup->host)
        mare__resolve_addresses(&lookup->naming, lookup->host);
    else
        mare__resolve_name(&lookup->naming);
}

static void end(struct mare__job *job)
{
    mare__free(job);
}

struct mare__lookup *mare__lookup_new(mare_runtime *runtime, const char *host)
{
    struct mare__lookup *lookup = mare__alloc_zero(sizeof *lookup + strlen(host) + 1);
    if (!lookup || !mare__job_init(&lookup->job, runtime, MARE__LANE_RESOLVE, run, end)) {
        mare__free(lookup);
        return NULL;
    }
    strcpy(lookup->host, host);
    return lookup;
}
