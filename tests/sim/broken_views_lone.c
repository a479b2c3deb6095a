/* SPDX-License-Identifier: MIT */

/* Virtual synchrony in the total order that does not ask whether the others have a message, only
 * whether something earlier can come: it may die as the only one that delivered it. */

#include "tests/sim/broken.h"

#include "coord/order/casts.h"

static inline int surely_has(uint64_t many, uint64_t seq)
{
    (void)many;
    (void)seq;
    return 1;
}

#define BROKEN_VIEWS mare_broken_views_lone
#define mare__casts_has surely_has
#include "tests/sim/broken_views.h"
