// SPDX-License-Identifier: MIT
// What Maré does in place of a few functions of the standard libraries. Each behaves as the original does, and besides:
// the ones that could see that globals are lazy make them real first; setmetatable notes that a finalizer exists; print
// writes its line in one piece; require lets a module wait while it loads; os.exit ends every process in order; and the
// debug library's hooks share the hook with preemption.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

// ---- base ----------------------------------------------------------------------------------------------------------------

static void see_globals(lua_State *L, int index)
{
    mare_process *process = mare__self(L);
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

static int base_setmetatable(lua_State *L)
{
    int type = lua_type(L, 2);
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
    see_globals(L, 1);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    lua_settop(L, 2);
    if (type == LUA_TTABLE) {
        lua_pushliteral(L, "__gc");
        if (lua_rawget(L, 2) != LUA_TNIL)
            mare__self(L)->needs_close = true;
        lua_pop(L, 1);
    }
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
    fwrite(luaL_buffaddr(&line), 1, luaL_bufflen(&line), stdout);
    luaL_pushresult(&line);
    fflush(stdout);
    return 0;
}

const luaL_Reg mare__base_overrides[] = {
    {"getmetatable", base_getmetatable}, {"setmetatable", base_setmetatable}, {"next", mare__next},
    {"rawget", base_rawget},             {"print", base_print},               {NULL, NULL}};

// ---- require and package ---------------------------------------------------------------------------------------------------

enum { NAME = 1, LOADED, PACKAGE, SEARCHERS, REASONS };

// The loader has run: its result is on top, the loader's data below it.
static int required(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    const char *name = lua_tostring(L, NAME);
    if (!lua_isnil(L, -1))
        lua_setfield(L, LOADED, name);
    else
        lua_pop(L, 1);
    if (lua_getfield(L, LOADED, name) == LUA_TNIL) {
        lua_pushboolean(L, 1);
        lua_copy(L, -1, -2);
        lua_setfield(L, LOADED, name);
    }
    lua_rotate(L, -2, 1); // module, loader's data
    return 2;
}

// Pushes the loader that a searcher found and its data; raises an error with the reasons of all if none did.
static void find_loader(lua_State *L, const char *name)
{
    if (lua_getfield(L, PACKAGE, "searchers") != LUA_TTABLE)
        luaL_error(L, "'package.searchers' must be a table");
    lua_pushliteral(L, "");
    for (int i = 1;; i++) {
        if (lua_rawgeti(L, SEARCHERS, i) == LUA_TNIL)
            luaL_error(L, "module '%s' not found:%s", name, lua_tostring(L, REASONS));
        lua_pushstring(L, name);
        lua_call(L, 1, 2);
        if (lua_isfunction(L, -2))
            return;
        if (lua_isstring(L, -2)) {
            lua_pop(L, 1);
            lua_pushfstring(L, "%s\n\t%s", lua_tostring(L, REASONS), lua_tostring(L, -1));
            lua_replace(L, REASONS);
        }
        lua_settop(L, REASONS);
    }
}

int mare__require(lua_State *L)
{
    const char *name = luaL_checkstring(L, NAME);
    lua_settop(L, NAME);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, LOADED, name);
    if (lua_toboolean(L, -1))
        return 1;
    lua_settop(L, LOADED);
    if (mare__lazy_require(L, name))
        return 1;
    mare__lazy_finish(L);
    mare__lazy_require(L, LUA_LOADLIBNAME);
    find_loader(L, name);
    if (lua_iscfunction(L, -2))
        mare__self(L)->has_c_modules = true;
    lua_rotate(L, -2, 1); // data, loader
    lua_pushvalue(L, NAME);
    lua_pushvalue(L, -3);
    lua_callk(L, 2, 1, 0, required);
    return required(L, LUA_OK, 0);
}

int mare__host_require(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

// package.loadlib(path, name): the original, which is an upvalue; the state has a C module from then on.
static int package_loadlib(lua_State *L)
{
    mare__self(L)->has_c_modules = true;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

void mare__package_patch(lua_State *L)
{
    lua_getfield(L, -1, "loadlib");
    lua_pushcclosure(L, package_loadlib, 1);
    lua_setfield(L, -2, "loadlib");
}

// ---- os --------------------------------------------------------------------------------------------------------------------

int mare__exit(lua_State *L, int code)
{
    mare_process *process = mare__self(L);
    mare_runtime *runtime = process->runtime;
    int nobody = -1;
    if (!runtime->exits_in_order)
        exit(code);
    atomic_compare_exchange_strong(&runtime->exit_code, &nobody, code & 0xff);
    mare__runtime_changed(runtime);
    if (process->host)
        return 0;
    atomic_store(&process->wait.cancelled, true); // it runs, so it waits for nothing now
    if (process->unyieldable || !lua_isyieldable(L))
        return luaL_error(L, "the program is exiting");
    process->yield = MARE__YIELD_TURN;
    return lua_yield(L, 0);
}

static int os_exit(lua_State *L)
{
    int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                    : (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
    return mare__exit(L, code);
}

const luaL_Reg mare__os_overrides[] = {{"exit", os_exit}, {NULL, NULL}};
