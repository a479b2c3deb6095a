/* SPDX-License-Identifier: MIT */

/* GNP by hand: the book's examples, exact places, and what it refuses. */

#include "support/unit.h"

#include <mare/coord_place.h>
#include <math.h>
#include <string.h>

#define MOST 12

static uint64_t memory[MOST * 40];

static void near_to(double value, double wanted, double within)
{
    if (!(fabs(value - wanted) <= within))
        fail_msg("%.9g is not %.9g within %g", value, wanted, within);
}

static void distances(const mare_coord_place *place, uint32_t n, double *rtt)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++)
            rtt[i * n + j] = i == j ? 0 : mare_coord_place_distance(&place[i], &place[j]);
    }
}

static double solve(mare_coord_gnp_setup *setup, const double *rtt, mare_coord_place *place)
{
    double sum = -1;
    assert_true(mare_coord_gnp_size(setup) <= sizeof memory);
    assert_int_equal(mare_coord_gnp_landmarks(setup, rtt, memory, sizeof memory, place, &sum),
                     MARE_COORD_OK);
    return sum;
}

/* Figure 6.18: P, Q and R on a line, 1.0 and 2.0 apart, but P to R is 3.2. With e the changes to
 * the three lengths, e1 + e2 - e3 = 0.2 must hold; the sum of (e/d)² is least when each e is in
 * proportion to d², and is then 0.2² / (1 + 4 + 10.24). A plane does not help: the triangle
 * inequality is broken. */
static void inconsistent_distances_on_a_line(void **state)
{
    (void)state;
    const double rtt[] = {0, 1, 3.2, 1, 0, 2, 3.2, 2, 0}, all = 1 + 4 + 10.24;
    for (uint32_t dimensions = 1; dimensions <= 2; dimensions++) {
        mare_coord_gnp_setup setup;
        mare_coord_place p[3];
        mare_coord_gnp_setup_init(&setup, 3);
        setup.dimensions = dimensions;
        near_to(solve(&setup, rtt, p), 0.04 / all, 1e-6);
        near_to(mare_coord_place_distance(&p[0], &p[1]), 1 + 0.2 * 1 / all, 1e-4);
        near_to(mare_coord_place_distance(&p[1], &p[2]), 2 + 0.2 * 4 / all, 1e-4);
        near_to(mare_coord_place_distance(&p[0], &p[2]), 3.2 - 0.2 * 10.24 / all, 1e-4);
    }
}

/* Figure 6.17: on a plane one circle leaves a circle, two leave two points, three leave one. */
static void three_circles_make_a_point(void **state)
{
    (void)state;
    const mare_coord_place known[] = {{.x = {0, 0}}, {.x = {10, 0}}, {.x = {3, 8}}};
    const mare_coord_place hidden = {.x = {4, 2}};
    double rtt[3], sum;
    mare_coord_place found;
    mare_coord_gnp_setup setup;
    mare_coord_gnp_setup_init(&setup, 3);
    for (int i = 0; i < 3; i++)
        rtt[i] = mare_coord_place_distance(&known[i], &hidden);
    assert_int_equal(setup.dimensions, 2);
    assert_int_equal(mare_coord_gnp_place(&setup, known, rtt, memory, sizeof memory, &found, &sum),
                     MARE_COORD_OK);
    near_to(found.x[0], 4, 1e-6);
    near_to(found.x[1], 2, 1e-6);
    near_to(sum, 0, 1e-12);
    rtt[2] = 0; /* two circles are not enough for a plane */
    assert_int_equal(mare_coord_gnp_place(&setup, known, rtt, memory, sizeof memory, &found, &sum),
                     MARE_COORD_REFUSED);
}

/* Ten landmarks anywhere in a space: every distance between them comes out again, in a rack and on
 * a planet. Where they are as a whole is not determined. */
static void exact_distances_come_out_again(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (uint32_t dimensions = 2; dimensions <= 5; dimensions++) {
        mare_coord_place wanted[10] = {0}, got[10];
        double rtt[100], again[100], unit = dimensions % 2 ? 1e-3 : 100;
        mare_coord_gnp_setup setup;
        for (int i = 0; i < 10; i++) {
            for (uint32_t k = 0; k < dimensions; k++)
                wanted[i].x[k] = unit * (double)(unit_random(&random) % 1000003) / 1e6;
        }
        distances(wanted, 10, rtt);
        mare_coord_gnp_setup_init(&setup, 10);
        setup.dimensions = dimensions;
        near_to(solve(&setup, rtt, got), 0, 1e-4);
        distances(got, 10, again);
        for (int i = 0; i < 100; i++)
            near_to(again[i], rtt[i], 0.02 * unit);
    }
}

/* One direction of a pair is enough, and a few pairs may be missing altogether. */
static void missing_measurements(void **state)
{
    (void)state;
    mare_coord_place wanted[8], got[8];
    double rtt[64], full[64];
    mare_coord_gnp_setup setup;
    memset(wanted, 0, sizeof wanted);
    for (int i = 0; i < 8; i++) {
        wanted[i].x[0] = 50 * cos(i);
        wanted[i].x[1] = 50 * sin(3 * i);
    }
    distances(wanted, 8, full);
    memcpy(rtt, full, sizeof rtt);
    rtt[1] = NAN;
    rtt[8 * 3 + 2] = -1;
    rtt[8 * 5 + 6] = rtt[8 * 6 + 5] = 0; /* unknown in both directions */
    mare_coord_gnp_setup_init(&setup, 8);
    setup.dimensions = 2;
    near_to(solve(&setup, rtt, got), 0, 1e-4);
    near_to(mare_coord_place_distance(&got[5], &got[6]), full[8 * 5 + 6], 1);
}

