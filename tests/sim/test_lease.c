/* SPDX-License-Identifier: MIT */

/* Suspicion is not death: what a detector that goes by silence does to an algorithm that believes
 * it, and that the lease makes it true. Then the lease composed with each lock, under everything
 * that a seed can draw. */

#include "support/unit.h"

#include "coord/lease/leased.h"
#include "sim/sim.h"

#include <string.h>

enum { SEEDS = 30, HEARTBEAT_US = 200000, FROZEN_US = 1200000 };

/* Process 0 stands still for 1.2 s, mostly inside; the others are told by silence, after 200 ms. */
static void freeze_one(mare_sim_options *options, const char *name, uint64_t seed)
{
    mare_sim_options_init(options, mare_sim_find(name), 3);
    mare_sim_fault pause = {.kind = MARE_SIM_PAUSE, .at_us = 1000000, .for_us = FROZEN_US};
    options->seed = seed;
    options->detector = MARE_SIM_HASTY;
    options->detect_us = HEARTBEAT_US;
    options->duration_us = 4000000;
    options->settle_us = 0;
    options->think_us = 1000;
    options->hold_us = 20000;
    mare_coord_setup_set(&options->setup, "lease_us", HEARTBEAT_US);
    mare_coord_setup_set(&options->setup, "beat_us", HEARTBEAT_US / 5);
    mare_sim_faults_add(&options->faults, &pause);
}

static unsigned broken_of(const char *name, mare_sim_outcome *out)
{
    unsigned broken = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mare_sim_options options;
        freeze_one(&options, name, seed);
        mare_sim_run(&options, NULL, out);
        broken += strcmp(out->violation, "EM1") == 0;
        mare_sim_options_fini(&options);
    }
    return broken;
}

static void without_a_lease_a_frozen_member_lets_two_in(void **state)
{
    mare_sim_outcome out;
    (void)state;
    assert_true(broken_of("ricart", &out) > 0);
    assert_true(broken_of("central", &out) > 0);
}

static void with_a_lease_it_does_not(void **state)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare__leased_table(&count);
    mare_sim_outcome out;
    (void)state;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(broken_of(table[i]->name, &out), 0);
        assert_string_equal(out.violation, "");
        assert_true(out.grants > 40); /* the others go on without it */
    }
}

/* Messages that take no time leave nothing of the margin but the drift. */
static unsigned broken_with_drift(int64_t allowed_ppm)
{
    unsigned broken = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        freeze_one(&options, "ricart+lease", seed);
        options.network = (mare_sim_network){.delay_us = 1};
        options.drift_ppm = 100000;
        mare_coord_setup_set(&options.setup, "drift_ppm", allowed_ppm);
        mare_coord_setup_set(&options.setup, "retry_us", 1000);
        broken += !mare_sim_run(&options, NULL, &out);
        mare_sim_options_fini(&options);
    }
    return broken;
}

static void clocks_may_be_as_wrong_as_the_lease_allows(void **state)
{
    (void)state;
    assert_int_equal(broken_with_drift(100000), 0);
    assert_true(broken_with_drift(0) > 0);
}

/* The holder dies inside and never returns: its votes are free when its lease is over. */
static void a_dead_holder_is_outlived(void **state)
{
    (void)state;
    for (int lease = 0; lease <= 1; lease++) {
        uint64_t waited = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_fault dies = {.kind = MARE_SIM_CRASH, .at_us = 1000000};
            freeze_one(&options, lease ? "majority+lease" : "majority", seed);
            options.faults.count = 0;
            options.settle_us = lease ? MARE_SIM_DERIVED : 0;
            mare_sim_faults_add(&options.faults, &dies);
            assert_true(mare_sim_run(&options, NULL, &out));
            waited += out.waiting;
            mare_sim_options_fini(&options);
        }
        assert_int_equal(waited > 0, !lease); /* without a lease, some wait for the dead */
    }
}

static void every_composition_holds_under_every_profile(void **state)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare__leased_table(&count);
    (void)state;
    for (size_t i = 0; i < count * MARE_SIM_PROFILES; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, table[i % count], 2 + (uint32_t)(seed % 6));
            options.seed = seed;
            options.profile = (mare_sim_profile)(i / count);
            mare_sim_vary(&options);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s, %s, seed %u: %s: %s", table[i % count]->name,
                         mare_sim_profile_name(options.profile), (unsigned)seed, out.violation,
                         out.detail);
            mare_sim_options_fini(&options);
        }
    }
}

/* A group of two: neither goes on alone. */
static void half_of_a_group_is_not_enough(void **state)
{
    mare_sim_options options;
    mare_sim_outcome out;
    (void)state;
    mare_sim_options_init(&options, mare_sim_find("majority+lease"), 2);
    mare_sim_fault cut = {.kind = MARE_SIM_PARTITION, .at_us = 0, .side = {1}};
    mare_sim_faults_add(&options.faults, &cut);
    options.settle_us = 0;
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.grants, 0);
    mare_sim_options_fini(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_lease_a_frozen_member_lets_two_in),
        cmocka_unit_test(with_a_lease_it_does_not),
        cmocka_unit_test(clocks_may_be_as_wrong_as_the_lease_allows),
        cmocka_unit_test(a_dead_holder_is_outlived),
        cmocka_unit_test(every_composition_holds_under_every_profile),
        cmocka_unit_test(half_of_a_group_is_not_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
