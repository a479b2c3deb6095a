// SPDX-License-Identifier: MIT
// Workers: what makes a process ready and gives it a thread to run on (worker.c), and how many
// threads there are (crew.c).
#pragma once

#include "sched/sched.h"

// ---- worker.c -----------------------------------------------------------------------------------
// What the runner of a worker does, all of it or a piece at a time; and the one of a process that
// has a worker for itself. See struct mare__runner.
//
// A piece is a step of the worker: if a tick has come it expires timers and looks at what it
// watches, and then it gives one process that is ready a turn. When it finds none it rests.
void mare__worker_serve(void *worker);
enum mare__progress mare__worker_advance(void *worker, uint64_t *until_ns);
void mare__own_serve(void *own);
enum mare__progress mare__own_advance(void *own, uint64_t *until_ns);

// Sets the period of its tick; 0 stops it. By the worker itself.
void mare__worker_tick(struct mare__worker *worker, uint64_t period_ns);

// Makes a process ready that has waited, or that is new; it will run. Any thread.
void mare__ready(struct mare__local *process);
void mare__ready_new(struct mare__local *process);

// Something was added that any worker may do: one that sleeps is woken.
void mare__workers_wake(mare_runtime *runtime);

// A timer was started, perhaps by a thread that will not look at it: a worker does.
void mare__workers_look(mare_runtime *runtime);

// Whether every worker sleeps, no timer is pending, nothing is watched and nothing is ready.
bool mare__workers_stuck(mare_runtime *runtime);

// ---- preempt.c ----------------------------------------------------------------------------------
// In a hook: yields, if that is possible here.
void mare__give_way(lua_State *L);

// Leaves a coroutine of a process, which may be at rest, with no hook, or with what counts its
// instructions if the platform wants that.
void mare__hook_rest(const struct mare__local *process, lua_State *L);

// ---- crew.c -------------------------------------------------------------------------------------
// A block of zeros of a kind's size, or NULL; and its return. Any thread; workers keep some.
void *mare__spare_take(enum mare__spares kind, size_t size);
void mare__spare_give(enum mare__spares kind, void *block);

// Starts or ends workers until there are `count`.
mare_err mare__workers_set(mare_runtime *runtime, unsigned count);

// Ends them all and waits for that.
void mare__workers_stop(mare_runtime *runtime);

// Gives a new process a worker of its own, which runs it and nothing else, so that it may block in
// C functions for as long as it likes. False: no memory, or no thread.
bool mare__worker_own(struct mare__local *process);

// The last thing that its runner does: frees it.
void mare__own_leave(struct mare__worker *own);

// Gives a worker something to wait in, if it has nothing yet; returns what it has. Any thread.
struct mare__lookout *mare__worker_give_lookout(struct mare__worker *worker,
                                                struct mare__lookout *lookout);
