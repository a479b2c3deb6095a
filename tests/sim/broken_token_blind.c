/* SPDX-License-Identifier: MIT */

/* The token ring with a member that makes a new token without waiting for the others' reports:
 * whoever is inside is overlooked, and there can be two tokens. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline int without_waiting(mare__set set, mare__set a, mare__set b, uint32_t capacity)
{
    (void)set, (void)a, (void)b, (void)capacity;
    return 1;
}

#define mare_coord_token mare_broken_token_blind
#define mare__set_covered without_waiting
#include "coord/mutex/token.c"
