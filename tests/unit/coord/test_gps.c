/* SPDX-License-Identifier: MIT */

/* Fixes from references: the book's GPS, and geometries without an answer. */

#include "support/unit.h"

#include <mare/coord_place.h>
#include <math.h>
#include <string.h>

#define LIGHT 299792458.0 /* metres a second */
#define EARTH 6371000.0
#define ORBIT (EARTH + 20000000.0) /* section 6.1.2: about 20,000 km up */
#define SATELLITES 29
#define MOST 40

struct sky {
    mare_coord_place at[MOST];
    double range[MOST];
    uint32_t count;
};

static void near_to(double value, double wanted, double within)
{
    if (!(fabs(value - wanted) <= within))
        fail_msg("%.12g is not %.12g within %g", value, wanted, within);
}

static void measure(struct sky *sky, const mare_coord_place *receiver, double bias)
{
    for (uint32_t i = 0; i < sky->count; i++)
        sky->range[i] = mare_coord_place_distance(&sky->at[i], receiver) + bias;
}

static mare_coord_fix_setup setup_of(const struct sky *sky, uint32_t dimensions, int bias)
{
    return (mare_coord_fix_setup){.dimensions = dimensions,
                                  .count = sky->count,
                                  .bias = bias,
                                  .reference = sky->at,
                                  .range = sky->range};
}

static mare_coord_fix_end solve(const struct sky *sky, uint32_t dimensions, int bias,
                                const mare_coord_place *near, mare_coord_fix *fix)
{
    mare_coord_fix_setup setup = setup_of(sky, dimensions, bias);
    setup.near = near;
    return mare_coord_fix_solve(&setup, fix);
}

static void apart(const mare_coord_place *a, const mare_coord_place *b, double within)
{
    mare_coord_place flat_a = *a, flat_b = *b;
    flat_a.height = flat_b.height = 0;
    near_to(mare_coord_place_distance(&flat_a, &flat_b), 0, within);
}

/* The 29 satellites, evenly on their sphere (a spiral of golden angles); those above the horizon of
 * a receiver. */
static struct sky visible(const mare_coord_place *receiver)
{
    struct sky sky = {.count = 0};
    for (int i = 0; i < SATELLITES; i++) {
        double z = 1 - (2 * i + 1.0) / SATELLITES, r = sqrt(1 - z * z), turn = 2.399963 * i;
        mare_coord_place at = {.x = {ORBIT * r * cos(turn), ORBIT * r * sin(turn), ORBIT * z}};
        double up = 0;
        for (int k = 0; k < 3; k++)
            up += (at.x[k] - receiver->x[k]) * receiver->x[k];
        if (up > 0.1 * EARTH * mare_coord_place_distance(&at, receiver))
            sky.at[sky.count++] = at;
    }
    return sky;
}

static const mare_coord_place rio = {.x = {4283000, -4028000, -2466000}};
static const mare_coord_place centre = {.x = {0, 0, 0}};

