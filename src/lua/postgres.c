// SPDX-License-Identifier: MIT
// PostgreSQL in Lua: libpq's calls that do not block, one function each. lua/mare/postgres.lua
// decides who waits, and for how long, and makes the module `mare.postgres` of this.
#include "loop/postgres.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/job.h"

static struct mare__postgres *postgres_at(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_REQUEST);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "connection");
    struct mare__postgres *postgres = (struct mare__postgres *)ref->object;
    if (!postgres->conn)
        luaL_error(L, "the connection is closed");
    return postgres;
}

// Pushes the message without the blanks and line ends that libpq adds.
static void push_message(lua_State *L, const char *message)
{
    size_t size = strlen(message);
    while (size > 0 && strchr(" \n", message[size - 1]))
        size--;
    lua_pushlstring(L, message, size);
}

static int fail(lua_State *L, const struct mare__postgres *postgres)
{
    push_message(L, postgres->lib->PQerrorMessage(postgres->conn));
    return mare__lua_fail_with(L, MARE_CLOSED);
}

// ---- What blocks --------------------------------------------------------------------------------

static struct mare__postgres_job *job_at(lua_State *L, int index)
{
    return (struct mare__postgres_job *)mare__handle_of(L, index, MARE__KIND_REQUEST)->object;
}

static int job_done(lua_State *L, int status, lua_KContext none)
{
    (void)status, (void)none;
    struct mare__postgres_job *job = job_at(L, -1);
    mare_err err = mare__lua_job_outcome(L, &job->job);
    if (err)
        return mare__lua_fail_job(L, &job->job, err);
    if (job->why[0]) {
        push_message(L, job->why);
        return mare__lua_fail_with(L, MARE_IO);
    }
    lua_pushboolean(L, 1);
    return 1;
}

static int push_job(lua_State *L, const struct mare__postgres *postgres)
{
    struct mare__postgres_job *job =
        mare__postgres_job_new(mare__self(L)->shared.runtime, postgres);
    if (!job)
        mare__lua_no_memory(L);
    mare__handle_push_new(L, job);
    return mare__job_start(&job->job) ? 1 : mare__lua_fail(L, MARE_NOMEM);
}

// load(timeout): what is needed before anything else.
static int load(lua_State *L)
{
    uint64_t deadline = mare__lua_deadline(L, 1);
    mare__block_check(L, mare__self(L));
    int pushed = push_job(L, NULL);
    return pushed > 1 ? pushed : mare__lua_wait_job(L, &job_at(L, -1)->job, deadline, job_done, 0);
}

// cancel(connection): begins to ask the server to stop the query; see await.
static int cancel(lua_State *L)
{
    return push_job(L, postgres_at(L, 1));
}

// dropped(what cancel returned): whether it was given up before it began, so that the server was
// not asked.
static int dropped(lua_State *L)
{
    struct mare__postgres_job *job = job_at(L, 1);
    lua_pushboolean(L, mare__job_is_over(&job->job) && job->cancel);
    return 1;
}

// await(what cancel returned, timeout)
static int await(lua_State *L)
{
    uint64_t deadline = mare__lua_deadline(L, 2);
    lua_settop(L, 1);
    mare__block_check(L, mare__self(L));
    return mare__lua_wait_job(L, &job_at(L, 1)->job, deadline, job_done, 0);
}

// ---- Connecting ---------------------------------------------------------------------------------

static const struct mare__postgres_library *library(lua_State *L)
{
    const char *why;
    const struct mare__postgres_library *lib = mare__postgres_library(&why); // load has been called
    if (!lib)
        luaL_error(L, "%s", why);
    return lib;
}

// parse(uri): a table of what it says.
static int parse(lua_State *L)
{
    const struct mare__postgres_library *lib = library(L);
    char *why = NULL;
    PQconninfoOption *options = lib->PQconninfoParse(luaL_checkstring(L, 1), &why);
    if (!options) {
        push_message(L, why ? why : "not enough memory");
        lib->PQfreemem(why);
        return mare__lua_fail_with(L, MARE_INVALID);
    }
    lua_newtable(L);
    for (PQconninfoOption *option = options; option->keyword; option++)
        if (option->val) {
            lua_pushstring(L, option->val);
            lua_setfield(L, -2, option->keyword);
        }
    lib->PQconninfoFree(options);
    return 1;
}

enum { PARAMETERS = 64 };

