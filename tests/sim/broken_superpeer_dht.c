/* SPDX-License-Identifier: MIT */

/* Superpeers by prefix that do not listen to the detector: the dead stay responsible, and those in
 * their charge have no superpeer. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline int never_down(const mare_coord *m, uint32_t member)
{
    return mare__set_has(m->members, member);
}

#define mare_coord_superpeer_dht mare_broken_superpeer_dht
#define mare__alive never_down
#include "coord/election/superpeer_dht.c"
