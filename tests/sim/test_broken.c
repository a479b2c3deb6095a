/* SPDX-License-Identifier: MIT */

/* What is broken is caught: for everything that a run can be reported for there is an algorithm
 * that breaks just that, one rule of its source being replaced; some seed finds it, and the
 * schedule that does it shrinks to a handful of faults. That is how we know that the checkers can
 * fail. */

#include "support/unit.h"
#include "tests/sim/broken.h"

#include "sim/check.h"
#include "sim/sim.h"

#include <string.h>

#define SEEDS 1000
#define BUDGET 200000 /* steps, or bytes: more than a ring needs that is not broken */

typedef struct variant {
    const mare_coord_algorithm *algorithm;
    const char *promise;
    const char *detail; /* part of what is said about it: which of the checks it was */
    uint32_t handful;   /* faults that are left, at most */
} variant;

static const variant variants[] = {
    {&mare_broken_ricart_tie, "EM1", "is granted while", 1},
    {&mare_broken_central, "EM1", "is granted while", 5},
    {&mare_broken_token_blind, "EM1", "is granted while", 4},
    {&mare_broken_majority, "EM1", "is granted while", 1},
    {&mare_broken_token_lost, "EM2", "is not served", 2},
    {&mare_broken_voting, "EM2", "is not served", 1},
    {&mare_broken_voting_rank, "EM2", "is not served", 1},
    {&mare_broken_ricart_order, "EM3", "asked before it", 1},
    {&mare_broken_ricart_fence, "FENCING", "is granted", 1},
    {&mare_broken_ricart_clock, "CLOCK", "and arrived at", 1},
    {&mare_broken_ricart_stamp, "CLOCK", "says", 1},
    {&mare_broken_ricart_zero, "CLOCK", "says 0", 0},
    {&mare_broken_ricart_fall, "CLOCK", "fell", 1},
    {&mare_broken_ricart_restart, "CLOCK", "fell", 1},
    {&mare_broken_causal_clock, "CLOCK", "the vector of", 1},
    {&mare_broken_bully_epoch, "ONE-LEADER", "leads in epoch", 2},
    {&mare_broken_wireless, "ONE-LEADER", "leads in epoch", 2},
    {&mare_broken_bully_life, "ONE-LEADER", "lost its memory", 1},
    {&mare_broken_ring_life, "ONE-LEADER", "lost its memory", 3},
    {&mare_broken_wireless_life, "ONE-LEADER", "lost its memory", 3},
    {&mare_broken_bully_count, "EPOCH", "was told of epoch", 1},
    {&mare_broken_fifo_short, "INVENTION", "nobody multicast", 0},
    {&mare_broken_fifo_twice, "DUPLICATE", "delivered before", 1},
    {&mare_broken_fifo, "FIFO", "after number", 1},
    {&mare_broken_causal, "CAUSAL", "which follows", 1},
    {&mare_broken_views_hasty, "CAUSAL", "which follows", 1},
    {&mare_broken_views_past, "CAUSAL", "which follows", 1},
    {&mare_broken_total, "TOTAL", "elsewhere", 1},
    {&mare_broken_views_hasty, "TOTAL", "elsewhere", 1},
    {&mare_broken_views_lone, "TOTAL", "which was delivered in it", 3},
    {&mare_broken_views, "TOTAL", "ended elsewhere without it", 5},
    {&mare_broken_views_self, "VIEW", "without itself", 0},
    {&mare_broken_views_number, "VIEW", "goes from view", 1},
    {&mare_broken_views_miss, "VIEW", "goes from view", 1},
    {&mare_broken_views_list, "VIEW", "is not the same for", 3},
    {&mare_broken_views, "ATOMIC", "different deliveries", 5},
    {&mare_broken_views_early, "ATOMIC", "but it was multicast in view", 3},
    {&mare_broken_bully_silent, "AGREEMENT", "leader", 3},
    {&mare_broken_ring, "AGREEMENT", "leader", 3},
    {&mare_broken_wireless_hasty, "AGREEMENT", "leader", 3},
    {&mare_broken_superpeer_dht, "AGREEMENT", "superpeer", 1},
    {&mare_broken_superpeer_tokens, "AGREEMENT", "superpeer", 1},
    {&mare_broken_views_shy, "AGREEMENT", "delivers nothing", 1},
    {&mare_broken_berkeley_bound, "BOUND", "where they say at most", 3},
    {&mare_broken_berkeley_step, "BACKWARDS", "went back by", 3},
    {&mare_broken_ricart_room, "ROOM", "more effects", 0},
    {&mare_broken_ring_runaway, "BUDGET", "steps by", 0},
    {&mare_broken_ring_runaway, "BUDGET", "messages are under way", 0},
};

