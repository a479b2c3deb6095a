// SPDX-License-Identifier: MIT
// Creates and destroys Lua states, and keeps some of them for reuse.
#pragma once

#include "sched/code.h"
#include "sched/sched.h"

// Gives the process a new or a recycled Lua state. False when there is no memory. If the state has
// `code` (may be NULL) loaded, process->loaded is set and the function is on its stack.
bool mare__state_open(struct mare__local *process, const struct mare__code *code);

// The function of that code, and nothing else, is on the stack of a new state: worth remembering.
void mare__state_loaded(struct mare__local *process, struct mare__code *code);

// Runs the finalizers and gives the state back.
void mare__state_close(struct mare__local *process);

// The process has ended, and what runs from here on are its handlers of <close>. They cannot give
// way. But in one that was killed the handler that runs after about a second is cut off, the others
// have another second, and so on. After the third time they are cut off as they begin.
enum { MARE__WIND_UP_NS = 1000000000, MARE__WIND_UP_TIMES = 3 };
void mare__wind_up(struct mare__local *process, bool begins);

static inline bool mare__is_out_of_time(const struct mare__local *process)
{
    return process->throws >= MARE__WIND_UP_TIMES;
}

// Closes pending <close> variables of every coroutine on the way to where the process stands.
void mare__state_unwind(struct mare__local *process);

// The same for one routine, the one that runs.
void mare__routine_close(struct mare__local *process, lua_State *routine);

// Frees the states kept for reuse beyond `limit`.
void mare__state_trim(mare_runtime *runtime, unsigned limit);
