/* SPDX-License-Identifier: MIT */

/* The bully with epochs that are only counted and do not name their leader: two that win at the
 * same time, each unheard by the other, lead in one epoch. */

#include "tests/sim/broken.h"

#include "coord/election/epoch.h"

static inline uint64_t count_only(uint64_t count, uint32_t leader, uint32_t capacity)
{
    (void)leader;
    return count * capacity;
}

static inline int names_anybody(uint64_t epoch, uint32_t leader, uint32_t capacity)
{
    (void)epoch, (void)leader, (void)capacity;
    return 1;
}

#define mare_coord_bully mare_broken_bully_epoch
#define mare__epoch_make count_only
#define mare__epoch_names names_anybody
#include "coord/election/bully.c"
