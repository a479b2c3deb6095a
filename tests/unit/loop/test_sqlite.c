// SPDX-License-Identifier: MIT
// Databases: when a statement with more rows to come is given back. Threads keep what they have
// worked on for a moment after its waiter goes on, so here a job that never begins holds a cursor.
#include "loop/sqlite.h"

#include <string.h>

#include "platform/sqlite.h"
#include "runtime.h"

static struct mare__sqlite_job *make(mare_runtime *runtime, struct mare__connection *connection,
                                     void (*act)(struct mare__sqlite_job *job), const char *text)
{
    struct mare__sqlite_job *job = mare__sqlite_job_new(runtime, act, connection);
    assert_non_null(job);
    assert_int_equal(mare__bytes_add(&job->text, text, strlen(text) + 1), MARE_OK);
    return job;
}

// Does the job, and gives the primary code of its outcome.
static int await(mare_runtime *runtime, struct mare__sqlite_job *job)
{
    mare_message *message = NULL;
    mare__job_expect(&job->job);
    assert_true(mare__job_start(&job->job));
    assert_int_equal(mare_chan_receive_until(job->job.done, &message, run_soon(runtime)),
                     MARE_CLOSED);
    assert_true(mare__job_is_over(&job->job));
    mare__job_leave(&job->job);
    return job->code & 0xff;
}

static int execute(mare_runtime *runtime, struct mare__connection *connection, const char *sql)
{
    struct mare__sqlite_job *job = make(runtime, connection, mare__sqlite_run, sql);
    job->is_script = true;
    int code = await(runtime, job);
    mare__unref(&job->job.object);
    return code;
}

static void what_is_discarded_is_in_nobodys_way(void **state)
{
    (void)state;
    const char *why;
    if (!mare__sqlite_library(&why))
        skip();
    mare_runtime *runtime = run_start(1);
    struct mare__sqlite_job *database = make(runtime, NULL, mare__sqlite_open, ":memory:");
    database->flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    database->limit = 1000;
    assert_int_equal(await(runtime, database), SQLITE_OK);
    struct mare__connection *connection = database->connection;
    assert_int_equal(
        execute(runtime, connection, "CREATE TABLE t (v); INSERT INTO t VALUES (1), (2)"),
        SQLITE_OK);

    struct mare__sqlite_job *first = make(runtime, connection, mare__sqlite_run, "SELECT v FROM t");
    first->most = 1;
    assert_int_equal(await(runtime, first), SQLITE_OK);
    assert_non_null(first->cursor);
    struct mare__sqlite_job *holder = make(runtime, connection, mare__sqlite_more, "");
    mare__sqlite_follow(holder, first);

    assert_int_equal(execute(runtime, connection, "DROP TABLE t"), SQLITE_LOCKED);
    mare__sqlite_discard(first);
    mare__sqlite_discard(first); // does no harm
    mare__unref(&first->job.object);
    assert_int_equal(execute(runtime, connection, "DROP TABLE t"), SQLITE_OK);

    holder->most = 1;
    assert_int_equal(await(runtime, holder), SQLITE_OK);
    assert_int_equal(holder->found, 0); // and there are no more rows
    mare__unref(&holder->job.object);
    mare__unref(&database->job.object);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(what_is_discarded_is_in_nobodys_way))
