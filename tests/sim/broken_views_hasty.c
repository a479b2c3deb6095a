/* SPDX-License-Identifier: MIT */

/* Virtual synchrony that delivers what is next of its sender at once: in the causal order, what
 * depends on something unseen; in the total order, what may have to follow something earlier. */

#include "tests/sim/broken.h"

#include "coord/order/casts.h"

static inline int always_past(uint64_t heard, uint64_t need)
{
    (void)heard;
    (void)need;
    return 1;
}

#define BROKEN_VIEWS mare_broken_views_hasty
#define mare__casts_past always_past
#include "tests/sim/broken_views.h"
