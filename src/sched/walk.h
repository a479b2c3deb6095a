// SPDX-License-Identifier: MIT
// A walk over Lua values that writes them into a message. Used by marshal.c alone.
#pragma once

#include "sched/marshal.h"
#include "sched/seen.h"

struct mare__walk_frame {
    uint8_t kind;
    bool mixed;      // an array and then a map, both inside an ext
    bool looked;     // ARRAY: whether pairs will follow is known
    bool value_next; // MAP: the key was a rich value; its value is still to be written
    uint32_t start;  // where the header is
    uint32_t inner;  // mixed: where the map's header is
    uint32_t count;  // elements, pairs or upvalues written
    uint32_t number; // of the object
    int index;       // of the object on the stack
};

struct mare__walk {
    lua_State *L;
    mare_message *message;
    const struct mare__marshalling *how;
    bool begins_again; // what was seen must be anchored: the walk ends here
    bool bare;         // the metatable of the next table was written
    struct mare__walk_frame *frames, few_frames[MARE__MARSHAL_FRAMES];
    uint32_t depth, room;
    struct mare__seen_set seen;
    uint32_t numbered;
    const void *globals;
    struct mare__code *code; // of the first value, or NULL
    mare_err err;
    const char *refusal; // a kind of value
    int scratch;         // stack index of what `frames` points to once there are many
    int current;         // the value being written, from 1
};

// Begins one that writes to a message. It pushes two values, which it uses until its end. With
// `anchors` it may run Lua code: see walk.c.
void mare__walk_init(struct mare__walk *w, lua_State *L, mare_message *message,
                     const struct mare__marshalling *how, bool anchors);

// Writes so many values, from the second on the stack on; so many are in the message already.
// False: it ended early, for the reason in `err`, or to begin again with anchors.
bool mare__walk(struct mare__walk *w, int written, int count);

// Pushes a message: which value cannot travel, or that there was no memory.
void mare__walk_push_refusal(struct mare__walk *w);
