// SPDX-License-Identifier: MIT
// Birth and end of processes, and who is told of it.
#pragma once

#include "sched/sched.h"

// A new process with one reference for the caller, not yet ready; NULL when there is no memory.
mare_process *mare__process_new(mare_runtime *runtime);

// Makes a new process run; the runtime holds a reference from here to its end.
void mare__process_launch(mare_process *process);

// Builds the state before the first run. False when it cannot; the process has then ended.
bool mare__process_start(mare_process *process, int *arguments);

// The state has stopped with this status of lua_resume and that many results: ends the process.
void mare__process_finish(mare_process *process, int status, int results);

// A channel that is closed when the process ends and lives as long as it: MARE_OK; or MARE_CLOSED
// if it has ended, MARE_NOMEM. With `observe`, its error will not be printed.
mare_err mare__process_await(mare_process *process, bool observe, mare_channel **ended);

// One who observed does not wait any more and has not learned how it ended.
void mare__process_unawait(mare_process *process);

// Ends it with a reason (copied; may be NULL). False if it had finished.
bool mare__process_kill(mare_process *process, const char *reason);

// Raises an error in its main routine, wherever that is: in a computation, or in a wait.
void mare__process_interrupt(mare_process *process);

// Forgets such an interruption. False if there was none, or it has had its effect.
bool mare__process_heed(mare_process *process);

// Ties two processes; if one has ended badly already, the other is killed. False when there is no
// memory.
bool mare__process_tie(mare_process *a, mare_process *b);
void mare__process_untie(mare_process *a, mare_process *b);

// Sends `p, how, error, traceback` to the channel when it ends. False when there is no memory.
bool mare__process_monitor(mare_process *process, mare_channel *channel);

// A copy of the traceback (to free) outside Lua, for the stack that it tells of will be gone; or
// NULL.
char *mare__traceback(lua_State *L);

// Forgets what the results of ended processes refer to; at the runtime's end.
void mare__process_release_kept(mare_runtime *runtime);

// What it does, in a word. A process that has given up its worker but stands in no line yet runs.
const char *mare__process_status(const mare_process *process);

// Somebody has taken note of how it ended, so that its error need not be printed.
void mare__process_observed(mare_process *process);
