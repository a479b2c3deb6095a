// SPDX-License-Identifier: MIT
// The terminal in Lua; lua/mare/terminal.lua makes the module `mare.terminal` of this.
#include "platform/terminal.h"

#include <stdio.h>

#include "lua/net.h"

// input(): a stream of what is typed, or of what else is standard input.
static int terminal_input(lua_State *L)
{
    int fd = mare__terminal_input();
    if (fd < 0)
        return mare__lua_fail_system(L, -fd);
    return mare__lua_push_stream(
        L, mare__stream_new(mare__self(L)->shared.runtime, fd, MARE__KIND_STREAM));
}

// A descriptor: a number, or a file of the library io.
static int check_descriptor(lua_State *L, int index, int usual)
{
    luaL_Stream *file = luaL_testudata(L, index, LUA_FILEHANDLE);
    if (!file)
        return (int)luaL_optinteger(L, index, usual);
    luaL_argcheck(L, file->closef, index, "the file is closed");
    return fileno(file->f);
}

// is_tty([descriptor])
static int terminal_is_tty(lua_State *L)
{
    lua_pushboolean(L, mare__terminal_is(check_descriptor(L, 1, 0)));
    return 1;
}

// size([descriptor]): columns and rows.
static int terminal_size(lua_State *L)
{
    int columns, rows;
    int err = mare__terminal_size(check_descriptor(L, 1, 1), &columns, &rows);
    if (err)
        return mare__lua_fail_system(L, -err);
    lua_pushinteger(L, columns);
    lua_pushinteger(L, rows);
    return 2;
}

// raw(mode)
static int terminal_raw(lua_State *L)
{
    static const char *const modes[] = {"usual", "quiet", "raw", NULL};
    int err = mare__terminal_set((enum mare__terminal_mode)luaL_checkoption(L, 1, NULL, modes));
    if (err)
        return mare__lua_fail_system(L, -err);
    lua_pushboolean(L, 1);
    return 1;
}

int mare__lua_open_terminal(lua_State *L)
{
    static const luaL_Reg functions[] = {{"input", terminal_input},
                                         {"is_tty", terminal_is_tty},
                                         {"size", terminal_size},
                                         {"raw", terminal_raw},
                                         {NULL, NULL}};
    mare__lazy_table(L, functions);
    return 1;
}
