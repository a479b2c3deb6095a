// SPDX-License-Identifier: MIT
// The interface of luaproc, for programs written for it. Its channels are named and shared by all;
// its functions return `true` or `nil, message`, with luaproc's own messages.
#include "lua/binding.h"
#include "sched/foreign.h"
#include "sched/local.h"
#include "sched/process.h"
#include "sched/trace.h"
#include "sched/worker.h"

static int refuse(lua_State *L, const char *format, const char *name)
{
    lua_pushnil(L);
    lua_pushfstring(L, format, name);
    return 2;
}

// The channel with a name, kept on the stack; NULL after pushing a refusal.
static mare_channel *channel_named(lua_State *L, const char *name)
{
    struct mare__object *object = mare__directory_find(mare__self(L)->shared.runtime->names, name);
    if (!object || object->kind != MARE__KIND_CHANNEL) {
        if (object)
            mare__unref(object);
        refuse(L, "channel '%s' does not exist", name);
        return NULL;
    }
    mare__handle_push(L, object);
    return (mare_channel *)object;
}

// luaproc.newproc(string or function)
static int newproc(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    int type = lua_type(L, 1);
    if (type != LUA_TSTRING && type != LUA_TFUNCTION)
        return refuse(L, "cannot use '%s' to create a new process", luaL_typename(L, 1));
    lua_settop(L, 1);
    if (type == LUA_TSTRING) {
        size_t length;
        const char *code = lua_tolstring(L, 1, &length);
        if (luaL_loadbuffer(L, code, length, code) != LUA_OK)
            return lua_error(L);
        lua_replace(L, 1);
    }
    struct mare__leaving *leaving = NULL;
    struct mare__local *process = mare__local_new(self->shared.runtime);
    if (!process)
        return refuse(L, "%s", mare_strerror(MARE_NOMEM));
    mare__handle_push_new(L, process);
    const char *refused = "?";
    mare__modules_inherit(L, process);
    mare_message *message = &process->sleep.wait.message;
    if (mare__marshal_body(L, 1, 1, message, &leaving, &refused) != MARE_OK)
        return refuse(L, "failed to copy upvalue of unsupported type '%s'", refused);
    process->luaproc = true;
    mare__local_launch(process);
    mare__leaving_end(L, &leaving, 0, true);
    lua_pushboolean(L, 1);
    return 1;
}

static int outcome(lua_State *L, mare_err err, const char *peer)
{
    const char *name = lua_tostring(L, 1);
    if (err == MARE_CLOSED) {
        lua_pushnil(L);
        lua_pushfstring(L, "channel '%s' destroyed while waiting for %s", name, peer);
        return 2;
    }
    mare__lua_raise_unexpected(L, err);
    return refuse(L, "%s", mare_strerror(err));
}

static int send_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    mare__leaving_end(L, &self->sleep.leaving, 0, !self->sleep.wait.result);
    if (self->sleep.wait.result) {
        mare__message_clear(&self->sleep.wait.message);
        return outcome(L, self->sleep.wait.result, "receiver");
    }
    lua_pushboolean(L, 1);
    return 1;
}

// luaproc.send(name, ...)
static int send(lua_State *L)
{
    const char *name = mare__lua_name(L, 1);
    struct mare__local *self = mare__self(L);
    int count = lua_gettop(L) - 1;
    mare_message message;
    struct mare__leaving *leaving = NULL;
    mare_channel *channel = channel_named(L, name);
    if (!channel)
        return 2;
    mare__block_check(L, self);
    const char *type = "?";
    struct mare__marshalling how = {.what = "value", .refused = &type, .leaving = &leaving};
    mare__message_init(&message);
    if (mare__marshal_as(L, 2, count, &message, &how) != MARE_OK)
        return refuse(L, "failed to send value of unsupported type '%s'", type);
    mare__trace_send(self, channel, &message);
    mare_err err = mare__chan_send(channel, &message, NULL);
    if (err == MARE_FULL)
        return mare__block_send(L, self, &message, leaving, channel, MARE_FOREVER, send_done);
    mare__leaving_end(L, &leaving, 0, !err);
    mare__message_clear(&message);
    if (err == MARE_CLOSED)
        return refuse(L, "channel '%s' does not exist", name);
    if (err)
        return refuse(L, "%s", mare_strerror(err));
    lua_pushboolean(L, 1);
    return 1;
}

