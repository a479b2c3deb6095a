/* SPDX-License-Identifier: MIT */

/* NTP: what several servers agree on, and whom to follow. */

#include "support/unit.h"

#include "ntp.h"

static mare_ntp_estimate says(int64_t ms, int64_t error_ms, uint32_t stratum)
{
    return (mare_ntp_estimate){
        .time_ns = NOW + ms * MS, .error_ns = (uint64_t)(error_ms * MS), .stratum = stratum};
}

static void an_outlier_is_left_out(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 10, 2), says(5000, 1, 1), says(4, 10, 3)};
    assert_true(mare_ntp_select(e, 3, 1, &choice));
    assert_int_equal(choice.outliers, 2);
    assert_int_equal(choice.survivors, 5);
    assert_int_equal(choice.peer, 0);
    /* [−10, 10] and [−6, 14] overlap in [−6, 10]: their mean is 2, and 8 to either side. */
    assert_int_equal(choice.estimate.time_ns, NOW + 2 * MS);
    assert_int_equal(choice.estimate.error_ns, 8 * MS);
    assert_int_equal(choice.estimate.stratum, 2);
}

static void no_majority_no_time(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate two[] = {says(0, 10, 2), says(100, 10, 2)};
    mare_ntp_estimate four[] = {says(0, 10, 2), says(1, 10, 2), says(100, 10, 2), says(101, 9, 2)};
    assert_false(mare_ntp_select(two, 2, 0, &choice));
    assert_false(mare_ntp_select(four, 4, 1, &choice));
    assert_false(mare_ntp_select(two, 0, 0, &choice));
    assert_true(mare_ntp_select(two, 1, 0, &choice)); /* one alone is believed */
    assert_int_equal(choice.estimate.error_ns, 10 * MS);
    assert_false(mare_ntp_select(two, 1, 1, &choice)); /* but not if it may lie */
    two[1] = says(20, 10, 2);                          /* they touch in a point */
    assert_true(mare_ntp_select(two, 2, 0, &choice));
    assert_int_equal(choice.estimate.time_ns, NOW + 10 * MS);
    assert_int_equal(choice.estimate.error_ns, 0);
}

/* Of three or five that are asked, as many may be silent as may lie, if the others agree. */
static void silent_servers_do_no_harm(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 10, 2), says(4, 10, 3), says(6, 10, 2), says(5000, 1, 2)};
    assert_true(mare_ntp_select(e, 2, 1, &choice)); /* two of three */
    /* One of the two may lie, so the truth may be anywhere in [−10, 14]. */
    assert_int_equal(choice.estimate.time_ns - (int64_t)choice.estimate.error_ns, NOW - 10 * MS);
    assert_int_equal(choice.estimate.time_ns + (int64_t)choice.estimate.error_ns, NOW + 14 * MS);
    assert_int_equal(choice.survivors, 3);
    assert_true(mare_ntp_select(e, 3, 2, &choice)); /* three of five */
    assert_true(mare_ntp_select(e, 4, 2, &choice)); /* four of five, and one of them is wrong: */
    assert_int_equal(choice.outliers, 8);           /* two or more cover up to 14 */
    assert_int_equal(choice.estimate.time_ns + (int64_t)choice.estimate.error_ns, NOW + 14 * MS);
    assert_false(mare_ntp_select(e, 2, 2, &choice));     /* two of five are too few, */
    assert_false(mare_ntp_select(e + 2, 2, 1, &choice)); /* and so are two that do not agree */
    assert_false(mare_ntp_select(e + 1, 3, 2, &choice));
}

/* The truth is 0. Two are right, and a liar overlaps one edge of both: the region of all three does
 * not contain the truth, the bound must. */
static void a_liar_at_the_edge(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(9, 10, 2), says(8, 10, 2), says(17, 1, 2)};
    assert_true(mare_ntp_select(e, 3, 1, &choice));
    assert_true(choice.estimate.time_ns - (int64_t)choice.estimate.error_ns <= NOW);
}

