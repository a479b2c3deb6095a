// SPDX-License-Identifier: MIT
// A spinlock, for critical sections of a few dozen instructions that never call out: see
// mare__takes_long. One atomic exchange to take, one store to give back: half of a mutex, which
// matters where a message costs a hundred nanoseconds.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/alloc.h"

typedef struct mare__lock {
    atomic_uint held;
} mare__lock;

// The slow path: spins for a while, then yields to other threads between attempts.
void mare__lock_contended(mare__lock *lock);

static inline bool mare__lock_try(mare__lock *lock)
{
    // Acquire: pairs with the release in mare__lock_release, so that what the last holder wrote is
    // seen.
    bool mine = atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
    if (MARE__COUNT_LOCKS)
        mare__locks_held += mine;
    return mine;
}

static inline void mare__lock_acquire(mare__lock *lock)
{
    if (!mare__lock_try(lock))
        mare__lock_contended(lock);
}

static inline void mare__lock_release(mare__lock *lock)
{
    if (MARE__COUNT_LOCKS)
        mare__locks_held--;
    // Release: pairs with the acquire in mare__lock_try.
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

// Around what a signal handler does. It takes no spinlock, but it may wake a thread, and the thread
// that it interrupts may hold a spinlock.
static inline unsigned mare__begin_handler(void)
{
    unsigned held = mare__locks_held;
    mare__locks_held = 0;
    return held;
}

static inline void mare__end_handler(unsigned held)
{
    mare__locks_held = held;
}
