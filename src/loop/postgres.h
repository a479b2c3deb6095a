// SPDX-License-Identifier: MIT
// Connections to PostgreSQL. The owner of a connection makes libpq's non-blocking calls itself.
// Threads of the pool do what blocks: they load the library, and ask the server to stop a query.
#pragma once

#include "loop/job.h"
#include "platform/postgres.h"

struct mare__postgres {
    struct mare__object object;
    const struct mare__postgres_library *lib;
    struct mare__jobs *jobs; // a reference
    PGconn *conn;            // NULL: closed
};

// Takes over the connection, even on failure. NULL: not enough memory.
struct mare__postgres *mare__postgres_new(mare_runtime *runtime,
                                          const struct mare__postgres_library *lib, PGconn *conn);

// Closes the connection. If a query is running, a job asks the server to stop it.
void mare__postgres_finish(struct mare__postgres *postgres);

struct mare__postgres_job {
    struct mare__job job;
    const struct mare__postgres_library *lib; // NULL: it could not be loaded
    PGcancel *cancel;                         // the query to stop; NULL: the job loads the library
    char why[256];                            // why it failed; empty: it did not
};

// A job that loads the library, or one that stops a query. NULL: not enough memory.
struct mare__postgres_job *mare__postgres_job_new(mare_runtime *runtime,
                                                  const struct mare__postgres *postgres);
