/* SPDX-License-Identifier: MIT */

/* Physical clocks in the simulator: true error within the reported bound, for every method, over
 * thousands of seeds with drift, jitter, slow ways back and losses; no clock ever goes back; and
 * broken variants that must be caught. */

#include "support/unit.h"

#include "sim/clocks.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS 2000u
#define BROKEN_SEEDS 200u

static unsigned seeds(unsigned usual)
{
    return getenv("MARE_TEST_SLOW") ? usual / 10 : usual;
}

/* NTP and reference broadcasts ------------------------------------------------------------------
 */

static void every_bound_holds(void **state)
{
    (void)state;
    mare_sim_clocks_score total[MARE_SIM_METHODS] = {{0}};
    uint64_t verdicts[MARE_NTP_VERDICTS] = {0}, outliers = 0;
    for (uint64_t seed = 1; seed <= seeds(SEEDS); seed++) {
        mare_sim_clocks_options options;
        mare_sim_clocks_outcome out;
        mare_sim_clocks_vary(&options, seed);
        if (!mare_sim_clocks_run(&options, &out))
            fail_msg("seed %u: %s: %s", (unsigned)seed, out.violation, out.detail);
        for (int m = 0; m < MARE_SIM_METHODS; m++) {
            total[m].readings += out.score[m].readings;
            total[m].error_ns += out.score[m].error_ns / 1000;
            total[m].bound_ns += out.score[m].bound_ns / 1000;
            if (out.score[m].closest_ppm > total[m].closest_ppm)
                total[m].closest_ppm = out.score[m].closest_ppm;
        }
        for (int v = 0; v < MARE_NTP_VERDICTS; v++)
            verdicts[v] += out.verdicts[v];
        outliers += out.outliers;
    }
    for (int m = 0; m < MARE_SIM_METHODS; m++) {
        assert_true(total[m].readings > 50u * seeds(SEEDS));
        /* The bounds are not idle: somebody comes close to his. */
        assert_true(total[m].closest_ppm > 500000);
        print_message("# %-8s %9u readings, true error %7u us on average, bound %7u us, at most "
                      "%u %% of it\n",
                      mare_sim_method_name((mare_sim_method)m), (unsigned)total[m].readings,
                      (unsigned)(total[m].error_ns / total[m].readings),
                      (unsigned)(total[m].bound_ns / total[m].readings),
                      (unsigned)(total[m].closest_ppm / 10000));
    }
    /* All that the network did was met: copies, late answers, servers without time, liars. */
    assert_true(verdicts[MARE_NTP_TAKEN] && verdicts[MARE_NTP_DUPLICATE] &&
                verdicts[MARE_NTP_BOGUS] && verdicts[MARE_NTP_UNFIT] && outliers);
}

static void same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mare_sim_clocks_options options;
        mare_sim_clocks_outcome one, two;
        mare_sim_clocks_vary(&options, seed);
        mare_sim_clocks_run(&options, &one);
        mare_sim_clocks_run(&options, &two);
        assert_memory_equal(&one, &two, sizeof one);
    }
}

/* Broken variants ------------------------------------------------------------------------------ */

/* The seed that catches what `spoil` puts in the place of the library's, or 0. */
static uint64_t caught(void (*spoil)(mare_sim_clocks_options *), const char *violation)
{
    for (uint64_t seed = 1; seed <= BROKEN_SEEDS; seed++) {
        mare_sim_clocks_options options;
        mare_sim_clocks_outcome out;
        mare_sim_clocks_vary(&options, seed);
        spoil(&options);
        if (!mare_sim_clocks_run(&options, &out)) {
            assert_string_equal(out.violation, violation);
            return seed;
        }
    }
    return 0;
}

/* It supposes that both ways take the same time: the bound leaves half the round trip out. */
static int trusting_best(const mare_ntp_client *client, int64_t local_ns, mare_ntp_estimate *e)
{
    if (!mare_ntp_client_best(client, local_ns, e))
        return 0;
    e->error_ns -= (uint64_t)e->delay_ns;
    return 1;
}

