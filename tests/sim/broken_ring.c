/* SPDX-License-Identifier: MIT */

/* The ring without timers: a hop that is lost is not repeated, a list that is lost with its holder
 * is not replaced. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void never(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us)
{
    (void)fx, (void)timer, (void)delay_us;
}

#define mare_coord_ring mare_broken_ring
#define mare__set_timer never
#include "coord/election/ring.c"
