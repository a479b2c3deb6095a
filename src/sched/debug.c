// SPDX-License-Identifier: MIT
// What the debug library of a process does in its own way (its hooks are in hook.c).
//
// A reference gives back what it holds by a finalizer in its metatable, and functions in C trust
// what they have on their stack, in user values, in upvalues and in the registry. A program that
// could change these would free what is in use. So it cannot reach them here: not even with the
// original functions, because these are not upvalues of their replacements.
#include <string.h>

#include "sched/libraries.h"

lua_State *mare__debug_about(lua_State *L, int *first)
{
    bool other = lua_isthread(L, 1);
    *first = other ? 2 : 1;
    return other ? lua_tothread(L, 1) : L;
}

// ---- The registry -------------------------------------------------------------------------------
// A program sees it through a table that has nothing in it: reading, writing and iterating go to
// the registry itself, but for what is ours there.

// Whether the key at an index of the stack is ours: metatables and tables of references, and the
// list of C modules that are loaded.
static bool is_private(lua_State *L, int index)
{
    if (lua_isinteger(L, index)) {
        lua_Integer key = lua_tointeger(L, index);
        return key >= MARE__REGISTRY_FIRST && key < MARE__REGISTRY_END;
    }
    if (lua_type(L, index) != LUA_TSTRING)
        return false;
    const char *key = lua_tostring(L, index);
    return strncmp(key, "mare.", 5) == 0 || strcmp(key, "_CLIBS") == 0;
}

static int registry_index(lua_State *L)
{
    lua_settop(L, 2);
    if (is_private(L, 2))
        return 0;
    lua_rawget(L, LUA_REGISTRYINDEX);
    return 1;
}

static int registry_newindex(lua_State *L)
{
    lua_settop(L, 3);
    lua_Integer key = lua_isinteger(L, 2) ? lua_tointeger(L, 2) : 0;
    if (is_private(L, 2) || key == LUA_RIDX_MAINTHREAD || key == LUA_RIDX_GLOBALS)
        return luaL_error(L, "this entry of the registry cannot be changed");
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

static int registry_next(lua_State *L)
{
    lua_settop(L, 2);
    while (lua_next(L, LUA_REGISTRYINDEX)) {
        if (!is_private(L, -2))
            return 2;
        lua_pop(L, 1);
    }
    lua_pushnil(L);
    return 1;
}

static int registry_pairs(lua_State *L)
{
    lua_settop(L, 1);
    lua_pushcfunction(L, registry_next);
    lua_insert(L, 1);
    lua_pushnil(L);
    return 3;
}

static int registry_len(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)lua_rawlen(L, LUA_REGISTRYINDEX));
    return 1;
}

// debug.getregistry()
static int debug_getregistry(lua_State *L)
{
    static const luaL_Reg through[] = {{"__index", registry_index},
                                       {"__newindex", registry_newindex},
                                       {"__pairs", registry_pairs},
                                       {"__len", registry_len},
                                       {NULL, NULL}};
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_SEEN) != LUA_TTABLE) {
        lua_newtable(L);
        luaL_newlib(L, through);
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_SEEN);
    }
    return 1;
}

// ---- Values -------------------------------------------------------------------------------------

// Whether the table at an index of the stack is in the registry, and then whether it is ours.
static bool in_registry(lua_State *L, int index, bool *ours)
{
    bool found = false;
    *ours = false;
    index = lua_absindex(L, index);
    luaL_checkstack(L, 3, NULL);
    for (lua_pushnil(L); lua_next(L, LUA_REGISTRYINDEX); lua_pop(L, 1))
        if (lua_rawequal(L, -1, index)) {
            found = true;
            *ours = *ours || is_private(L, -2);
        }
    return found;
}

bool mare__is_type_of_c(lua_State *L, int index)
{
    bool ours;
    return in_registry(L, index, &ours);
}

// Whether the value at an index of the stack is a userdata of ours.
static bool is_ours(lua_State *L, int index)
{
    bool ours = false;
    if (lua_type(L, index) == LUA_TUSERDATA && lua_getmetatable(L, index)) {
        in_registry(L, -1, &ours);
        lua_pop(L, 1);
    }
    return ours;
}

// debug.getmetatable(value): of a userdata of ours, a copy.
static int debug_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    bool ours = is_ours(L, 1);
    if (!lua_getmetatable(L, 1)) {
        lua_pushnil(L);
    } else if (ours) {
        lua_newtable(L);
        for (lua_pushnil(L); lua_next(L, -3); lua_pop(L, 1)) {
            lua_pushvalue(L, -2);
            lua_pushvalue(L, -2);
            lua_rawset(L, -5);
        }
    }
    return 1;
}

// debug.setmetatable(value, metatable)
static int debug_setmetatable(lua_State *L)
{
    int type = lua_type(L, 2);
    luaL_argexpected(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table");
    luaL_argcheck(L, !is_ours(L, 1), 1, "the metatable of a reference cannot be changed");
    if (lua_type(L, 1) == LUA_TUSERDATA && type == LUA_TTABLE && mare__is_type_of_c(L, 2)) {
        bool same = lua_getmetatable(L, 1) && lua_rawequal(L, -1, 2);
        luaL_argcheck(L, same, 2, "a userdata cannot become one of another type of C");
    }
    mare__self(L)->finalizes = true; // perhaps
    lua_settop(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

// Calls the function of the stock interpreter that one of these stands for, in its place.
static int original(lua_State *L, enum mare__original which)
{
    return mare__original(mare__self(L)->shared.runtime, which)(L);
}

// debug.getlocal([thread,] level or function, number)
static int debug_getlocal(lua_State *L)
{
    bool ours = false;
    int count = original(L, MARE__GETLOCAL);
    if (count == 2 && lua_istable(L, -1) && in_registry(L, -1, &ours) && ours) {
        lua_pop(L, 1);
        lua_pushnil(L);
    }
    return count;
}

// debug.setlocal([thread,] level, number, value): what C functions have on their stacks is theirs.
static int debug_setlocal(lua_State *L)
{
    int first, is_number;
    lua_State *of = mare__debug_about(L, &first);
    lua_Integer level = lua_tointegerx(L, first, &is_number);
    lua_Debug frame;
    if (is_number && lua_getstack(of, (int)level, &frame) && lua_getinfo(of, "S", &frame) &&
        *frame.what == 'C') {
        lua_pushnil(L);
        return 1;
    }
    return original(L, MARE__SETLOCAL);
}

// debug.setupvalue(function, number, value): what C functions keep cannot be changed either.
static int debug_setupvalue(lua_State *L)
{
    return lua_iscfunction(L, 1) ? 0 : original(L, MARE__SETUPVALUE);
}

static int debug_getuservalue(lua_State *L)
{
    if (!is_ours(L, 1))
        return original(L, MARE__GETUSERVALUE);
    lua_pushnil(L);
    return 1;
}

static int debug_setuservalue(lua_State *L)
{
    if (!is_ours(L, 1))
        return original(L, MARE__SETUSERVALUE);
    lua_pushnil(L);
    return 1;
}

const luaL_Reg mare__debug_overrides[] = {{"sethook", mare__hook_set},
                                          {"gethook", mare__hook_get},
                                          {"getregistry", debug_getregistry},
                                          {"getmetatable", debug_getmetatable},
                                          {"setmetatable", debug_setmetatable},
                                          {"getlocal", debug_getlocal},
                                          {"setlocal", debug_setlocal},
                                          {"setupvalue", debug_setupvalue},
                                          {"getuservalue", debug_getuservalue},
                                          {"setuservalue", debug_setuservalue},
                                          {NULL, NULL}};
