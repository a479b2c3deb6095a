// SPDX-License-Identifier: MIT
// The countdown is the one mutable global beside the runtime handle: it exists so that tests can
// make the n-th allocation fail for every n. While no test runs it is zero and costs one relaxed
// load.
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long countdown;

_Thread_local unsigned mare__locks_held;

void mare__alloc_fail_after(long n)
{
    atomic_store(&countdown, n);
}

void mare__alloc_fail_once(long n)
{
    atomic_store(&countdown, -n);
}

bool mare__alloc_has_failed(void)
{
    long n = atomic_load(&countdown);
    return n == 0 || n == 1;
}

int mare__alloc_must_fail(void)
{
    // Relaxed: the value is a test's own, set before the threads it concerns do anything.
    long n = atomic_load_explicit(&countdown, memory_order_relaxed);
    while (n > 1)
        if (atomic_compare_exchange_weak(&countdown, &n, n - 1))
            return 0;
    while (n < 0) // only one: it counts upwards, and ends at zero
        if (atomic_compare_exchange_weak(&countdown, &n, n + 1))
            return n == -1;
    return n == 1;
}

// Not inlined, or the compiler would make a calloc of mare__alloc_zero.
__attribute__((noinline)) void *mare__alloc(size_t size)
{
    mare__takes_long();
    return mare__alloc_must_fail() ? NULL : malloc(size);
}

void *mare__alloc_zero(size_t size)
{
    void *block = mare__alloc(size); // not calloc, which does not use the C library's caches
    return block ? memset(block, 0, size) : NULL;
}

void *mare__realloc(void *block, size_t size)
{
    mare__takes_long();
    return mare__alloc_must_fail() ? NULL : realloc(block, size);
}

void mare__free(void *block)
{
    mare__takes_long();
    free(block);
}
