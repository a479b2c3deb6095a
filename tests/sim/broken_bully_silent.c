/* SPDX-License-Identifier: MIT */

/* The bully that takes everybody for told: a COORDINATOR that is lost is not said again, and a
 * member that missed it goes on without a leader, or with another one. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline int all_told(mare__set set, mare__set a, mare__set b, uint32_t capacity)
{
    (void)set, (void)a, (void)b, (void)capacity;
    return 1;
}

#define mare_coord_bully mare_broken_bully_silent
#define mare__set_covered all_told
#include "coord/election/bully.c"
