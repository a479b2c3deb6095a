// SPDX-License-Identifier: MIT
// What the bindings of HTTP share: functions in Lua that live in http_write.c and base64.c, and
// what HTTP/2 has in common with HTTP/1.1.
#pragma once

#include "lua/net.h"

// Pushes a head as a table; returns 1.
int mare__lua_http_push_head(lua_State *L, const struct mare__http_head *head,
                             enum mare__http_kind kind);

// Sets the limits that the table at index 2 has, if there is one.
void mare__lua_http_limits(lua_State *L, struct mare__http_limits *limits);

int mare__lua_http_response(lua_State *L);
int mare__lua_http_request(lua_State *L);
int mare__lua_http_write(lua_State *L);
int mare__lua_http_send_file(lua_State *L);
int mare__lua_encode64(lua_State *L);
int mare__lua_decode64(lua_State *L);
