/* SPDX-License-Identifier: MIT */

/* Causally ordered multicast without its second condition: the next of its sender is delivered even
 * when it depends on what has not been seen (ts[k] > VC[k] for some k ≠ i). */

#include "tests/sim/broken.h"

static inline int next_of_sender(const uint64_t *clock, const uint64_t *stamp, uint32_t count,
                                 uint32_t from)
{
    (void)count;
    return stamp[from] == clock[from] + 1;
}

#define mare_coord_causal mare_broken_causal
#define mare_coord_vector_deliverable next_of_sender
#include "coord/order/causal.c"
