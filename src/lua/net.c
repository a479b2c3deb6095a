// SPDX-License-Identifier: MIT
// Streams and listeners in Lua: how they begin and end, how they are waited for, and names. What is
// read and written is in stream.c. lua/mare/net.lua makes the module `mare.net` of this.
#include <errno.h>
#include <string.h>

#include "loop/pair.h"
#include "lua/job.h"
#include "lua/net.h"

// ---- Failures -----------------------------------------------------------------------------------

static mare_err code_of(int err)
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
    return mare__lua_fail_with(L, code_of(err));
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
    return mare__self(L)->runtime->classes[kind].name;
}

static struct mare__stream *check(lua_State *L, int index, enum mare__kind kind)
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
    return check(L, index, MARE__KIND_STREAM);
}

struct mare__stream *mare__lua_socket(lua_State *L, int index)
{
    return check(L, index, MARE__KIND_UDP);
}

// Which of the three kinds of stream it is.
static enum mare__kind kind_at(lua_State *L, int index)
{
    return mare__handle_of(L, index, MARE__KIND_LISTENER) ? MARE__KIND_LISTENER
           : mare__handle_of(L, index, MARE__KIND_UDP)    ? MARE__KIND_UDP
                                                          : MARE__KIND_STREAM;
}

static struct mare__stream *check_any(lua_State *L, int index)
{
    return check(L, index, kind_at(L, index));
}

// One that bytes come through.
static struct mare__stream *check_either(lua_State *L, int index)
{
    bool datagrams = mare__handle_of(L, index, MARE__KIND_UDP) != NULL;
    return check(L, index, datagrams ? MARE__KIND_UDP : MARE__KIND_STREAM);
}

static void check_address(lua_State *L, int host, struct mare__address *address)
{
    const char *text = mare__lua_name(L, host);
    if (*text == '/' || *text == '.') {
        luaL_argcheck(L, mare__address_unix(address, text), host, "the path is too long");
        return;
    }
    lua_Integer port = luaL_checkinteger(L, host + 1);
    luaL_argcheck(L, port >= 0 && port <= 65535, host + 1, "a port is between 0 and 65535");
    luaL_argcheck(L, mare__address_numeric(address, text, (uint16_t)port), host,
                  "not a numeric address");
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
    mare_process *self = mare__self(L);
    mare__block_clean(self);
    mare_err err = self->sleep.wait.result;
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
    mare_process *self = mare__self(L);
    mare__block_check(L, self);
    mare_channel *ready = mare__stream_begin_wait(stream, way, &deadline);
    if (!ready)
        return mare__lua_fail(L, MARE_NOMEM);
    if (!self->host)
        return mare__block(L, self, MARE__WAITS_TO_RECEIVE, ready, deadline, then, context);
    mare__block(L, self, MARE__WAITS_TO_RECEIVE, ready, deadline, nothing_more, 0);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : MARE__WAITED;
}

// ---- Beginning and end --------------------------------------------------------------------------

enum { PAIR_MAX = 16 << 20 }; // bytes of room

static int push_stream(lua_State *L, int fd, enum mare__kind kind)
{
    struct mare__stream *stream = mare__stream_new(mare__self(L)->runtime, fd, kind);
    if (!stream)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, stream);
    return 1;
}

// One that was accepted: over TLS, if the listener is for that.
static int push_accepted(lua_State *L, const struct mare__stream *listener, int fd)
{
    struct mare__tls_error error;
    struct mare__stream *stream = mare__stream_new(listener->runtime, fd, MARE__KIND_STREAM);
    if (!stream)
        return mare__lua_fail(L, MARE_NOMEM);
    if (listener->context) {
        if (!mare__stream_secure(stream, listener->context, true, NULL, listener->handshake_ns,
                                 &error)) {
            mare__unref(&stream->object);
            return mare__lua_fail_tls(L, &error);
        }
        stream->object.weight += MARE__TLS_WEIGHT;
    }
    mare__handle_push_new(L, stream);
    return 1;
}

static int accept_more(lua_State *L, int status, lua_KContext context);

// l:accept([timeout]); the deadline is at 3.
static int accept_now(lua_State *L, struct mare__stream *listener)
{
    struct mare__address peer;
    for (;;) {
        int fd = mare__socket_accept(mare__stream_descriptor(listener), &peer);
        if (fd == -ECONNABORTED || fd == -EINTR) // that one has gone: the next
            continue;
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
    struct mare__stream *listener = check(L, 1, MARE__KIND_LISTENER);
    mare_err err = mare__lua_outcome(L, listener);
    return err ? mare__lua_fail_stream(L, err) : accept_now(L, listener);
}

static int listener_accept(lua_State *L)
{
    struct mare__stream *listener = check(L, 1, MARE__KIND_LISTENER);
    if (mare__stream_closed(listener))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)mare__lua_stream_deadline(L, listener, 2));
    return accept_now(L, listener);
}

