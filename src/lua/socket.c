// SPDX-License-Identifier: MIT
// What LuaSocket's objects (lua/mare/luasocket) need beyond the streams, listeners and sockets that
// they stand on: a userdata around them, descriptors as numbers, LuaSocket's words for failures,
// and a select for reading and writing.
#include <errno.h>
#include <string.h>

#include "lua/socket.h"
#include "platform/wall.h"

// ---- Objects ------------------------------------------------------------------------------------
// What the program holds: a userdata, as in LuaSocket, whose state is a table of _object.lua's.
// Its metatables are tables of Lua, so that it is known by what it has in it.

static const uint64_t object_magic = UINT64_C(0x6d61726520536f63);

static bool is_object(lua_State *L, int index)
{
    const uint64_t *magic = lua_touserdata(L, index);
    return lua_type(L, index) == LUA_TUSERDATA && lua_rawlen(L, index) == sizeof *magic &&
           *magic == object_magic;
}

// A metatable for an object: none that belongs to a type of C, and without a finalizer, of which
// the process would not know.
static void check_metatable(lua_State *L, int index)
{
    luaL_checktype(L, index, LUA_TTABLE);
    luaL_argcheck(L, !mare__is_type_of_c(L, index), index, "it belongs to a type of C");
    lua_pushliteral(L, "__gc");
    luaL_argcheck(L, lua_rawget(L, index) == LUA_TNIL, index, "it has a finalizer");
    lua_pop(L, 1);
}

// object(state, metatable)
static int socket_object(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    check_metatable(L, 2);
    *(uint64_t *)lua_newuserdatauv(L, sizeof object_magic, 1) = object_magic;
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, 2);
    lua_setmetatable(L, -2);
    return 1;
}

// become(object, metatable)
static int socket_become(lua_State *L)
{
    luaL_argcheck(L, is_object(L, 1), 1, "not an object of this module");
    check_metatable(L, 2);
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 0;
}

// state(value): the table of an object, nil of anything else.
static int socket_state(lua_State *L)
{
    if (is_object(L, 1))
        lua_getiuservalue(L, 1, 1);
    else
        lua_pushnil(L);
    return 1;
}

// ---- Failures -----------------------------------------------------------------------------------

// Where LuaSocket has words of its own; or takes the system's, and not those of our code.
static const struct {
    int err;
    const char *words;
} own_words[] = {
    {ENOTCONN, NULL},
    {EMSGSIZE, NULL},
    {EADDRINUSE, "address already in use"},
    {EISCONN, "already connected"},
    {EACCES, "permission denied"},
    {ECONNREFUSED, "connection refused"},
    {ECONNABORTED, "closed"},
    {ECONNRESET, "closed"},
    {EPIPE, "closed"},
    {ETIMEDOUT, "timeout"},
};

// words(message, code): what LuaSocket says for a failure. A message that is not the system's is
// about a wait or a limit, which its code says as shortly as LuaSocket.
static int socket_words(lua_State *L)
{
    static const char *const codes[] = {"timeout", "closed", "cancelled", "toobig"};
    const char *message = luaL_checkstring(L, 1), *code = luaL_checkstring(L, 2);
    lua_settop(L, 2);
    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++)
        if (strcmp(message, strerror(own_words[i].err)) == 0) {
            lua_pushstring(L, own_words[i].words ? own_words[i].words : message);
            return 1;
        }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(code, codes[i]) == 0)
            return 1;
    lua_settop(L, 1);
    return 1;
}

int mare__lua_socket_fail_words(lua_State *L, const char *words)
{
    lua_pushnil(L);
    lua_pushstring(L, words);
    return 2;
}

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

// ---- Descriptors --------------------------------------------------------------------------------

static int socket_descriptor(lua_State *L)
{
    lua_pushinteger(L, mare__stream_descriptor(mare__lua_any_stream(L, 1)));
    return 1;
}

