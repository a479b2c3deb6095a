/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala with a clock that does not take the larger of the two on arrival: requests no
 * longer follow happened-before. */

#include "tests/sim/broken.h"

#include <mare/coord.h>

static inline uint64_t tick_only(uint64_t *clock, uint64_t stamp)
{
    (void)stamp;
    return ++*clock;
}

#define mare_coord_ricart mare_broken_ricart_clock
#define mare__ricart_forget mare_broken_ricart_clock_forget
#define mare__ricart_follow mare_broken_ricart_clock_follow
#define mare_coord_lamport_receive tick_only
#include "coord/mutex/ricart.c"