// start(parameters): a connection that is being made.
static int start(lua_State *L)
{
    const struct mare__postgres_library *lib = library(L);
    const char *keys[PARAMETERS + 1] = {NULL}, *values[PARAMETERS + 1] = {NULL};
    int count = 0;
    luaL_checktype(L, 1, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, 1) && count < PARAMETERS; count++) {
        keys[count] = lua_tostring(L, -2); // they stay in the table
        values[count] = lua_tostring(L, -1);
        lua_pop(L, 1);
    }
    PGconn *conn = lib->PQconnectStartParams(keys, values, 0);
    struct mare__postgres *postgres =
        conn ? mare__postgres_new(mare__self(L)->shared.runtime, lib, conn) : NULL;
    if (!postgres)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, postgres);
    if (lib->PQstatus(conn) != CONNECTION_BAD)
        return 1;
    int results = fail(L, postgres);
    mare__postgres_finish(postgres);
    return results;
}

// poll(connection): what to wait for before the next poll, "read" or "write"; true: it is made.
static int poll_it(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    switch (postgres->lib->PQconnectPoll(postgres->conn)) {
    case PGRES_POLLING_READING:
        lua_pushliteral(L, "read");
        return 1;
    case PGRES_POLLING_WRITING:
        lua_pushliteral(L, "write");
        return 1;
    case PGRES_POLLING_OK:
        if (postgres->lib->PQsetnonblocking(postgres->conn, 1) != 0)
            return fail(L, postgres);
        lua_pushboolean(L, 1);
        return 1;
    default:
        return fail(L, postgres);
    }
}

static int descriptor(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    lua_pushinteger(L, postgres->lib->PQsocket(postgres->conn));
    return 1;
}

// state(connection): "idle", "active", "open" (in a transaction), "failed" (in one that is), "lost"
static int state(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    static const char *const words[] = {"idle", "active", "open", "failed", "lost"};
    unsigned which = postgres->lib->PQtransactionStatus(postgres->conn);
    bool lost = postgres->lib->PQstatus(postgres->conn) == CONNECTION_BAD;
    lua_pushstring(L, words[lost || which > 4 ? 4 : which]);
    return 1;
}

static int finish(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_REQUEST);
    if (ref && ref->object)
        mare__postgres_finish((struct mare__postgres *)ref->object);
    return 0;
}

// ---- Sending ------------------------------------------------------------------------------------

enum { BYTEA = 17 }; // the number of a type, as the others below

// The values of parameters, as libpq wants them: in a block of memory of Lua's.
struct parameters {
    Oid *types;
    const char **values;
    int *lengths, *formats;
};

// Reads the table at `index` with so many values: strings, nil for NULL, {bytes} for bytea.
static struct parameters read_parameters(lua_State *L, int index, int count)
{
    enum { LARGEST = 1 << 30 }; // PostgreSQL's own limit, and libpq counts in an int
    struct parameters p;
    size_t room = (size_t)count + 1;
    p.values = lua_newuserdatauv(L, room * (sizeof *p.values + sizeof(Oid) + 2 * sizeof(int)), 0);
    p.types = (Oid *)(p.values + room);
    p.lengths = (int *)(p.types + room);
    p.formats = p.lengths + room;
    for (int i = 0; i < count; i++) {
        size_t size = 0;
        bool bytes = lua_rawgeti(L, index, i + 1) == LUA_TTABLE;
        if (bytes)
            lua_rawgeti(L, -1, 1);
        p.values[i] = lua_tolstring(L, -1, &size); // it stays in the table
        if (size > LARGEST)
            luaL_error(L, "parameter %d is too large (1 GiB at most)", i + 1);
        p.types[i] = bytes ? BYTEA : 0;
        p.lengths[i] = (int)size;
        p.formats[i] = bytes;
        lua_pop(L, bytes ? 2 : 1);
    }
    return p;
}

static int sent(lua_State *L, const struct mare__postgres *postgres, int ok, bool rows)
{
    if (!ok)
        return fail(L, postgres);
    if (rows)
        postgres->lib->PQsetSingleRowMode(postgres->conn);
    lua_pushboolean(L, 1);
    return 1;
}

// send(connection, sql, values, count): one statement; without a table of values one or more, in
// the simple protocol. Rows come one by one: otherwise libpq would keep all that the server sends.
static int send(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    const char *sql = luaL_checkstring(L, 2);
    if (lua_isnoneornil(L, 3))
        return sent(L, postgres, postgres->lib->PQsendQuery(postgres->conn, sql), true);
    int count = (int)luaL_checkinteger(L, 4);
    struct parameters p = read_parameters(L, 3, count);
    int ok = postgres->lib->PQsendQueryParams(postgres->conn, sql, count, p.types, p.values,
                                              p.lengths, p.formats, 0);
    return sent(L, postgres, ok, true);
}

