/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala with a clock that ticks, and messages that do not say so: they carry 0, which
 * is before everything. */

#include "tests/sim/broken.h"

static inline uint64_t tick_unsaid(uint64_t *clock)
{
    ++*clock;
    return 0;
}

#define mare_coord_ricart mare_broken_ricart_zero
#define mare__ricart_forget mare_broken_ricart_zero_forget
#define mare__ricart_follow mare_broken_ricart_zero_follow
#define mare_coord_lamport_tick tick_unsaid
#include "coord/mutex/ricart.c"
