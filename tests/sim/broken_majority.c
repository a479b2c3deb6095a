/* SPDX-License-Identifier: MIT */

/* The majority variant without a second look: one that has yielded a vote goes on counting it. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void count_on(mare__set set, uint32_t member)
{
    (void)set, (void)member;
}

#define mare_coord_majority mare_broken_majority
#define mare__set_remove count_on
#include "coord/mutex/majority.c"
