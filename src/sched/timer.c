// SPDX-License-Identifier: MIT
// Deadlines. One heap for the runtime: workers look at it when their tick has come or when they
// have nothing to do, and an idle worker sleeps no longer than to the earliest deadline. To start a
// timer wakes nobody: a worker that starts one will look itself, and another thread calls
// mare__workers_look afterwards.
#include "sched/timer.h"

static void publish_next(mare_runtime *runtime)
{
    struct mare__heap_entry *first = mare__heap_min(&runtime->timers);
    // Relaxed: a hint for mare__timer_expire, which looks again under the lock.
    atomic_store_explicit(&runtime->next_deadline, first ? first->key : MARE_FOREVER,
                          memory_order_relaxed);
}

void mare__timer_start(mare_runtime *runtime, struct mare__wait *wait, uint64_t deadline)
{
    mare__heap_insert(&runtime->timers, &wait->timer, deadline);
    atomic_fetch_add(&runtime->timer_count, 1);
    publish_next(runtime);
}

void mare__timer_stop(mare_runtime *runtime, struct mare__wait *wait)
{
    mare__lock_acquire(&runtime->timer_lock);
    if (mare__heap_holds(&wait->timer)) {
        mare__heap_remove(&runtime->timers, &wait->timer);
        atomic_fetch_sub(&runtime->timer_count, 1);
        publish_next(runtime);
    }
    mare__lock_release(&runtime->timer_lock);
}

void mare__timer_expire(mare_runtime *runtime, uint64_t now)
{
    mare_err result = now == MARE_FOREVER ? MARE_STOPPED : MARE_TIMEOUT;
    if (atomic_load_explicit(&runtime->next_deadline, memory_order_relaxed) > now)
        return;
    for (;;) {
        mare__lock_acquire(&runtime->timer_lock);
        struct mare__heap_entry *first = mare__heap_min(&runtime->timers);
        if (!first || first->key > now) {
            mare__lock_release(&runtime->timer_lock);
            return;
        }
        struct mare__wait *wait = MARE__ENTRY(first, struct mare__wait, timer);
        mare__heap_remove(&runtime->timers, first);
        atomic_fetch_sub(&runtime->timer_count, 1);
        publish_next(runtime);
        // Claimed under the lock, so that its owner, who stops the timer first, cannot have begun
        // another wait.
        bool claimed = mare__wait_claim(wait);
        mare__lock_release(&runtime->timer_lock);
        if (claimed) {
            wait->result = result;
            wait->wake(wait);
        }
    }
}
