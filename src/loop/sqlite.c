// SPDX-License-Identifier: MIT
// What threads of the pool do with a database.
//
//     text ──▶ cache, or prepare ──▶ bind ──▶ step ──▶ all rows: back to the cache
//                                              └─────▶ more to come: a cursor, then `more` ...
//
// `mutex` allows one job at a time for each connection: SQLite is told to lock nothing itself. If a
// job's caller stops waiting, the handlers below stop the job, so that the next one need not wait
// long. A cursor that nobody wants is put into `discarded` by its owner, which may be a worker, or
// else by its last holder. Resetting its statement may write to the disk, so a thread of the pool
// does that, before any job that starts later. The thread of an earlier job may hold the cursor a
// little longer.
#include "loop/sqlite.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/lock.h"
#include "platform/sqlite.h"
#include "sched/runtime.h"

enum {
    CACHED = 32,             // the most statements in the cache
    STEPS = 1000,            // steps of SQLite's machine between two looks whether anybody waits
    BATCH_BYTES = 64 * 1024, // bytes of rows in a batch: it ends with the row that reaches them
};

struct statement {
    struct mare__list entry; // its place in the cache
    sqlite3_stmt *stmt;
    size_t size;
    char sql[];
};

struct mare__connection {
    atomic_uint holders;
    struct mare__jobs *jobs; // a reference
    const struct mare__sqlite_library *lib;
    pthread_mutex_t mutex;   // guards all that follows, but `discarded`
    sqlite3 *db;             // NULL: closed
    struct mare__job *now;   // the job that is running
    bool was_busy;           // another connection's lock was in the way
    unsigned cached;         // the number of statements in the
    struct mare__list cache; // cache; the last one used is at its end
    mare__lock lock;         // guards the next
    struct mare__cursor *discarded;
};

struct mare__cursor {
    atomic_uint holders;         // held by jobs, which hold the connection too, and by the list
    struct statement *statement; // NULL: its statement is gone. Guarded by the mutex
    bool is_discarded;           // it is in the list `discarded`, until that is drained
    struct mare__cursor *next;   // the next in that list
};

// ---- Values -------------------------------------------------------------------------------------

mare_err mare__sqlite_put(struct mare__bytes *bytes, enum mare__sqlite_tag tag, const void *data,
                          size_t size)
{
    char head[1 + sizeof size] = {(char)tag};
    memcpy(head + 1, &size, sizeof size);
    if (mare__bytes_reserve(bytes, sizeof head + size) != MARE_OK)
        return MARE_NOMEM;
    mare__bytes_add(bytes, head, sizeof head);
    return size > 0 ? mare__bytes_add(bytes, data, size) : MARE_OK;
}

struct mare__sqlite_value mare__sqlite_take(const char **at)
{
    struct mare__sqlite_value value = {.tag = (enum mare__sqlite_tag)(unsigned char)**at};
    memcpy(&value.size, *at + 1, sizeof value.size);
    value.at = *at + 1 + sizeof value.size;
    *at = value.at + value.size;
    return value;
}

// ---- Failures -----------------------------------------------------------------------------------

// The statement failed: keeps SQLite's code and message. Under the mutex, so that no other job
// replaces them first.
static bool fail(struct mare__sqlite_job *job)
{
    struct mare__connection *connection = job->connection;
    job->code = connection->lib->extended_errcode(connection->db);
    job->was_busy = (job->code & 0xff) == SQLITE_BUSY && connection->was_busy;
    snprintf(job->message, sizeof job->message, "%s", connection->lib->errmsg(connection->db));
    return false;
}

static bool refuse(struct mare__sqlite_job *job, mare_err err, const char *why)
{
    job->code = SQLITE_MISUSE;
    job->err = err;
    snprintf(job->message, sizeof job->message, "%s", why);
    return false;
}

// ---- Statements ---------------------------------------------------------------------------------

static void forget(struct mare__connection *connection, struct statement *statement)
{
    if (connection->db) // else it was freed with the connection
        connection->lib->finalize(statement->stmt);
    mare__free(statement);
}

