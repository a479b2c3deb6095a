/* SPDX-License-Identifier: MIT */

/* Ricart and Agrawala, broken on purpose: the same source, with one rule of it replaced. The
 * checkers must catch each; that is how we know that they can fail. */

#include "tests/sim/broken.h"

#include <mare/coord.h>

/* No tie-break: equal times count as the other's turn on both sides. */
static inline int no_tie_break(mare_coord_stamp a, mare_coord_stamp b)
{
    return a.time < b.time;
}

#define mare_coord_ricart mare_broken_ricart_tie
#define mare__ricart_forget mare_broken_ricart_tie_forget
#define mare__ricart_follow mare_broken_ricart_tie_follow
#define mare_coord_stamp_before no_tie_break
#include "coord/mutex/ricart.c"
