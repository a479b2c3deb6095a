// SPDX-License-Identifier: MIT
// The floor of spawn + run + finish: what a Lua state costs from birth to death.
//
//     libraries_ns   luaL_newstate, luaL_openlibs, lua_close: the row's measure
//     bare_ns        lua_newstate, lua_close: no library at all
//     bare_run_ns    the same with a tiny precompiled function loaded and run in between
//
//     spawn [states]
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <string.h>

#include "floor.h"

static struct {
    char bytes[4096];
    size_t length;
} chunk;

static void *allocate(void *ud, void *block, size_t old_size, size_t new_size)
{
    (void)ud;
    (void)old_size;
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_size);
}

static int keep(lua_State *L, const void *piece, size_t size, void *ud)
{
    (void)L;
    (void)ud;
    if (chunk.length + size > sizeof chunk.bytes) {
        return 1;
    }
    memcpy(chunk.bytes + chunk.length, piece, size);
    chunk.length += size;
    return 0;
}

static void compile(void)
{
    lua_State *L = luaL_newstate();
    if (L == NULL || luaL_loadstring(L, "return") != LUA_OK || lua_dump(L, keep, NULL, 1) != 0) {
        floor_fail("cannot compile");
    }
    lua_close(L);
}

static void with_libraries(void)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_close(L);
}

static void bare(void)
{
    lua_close(lua_newstate(allocate, NULL));
}

static void bare_run(void)
{
    lua_State *L = lua_newstate(allocate, NULL);
    if (luaL_loadbufferx(L, chunk.bytes, chunk.length, "=tiny", "b") != LUA_OK ||
        lua_pcall(L, 0, 0, 0) != LUA_OK) {
        floor_fail(lua_tostring(L, -1));
    }
    lua_close(L);
}

static double each_ns(void (*life)(void), long times)
{
    for (long i = 0; i < times / 10; i++) {
        life();
    }
    double start = floor_now_ns();
    for (long i = 0; i < times; i++) {
        life();
    }
    return (floor_now_ns() - start) / (double)times;
}

int main(int argc, char **argv)
{
    long states = floor_count(argc, argv, 1, 10000);
    compile();
    floor_report("libraries_ns", each_ns(with_libraries, states));
    floor_report("bare_ns", each_ns(bare, states));
    floor_report("bare_run_ns", each_ns(bare_run, states));
    return 0;
}