static void trust_the_network(mare_sim_clocks_options *o)
{
    o->best = trusting_best;
}

/* It forgets that its own clock drifts. */
static int ageless_best(const mare_ntp_client *client, int64_t local_ns, mare_ntp_estimate *e)
{
    mare_ntp_client copy = *client;
    if (!mare_ntp_client_best(client, local_ns, e))
        return 0;
    mare_ntp_estimate ageless;
    copy.setup.drift_ppb = 0;
    mare_ntp_client_best(&copy, local_ns, &ageless);
    e->error_ns = ageless.error_ns;
    return 1;
}

static void do_not_age(mare_sim_clocks_options *o)
{
    o->best = ageless_best;
}

/* The filter takes the largest δ. Its bound is honest: only the filter's own check can tell. */
static int slowest_best(const mare_ntp_client *client, int64_t local_ns, mare_ntp_estimate *e)
{
    mare_ntp_client one = *client;
    uint32_t slowest = 0;
    for (uint32_t i = 1; i < client->count; i++) {
        if (client->sample[i].delay_ns > client->sample[slowest].delay_ns)
            slowest = i;
    }
    one.sample[0] = client->sample[slowest];
    one.count = client->count ? 1 : 0;
    return mare_ntp_client_best(&one, local_ns, e);
}

static void take_the_slowest(mare_sim_clocks_options *o)
{
    o->best = slowest_best;
}

/* Corrections are steps, also backwards. */
static void step_clock(mare_time_clock *clock, int64_t local_ns, int64_t time_ns, uint64_t error_ns)
{
    uint64_t drift_ppb = clock->drift_ppb, slew_ppb = clock->slew_ppb;
    mare_time_clock_init(clock, drift_ppb, slew_ppb);
    mare_time_clock_set(clock, local_ns, time_ns, error_ns);
}

static void step_back(mare_sim_clocks_options *o)
{
    o->set = step_clock;
}

static int mean_without_drift(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset)
{
    mare_rbs copy = *rbs;
    copy.drift_ppb = 0;
    return mare_rbs_mean(&copy, local_ns, offset);
}

static void forget_drift(mare_sim_clocks_options *o)
{
    o->mean = mean_without_drift;
}

/* It takes the scatter for the bound, however far the line is drawn. */
static int line_without_levers(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset)
{
    int found = mare_rbs_line(rbs, local_ns, offset);
    offset->error_ns = rbs->jitter_ns / 2;
    return found;
}

static void forget_levers(mare_sim_clocks_options *o)
{
    o->line = line_without_levers;
}

/* It goes by the stratum that it once had, whatever its server says now. */
static int stubborn(uint32_t own, uint32_t now, uint32_t theirs)
{
    (void)now;
    return mare_ntp_follows(own, theirs);
}

static void remember_the_stratum(mare_sim_clocks_options *o)
{
    o->follows = stubborn;
}

static void broken_ones_are_caught(void **state)
{
    (void)state;
    assert_true(caught(remember_the_stratum, "STUCK"));
    assert_true(caught(trust_the_network, "BOUND"));
    assert_true(caught(do_not_age, "BOUND"));
    assert_true(caught(take_the_slowest, "FILTER"));
    assert_true(caught(step_back, "BACKWARDS"));
    assert_true(caught(forget_drift, "BOUND"));
    assert_true(caught(forget_levers, "BOUND"));
}

/* A lie of most servers is not survived, and nobody says it is: the checkers see it. */
static void too_many_liars(mare_sim_clocks_options *o)
{
    o->references = 3;
    o->liars = 2;
}

static void a_majority_of_liars_wins(void **state)
{
    (void)state;
    unsigned wrong = 0;
    /* About one in nine. */
    for (uint64_t seed = 1; seed <= BROKEN_SEEDS; seed++) {
        mare_sim_clocks_options options;
        mare_sim_clocks_outcome out;
        mare_sim_clocks_vary(&options, seed);
        too_many_liars(&options);
        wrong += !mare_sim_clocks_run(&options, &out);
    }
    assert_true(wrong > BROKEN_SEEDS / 20);
}

