// SPDX-License-Identifier: MIT
// What others can do with a process, wherever it runs: wait for its end, end it, be told of it.
#pragma once

#include "sched/sched.h"

// A channel that is closed when the process ends and lives as long as it: MARE_OK; or MARE_CLOSED
// if it has ended, MARE_NOMEM. With `observe`, its error will not be printed.
mare_err mare__process_await(mare_process *process, bool observe, mare_channel **ended);

// One who observed does not wait any more and has not learned how it ended.
void mare__process_unawait(mare_process *process);

// Ends it with a reason (copied; may be NULL). False if it had finished.
bool mare__process_kill(mare_process *process, const char *reason);

// Ties two processes, of which the first lives: it is the caller. If the second has ended badly
// already, the first is killed. False when there is no memory.
bool mare__process_tie(mare_process *a, mare_process *b);
void mare__process_untie(mare_process *a, mare_process *b);

// Sends `p, how, error, traceback` to the channel when it ends. False when there is no memory.
bool mare__process_monitor(mare_process *process, mare_channel *channel);

// ---- For those who stand for a process that runs elsewhere --------------------------------------
// Makes one of a block of zeros, with a number of its own. `destroy` calls fini and frees it.
void mare__process_init(mare_process *process, mare_runtime *runtime,
                        void (*destroy)(struct mare__object *object));
void mare__process_fini(mare_process *process);

// It has ended in this way. Tells all who want to know. The result stays its own.
void mare__process_end(mare_process *process, mare_err how, const mare_message *result);

// ---- Looking on ---------------------------------------------------------------------------------
// What it does, in a word.
const char *mare__process_status(mare_process *process);

// Somebody has taken note of how it ended, so that its error need not be printed.
void mare__process_observed(mare_process *process);
