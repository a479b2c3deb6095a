// SPDX-License-Identifier: MIT
// Makes streams, listeners and sockets in Lua: opens, binds, connects, listens and accepts, one
// step at a time, so that net.lua and LuaSocket's objects can do something between the steps.
#include <errno.h>

#include "loop/pair.h"
#include "lua/net.h"

static struct mare__stream *check_listener(lua_State *L, int index)
{
    return mare__lua_check_stream(L, index, MARE__KIND_LISTENER);
}

void mare__lua_address(lua_State *L, int host, struct mare__address *address)
{
    const char *text = mare__lua_name(L, host);
    if (*text == '/' || *text == '.' || lua_isnoneornil(L, host + 1)) {
        luaL_argcheck(L, mare__address_unix(address, text), host, "the path is too long");
        return;
    }
    lua_Integer port = luaL_checkinteger(L, host + 1);
    luaL_argcheck(L, port >= 0 && port <= 65535, host + 1, "a port is between 0 and 65535");
    luaL_argcheck(L, mare__address_numeric(address, text, (uint16_t)port), host,
                  "not a numeric address");
}

int mare__lua_push_stream(lua_State *L, struct mare__stream *stream)
{
    if (!stream)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, stream);
    return 1;
}

// ---- Step by step -------------------------------------------------------------------------------

// open(family, kind): "inet", "inet6" or "unix"; "stream" or "dgram"
int mare__lua_net_open(lua_State *L)
{
    static const char *const families[] = {"inet", "inet6", "unix", NULL};
    static const char *const kinds[] = {"stream", "dgram", NULL};
    static const int numbers[] = {AF_INET, AF_INET6, AF_UNIX};
    int family = luaL_checkoption(L, 1, NULL, families);
    bool datagrams = luaL_checkoption(L, 2, NULL, kinds) == 1;
    int fd = mare__socket_open(numbers[family], datagrams ? SOCK_DGRAM : SOCK_STREAM);
    if (fd < 0)
        return mare__lua_fail_system(L, -fd);
    return mare__lua_push_stream(L,
                                 mare__stream_new(mare__self(L)->shared.runtime, fd,
                                                  datagrams ? MARE__KIND_UDP : MARE__KIND_STREAM));
}

// bind(socket, host, port), bind(socket, path): returns it.
int mare__lua_net_bind(lua_State *L)
{
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    struct mare__address address;
    mare__lua_address(L, 2, &address);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    int err = mare__socket_bind(mare__stream_descriptor(stream), &address);
    if (err)
        return mare__lua_fail_system(L, -err);
    lua_settop(L, 1);
    return 1;
}

// listen(stream, backlog): a listener, which has the socket from then on.
int mare__lua_net_listen(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    lua_Integer backlog = luaL_checkinteger(L, 2);
    luaL_argcheck(L, backlog > 0 && backlog <= 65535, 2, "a backlog is between 1 and 65535");
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    int err = mare__socket_listen(mare__stream_descriptor(stream), (int)backlog);
    if (err)
        return mare__lua_fail_system(L, -err);
    struct mare__stream *listener = mare__stream_over(
        stream->runtime, mare__stream_take_transport(stream), MARE__KIND_LISTENER);
    return mare__lua_push_stream(L, listener);
}

static int connect_more(lua_State *L, int status, lua_KContext context);

// The outcome of a connect. If there is none yet, waits until the deadline at index 4.
static int connect_now(lua_State *L, struct mare__stream *stream, int err)
{
    uint64_t deadline = (uint64_t)lua_tointeger(L, 4);
    while (err == -EINPROGRESS) {
        if (stream->idle == 0 || deadline <= mare__now(stream->runtime)) // do not even look once
            return mare__lua_fail_stream(L, MARE_TIMEOUT);
        int waited = mare__lua_wait_stream(L, stream, MARE__TO_WRITE, deadline, connect_more, 0);
        if (waited != MARE__WAITED)
            return waited;
        err = mare__socket_outcome(mare__stream_descriptor(stream));
    }
    if (err)
        return mare__lua_fail_system(L, -err);
    lua_settop(L, 1);
    return 1;
}

static int connect_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err)
               : connect_now(L, stream, mare__socket_outcome(mare__stream_descriptor(stream)));
}

// connect(stream, host, port[, timeout]), connect(stream, path[, nil, timeout]): returns the stream
// when it is connected. After a timeout the system goes on connecting.
int mare__lua_net_connect(lua_State *L)
{
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    struct mare__address address;
    lua_settop(L, 4);
    mare__lua_address(L, 2, &address);
    uint64_t deadline = mare__lua_stream_deadline(L, stream, 4);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_pushinteger(L, (lua_Integer)deadline);
    lua_replace(L, 4);
    return connect_now(L, stream, mare__socket_connect(mare__stream_descriptor(stream), &address));
}

// ---- Accepting ----------------------------------------------------------------------------------

