// SPDX-License-Identifier: MIT
// Streams, listeners and sockets in Lua: what they have in common, how they are waited for and how
// they end. How they begin is in connect.c, what is read and written in stream.c and udp.c.
// lua/mare/net.lua makes the module `mare.net` of this.
#include <errno.h>
#include <string.h>

#include "lua/net.h"

// ---- Failures -----------------------------------------------------------------------------------

mare_err mare__lua_code_of(int err)
{
    switch (err) {
    case ECONNREFUSED:
        return MARE_REFUSED;
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
        return MARE_CLOSED;
    case ETIMEDOUT:
        return MARE_TIMEOUT;
    case EADDRINUSE:
        return MARE_EXISTS;
    case EMSGSIZE:
        return MARE_TOOBIG;
    case EACCES:
    case EPERM:
        return MARE_DENIED;
    case ENOMEM:
        return MARE_NOMEM;
    default:
        return MARE_IO;
    }
}

int mare__lua_fail_system(lua_State *L, int err)
{
    lua_pushstring(L, strerror(err));
    return mare__lua_fail_with(L, mare__lua_code_of(err));
}

int mare__lua_fail_tls(lua_State *L, const struct mare__tls_error *error)
{
    lua_pushstring(L, error->text);
    return mare__lua_fail_with(L, error->code);
}

int mare__lua_fail_io(lua_State *L, const struct mare__stream *stream, int err)
{
    const struct mare__tls_error *why =
        err == EPROTO ? stream->transport->ops->failure(stream->transport) : NULL;
    return why ? mare__lua_fail_tls(L, why) : mare__lua_fail_system(L, err);
}

int mare__lua_fail_stream(lua_State *L, mare_err err)
{
    if (err != MARE_CLOSED)
        return mare__lua_fail(L, err);
    lua_pushliteral(L, "the stream is closed");
    return mare__lua_fail_with(L, err);
}

// ---- Arguments ----------------------------------------------------------------------------------

static const char *name_of(lua_State *L, enum mare__kind kind)
{
    return mare__self(L)->shared.runtime->classes[kind].name;
}

struct mare__stream *mare__lua_check_stream(lua_State *L, int index, enum mare__kind kind)
{
    struct mare__reference *ref = mare__handle_of(L, index, kind);
    if (!ref)
        luaL_typeerror(L, index, name_of(L, kind));
    if (mare__handle_moved(ref))
        luaL_error(L, "the %s was sent to another process", name_of(L, kind));
    return (struct mare__stream *)ref->object;
}

struct mare__stream *mare__lua_stream(lua_State *L, int index)
{
    return mare__lua_check_stream(L, index, MARE__KIND_STREAM);
}

struct mare__stream *mare__lua_socket(lua_State *L, int index)
{
    return mare__lua_check_stream(L, index, MARE__KIND_UDP);
}

// Which of the three kinds of stream it is.
static enum mare__kind kind_at(lua_State *L, int index)
{
    return mare__handle_of(L, index, MARE__KIND_LISTENER) ? MARE__KIND_LISTENER
           : mare__handle_of(L, index, MARE__KIND_UDP)    ? MARE__KIND_UDP
                                                          : MARE__KIND_STREAM;
}

struct mare__stream *mare__lua_any_stream(lua_State *L, int index)
{
    return mare__lua_check_stream(L, index, kind_at(L, index));
}

// A stream or a socket for datagrams, but no listener.
static struct mare__stream *check_either(lua_State *L, int index)
{
    bool datagrams = mare__handle_of(L, index, MARE__KIND_UDP) != NULL;
    return mare__lua_check_stream(L, index, datagrams ? MARE__KIND_UDP : MARE__KIND_STREAM);
}

// ---- Waiting ------------------------------------------------------------------------------------

uint64_t mare__lua_stream_deadline(lua_State *L, const struct mare__stream *stream, int index)
{
    if (!lua_isnoneornil(L, index))
        return mare__lua_deadline(L, index);
    if (stream->timeout == MARE_FOREVER)
        return MARE_FOREVER;
    uint64_t now = mare__now(stream->runtime);
    return stream->timeout > MARE_FOREVER - 1 - now ? MARE_FOREVER : now + stream->timeout;
}