// Resets a statement that was used, and puts it back into the cache.
static void put_back(struct mare__connection *connection, struct statement *statement)
{
    if (!connection->db || statement->size == 0) {
        forget(connection, statement);
        return;
    }
    connection->lib->reset(statement->stmt);
    connection->lib->clear_bindings(statement->stmt);
    mare__list_append(&connection->cache, &statement->entry);
    if (++connection->cached > CACHED) {
        struct mare__list *oldest = mare__list_first(&connection->cache);
        mare__list_remove(oldest);
        connection->cached--;
        forget(connection, MARE__ENTRY(oldest, struct statement, entry));
    }
}

static struct statement *take_cached(struct mare__connection *connection, const char *sql,
                                     size_t size)
{
    struct mare__list *entry = connection->cache.next;
    for (; entry != &connection->cache; entry = entry->next) {
        struct statement *statement = MARE__ENTRY(entry, struct statement, entry);
        if (statement->size == size && memcmp(statement->sql, sql, size) == 0) {
            mare__list_remove(entry);
            connection->cached--;
            return statement;
        }
    }
    return NULL;
}

// Whether the rest of the text has no other statement, but only blanks and comments.
static bool is_all(struct mare__connection *connection, const char *rest)
{
    sqlite3_stmt *another = NULL;
    bool bad = connection->lib->prepare_v3(connection->db, rest, -1, 0, &another, NULL) != 0;
    connection->lib->finalize(another);
    return !bad && !another;
}

// The statement at the job's offset, and where the next one begins. NULL with code 0: there is
// none.
static struct statement *prepare(struct mare__sqlite_job *job, size_t *next)
{
    struct mare__connection *connection = job->connection;
    const char *text = job->text.at, *rest;
    size_t size = job->text.size - 1; // without the zero byte
    struct statement *statement = job->offset ? NULL : take_cached(connection, text, size);
    *next = size;
    if (statement)
        return statement;
    sqlite3_stmt *stmt;
    if (connection->lib->prepare_v3(connection->db, text + job->offset, -1, 0, &stmt, &rest) != 0) {
        fail(job);
        return NULL;
    }
    bool whole = job->offset == 0 && is_all(connection, rest);
    if (!whole && !job->is_script && stmt) {
        connection->lib->finalize(stmt);
        refuse(job, MARE_INVALID, "there is more than one statement");
        return NULL;
    }
    if (!whole)
        *next = (size_t)(rest - text);
    if (!stmt)
        return NULL;
    statement = mare__alloc_zero(sizeof *statement + (whole ? size : 0));
    if (!statement) {
        connection->lib->finalize(stmt);
        refuse(job, MARE_NOMEM, mare_strerror(MARE_NOMEM));
        return NULL;
    }
    mare__list_init(&statement->entry);
    statement->stmt = stmt;
    statement->size = whole ? size : 0; // 0: a part of a script, not for the cache
    memcpy(statement->sql, text, statement->size);
    return statement;
}

// ---- Parameters ---------------------------------------------------------------------------------

// SQLite copies the bound values. The copies stay until the statement is reset or its cursor is
// gone.
static int bind(const struct mare__sqlite_library *lib, sqlite3_stmt *stmt, int index,
                struct mare__sqlite_value value)
{
    int64_t integer;
    double number;
    switch (value.tag) {
    case MARE__SQLITE_INTEGER:
        memcpy(&integer, value.at, sizeof integer);
        return lib->bind_int64(stmt, index, integer);
    case MARE__SQLITE_FLOAT:
        memcpy(&number, value.at, sizeof number);
        return lib->bind_double(stmt, index, number);
    case MARE__SQLITE_TEXT:
        return lib->bind_text64(stmt, index, value.at, value.size, SQLITE_TRANSIENT, SQLITE_UTF8);
    case MARE__SQLITE_BLOB:
        return lib->bind_blob64(stmt, index, value.at, value.size, SQLITE_TRANSIENT);
    default:
        return lib->bind_null(stmt, index);
    }
}

