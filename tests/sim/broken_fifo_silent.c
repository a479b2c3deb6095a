/* SPDX-License-Identifier: MIT */

/* FIFO multicast without timers: what is lost is not sent again, and all behind it waits. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void never(mare_coord_effects *fx, uint32_t timer, uint64_t delay_us)
{
    (void)fx, (void)timer, (void)delay_us;
}

#define mare__fifo mare_broken_fifo_silent
#define mare__set_timer never
#include "coord/order/fifo.c"
