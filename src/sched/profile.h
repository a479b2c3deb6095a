// SPDX-License-Identifier: MIT
// A profile by sampling: with each tick of a worker, the process that runs is looked at where it is
// next between two instructions, and its stack is charged with the processor time since the last
// look. Code that is not looked at runs at full speed.
#pragma once

#include "sched/sched.h"

// From now on samples are taken, until the runtime ends. False: no memory.
bool mare__profile_start(mare_runtime *runtime);

// Between two instructions of a process: charges its stack.
void mare__profile_take(lua_State *L, struct mare__local *process);

// Calls `visit` with every stack, its frames from the outermost on with ';' between them, and its
// time. Any thread; samples wait meanwhile.
void mare__profile_each(mare_runtime *runtime,
                        void (*visit)(void *context, const char *stack, uint64_t ns),
                        void *context);

void mare__profile_free(mare_runtime *runtime);
