// SPDX-License-Identifier: MIT
// Workers: what makes a process ready and gives it a thread to run on (worker.c), and how many
// threads there are (crew.c).
#pragma once

#include "sched/sched.h"

// ---- worker.c -----------------------------------------------------------------------------------
// What the thread of a worker does, and the one of a process that has one for itself.
void mare__worker_serve(struct mare__worker *worker);
void mare__worker_serve_own(struct mare__worker *own);

// Makes a process ready; it will run. Any thread.
void mare__ready(mare_process *process);

// Something was added that any worker may do: one that sleeps is woken.
void mare__workers_wake(mare_runtime *runtime);

// A timer was started, perhaps by a thread that will not look at it: a worker does.
void mare__workers_look(mare_runtime *runtime);

// Whether every worker sleeps, no timer is pending, nothing is watched and nothing is ready.
bool mare__workers_stuck(mare_runtime *runtime);

// In a count hook: yields, if that is possible here.
void mare__give_way(lua_State *L);
void mare__give_way_hook(lua_State *L, lua_Debug *event);

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
bool mare__worker_own(mare_process *process);

// Gives a worker something to wait in, if it has nothing yet; returns what it has. Any thread.
struct mare__lookout *mare__worker_give_lookout(struct mare__worker *worker,
                                                struct mare__lookout *lookout);
