// SPDX-License-Identifier: MIT
// Children in Lua: starting them, waiting for their end, signals. lua/mare/child.lua makes the
// module `mare.child` of this.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "loop/child.h"
#include "lua/job.h"
#include "lua/net.h"
#include "platform/signal.h"

static const char *const stream_names[MARE__CHILD_STREAMS] = {"stdin", "stdout", "stderr"};

static struct mare__child *check(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_CHILD);
    if (!ref)
        luaL_typeerror(L, index, "child");
    if (mare__handle_moved(ref))
        luaL_error(L, "the child was sent to another process");
    return (struct mare__child *)ref->object;
}

// ---- Starting -----------------------------------------------------------------------------------

enum {
    ARGUMENTS = 1,
    ENVIRONMENT,
    FOLDER,
    STREAMS,
    GROUP = STREAMS + MARE__CHILD_STREAMS,
    DETACHED,
    TIMEOUT
};

// The strings of the list at a stack index, for C. Pushes what keeps them: the pointers, and a copy
// of the list, because a finalizer or another routine may change that.
static char **check_strings(lua_State *L, int index)
{
    luaL_checktype(L, index, LUA_TTABLE);
    lua_Integer count = (lua_Integer)lua_rawlen(L, index);
    luaL_argcheck(L, count < 1 << 24, index, "too many strings");
    lua_createtable(L, (int)count, 0);
    for (lua_Integer i = 1; i <= count; i++) {
        if (lua_rawgeti(L, index, i) != LUA_TSTRING) // a number would have to be converted
            luaL_error(L, "bad argument #%d (a list of strings expected)", index);
        luaL_argcheck(L, strlen(lua_tostring(L, -1)) == lua_rawlen(L, -1), index,
                      "a string has a zero byte");
        lua_rawseti(L, -2, i);
    }
    char **strings = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *strings, 0);
    for (lua_Integer i = 0; i < count; i++, lua_pop(L, 1)) {
        lua_rawgeti(L, -2, i + 1);
        strings[i] = (char *)lua_tostring(L, -1);
    }
    strings[count] = NULL;
    return strings;
}

static const char *const words[] = {"inherit", "pipe", "stdout", NULL};
static const char *const hows[] = {"read", "write", "append", NULL};

// Checks one of stdin, stdout and stderr: a stream, a file, {path, how}, or a word. All errors are
// raised here, before anything is open.
static void check_stream(lua_State *L, int index)
{
    luaL_Stream *file = luaL_testudata(L, index, LUA_FILEHANDLE);
    if (mare__handle_of(L, index, MARE__KIND_STREAM)) {
        const struct mare__stream *stream = mare__lua_stream(L, index);
        luaL_argcheck(L, !mare__stream_closed(stream), index, "the stream is closed");
        luaL_argcheck(L, mare__stream_buffered(stream) == 0, index,
                      "the stream has bytes that were read and not taken");
        luaL_argcheck(L, stream->transport->ops->plain, index, "the stream's bytes go through TLS");
        luaL_argcheck(L, mare__stream_descriptor(stream) >= 0, index, "the stream is in memory");
        luaL_argcheck(L, stream->object.waiters == 0, index, "a routine waits for the stream");
    } else if (file) {
        luaL_argcheck(L, file->closef, index, "the file is closed");
    } else if (lua_istable(L, index)) {
        lua_rawgeti(L, index, 1);
        lua_rawgeti(L, index, 2);
        mare__lua_name(L, -2);
        luaL_checkoption(L, -1, NULL, hows);
        lua_pop(L, 2);
    } else {
        luaL_checkoption(L, index, NULL, words);
    }
}

// Describes a stream that was checked. Returns 0, or an errno value, negated.
static int describe_stream(lua_State *L, int index, struct mare__child_stream *stream)
{
    luaL_Stream *file = luaL_testudata(L, index, LUA_FILEHANDLE);
    stream->use = MARE__CHILD_GIVEN;
    if (mare__handle_of(L, index, MARE__KIND_STREAM)) {
        stream->fd = mare__descriptor_copy(mare__stream_descriptor(mare__lua_stream(L, index)));
    } else if (file) {
        stream->fd = mare__descriptor_copy(fileno(file->f));
    } else if (lua_istable(L, index)) {
        lua_rawgeti(L, index, 1);
        lua_rawgeti(L, index, 2);
        stream->use = MARE__CHILD_PATH;
        stream->path = lua_tostring(L, -2); // which the table keeps
        stream->how = (enum mare__open_as)luaL_checkoption(L, -1, NULL, hows);
        lua_pop(L, 2);
    } else {
        int word = luaL_checkoption(L, index, NULL, words);
        stream->fd = 1; // to where standard output goes, which is set up by then
        if (word < 2)
            stream->use = (enum mare__child_use)word;
    }
    if (stream->use != MARE__CHILD_GIVEN || stream->fd >= 0)
        return 0;
    stream->use = MARE__CHILD_INHERITS;
    return stream->fd;
}

