/* SPDX-License-Identifier: MIT */

/* Virtual synchrony that keeps every other view to itself: an application goes from the first to
 * the third, and is never told of the second, in which it was. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void odd_view(mare_coord *m, mare_coord_effects *fx, uint64_t number,
                            const uint8_t *data, uint32_t length)
{
    if (number % 2 || m->setup.self == 0)
        mare__view(fx, number, data, length);
}

#define BROKEN_VIEWS mare_broken_views_miss
#define mare__view(fx, number, data, length) odd_view(m, fx, number, data, length)
#include "tests/sim/broken_views.h"
