/* SPDX-License-Identifier: MIT */

/* The bully with epochs that name their leader and do not count: when one that ranks lower follows,
 * time goes back. */

#include "tests/sim/broken.h"

#include "coord/election/epoch.h"

static inline uint64_t name_only(uint64_t count, uint32_t leader, uint32_t capacity)
{
    (void)count;
    return capacity + leader;
}

#define mare_coord_bully mare_broken_bully_count
#define mare__epoch_make name_only
#include "coord/election/bully.c"
