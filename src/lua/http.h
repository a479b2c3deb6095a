// SPDX-License-Identifier: MIT
// Functions of HTTP in Lua that live in http_write.c and base64.c.
#pragma once

#include "lua/net.h"

int mare__lua_http_response(lua_State *L);
int mare__lua_http_request(lua_State *L);
int mare__lua_http_write(lua_State *L);
int mare__lua_http_send_file(lua_State *L);
int mare__lua_encode64(lua_State *L);
int mare__lua_decode64(lua_State *L);
