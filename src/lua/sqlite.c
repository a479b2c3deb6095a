// SPDX-License-Identifier: MIT
// Databases of SQLite in Lua: each function makes a job and waits for it. What is called a database
// or a cursor here is the job that made it. lua/mare/sqlite.lua makes the module `mare.sqlite` of
// this.
#include "loop/sqlite.h"

#include <limits.h>
#include <string.h>

#include "lua/job.h"
#include "platform/sqlite.h"

static struct mare__sqlite_job *job_at(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_REQUEST);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "database");
    return (struct mare__sqlite_job *)ref->object;
}

// ---- Failures -----------------------------------------------------------------------------------

// SQLite's own words, by its codes.
static const char *word_of(int code)
{
    static const char *const words[] = {
        "ok",       "error",    "internal",  "perm",   "abort",   "busy",       "locked",
        "nomem",    "readonly", "interrupt", "ioerr",  "corrupt", "notfound",   "full",
        "cantopen", "protocol", "empty",     "schema", "toobig",  "constraint", "mismatch",
        "misuse",   "nolfs",    "auth",      "format", "range",   "notadb"};
    unsigned primary = (unsigned)code & 0xff;
    return primary < sizeof words / sizeof *words ? words[primary] : "error";
}

// nil, message, code, SQLite's extended code; and for one that met a lock, that it may be tried
// again, from where, and what was changed before.
static int fail(lua_State *L, const struct mare__sqlite_job *job)
{
    lua_pushstring(L, job->message);
    if (job->err)
        return mare__lua_fail_with(L, job->err);
    lua_pushnil(L);
    lua_insert(L, -2);
    lua_pushstring(L, word_of(job->code));
    lua_pushinteger(L, job->code);
    lua_pushboolean(L, job->was_busy);
    lua_pushinteger(L, (lua_Integer)job->offset);
    lua_pushinteger(L, job->changes);
    return 7;
}

// ---- Values -------------------------------------------------------------------------------------

static void push_value(lua_State *L, struct mare__sqlite_value value)
{
    lua_Integer integer;
    lua_Number number;
    switch (value.tag) {
    case MARE__SQLITE_INTEGER:
        memcpy(&integer, value.at, sizeof integer);
        lua_pushinteger(L, integer);
        break;
    case MARE__SQLITE_FLOAT:
        memcpy(&number, value.at, sizeof number);
        lua_pushnumber(L, number);
        break;
    case MARE__SQLITE_NULL:
        lua_pushnil(L);
        break;
    default:
        lua_pushlstring(L, value.at, value.size);
    }
}

// Takes the value on top of the stack, which lua/mare/sqlite.lua has looked at: a table has bytes.
static void put_value(lua_State *L, struct mare__bytes *bytes)
{
    lua_Integer integer = lua_type(L, -1) == LUA_TBOOLEAN ? lua_toboolean(L, -1) //
                                                          : lua_tointeger(L, -1);
    lua_Number number = lua_tonumber(L, -1);
    size_t size = 0;
    const char *text;
    mare_err err;
    bool whole = lua_isinteger(L, -1) || lua_type(L, -1) == LUA_TBOOLEAN;
    if (whole) {
        err = mare__sqlite_put(bytes, MARE__SQLITE_INTEGER, &integer, sizeof integer);
    } else if (lua_type(L, -1) == LUA_TNUMBER) {
        err = mare__sqlite_put(bytes, MARE__SQLITE_FLOAT, &number, sizeof number);
    } else if (lua_type(L, -1) == LUA_TSTRING) {
        text = lua_tolstring(L, -1, &size);
        err = mare__sqlite_put(bytes, MARE__SQLITE_TEXT, text, size);
    } else if (lua_istable(L, -1)) {
        lua_rawgeti(L, -1, 1);
        text = lua_tolstring(L, -1, &size);
        err = mare__sqlite_put(bytes, MARE__SQLITE_BLOB, text, size);
        lua_pop(L, 1);
    } else { // nil, or the value that stands for null
        err = mare__sqlite_put(bytes, MARE__SQLITE_NULL, NULL, 0);
    }
    if (err)
        mare__lua_no_memory(L);
    lua_pop(L, 1);
}

