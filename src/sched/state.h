// SPDX-License-Identifier: MIT
// Lua states: their birth, their end, and those that are kept for reuse.
#pragma once

#include "sched/code.h"
#include "sched/sched.h"

// Gives the process a new or a recycled Lua state. False when there is no memory. If the state has
// `code` (may be NULL) loaded, process->loaded is set and the function is on its stack.
bool mare__state_open(mare_process *process, const struct mare__code *code);

// The function of that code, and nothing else, is on the stack of a new state: worth remembering.
void mare__state_loaded(mare_process *process, struct mare__code *code);

// Runs the finalizers and gives the state back.
void mare__state_close(mare_process *process);

// The process has ended, and what runs from here on are its handlers of <close>: they cannot give
// way, but in one that was killed each that does not end is cut off after about a second.
enum { MARE__WIND_UP_NS = 1000000000 };
void mare__wind_up(mare_process *process, bool begins);

// Closes pending <close> variables of every coroutine on the way to where the process stands.
void mare__state_unwind(mare_process *process);

// The same for one routine, the one that runs.
void mare__routine_close(mare_process *process, lua_State *routine);

// Frees the states kept for reuse beyond `limit`.
void mare__state_trim(mare_runtime *runtime, unsigned limit);
