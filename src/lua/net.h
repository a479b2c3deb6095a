// SPDX-License-Identifier: MIT
// What the bindings of protocols share with that of streams.
#pragma once

#include "loop/stream.h"
#include "lua/binding.h"
#include "wire/http.h"

// The stream at a stack index, or an error that names the argument.
struct mare__stream *mare__lua_stream(lua_State *L, int index);

// Waits until the stream is ready, then goes on with `then`, which begins with mare__lua_outcome.
// In a host, which has nothing to yield to, it returns MARE__WAITED, or what to return to Lua. (To
// call `then` would leave a frame on the stack for every time that a reader must wait.)
enum { MARE__WAITED = -1 };
int mare__lua_wait_stream(lua_State *L, struct mare__stream *stream, int way, uint64_t deadline,
                          lua_KFunction then, lua_KContext context);
mare_err mare__lua_outcome(lua_State *L, struct mare__stream *stream, int way);

// Push `nil, message, code` for an errno value; for what a wait for a stream ended with.
int mare__lua_fail_system(lua_State *L, int err);
int mare__lua_fail_stream(lua_State *L, mare_err err);

// The header fields in the table at an index: strings or numbers by name, or lists of them; into an
// array of MARE__LUA_FIELDS_MAX. What is converted stays in the stack, so that the spans hold.
enum { MARE__LUA_FIELDS_MAX = 128 };
size_t mare__lua_fields(lua_State *L, int table, struct mare__http_field *fields);