// A child expects reads and writes that block. So from now on nobody here may use the stream or
// send it away.
static void give_streams(lua_State *L)
{
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        if (!mare__handle_of(L, STREAMS + i, MARE__KIND_STREAM))
            continue;
        struct mare__stream *stream = mare__lua_stream(L, STREAMS + i);
        mare__descriptor_waits(mare__stream_descriptor(stream), true);
        stream->object.waiters += !stream->given; // once, even if it is given twice
        stream->given = true;
    }
}

// Closes the streams that were given to the child; or, if it was not started, opens them again.
static void settle_given(lua_State *L, bool started)
{
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        if (!mare__handle_of(L, STREAMS + i, MARE__KIND_STREAM))
            continue;
        struct mare__stream *stream = mare__lua_stream(L, STREAMS + i);
        stream->object.waiters -= stream->given;
        stream->given = false;
        if (started)
            mare__stream_close(stream);
        else if (!mare__stream_closed(stream))
            mare__descriptor_waits(mare__stream_descriptor(stream), false);
    }
}

// Pushes `nil, message, code` with the message on top of the stack.
static int fail_saying(lua_State *L, int err)
{
    if (err == ENOENT || err == ENOTDIR)
        return mare__lua_fail_with(L, MARE_NONAME);
    if (err == E2BIG)
        return mare__lua_fail_with(L, MARE_TOOBIG);
    int text = lua_gettop(L);
    mare__lua_fail_system(L, err);
    lua_pushvalue(L, text);
    lua_replace(L, -3);
    return 3;
}

// Names the program or folder that does not exist or may not be used.
static int fail_to_start(lua_State *L, const struct mare__launch *launch, int err)
{
    const char *program = launch->spawning.arguments[0], *why = strerror(err);
    switch (launch->fault) {
    case MARE__LAUNCH_NO_STREAM:
        lua_pushfstring(L, "cannot open '%s': %s", launch->streams[launch->stream].path, why);
        break;
    case MARE__LAUNCH_NO_FOLDER:
        lua_pushfstring(L, "cannot enter the folder '%s': %s", launch->spawning.folder, why);
        break;
    case MARE__LAUNCH_NO_PROGRAM:
        lua_pushfstring(L, "no such program: '%s'", program);
        break;
    case MARE__LAUNCH_NO_INTERPRETER:
        lua_pushfstring(L, "cannot run '%s': the interpreter that it names does not exist",
                        program);
        break;
    default:
        lua_pushfstring(L, "cannot run '%s': %s", program, why);
    }
    return fail_saying(L, err);
}

// Pushes the child, with a table of its pipes that its __index finds.
static int push_child(lua_State *L, struct mare__child *child)
{
    mare__handle_push_new(L, child);
    mare__weak_table(L, MARE__REGISTRY_PIPES, "k");
    lua_pushvalue(L, -2);
    lua_createtable(L, 0, MARE__CHILD_STREAMS);
    for (int i = 0; i < MARE__CHILD_STREAMS; i++) {
        struct mare__stream *pipe = child->pipes[i];
        if (!pipe)
            continue;
        child->pipes[i] = NULL;
        mare__handle_push_new(L, pipe);
        lua_setfield(L, -2, stream_names[i]);
    }
    lua_rawset(L, -3);
    lua_pop(L, 1);
    return 1;
}

static int launch_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    struct mare__launch *launch = (struct mare__launch *)ref->object;
    struct mare__child *child;
    mare_err err = mare__lua_job_outcome(L, &launch->job);
    int failed = err ? 0 : mare__launch_take(launch, &child), results;
    settle_given(L, !err && !failed);
    if (err)
        results = mare__lua_fail_job(L, &launch->job, err);
    else
        results = failed ? fail_to_start(L, launch, -failed) : push_child(L, child);
    mare__handle_forget(L, ref); // a pipe that nobody takes must not wait for the collector
    return results;
}

