/* SPDX-License-Identifier: MIT */

/* Virtual synchrony without timers: what is lost is not said again, and all behind it waits. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void never(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us)
{
    (void)fx, (void)timer, (void)delay_us;
}

#define BROKEN_VIEWS mare_broken_views_silent
#define mare__set_timer never
#include "tests/sim/broken_views.h"