// The table at `index` holds so many values in order, or if `count` is negative values by name.
static void put_values(lua_State *L, struct mare__sqlite_job *job, int index, lua_Integer count)
{
    job->named = count < 0;
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, index, i);
        put_value(L, &job->values);
        job->count++;
    }
    if (count >= 0)
        return;
    for (lua_pushnil(L); lua_next(L, index);) {
        lua_pushvalue(L, -2);
        put_value(L, &job->values);
        put_value(L, &job->values);
        job->count++;
    }
}

// Pushes a list of rows, each by position and by the names in the table at `columns`.
static void push_rows(lua_State *L, const struct mare__sqlite_job *job, int columns)
{
    const char *at = job->rows.at;
    lua_createtable(L, (int)job->found, 0);
    for (unsigned row = 1; row <= job->found; row++) {
        lua_createtable(L, job->columns, job->columns);
        for (int i = 1; i <= job->columns; i++) {
            lua_rawgeti(L, columns, i);
            push_value(L, mare__sqlite_take(&at));
            lua_pushvalue(L, -1);
            lua_rawseti(L, -4, i);
            lua_rawset(L, -3);
        }
        lua_rawseti(L, -2, row);
    }
}

// ---- Jobs ---------------------------------------------------------------------------------------

static struct mare__sqlite_job *push_job(lua_State *L, void (*act)(struct mare__sqlite_job *job),
                                         struct mare__connection *connection)
{
    struct mare__sqlite_job *job =
        mare__sqlite_job_new(mare__self(L)->shared.runtime, act, connection);
    if (!job)
        mare__lua_no_memory(L);
    mare__handle_push_new(L, job);
    return job;
}

static void copy_text(lua_State *L, struct mare__sqlite_job *job, int index)
{
    const char *text = mare__lua_name(L, index);
    if (mare__bytes_add(&job->text, text, strlen(text) + 1))
        mare__lua_no_memory(L);
}

// The job is on top of the stack, and forgotten unless `finish` pushes something that has it.
static int job_done(lua_State *L, int status, lua_KContext finish)
{
    (void)status;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    struct mare__sqlite_job *job = (struct mare__sqlite_job *)ref->object;
    mare_err err = mare__lua_job_outcome(L, &job->job);
    if (!err && !job->code)
        return ((int (*)(lua_State *, struct mare__sqlite_job *))finish)(L, job);
    int results = err ? mare__lua_fail_job(L, &job->job, err) : fail(L, job);
    mare__handle_forget(L, ref);
    return results;
}

