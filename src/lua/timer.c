// SPDX-License-Identifier: MIT
// Timers in Lua: something to wait for beside other things.
#include <math.h>

#include "lua/binding.h"
#include "sched/alarm.h"

static struct mare__object *check(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_TIMER);
    if (!ref)
        luaL_typeerror(L, index, "timer");
    if (mare__handle_moved(ref))
        luaL_error(L, "the timer was sent to another process");
    return ref->object;
}

// mare.timer(seconds [, period])
int mare__lua_timer(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    lua_Number first = luaL_checknumber(L, 1), period = luaL_optnumber(L, 2, 0);
    luaL_argcheck(L, first >= 0 && first < 1e9, 1, "a time must not be negative or infinite");
    luaL_argcheck(L, lua_isnoneornil(L, 2) || (period >= 0.001 && period < 1e9), 2,
                  "a period is 0.001 seconds or more");
    struct mare__object *timer = mare__alarm_new(
        runtime, mare__now(runtime) + (uint64_t)(first * 1e9), (uint64_t)(period * 1e9));
    if (!timer)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, timer);
    return 1;
}

// It does not come any more, and the reason is not that a channel was closed.
static int fail_over(lua_State *L, struct mare__object *timer)
{
    lua_pushstring(L, mare__alarm_cancelled(timer) ? "the timer was cancelled"
                                                   : "the timer has fired, and comes once");
    return mare__lua_fail_with(L, MARE_CLOSED);
}

static int wait_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    if (self->sleep.wait.result == MARE_CLOSED)
        return fail_over(L, check(L, 1));
    if (self->sleep.wait.result)
        return mare__lua_fail(L, self->sleep.wait.result);
    lua_pushboolean(L, 1);
    return 1;
}

// t:wait([timeout])
static int timer_wait(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    struct mare__object *timer = check(L, 1);
    bool over = mare__alarm_over(timer); // asked before the channel is
    mare_channel *channel = mare__alarm_channel(timer);
    uint64_t deadline = mare__lua_deadline(L, 2);
    mare__block_check(L, self);
    if (!channel)
        return mare__lua_fail(L, MARE_NOMEM);
    mare_message message; // an empty one
    if (over && mare__chan_receive(channel, &message, NULL) != MARE_OK)
        return fail_over(L, timer); // nobody shall wait for ever
    if (over) {
        lua_pushboolean(L, 1);
        return 1;
    }
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, channel, deadline, wait_done, 0);
}

// t:cancel(), t:close()
static int timer_cancel(lua_State *L)
{
    struct mare__object *timer = check(L, 1);
    lua_pushboolean(L, mare__alarm_cancel(timer)); // whoever waits learns of it
    return 1;
}

// A variable that goes out of scope may hold one that was sent away.
static int timer_leave(lua_State *L)
{
    return mare__handle_here(L, 1) ? timer_cancel(L) : 0;
}

// What one closes all other objects with closes a timer, too.
const luaL_Reg mare__timer_methods[] = {
    {"wait", timer_wait}, {"cancel", timer_cancel}, {"close", timer_cancel}, {NULL, NULL}};
const luaL_Reg mare__timer_metamethods[] = {{"__close", timer_leave}, {NULL, NULL}};

mare_err mare__timer_await(struct mare__object *object, mare_channel **channel)
{
    *channel = mare__alarm_channel(object);
    return *channel ? MARE_OK : MARE_NOMEM;
}
