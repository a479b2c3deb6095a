/* SPDX-License-Identifier: MIT */

/* The ring with timers that wait for nothing: a hop is repeated without end, before the answer to
 * it can come. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void at_once(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us)
{
    (void)delay_us;
    mare__set_timer(fx, timer, 0);
}

#define mare_coord_ring mare_broken_ring_runaway
#define mare__set_timer at_once
#include "coord/election/ring.c"
