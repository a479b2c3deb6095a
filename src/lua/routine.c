// SPDX-License-Identifier: MIT
// Routines in Lua: mare.go starts one in the same process, beside the one that calls.
#include <string.h>

#include "lua/binding.h"
#include "sched/foreign.h"
#include "sched/routine.h"

static const char metatable[] = "mare.routine";

// User values of a routine's userdata.
enum { THREAD = 1, ENDED };

static struct mare__routine *check_routine(lua_State *L, int index)
{
    return luaL_checkudata(L, index, metatable);
}

// What join returns for one that has ended; it can be asked for again.
static int push_end(lua_State *L, struct mare__routine *routine)
{
    lua_State *thread = routine->thread;
    int count = routine->values, first = lua_gettop(thread) - count + 1;
    bool failed = routine->stage == MARE__ROUTINE_FAILED;
    mare__routine_note(routine);
    luaL_checkstack(L, count + 2, "too many results");
    if (!lua_checkstack(thread, count))
        return luaL_error(L, "not enough memory");
    if (failed)
        lua_pushnil(L);
    else
        lua_pushboolean(L, 1);
    for (int i = 0; i < count; i++)
        lua_pushvalue(thread, first + i);
    lua_xmove(thread, L, count);
    if (!failed)
        return count + 1;
    lua_pushstring(L, mare__err_word(MARE_DIED)); // nil, error, "died", traceback
    if (count > 1)
        lua_insert(L, -2);
    return count + 2;
}

// The channel that is told of the end; made by the first call. The routine is at `index`.
static mare_err watch_end(lua_State *L, int index, struct mare__routine *routine)
{
    mare_channel *ended;
    if (routine->ended)
        return MARE_OK;
    mare_err err = mare__chan_create(mare__self(L)->shared.runtime, 0, NULL, &ended);
    if (err)
        return err;
    mare__handle_push_new(L, ended);
    lua_setiuservalue(L, index, ENDED);
    routine->ended = ended;
    return MARE_OK;
}

static int join_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    if (self->sleep.wait.result == MARE_CLOSED)
        return push_end(L, check_routine(L, 1));
    return mare__lua_fail(L, self->sleep.wait.result);
}

// r:join([timeout])
static int routine_join(lua_State *L)
{
    struct mare__routine *routine = check_routine(L, 1);
    struct mare__local *self = mare__self(L);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (routine->stage != MARE__ROUTINE_LIVES)
        return push_end(L, routine);
    if (routine->thread == self->routine)
        return luaL_error(L, "a routine cannot join itself");
    mare__block_check(L, self);
    mare_err err = watch_end(L, 1, routine);
    if (err)
        return mare__lua_fail(L, err);
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, routine->ended, deadline, join_done, 0);
}

// In a select (see lua/mare/_select.lua): true and what join returns; or what to wait for, which is
// closed at its end, so that all who wait for it are told.
static int routine_select(lua_State *L)
{
    struct mare__routine *routine = check_routine(L, 1);
    if (routine->stage != MARE__ROUTINE_LIVES) {
        lua_pushboolean(L, 1);
        return 1 + push_end(L, routine);
    }
    if (routine->thread == mare__self(L)->routine) {
        lua_pushnil(L);
        lua_pushliteral(L, "a routine cannot wait for its own end");
        return 2;
    }
    if (watch_end(L, 1, routine) != MARE_OK)
        return luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
    lua_getiuservalue(L, 1, ENDED);
    return 1;
}

// r:cancel()
static int routine_cancel(lua_State *L)
{
    struct mare__routine *routine = check_routine(L, 1);
    lua_pushboolean(L, routine->stage == MARE__ROUTINE_LIVES);
    mare__routine_cancel(routine);
    return 1;
}

// r:detach()
static int routine_detach(lua_State *L)
{
    lua_pushboolean(L, mare__routine_detach(check_routine(L, 1)));
    return 1;
}

// r:status()
static int routine_status(lua_State *L)
{
    static const char *const words[] = {"alive", "done", "died"};
    lua_pushstring(L, words[check_routine(L, 1)->stage]);
    return 1;
}

static int routine_id(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)check_routine(L, 1)->id);
    return 1;
}

static int routine_tostring(lua_State *L)
{
    lua_pushfstring(L, "routine %I", (lua_Integer)check_routine(L, 1)->id);
    return 1;
}

static const luaL_Reg methods[] = {{"join", routine_join},     {"cancel", routine_cancel},
                                   {"detach", routine_detach}, {"status", routine_status},
                                   {"id", routine_id},         {NULL, NULL}};

static void push_metatable(lua_State *L)
{
    if (luaL_getmetatable(L, metatable) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, routine_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, routine_select);
    lua_setfield(L, -2, "__select");
    lua_pushliteral(L, "routine");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__metatable");
    lua_setfield(L, -2, "__name");
    lua_pushvalue(L, -1); // complete before it is set: memory may run out on the way
    lua_setfield(L, LUA_REGISTRYINDEX, metatable);
}

// _needs_routines(name): raises an error that blames the caller of the function of that name, in
// Lua, where there can be no routines: at once, and not when the first is to start.
int mare__lua_needs_routines(lua_State *L)
{
    if (!mare__self(L)->host)
        return 0;
    luaL_where(L, 2);
    lua_pushfstring(L,
                    "%s needs routines, and these a process of mare: run the program by 'mare', or "
                    "call %s in a process that it spawns",
                    luaL_checkstring(L, 1), lua_tostring(L, 1));
    lua_concat(L, 2);
    return lua_error(L);
}

// _routine(): the routine that calls; nil for the main one.
int mare__lua_routine(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_ROUTINES) == LUA_TTABLE)
        lua_rawgetp(L, -1, self->routine);
    return 1;
}

static int make_routine(lua_State *L, bool now)
{
    int count = lua_gettop(L);
    luaL_checktype(L, 1, LUA_TFUNCTION);
    struct mare__local *self = mare__self(L);
    if (self->winding_up)
        return luaL_error(L, "cannot start a routine: the process is ending");
    if (self->host)
        return luaL_error(L, "routines need a process of mare: run the program by 'mare', or call "
                             "go in a process that it spawns");
    struct mare__routine *routine = lua_newuserdatauv(L, sizeof *routine, 2);
    memset(routine, 0, sizeof *routine);
    lua_State *thread = lua_newthread(L);
    mare__hook_inherit(L, thread);
    luaL_checkstack(L, count, "too many arguments");
    if (!lua_checkstack(thread, count))
        return luaL_error(L, "too many arguments");
    lua_setiuservalue(L, -2, THREAD);
    for (int i = 1; i <= count; i++)
        lua_pushvalue(L, i);
    lua_xmove(L, thread, count);
    push_metatable(L);
    lua_setmetatable(L, -2);
    mare__routine_start(L, routine, thread, now);
    return 1;
}

// mare.go(f, ...)
int mare__lua_go(lua_State *L)
{
    return make_routine(L, true);
}

// _heir(f, ...): the same, but it does not start before it was appointed, and then inherits.
int mare__lua_heir(lua_State *L)
{
    return make_routine(L, false);
}

// _appoint(heir | nil): it starts, once, when the routine that calls next waits, yields or ends;
// with nil, none does. False: it has started before.
int mare__lua_appoint(lua_State *L)
{
    lua_pushboolean(L, mare__routine_appoint(L, lua_isnil(L, 1) ? NULL : check_routine(L, 1)));
    return 1;
}