// spawn(arguments, environment, folder, stdin, stdout, stderr, group, detached [, timeout])
static int child_spawn(lua_State *L)
{
    struct mare__child_stream streams[MARE__CHILD_STREAMS] = {{.use = MARE__CHILD_INHERITS}};
    struct mare__launch *launch;
    lua_settop(L, TIMEOUT);
    uint64_t deadline = mare__lua_deadline(L, TIMEOUT);
    struct mare__spawning spawning = {
        .arguments = check_strings(L, ARGUMENTS),
        .environment = lua_isnil(L, ENVIRONMENT) ? NULL : check_strings(L, ENVIRONMENT),
        .folder = lua_isnil(L, FOLDER) ? NULL : mare__lua_name(L, FOLDER),
        .group = lua_toboolean(L, GROUP),
        .session = lua_toboolean(L, DETACHED)};
    luaL_argcheck(L, spawning.arguments[0], ARGUMENTS, "the name of a program expected");
    for (int i = 0; i < MARE__CHILD_STREAMS; i++)
        check_stream(L, STREAMS + i);
    mare__block_check(L, mare__self(L));
    int err = 0;
    for (int i = 0; i < MARE__CHILD_STREAMS && !err; i++)
        err = describe_stream(L, STREAMS + i, &streams[i]);
    if (err) {
        for (int i = 0; i < MARE__CHILD_STREAMS; i++)
            if (streams[i].use == MARE__CHILD_GIVEN && streams[i].fd >= MARE__CHILD_STREAMS)
                mare__socket_close(streams[i].fd);
        lua_pushfstring(L, "cannot open 'a stream': %s", strerror(-err));
        return fail_saying(L, -err);
    }
    err = mare__launch_new(mare__self(L)->shared.runtime, &spawning, streams, &launch);
    if (err) {
        lua_pushfstring(L, "cannot run '%s': %s", spawning.arguments[0], strerror(-err));
        return fail_saying(L, -err);
    }
    mare__handle_push_new(L, launch);
    give_streams(L);
    if (!mare__job_start(&launch->job)) {
        settle_given(L, false);
        return mare__lua_fail(L, MARE_NOMEM);
    }
    return mare__lua_wait_job(L, &launch->job, deadline, launch_done, 0);
}

// ---- Waiting ------------------------------------------------------------------------------------

int mare__lua_push_child_end(lua_State *L, struct mare__object *object)
{
    int code;
    switch (mare__child_outcome((struct mare__child *)object, &code)) {
    case MARE__CHILD_RUNS:
        lua_pushliteral(L, "running");
        return 1;
    case MARE__CHILD_LOST:
        lua_pushliteral(L, "somebody else has taken note of how it ended");
        return mare__lua_fail_with(L, MARE_IO);
    case MARE__CHILD_EXITED:
        lua_pushliteral(L, "exit");
        lua_pushinteger(L, code);
        return 2;
    default:
        lua_pushliteral(L, "signal");
        lua_pushinteger(L, code);
        lua_pushstring(L, mare__signal_name(code));
        return 3;
    }
}

static int wait_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    struct mare__child *child = check(L, 1);
    child->object.waiters--;
    mare_err err = self->sleep.wait.result;
    return err && err != MARE_CLOSED ? mare__lua_fail(L, err)
                                     : mare__lua_push_child_end(L, &child->object);
}

// c:wait([timeout])
static int child_wait(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    struct mare__child *child = check(L, 1);
    int code;
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (lua_isnoneornil(L, 2) && child->timeout != MARE_FOREVER)
        deadline = mare__now(child->task.runtime) + child->timeout;
    if (mare__child_outcome(child, &code) != MARE__CHILD_RUNS)
        return mare__lua_push_child_end(L, &child->object);
    mare__block_check(L, self);
    if (child->object.waiters == UINT16_MAX)
        return mare__lua_fail(L, MARE_NOMEM);
    child->object.waiters++;
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, child->ended, deadline, wait_done, 0);
}

mare_err mare__child_await_end(struct mare__object *object, mare_channel **channel)
{
    struct mare__child *child = (struct mare__child *)object;
    int code;
    *channel = child->ended;
    return mare__child_outcome(child, &code) == MARE__CHILD_RUNS ? MARE_OK : MARE_CLOSED;
}

// ---- The rest -----------------------------------------------------------------------------------

// c:status(): "running", or what wait returns.
static int child_status(lua_State *L)
{
    return mare__lua_push_child_end(L, &check(L, 1)->object);
}

static int child_pid(lua_State *L)
{
    lua_pushinteger(L, check(L, 1)->pid);
    return 1;
}

