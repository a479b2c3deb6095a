/* SPDX-License-Identifier: MIT */

/* Superpeers by tokens that do not listen to the detector: a token that dies with its holder is not
 * given on. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline int never_down(const mare_coord *m, uint32_t member)
{
    return mare__set_has(m->members, member);
}

#define mare_coord_superpeer_tokens mare_broken_superpeer_tokens
#define mare__superpeer_places mare_broken_superpeer_places
#define mare__alive never_down
#include "coord/election/superpeer_tokens.c"