static bool bind_in_order(struct mare__sqlite_job *job, sqlite3_stmt *stmt)
{
    const struct mare__sqlite_library *lib = job->connection->lib;
    int wanted = lib->bind_parameter_count(stmt);
    const char *at = job->values.at;
    if (wanted != job->count) {
        char why[96];
        snprintf(why, sizeof why, "the statement takes %d value%s, and got %d", wanted,
                 wanted == 1 ? "" : "s", job->count);
        return refuse(job, MARE_INVALID, why);
    }
    for (int i = 1; i <= wanted; i++)
        if (bind(lib, stmt, i, mare__sqlite_take(&at)) != 0)
            return fail(job);
    return true;
}

// The value given under a name. The statement's name begins with its sign (:, @ or $).
static bool find_named(const struct mare__sqlite_job *job, const char *name,
                       struct mare__sqlite_value *value)
{
    const char *at = job->values.at;
    for (int i = 0; i < job->count; i++) {
        struct mare__sqlite_value key = mare__sqlite_take(&at);
        *value = mare__sqlite_take(&at);
        if (name && strlen(name + 1) == key.size && memcmp(name + 1, key.at, key.size) == 0)
            return true;
    }
    return false;
}

// Every parameter must have a value, and every value a parameter: SQLite would read a misspelt name
// as NULL.
static bool bind_by_name(struct mare__sqlite_job *job, sqlite3_stmt *stmt)
{
    const struct mare__sqlite_library *lib = job->connection->lib;
    int wanted = lib->bind_parameter_count(stmt);
    char why[160];
    for (int i = 1; i <= wanted; i++) {
        const char *name = lib->bind_parameter_name(stmt, i);
        struct mare__sqlite_value value;
        if (!find_named(job, name, &value)) {
            snprintf(why, sizeof why, "there is no value for the parameter %.100s",
                     name ? name : "?");
            return refuse(job, MARE_INVALID, why);
        }
        if (bind(lib, stmt, i, value) != 0)
            return fail(job);
    }
    const char *at = job->values.at;
    for (int i = 0; i < job->count; i++) {
        struct mare__sqlite_value key = mare__sqlite_take(&at);
        char name[128];
        int found = 0;
        mare__sqlite_take(&at);
        for (const char *sign = ":@$?"; *sign && !found; sign++) {
            snprintf(name, sizeof name, "%c%.*s", *sign, (int)key.size, key.at);
            found = lib->bind_parameter_index(stmt, name);
        }
        if (!found) {
            snprintf(why, sizeof why, "the statement has no parameter '%.100s'", name + 1);
            return refuse(job, MARE_INVALID, why);
        }
    }
    return true;
}

// ---- Rows ---------------------------------------------------------------------------------------

static mare_err put_column(const struct mare__sqlite_library *lib, struct mare__bytes *rows,
                           sqlite3_stmt *stmt, int i)
{
    int64_t integer;
    double number;
    const void *data;
    switch (lib->column_type(stmt, i)) {
    case SQLITE_INTEGER:
        integer = lib->column_int64(stmt, i);
        return mare__sqlite_put(rows, MARE__SQLITE_INTEGER, &integer, sizeof integer);
    case SQLITE_FLOAT:
        number = lib->column_double(stmt, i);
        return mare__sqlite_put(rows, MARE__SQLITE_FLOAT, &number, sizeof number);
    case SQLITE_TEXT:
        data = lib->column_text(stmt, i); // must be called before its size is asked for
        return mare__sqlite_put(rows, MARE__SQLITE_TEXT, data, (size_t)lib->column_bytes(stmt, i));
    case SQLITE_BLOB:
        data = lib->column_blob(stmt, i);
        return mare__sqlite_put(rows, MARE__SQLITE_BLOB, data, (size_t)lib->column_bytes(stmt, i));
    default:
        return mare__sqlite_put(rows, MARE__SQLITE_NULL, NULL, 0);
    }
}

