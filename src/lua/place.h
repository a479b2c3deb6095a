// SPDX-License-Identifier: MIT
// Shared by the files of the module mare.place.
#pragma once

#include <lauxlib.h>
#include <mare/coord_place.h>

#include "lua/binding.h"

// The whole number that is the option `name` of the table that is the first argument.
uint32_t mare__place_whole(lua_State *L, const char *name, uint32_t otherwise, uint32_t least,
                           uint32_t most);

// Pushes a place as a table.
void mare__place_push(lua_State *L, const mare_coord_place *place, uint32_t dimensions);

// Adds what place_agent.c has to the module, on top of the stack.
void mare__place_add_agent(lua_State *L);
