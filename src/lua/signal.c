// SPDX-License-Identifier: MIT
// Signals of the operating system in Lua, as the module `mare.signal`. A watch is like a stream: a
// descriptor that is readable when one has come.
#include "loop/signal.h"

#include <errno.h>

#include "lua/net.h"
#include "platform/signal.h"

static struct mare__signals *check(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_SIGNALS);
    if (!ref)
        luaL_typeerror(L, index, "watch for signals");
    if (mare__handle_moved(ref))
        luaL_error(L, "the watch for signals was sent to another process");
    return (struct mare__signals *)ref->object;
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
    struct mare__signals *signals;
    int err = mare__signals_open(mare__self(L)->shared.runtime, set, &signals);
    if (err == -ENOSPC) {
        lua_pushfstring(L, "there are %d watches for signals already", MARE__SIGNAL_LISTENERS);
        return mare__lua_fail_with(L, MARE_TOOBIG);
    }
    if (err)
        return mare__lua_fail_system(L, -err);
    mare__handle_push_new(L, signals);
    return 1;
}

int mare__lua_push_signal(lua_State *L, struct mare__object *object, mare_err err,
                          mare_message *message)
{
    struct mare__signals *signals = (struct mare__signals *)object;
    if (err == MARE_CLOSED) {
        lua_pushliteral(L, "the watch for signals is closed");
        return mare__lua_fail_with(L, err);
    }
    if (err)
        return mare__lua_fail(L, err);
    int number = mare__signals_taken(signals, message);
    lua_pushstring(L, mare__signal_name(number));
    return 1;
}

static int next_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    mare_err err = self->sleep.wait.result;
    struct mare__signals *signals = check(L, 1);
    signals->object.waiters--;
    return mare__lua_push_signal(L, &signals->object, err, &self->sleep.wait.message);
}

// w:next([timeout])
static int watch_next(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    struct mare__signals *signals = check(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (lua_isnoneornil(L, 2) && signals->timeout != MARE_FOREVER)
        deadline = mare__now(self->shared.runtime) + signals->timeout;
    mare__block_check(L, self);
    if (signals->object.waiters == UINT16_MAX)
        return mare__lua_fail(L, MARE_NOMEM);
    signals->object.waiters++;
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, signals->come, deadline, next_done, 0);
}

// w:timeout([seconds]): the default of calls that are given none; nil for none.
static int watch_timeout(lua_State *L)
{
    struct mare__signals *signals = check(L, 1);
    lua_Number seconds = luaL_optnumber(L, 2, 1e9);
    luaL_argcheck(L, seconds >= 0, 2, "a timeout cannot be negative");
    signals->timeout = seconds < 1e9 ? (uint64_t)(seconds * 1e9) : MARE_FOREVER;
    lua_settop(L, 1);
    return 1;
}

// w:close()
static int watch_close(lua_State *L)
{
    lua_pushboolean(L, mare__signals_close(check(L, 1)));
    return 1;
}

// A variable that goes out of scope may hold one that was sent away.
static int watch_leave(lua_State *L)
{
    return mare__handle_here(L, 1) ? watch_close(L) : 0;
}

mare_err mare__signals_await(struct mare__object *object, mare_channel **channel)
{
    *channel = ((struct mare__signals *)object)->come;
    return MARE_OK;
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
