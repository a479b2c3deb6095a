// SPDX-License-Identifier: MIT
// Which module a metatable belongs to: the module itself, a value in it (`shapes.Circle`), or one
// in a table in it (`shapes.round.Circle`). An object of such a class travels as a table, and finds
// the class again where it arrives.
//
// All modules are searched, so what was found is kept in a weak table. It is checked again each
// time, because a program may have changed the module.
#include <string.h>

#include "sched/libraries.h"

enum { DEPTH = 2 };

// Pushes the value at a place in a module; both the module's name and the place are on the stack,
// at these indices. Pushes nil if the module has nothing there.
static void push_at(lua_State *L, int module, int place)
{
    size_t length;
    const char *name = lua_tolstring(L, place, &length), *stop = name + length;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, module);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    while (name < stop && lua_istable(L, -1)) {
        const char *zero = memchr(name, 0, (size_t)(stop - name)), *part = zero ? zero : stop;
        lua_pushlstring(L, name, (size_t)(part - name));
        lua_rawget(L, -2);
        lua_remove(L, -2);
        name = part + (zero != NULL);
    }
}

// Looks for the metatable at an index in the table on top of the stack. Pushes its place.
static bool search(lua_State *L, int metatable, int depth)
{
    int table = lua_gettop(L);
    if (lua_rawequal(L, table, metatable)) {
        lua_pushliteral(L, "");
        return true;
    }
    if (depth == 0 || !lua_checkstack(L, 8))
        return false;
    for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1) ||
            !search(L, metatable, depth - 1))
            continue;
        bool last = lua_rawlen(L, -1) == 0;
        lua_pushvalue(L, -3); // the name, and then what is behind it
        lua_insert(L, -2);
        if (!last) {
            lua_pushlstring(L, "", 1);
            lua_insert(L, -2);
        }
        lua_concat(L, last ? 2 : 3);
        lua_replace(L, table + 1);
        lua_settop(L, table + 1);
        return true;
    }
    return false;
}

// Pushes the module's name and the place of the metatable at an index.
static bool search_all(lua_State *L, int metatable)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    int loaded = lua_gettop(L);
    for (int depth = 0; depth <= DEPTH; depth++) // the shortest way
        for (lua_pushnil(L); lua_next(L, loaded); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1) ||
                strcmp(lua_tostring(L, -2), LUA_GNAME) == 0 || !search(L, metatable, depth))
                continue;
            lua_remove(L, -2); // loaded, name, place
            lua_remove(L, loaded);
            return true;
        }
    lua_pop(L, 1);
    return false;
}

// Pushes the table of what was found before: by metatable, {module, place}.
static void push_found(lua_State *L)
{
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_CLASSES) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_CLASSES);
}

bool mare__class_of(lua_State *L)
{
    int top = lua_gettop(L), metatable = top + 1, found = top + 2;
    luaL_checkstack(L, 16, "too deep");
    lua_getmetatable(L, top);
    push_found(L);
    lua_pushvalue(L, metatable);
    if (lua_rawget(L, found) == LUA_TTABLE) {
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        push_at(L, found + 2, found + 3);
        if (lua_rawequal(L, -1, metatable)) {
            lua_settop(L, found + 3);
            lua_rotate(L, metatable, 2); // name, place, metatable, found, what was found
            lua_settop(L, top + 2);
            return true;
        }
    }
    lua_settop(L, found);
    if (!search_all(L, metatable)) {
        lua_settop(L, top);
        return false;
    }
    lua_pushvalue(L, metatable);
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, found + 1);
    lua_rawseti(L, -2, 1);
    lua_pushvalue(L, found + 2);
    lua_rawseti(L, -2, 2);
    lua_rawset(L, found);
    lua_rotate(L, metatable, 2);
    lua_settop(L, top + 2);
    return true;
}
