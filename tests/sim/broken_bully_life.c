/* SPDX-License-Identifier: MIT */

/* The bully whose epochs do not tell a leader from what it was before it lost its memory: it leads
 * again in an epoch that it has forgotten. */

#include "tests/sim/broken.h"

#include "coord/election/epoch.h"

static inline uint64_t any_life(uint64_t from, uint64_t life)
{
    (void)life;
    return from;
}

#define mare_coord_bully mare_broken_bully_life
#define mare__epoch_count any_life
#include "coord/election/bully.c"
