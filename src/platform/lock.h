// SPDX-License-Identifier: MIT
// A lock for critical sections of a few dozen instructions that never call out. One atomic exchange
// to take, one store to give back: half of a mutex, which matters where a message costs a hundred
// nanoseconds.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

typedef struct mare__lock {
    atomic_uint held;
} mare__lock;

// The slow path: spins a little, then lets other threads run between attempts.
void mare__lock_contended(mare__lock *lock);

static inline bool mare__lock_try(mare__lock *lock)
{
    // Acquire: pairs with the release in mare__lock_release, so that what the last holder wrote is
    // seen.
    return atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) == 0;
}

static inline void mare__lock_acquire(mare__lock *lock)
{
    if (!mare__lock_try(lock))
        mare__lock_contended(lock);
}

static inline void mare__lock_release(mare__lock *lock)
{
    // Release: pairs with the acquire in mare__lock_try.
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}