mare_err mare__lua_outcome(lua_State *L, struct mare__stream *stream)
{
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    mare_err err = self->sleep.wait.result;
    if (self->sleep.waits_for) // NULL: the call has no time, so nothing was waited for
        mare__stream_end_wait(stream, self->sleep.waits_for);
    return !err && mare__stream_closed(stream) ? MARE_CLOSED : err;
}

static int nothing_more(lua_State *L, int status, lua_KContext context)
{
    (void)L, (void)status, (void)context;
    return 0;
}

int mare__lua_wait_stream(lua_State *L, struct mare__stream *stream, int way, uint64_t deadline,
                          lua_KFunction then, lua_KContext context)
{
    struct mare__local *self = mare__self(L);
    bool timed = deadline != MARE_FOREVER || stream->idle != MARE_FOREVER;
    bool no_time = timed && (stream->idle == 0 || deadline <= mare__now(stream->runtime));
    // Inside a callback of a C function no wait is possible; but "timeout" can be returned without
    // one.
    if (no_time && !mare__block_possible(L, self))
        return mare__lua_fail_stream(L, MARE_TIMEOUT);
    mare__block_check(L, self);
    mare_channel *ready = no_time ? NULL : mare__stream_begin_wait(stream, way, &deadline);
    if (!ready && !no_time)
        return mare__lua_fail(L, MARE_NOMEM);
    // A call without time lets others run: otherwise a program that polls would hold them up.
    enum mare__waits waits = no_time ? MARE__WAITS_FOR_TIME : MARE__WAITS_TO_RECEIVE;
    if (no_time)
        deadline = 0;
    if (!self->host)
        return mare__block(L, self, waits, ready, deadline, then, context);
    mare__block(L, self, waits, ready, deadline, nothing_more, 0);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : MARE__WAITED;
}

int mare__lua_wait_first(lua_State *L, struct mare__stream *stream, int way, int deadline,
                         int timeout, lua_KFunction then, lua_KContext context)
{
    if (lua_isnil(L, deadline)) {
        lua_pushinteger(L, (lua_Integer)mare__lua_stream_deadline(L, stream, timeout));
        lua_replace(L, deadline);
    }
    return mare__lua_wait_stream(L, stream, way, (uint64_t)lua_tointeger(L, deadline), then,
                                 context);
}

// ---- The end ------------------------------------------------------------------------------------

// s:close(), l:close()
int mare__lua_stream_close(lua_State *L)
{
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    lua_pushboolean(L, !mare__stream_closed(stream));
    mare__stream_close(stream);
    return 1;
}

// __close: nothing to do for a stream that was sent to another process meanwhile.
int mare__lua_stream_leave(lua_State *L)
{
    return mare__handle_here(L, 1) ? mare__lua_stream_close(L) : 0;
}

static int settle_more(lua_State *L, int status, lua_KContext context);

// The deadline is at 2.
static int settle_now(lua_State *L, struct mare__stream *stream, bool shuts)
{
    for (;;) {
        int err = shuts ? mare__stream_shutdown(stream) : mare__stream_flush(stream);
        if (err == 0) {
            lua_settop(L, 1); // the stream
            if (shuts)
                lua_pushboolean(L, 1);
            return 1;
        }
        if (err != -EAGAIN)
            return mare__lua_fail_io(L, stream, -err);
        int waited = mare__lua_wait_stream(L, stream, MARE__TO_WRITE, (uint64_t)lua_tointeger(L, 2),
                                           settle_more, shuts);
        if (waited != MARE__WAITED)
            return waited;
    }
}

static int settle_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__stream *stream = mare__lua_stream(L, 1);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : settle_now(L, stream, context);
}

static int settle(lua_State *L, struct mare__stream *stream, bool shuts)
{
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    uint64_t deadline = mare__lua_stream_deadline(L, stream, 2);
    lua_settop(L, 1);
    lua_pushinteger(L, (lua_Integer)deadline);
    return settle_now(L, stream, shuts);
}

// s:shutdown([timeout])
static int stream_shutdown(lua_State *L)
{
    return settle(L, mare__lua_stream(L, 1), true);
}

// s:handshake([timeout])
static int stream_handshake(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    luaL_argcheck(L, mare__stream_closed(stream) || !stream->transport->ops->plain, 1,
                  "it is not over TLS");
    return settle(L, stream, false);
}

// Seconds, in nanoseconds; nil: without end.
static uint64_t get_seconds(lua_State *L, int index)
{
    lua_Number seconds = luaL_optnumber(L, index, 1e9);
    luaL_argcheck(L, seconds >= 0, index, "a timeout cannot be negative");
    return seconds < 1e9 ? (uint64_t)(seconds * 1e9) : MARE_FOREVER;
}