/* Two pairs of the three agree: the narrower agreement is believed. */
static void the_narrowest_of_equal_agreements(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 10, 2), says(17, 12, 2), says(-11, 2, 2)};
    assert_true(mare_ntp_select(e, 3, 1, &choice)); /* [5, 10] and [−10, −9] */
    assert_int_equal(choice.outliers, 2);
    /* The bound reaches over both. */
    assert_true(choice.estimate.time_ns - (int64_t)choice.estimate.error_ns <= NOW - 10 * MS);
    assert_true(choice.estimate.time_ns + (int64_t)choice.estimate.error_ns >= NOW + 10 * MS);
}

/* Any intervals, fewer than half of those asked wrong, and any of them silent: where there is a
 * time the truth is within its bound. There is one when more answer rightly than may be wrong. */
static void the_truth_is_within_the_bound(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int run = 0; run < 100000; run++) {
        mare_ntp_estimate e[MARE_NTP_SERVERS_MAX];
        mare_ntp_choice choice;
        uint32_t asked = 1 + (uint32_t)(unit_random(&seed) % MARE_NTP_SERVERS_MAX);
        uint32_t most = (asked - 1) / 2, liars = (uint32_t)(unit_random(&seed) % (most + 1));
        uint32_t silent = (uint32_t)(unit_random(&seed) % 4), count = 0, honest = 0;
        for (uint32_t i = 0; i < asked; i++) {
            int64_t error = 1 + (int64_t)(unit_random(&seed) % 1000);
            int64_t off = (int64_t)(unit_random(&seed) % (uint64_t)(2 * error + 1)) - error;
            if (i < liars)
                off = (int64_t)(unit_random(&seed) % 4001) - 2000;
            if (silent && unit_random(&seed) % 4 < silent)
                continue;
            honest += i >= liars;
            e[count++] = (mare_ntp_estimate){.time_ns = NOW + off,
                                             .error_ns = (uint64_t)error,
                                             .jitter_ns = unit_random(&seed) % 100,
                                             .stratum = 1 + (uint32_t)(unit_random(&seed) % 15)};
        }
        int given = mare_ntp_select(e, count, most, &choice);
        assert_true(given || honest <= most);
        if (!given)
            continue;
        int64_t wrong = choice.estimate.time_ns - NOW;
        assert_true((uint64_t)(wrong < 0 ? -wrong : wrong) <= choice.estimate.error_ns);
        assert_true(choice.survivors >> choice.peer & 1);
        assert_int_equal(choice.survivors & choice.outliers, 0);
    }
}

/* Five agree, but one of them is at the far end of its wide interval: it is put aside, and the mean
 * is that of those close together. */
static void the_cluster_puts_aside_who_scatters(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 20, 2), says(1, 20, 2), says(-1, 20, 2), says(2, 20, 2),
                             says(19, 20, 1)};
    assert_true(mare_ntp_select(e, 5, 2, &choice));
    assert_int_equal(choice.outliers, 0);
    assert_int_equal(choice.survivors & 16, 0);
    assert_in_range(choice.estimate.time_ns, NOW - MS, NOW + 2 * MS);
    for (int i = 0; i < 5; i++)
        e[i].jitter_ns = 50 * MS; /* nobody is steadier than that: all are kept */
    assert_true(mare_ntp_select(e, 5, 2, &choice));
    assert_int_equal(choice.survivors, 31);
    assert_int_equal(choice.peer, 4);
}

/* The rule of the source: who is at k + 1 or above adjusts to one at k, and is then at k + 1. */
static void strata(void **state)
{
    (void)state;
    uint32_t own = MARE_NTP_UNSYNCHRONISED;
    static const uint32_t met[] = {16, 4, 5, 2, 3, 1}, becomes[] = {16, 5, 5, 3, 3, 2};
    for (int i = 0; i < 6; i++) {
        if (mare_ntp_follows(own, met[i]))
            own = met[i] + 1;
        assert_int_equal(own, becomes[i]);
    }
    assert_true(mare_ntp_follows(2, 1)); /* still the same server */
    assert_false(mare_ntp_follows(2, 2));
}

UNIT_TESTS(cmocka_unit_test(an_outlier_is_left_out), cmocka_unit_test(no_majority_no_time),
           cmocka_unit_test(silent_servers_do_no_harm), cmocka_unit_test(a_liar_at_the_edge),
           cmocka_unit_test(the_narrowest_of_equal_agreements),
           cmocka_unit_test(the_truth_is_within_the_bound),
           cmocka_unit_test(the_cluster_puts_aside_who_scatters), cmocka_unit_test(strata))
