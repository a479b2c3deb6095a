// SPDX-License-Identifier: MIT
// What the bindings of protocols share with that of streams.
#pragma once

#include "loop/stream.h"
#include "lua/binding.h"

// The stream at a stack index, or an error that names the argument.
struct mare__stream *mare__lua_stream(lua_State *L, int index);
struct mare__stream *mare__lua_socket(lua_State *L, int index);

// When a call on it must be over: an optional timeout, or the stream's own.
uint64_t mare__lua_stream_deadline(lua_State *L, const struct mare__stream *stream, int index);

// What became of a wait that was for no stream.
mare_err mare__lua_wait_outcome(lua_State *L);

// Methods that streams, listeners and sockets share.
int mare__stream_close(lua_State *L);
int mare__stream_leave(lua_State *L);
int mare__stream_timeout(lua_State *L);
int mare__stream_limit(lua_State *L);
int mare__stream_address(lua_State *L);
int mare__stream_peer(lua_State *L);
int mare__stream_tostring(lua_State *L);

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
