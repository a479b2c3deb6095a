// SPDX-License-Identifier: MIT
// Sockets for datagrams in Lua. As with streams each call tries first, and waits only when the
// system says "not now"; a host that is given by name is looked up first. A socket is a stream that
// has no bytes of its own: it is waited for, closed and sent away by the same functions (net.c).
#include <errno.h>
#include <string.h>

#include "lua/job.h"
#include "lua/net.h"
#include "platform/datagram.h"

static bool is_closed(lua_State *L, struct mare__stream **socket)
{
    *socket = mare__lua_socket(L, 1);
    return mare__stream_closed(*socket);
}

static uint16_t check_port(lua_State *L, int index)
{
    lua_Integer port = luaL_checkinteger(L, index);
    luaL_argcheck(L, port >= 0 && port <= 65535, index, "a port is between 0 and 65535");
    return (uint16_t)port;
}

// The socket itself, or why it could not be done.
static int done(lua_State *L, int err)
{
    if (err < 0)
        return mare__lua_fail_system(L, -err);
    lua_settop(L, 1);
    return 1;
}

// ---- Receiving ----------------------------------------------------------------------------------

static int push_datagram(lua_State *L, const struct mare__stream *socket, const char *bytes,
                         size_t size, const struct mare__address *from, int64_t stamp_ns)
{
    char host[MARE__HOST_MAX];
    if (size > socket->line_max) {
        lua_pushfstring(L, "the datagram is longer than %I bytes", (lua_Integer)socket->line_max);
        return mare__lua_fail_with(L, MARE_TOOBIG);
    }
    int port = mare__address_text(from, host);
    lua_pushlstring(L, bytes, size);
    lua_pushstring(L, host);
    if (port >= 0)
        lua_pushinteger(L, port);
    else
        lua_pushnil(L); // a path has none
    if (stamp_ns == 0)
        return 3;
    lua_pushinteger(L, stamp_ns);
    return 4;
}

static int receive_more(lua_State *L, int status, lua_KContext context);

// The deadline is at 3.
static int receive_now(lua_State *L, struct mare__stream *socket)
{
    for (;;) {
        char bytes[MARE__DATAGRAM_ROOM];
        struct mare__address from;
        int64_t stamp_ns;
        ssize_t got = mare__datagram_receive(mare__stream_descriptor(socket), &from, bytes,
                                             sizeof bytes, &stamp_ns);
        if (got >= 0)
            return push_datagram(L, socket, bytes, (size_t)got, &from, stamp_ns);
        if (got != -EAGAIN)
            return mare__lua_fail_system(L, (int)-got);
        int waited = mare__lua_wait_stream(L, socket, MARE__TO_READ, (uint64_t)lua_tointeger(L, 3),
                                           receive_more, 0);
        if (waited != MARE__WAITED)
            return waited;
    }
}

static int receive_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *socket = mare__lua_socket(L, 1);
    mare_err err = mare__lua_outcome(L, socket);
    return err ? mare__lua_fail_stream(L, err) : receive_now(L, socket);
}

// u:receive([timeout]): data, host, port[, stamp]
static int udp_receive(lua_State *L)
{
    struct mare__stream *socket;
    if (is_closed(L, &socket))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)mare__lua_stream_deadline(L, socket, 2));
    return receive_now(L, socket);
}

// ---- Sending, and connecting --------------------------------------------------------------------
// Both go to a host that may have to be looked up. On the stack, from 1 on: the socket, the data
// (nil to connect), host (nil: the peer), port, the deadline, and, once it is known, the address.
enum { SOCKET = 1, DATA, HOST, PORT, DEADLINE, ADDRESS };

static int send_more(lua_State *L, int status, lua_KContext context);

static int send_now(lua_State *L, struct mare__stream *socket, const struct mare__address *to)
{
    size_t size;
    const char *data = lua_tolstring(L, DATA, &size);
    for (;;) {
        ssize_t sent = mare__datagram_send(mare__stream_descriptor(socket), to, data, size);
        if (sent < 0 && sent != -EAGAIN)
            return mare__lua_fail_system(L, (int)-sent);
        if (sent >= 0) {
            lua_pushboolean(L, 1);
            return 1;
        }
        if (to) {
            lua_settop(L, ADDRESS - 1);
            lua_pushlstring(L, (const char *)to, sizeof *to);
        }
        int waited = mare__lua_wait_stream(L, socket, MARE__TO_WRITE,
                                           (uint64_t)lua_tointeger(L, DEADLINE), send_more, 0);
        if (waited != MARE__WAITED)
            return waited;
    }
}

static int send_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *socket = mare__lua_socket(L, SOCKET);
    mare_err err = mare__lua_outcome(L, socket);
    if (err)
        return mare__lua_fail_stream(L, err);
    struct mare__address to;
    if (lua_isnil(L, HOST))
        return send_now(L, socket, NULL);
    memcpy(&to, lua_tostring(L, ADDRESS), sizeof to);
    return send_now(L, socket, &to);
}

static int go_to(lua_State *L, struct mare__stream *socket, const struct mare__address *to)
{
    if (to && !mare__datagram_speaks(mare__stream_descriptor(socket), to))
        return mare__lua_fail_system(L, EAFNOSUPPORT);
    return lua_isnil(L, DATA) ? done(L, mare__datagram_connect(mare__stream_descriptor(socket), to))
                              : send_now(L, socket, to);
}

