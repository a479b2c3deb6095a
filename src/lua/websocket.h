// SPDX-License-Identifier: MIT
// What mare._websocket has of websocket_read.c.
#pragma once

#include <lua.h>

// reader("server" | "client", limit), receiver(slow, go_on, release)
int mare__lua_ws_reader(lua_State *L);
int mare__lua_ws_receiver(lua_State *L);
