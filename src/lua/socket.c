// SPDX-License-Identifier: MIT
// Sockets as the system knows them, for lua/mare/luasocket: a call tries, and says `false` when
// it is not possible now; another waits until it is. Failures are `nil` and LuaSocket's words. A
// socket is a stream that only these functions see; what the program holds is an object around it.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/socket.h"
#include "platform/rawsocket.h"
#include "platform/wall.h"

// ---- Objects ------------------------------------------------------------------------------------
// What the program holds: a userdata, as in LuaSocket, whose state is a table of luasocket.lua's.

// object(state, metatable)
static int socket_object(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_newuserdatauv(L, 0, 1);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, 2);
    lua_setmetatable(L, -2);
    return 1;
}

// become(object, metatable)
static int socket_become(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TUSERDATA);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 0;
}

// state(value): the table of an object, nil of anything else.
static int socket_state(lua_State *L)
{
    if (lua_type(L, 1) != LUA_TUSERDATA || mare__handle_test(L, 1))
        lua_pushnil(L);
    else
        lua_getiuservalue(L, 1, 1);
    return 1;
}

// ---- Results ------------------------------------------------------------------------------------

static const char *words_for(int err)
{
    switch (err) {
    case EADDRINUSE:
        return "address already in use";
    case EISCONN:
        return "already connected";
    case EACCES:
        return "permission denied";
    case ECONNREFUSED:
        return "connection refused";
    case ECONNABORTED:
    case ECONNRESET:
    case EPIPE:
        return "closed";
    case ETIMEDOUT:
        return "timeout";
    default:
        return strerror(err);
    }
}

int mare__lua_socket_fail(lua_State *L, int err)
{
    lua_pushnil(L);
    lua_pushstring(L, words_for(err));
    return 2;
}

int mare__lua_socket_fail_words(lua_State *L, const char *words)
{
    lua_pushnil(L);
    lua_pushstring(L, words);
    return 2;
}

// True, false (not now), or a failure, for a negated errno value or 0.
static int outcome(lua_State *L, int r)
{
    if (r < 0 && r != -EAGAIN && r != -EINPROGRESS)
        return mare__lua_socket_fail(L, -r);
    lua_pushboolean(L, r >= 0);
    return 1;
}

static int push_socket(lua_State *L, int fd)
{
    struct mare__stream *stream = mare__stream_new(mare__self(L)->runtime, fd, MARE__KIND_STREAM);
    if (!stream)
        return mare__lua_socket_fail(L, ENOMEM);
    mare__handle_push_new(L, stream);
    return 1;
}

static int descriptor(lua_State *L, int index)
{
    struct mare__stream *stream = mare__lua_stream(L, index);
    return mare__stream_closed(stream) ? -1 : stream->observed.fd;
}

// ---- Addresses ----------------------------------------------------------------------------------

// A numeric host and a port, or, without a port, a path. False: it is none.
static bool read_address(lua_State *L, int index, struct mare__address *address)
{
    const char *host = luaL_checkstring(L, index);
    if (lua_isnoneornil(L, index + 1))
        return mare__address_unix(address, host);
    return mare__address_numeric(address, host, (uint16_t)luaL_checkinteger(L, index + 1));
}

static int no_address(lua_State *L)
{
    return mare__lua_socket_fail_words(L, "host or service not provided, or not known");
}

const char *mare__lua_socket_family(const struct mare__address *address)
{
    return address->storage.ss_family == AF_INET6  ? "inet6"
           : address->storage.ss_family == AF_INET ? "inet"
                                                   : "unix";
}

// Host, port and family; or the path.
static int push_address(lua_State *L, const struct mare__address *address)
{
    char host[MARE__HOST_MAX];
    int port = mare__address_text(address, host);
    lua_pushstring(L, host);
    if (port < 0)
        return 1;
    lua_pushinteger(L, port);
    lua_pushstring(L, mare__lua_socket_family(address));
    return 3;
}