// prepare(connection, name, sql)
static int prepare(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    const char *name = luaL_checkstring(L, 2), *sql = luaL_checkstring(L, 3);
    int ok = postgres->lib->PQsendPrepare(postgres->conn, name, sql, 0, NULL);
    return sent(L, postgres, ok, false);
}

// execute(connection, name, values, count): what was prepared.
static int execute(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    const char *name = luaL_checkstring(L, 2);
    int count = (int)luaL_checkinteger(L, 4);
    struct parameters p = read_parameters(L, 3, count);
    int ok = postgres->lib->PQsendQueryPrepared(postgres->conn, name, count, p.values, p.lengths,
                                                p.formats, 0);
    return sent(L, postgres, ok, true);
}

// flush(connection): true: all is on its way; false: the socket is full.
static int flush(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    int left = postgres->lib->PQflush(postgres->conn);
    if (left < 0)
        return fail(L, postgres);
    lua_pushboolean(L, left == 0);
    return 1;
}

// ---- Receiving ----------------------------------------------------------------------------------

// consume(connection): takes what has come.
static int consume(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    if (!postgres->lib->PQconsumeInput(postgres->conn))
        return fail(L, postgres);
    lua_pushboolean(L, 1);
    return 1;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

// "\x" and two digits a byte; the old form, with backslashes, is left as it is.
static void push_bytes(lua_State *L, const char *text, size_t size)
{
    if (size < 2 || text[0] != '\\' || text[1] != 'x') {
        lua_pushlstring(L, text, size);
        return;
    }
    luaL_Buffer buffer;
    char *bytes = luaL_buffinitsize(L, &buffer, size / 2);
    for (size_t i = 2; i + 1 < size; i += 2)
        *bytes++ = (char)(digit(text[i]) << 4 | digit(text[i + 1]));
    luaL_pushresultsize(&buffer, (size - 2) / 2);
}

static void push_value(lua_State *L, Oid type, const char *text, size_t size)
{
    enum { BOOL = 16, INT8 = 20, INT2 = 21, INT4 = 23, OID = 26, FLOAT4 = 700, FLOAT8 = 701 };
    switch (type) {
    case BOOL:
        lua_pushboolean(L, text[0] == 't');
        break;
    case INT8:
    case INT2:
    case INT4:
    case OID:
        lua_pushinteger(L, strtoll(text, NULL, 10));
        break;
    case FLOAT4:
    case FLOAT8:
        lua_pushnumber(L, strtod(text, NULL)); // Infinity and NaN too
        break;
    case BYTEA:
        push_bytes(L, text, size);
        break;
    default:
        lua_pushlstring(L, text, size);
    }
}

// Adds the rows of a result to the list at `list`; returns about how many bytes of memory they
// take: those with nothing in them take some, too.
static size_t add_rows(lua_State *L, const struct mare__postgres_library *lib, PGresult *result,
                       int list)
{
    enum { ROW_BYTES = 64, FIELD_BYTES = 16 };
    int fields = lib->PQnfields(result), rows = lib->PQntuples(result);
    size_t bytes = (size_t)rows * (ROW_BYTES + (size_t)fields * FIELD_BYTES);
    for (int row = 0; row < rows; row++) {
        lua_createtable(L, fields, fields);
        for (int i = 0; i < fields; i++) {
            if (lib->PQgetisnull(result, row, i))
                continue;
            size_t size = (size_t)lib->PQgetlength(result, row, i);
            push_value(L, lib->PQftype(result, i), lib->PQgetvalue(result, row, i), size);
            lua_pushvalue(L, -1);
            lua_rawseti(L, -3, i + 1);
            lua_setfield(L, -2, lib->PQfname(result, i));
            bytes += size;
        }
        lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
    }
    return bytes;
}

// Pushes what a result says: see `take`.
static int push_event(lua_State *L, const struct mare__postgres_library *lib, PGresult *result)
{
    const char *count = lib->PQcmdTuples(result);
    switch (lib->PQresultStatus(result)) {
    case PGRES_COPY_IN:
        lua_pushliteral(L, "copyin");
        return 1;
    case PGRES_COPY_OUT:
        lua_pushliteral(L, "copyout");
        return 1;
    case PGRES_COPY_BOTH: // of a replication: libpq would report it for ever
        lua_pushliteral(L, "copyboth");
        return 1;
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
        lua_pushliteral(L, "done");
        lua_pushinteger(L, strtoll(count, NULL, 10));
        return 2;
    default:
        lua_pushliteral(L, "error");
        const char *message = lib->PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        push_message(L, message ? message : lib->PQresultErrorMessage(result));
        lua_pushstring(L, lib->PQresultErrorField(result, PG_DIAG_SQLSTATE));
        return 3;
    }
}

// Frees a result even if there is no memory for the values made of it.
struct guarded {
    const struct mare__postgres *postgres;
    PGresult *result;
    size_t bytes;
};

static int add_guarded(lua_State *L)
{
    struct guarded *guarded = mare__passed(L, 2);
    guarded->bytes = add_rows(L, guarded->postgres->lib, guarded->result, 1);
    return push_event(L, guarded->postgres->lib, guarded->result);
}

// take(connection, list, most): adds rows to the list, whose field `bytes` grows with them. Returns
// "wait" (for more to read), "rows" (there are so many), "done" and how many rows a statement has
// changed, "error", a message and a code, "copyin", "copyout", "copyboth", or "end".
static int take(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    const struct mare__postgres_library *lib = postgres->lib;
    lua_Integer most = luaL_checkinteger(L, 3);
    struct guarded guarded = {.postgres = postgres};
    struct mare__pass pass;
    lua_settop(L, 2);
    luaL_checkstack(L, 10, NULL);
    for (;;) {
        if (lib->PQisBusy(postgres->conn)) {
            lua_pushliteral(L, "wait");
            return 1;
        }
        guarded.result = lib->PQgetResult(postgres->conn);
        if (!guarded.result) {
            lua_pushliteral(L, "end");
            return 1;
        }
        bool row = lib->PQresultStatus(guarded.result) == PGRES_SINGLE_TUPLE;
        lua_pushcfunction(L, add_guarded);
        lua_pushvalue(L, 2);
        mare__pass_push(L, &pass, &guarded);
        int status = lua_pcall(L, 2, LUA_MULTRET, 0);
        mare__pass_end(L, &pass);
        lib->PQclear(guarded.result);
        if (status != LUA_OK)
            return lua_error(L);
        lua_getfield(L, 2, "bytes");
        lua_pushinteger(L, lua_tointeger(L, -1) + (lua_Integer)guarded.bytes);
        lua_setfield(L, 2, "bytes");
        lua_pop(L, 1);
        if (!row)
            return lua_gettop(L) - 2;
        lua_settop(L, 2);
        if ((lua_Integer)lua_rawlen(L, 2) >= most) {
            lua_pushliteral(L, "rows");
            return 1;
        }
    }
}

// notice(connection): the channel, the payload and the sender of a notification; or nothing.
static int notice(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    PGnotify *notify = postgres->lib->PQnotifies(postgres->conn);
    if (!notify)
        return 0;
    lua_pushstring(L, notify->relname);
    lua_pushstring(L, notify->extra);
    lua_pushinteger(L, notify->be_pid);
    postgres->lib->PQfreemem(notify);
    return 3;
}

// ---- COPY ---------------------------------------------------------------------------------------

// put(connection, bytes): true; false: there is no room, wait.
static int put(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    size_t size;
    const char *bytes = luaL_checklstring(L, 2, &size);
    luaL_argcheck(L, size <= 1 << 30, 2, "too much at once");
    int ok = postgres->lib->PQputCopyData(postgres->conn, bytes, (int)size);
    if (ok < 0)
        return fail(L, postgres);
    lua_pushboolean(L, ok);
    return 1;
}

// putend(connection [, why the COPY shall fail])
static int put_end(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    int ok = postgres->lib->PQputCopyEnd(postgres->conn, luaL_optstring(L, 2, NULL));
    if (ok < 0)
        return fail(L, postgres);
    lua_pushboolean(L, ok);
    return 1;
}

// get(connection): a row; false: wait; nothing: it was the last.
static int get(lua_State *L)
{
    const struct mare__postgres *postgres = postgres_at(L, 1);
    char *bytes = NULL;
    int size = postgres->lib->PQgetCopyData(postgres->conn, &bytes, 1);
    if (size == -2)
        return fail(L, postgres);
    if (size == -1)
        return 0;
    if (size == 0) {
        lua_pushboolean(L, 0);
        return 1;
    }
    bool pushed = mare__lua_try_push(L, bytes, (size_t)size);
    postgres->lib->PQfreemem(bytes);
    return pushed ? 1 : lua_error(L);
}

int mare__lua_open_postgres(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"load", load},     {"cancel", cancel},   {"await", await},
        {"parse", parse},   {"start", start},     {"poll", poll_it},
        {"state", state},   {"finish", finish},   {"descriptor", descriptor},
        {"send", send},     {"prepare", prepare}, {"execute", execute},
        {"flush", flush},   {"consume", consume}, {"take", take},
        {"notice", notice}, {"put", put},         {"putend", put_end},
        {"get", get},       {"dropped", dropped}, {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
