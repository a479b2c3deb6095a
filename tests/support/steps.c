// SPDX-License-Identifier: MIT
// Called by the compiler's instrumentation (-fsanitize-coverage=trace-pc) and, by way of the
// linker, for copies. This file itself is compiled without.
#include "steps.h"

#include <stdatomic.h>
#include <stddef.h>

enum { LINE = 64 };

static atomic_ulong steps;

unsigned long steps_made(void)
{
    return atomic_load(&steps);
}

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed); // a count
}

void *__real_memcpy(void *to, const void *from, size_t size);
void *__real_memmove(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memmove(void *to, const void *from, size_t size);

void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    atomic_fetch_add_explicit(&steps, size / LINE, memory_order_relaxed);
    return __real_memcpy(to, from, size);
}

void *__wrap_memmove(void *to, const void *from, size_t size)
{
    atomic_fetch_add_explicit(&steps, size / LINE, memory_order_relaxed);
    return __real_memmove(to, from, size);
}
