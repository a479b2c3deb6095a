// SPDX-License-Identifier: MIT
// What the files of the module mare._socket share.
#pragma once

#include "lua/net.h"

// Pushes `nil` and LuaSocket's words for an errno value; or words. Returns 2.
int mare__lua_socket_fail(lua_State *L, int err);
int mare__lua_socket_fail_words(lua_State *L, const char *words);

// What a wait returns: true, or nil and "timeout", "closed" or "cancelled".
int mare__lua_socket_waited(lua_State *L, mare_err err);

// "inet", "inet6" or "unix".
const char *mare__lua_socket_family(const struct mare__address *address);

// Names of hosts and services (socket_dns.c).
int mare__lua_socket_find(lua_State *L);
int mare__lua_socket_nameof(lua_State *L);
int mare__lua_socket_numeric(lua_State *L);
int mare__lua_socket_service(lua_State *L);
int mare__lua_socket_servicename(lua_State *L);
int mare__lua_socket_hostname(lua_State *L);