// name(socket, of the peer)
static int socket_name(lua_State *L)
{
    struct mare__address address;
    int err = mare__socket_address(descriptor(L, 1), lua_toboolean(L, 2), &address);
    return err ? mare__lua_socket_fail(L, -err) : push_address(L, &address);
}

// ---- Beginning and end --------------------------------------------------------------------------

// open(family, kind): "inet", "inet6" or "unix"; "stream" or "dgram"
static int socket_open(lua_State *L)
{
    static const char *const families[] = {"inet", "inet6", "unix", NULL};
    static const char *const kinds[] = {"stream", "dgram", NULL};
    static const int family[] = {AF_INET, AF_INET6, AF_UNIX}, kind[] = {SOCK_STREAM, SOCK_DGRAM};
    int fd = mare__raw_open(family[luaL_checkoption(L, 1, NULL, families)],
                            kind[luaL_checkoption(L, 2, NULL, kinds)]);
    return fd < 0 ? mare__lua_socket_fail(L, -fd) : push_socket(L, fd);
}

// bind(socket, host, port), bind(socket, path)
static int socket_bind(lua_State *L)
{
    struct mare__address address;
    if (!read_address(L, 2, &address))
        return no_address(L);
    return outcome(L, mare__raw_bind(descriptor(L, 1), &address));
}

// listen(socket, backlog)
static int socket_listen(lua_State *L)
{
    return outcome(L, mare__raw_listen(descriptor(L, 1), (int)luaL_checkinteger(L, 2)));
}

// connect(socket, host, port), connect(socket, path), connect(socket): to nobody
static int socket_connect(lua_State *L)
{
    struct mare__address address;
    bool somebody = !lua_isnoneornil(L, 2);
    if (somebody && !read_address(L, 2, &address))
        return no_address(L);
    return outcome(L, mare__raw_connect(descriptor(L, 1), somebody ? &address : NULL));
}

// connected(socket): what became of it, once it can be written to.
static int socket_connected(lua_State *L)
{
    return outcome(L, mare__socket_outcome(descriptor(L, 1)));
}

static int socket_accept(lua_State *L)
{
    int fd;
    do
        fd = mare__raw_accept(descriptor(L, 1));
    while (fd == -EINTR || fd == -ECONNABORTED);
    return fd < 0 ? outcome(L, fd) : push_socket(L, fd);
}

// shutdown(socket, how)
static int socket_shutdown(lua_State *L)
{
    static const char *const halves[] = {"receive", "send", "both", NULL};
    mare__raw_shutdown(descriptor(L, 1), (enum mare__half)luaL_checkoption(L, 2, NULL, halves));
    return 0;
}

static int socket_descriptor(lua_State *L)
{
    lua_pushinteger(L, descriptor(L, 1));
    return 1;
}

// adopt(descriptor): a socket over a descriptor that somebody else made.
static int socket_adopt(lua_State *L)
{
    int fd = (int)luaL_checkinteger(L, 1), err = mare__raw_adopt(fd);
    return err < 0 ? mare__lua_socket_fail(L, -err) : push_socket(L, fd);
}

// borrow(descriptor): the same over a copy, so that the original can be closed or watched by
// others.
static int socket_borrow(lua_State *L)
{
    int fd = mare__socket_copy((int)luaL_checkinteger(L, 1));
    return fd < 0 ? mare__lua_socket_fail(L, -fd) : push_socket(L, fd);
}

// lend(socket): somebody else has its descriptor from now on; the socket is closed.
static int socket_lend(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    stream->observed.lent = true;
    mare__observed_close(&stream->observed);
    return 0;
}

static int socket_close(lua_State *L)
{
    mare__observed_close(&mare__lua_stream(L, 1)->observed);
    return 0;
}

// ---- Bytes --------------------------------------------------------------------------------------

enum { ROOM = 65536 };

