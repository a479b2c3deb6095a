// SPDX-License-Identifier: MIT
// What leaves with an operation: the references to things with one owner (buffers, streams) that
// stand in the messages it wants to send. Only the thread that runs the process touches them.
#pragma once

#include "sched/sched.h"

// One operation's, from the first such reference that is written until the operation is over. A
// reference is in at most one list, and knows which: nobody uses it meanwhile, and if its userdata
// is collected it takes itself out.
struct mare__leaving {
    struct mare__leave {
        struct mare__reference *ref; // NULL: it has gone
        uint32_t which;              // the case of the select that it would leave with; else 0
        uint32_t before;             // the same reference's place for an earlier case, plus 1; or 0
    } * places;
    uint32_t count, room;
};

// It stands in a message that would leave with the case. False: not enough memory.
bool mare__leaving_add(struct mare__leaving **leaving, struct mare__reference *ref, uint32_t which);

// The last message was that of this case, and will be written again: removes what it added.
void mare__leaving_undo(struct mare__leaving *leaving, uint32_t which);

// It is in no list any more: collected, or received here before its sender was told.
void mare__leaving_remove(struct mare__reference *ref);

// The operation is over. With `sent`, what was to leave with that case is the receiver's now;
// everything else is this process's again. The list goes, if there is one.
void mare__leaving_end(lua_State *L, struct mare__leaving **leaving, uint32_t which, bool sent);

// The same without Lua: nothing was sent.
void mare__leaving_drop(struct mare__leaving **leaving);
