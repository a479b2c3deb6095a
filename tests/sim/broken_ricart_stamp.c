/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala with a clock that is read before it ticks: a message says the time of the
 * event before its sending. */

#include "tests/sim/broken.h"

static inline uint64_t tick_after(uint64_t *clock)
{
    return (*clock)++;
}

#define mare_coord_ricart mare_broken_ricart_stamp
#define mare__ricart_forget mare_broken_ricart_stamp_forget
#define mare__ricart_follow mare_broken_ricart_stamp_follow
#define mare_coord_lamport_tick tick_after
#include "coord/mutex/ricart.c"