static void robust_gives_up_the_odd_one(void **state)
{
    (void)state;
    mare_coord_place wanted[9], got[9];
    double rtt[81], full[81];
    mare_coord_gnp_setup setup;
    memset(wanted, 0, sizeof wanted);
    for (int i = 0; i < 9; i++) {
        int row = i / 3;
        wanted[i].x[0] = 10 * (i % 3);
        wanted[i].x[1] = 10 * row;
    }
    distances(wanted, 9, full);
    memcpy(rtt, full, sizeof rtt);
    rtt[8] = rtt[72] = 5 * full[8]; /* a detour between opposite corners */
    mare_coord_gnp_setup_init(&setup, 9);
    setup.dimensions = 2;
    setup.robust = 0.02;
    solve(&setup, rtt, got);
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < i; j++)
            near_to(mare_coord_place_distance(&got[i], &got[j]), full[i * 9 + j],
                    0.05 * full[i * 9 + j]);
    }
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    double rtt[16] = {0}, sum;
    mare_coord_place place[4];
    mare_coord_gnp_setup good, bad;
    mare_coord_gnp_setup_init(&good, 4);
    assert_int_equal(good.dimensions, 3);
    assert_int_equal(mare_coord_gnp_landmarks(&good, rtt, memory, 8, place, &sum),
                     MARE_COORD_NOROOM);
    assert_int_equal(mare_coord_gnp_landmarks(&good, rtt, memory, sizeof memory, place, &sum),
                     MARE_COORD_REFUSED); /* nothing was measured */
    bad = good, bad.dimensions = 4;       /* not fewer than landmarks */
    assert_int_equal(mare_coord_gnp_size(&bad), 0);
    bad = good, bad.dimensions = 0;
    assert_int_equal(mare_coord_gnp_size(&bad), 0);
    bad = good, bad.starts = 0;
    assert_int_equal(mare_coord_gnp_size(&bad), 0);
    bad = good, bad.robust = NAN;
    assert_int_equal(mare_coord_gnp_size(&bad), 0);
    assert_int_equal(mare_coord_gnp_landmarks(&bad, rtt, memory, sizeof memory, place, &sum),
                     MARE_COORD_REFUSED);
}

/* A landmark that is nowhere is not computed with, unless it was not measured. */
static void refuses_landmarks_that_are_no_places(void **state)
{
    (void)state;
    const mare_coord_place good[] = {
        {.x = {0, 0}}, {.x = {10, 0}}, {.x = {0, 10}}, {.x = {10, 10}}};
    const double rtt[] = {7, 7, 7, 7}, absurd[] = {NAN, INFINITY, 1e300};
    mare_coord_gnp_setup setup;
    mare_coord_gnp_setup_init(&setup, 4);
    setup.dimensions = 2;
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
        mare_coord_place landmark[4], place;
        double sum, partly[] = {7, 7, 7, 0};
        memcpy(landmark, good, sizeof landmark);
        landmark[3].x[0] = absurd[i];
        assert_int_equal(
            mare_coord_gnp_place(&setup, landmark, rtt, memory, sizeof memory, &place, &sum),
            MARE_COORD_REFUSED);
        assert_int_equal(
            mare_coord_gnp_place(&setup, landmark, partly, memory, sizeof memory, &place, &sum),
            MARE_COORD_OK);
        near_to(place.x[0], 5, 0.1); /* by symmetry, and as near to 5 as 7 is to sqrt(50) */
    }
}

/* Two towns of three on a line, and one house far from both: two landmarks go to the towns. */
static void landmarks_are_spread(void **state)
{
    (void)state;
    const double at[] = {0, 1, 2, 100, 101, 102, 5000};
    double rtt[49], scratch[7];
    uint32_t chosen[3];
    for (int i = 0; i < 7; i++) {
        for (int j = 0; j < 7; j++)
            rtt[i * 7 + j] = fabs(at[i] - at[j]);
    }
    mare_coord_gnp_spread(rtt, 7, 3, scratch, chosen);
    int towns[3] = {0};
    for (int k = 0; k < 3; k++)
        towns[chosen[k] / 3]++;
    assert_true(towns[0] == 1 && towns[1] == 1 && towns[2] == 1);
}

UNIT_TESTS(cmocka_unit_test(refuses_landmarks_that_are_no_places),
           cmocka_unit_test(inconsistent_distances_on_a_line),
           cmocka_unit_test(three_circles_make_a_point),
           cmocka_unit_test(exact_distances_come_out_again), cmocka_unit_test(missing_measurements),
           cmocka_unit_test(robust_gives_up_the_odd_one),
           cmocka_unit_test(refuses_what_makes_no_sense), cmocka_unit_test(landmarks_are_spread))