// c:kill([signal])
static int child_kill(lua_State *L)
{
    struct mare__child *child = check(L, 1);
    int number = lua_isinteger(L, 2) ? (int)lua_tointeger(L, 2)
                                     : mare__signal_number(luaL_optstring(L, 2, "SIGTERM"));
    luaL_argcheck(L, mare__signal_name(number) != NULL, 2, "there is no such signal");
    int err = mare__child_send(child, number);
    if (err == -ESRCH) {
        lua_pushliteral(L, "the child has ended");
        return mare__lua_fail_with(L, MARE_NOPROC);
    }
    if (err)
        return mare__lua_fail_system(L, -err);
    lua_pushboolean(L, 1);
    return 1;
}

// Seconds at a stack index, in nanoseconds.
static uint64_t check_time(lua_State *L, int index)
{
    lua_Number seconds = luaL_checknumber(L, index);
    luaL_argcheck(L, seconds >= 0, index, "a time cannot be negative");
    return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_C(1000000000000000000);
}

// c:timeout([seconds]): the default of waits that are given none; nil for none.
static int child_timeout(lua_State *L)
{
    struct mare__child *child = check(L, 1);
    child->timeout = lua_isnoneornil(L, 2) ? MARE_FOREVER : check_time(L, 2);
    lua_settop(L, 1);
    return 1;
}

// c:grace(seconds): between being asked to end and being killed.
static int child_grace(lua_State *L)
{
    check(L, 1)->grace = check_time(L, 2);
    lua_settop(L, 1);
    return 1;
}

// Pushes the table of the child's pipes, or nil: it came in a message.
static void push_pipes(lua_State *L, int index)
{
    mare__weak_table(L, MARE__REGISTRY_PIPES, "k");
    lua_pushvalue(L, index);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

static void close_pipes(lua_State *L)
{
    push_pipes(L, 1);
    for (int i = 0; lua_istable(L, -1) && i < MARE__CHILD_STREAMS; i++) {
        lua_getfield(L, -1, stream_names[i]);
        struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_STREAM);
        if (ref && !mare__handle_moved(ref))
            mare__stream_close((struct mare__stream *)ref->object);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

// c:close(): asks it to end, and lets go of its pipes.
static int child_close(lua_State *L)
{
    struct mare__child *child = check(L, 1);
    int code;
    lua_pushboolean(L, mare__child_outcome(child, &code) == MARE__CHILD_RUNS);
    close_pipes(L);
    mare__child_terminate(child);
    return 1;
}

// A <close> variable may hold a child that was sent away.
static int child_leave(lua_State *L)
{
    return mare__handle_here(L, 1) ? child_close(L) : 0;
}

static int child_tostring(lua_State *L)
{
    const struct mare__reference *ref = mare__lua_reference(L, 1, MARE__KIND_CHILD);
    if (mare__handle_moved(ref))
        lua_pushliteral(L, "child (sent)");
    else
        lua_pushfstring(L, "child %d", (int)((struct mare__child *)ref->object)->pid);
    return 1;
}

// ---- The module ---------------------------------------------------------------------------------

static const luaL_Reg methods[] = {{"wait", child_wait},       {"status", child_status},
                                   {"pid", child_pid},         {"kill", child_kill},
                                   {"timeout", child_timeout}, {"grace", child_grace},
                                   {"close", child_close},     {NULL, NULL}};

// c.stdin, c.stdout, c.stderr, or a method.
static int child_index(lua_State *L)
{
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    for (const luaL_Reg *method = methods; method->name; method++)
        if (strcmp(method->name, name) == 0) {
            mare__function_push(L, method->func);
            return 1;
        }
    push_pipes(L, 1);
    if (lua_istable(L, -1))
        lua_getfield(L, -1, name);
    return 1;
}

const luaL_Reg mare__child_metamethods[] = {{"__index", child_index},
                                            {"__tostring", child_tostring},
                                            {"__close", child_leave},
                                            {NULL, NULL}};

// environment(): names and values.
static int child_environment(lua_State *L)
{
    lua_newtable(L);
    char **strings = mare__environment();
    for (int i = 0; strings && strings[i]; i++) {
        const char *equals = strchr(strings[i], '=');
        if (!equals)
            continue;
        lua_pushlstring(L, strings[i], (size_t)(equals - strings[i]));
        lua_pushstring(L, equals + 1);
        lua_rawset(L, -3);
    }
    return 1;
}

int mare__lua_open_child(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"spawn", child_spawn}, {"environment", child_environment}, {NULL, NULL}};
    mare__lazy_table(L, functions);
    lua_pushboolean(L, mare__self(L)->host != NULL); // true: this state has no routines
    lua_setfield(L, -2, "in_host");
    return 1;
}
