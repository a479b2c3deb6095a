/* SPDX-License-Identifier: MIT */

/* Causally ordered multicast whose clock moves when a message comes, not when it is delivered: it
 * counts what is still held back. */

#include "tests/sim/broken.h"

#include <string.h>

static inline int merged_early(uint64_t *clock, const uint64_t *stamp, uint32_t count,
                               uint32_t from)
{
    int next = mare_coord_vector_deliverable(clock, stamp, count, from);
    uint64_t own = clock[from];
    if (!next) {
        mare_coord_vector_merge(clock, stamp, count);
        clock[from] = own;
    }
    return next;
}

#define mare_coord_causal mare_broken_causal_clock
#define mare_coord_vector_deliverable merged_early
#include "coord/order/causal.c"
