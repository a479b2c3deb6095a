// SPDX-License-Identifier: MIT
// What the files of HTTP/2 in Lua share.
#pragma once

#include "lua/http.h"
#include "wire/http2.h"

// The session at index 1. Of one that was closed nothing can be asked: NULL, and `nil, message,
// "closed"` is pushed.
struct mare__http2 *mare__lua_http2_use(lua_State *L);

// Functions that live in http2_bytes.c.
int mare__lua_http2_read(lua_State *L);
int mare__lua_http2_write(lua_State *L);
int mare__lua_http2_is_spoken(lua_State *L);
