/* SPDX-License-Identifier: MIT */

/* Virtual synchrony that does not tell its views apart: all have the same number. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void the_view(mare_coord_effects *fx, uint64_t number, const uint8_t *data,
                            uint32_t length)
{
    (void)number;
    mare__view(fx, 1, data, length);
}

#define BROKEN_VIEWS mare_broken_views_number
#define mare__view the_view
#include "tests/sim/broken_views.h"