// receive(socket, size [, with the sender's address]): "" at the end of a stream
static int socket_receive(lua_State *L)
{
    int fd = descriptor(L, 1);
    lua_Integer size = luaL_checkinteger(L, 2);
    bool from = lua_toboolean(L, 3);
    struct mare__address sender;
    char bytes[ROOM];
    luaL_argcheck(L, size >= 0, 2, "a size is not negative");
    ssize_t got =
        mare__raw_receive(fd, bytes, size < ROOM ? (size_t)size : ROOM, from ? &sender : NULL);
    if (got < 0)
        return outcome(L, (int)got);
    lua_pushlstring(L, bytes, (size_t)got);
    return from ? 1 + push_address(L, &sender) : 1;
}

// send(socket, bytes, first): how many of them, from the first on, the system took
static int socket_send(lua_State *L)
{
    size_t size;
    int fd = descriptor(L, 1);
    const char *bytes = luaL_checklstring(L, 2, &size);
    lua_Integer first = luaL_checkinteger(L, 3), last = luaL_checkinteger(L, 4);
    luaL_argcheck(L, first >= 1 && last <= (lua_Integer)size && first <= last + 1, 3,
                  "out of range");
    ssize_t sent = mare__raw_send(fd, bytes + first - 1, (size_t)(last - first + 1), NULL);
    if (sent < 0)
        return outcome(L, (int)sent);
    lua_pushinteger(L, sent);
    return 1;
}

// sendto(socket, bytes, host, port), sendto(socket, bytes, path)
static int socket_sendto(lua_State *L)
{
    size_t size;
    int fd = descriptor(L, 1);
    struct mare__address to;
    const char *bytes = luaL_checklstring(L, 2, &size);
    if (!read_address(L, 3, &to))
        return no_address(L);
    ssize_t sent = mare__raw_send(fd, bytes, size, &to);
    if (sent < 0)
        return outcome(L, (int)sent);
    lua_pushinteger(L, sent);
    return 1;
}

// ---- Waiting ------------------------------------------------------------------------------------

// What a wait returns: true, or nil and "timeout", "closed" or "cancelled".
int mare__lua_socket_waited(lua_State *L, mare_err err)
{
    if (!err) {
        lua_pushboolean(L, 1);
        return 1;
    }
    mare__lua_fail(L, err); // nil, message, code; or an error that nobody may overlook
    lua_remove(L, -2);
    return 2;
}

static int wait_done(lua_State *L, int status, lua_KContext way)
{
    (void)status;
    return mare__lua_socket_waited(L, mare__lua_outcome(L, mare__lua_stream(L, 1), (int)way));
}

// wait(socket, to write [, deadline])
static int socket_wait(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    int way = lua_toboolean(L, 2) ? MARE__TO_WRITE : MARE__TO_READ;
    uint64_t deadline = mare__lua_deadline(L, 3);
    if (mare__stream_closed(stream))
        return mare__lua_socket_waited(L, MARE_CLOSED);
    int results = mare__lua_wait_stream(L, stream, way, deadline, wait_done, way);
    if (results == MARE__WAITED)
        return mare__lua_socket_waited(L, MARE_OK);
    lua_replace(L, 2); // of nil, message, code, which a host gets at once
    lua_settop(L, 2);
    lua_pushnil(L);
    lua_insert(L, 2);
    return 2;
}

static struct mare__raw_look *looks_of(lua_State *L, lua_Integer *count)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    *count = luaL_len(L, 1);
    luaL_argcheck(L, *count <= 1 << 20, 1, "too many sockets");
    struct mare__raw_look *looks = lua_newuserdatauv(L, (size_t)*count * sizeof *looks + 1, 0);
    for (lua_Integer i = 1; i <= *count; i++) {
        lua_rawgeti(L, 1, i);
        lua_rawgeti(L, 2, i);
        enum mare__raw_way way = lua_isstring(L, -1)    ? MARE__RAW_LEAVE
                                 : lua_toboolean(L, -1) ? MARE__RAW_WRITE
                                                        : MARE__RAW_READ;
        looks[i - 1] = (struct mare__raw_look){.fd = descriptor(L, lua_gettop(L) - 1), .way = way};
        lua_pop(L, 2);
    }
    return looks;
}