// adopt(descriptor, kind): one over a descriptor that somebody else made.
static int socket_adopt(lua_State *L)
{
    static const char *const names[] = {"stream", "listener", "dgram", NULL};
    static const enum mare__kind kinds[] = {MARE__KIND_STREAM, MARE__KIND_LISTENER, MARE__KIND_UDP};
    enum mare__kind kind = kinds[luaL_checkoption(L, 2, NULL, names)];
    int fd = (int)luaL_checkinteger(L, 1), err = mare__socket_adopt(fd);
    return err < 0 ? mare__lua_fail_system(L, -err)
                   : mare__lua_push_stream(
                         L, mare__stream_new(mare__self(L)->shared.runtime, fd, kind));
}

// borrow(descriptor): the same over a copy, so that the original can be closed or watched by
// others.
static int socket_borrow(lua_State *L)
{
    int fd = mare__socket_copy((int)luaL_checkinteger(L, 1));
    return fd < 0 ? mare__lua_fail_system(L, -fd)
                  : mare__lua_push_stream(
                        L, mare__stream_new(mare__self(L)->shared.runtime, fd, MARE__KIND_STREAM));
}

// lend(socket): somebody else has its descriptor from now on; the socket is closed.
static int socket_lend(lua_State *L)
{
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    if (mare__stream_descriptor(stream) >= 0 && stream->transport->ops->plain)
        mare__descriptor_lend(stream->transport);
    mare__stream_close(stream);
    return 0;
}

// ---- Bytes --------------------------------------------------------------------------------------

// rest(stream): what was read and not asked for, also of one that is closed; it is gone then.
static int socket_rest(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    size_t size = mare__stream_buffered(stream);
    lua_pushlstring(L, size > 0 ? stream->bytes + stream->first : "", size);
    if (size > 0)
        mare__stream_used(stream, size);
    return 1;
}

// unread(stream, bytes): puts them back, so that the next read returns them.
static int socket_unread(lua_State *L)
{
    size_t size;
    struct mare__stream *stream = mare__lua_stream(L, 1);
    const char *bytes = luaL_checklstring(L, 2, &size);
    if (size > 0 && !mare__stream_unread(stream, bytes, size))
        return luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
    return 0;
}

// buffered(socket): how many bytes that are.
static int socket_buffered(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)mare__stream_buffered(mare__lua_any_stream(L, 1)));
    return 1;
}

// shutdown(stream, how)
static int socket_shutdown(lua_State *L)
{
    static const char *const halves[] = {"receive", "send", "both", NULL};
    mare__socket_shutdown(mare__stream_descriptor(mare__lua_stream(L, 1)),
                          (enum mare__half)luaL_checkoption(L, 2, NULL, halves));
    return 0;
}

// ---- Select -------------------------------------------------------------------------------------

// A stream without a descriptor knows itself.
static bool is_open(struct mare__stream *stream, enum mare__look_for what)
{
    struct mare__transport *transport = stream->transport;
    return !mare__stream_closed(stream) && what != MARE__LOOK_LEAVE &&
           transport->ops->is_open(transport,
                                   what == MARE__LOOK_WRITE ? MARE__TO_WRITE : MARE__TO_READ);
}

static struct mare__look *looks_of(lua_State *L, lua_Unsigned *count)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    *count = lua_rawlen(L, 1);
    luaL_argcheck(L, *count <= 1 << 20, 1, "too many sockets");
    struct mare__look *looks = lua_newuserdatauv(L, (size_t)*count * sizeof *looks + 1, 0);
    for (lua_Unsigned i = 0; i < *count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        struct mare__stream *stream = mare__lua_any_stream(L, lua_gettop(L) - 1);
        looks[i].fd = mare__stream_descriptor(stream);
        looks[i].what = lua_isstring(L, -1)    ? MARE__LOOK_LEAVE
                        : lua_toboolean(L, -1) ? MARE__LOOK_WRITE
                                               : MARE__LOOK_READ;
        looks[i].ready = looks[i].fd < 0 && is_open(stream, looks[i].what);
        lua_pop(L, 2);
    }
    return looks;
}

