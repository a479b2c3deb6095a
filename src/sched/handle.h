// SPDX-License-Identifier: MIT
// References of Lua values to objects outside the state.
#pragma once

#include "sched/sched.h"

// Pushes a C function of the bindings; in a host's state, wrapped so that it finds its process.
void mare__function_push(lua_State *L, lua_CFunction function);

// Pushes a weak table of the registry, making it on first use.
void mare__weak_table(lua_State *L, int key, const char *mode);

// Gives back every reference that the process's userdata hold.
void mare__handles_drop(struct mare__local *process);

// A finalizer has failed, perhaps one of ours, which Lua could not even call for want of memory: it
// will free the userdata without another word. Gives back the references of all that are about to
// be finalized.
void mare__handles_salvage(struct mare__local *process);

// An allocation of the process's state fails now. If Lua needs it to call a finalizer of ours, that
// is done here instead: when the call has failed, Lua may free the userdata before anybody is told
// (mare__handles_salvage), and then the list of references would lead through freed memory.
void mare__handles_refused(struct mare__local *process);

// Pushes a reference to an object (a channel, a process, a buffer), taking over the caller's.
void mare__handle_push(lua_State *L, void *object);

// The same for one that has one owner at a time and came in a message: if somebody has taken it
// from there already, what is pushed is empty.
void mare__handle_push_owned(lua_State *L, void *object);

// The same for one that was made just now and that nobody else has seen.
void mare__handle_push_new(lua_State *L, void *object);

// Whether a buffer is not this process's any more, or may be another's at any moment.
static inline bool mare__handle_moved(const struct mare__reference *ref)
{
    return !ref->object || ref->away;
}

// The object was sent, and is another's now: the reference is empty from here on.
void mare__handle_give(lua_State *L, struct mare__reference *ref);

// Gives back at once what only this reference refers to; it is empty from here on.
void mare__handle_forget(lua_State *L, struct mare__reference *ref);

// Whether the process can pay for so many bytes; garbage is collected if need be.
bool mare__handle_affords(lua_State *L, size_t bytes);

// The methods that the table at a stack index is to supply, or NULL if it is something else.
const luaL_Reg *mare__handle_methods(lua_State *L, int index);

// The object of the reference at a stack index, or NULL if that is something else.
struct mare__reference *mare__handle_test(lua_State *L, int index);

// Whether there is one there, with an object that is this process's.
static inline bool mare__handle_here(lua_State *L, int index)
{
    const struct mare__reference *ref = mare__handle_test(L, index);
    return ref && !mare__handle_moved(ref);
}

// The same for one kind.
static inline struct mare__reference *mare__handle_of(lua_State *L, int index, enum mare__kind kind)
{
    struct mare__reference *ref = lua_touserdata(L, index);
    bool is = ref && lua_rawlen(L, index) == sizeof *ref && ref->magic == MARE__REF_MAGIC + kind;
    return is ? ref : NULL;
}
