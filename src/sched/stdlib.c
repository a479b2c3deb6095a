// SPDX-License-Identifier: MIT
// What Maré does in place of a few functions of the standard libraries. Each behaves as the
// original does, and besides: the ones that could see that globals are lazy make them real first;
// setmetatable notes that a finalizer exists; print writes its line in one piece; os.execute leaves
// signals alone; os.exit ends every process in order; os.time, os.date and os.clock ask the
// platform. (The debug library has files of its own, debug.c and hook.c; require and package are in
// package.c.)
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/child.h"
#include "platform/wall.h"
#include "sched/block.h"
#include "sched/handle.h"
#include "sched/libraries.h"
#include "sched/runtime.h"
#include "sched/worker.h"

// ---- base ---------------------------------------------------------------------------------------

static void see_globals(lua_State *L, int index)
{
    struct mare__local *process = mare__self(L);
    if (process->globals && lua_topointer(L, index) == process->globals)
        mare__lazy_finish(L);
}

static int base_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING)
        mare__lazy_string(L);
    else
        see_globals(L, 1);
    if (!lua_getmetatable(L, 1))
        lua_pushnil(L);
    else
        luaL_getmetafield(L, 1, "__metatable");
    return 1;
}

bool mare__is_globals(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    lua_pushglobaltable(L);
    bool same = lua_rawequal(L, -1, index);
    lua_pop(L, 1);
    return same;
}

void mare__metatable_set(lua_State *L)
{
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, -2) != LUA_TNIL)
        mare__self(L)->needs_close = mare__self(L)->finalizes = true;
    lua_pop(L, 1);
    lua_setmetatable(L, -2);
}

static int base_setmetatable(lua_State *L)
{
    int type = lua_type(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
    see_globals(L, 1);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 2);
    if (type == LUA_TTABLE)
        mare__metatable_set(L);
    else
        lua_setmetatable(L, 1);
    return 1;
}

int mare__next(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    see_globals(L, 1);
    lua_settop(L, 2);
    if (lua_next(L, 1))
        return 2;
    lua_pushnil(L);
    return 1;
}

static int base_rawget(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    see_globals(L, 1);
    lua_settop(L, 2);
    lua_rawget(L, 1);
    return 1;
}

static int base_rawset(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    see_globals(L, 1);
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 1;
}

static int base_print(lua_State *L)
{
    int count = lua_gettop(L);
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    for (int i = 1; i <= count; i++) {
        if (i > 1)
            luaL_addchar(&line, '\t');
        luaL_tolstring(L, i, NULL);
        luaL_addvalue(&line);
    }
    luaL_addchar(&line, '\n');
    size_t length = luaL_bufflen(&line); // of a long line most is written here, past the buffer
    bool written = fwrite(luaL_buffaddr(&line), 1, length, stdout) == length;
    // It has no way to tell its caller; the end of the program does.
    if (fflush(stdout) != 0 || !written)
        atomic_store(&mare__self(L)->shared.runtime->print_error, errno);
    luaL_pushresult(&line);
    return 0;
}

const luaL_Reg mare__base_overrides[] = {{"getmetatable", base_getmetatable},
                                         {"setmetatable", base_setmetatable},
                                         {"next", mare__next},
                                         {"rawget", base_rawget},
                                         {"rawset", base_rawset},
                                         {"print", base_print},
                                         {"pcall", mare__pcall},
                                         {"xpcall", mare__xpcall},
                                         {NULL, NULL}};

// ---- math ---------------------------------------------------------------------------------------
// The library seeds itself from the time and the address of the state, and states of processes that
// follow each other have the same.

void mare__math_seed(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, (lua_Integer)process->shared.runtime->seed);
    lua_pushinteger(L, (lua_Integer)process->shared.id);
    lua_call(L, 2, 0);
}

// ---- os -----------------------------------------------------------------------------------------

int mare__exit(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    mare_runtime *runtime = process->shared.runtime;
    int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                   : (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
    int nobody = -1;
    if (process->host) {
        mare__runtime_kill_all(runtime, "the program exits");
        mare__runtime_await(runtime, false, mare__now(runtime) + 1000000000u);
    }
    if (!runtime->exits_in_order)
        exit(code);
    atomic_compare_exchange_strong(&runtime->exit_code, &nobody, code & 0xff);
    mare__runtime_changed(runtime);
    atomic_store(&process->sleep.wait.note, MARE_KILLED); // it runs, so it waits for nothing now
    if (!mare__block_possible(L, process))
        return luaL_error(L, "the program is exiting");
    process->yield = MARE__YIELD_TURN;
    return lua_yield(L, 0);
}

// Does not use system(). That ignores SIGINT in the whole program meanwhile. In the end it restores
// the earlier action, even if a process has begun or ended a watch for SIGINT since.
static int os_execute(lua_State *L)
{
    const char *command = luaL_optstring(L, 1, NULL);
    int status = mare__child_execute(command ? command : "exit 0");
    if (!command) {
        lua_pushboolean(L, status == 0);
        return 1;
    }
    if (status != -1)
        errno = 0; // else it would be taken for the reason of the status
    return luaL_execresult(L, status);
}

// The clocks are those of the platform. What the stock functions do with a time that is given, they
// do here.

static lua_Integer seconds_since_1970(const mare_runtime *runtime)
{
    enum { NS_PER_S = 1000000000 };
    struct mare__wall wall;
    runtime->platform.read_wall(runtime->platform.context, &wall);
    return wall.utc_ns / NS_PER_S;
}

// os.time([table])
static int os_time(lua_State *L)
{
    const mare_runtime *runtime = mare__self(L)->shared.runtime;
    if (!lua_isnoneornil(L, 1))
        return mare__original(runtime, MARE__TIME)(L);
    lua_pushinteger(L, seconds_since_1970(runtime));
    return 1;
}

// os.date([format [, time]])
static int os_date(lua_State *L)
{
    const mare_runtime *runtime = mare__self(L)->shared.runtime;
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_pushinteger(L, seconds_since_1970(runtime));
    }
    return mare__original(runtime, MARE__DATE)(L);
}

// os.clock(): in whole microseconds, as the stock one.
static int os_clock(lua_State *L)
{
    const mare_runtime *runtime = mare__self(L)->shared.runtime;
    uint64_t had_us = runtime->platform.cpu_time_ns(runtime->platform.context) / 1000;
    lua_pushnumber(L, (lua_Number)had_us / 1000000);
    return 1;
}

const luaL_Reg mare__os_overrides[] = {{"clock", os_clock},     {"date", os_date},
                                       {"execute", os_execute}, {"exit", mare__exit},
                                       {"time", os_time},       {NULL, NULL}};
