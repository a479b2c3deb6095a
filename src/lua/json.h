// SPDX-License-Identifier: MIT
// What the files of JSON in Lua share.
#pragma once

#include "lua/binding.h"
#include "wire/json.h"

// What options say, and what holds without them.
struct mare__lua_json_limits {
    lua_Integer depth, size;
};

// Reads the options `depth` and `size` from the table at `index`, if there is one; raises an error
// if it has an option that is not among `names`, or a value that cannot be.
struct mare__lua_json_limits mare__lua_json_limits(lua_State *L, int index, const char *names);

// Pushes the value that stands for null, and the metatable that marks a table as an array.
void mare__lua_json_push_null(lua_State *L);
void mare__lua_json_push_mark(lua_State *L);

// Pushes the value that the bytes are, and returns 1; or nil, a message and a code, and returns 3.
// The place in the message is counted from `line` and `column`, where the bytes begin.
int mare__lua_json_decode(lua_State *L, struct mare__span text,
                          const struct mare__lua_json_limits *limits, size_t line, size_t column);

// Pushes `nil, "line L, column C: what", "badmsg"` for what is wrong at `at`, of bytes that begin
// at that line and column, or right there, if `at` is NULL; returns 3.
int mare__lua_json_blame(lua_State *L, const char *bytes, const char *at, size_t line,
                         size_t column, const char *wrong);

int mare__lua_json_encode(lua_State *L);
int mare__lua_json_reader(lua_State *L);
