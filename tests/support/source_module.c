// SPDX-License-Identifier: MIT
// A C module for Lua that brings a source of its own, for tests/lua/test_source.lua: it knows
// nothing of Maré but its public headers, and finds the functions in the program that loads it.
#include <lauxlib.h>
#include <lua.h>
#include <mare/events.h>
#include <stdlib.h>

struct countdown {
    lua_Integer left;
    mare_err then;
};

static mare_err countdown_wait(void *self, mare_message *event)
{
    struct countdown *countdown = self;
    if (countdown->left == 0)
        return countdown->then;
    return mare_message_add_integer(event, countdown->left--);
}

static const mare_source_kind kind = {.name = "countdown", .wait = countdown_wait, .destroy = free};

// countdown(n [, fails]): a source of n, n - 1, ... 1 that then ends, or fails.
static int countdown_new(lua_State *L)
{
    lua_Integer left = luaL_checkinteger(L, 1);
    struct countdown *countdown = malloc(sizeof *countdown);
    mare_source *source;
    if (!countdown)
        return luaL_error(L, "not enough memory");
    *countdown = (struct countdown){left, lua_toboolean(L, 2) ? MARE_REFUSED : MARE_CLOSED};
    mare_err err = mare_source_create(mare_lua_runtime(L), &kind, countdown, -1, 2, &source);
    if (err) {
        free(countdown);
        return luaL_error(L, "%s", mare_strerror(err));
    }
    mare_lua_push_source(L, source);
    return 1;
}

MARE_API int luaopen_source_module(lua_State *L);

int luaopen_source_module(lua_State *L)
{
    static const luaL_Reg functions[] = {{"countdown", countdown_new}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
