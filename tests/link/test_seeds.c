// SPDX-License-Identifier: MIT
// Two and three nodes under faults, a run for each seed.
//
//   SWEEP_SEEDS=100000 SWEEP_FROM=1 build/tests/link/test_link_seeds      as tools/sweep.sh does
//   LINK_TRACE=1 SWEEP_FROM=77 SWEEP_SEEDS=1 ...                          tells what happens
#include <inttypes.h>
#include <stdlib.h>

#include "support/unit.h"
#include "tests/link/world.h"

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void links_keep_their_promises_under_faults(void **state)
{
    (void)state;
    uint64_t from = setting("SWEEP_FROM", 1), seeds = setting("SWEEP_SEEDS", 1000 / unit_slow());
    struct world_outcome sum = {0}, outcome;
    for (uint64_t seed = from; seed < from + seeds; seed++) {
        struct world_options options;
        world_options_init(&options, seed);
        options.trace = getenv("LINK_TRACE") ? stdout : NULL;
        if (!world_run(&options, &outcome))
            fail_msg("%s: %s; again with: SWEEP_FROM=%" PRIu64 " SWEEP_SEEDS=1 LINK_TRACE=1 %s",
                     outcome.violation, outcome.detail, seed, "build/tests/link/test_link_seeds");
        sum.accepted += outcome.accepted;
        sum.delivered += outcome.delivered;
        sum.resumed += outcome.resumed;
        sum.lost += outcome.lost;
        sum.steps += outcome.steps;
    }
    print_message("# %" PRIu64 " messages accepted, %" PRIu64 " delivered; %" PRIu64
                  " resumptions, %" PRIu64 " links lost; %" PRIu64 " steps\n",
                  sum.accepted, sum.delivered, sum.resumed, sum.lost, sum.steps);
}

UNIT_TESTS(cmocka_unit_test(links_keep_their_promises_under_faults))
