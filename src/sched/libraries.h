// SPDX-License-Identifier: MIT
// The standard libraries in a state: opened when they are named (lazy.c), with functions of ours
// in place of some (stdlib.c, package.c, coroutine.c).
#pragma once

#include "sched/sched.h"

// ---- lazy.c -------------------------------------------------------------------------------------
// Learns what the standard libraries consist of. NULL when there is no memory.
struct mare__harvest *mare__harvest_create(void);
void mare__harvest_destroy(struct mare__harvest *harvest);

// Functions of the stock interpreter that ours call where they do not differ.
enum mare__original {
    MARE__GETLOCAL,
    MARE__SETLOCAL,
    MARE__SETUPVALUE,
    MARE__GETUSERVALUE,
    MARE__SETUSERVALUE,
    MARE__LOADLIB,
    MARE__SEARCH_C, // of package.searchers
    MARE__SEARCH_C_ROOT,
    MARE__TIME,
    MARE__DATE,
    MARE__ORIGINALS
};
lua_CFunction mare__original(const mare_runtime *runtime, enum mare__original which);

// How many instructions a coroutine has left to count until its next count event. Lua has no
// function that tells or sets this; without it a hook that yields cannot go on counting exactly.
int *mare__countdown(const mare_runtime *runtime, lua_State *L);

// At a state's birth: globals and strings that open libraries when they are named. Called in
// protected mode.
void mare__lazy_install(lua_State *L);

// Opens all that has not been opened and makes the globals an ordinary table.
void mare__lazy_finish(lua_State *L);

// Pushes a table that takes its members from a list (static) when they are named, and has them all
// when it is iterated over.
void mare__lazy_table(lua_State *L, const luaL_Reg *members);

// Pushes one that takes the methods of references of a kind when they are named: those of which
// mare__handle_methods tells.
void mare__lazy_methods(lua_State *L, const luaL_Reg *methods);

// Pushes what require(name) returns for a standard library or one of the runtime's own modules, and
// returns true; or pushes nothing.
bool mare__lazy_require(lua_State *L, const char *name);

// Whether there is a library or module of that name that needs no file.
bool mare__lazy_has(lua_State *L, const char *name);
bool mare__lazy_knows(const mare_runtime *runtime, const char *name);

// Pushes "library", "function" for a C function that is part of a standard library or module that
// is loaded, and returns true; or pushes nothing. The function is at `index`.
bool mare__lazy_name_of(lua_State *L, int index);

// Pushes the name of the module whose table is at `index` and returns true; or pushes nothing.
bool mare__lazy_module_of(lua_State *L, int index);

// Opens the string library, so that the metatable of strings is the real one.
void mare__lazy_string(lua_State *L);

// ---- stdlib.c -----------------------------------------------------------------------------------
// What Maré does in place of functions of the standard libraries.
void mare__math_seed(lua_State *L);
extern const luaL_Reg mare__base_overrides[], mare__os_overrides[];
int mare__next(lua_State *L);

// Pops a metatable and gives it to the table below it, as setmetatable does.
void mare__metatable_set(lua_State *L);

// Whether it is the table of globals.
bool mare__is_globals(lua_State *L, int index);

// os.exit([code]): ends the program, in order if somebody awaits its end; in a program that is not
// ours (a host, a C program), as exit does.
int mare__exit(lua_State *L);

// ---- package.c ----------------------------------------------------------------------------------
int mare__require(lua_State *L);

// The host's own require, for a state that is not ours.
int mare__host_require(lua_State *L);

// Changes the library on top of the stack, and gives it what the process has inherited.
void mare__package_patch(lua_State *L);

// A new process, not yet launched, gets the package.path, package.cpath and package.preload of the
// one that the state belongs to. May raise an error (no memory).
struct mare__modules;
void mare__modules_inherit(lua_State *L, struct mare__local *process);
void mare__modules_unref(struct mare__modules *modules); // or NULL

// ---- offer.c ------------------------------------------------------------------------------------
// Whether the program around the runtime offers such a module; what opens it in a state, or NULL;
// the end of them all.
bool mare__offer_has(const mare_runtime *runtime, const char *name);
lua_CFunction mare__offer_open(lua_State *L, const char *name);
void mare__offers_free(mare_runtime *runtime);

// ---- class.c ------------------------------------------------------------------------------------
// The table on top of the stack has a metatable. Pushes the name of the loaded module that has it,
// and its place there (names with zero bytes between them; empty: the module itself), and returns
// true; or pushes nothing.
bool mare__class_of(lua_State *L);

// ---- protect.c ----------------------------------------------------------------------------------
// pcall and xpcall: as the originals, but they do not stop the error by which a process that was
// killed is taken out of where it cannot yield.
int mare__pcall(lua_State *L);
int mare__xpcall(lua_State *L);

// Raises that error; and whether it is the value on top of the stack.
int mare__kill_throw(lua_State *L);
bool mare__kill_thrown(lua_State *L);

// The same after a call with a message handler, which may have made another error of it.
bool mare__kill_passes(lua_State *L);

// ---- hook_again.c -------------------------------------------------------------------------------
// A hook of L is about to raise an error: what runs after that may have hooks again.
void mare__hooks_again(lua_State *L);

// ---- debug.c ------------------------------------------------------------------------------------
extern const luaL_Reg mare__debug_overrides[];

// What a function of the debug library is about: the coroutine that is its first argument, if it is
// one, or the one that calls it. `first` is where its other arguments begin.
lua_State *mare__debug_about(lua_State *L, int *first);

// Whether the table at an index of the stack is in the registry: the metatable of a type of C, most
// likely, which a userdata that is of another type must not get.
bool mare__is_type_of_c(lua_State *L, int index);

// ---- hook.c -------------------------------------------------------------------------------------
// debug.sethook, debug.gethook
int mare__hook_set(lua_State *L);
int mare__hook_get(lua_State *L);

// The coroutine on top of the stack was just made: it has the hook of the one that made it, but not
// the function.
void mare__hook_inherit(lua_State *L, lua_State *made);

// Sees to it that the process gives way soon, in a coroutine that runs. Also from a signal handler.
void mare__hook_arm(struct mare__local *process, lua_State *L);

// ---- coroutine.c --------------------------------------------------------------------------------
// Replaces create, resume, wrap, status and close in the coroutine library on top of the stack.
void mare__coroutine_patch(lua_State *L);

// Closes a coroutine: its handlers of <close> run on it, so the tick must find it there meanwhile,
// and then at another, which must live: what ran before may be collected by then.
int mare__thread_close(struct mare__local *process, lua_State *co, lua_State *then);
