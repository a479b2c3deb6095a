// SPDX-License-Identifier: MIT
// What the bindings that take secrets share.
#pragma once

#include "base/secret.h"
#include "lua/binding.h"

// The secret at a stack index, or NULL if that is something else.
struct mare__secret *mare__lua_secret_test(lua_State *L, int index);

// The bytes of a secret at a stack index, with a zero byte behind them; or of a string, for what a
// program has made itself. Raises an error for anything else.
const char *mare__lua_secret_bytes(lua_State *L, int index, size_t *size);

// Pushes a new secret with these bytes; or `nil, message, "nomem"`.
int mare__lua_push_secret(lua_State *L, const void *bytes, size_t size);
