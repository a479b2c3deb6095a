// SPDX-License-Identifier: MIT
// What a message being written has seen: tables and functions by their numbers, upvalues by the
// function that has them. Used by walk.c alone.
#pragma once

#include "sched/sched.h"

struct mare__seen {
    const void *pointer;
    uint32_t number;
    uint32_t extra; // an upvalue's: which one of the function with that number
};

// By address, which is quick and right as long as no Lua code runs; or by a table of Lua that keeps
// what was seen alive.
struct mare__seen_set {
    lua_State *L;
    bool anchors; // by a table
    int slot;     // stack index of the table, or of the memory of many entries
    struct mare__seen *entries, few[MARE__MARSHAL_SEEN];
    uint32_t count, room; // room is a power of two once it is a hash table
};

// Pushes one value, which the set uses until the end.
void mare__seen_init(struct mare__seen_set *set, lua_State *L, bool anchors);

// Whether something was seen before: an upvalue (lua_upvalueid), or, with NULL, the table or
// function on top of the stack.
bool mare__seen_find(struct mare__seen_set *set, const void *upvalue, struct mare__seen *found);

// Remembers the same. Raises an error when there is no memory.
void mare__seen_add(struct mare__seen_set *set, const void *upvalue, uint32_t number,
                    uint32_t extra);
