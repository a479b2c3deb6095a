// SPDX-License-Identifier: MIT
// Functions of `mare._node` for guests: programs that speak MessagePack-RPC with a node.
#pragma once

#include <lua.h>

#include <mare.h>

// _reader(): see guest.c
int mare__lua_guest_reader(lua_State *L);

// _answer(id, ...): the bytes of an answer: nil, the result, or an array of several; or nil,
// message, code if it cannot be written
int mare__lua_guest_answer(lua_State *L);

// _failure(id, text): the bytes of one that tells of an error
int mare__lua_guest_failure(lua_State *L);
