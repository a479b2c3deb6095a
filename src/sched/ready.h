// SPDX-License-Identifier: MIT
// The lines of the ready, as the workers use them; ready.c says how they work together. What makes
// a process ready is in worker.h.
#pragma once

#include "sched/sched.h"

static inline unsigned mare__line_length(const struct mare__line *line)
{
    // Relaxed: a hint; who acts on it takes the lock.
    return atomic_load_explicit(&line->length, memory_order_relaxed);
}

// By a thief, or by the owner when thieves may be about.
struct mare__local *mare__ready_take_shared_slot(struct mare__worker *worker);

// By the owner, without a lock. Only the tick, on this same thread, lets others touch the slot, and
// it does not while `taking` is set; so as long as it has not, the slot is the owner's alone.
static inline struct mare__local *mare__ready_take_slot(struct mare__worker *worker)
{
    if (!atomic_load_explicit(&worker->slot, memory_order_relaxed))
        return NULL;
    worker->taking = 1;
    atomic_signal_fence(memory_order_seq_cst);
    struct mare__local *process;
    // Acquire: pairs with the release in mare__ready_take_shared_slot.
    if (atomic_load_explicit(&worker->slot_shared, memory_order_acquire)) {
        process = mare__ready_take_shared_slot(worker);
    } else {
        process = atomic_load_explicit(&worker->slot, memory_order_relaxed);
        atomic_store_explicit(&worker->slot, NULL, memory_order_relaxed);
    }
    atomic_signal_fence(memory_order_seq_cst);
    worker->taking = 0;
    return process;
}

// The first of the worker's own queue. And what came from outside goes to its end.
struct mare__local *mare__ready_take_queue(struct mare__worker *worker);
void mare__ready_fetch_inbox(struct mare__worker *worker);

// The oldest that has waited, of those that this worker looks after.
static inline struct mare__local *mare__ready_find(struct mare__worker *worker)
{
    if (mare__line_length(&worker->runtime->inbox) > 0)
        mare__ready_fetch_inbox(worker);
    struct mare__local *process = mare__ready_take_slot(worker);
    return process                                 ? process
           : mare__line_length(&worker->queue) > 0 ? mare__ready_take_queue(worker)
                                                   : NULL;
}

// Begins a turn of the common lines: the first of the one whose turn it is, or NULL.
struct mare__local *mare__ready_take_common(struct mare__worker *worker);

// One of those that another worker looks after; more of them come along.
struct mare__local *mare__ready_steal(struct mare__worker *thief);

// The process has given up the worker, and goes on later: it gave way, or its time was over.
void mare__ready_again(struct mare__worker *worker, struct mare__local *process);

// Whether somebody stands in the lines of this worker; in the common ones; in any (of other
// workers only what can be stolen).
static inline bool mare__ready_here(const struct mare__worker *worker)
{
    return mare__line_length(&worker->queue) > 0 ||
           mare__line_length(&worker->runtime->inbox) > 0 ||
           atomic_load_explicit(&worker->slot, memory_order_relaxed) != NULL;
}

static inline bool mare__ready_common(const mare_runtime *runtime)
{
    return mare__line_length(&runtime->common.spent) > 0 ||
           mare__line_length(&runtime->common.fresh) > 0 ||
           mare__line_length(&runtime->common.few) > 0;
}

bool mare__ready_anywhere(mare_runtime *runtime);

// Whether the turn that runs, or has just ended, is one of the common lines.
static inline bool mare__ready_common_turn(const struct mare__worker *worker)
{
    return worker->common_turn ==
           atomic_load_explicit(&worker->counters.switches, memory_order_relaxed);
}

// Wakes an idle worker, if there is one.
void mare__ready_wake_one(mare_runtime *runtime);