// listen(host, port[, backlog [, share]])
static int net_listen(lua_State *L)
{
    struct mare__address address;
    check_address(L, 1, &address);
    lua_Integer backlog = luaL_optinteger(L, 3, 1024);
    luaL_argcheck(L, backlog > 0 && backlog <= 65535, 3, "a backlog is between 1 and 65535");
    int fd = mare__socket_listen(&address, (int)backlog, lua_toboolean(L, 4));
    return fd < 0 ? mare__lua_fail_system(L, -fd) : push_stream(L, fd, MARE__KIND_LISTENER);
}

// pair(room)
static int net_pair(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->runtime;
    lua_Integer room = luaL_checkinteger(L, 1);
    luaL_argcheck(L, room > 0 && room <= PAIR_MAX, 1, "room is for 1 byte to 16 MiB");
    struct mare__transport *end = mare__pair_new(runtime, (size_t)room);
    for (int i = 0; i < 2; i++) {
        struct mare__stream *stream = mare__stream_over(runtime, end, MARE__KIND_STREAM);
        if (!stream)
            return mare__lua_fail(L, MARE_NOMEM);
        stream->object.weight += (uint32_t)room;
        mare__handle_push_new(L, stream); // which may raise: the other end has no owner until then
        if (i == 0)
            end = mare__pair_other(end);
    }
    return 2;
}

// ---- Connections at once ------------------------------------------------------------------------
// Who serves a listener and has as many connections as may be waits for "room" where a stream would
// wait to write, which a listener cannot do: until it is told that one has ended, or it is closed.

static void tell_of_room(struct mare__stream *listener)
{
    if (listener->waiting[MARE__TO_WRITE] > 0 && !mare__stream_closed(listener))
        mare__stream_tell(listener, MARE__TO_WRITE);
}

// l:limit(connections)
static int listener_limit(lua_State *L)
{
    struct mare__stream *listener = check(L, 1, MARE__KIND_LISTENER);
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
    mare_err err = mare__lua_outcome(L, check(L, 1, MARE__KIND_LISTENER));
    if (err)
        return mare__lua_fail_stream(L, err);
    lua_pushboolean(L, 0);
    return 1;
}

// room(listener, connections): true, if there may be one more than these; else it waits and returns
// false, and there may be.
static int net_room(lua_State *L)
{
    struct mare__stream *listener = check(L, 1, MARE__KIND_LISTENER);
    if (mare__stream_closed(listener))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    if ((uint64_t)luaL_checkinteger(L, 2) >= listener->most)
        return mare__lua_wait_stream(L, listener, MARE__TO_WRITE, MARE_FOREVER, room_told, 0);
    lua_pushboolean(L, 1);
    return 1;
}

// left(listener): one connection less. The listener may be anywhere by now.
static int net_left(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_LISTENER);
    if (ref && !mare__handle_moved(ref))
        tell_of_room((struct mare__stream *)ref->object);
    return 0;
}

// The stream, at 4, is connected, or known not to be.
static int connected(lua_State *L, struct mare__stream *stream)
{
    int failed = -mare__socket_outcome(mare__stream_descriptor(stream));
    if (failed) {
        mare__stream_close(stream);
        return mare__lua_fail_system(L, failed);
    }
    lua_settop(L, 4);
    return 1;
}

static int connect_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = check(L, 4, MARE__KIND_STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    if (!err)
        return connected(L, stream);
    mare__stream_close(stream);
    return mare__lua_fail_stream(L, err);
}

// connect(host, port[, timeout])
static int net_connect(lua_State *L)
{
    struct mare__address address;
    int fd;
    lua_settop(L, 3);
    check_address(L, 1, &address);
    uint64_t deadline = mare__lua_deadline(L, 3);
    mare__block_check(L, mare__self(L));
    int err = mare__socket_connect(&address, &fd);
    if (err < 0)
        return mare__lua_fail_system(L, -err);
    if (push_stream(L, fd, MARE__KIND_STREAM) != 1)
        return 3;
    lua_pushinteger(L, (lua_Integer)deadline);
    struct mare__stream *stream = check(L, 4, MARE__KIND_STREAM);
    int waited = mare__lua_wait_stream(L, stream, MARE__TO_WRITE, (uint64_t)lua_tointeger(L, 5),
                                       connect_done, 0);
    if (waited == MARE__WAITED)
        return connected(L, stream);
    mare__stream_close(stream);
    return waited;
}

// s:close(), l:close()
int mare__lua_stream_close(lua_State *L)
{
    struct mare__stream *stream = check_any(L, 1);
    lua_pushboolean(L, !mare__stream_closed(stream));
    mare__stream_close(stream);
    return 1;
}

// A variable that goes out of scope may hold one that was sent away.
int mare__lua_stream_leave(lua_State *L)
{
    struct mare__reference *ref = lua_touserdata(L, 1);
    return ref && !mare__handle_moved(ref) ? mare__lua_stream_close(L) : 0;
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
    struct mare__stream *stream = check(L, 1, MARE__KIND_STREAM);
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
    return settle(L, check(L, 1, MARE__KIND_STREAM), true);
}

