/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala by rank: of two that compete the lower number goes first, whenever it asked.
 * There is still one at a time, but grants no longer follow the order of requests. */

#include "tests/sim/broken.h"

static inline int by_rank(mare_coord_stamp a, mare_coord_stamp b)
{
    return a.process < b.process;
}

#define mare_coord_ricart mare_broken_ricart_order
#define mare__ricart_forget mare_broken_ricart_order_forget
#define mare__ricart_follow mare_broken_ricart_order_follow
#define mare_coord_stamp_before by_rank
#include "coord/mutex/ricart.c"
