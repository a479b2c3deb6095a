// SPDX-License-Identifier: MIT
// Memory for everything but Lua objects. All of it can be made to fail by countdown, for tests.
#pragma once

#include <stdbool.h>
#include <stddef.h>

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

// Whether an allocation made now must fail. Process heaps ask too, so that Lua's allocations take
// part.
int mare__alloc_must_fail(void);
