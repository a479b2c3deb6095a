// SPDX-License-Identifier: MIT
// Bytecode that is kept for the next spawn.
#pragma once

#include "sched/sched.h"

// The bytecode of a function, dumped once while the same function is spawned again.
struct mare__code {
    struct mare__object object;
    size_t length;
    char bytes[];
};

// The code of the Lua function at a stack index, if it was spawned before; else NULL. The state
// keeps it as long as the function lives.
struct mare__code *mare__code_of(lua_State *L, int index);
