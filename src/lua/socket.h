// SPDX-License-Identifier: MIT
// What the files of the module mare._socket share.
#pragma once

#include "lua/net.h"

// Pushes `nil` and words. Returns 2.
int mare__lua_socket_fail_words(lua_State *L, const char *words);

// What a wait returns: true, or nil and "timeout", "closed" or "cancelled".
int mare__lua_socket_waited(lua_State *L, mare_err err);

// Names of hosts and services (resolve.c).
int mare__lua_socket_find(lua_State *L);
int mare__lua_socket_nameof(lua_State *L);
int mare__lua_socket_numeric(lua_State *L);
int mare__lua_socket_service(lua_State *L);
int mare__lua_socket_servicename(lua_State *L);
int mare__lua_socket_hostname(lua_State *L);
