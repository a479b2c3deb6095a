/* SPDX-License-Identifier: MIT */

/* Virtual synchrony in which each leaves out of the agreed list whom it has heard to be down, so
 * that one view has several lists. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

#include <string.h>

static inline void view_of_the_living(mare_coord *m, mare_coord_effects *fx, uint64_t number,
                                      uint8_t *data, uint32_t length)
{
    uint32_t kept = 0, each;
    for (uint32_t at = 0; at < length; at += 4) {
        memcpy(&each, data + at, 4);
        if (each != m->setup.self && !mare__alive(m, each))
            continue;
        memcpy(data + kept, &each, 4);
        kept += 4;
    }
    mare__view(fx, number, data, kept);
}

#define BROKEN_VIEWS mare_broken_views_list
#define mare__view(fx, number, data, length) view_of_the_living(m, fx, number, data, length)
#include "tests/sim/broken_views.h"