enum { VARIANTS = sizeof variants / sizeof *variants };

/* Of algorithms that have several orders, the one that the variant breaks. */
static int64_t order_of(const variant *v)
{
    return strcmp(v->promise, "TOTAL") == 0 ? 2 : strcmp(v->promise, "CAUSAL") == 0;
}

static void choose(mare_sim_options *options, const variant *v,
                   const mare_coord_algorithm *algorithm, uint64_t seed)
{
    mare_sim_options_init(options, algorithm, 3 + (uint32_t)(seed % 4));
    mare_coord_setup_set(&options->setup, "order", order_of(v));
    options->seed = seed;
    if (strcmp(v->detail, "steps by") == 0)
        options->steps_most = BUDGET;
    if (strcmp(v->detail, "messages are under way") == 0)
        options->bytes_most = BUDGET;
    mare_sim_vary(options);
}

static int is_that(const variant *v, const mare_sim_outcome *out)
{
    return strcmp(out->violation, v->promise) == 0 && strstr(out->detail, v->detail) != NULL;
}

/* Shrinks what the seed found; returns the faults that are left. */
static uint32_t shrink(const variant *v, mare_sim_options *options)
{
    mare_sim_outcome out;
    mare_sim_shrink(options, v->promise, 1000);
    assert_false(mare_sim_run(options, NULL, &out));
    assert_string_equal(out.violation, v->promise);
    return options->faults.count;
}

static void every_variant_is_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        const variant *v = &variants[i];
        uint32_t least = UINT32_MAX;
        uint64_t seed = 0;
        while (least > v->handful && seed < SEEDS) {
            mare_sim_options options;
            mare_sim_outcome out;
            choose(&options, v, v->algorithm, ++seed);
            mare_sim_run(&options, NULL, &out);
            if (is_that(v, &out)) {
                uint32_t left = shrink(v, &options);
                least = left < least ? left : least;
            }
            mare_sim_options_fini(&options);
        }
        if (least > v->handful)
            fail_msg("row %u: no seed makes %s break %s (%s) by %u faults; the best is %d",
                     (unsigned)i, v->algorithm->name, v->promise, v->detail, (unsigned)v->handful,
                     (int)least);
        print_message("# %-16s breaks %-10s with seed %u and %u faults\n", v->algorithm->name,
                      v->promise, (unsigned)seed, (unsigned)least);
    }
}

static void nothing_that_can_be_reported_lacks_a_variant(void **state)
{
    (void)state;
    for (size_t p = 0; mare_sim_promises[p]; p++) {
        size_t found = 0;
        for (size_t i = 0; i < VARIANTS; i++)
            found += strcmp(variants[i].promise, mare_sim_promises[p]) == 0;
        if (!found)
            fail_msg("no variant breaks %s", mare_sim_promises[p]);
    }
    for (size_t i = 0; i < VARIANTS; i++)
        assert_true(mare_sim_is_promise(variants[i].promise));
}

static void no_algorithm_that_promises_something_lacks_a_variant(void **state)
{
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t a = 0; a < count; a++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, table[a], 3);
        size_t found = table[a]->promises(&setup) == 0;
        for (size_t i = 0; i < VARIANTS; i++)
            found += strcmp(variants[i].algorithm->name, table[a]->name) == 0;
        if (!found)
            fail_msg("no variant of %s is broken", table[a]->name);
    }
}

/* The same seeds of what is not broken: the variants differ in one rule only, so it is the rule
 * that is caught, and not the seed. */
static void the_originals_are_not_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < VARIANTS; i++) {
        for (uint64_t seed = 1; seed <= 50; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            choose(&options, &variants[i], mare_coord_find(variants[i].algorithm->name), seed);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s: %s, seed %u", variants[i].algorithm->name, out.violation,
                         (unsigned)seed);
            mare_sim_options_fini(&options);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_caught),
        cmocka_unit_test(nothing_that_can_be_reported_lacks_a_variant),
        cmocka_unit_test(no_algorithm_that_promises_something_lacks_a_variant),
        cmocka_unit_test(the_originals_are_not_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