// look(sockets, whether to write, or "leave"): how many are ready; the second table says which then
static int socket_look(lua_State *L)
{
    lua_Unsigned count;
    lua_Integer ready = 0;
    struct mare__look *looks = looks_of(L, &count);
    void *scratch = lua_newuserdatauv(L, (size_t)count * mare__socket_look_scratch + 1, 0);
    mare__socket_look(looks, (size_t)count, scratch);
    for (lua_Unsigned i = 0; i < count; i++) {
        ready += looks[i].ready;
        lua_pushboolean(L, looks[i].ready);
        lua_rawseti(L, 2, (lua_Integer)i + 1);
    }
    lua_pushinteger(L, ready);
    return 1;
}

// The sockets of these cases are waited for no more, but perhaps by others: what this one was told
// may have been meant for them.
static void leave(struct mare__case *cases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        mare__stream_end_wait((struct mare__stream *)cases[i].about, cases[i].channel);
    mare__cases_free(cases, count);
}

static int any_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    bool fired = self->sleep.wait.fired != MARE__FIRED_NONE;
    mare_err err = self->sleep.wait.result;
    uint32_t count;
    struct mare__case *cases = mare__block_cases(self, &count);
    leave(cases, count);
    return mare__lua_socket_waited(L, fired ? MARE_OK : err);
}

// Makes a case that waits for the socket; false: not enough memory.
static bool make_case(struct mare__case *one, struct mare__stream *stream, int way)
{
    uint64_t deadline = MARE_FOREVER;
    mare_channel *ready = mare__stream_begin_wait(stream, way, &deadline);
    if (!ready)
        return false;
    *one =
        (struct mare__case){.channel = mare_chan_ref(ready), .about = mare__ref(&stream->object)};
    mare__list_init(&one->spot.entry);
    return true;
}

// waitany(sockets, whether to write, deadline): until one seems to be ready
static int socket_waitany(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    uint64_t deadline = mare__lua_deadline(L, 3);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_Unsigned count = lua_rawlen(L, 1);
    luaL_argcheck(L, count > 0 && count <= 1 << 20, 1, "too many sockets, or none");
    mare__block_check(L, self);
    for (lua_Unsigned i = 1; i <= count; i++) { // no error can come once there are cases
        lua_rawgeti(L, 1, (lua_Integer)i);
        mare__lua_any_stream(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    struct mare__case *cases = mare__cases_new((uint32_t)count);
    if (!cases)
        return mare__lua_socket_waited(L, MARE_NOMEM);
    for (uint32_t i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        struct mare__stream *stream = mare__lua_any_stream(L, lua_gettop(L) - 1);
        int way = lua_toboolean(L, -1) ? MARE__TO_WRITE : MARE__TO_READ;
        lua_pop(L, 2);
        bool closed = mare__stream_closed(stream);
        if (closed || !make_case(&cases[i], stream, way)) {
            leave(cases, i);
            return mare__lua_socket_waited(L, closed ? MARE_OK : MARE_NOMEM);
        }
    }
    self->sleep.turn = 0;
    return mare__block_select(L, self, cases, (uint32_t)count, deadline, any_done);
}

// time(): of day, in seconds
static int socket_time(lua_State *L)
{
    const struct mare__platform *platform = &mare__self(L)->shared.runtime->platform;
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
                                                 {"words", socket_words},
                                                 {"descriptor", socket_descriptor},
                                                 {"adopt", socket_adopt},
                                                 {"borrow", socket_borrow},
                                                 {"lend", socket_lend},
                                                 {"rest", socket_rest},
                                                 {"unread", socket_unread},
                                                 {"buffered", socket_buffered},
                                                 {"shutdown", socket_shutdown},
                                                 {"look", socket_look},
                                                 {"waitany", socket_waitany},
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
