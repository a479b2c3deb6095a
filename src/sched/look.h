// SPDX-License-Identifier: MIT
// Looking at processes from outside: where each is in its code, and what it waits for.
//
// A process at rest may be run by a worker at any time. To look at its state, first hold all
// workers back from running it. They finish what they run already:
//
//     worker: status = RUNNING   | barrier here       | looked_at?   yes: waits for the mutex
//     looker: looked_at = true   | barrier everywhere | status RUNNING?   yes: leaves it alone
//
// At least one of the two sees the other. The worker's side costs a store and a load.
#pragma once

#include "sched/sched.h"

// Holds workers back until the end. Any thread; it may block, but only for another who looks.
void mare__look_begin(mare_runtime *runtime);
void mare__look_end(mare_runtime *runtime);
void mare__look_await(mare_runtime *runtime);

// A worker is about to touch what belongs to a process.
static inline void mare__look_out(mare_runtime *runtime, struct mare__local *process)
{
    // Relaxed: the barrier orders it before the load; the other side has its own.
    atomic_store_explicit(&process->status, MARE__RUNNING, memory_order_relaxed);
    mare__barrier_here();
    // Acquire, with the release in mare__look_end: who looked has finished.
    if (__builtin_expect(atomic_load_explicit(&runtime->looked_at, memory_order_acquire), 0))
        mare__look_await(runtime);
}

// One row for each routine of each process, as in mare_list_processes.
size_t mare__list_routines(mare_runtime *runtime, mare_process_info *rows, size_t room);

// What a row says of a wait, after "waits": " to send to channel 3 (jobs)". `rows` has the names of
// processes. Fills `text` and returns it.
enum { MARE__WAIT_TEXT = 256 };
const char *mare__wait_text(const mare_process_info *row, const mare_process_info *rows,
                            size_t count, char text[MARE__WAIT_TEXT]);

// ---- Where channels were made -------------------------------------------------------------------
// A place in a program; all channels made there share it.
struct mare__site {
    struct mare__site *next;
    char text[];
};

// The line that called the function in L, beyond modules of ours. NULL: it is not known. Any
// worker.
const struct mare__site *mare__site_of(mare_runtime *runtime, lua_State *L);
void mare__sites_free(mare_runtime *runtime);
