/* SPDX-License-Identifier: MIT */

/* Virtual synchrony that does not pass on what some have and others lack when a view ends:
 * everybody is content with what it has. */

#include "tests/sim/broken.h"

#include "coord/order/casts.h"

static inline int has_enough(const mare__casts *casts, const uint64_t *cut, uint32_t capacity)
{
    (void)casts;
    (void)cut;
    (void)capacity;
    return 1;
}

#define BROKEN_VIEWS mare_broken_views
#define mare__casts_reach has_enough
#include "tests/sim/broken_views.h"
