// SPDX-License-Identifier: MIT
// The part of a connection that outlives its process. When a process is killed, its query would go
// on in the PostgreSQL server. A thread asks the server to stop it, over a second connection.
#include "loop/postgres.h"

#include <stdio.h>

#include "base/alloc.h"
#include "sched/runtime.h"

static void stop_query(const struct mare__postgres_library *lib, PGcancel *cancel, char why[256])
{
    if (!lib->PQcancel(cancel, why, 256))
        why[255] = '\0';
    lib->PQfreeCancel(cancel);
}

// ---- Connections --------------------------------------------------------------------------------

static void stop_posted(void *argument)
{
    char why[256];
    stop_query(mare__postgres_library(&(const char *){NULL}), argument, why);
}

void mare__postgres_finish(struct mare__postgres *postgres)
{
    const struct mare__postgres_library *lib = postgres->lib;
    PGconn *conn = postgres->conn;
    if (!conn)
        return;
    bool active =
        lib->PQstatus(conn) == CONNECTION_OK && lib->PQtransactionStatus(conn) == PQTRANS_ACTIVE;
    PGcancel *cancel = active ? lib->PQgetCancel(conn) : NULL;
    if (cancel)
        mare__jobs_post(postgres->jobs, MARE__LANE_DATABASE, stop_posted, cancel);
    lib->PQfinish(conn);
    postgres->conn = NULL;
}

static void destroy(struct mare__object *object)
{
    struct mare__postgres *postgres = (struct mare__postgres *)object;
    mare__postgres_finish(postgres);
    mare__jobs_unref(postgres->jobs);
    mare__free(postgres);
}

// Drops notices of the server ("table does not exist, skipping"): libpq would print them.
static void ignore_notice(void *argument, const char *message)
{
    (void)argument, (void)message;
}

struct mare__postgres *mare__postgres_new(mare_runtime *runtime,
                                          const struct mare__postgres_library *lib, PGconn *conn)
{
    struct mare__jobs *jobs = mare__jobs_of(runtime);
    struct mare__postgres *postgres = jobs ? mare__alloc_zero(sizeof *postgres) : NULL;
    if (!postgres) {
        lib->PQfinish(conn);
        return NULL;
    }
    mare__object_init(&postgres->object, MARE__KIND_REQUEST, destroy);
    // Counts libpq's buffers too: 16 KiB each way.
    postgres->object.weight = sizeof *postgres + (32u << 10);
    postgres->lib = lib;
    postgres->jobs = mare__jobs_ref(jobs);
    postgres->conn = conn;
    lib->PQsetNoticeProcessor(conn, ignore_notice, NULL);
    return postgres;
}

// ---- Jobs ---------------------------------------------------------------------------------------

static void run(struct mare__job *base)
{
    struct mare__postgres_job *job = (struct mare__postgres_job *)base;
    const char *why = "";
    if (job->cancel)
        stop_query(job->lib, job->cancel, job->why);
    else if (!(job->lib = mare__postgres_library(&why)))
        snprintf(job->why, sizeof job->why, "%s", why);
    job->cancel = NULL;
}

static void end(struct mare__job *base)
{
    struct mare__postgres_job *job = (struct mare__postgres_job *)base;
    if (job->cancel) // the job was never begun
        job->lib->PQfreeCancel(job->cancel);
    mare__free(job);
}

struct mare__postgres_job *mare__postgres_job_new(mare_runtime *runtime,
                                                  const struct mare__postgres *postgres)
{
    struct mare__postgres_job *job = mare__alloc_zero(sizeof *job);
    if (!job || !mare__job_init(&job->job, runtime, MARE__LANE_DATABASE, run, end)) {
        mare__free(job);
        return NULL;
    }
    if (!postgres)
        return job;
    job->lib = postgres->lib;
    job->cancel = job->lib->PQgetCancel(postgres->conn);
    if (!job->cancel) {
        mare__unref(&job->job.object);
        return NULL;
    }
    return job;
}
