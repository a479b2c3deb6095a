// SPDX-License-Identifier: MIT
// Resolves names on threads of the pool, so that no worker waits.
#include <string.h>

#include "base/alloc.h"
#include "loop/stream.h"

static void run(struct mare__job *job)
{
    struct mare__lookup *lookup = (struct mare__lookup *)job;
    struct mare__resolving *naming = &lookup->naming;
    const struct mare__platform *platform = mare__jobs_platform(job->jobs);
    const struct mare__names *names = platform->names;
    if (naming->is_service && *lookup->host)
        naming->port = names->service_number(platform->context, lookup->host, naming->datagrams);
    else if (naming->is_service)
        names->service_name(platform->context, naming->port, naming->name);
    else if (*lookup->host)
        names->find_addresses(platform->context, naming, lookup->host);
    else
        names->find_name(platform->context, naming);
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
