/* SPDX-License-Identifier: MIT */

/* Berkeley with clocks that are put right at once, also backwards. */

#define mare_berkeley_clock mare_broken_berkeley_step_clock
#include "tests/sim/broken.h"

#include <mare/coord_time.h>

static inline void step_clock(mare_time_clock *clock, int64_t local_ns, int64_t by_ns,
                              uint64_t error_ns)
{
    int64_t time_ns = mare_time_clock_target(clock, local_ns).time_ns + by_ns;
    mare_time_clock_init(clock, clock->drift_ppb, clock->slew_ppb);
    mare_time_clock_set(clock, local_ns, time_ns, error_ns);
}

#define mare_coord_berkeley mare_broken_berkeley_step
#define mare_time_clock_move step_clock
#include "coord/time/berkeley.c"
