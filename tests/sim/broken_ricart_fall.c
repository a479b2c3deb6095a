/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala with a clock that takes over the time of every message, also of those that
 * are behind it. */

#include "tests/sim/broken.h"

static inline uint64_t take_over(uint64_t *clock, uint64_t stamp)
{
    return *clock = stamp + 1;
}

#define mare_coord_ricart mare_broken_ricart_fall
#define mare__ricart_forget mare_broken_ricart_fall_forget
#define mare__ricart_follow mare_broken_ricart_fall_follow
#define mare_coord_lamport_receive take_over
#include "coord/mutex/ricart.c"
