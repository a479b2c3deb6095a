// SPDX-License-Identifier: MIT
// Lua values into messages (marshal.c) and out of them (unmarshal.c).
#pragma once

#include "sched/code.h"
#include "sched/leaving.h"
#include "sched/sched.h"

// ---- marshal.c, unmarshal.c ---------------------------------------------------------------------
// Appends `count` values from stack index `first` on to a message, which must be the operation's
// own (a __travel may send, receive and select meanwhile). What leaves with it is noted in
// *leaving. On failure pushes an error message that says which value cannot travel and where it
// sits, leaves the message cleared and nothing leaving, and returns the code. An error (a lack of
// memory) is raised in the same state. `what` names the values: "arg", "result".
mare_err mare__marshal(lua_State *L, int first, int count, mare_message *message, const char *what,
                       struct mare__leaving **leaving);

// How to marshal, beyond what is usual.
struct mare__marshalling {
    const char *what;               // what refusals call the values: "arg"
    int before;                     // how many arguments of the call come before the first value
    uint32_t numbered;              // functions that the message has already
    struct mare__code *code;        // of the first value, or NULL
    const char **refused;           // if not NULL: gets the type of what was refused
    struct mare__leaving **leaving; // of the whole operation
    uint32_t which;                 // the case that this is the message of; else 0
};

mare_err mare__marshal_as(lua_State *L, int first, int count, mare_message *message,
                          const struct mare__marshalling *how);

// The same for what a new process starts with: the first value is a function.
mare_err mare__marshal_body(lua_State *L, int first, int count, mare_message *message,
                            struct mare__leaving **leaving, const char **refused);

// The same; most messages are one integer.
static inline mare_err mare__marshal_quickly(lua_State *L, int first, int count,
                                             mare_message *message, const char *what,
                                             struct mare__leaving **leaving)
{
    bool quick = count == 1 && lua_isinteger(L, first) && MARE__MESSAGE_SMALL >= MARE__PACK_MAX;
    if (__builtin_expect(!quick, 0))
        return mare__marshal(L, first, count, message, what, leaving);
    message->length = MARE__PACK_WIDE;
    message->count = 1;
    mare__pack_wide(message->as.small, lua_tointegerx(L, first, NULL));
    return MARE_OK;
}

// Pushes the values of a message; raises an error when it is malformed or memory runs out, or what
// a module's `arrive` raises. Returns their number. The message stays the caller's, who must see to
// it that nobody changes it: Lua code may run meanwhile.
int mare__unmarshal(lua_State *L, const mare_message *message);

// The same for a message that was received: it is left empty before Lua code can run, and what it
// held is given back whatever happens.
int mare__unmarshal_own(lua_State *L, mare_message *message);

// The same for what a process starts with, in its own coroutine: modules and `arrive` may wait, and
// be preempted and killed. `reader` (mare__reader_new) keeps the message and how far it was read;
// `function` is the stack index of the function whose code the message begins with, or 0;
// then(L, count) goes on, with that many values on top of the stack.
struct mare__reader;
struct mare__reader *mare__reader_new(mare_message *message); // moves it; NULL: not enough memory
void mare__reader_free(struct mare__reader *reader);
int mare__unmarshal_then(lua_State *L, struct mare__reader *reader, int function,
                         int (*then)(lua_State *L, int count));

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