// s:handshake([timeout])
static int stream_handshake(lua_State *L)
{
    struct mare__stream *stream = check(L, 1, MARE__KIND_STREAM);
    luaL_argcheck(L, mare__stream_closed(stream) || !stream->transport->ops->plain, 1,
                  "it is not over TLS");
    return settle(L, stream, false);
}

// s:timeout([seconds]): the default of calls that are given none; nil for none.
int mare__lua_stream_timeout(lua_State *L)
{
    struct mare__stream *stream = check_any(L, 1);
    stream->timeout = MARE_FOREVER;
    if (!lua_isnoneornil(L, 2)) {
        lua_Number seconds = luaL_checknumber(L, 2);
        luaL_argcheck(L, seconds >= 0, 2, "a timeout cannot be negative");
        if (seconds < 1e9)
            stream->timeout = (uint64_t)(seconds * 1e9);
    }
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
    host[0] = '\0'; // one in memory is nowhere
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
    return push_address(L, check_any(L, 1), false);
}

int mare__lua_stream_peer(lua_State *L)
{
    return push_address(L, check_either(L, 1), true);
}

int mare__lua_stream_tostring(lua_State *L)
{
    const char *what = name_of(L, kind_at(L, 1));
    const struct mare__reference *ref = lua_touserdata(L, 1);
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

// ---- Names --------------------------------------------------------------------------------------

int mare__lua_look_up(lua_State *L, const char *host, uint64_t deadline, lua_KFunction then)
{
    mare_process *self = mare__self(L);
    mare__block_check(L, self);
    struct mare__lookup *lookup = mare__lookup_new(self->runtime, host);
    if (!lookup)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, lookup);
    if (!mare__job_start(&lookup->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &lookup->job, deadline, then, 0);
}

int mare__lua_fail_lookup(lua_State *L, const char *host, const struct mare__resolving *naming,
                          const char *why)
{
    if (naming->err)
        why = strerror(naming->err);
    else if (naming->status)
        why = mare__resolve_error(naming->status);
    lua_pushfstring(L, "cannot resolve '%s': %s", host, why);
    return mare__lua_fail_with(L, naming->err ? code_of(naming->err) : MARE_NONAME);
}

static int resolve_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    mare_err err = mare__lua_job_outcome(L, (struct mare__job *)ref->object);
    const struct mare__resolving *lookup = &((struct mare__lookup *)ref->object)->naming;
    if (err)
        return mare__lua_fail_job(L, (struct mare__job *)ref->object, err);
    if (lookup->status)
        return mare__lua_fail_lookup(L, lua_tostring(L, 1), lookup, "");
    lua_createtable(L, lookup->count, 0);
    for (int i = 0; i < lookup->count; i++) {
        char host[MARE__HOST_MAX];
        mare__address_text(&lookup->addresses[i], host);
        lua_pushstring(L, host);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

// resolve(host[, timeout]): a list of numeric addresses.
static int net_resolve(lua_State *L)
{
    struct mare__address numeric;
    const char *host = mare__lua_name(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (mare__address_numeric(&numeric, host, 0)) {
        lua_createtable(L, 1, 0);
        lua_pushvalue(L, 1);
        lua_rawseti(L, -2, 1);
        return 1;
    }
    return mare__lua_look_up(L, host, deadline, resolve_done);
}

// ---- In a select --------------------------------------------------------------------------------

mare_err mare__stream_await(struct mare__object *object, mare_channel **channel)
{
    return mare__stream_watch((struct mare__stream *)object, channel);
}

// ---- The module ---------------------------------------------------------------------------------

const luaL_Reg mare__stream_methods[] = {{"read", mare__lua_stream_read},
                                         {"write", mare__lua_stream_write},
                                         {"writewithin", mare__lua_stream_writewithin},
                                         {"shutdown", stream_shutdown},
                                         {"close", mare__lua_stream_close},
                                         {"timeout", mare__lua_stream_timeout},
                                         {"limit", mare__lua_stream_limit},
                                         {"address", mare__lua_stream_address},
                                         {"peer", mare__lua_stream_peer},
                                         {"handshake", stream_handshake},
                                         {"tls", mare__lua_stream_tls},
                                         {NULL, NULL}};

const luaL_Reg mare__listener_methods[] = {
    {"accept", listener_accept},           {"close", mare__lua_stream_close},
    {"timeout", mare__lua_stream_timeout}, {"limit", listener_limit},
    {"address", mare__lua_stream_address}, {NULL, NULL}};

const luaL_Reg mare__stream_metamethods[] = {
    {"__tostring", mare__lua_stream_tostring}, {"__close", mare__lua_stream_leave}, {NULL, NULL}};

int mare__lua_open_net(lua_State *L)
{
    static const luaL_Reg functions[] = {{"listen", net_listen},   {"connect", net_connect},
                                         {"pair", net_pair},       {"udp", mare__lua_udp},
                                         {"resolve", net_resolve}, {"room", net_room},
                                         {"left", net_left},       {NULL, NULL}};
    mare__lazy_table(L, functions);
    return 1;
}
