// SPDX-License-Identifier: MIT
// Signals of the operating system in Lua, as the module `mare.signal`. A watch is a stream's
// cousin: a descriptor that is readable when one has come.
#include "platform/signal.h"

#include <errno.h>
#include <string.h>

#include "lua/net.h"

static struct mare__stream *check(lua_State *L, int index)
{
    struct mare__ref_link *ref = mare__handle_of(L, index, MARE__KIND_SIGNALS);
    if (!ref)
        luaL_typeerror(L, index, "watch for signals");
    if (mare__handle_moved(ref))
        luaL_error(L, "the watch for signals was sent to another process");
    return (struct mare__stream *)ref->object;
}

// The number of the signal at a stack index, by name or number.
static int check_signal(lua_State *L, int index)
{
    int number = lua_isinteger(L, index) ? (int)lua_tointeger(L, index)
                                         : mare__signal_number(luaL_checkstring(L, index));
    if (!mare__signal_name(number))
        luaL_argerror(
            L, index,
            lua_pushfstring(L, "there is no signal '%s'", luaL_tolstring(L, index, NULL)));
    return number;
}

// ---- Watching -----------------------------------------------------------------------------------

static void close_watch(struct mare__stream *watch)
{
    if (!mare__stream_closed(watch))
        mare__signal_forget(watch->source.fd);
    mare__source_close(&watch->source);
}

static void destroy(struct mare__object *object)
{
    close_watch((struct mare__stream *)object);
    mare__stream_destroy(object);
}

// signal.watch(name, ...)
static int signal_watch(lua_State *L)
{
    uint64_t set = 0;
    luaL_checkany(L, 1);
    for (int i = 1, top = lua_gettop(L); i <= top; i++) {
        int number = check_signal(L, i);
        const char *refusal = mare__signal_refusal(number);
        if (refusal)
            luaL_argerror(
                L, i,
                lua_pushfstring(L, "%s cannot be watched: %s", mare__signal_name(number), refusal));
        set |= UINT64_C(1) << number;
    }
    int fd = mare__signal_watch(set);
    if (fd == -ENOSPC) {
        lua_pushfstring(L, "there are %d watches for signals already", MARE__SIGNAL_WATCHES);
        return mare__lua_fail_with(L, MARE_TOOBIG);
    }
    if (fd < 0)
        return mare__lua_fail_system(L, -fd);
    struct mare__stream *watch = mare__stream_new(mare__self(L)->runtime, -1, MARE__KIND_SIGNALS);
    if (!watch) {
        mare__signal_forget(fd);
        mare__socket_close(fd);
        return mare__lua_fail(L, MARE_NOMEM);
    }
    watch->source.fd = fd;
    watch->object.destroy = destroy;
    mare__handle_push_new(L, watch);
    return 1;
}

static int next_more(lua_State *L, int status, lua_KContext context);

// The deadline is at 3.
static int next_now(lua_State *L, struct mare__stream *watch)
{
    for (;;) {
        int number = mare__signal_take(watch->source.fd);
        if (number > 0) {
            lua_pushstring(L, mare__signal_name(number));
            return 1;
        }
        int waited = mare__lua_wait_stream(L, watch, MARE__TO_READ, (uint64_t)lua_tointeger(L, 3),
                                           next_more, 0);
        if (waited != MARE__WAITED)
            return waited;
    }
}

static int fail(lua_State *L, mare_err err)
{
    if (err != MARE_CLOSED)
        return mare__lua_fail(L, err);
    lua_pushliteral(L, "the watch for signals is closed");
    return mare__lua_fail_with(L, err);
}

static int next_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *watch = check(L, 1);
    mare_err err = mare__lua_outcome(L, watch, MARE__TO_READ);
    return err ? fail(L, err) : next_now(L, watch);
}

// w:next([timeout])
static int watch_next(lua_State *L)
{
    struct mare__stream *watch = check(L, 1);
    lua_settop(L, 2);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (lua_isnil(L, 2) && watch->timeout != MARE_FOREVER)
        deadline = mare__now(watch->runtime) + watch->timeout;
    if (mare__stream_closed(watch))
        return fail(L, MARE_CLOSED);
    lua_pushinteger(L, (lua_Integer)deadline);
    return next_now(L, watch);
}

// w:timeout([seconds]): the default of calls that are given none; nil for none.
static int watch_timeout(lua_State *L)
{
    struct mare__stream *watch = check(L, 1);
    lua_Number seconds = luaL_optnumber(L, 2, 1e9);
    luaL_argcheck(L, seconds >= 0, 2, "a timeout cannot be negative");
    watch->timeout = seconds < 1e9 ? (uint64_t)(seconds * 1e9) : MARE_FOREVER;
    lua_settop(L, 1);
    return 1;
}

// w:close()
static int watch_close(lua_State *L)
{
    struct mare__stream *watch = check(L, 1);
    lua_pushboolean(L, !mare__stream_closed(watch));
    close_watch(watch);
    return 1;
}

// A variable that goes out of scope may hold one that was sent away.
static int watch_leave(lua_State *L)
{
    struct mare__ref_link *ref = lua_touserdata(L, 1);
    return ref && !mare__handle_moved(ref) ? watch_close(L) : 0;
}

mare_err mare__signals_watch(struct mare__object *object, mare_channel **channel)
{
    struct mare__stream *watch = (struct mare__stream *)object;
    if (mare__stream_closed(watch) || mare__signal_has_come(watch->source.fd))
        return MARE_CLOSED;
    *channel = mare__source_watch(watch->runtime, &watch->source, MARE__TO_READ);
    return *channel ? MARE_OK : MARE_NOMEM;
}

// ---- The rest -----------------------------------------------------------------------------------

// signal.send(pid, signal): 0 only asks whether there is such a process.
static int signal_send(lua_State *L)
{
    lua_Integer process = luaL_checkinteger(L, 1);
    luaL_argcheck(L, process > 0 && process <= INT32_MAX, 1, "not the number of a process");
    bool asks = lua_isinteger(L, 2) && lua_tointeger(L, 2) == 0;
    int err = mare__signal_send((long)process, asks ? 0 : check_signal(L, 2));
    if (err == -ESRCH) {
        lua_pushfstring(L, "there is no process %I", process);
        return mare__lua_fail_with(L, MARE_NOPROC);
    }
    if (err)
        return mare__lua_fail_system(L, -err);
    lua_pushboolean(L, 1);
    return 1;
}

// signal.pid(): of this program.
static int signal_pid(lua_State *L)
{
    lua_pushinteger(L, mare__os_process());
    return 1;
}

const luaL_Reg mare__signals_methods[] = {
    {"next", watch_next}, {"timeout", watch_timeout}, {"close", watch_close}, {NULL, NULL}};
const luaL_Reg mare__signals_metamethods[] = {{"__close", watch_leave}, {NULL, NULL}};

int mare__lua_open_signal(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"watch", signal_watch}, {"send", signal_send}, {"pid", signal_pid}, {NULL, NULL}};
    mare__lazy_table(L, functions);
    return 1;
}