static int do_job(lua_State *L, uint64_t deadline,
                  int (*finish)(lua_State *L, struct mare__sqlite_job *job))
{
    struct mare__sqlite_job *job = job_at(L, -1);
    mare__block_check(L, mare__self(L));
    if (!mare__job_start(&job->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &job->job, deadline, job_done, (lua_KContext)finish);
}

static int say_job(lua_State *L, struct mare__sqlite_job *job)
{
    (void)L, (void)job; // it is on top of the stack
    return 1;
}

static int say_true(lua_State *L, struct mare__sqlite_job *job)
{
    (void)job;
    lua_pushboolean(L, 1);
    return 1;
}

static int say_changes(lua_State *L, struct mare__sqlite_job *job)
{
    lua_pushinteger(L, job->changes);
    lua_pushinteger(L, job->last_row);
    return 2;
}

// rows, the bytes that they have taken, the columns' names, the cursor if there may be more.
static int say_rows(lua_State *L, struct mare__sqlite_job *job)
{
    int self = lua_gettop(L), columns = self + 1;
    const char *at = job->names.at;
    lua_createtable(L, job->columns, 0);
    for (int i = 1; i <= job->columns; i++) {
        push_value(L, mare__sqlite_take(&at));
        lua_rawseti(L, columns, i);
    }
    push_rows(L, job, columns);
    lua_pushinteger(L, (lua_Integer)job->rows.size);
    lua_pushvalue(L, columns);
    if (job->cursor) {
        mare__bytes_fini(&job->rows);
        lua_pushvalue(L, self);
    } else {
        mare__handle_forget(L, mare__handle_of(L, self, MARE__KIND_REQUEST));
        lua_pushnil(L);
    }
    return 4;
}

// rows, the bytes that they have taken; none: it was the end. The columns are at 3.
static int say_more(lua_State *L, struct mare__sqlite_job *job)
{
    push_rows(L, job, 3);
    lua_pushinteger(L, (lua_Integer)job->rows.size);
    mare__handle_forget(L, mare__handle_of(L, -3, MARE__KIND_REQUEST));
    return 2;
}

// ---- The functions ------------------------------------------------------------------------------

// open(path, readonly, create, limit, timeout): a database.
static int open_database(lua_State *L)
{
    lua_Integer limit = luaL_checkinteger(L, 4);
    uint64_t deadline = mare__lua_deadline(L, 5);
    struct mare__sqlite_job *job = push_job(L, mare__sqlite_open, NULL);
    copy_text(L, job, 1);
    job->flags = lua_toboolean(L, 2) ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    if (!lua_toboolean(L, 2) && lua_toboolean(L, 3))
        job->flags |= SQLITE_OPEN_CREATE;
    job->limit = limit < INT_MAX ? (int)limit : INT_MAX;
    return do_job(L, deadline, say_job);
}

enum { DATABASE = 1, SQL, OFFSET, VALUES, COUNT, MOST, INSIDE, TIMEOUT };

// run(database, sql, offset, values, count, most, inside, timeout): with `most` 0, how much was
// changed and the last row's number; else see say_rows. `count` is -1 for values by name.
static int run_sql(lua_State *L)
{
    struct mare__connection *connection = job_at(L, DATABASE)->connection;
    luaL_checktype(L, VALUES, LUA_TTABLE);
    uint64_t deadline = mare__lua_deadline(L, TIMEOUT);
    struct mare__sqlite_job *job = push_job(L, mare__sqlite_run, connection);
    copy_text(L, job, SQL);
    job->offset = (size_t)luaL_checkinteger(L, OFFSET);
    job->most = (unsigned)luaL_checkinteger(L, MOST);
    job->inside = lua_toboolean(L, INSIDE);
    put_values(L, job, VALUES, luaL_checkinteger(L, COUNT));
    job->is_script = job->most == 0 && job->count == 0;
    if (job->most > MARE__SQLITE_ROWS)
        job->most = MARE__SQLITE_ROWS;
    return do_job(L, deadline, job->most > 0 ? say_rows : say_changes);
}

// more(database, cursor, columns, timeout): see say_more.
static int more_rows(lua_State *L)
{
    struct mare__connection *connection = job_at(L, DATABASE)->connection;
    const struct mare__sqlite_job *first = job_at(L, 2);
    uint64_t deadline = mare__lua_deadline(L, 4);
    lua_settop(L, 3);
    struct mare__sqlite_job *job = push_job(L, mare__sqlite_more, connection);
    mare__sqlite_follow(job, first);
    job->most = MARE__SQLITE_ROWS;
    return do_job(L, deadline, say_more);
}

// close(database, timeout)
static int close_database(lua_State *L)
{
    struct mare__connection *connection = job_at(L, DATABASE)->connection;
    uint64_t deadline = mare__lua_deadline(L, 2);
    push_job(L, mare__sqlite_close, connection);
    return do_job(L, deadline, say_true);
}

// forget(database or cursor): without waiting.
static int forget(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_REQUEST);
    if (ref && ref->object) {
        mare__sqlite_discard((struct mare__sqlite_job *)ref->object);
        mare__handle_forget(L, ref);
    }
    return 0;
}

// rollback(database): without waiting, and though nobody is interested in how it ends.
static int roll_back(lua_State *L)
{
    struct mare__connection *connection = job_at(L, DATABASE)->connection;
    struct mare__sqlite_job *job = push_job(L, mare__sqlite_run, connection);
    if (mare__bytes_add(&job->text, "ROLLBACK", sizeof "ROLLBACK") == MARE_OK)
        mare__job_start(&job->job);
    mare__handle_forget(L, mare__handle_of(L, -1, MARE__KIND_REQUEST));
    return 0;
}

int mare__lua_open_sqlite(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"open", open_database},   {"run", run_sql},   {"more", more_rows}, {"rollback", roll_back},
        {"close", close_database}, {"forget", forget}, {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
