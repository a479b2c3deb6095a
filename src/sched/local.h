// SPDX-License-Identifier: MIT
// How the processes that run here begin, run and end.
#pragma once

#include "sched/sched.h"

// A new process with one reference for the caller, not yet ready; NULL when there is no memory.
struct mare__local *mare__local_new(mare_runtime *runtime);

// Gives a new process, not yet launched, its limit, name, monitor and thread, and ties it to
// another if that is not NULL. What fails leaves nothing behind: MARE_EXISTS, MARE_NOMEM.
mare_err mare__local_equip(struct mare__local *process, const mare_spawn_options *options,
                           mare_process *tied_to);

// Makes a new process run; the runtime holds a reference from here to its end.
void mare__local_launch(struct mare__local *process);

// Builds the state before the first run. False when it cannot; the process has then ended.
bool mare__local_start(struct mare__local *process, int *arguments);

// The state has stopped with this status of lua_resume and that many results: ends the process.
void mare__local_finish(struct mare__local *process, int status, int results);

// Ends it with a reason (copied; may be NULL). False if it had finished.
bool mare__local_kill(struct mare__local *process, const char *reason);

// Raises an error in its main routine, wherever that is: in a computation, or in a wait.
void mare__local_interrupt(struct mare__local *process);

// Forgets such an interruption. False if there was none, or it has had its effect.
bool mare__local_heed(struct mare__local *process);

// Somebody has taken note of how it ended: its error is not printed, if it was about to be.
void mare__local_observed(struct mare__local *process);

// What it does, in a word. A process that has given up its worker but stands in no line yet runs.
const char *mare__local_status(const struct mare__local *process);

// The same of a process whose status was read already.
const char *mare__status_word(const struct mare__local *process, unsigned status);

// What to print of an error value that is no string and has no __tostring: a table as it would be
// written in a program. One value is pushed, which keeps the text; no error is raised.
const char *mare__error_push(lua_State *L, int error);

// A copy of the traceback (to free) outside Lua, for the stack that it tells of will be gone; or
// NULL.
char *mare__traceback(lua_State *L);

// Forgets what the results of ended processes refer to; at the runtime's end.
void mare__local_release_kept(mare_runtime *runtime);
