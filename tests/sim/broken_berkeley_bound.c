/* SPDX-License-Identifier: MIT */

/* Berkeley with a bound that supposes ways of about the same length. */

#define mare_berkeley_clock mare_broken_berkeley_bound_clock
#include "tests/sim/broken.h"

#include "coord/time/fixed.h"

#define mare_coord_berkeley mare_broken_berkeley_bound
#define mare__half_up(trip_ns) ((uint64_t)(trip_ns) / 20)
#include "coord/time/berkeley.c"
