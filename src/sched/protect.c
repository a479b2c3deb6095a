// SPDX-License-Identifier: MIT
// pcall and xpcall. A process that was killed inside a callback of a C function (table.sort, say)
// cannot yield there; an error takes it out. That error is a value of its own, known by its
// address: the protected calls of Lua code pass it on, so that a loop around a pcall ends too.
#include "sched/libraries.h"

static char kill_mark; // its address is the error

int mare__kill_throw(lua_State *L)
{
    luaL_checkstack(L, 1, NULL);
    lua_pushlightuserdata(L, &kill_mark);
    return lua_error(L);
}

bool mare__kill_thrown(lua_State *L)
{
    return lua_touserdata(L, -1) == &kill_mark;
}

bool mare__kill_passes(lua_State *L)
{
    return mare__kill_thrown(L) || (mare__self(L)->throws > 0 && !mare__self(L)->winding_up);
}

// The call has ended: below its results, or its error, are `skip` values of ours and a true.
static int ended(lua_State *L, int status, lua_KContext skip)
{
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - (int)skip;
    if (skip ? mare__kill_passes(L) : mare__kill_thrown(L))
        return mare__kill_throw(L);
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2); // not moved: a hook may look at what is returned, and where
    return 2;
}

int mare__pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return ended(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, ended), 0);
}

// xpcall(f, handler, ...)
int mare__xpcall(lua_State *L)
{
    int arguments = lua_gettop(L) - 2;
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); // function, handler, true, function, arguments
    return ended(L, lua_pcallk(L, arguments, LUA_MULTRET, 2, 2, ended), 2);
}