/* Figure 6.4: two circles on a plane meet in two points; the one out in space is ignored. */
static void two_circles_on_a_plane(void **state)
{
    (void)state;
    struct sky sky = {.at = {{.x = {-3, 4}}, {.x = {3, 4}}}, .range = {5, 5}, .count = 2};
    mare_coord_place ground = {.x = {0, -1}}, space = {.x = {0, 9}};
    mare_coord_fix fix;
    assert_int_equal(solve(&sky, 2, 0, NULL, &fix), MARE_COORD_FIX_AMBIGUOUS);
    assert_int_equal(solve(&sky, 2, 0, &ground, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &(mare_coord_place){.x = {0, 0}}, 1e-9);
    assert_int_equal(solve(&sky, 2, 0, &space, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &(mare_coord_place){.x = {0, 8}}, 1e-9);
}

/* With all clocks right three satellites are enough in principle. */
static void three_satellites_with_right_clocks(void **state)
{
    (void)state;
    struct sky sky = visible(&rio);
    mare_coord_fix fix;
    sky.count = 3;
    measure(&sky, &rio, 0);
    assert_int_equal(solve(&sky, 3, 0, &centre, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &rio, 1e-3);
    sky.count = 2;
    assert_int_equal(solve(&sky, 3, 0, &centre, &fix), MARE_COORD_FIX_FEW);
}

/* Four equations with four unknowns: x, y, z and the receiver's deviation. */
static void four_satellites_with_a_wrong_clock(void **state)
{
    (void)state;
    const double deviations[] = {0, 1e-3, -1e-3, 1, -1};
    for (int i = 0; i < 5; i++) {
        struct sky sky = visible(&rio);
        mare_coord_fix fix;
        sky.at[2] = sky.at[sky.count - 1];
        sky.count = 4;
        measure(&sky, &rio, LIGHT * deviations[i]);
        assert_int_equal(solve(&sky, 3, 1, &centre, &fix), MARE_COORD_FIX_OK);
        apart(&fix.at, &rio, 1e-2);
        near_to(fix.at.height / LIGHT, deviations[i], 1e-10);
        sky.count = 3;
        assert_int_equal(solve(&sky, 3, 1, &centre, &fix), MARE_COORD_FIX_FEW);
    }
}

/* More satellites than unknowns, no guess, on the ground anywhere. */
static void all_that_are_visible(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int t = 0; t < 200; t++) {
        mare_coord_place here = {.height = 0};
        double length = 0, deviation = (double)(unit_random(&random) % 2000001) / 1e6 - 1;
        for (int k = 0; k < 3; k++)
            here.x[k] = (double)(unit_random(&random) % 2000001) / 1e6 - 1;
        length = sqrt(here.x[0] * here.x[0] + here.x[1] * here.x[1] + here.x[2] * here.x[2]);
        for (int k = 0; k < 3; k++)
            here.x[k] *= EARTH / length;
        struct sky sky = visible(&here);
        mare_coord_fix fix;
        measure(&sky, &here, LIGHT * deviation);
        assert_in_range(sky.count, 5, SATELLITES);
        assert_int_equal(solve(&sky, 3, 1, NULL, &fix), MARE_COORD_FIX_OK);
        apart(&fix.at, &here, 1e-2);
        near_to(fix.at.height / LIGHT, deviation, 1e-10);
        near_to(fix.residual, 0, 1e-3);
        assert_true(fix.dilution > 1 && fix.dilution < 50);
    }
}

/* Ranges that are wrong by a metre or so: the book says 1 to 5 m for cheap receivers, and clocks
 * within 20 to 35 ns. The error is what the dilution predicts. */
static void errors_grow_by_the_dilution(void **state)
{
    (void)state;
    uint64_t random = 5;
    double position = 0, bias = 0, residual = 0;
    const int rounds = 2000;
    mare_coord_fix fix;
    struct sky sky = visible(&rio);
    for (int t = 0; t < rounds; t++) {
        measure(&sky, &rio, LIGHT * 1e-4);
        for (uint32_t i = 0; i < sky.count; i++) { /* the sum of twelve: nearly normal, sigma 1 */
            double noise = -6;
            for (int k = 0; k < 12; k++)
                noise += (double)(unit_random(&random) >> 11) / 9007199254740992.0;
            sky.range[i] += noise;
        }
        assert_int_equal(solve(&sky, 3, 1, NULL, &fix), MARE_COORD_FIX_OK);
        for (int k = 0; k < 3; k++)
            position += (fix.at.x[k] - rio.x[k]) * (fix.at.x[k] - rio.x[k]) / rounds;
        bias += (fix.at.height - LIGHT * 1e-4) * (fix.at.height - LIGHT * 1e-4) / rounds;
        residual += fix.residual * fix.residual / rounds;
    }
    near_to(sqrt(position), fix.position_dilution, 0.1 * fix.position_dilution);
    near_to(sqrt(bias), fix.bias_dilution, 0.1 * fix.bias_dilution);
    near_to(sqrt(residual), 1, 0.1);
    assert_true(sqrt(position) >= 1 && sqrt(position) <= 5);
    assert_true(sqrt(bias) / LIGHT <= 35e-9);
}

/* Figure 6.17 with a clock that is off: in two dimensions three references are needed for that. */
static void a_plane_with_a_wrong_clock(void **state)
{
    (void)state;
    struct sky sky = {.at = {{.x = {0, 0}}, {.x = {10, 0}}, {.x = {3, 8}}}, .count = 3};
    mare_coord_place here = {.x = {4, 3}};
    mare_coord_fix fix;
    measure(&sky, &here, -2.5);
    assert_int_equal(solve(&sky, 2, 1, &here, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &here, 1e-9);
    near_to(fix.at.height, -2.5, 1e-9);
}

/* A reference whose own clock error is known. */
static void known_errors_of_references(void **state)
{
    (void)state;
    struct sky sky = visible(&rio);
    mare_coord_fix fix;
    sky.at[1].height = 300;
    measure(&sky, &rio, 1000);
    assert_int_equal(solve(&sky, 3, 1, NULL, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &rio, 1e-2);
    near_to(fix.at.height, 1000, 1e-2);
}

/* From an atom to a galaxy: units do not matter. */
static void scales_do_not_matter(void **state)
{
    (void)state;
    const double units[] = {1e-15, 1e-5, 1e5, 1e15};
    for (int t = 0; t < 4; t++) {
        double unit = units[t];
        struct sky sky = visible(&rio);
        mare_coord_place here = rio;
        mare_coord_fix fix;
        for (int k = 0; k < 3; k++) {
            here.x[k] *= unit;
            for (uint32_t i = 0; i < sky.count; i++)
                sky.at[i].x[k] *= unit;
        }
        measure(&sky, &here, 12345 * unit);
        assert_int_equal(solve(&sky, 3, 1, NULL, &fix), MARE_COORD_FIX_OK);
        apart(&fix.at, &here, 1e-2 * unit);
    }
}

static void references_in_a_plane_cannot_tell_above_from_below(void **state)
{
    (void)state;
    struct sky sky = {.at = {{.x = {0, 0, 5}},
                             {.x = {9, 0, 5}},
                             {.x = {0, 9, 5}},
                             {.x = {9, 9, 5}},
                             {.x = {4, 1, 5}}},
                      .count = 5};
    mare_coord_place here = {.x = {3, 2, 1}}, below = {.x = {3, 2, 0}};
    mare_coord_fix fix;
    measure(&sky, &here, 7);
    assert_int_equal(solve(&sky, 3, 1, NULL, &fix), MARE_COORD_FIX_AMBIGUOUS);
    assert_int_equal(solve(&sky, 3, 1, &below, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &here, 1e-6);
}

static void bad_geometry_is_reported(void **state)
{
    (void)state;
    mare_coord_place here = {.x = {3, 2, 1}};
    mare_coord_fix fix;
    struct sky point = {.count = 5}, line = {.count = 5}, plane = {.count = 5}, patch;
    for (uint32_t i = 0; i < 5; i++) {
        point.at[i] = (mare_coord_place){.x = {1, 2, 3}};
        line.at[i] = (mare_coord_place){.x = {i * 2.0, i * 3.0, i * 1.0}};
        plane.at[i] = (mare_coord_place){.x = {cos(i * 2), sin(i * 2), 1}}; /* here is in it */
    }
    measure(&point, &here, 0);
    assert_int_equal(solve(&point, 3, 1, NULL, &fix), MARE_COORD_FIX_GEOMETRY);
    assert_true(isinf(fix.dilution));
    measure(&line, &here, 0);
    assert_int_equal(solve(&line, 3, 1, NULL, &fix), MARE_COORD_FIX_GEOMETRY);
    measure(&plane, &here, 0);
    assert_int_equal(solve(&plane, 3, 1, NULL, &fix), MARE_COORD_FIX_GEOMETRY);
    /* All satellites in one corner of the sky: solvable, but not with ranges that are measured. */
    patch = visible(&rio);
    for (uint32_t i = 1; i < patch.count; i++) {
        for (int k = 0; k < 3; k++)
            patch.at[i].x[k] = patch.at[0].x[k] + 0.02 * (patch.at[i].x[k] - patch.at[0].x[k]);
    }
    measure(&patch, &rio, 0);
    assert_int_equal(solve(&patch, 3, 1, &rio, &fix), MARE_COORD_FIX_GEOMETRY);
    assert_true(fix.dilution > 50 && !isinf(fix.dilution));
    assert_true(fix.at.x[0] == 0 && fix.at.height == 0); /* no number is given */
    mare_coord_fix_setup patient = setup_of(&patch, 3, 1);
    patient.worst = 1e6;
    patient.near = &rio;
    assert_int_equal(mare_coord_fix_solve(&patient, &fix), MARE_COORD_FIX_OK);
    apart(&fix.at, &rio, 10);
}

static double between(uint64_t *random, double low, double high)
{
    return low + (high - low) * (double)(unit_random(random) >> 11) / 9007199254740992.0;
}

static mare_coord_place anywhere(uint64_t *random, uint32_t dimensions, double low, double high)
{
    mare_coord_place at = {.height = 0};
    for (uint32_t k = 0; k < dimensions; k++)
        at.x[k] = between(random, low, high);
    return at;
}

static double off_by(const mare_coord_fix *fix, const mare_coord_place *here)
{
    mare_coord_place at = fix->at;
    at.height = 0;
    return mare_coord_place_distance(&at, here);
}

/* No more references than unknowns: often two positions meet all ranges. Which one it is, is said
 * only when the other is none; and with a point that is near it is always found. */
static void never_the_wrong_one_of_two(void **state)
{
    (void)state;
    uint64_t random = 12345;
    for (uint32_t dimensions = 2; dimensions <= 3; dimensions++) {
        uint32_t right = 0, ambiguous = 0;
        for (int t = 0; t < 12000; t++) {
            struct sky sky = {.count = dimensions + 1};
            mare_coord_place here = anywhere(&random, dimensions, -1e7, 1e7);
            mare_coord_fix fix;
            for (uint32_t i = 0; i < sky.count; i++)
                sky.at[i] = anywhere(&random, dimensions, -2.5e7, 2.5e7);
            measure(&sky, &here, between(&random, -5e4, 5e4));
            mare_coord_fix_end end = solve(&sky, dimensions, 1, NULL, &fix);
            assert_int_not_equal(end, MARE_COORD_FIX_LOST);
            right += end == MARE_COORD_FIX_OK;
            ambiguous += end == MARE_COORD_FIX_AMBIGUOUS;
            if (end == MARE_COORD_FIX_OK)
                near_to(off_by(&fix, &here), 0, 1);
            end = solve(&sky, dimensions, 1, &here, &fix);
            assert_true(end == MARE_COORD_FIX_OK || end == MARE_COORD_FIX_GEOMETRY);
            if (end == MARE_COORD_FIX_OK)
                near_to(off_by(&fix, &here), 0, 1);
        }
        assert_true(right > 3000 && ambiguous > 600); /* both are common: neither is always said */
    }
}

/* Ranges that are wrong by up to one per cent, of references all around: there is a best position,
 * and it is found, no farther off than what the dilution allows. */
static void ordinary_noise_is_no_reason_to_be_lost(void **state)
{
    (void)state;
    uint64_t random = 777;
    uint32_t found = 0;
    for (int t = 0; t < 2000; t++) {
        struct sky sky = {.count = 6};
        mare_coord_place here = anywhere(&random, 3, -0.2, 0.2);
        mare_coord_fix fix;
        for (uint32_t i = 0; i < sky.count; i++)
            sky.at[i] = anywhere(&random, 3, -1, 1);
        measure(&sky, &here, 3);
        for (uint32_t i = 0; i < sky.count; i++)
            sky.range[i] += between(&random, -0.01, 0.01);
        mare_coord_fix_end end = solve(&sky, 3, 1, NULL, &fix);
        assert_int_not_equal(end, MARE_COORD_FIX_LOST);
        found += end == MARE_COORD_FIX_OK && off_by(&fix, &here) < 4 * 0.01 * fix.dilution;
    }
    assert_true(found >= 1980);
}

static void refuses_absurd_numbers(void **state)
{
    (void)state;
    mare_coord_fix fix;
    struct sky good = visible(&rio), bad;
    measure(&good, &rio, 0);
    bad = good, bad.range[1] = NAN;
    assert_int_equal(solve(&bad, 3, 1, NULL, &fix), MARE_COORD_FIX_ABSURD);
    bad = good, bad.at[2].x[0] = INFINITY;
    assert_int_equal(solve(&bad, 3, 1, NULL, &fix), MARE_COORD_FIX_ABSURD);
    bad = good, bad.range[0] = -1;
    assert_int_equal(solve(&bad, 3, 0, NULL, &fix), MARE_COORD_FIX_ABSURD);
    assert_int_equal(solve(&good, 3, 1, &(mare_coord_place){.x = {0, 0, NAN}}, &fix),
                     MARE_COORD_FIX_ABSURD);
    assert_int_equal(solve(&good, 3, 1, &(mare_coord_place){.x = {0, 0, 0, NAN}}, &fix),
                     MARE_COORD_FIX_OK); /* of a dimension that is not used */
    assert_int_equal(solve(&good, 0, 1, NULL, &fix), MARE_COORD_FIX_ABSURD);
    assert_int_equal(solve(&good, 9, 1, NULL, &fix), MARE_COORD_FIX_ABSURD);
    assert_string_equal(mare_coord_fix_end_name(MARE_COORD_FIX_GEOMETRY), "geometry");
    assert_string_equal(mare_coord_fix_end_name((mare_coord_fix_end)99), "?");
}

UNIT_TESTS(cmocka_unit_test(two_circles_on_a_plane),
           cmocka_unit_test(three_satellites_with_right_clocks),
           cmocka_unit_test(four_satellites_with_a_wrong_clock),
           cmocka_unit_test(all_that_are_visible), cmocka_unit_test(errors_grow_by_the_dilution),
           cmocka_unit_test(a_plane_with_a_wrong_clock),
           cmocka_unit_test(known_errors_of_references), cmocka_unit_test(scales_do_not_matter),
           cmocka_unit_test(references_in_a_plane_cannot_tell_above_from_below),
           cmocka_unit_test(bad_geometry_is_reported), cmocka_unit_test(refuses_absurd_numbers),
           cmocka_unit_test(never_the_wrong_one_of_two),
           cmocka_unit_test(ordinary_noise_is_no_reason_to_be_lost))
