// SPDX-License-Identifier: MIT
// Connections with PostgreSQL. libpq's calls that do not block are made by the owner of a
// connection; what blocks is done by threads of the pool: loading the library, and asking the
// server to stop a query.
#pragma once

#include "loop/job.h"
#include "platform/postgres.h"

struct mare__postgres {
    struct mare__object object;
    const struct mare__postgres_library *lib;
    struct mare__jobs *jobs; // a reference
    PGconn *conn;            // NULL: closed
};

// Takes over the connection, in any case. NULL: not enough memory.
struct mare__postgres *mare__postgres_new(mare_runtime *runtime,
                                          const struct mare__postgres_library *lib, PGconn *conn);

// Closes it. If a query is under way, the server is asked to stop it, later.
void mare__postgres_finish(struct mare__postgres *postgres);

struct mare__postgres_job {
    struct mare__job job;
    const struct mare__postgres_library *lib; // NULL: it could not be loaded
    PGcancel *cancel;                         // whom to stop; NULL: the library is to be loaded
    char why[256];                            // it has failed; empty: it has not
};

// A job that loads the library, or stops what a connection does. NULL: not enough memory.
struct mare__postgres_job *mare__postgres_job_new(mare_runtime *runtime,
                                                  const struct mare__postgres *postgres);