// One that was accepted: over TLS, if the listener is for that.
static int push_accepted(lua_State *L, const struct mare__stream *listener, int fd)
{
    struct mare__tls_error error;
    struct mare__stream *stream = mare__stream_new(listener->runtime, fd, MARE__KIND_STREAM);
    if (stream && listener->context) {
        if (!mare__stream_secure(stream, listener->context, true, NULL, listener->handshake_ns,
                                 &error)) {
            mare__unref(&stream->object);
            return mare__lua_fail_tls(L, &error);
        }
        mare__object_gains(&stream->object, MARE__TLS_WEIGHT);
    }
    return mare__lua_push_stream(L, stream);
}

static int accept_more(lua_State *L, int status, lua_KContext context);

// l:accept([timeout]); the deadline is at 3.
static int accept_now(lua_State *L, struct mare__stream *listener)
{
    for (;;) {
        int fd = mare__socket_accept(mare__stream_descriptor(listener));
        if (fd != -EAGAIN)
            return fd < 0 ? mare__lua_fail_system(L, -fd) : push_accepted(L, listener, fd);
        int waited = mare__lua_wait_stream(L, listener, MARE__TO_READ,
                                           (uint64_t)lua_tointeger(L, 3), accept_more, 0);
        if (waited != MARE__WAITED)
            return waited;
    }
}

static int accept_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *listener = check_listener(L, 1);
    mare_err err = mare__lua_outcome(L, listener);
    return err ? mare__lua_fail_stream(L, err) : accept_now(L, listener);
}

static int listener_accept(lua_State *L)
{
    struct mare__stream *listener = check_listener(L, 1);
    if (mare__stream_closed(listener))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)mare__lua_stream_deadline(L, listener, 2));
    return accept_now(L, listener);
}

// ---- Connections at once ------------------------------------------------------------------------
// A server that has reached its limit of connections waits for "room" at the listener: until a
// connection has ended, or the listener is closed. It uses the listener's wait for writing, which
// nothing else needs.

static void tell_of_room(struct mare__stream *listener)
{
    if (listener->waiting[MARE__TO_WRITE] > 0 && !mare__stream_closed(listener))
        mare__stream_tell(listener, MARE__TO_WRITE);
}

// l:limit(connections)
static int listener_limit(lua_State *L)
{
    struct mare__stream *listener = check_listener(L, 1);
    lua_Integer most = luaL_checkinteger(L, 2);
    luaL_argcheck(L, most > 0, 2, "a limit is positive");
    listener->most = (uint64_t)most;
    tell_of_room(listener);
    lua_settop(L, 1);
    return 1;
}

static int room_told(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    mare_err err = mare__lua_outcome(L, check_listener(L, 1));
    if (err)
        return mare__lua_fail_stream(L, err);
    lua_pushboolean(L, 0);
    return 1;
}

// room(listener, connections): true if one more connection is allowed. Otherwise it waits until
// there is room, and returns false.
int mare__lua_net_room(lua_State *L)
{
    struct mare__stream *listener = check_listener(L, 1);
    if (mare__stream_closed(listener))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    if ((uint64_t)luaL_checkinteger(L, 2) >= listener->most)
        return mare__lua_wait_stream(L, listener, MARE__TO_WRITE, MARE_FOREVER, room_told, 0);
    lua_pushboolean(L, 1);
    return 1;
}

// left(listener): one connection has ended. The listener may belong to another process by now.
int mare__lua_net_left(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_LISTENER);
    if (ref && !mare__handle_moved(ref))
        tell_of_room((struct mare__stream *)ref->object);
    return 0;
}

// ---- Pairs --------------------------------------------------------------------------------------

enum { PAIR_MAX = 16 << 20 }; // bytes of room

// pair(room)
int mare__lua_net_pair(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    lua_Integer room = luaL_checkinteger(L, 1);
    luaL_argcheck(L, room > 0 && room <= PAIR_MAX, 1, "room is for 1 byte to 16 MiB");
    struct mare__transport *end = mare__pair_new(runtime, (size_t)room);
    for (int i = 0; i < 2; i++) {
        struct mare__stream *stream = mare__stream_over(runtime, end, MARE__KIND_STREAM);
        if (stream)
            mare__object_gains(&stream->object, (size_t)room);
        // This may raise an error; then nobody owns the other end yet.
        if (mare__lua_push_stream(L, stream) != 1)
            return 3;
        if (i == 0)
            end = mare__pair_other(end);
    }
    return 2;
}

const luaL_Reg mare__listener_methods[] = {
    {"accept", listener_accept},           {"close", mare__lua_stream_close},
    {"timeout", mare__lua_stream_timeout}, {"limit", listener_limit},
    {"option", mare__lua_stream_option},   {"address", mare__lua_stream_address},
    {"peer", mare__lua_stream_peer},       {NULL, NULL}};