static bool put_row(struct mare__sqlite_job *job, sqlite3_stmt *stmt)
{
    for (int i = 0; i < job->columns; i++)
        if (put_column(job->connection->lib, &job->rows, stmt, i) != MARE_OK)
            return refuse(job, MARE_NOMEM, mare_strerror(MARE_NOMEM));
    job->found++;
    return true;
}

static bool put_names(struct mare__sqlite_job *job, sqlite3_stmt *stmt)
{
    const struct mare__sqlite_library *lib = job->connection->lib;
    job->columns = lib->column_count(stmt);
    for (int i = 0; i < job->columns; i++) {
        const char *name = lib->column_name(stmt, i);
        if (!name || mare__sqlite_put(&job->names, MARE__SQLITE_TEXT, name, strlen(name)))
            return refuse(job, MARE_NOMEM, mare_strerror(MARE_NOMEM));
    }
    return true;
}

// Whether the batch has enough rows.
static bool has_enough(const struct mare__sqlite_job *job)
{
    return job->most > 0 && (job->found >= job->most || job->rows.size >= BATCH_BYTES);
}

// Steps through the rows. False: it failed. `*more`: there are rows left.
static bool step(struct mare__sqlite_job *job, sqlite3_stmt *stmt, bool *more)
{
    int status = SQLITE_ROW;
    *more = true;
    while (!has_enough(job)) {
        status = job->connection->lib->step(stmt);
        if (status != SQLITE_ROW)
            break;
        if (job->most > 0 && !put_row(job, stmt))
            return false;
    }
    *more = status == SQLITE_ROW;
    return *more || status == SQLITE_DONE || fail(job);
}

// ---- Cursors and connections --------------------------------------------------------------------

static void let_go_cursor(struct mare__connection *connection, struct mare__cursor *cursor);

// Resets the statements of discarded cursors. Under the mutex, by a holder of the connection.
static void drain(struct mare__connection *connection)
{
    mare__lock_acquire(&connection->lock);
    struct mare__cursor *cursor = connection->discarded;
    connection->discarded = NULL;
    mare__lock_release(&connection->lock);
    while (cursor) {
        struct mare__cursor *next = cursor->next;
        if (cursor->statement)
            put_back(connection, cursor->statement);
        cursor->statement = NULL;
        let_go_cursor(connection, cursor);
        cursor = next;
    }
}

static bool has_discarded(struct mare__connection *connection)
{
    mare__lock_acquire(&connection->lock);
    bool has = connection->discarded != NULL;
    mare__lock_release(&connection->lock);
    return has;
}

// Does that now, unless a job has the mutex: then the job will do it.
static void drain_if_free(struct mare__connection *connection)
{
    while (has_discarded(connection) && pthread_mutex_trylock(&connection->mutex) == 0) {
        drain(connection);
        pthread_mutex_unlock(&connection->mutex);
    }
}

static void shut(struct mare__connection *connection)
{
    const struct mare__sqlite_library *lib = connection->lib;
    drain(connection);
    while (connection->cached > 0) {
        struct mare__list *entry = mare__list_first(&connection->cache);
        mare__list_remove(entry);
        connection->cached--;
        forget(connection, MARE__ENTRY(entry, struct statement, entry));
    }
    for (sqlite3_stmt *stmt; connection->db && (stmt = lib->next_stmt(connection->db, NULL));)
        lib->finalize(stmt); // a statement of a cursor, which closing the connection left
    if (connection->db)
        lib->close(connection->db);
    connection->db = NULL;
}

static void destroy(void *argument)
{
    struct mare__connection *connection = argument;
    shut(connection);
    pthread_mutex_destroy(&connection->mutex);
    mare__jobs_unref(connection->jobs);
    mare__free(connection);
}

static struct mare__connection *hold(struct mare__connection *connection)
{
    // Relaxed: the caller is a holder already.
    atomic_fetch_add_explicit(&connection->holders, 1, memory_order_relaxed);
    return connection;
}

