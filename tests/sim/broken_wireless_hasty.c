/* SPDX-License-Identifier: MIT */

/* The wireless election that forgets how long an election took: where messages are slow, those for
 * whom one has ended cut off the next, and so on. */

#include "tests/sim/broken.h"

#include "coord/election/patience.h"

static inline void forget(mare__patience *p, uint64_t now_us)
{
    (void)now_us;
    p->learnt_us = p->begun_us = 0;
}

#define mare_coord_wireless mare_broken_wireless_hasty
#define mare__patience_rewarded forget
#include "coord/election/wireless.c"