/* Berkeley ------------------------------------------------------------------------------------ */

typedef struct witness {
    mare_sim_observer observer;
    int64_t ahead_ns[8]; /* of the truth, at the last look at each */
    uint64_t error_ns[8], epoch[8], round[8], rounds;
} witness;

static void see(mare_sim_observer *self, const mare_sim_observation *seen)
{
    witness *w = (witness *)self;
    if (seen->sight != MARE_SIM_STEPPED || seen->process >= 8)
        return;
    uint64_t round = w->round[seen->process];
    mare_time_clock clock =
        *mare_berkeley_clock(seen->machine, &w->epoch[seen->process], &w->round[seen->process]);
    mare_time_reading reading = mare_time_clock_read(&clock, (int64_t)seen->event->now_us * 1000);
    w->rounds += round != w->round[seen->process];
    w->ahead_ns[seen->process] = reading.time_ns - (int64_t)seen->time_us * 1000;
    w->error_ns[seen->process] = reading.error_ns;
}

static int watch(const mare_sim_options *options, witness *w)
{
    mare_sim_outcome out;
    *w = (witness){.observer = {.see = see}};
    mare_sim_observer *observers[] = {&w->observer, NULL};
    return mare_sim_run(options, observers, &out);
}

/* Clocks that start up to a second apart, drift by 200 ppm and hear each other after 0 to 2 ms:
 * half a minute later they are within a few ms of each other, and know it. The daemon, 4, dies on
 * the way. */
static void they_come_together(void **state)
{
    (void)state;
    mare_sim_options options;
    witness w;
    mare_sim_options_init(&options, mare_coord_find("berkeley"), 5);
    options.duration_us = 30000000;
    options.settle_us = 0;
    options.drift_ppm = 200;
    options.offset_us = 1000000;
    options.rounds = 1;
    options.entrants = 1;
    mare_sim_faults_read(&options.faults, "crash:4@10000000+0");
    assert_true(watch(&options, &w));
    mare_sim_options_fini(&options);
    assert_true(w.rounds > 500);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(w.epoch[i] % 5, 3); /* an epoch names its leader */
        int64_t apart_ns = w.ahead_ns[i] - w.ahead_ns[3];
        assert_true(llabs(apart_ns) < 4000000);
        assert_true(w.error_ns[i] < 4000000);
    }
}

static void sweeps_of_berkeley(void **state)
{
    (void)state;
    uint64_t rounds = 0;
    for (uint64_t seed = 1; seed <= seeds(SEEDS); seed++) {
        mare_sim_options options;
        witness w;
        mare_sim_options_init(&options, mare_coord_find("berkeley"), 2 + (uint32_t)(seed % 6));
        options.seed = seed;
        mare_sim_vary(&options);
        options.offset_us = 1000000;
        if (!watch(&options, &w))
            fail_msg("mare sim berkeley --n %u --seed %u", (unsigned)options.setup.members,
                     (unsigned)seed);
        mare_sim_options_fini(&options);
        rounds += w.rounds;
    }
    assert_true(rounds > 5u * seeds(SEEDS));
}

static void counts_equal_the_formula(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 200; n += n < 32 ? 1 : 42) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find("berkeley"), n);
        mare_coord_setup_set(&options.setup, "repair", 0);
        mare_coord_setup_set(&options.setup, "round_us", 0);
        options.entrants = options.rounds = 1;
        options.duration_us = UINT64_C(1) << 40;
        options.settle_us = 0;
        options.network.delay = MARE_SIM_FIXED;
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_int_equal(out.sent, (n - 1) * (n + 1) + 3 * (n - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bound_holds),        cmocka_unit_test(same_seed_same_run),
        cmocka_unit_test(broken_ones_are_caught),   cmocka_unit_test(a_majority_of_liars_wins),
        cmocka_unit_test(they_come_together),       cmocka_unit_test(sweeps_of_berkeley),
        cmocka_unit_test(counts_equal_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
