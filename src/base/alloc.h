// SPDX-License-Identifier: MIT
// Memory for everything but Lua objects. Tests can make any allocation fail, by a countdown.
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "mare_limits.h"

// How many spinlocks (platform/lock.h) this thread holds; counted in builds with MARE__COUNT_LOCKS.
extern _Thread_local unsigned mare__locks_held __attribute__((tls_model("initial-exec")));

// Every function that may take long calls this: one that allocates or frees memory, sleeps, wakes
// somebody, or calls the system. A thread that holds a spinlock must do none of that, because those
// that wait for the lock burn processor time.
static inline void mare__takes_long(void)
{
    assert(!MARE__COUNT_LOCKS || mare__locks_held == 0);
}

// As malloc, calloc, realloc and free.
void *mare__alloc(size_t size);
void *mare__alloc_zero(size_t size);
void *mare__realloc(void *block, size_t size);
void mare__free(void *block);

// The n-th allocation from now fails, and every later one; 0 ends it. Affects every thread; for
// tests only.
void mare__alloc_fail_after(long n);

// The n-th allocation from now fails, and no other.
void mare__alloc_fail_once(long n);

// Whether either countdown has come to its end.
bool mare__alloc_has_failed(void);

// Whether an allocation made now must fail (for tests). Heaps of processes ask too, so that Lua's
// allocations fail as well.
int mare__alloc_must_fail(void);
