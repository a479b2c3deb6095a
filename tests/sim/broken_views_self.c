/* SPDX-License-Identifier: MIT */

/* Virtual synchrony with lists that lack their last member: it installs a view without itself. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void view_of_others(mare_coord_effects *fx, uint64_t number, const uint8_t *data,
                                  uint32_t length)
{
    mare__view(fx, number, data, length - 4);
}

#define BROKEN_VIEWS mare_broken_views_self
#define mare__view view_of_others
#include "tests/sim/broken_views.h"