// The first address of a name that this socket can send to.
static int found(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *socket;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    mare_err err = mare__lua_job_outcome(L, (struct mare__job *)ref->object);
    const struct mare__resolving *lookup = &((struct mare__lookup *)ref->object)->naming;
    bool closed = is_closed(L, &socket);
    if (err || closed)
        return mare__lua_fail_stream(L, err ? err : MARE_CLOSED);
    const char *why = "it has no address of the socket's family";
    for (int i = 0; i < lookup->count; i++) {
        struct mare__address to;
        char host[MARE__HOST_MAX];
        mare__address_text(&lookup->addresses[i], host);
        if (mare__address_numeric(&to, host, (uint16_t)lua_tointeger(L, PORT)) &&
            mare__datagram_speaks(mare__stream_descriptor(socket), &to))
            return go_to(L, socket, &to);
    }
    return mare__lua_fail_lookup(L, lua_tostring(L, HOST), lookup, why);
}

static int begin(lua_State *L, struct mare__stream *socket)
{
    struct mare__address to;
    if (lua_isnil(L, HOST))
        return go_to(L, socket, NULL);
    const char *host = lua_tostring(L, HOST);
    if (lua_isnil(L, PORT) ? mare__address_unix(&to, host)
                           : mare__address_numeric(&to, host, (uint16_t)lua_tointeger(L, PORT)))
        return go_to(L, socket, &to);
    return mare__lua_look_up(L, host, (uint64_t)lua_tointeger(L, DEADLINE), found);
}

// Puts the deadline in the place of the timeout.
static int begin_within(lua_State *L, struct mare__stream *socket)
{
    lua_pushinteger(L, (lua_Integer)mare__lua_stream_deadline(L, socket, DEADLINE));
    lua_replace(L, DEADLINE);
    return mare__stream_closed(socket) ? mare__lua_fail_stream(L, MARE_CLOSED) : begin(L, socket);
}

// A host and a port; of a Unix-domain socket a path alone.
static void check_target(lua_State *L, const struct mare__stream *socket, int index)
{
    struct mare__address address;
    const char *host = mare__lua_name(L, index);
    bool alone = lua_isnoneornil(L, index + 1);
    if (!alone || mare__socket_family(mare__stream_descriptor(socket)) != AF_UNIX)
        check_port(L, index + 1);
    else
        luaL_argcheck(L, mare__address_unix(&address, host), index, "the path is too long");
}

// u:send(data, host, port[, timeout])
static int udp_send(lua_State *L)
{
    struct mare__stream *socket = mare__lua_socket(L, SOCKET);
    luaL_checklstring(L, DATA, NULL);
    check_target(L, socket, HOST);
    lua_settop(L, DEADLINE);
    return begin_within(L, socket);
}

// u:write(data[, timeout]): to the peer
static int udp_write(lua_State *L)
{
    struct mare__stream *socket = mare__lua_socket(L, SOCKET);
    luaL_checklstring(L, DATA, NULL);
    lua_settop(L, 3);
    lua_pushnil(L);
    lua_insert(L, HOST);
    lua_pushnil(L);
    lua_insert(L, PORT);
    return begin_within(L, socket);
}

// u:connect([host, port[, timeout]]); without a host there is no peer any more.
static int udp_connect(lua_State *L)
{
    struct mare__stream *socket = mare__lua_socket(L, SOCKET);
    if (!lua_isnoneornil(L, 2))
        check_target(L, socket, 2);
    lua_settop(L, 4);
    lua_pushnil(L);
    lua_insert(L, DATA);
    return begin_within(L, socket);
}

// ---- Groups -------------------------------------------------------------------------------------

static int change_group(lua_State *L,
                        int (*change)(int, const struct mare__address *, const char *))
{
    struct mare__stream *socket = mare__lua_socket(L, 1);
    struct mare__address group;
    const char *host = mare__lua_name(L, 2);
    const char *interface = lua_isnoneornil(L, 3) ? NULL : mare__lua_name(L, 3);
    luaL_argcheck(L, mare__address_numeric(&group, host, 0) && mare__address_is_group(&group), 2,
                  "not the numeric address of a group");
    if (mare__stream_closed(socket))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    return done(L, change(mare__stream_descriptor(socket), &group, interface));
}

// u:join(group[, interface])
static int udp_join(lua_State *L)
{
    return change_group(L, mare__datagram_join);
}

// u:leave(group[, interface])
static int udp_leave(lua_State *L)
{
    return change_group(L, mare__datagram_leave);
}

const luaL_Reg mare__udp_methods[] = {{"receive", udp_receive},
                                      {"send", udp_send},
                                      {"write", udp_write},
                                      {"connect", udp_connect},
                                      {"join", udp_join},
                                      {"leave", udp_leave},
                                      {"option", mare__lua_stream_option},
                                      {"limit", mare__lua_stream_limit},
                                      {"timeout", mare__lua_stream_timeout},
                                      {"address", mare__lua_stream_address},
                                      {"peer", mare__lua_stream_peer},
                                      {"close", mare__lua_stream_close},
                                      {NULL, NULL}};

const luaL_Reg mare__udp_metamethods[] = {
    {"__tostring", mare__lua_stream_tostring}, {"__close", mare__lua_stream_leave}, {NULL, NULL}};
