/* SPDX-License-Identifier: MIT */

/* The central algorithm with a coordinator that takes over without asking the others where they
 * stand: whoever is inside is overlooked. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

/* In the new coordinator's eyes everybody else is down, so there is nobody to wait for. */
static inline int nobody_else(const mare_coord *m, uint32_t member)
{
    (void)m;
    (void)member;
    return 0;
}

#define mare_coord_central mare_broken_central
#define mare__central_forget mare_broken_central_forget
#define mare__central_follow mare_broken_central_follow
#define mare__alive nobody_else
#include "coord/mutex/central.c"