// s:timeout([seconds [, idle]]): of calls that are given none, and of each of their waits.
int mare__lua_stream_timeout(lua_State *L)
{
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    stream->timeout = get_seconds(L, 2);
    stream->idle = get_seconds(L, 3);
    lua_settop(L, 1);
    return 1;
}

// s:limit(bytes[, all]): of a line, of a datagram; of all there is, or of so many bytes.
int mare__lua_stream_limit(lua_State *L)
{
    struct mare__stream *stream = check_either(L, 1);
    lua_Integer bytes = luaL_checkinteger(L, 2);
    lua_Integer all = luaL_optinteger(L, 3, (lua_Integer)stream->all_max);
    luaL_argcheck(L, bytes > 0, 2, "a limit is positive");
    luaL_argcheck(L, all > 0, 3, "a limit is positive");
    stream->line_max = (uint64_t)bytes;
    stream->all_max = (uint64_t)all;
    lua_settop(L, 1);
    return 1;
}

static int push_address(lua_State *L, struct mare__stream *stream, bool peer)
{
    struct mare__address address;
    char host[MARE__HOST_MAX];
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    int fd = mare__stream_descriptor(stream), port = -1;
    host[0] = '\0'; // a stream in memory has no address
    if (fd >= 0) {
        int err = mare__socket_address(fd, peer, &address);
        if (err)
            return mare__lua_fail_system(L, -err);
        port = mare__address_text(&address, host);
    }
    lua_pushstring(L, host);
    if (port < 0)
        return 1;
    lua_pushinteger(L, port);
    return 2;
}

int mare__lua_stream_address(lua_State *L)
{
    return push_address(L, mare__lua_any_stream(L, 1), false);
}

int mare__lua_stream_peer(lua_State *L)
{
    return push_address(L, mare__lua_any_stream(L, 1), true);
}

int mare__lua_stream_tostring(lua_State *L)
{
    const char *what = name_of(L, kind_at(L, 1));
    const struct mare__reference *ref = mare__lua_reference(L, 1, kind_at(L, 1));
    const struct mare__stream *stream = (const struct mare__stream *)ref->object;
    if (mare__handle_moved(ref))
        lua_pushfstring(L, "%s (sent)", what);
    else if (mare__stream_closed(stream))
        lua_pushfstring(L, "%s (closed)", what);
    else if (mare__stream_descriptor(stream) < 0)
        lua_pushfstring(L, "%s (in memory)", what);
    else
        lua_pushfstring(L, "%s %d", what, mare__stream_descriptor(stream));
    return 1;
}

// ---- In a select --------------------------------------------------------------------------------

mare_err mare__stream_await(struct mare__object *object, mare_channel **channel)
{
    return mare__stream_await_read((struct mare__stream *)object, channel);
}

// ---- The module ---------------------------------------------------------------------------------

const luaL_Reg mare__stream_methods[] = {
    {"read", mare__lua_stream_read},       {"lines", mare__lua_stream_lines},
    {"write", mare__lua_stream_write},     {"writewithin", mare__lua_stream_writewithin},
    {"shutdown", stream_shutdown},         {"close", mare__lua_stream_close},
    {"timeout", mare__lua_stream_timeout}, {"limit", mare__lua_stream_limit},
    {"address", mare__lua_stream_address}, {"peer", mare__lua_stream_peer},
    {"handshake", stream_handshake},       {"tls", mare__lua_stream_tls},
    {"option", mare__lua_stream_option},   {NULL, NULL}};

const luaL_Reg mare__stream_metamethods[] = {
    {"__tostring", mare__lua_stream_tostring}, {"__close", mare__lua_stream_leave}, {NULL, NULL}};

int mare__lua_open_net(lua_State *L)
{
    static const luaL_Reg functions[] = {{"open", mare__lua_net_open},
                                         {"bind", mare__lua_net_bind},
                                         {"listen", mare__lua_net_listen},
                                         {"connect", mare__lua_net_connect},
                                         {"pair", mare__lua_net_pair},
                                         {"resolve", mare__lua_net_resolve},
                                         {"room", mare__lua_net_room},
                                         {"left", mare__lua_net_left},
                                         {NULL, NULL}};
    mare__lazy_table(L, functions);
    return 1;
}