// Closing may block, and this may be a worker: a thread does it.
static void let_go(struct mare__connection *connection)
{
    // Acquire and release, as in mare__unref.
    if (atomic_fetch_sub_explicit(&connection->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (connection->db || connection->discarded)
        mare__jobs_post(connection->jobs, MARE__LANE_DATABASE, destroy, connection);
    else
        destroy(connection);
}

static void drain_posted(void *argument)
{
    struct mare__connection *connection = argument;
    drain_if_free(connection);
    let_go(connection);
}

static void discard(struct mare__connection *connection, struct mare__cursor *cursor)
{
    mare__lock_acquire(&connection->lock);
    bool is_new = !cursor->is_discarded;
    if (is_new) {
        // Relaxed: the caller is a holder, or the last holder has just left on this thread.
        atomic_fetch_add_explicit(&cursor->holders, 1, memory_order_relaxed);
        cursor->is_discarded = true;
        cursor->next = connection->discarded;
        connection->discarded = cursor;
    }
    mare__lock_release(&connection->lock);
    if (is_new)
        mare__jobs_post(connection->jobs, MARE__LANE_DATABASE, drain_posted, hold(connection));
}

void mare__sqlite_discard(struct mare__sqlite_job *job)
{
    if (job->cursor)
        discard(job->connection, job->cursor);
}

// The caller must hold the connection.
static void let_go_cursor(struct mare__connection *connection, struct mare__cursor *cursor)
{
    if (atomic_fetch_sub_explicit(&cursor->holders, 1, memory_order_acq_rel) > 1) // as above
        return;
    if (cursor->statement) // its owner never discarded it
        discard(connection, cursor);
    else
        mare__free(cursor);
}

// A statement with rows left becomes a cursor.
static bool keep(struct mare__sqlite_job *job, struct statement *statement)
{
    struct mare__cursor *cursor = mare__alloc_zero(sizeof *cursor);
    if (!cursor)
        return refuse(job, MARE_NOMEM, mare_strerror(MARE_NOMEM));
    atomic_init(&cursor->holders, 1);
    cursor->statement = statement;
    job->cursor = cursor;
    return true;
}

// ---- What jobs do -------------------------------------------------------------------------------

// Another connection has a lock that we need. Give up now: the caller tries again later, and does
// not keep a thread waiting.
static int on_busy(void *argument, int attempts)
{
    struct mare__connection *connection = argument;
    (void)attempts;
    connection->was_busy = true;
    return 0;
}

static int on_progress(void *argument)
{
    struct mare__connection *connection = argument;
    return connection->now && mare__job_is_lost(connection->now);
}

void mare__sqlite_open(struct mare__sqlite_job *job)
{
    struct mare__connection *connection = job->connection;
    const char *why;
    connection->lib = mare__sqlite_library(&why);
    if (!connection->lib) {
        refuse(job, MARE_IO, why);
        return;
    }
    const struct mare__sqlite_library *lib = connection->lib;
    int flags = job->flags | SQLITE_OPEN_NOMUTEX, code;
    code = lib->open_v2(job->text.at, &connection->db, flags, NULL);
    if (code != 0) {
        job->code = connection->db ? lib->extended_errcode(connection->db) : code;
        snprintf(job->message, sizeof job->message, "%.160s: %s", job->text.at, lib->errstr(code));
        shut(connection);
        return;
    }
    lib->extended_result_codes(connection->db, 1);
    lib->limit(connection->db, SQLITE_LIMIT_LENGTH, job->limit);
    lib->busy_handler(connection->db, on_busy, connection);
    lib->progress_handler(connection->db, STEPS, on_progress, connection);
}

// Runs one statement. False: it failed.
static bool run_one(struct mare__sqlite_job *job, struct statement *statement)
{
    sqlite3_stmt *stmt = statement->stmt;
    bool more = false;
    bool ok = (job->named ? bind_by_name(job, stmt) : bind_in_order(job, stmt)) &&
              (job->most == 0 || put_names(job, stmt)) && step(job, stmt, &more);
    if (!(ok && more && keep(job, statement)))
        put_back(job->connection, statement);
    return ok && job->code == 0;
}

void mare__sqlite_run(struct mare__sqlite_job *job)
{
    const struct mare__sqlite_library *lib = job->connection->lib;
    sqlite3 *db = job->connection->db;
    if (job->inside && lib->get_autocommit(db)) {
        refuse(job, MARE_REFUSED, "the transaction was rolled back");
        return;
    }
    int64_t before = lib->total_changes64(db);
    for (size_t next; job->offset < job->text.size - 1; job->offset = next) {
        struct statement *statement = prepare(job, &next);
        if (statement ? !run_one(job, statement) : job->code != 0)
            break;
    }
    job->changes = lib->total_changes64(db) - before;
    job->last_row = lib->last_insert_rowid(db);
}

void mare__sqlite_more(struct mare__sqlite_job *job)
{
    struct statement *statement = job->cursor->statement;
    bool more = false;
    if (!statement)
        return;
    job->columns = job->connection->lib->column_count(statement->stmt);
    bool ok = step(job, statement->stmt, &more);
    if (ok && more)
        return;
    job->cursor->statement = NULL;
    put_back(job->connection, statement);
}

void mare__sqlite_close(struct mare__sqlite_job *job)
{
    shut(job->connection);
}

// ---- Jobs ---------------------------------------------------------------------------------------

static void run(struct mare__job *base)
{
    struct mare__sqlite_job *job = (struct mare__sqlite_job *)base;
    struct mare__connection *connection = job->connection;
    pthread_mutex_lock(&connection->mutex);
    connection->now = base;
    connection->was_busy = false;
    if (connection->db)
        drain(connection);
    if (!connection->db && job->act != mare__sqlite_open)
        refuse(job, MARE_CLOSED, "the database is closed");
    else
        job->act(job);
    connection->now = NULL;
    pthread_mutex_unlock(&connection->mutex);
    drain_if_free(connection);
}

static void end(struct mare__job *base)
{
    struct mare__sqlite_job *job = (struct mare__sqlite_job *)base;
    if (job->cursor)
        let_go_cursor(job->connection, job->cursor);
    if (job->connection)
        let_go(job->connection);
    mare__bytes_fini(&job->text);
    mare__bytes_fini(&job->values);
    mare__bytes_fini(&job->names);
    mare__bytes_fini(&job->rows);
    mare__free(job);
}

static struct mare__connection *connection_new(struct mare__jobs *jobs)
{
    struct mare__connection *connection = mare__alloc_zero(sizeof *connection);
    if (!connection)
        return NULL;
    atomic_init(&connection->holders, 1);
    connection->jobs = mare__jobs_ref(jobs);
    pthread_mutex_init(&connection->mutex, NULL);
    mare__list_init(&connection->cache);
    return connection;
}

struct mare__sqlite_job *mare__sqlite_job_new(mare_runtime *runtime,
                                              void (*act)(struct mare__sqlite_job *job),
                                              struct mare__connection *connection)
{
    struct mare__sqlite_job *job = mare__alloc_zero(sizeof *job);
    if (!job || !mare__job_init(&job->job, runtime, MARE__LANE_DATABASE, run, end)) {
        mare__free(job);
        return NULL;
    }
    job->act = act;
    // The end of the program must not interrupt a statement that has begun.
    job->job.holds_up = true;
    job->connection = connection ? hold(connection) : connection_new(job->job.jobs);
    if (!job->connection) {
        mare__unref(&job->job.object);
        return NULL;
    }
    return job;
}

void mare__sqlite_follow(struct mare__sqlite_job *job, const struct mare__sqlite_job *first)
{
    job->cursor = first->cursor;
    if (job->cursor) // relaxed: whoever adds a holder is one
        atomic_fetch_add_explicit(&job->cursor->holders, 1, memory_order_relaxed);
}
