// SPDX-License-Identifier: MIT
// Argument checking and failures, in one voice.
#include "lua/binding.h"

#include <math.h>

int mare__lua_fail_with(lua_State *L, mare_err err)
{
    lua_pushnil(L);
    lua_insert(L, -2);
    lua_pushstring(L, mare__err_word(err));
    return 3;
}

int mare__lua_fail(lua_State *L, mare_err err)
{
    lua_pushstring(L, mare_strerror(err));
    return mare__lua_fail_with(L, err);
}

mare_process *mare__lua_process(lua_State *L, int index)
{
    struct mare__ref_link *ref = mare__handle_of(L, index, MARE__KIND_PROCESS);
    if (!ref)
        luaL_typeerror(L, index, "process");
    return (mare_process *)ref->object;
}

uint64_t mare__lua_deadline(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index))
        return MARE_FOREVER;
    uint64_t *deadline = luaL_testudata(L, index, "mare.deadline");
    if (deadline)
        return *deadline;
    double seconds = luaL_checknumber(L, index);
    luaL_argcheck(L, !isnan(seconds), index, "a timeout cannot be NaN");
    if (seconds <= 0)
        return 0;
    uint64_t now = mare__now(mare__self(L)->runtime);
    return seconds > 1e9 ? MARE_FOREVER : now + (uint64_t)(seconds * 1e9);
}
