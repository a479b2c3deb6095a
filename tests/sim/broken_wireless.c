/* SPDX-License-Identifier: MIT */

/* The wireless election with epochs that count elections and do not name the leader: parts of a
 * network that do not reach each other have different leaders of one epoch. */

#include "tests/sim/broken.h"

#include "coord/election/epoch.h"

static inline uint64_t count_only(uint64_t count, uint32_t leader, uint32_t capacity)
{
    (void)leader;
    return count * capacity;
}

#define mare_coord_wireless mare_broken_wireless
#define mare__epoch_make count_only
#include "coord/election/wireless.c"
