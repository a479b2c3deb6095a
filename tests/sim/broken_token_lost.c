/* SPDX-License-Identifier: MIT */

/* The token ring in which nobody notices a death: a token that was with the dead, or is sent there,
 * is lost for good. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline int all_live_for_ever(const mare_coord *m, uint32_t member)
{
    return mare__set_has(m->members, member);
}

#define mare_coord_token mare_broken_token_lost
#define mare__alive all_live_for_ever
#include "coord/mutex/token.c"