// look(sockets, whether to write, or "leave"): how many are ready; the second table says which then
static int socket_look(lua_State *L)
{
    lua_Integer count;
    struct mare__raw_look *looks = looks_of(L, &count);
    void *scratch = lua_newuserdatauv(L, (size_t)count * mare__raw_look_scratch + 1, 0);
    int ready = mare__raw_look(looks, (size_t)count, scratch);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_pushboolean(L, looks[i - 1].ready);
        lua_rawseti(L, 2, i);
    }
    lua_pushinteger(L, ready < 0 ? 0 : ready);
    return 1;
}

// The sockets of these cases are waited for no more, but perhaps by others: what this one was told
// may have been meant for them.
static void leave(struct mare__case *cases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mare__stream *stream = (struct mare__stream *)cases[i].about;
        int way = cases[i].channel == stream->observed.ready[MARE__TO_WRITE] ? MARE__TO_WRITE
                                                                             : MARE__TO_READ;
        stream->object.waiters--;
        stream->waiting[way]--;
        if (!mare__stream_closed(stream) && stream->waiting[way] > 0)
            mare__observed_await(stream->runtime, &stream->observed, way);
    }
    mare__cases_free(cases, count);
}

static int any_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    mare_process *self = mare__self(L);
    mare__block_clean(self);
    bool fired = self->sleep.wait.fired != MARE__FIRED_NONE;
    mare_err err = self->sleep.wait.result;
    uint32_t count;
    struct mare__case *cases = mare__block_cases(self, &count);
    leave(cases, count);
    return mare__lua_socket_waited(L, fired ? MARE_OK : err);
}

// Makes a case that waits for the socket; false: not enough memory.
static bool make_case(struct mare__case *one, mare_runtime *runtime, struct mare__stream *stream,
                      int way)
{
    mare_channel *ready = stream->object.waiters < UINT16_MAX
                              ? mare__observed_await(runtime, &stream->observed, way)
                              : NULL;
    if (!ready)
        return false;
    *one =
        (struct mare__case){.channel = mare_chan_ref(ready), .about = mare__ref(&stream->object)};
    mare__list_init(&one->spot.entry);
    stream->object.waiters++;
    stream->waiting[way]++;
    return true;
}

