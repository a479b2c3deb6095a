/* SPDX-License-Identifier: MIT */

/* Virtual synchrony in the causal order whose multicasts name the last message only that was
 * delivered before them, and not the last one of each sender. */

#include "tests/sim/broken.h"

#include <mare/coord_clock.h>

static inline int keep_the_last(mare_coord_sparse *clock, const mare_coord_sparse *stamp)
{
    clock->entry[0] = stamp->entry[0];
    clock->count = 1;
    return 0;
}

#define BROKEN_VIEWS mare_broken_views_past
#define mare_coord_sparse_merge keep_the_last
#include "tests/sim/broken_views.h"
