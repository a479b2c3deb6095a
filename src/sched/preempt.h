// SPDX-License-Identifier: MIT
// What a worker and its tick (preempt.c) both look at.
#pragma once

#include "sched/ready.h"
#include "sched/task.h"

// The handler of a worker's tick: in a signal handler, on the worker's own thread.
void mare__on_tick(void *worker);

// A process that stays in a C function holds its worker: stuck_in_c.c tells of it. With each tick:
// whether to look if Lua code still runs. Where it does.
bool mare__stuck_watch(struct mare__worker *worker, struct mare__local *process);
void mare__stuck_heard(lua_State *L, struct mare__local *process);

// Processes in its own lines, or tasks.
static inline bool mare__others_wait(const struct mare__worker *worker)
{
    return mare__ready_here(worker) || mare__tasks_wait(worker);
}

// What this worker watches beside the queues, or NULL when there is nothing now.
static inline struct mare__lookout *mare__lookout_in(const struct mare__worker *worker)
{
    struct mare__lookout *lookout = atomic_load_explicit(&worker->lookout, memory_order_acquire);
    return lookout && (atomic_load_explicit(&lookout->busy, memory_order_relaxed) > 0 ||
                       atomic_load(&lookout->called))
               ? lookout
               : NULL;
}
