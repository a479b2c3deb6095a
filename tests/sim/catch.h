/* SPDX-License-Identifier: MIT */
#pragma once

/* How tests see that a checker can fail: a broken algorithm is run until it is caught. */

#include "support/unit.h"

#include "sim/sim.h"

#include <string.h>

/* Runs seeds until one is caught breaking `promise`; shrinks it; returns the faults that are left,
 * or UINT32_MAX when none is caught. */
static inline uint32_t catch_and_shrink(const mare_coord_algorithm *algorithm, const char *promise)
{
    for (uint64_t seed = 1; seed <= 500; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        uint32_t faults = UINT32_MAX;
        mare_sim_options_init(&options, algorithm, 3 + (uint32_t)(seed % 4));
        options.seed = seed;
        mare_sim_vary(&options);
        if (!mare_sim_run(&options, NULL, &out) && strcmp(out.violation, promise) == 0) {
            mare_sim_shrink(&options, promise, 1000);
            mare_sim_run(&options, NULL, &out);
            assert_string_equal(out.violation, promise);
            faults = options.faults.count;
            print_message("# %s: %s by %u faults, seed %u\n", algorithm->name, promise,
                          (unsigned)faults, (unsigned)seed);
        }
        mare_sim_options_fini(&options);
        if (faults != UINT32_MAX)
            return faults;
    }
    return UINT32_MAX;
}
