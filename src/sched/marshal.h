// SPDX-License-Identifier: MIT
// Lua values into messages (marshal.c) and out of them (unmarshal.c).
#pragma once

#include "sched/code.h"
#include "sched/sched.h"

// ---- marshal.c, unmarshal.c ---------------------------------------------------------------------
// Appends `count` values from stack index `first` on to a message. On failure pushes an error
// message that says which value cannot travel and where it sits, leaves the message cleared, and
// returns the code. `what` names the values: "arg", "result".
mare_err mare__marshal(lua_State *L, int first, int count, mare_message *message, const char *what);

// How to marshal, beyond what is usual.
struct mare__marshalling {
    const char *what;        // what refusals call the values: "arg"
    int before;              // how many arguments of the call come before the first value
    uint32_t numbered;       // functions that the message has already
    struct mare__code *code; // of the first value, or NULL
    const char **refused;    // if not NULL: gets the type of what was refused
};

mare_err mare__marshal_as(lua_State *L, int first, int count, mare_message *message,
                          const struct mare__marshalling *how);

// The same for what a new process starts with: the first value is a function.
mare_err mare__marshal_body(lua_State *L, int first, int count, mare_message *message,
                            const char **refused);

// The same; most messages are one integer.
static inline mare_err mare__marshal_quickly(lua_State *L, int first, int count,
                                             mare_message *message, const char *what)
{
    bool quick = count == 1 && lua_isinteger(L, first) && MARE__MESSAGE_SMALL >= MARE__PACK_MAX;
    if (__builtin_expect(!quick, 0))
        return mare__marshal(L, first, count, message, what);
    message->length = MARE__PACK_WIDE;
    message->count = 1;
    mare__pack_wide(message->as.small, lua_tointegerx(L, first, NULL));
    return MARE_OK;
}

// Pushes the values of a message; raises an error when it is malformed or memory runs out. Returns
// their number. The message stays the caller's.
int mare__unmarshal(lua_State *L, const mare_message *message);

// The same for a message of the process's own, which is left empty: the bytes are read from a place
// where nobody else gets at them, for Lua code may run meanwhile.
int mare__unmarshal_own(lua_State *L, mare_message *message);

// The same; most messages are one integer.
static inline int mare__unmarshal_quickly(lua_State *L, mare_message *message)
{
    bool quick = message->count == 1 && message->capacity == 0 &&
                 mare__is_wide(message->as.small, message->length);
    if (__builtin_expect(!quick, 0))
        return mare__unmarshal_own(L, message);
    lua_pushinteger(L, mare__unpack_wide(message->as.small));
    mare__message_init(message);
    return 1;
}

// ---- What is on its way (unmarshal.c) -----------------------------------------------------------
// A new entry of process->working, or NULL; the same, or an error; and its end.
struct mare__working *mare__working_try(mare_process *process);
struct mare__working *mare__working_push(lua_State *L);
void mare__working_pop(mare_process *process, struct mare__working *working);