// waitany(sockets, whether to write, deadline): until one seems to be ready
static int socket_waitany(lua_State *L)
{
    mare_process *self = mare__self(L);
    uint64_t deadline = mare__lua_deadline(L, 3);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Unsigned count = lua_rawlen(L, 1);
    luaL_argcheck(L, count > 0 && count <= 1 << 20, 1, "too many sockets, or none");
    mare__block_check(L, self);
    for (lua_Unsigned i = 1; i <= count; i++) { // no error can come once there are cases
        lua_rawgeti(L, 1, (lua_Integer)i);
        mare__lua_stream(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    struct mare__case *cases = mare__cases_new((uint32_t)count);
    if (!cases)
        return mare__lua_socket_fail(L, ENOMEM);
    for (uint32_t i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        struct mare__stream *stream = mare__lua_stream(L, lua_gettop(L) - 1);
        int way = lua_toboolean(L, -1) ? MARE__TO_WRITE : MARE__TO_READ;
        lua_pop(L, 2);
        bool closed = mare__stream_closed(stream);
        if (closed || !make_case(&cases[i], self->runtime, stream, way)) {
            leave(cases, i);
            return closed ? mare__lua_socket_waited(L, MARE_OK) : mare__lua_socket_fail(L, ENOMEM);
        }
    }
    self->sleep.turn = 0;
    return mare__block_select(L, self, cases, (uint32_t)count, deadline, any_done);
}

// ---- Options ------------------------------------------------------------------------------------

// setoption(socket, name, value [, second])
static int socket_setoption(lua_State *L)
{
    const struct mare__option *option = mare__option_find(luaL_checkstring(L, 2));
    struct mare__option_value value = {0};
    luaL_argcheck(L, option, 2, "no such option");
    bool fits = true;
    switch (option->kind) {
    case MARE__OPTION_GROUP:
        fits = mare__address_numeric(&value.group, luaL_checkstring(L, 3), 0) &&
               mare__address_numeric(&value.interface, luaL_checkstring(L, 4), 0);
        break;
    case MARE__OPTION_GROUP6:
        fits = mare__address_numeric(&value.group, luaL_checkstring(L, 3), 0);
        value.number = (int)luaL_optinteger(L, 4, 0);
        break;
    case MARE__OPTION_INTERFACE:
        fits = mare__address_numeric(&value.interface, luaL_checkstring(L, 3), 0);
        break;
    default:
        value.number =
            lua_isboolean(L, 3) ? lua_toboolean(L, 3) : (int)(int64_t)luaL_checknumber(L, 3);
        value.seconds = (int)(int64_t)luaL_optnumber(L, 4, 0);
        break;
    }
    if (!fits || mare__option_set(descriptor(L, 1), option, &value) < 0)
        return mare__lua_socket_fail_words(L, "setsockopt failed");
    lua_pushboolean(L, 1);
    return 1;
}

// getoption(socket, name): the value, and of lingering the seconds; of "error", it or nothing
static int socket_getoption(lua_State *L)
{
    const struct mare__option *option = mare__option_find(luaL_checkstring(L, 2));
    struct mare__option_value value;
    char host[MARE__HOST_MAX];
    luaL_argcheck(L, option, 2, "no such option");
    if (mare__option_get(descriptor(L, 1), option, &value) < 0)
        return mare__lua_socket_fail_words(L, "getsockopt failed");
    switch (option->kind) {
    case MARE__OPTION_NUMBER:
        lua_pushnumber(L, value.number);
        return 1;
    case MARE__OPTION_LINGER:
        lua_pushboolean(L, value.number);
        lua_pushinteger(L, value.seconds);
        return 2;
    case MARE__OPTION_INTERFACE:
        mare__address_text(&value.interface, host);
        lua_pushstring(L, host);
        return 1;
    case MARE__OPTION_ERROR:
        if (!value.number)
            return 0;
        lua_pushstring(L, words_for(value.number));
        return 1;
    default:
        lua_pushboolean(L, value.number);
        return 1;
    }
}

// time(): of day, in seconds
static int socket_time(lua_State *L)
{
    const struct mare__platform *platform = &mare__self(L)->runtime->platform;
    struct mare__wall wall;
    platform->read_wall(platform->context, &wall);
    lua_pushnumber(L, (double)wall.utc_ns / 1e9);
    return 1;
}

// ---- The module ---------------------------------------------------------------------------------

int mare__lua_open_socket(lua_State *L)
{
    static const luaL_Reg private_functions[] = {{"object", socket_object},
                                                 {"become", socket_become},
                                                 {"state", socket_state},
                                                 {"open", socket_open},
                                                 {"bind", socket_bind},
                                                 {"listen", socket_listen},
                                                 {"connect", socket_connect},
                                                 {"connected", socket_connected},
                                                 {"accept", socket_accept},
                                                 {"shutdown", socket_shutdown},
                                                 {"descriptor", socket_descriptor},
                                                 {"adopt", socket_adopt},
                                                 {"borrow", socket_borrow},
                                                 {"lend", socket_lend},
                                                 {"close", socket_close},
                                                 {"name", socket_name},
                                                 {"receive", socket_receive},
                                                 {"send", socket_send},
                                                 {"sendto", socket_sendto},
                                                 {"wait", socket_wait},
                                                 {"look", socket_look},
                                                 {"waitany", socket_waitany},
                                                 {"setoption", socket_setoption},
                                                 {"getoption", socket_getoption},
                                                 {"find", mare__lua_socket_find},
                                                 {"nameof", mare__lua_socket_nameof},
                                                 {"numeric", mare__lua_socket_numeric},
                                                 {"service", mare__lua_socket_service},
                                                 {"servicename", mare__lua_socket_servicename},
                                                 {"hostname", mare__lua_socket_hostname},
                                                 {"time", socket_time},
                                                 {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