static int push_received(lua_State *L, const mare_channel *channel, mare_message *message)
{
    mare__trace_receive(mare__self(L), channel, message);
    return mare__unmarshal_own(L, message);
}

static int receive_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    return self->sleep.wait.result
               ? outcome(L, self->sleep.wait.result, "sender")
               : push_received(L, self->sleep.waits_for, &self->sleep.wait.message);
}

// luaproc.receive(name [, async])
static int receive(lua_State *L)
{
    const char *name = mare__lua_name(L, 1);
    bool async = lua_toboolean(L, 2);
    struct mare__local *self = mare__self(L);
    mare_message message;
    mare_channel *channel = channel_named(L, name);
    if (!channel)
        return 2;
    if (!async)
        mare__block_check(L, self);
    mare_err err = mare__chan_receive(channel, &message, NULL);
    if (err == MARE_OK)
        return push_received(L, channel, &message);
    if (err == MARE_EMPTY && async)
        return refuse(L, "no senders waiting on channel '%s'", name);
    if (err != MARE_EMPTY)
        return refuse(L, "channel '%s' does not exist", name);
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, channel, MARE_FOREVER, receive_done, 0);
}

// luaproc.newchannel(name)
static int newchannel(lua_State *L)
{
    const char *name = mare__lua_name(L, 1);
    mare_channel *channel;
    mare_err err = mare__chan_create(mare__self(L)->shared.runtime, 0, name, &channel);
    if (err == MARE_EXISTS)
        return refuse(L, "channel '%s' already exists", name);
    if (err)
        return refuse(L, "%s", mare_strerror(err));
    mare_chan_unref(channel); // the table of names keeps it
    lua_pushboolean(L, 1);
    return 1;
}

// luaproc.delchannel(name)
static int delchannel(lua_State *L)
{
    mare_channel *channel = channel_named(L, mare__lua_name(L, 1));
    if (!channel)
        return 2;
    mare_chan_close(channel);
    lua_pushboolean(L, 1);
    return 1;
}

// luaproc.setnumworkers(n)
static int setnumworkers(lua_State *L)
{
    lua_Integer count = luaL_checkinteger(L, 1);
    luaL_argcheck(L, count > 0, 1, "number of workers must be positive");
    luaL_argcheck(L, count <= MARE__WORKERS_MAX, 1, "too many workers");
    mare__workers_set(mare__self(L)->shared.runtime, (unsigned)count);
    return 0;
}

// luaproc.getnumworkers()
static int getnumworkers(lua_State *L)
{
    lua_pushinteger(L, atomic_load(&mare__self(L)->shared.runtime->worker_count));
    return 1;
}

// luaproc.wait()
static int wait(lua_State *L)
{
    lua_settop(L, 0);
    return mare__lua_wait(L);
}

// luaproc.recycle(n)
static int recycle(lua_State *L)
{
    lua_Integer count = luaL_checkinteger(L, 1);
    luaL_argcheck(L, count >= 0, 1, "number of processes to recycle must be non-negative");
    if (count > UINT32_MAX / 2)
        count = UINT32_MAX / 2; // in effect, all
    mare_set_recycle(mare__self(L)->shared.runtime, (unsigned)count);
    return 0;
}

static const luaL_Reg functions[] = {{"newproc", newproc},
                                     {"send", send},
                                     {"receive", receive},
                                     {"newchannel", newchannel},
                                     {"delchannel", delchannel},
                                     {"setnumworkers", setnumworkers},
                                     {"wait", wait},
                                     {"getnumworkers", getnumworkers},
                                     {"recycle", recycle},
                                     {NULL, NULL}};

int mare__lua_open_luaproc(lua_State *L)
{
    mare__lazy_table(L, functions);
    return 1;
}
