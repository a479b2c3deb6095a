// SPDX-License-Identifier: MIT
// The floor of ping-pong and of the ring: one integer goes round bare Lua states, one thread.
//
//     state 1 --yield(v)--> host --resume(v)--> state 2 --yield(v)--> host --resume(v)--> state 1 …
//
// Each state loops over a C function that yields the integer it was given and returns the one that
// it is resumed with. The host reads the integer from one state's stack and pushes it on the
// next's: the least that a message between two states can be.
//
//     pingpong [messages [states]]
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "floor.h"

static const char loop[] = "local move = ...\n"
                           "local value = 0\n"
                           "while true do value = move(value + 1) end\n";

static int move(lua_State *L)
{
    return lua_yield(L, 1);
}

static lua_State *open_state(void)
{
    lua_State *L = luaL_newstate();
    if (L == NULL || luaL_loadstring(L, loop) != LUA_OK) {
        floor_fail("no state");
    }
    lua_pushcfunction(L, move);
    return L;
}

// Resumes with what is on the stack, takes the yielded integer off it.
static lua_Integer step(lua_State *L, int arguments)
{
    int results;
    if (lua_resume(L, NULL, arguments, &results) != LUA_YIELD) {
        floor_fail(lua_tostring(L, -1));
    }
    lua_Integer value = lua_tointeger(L, -1);
    lua_pop(L, results);
    return value;
}

int main(int argc, char **argv)
{
    long messages = floor_count(argc, argv, 1, 1000000);
    long states = floor_count(argc, argv, 2, 2);
    lua_State **ring = calloc((size_t)states, sizeof *ring);
    if (ring == NULL || states < 1) {
        floor_fail("no memory");
    }
    for (long i = 0; i < states; i++) {
        ring[i] = open_state();
        step(ring[i], 1);
    }

    lua_Integer value = 0;
    long at = 0;
    double start = floor_now_ns();
    for (long i = 0; i < messages; i++) {
        lua_State *L = ring[at];
        lua_pushinteger(L, value);
        value = step(L, 1);
        at = at + 1 == states ? 0 : at + 1;
    }
    double taken = floor_now_ns() - start;
    if (value != messages) {
        floor_fail("a message was lost");
    }
    floor_report("ns", taken / (double)messages);

    for (long i = 0; i < states; i++) {
        lua_close(ring[i]);
    }
    free(ring);
    return 0;
}
