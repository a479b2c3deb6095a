/* SPDX-License-Identifier: MIT */

/* Vivaldi by hand: what it refuses, and where a few nodes end up. Whole networks are simulated in
 * tests/sim/test_place.c. */

#include <mare/coord_place.h>

#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NODES 8

static mare_coord_vivaldi *make(uint32_t dimensions, uint64_t seed)
{
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    setup.dimensions = dimensions;
    setup.seed = seed;
    size_t size = mare_coord_vivaldi_size(&setup);
    mare_coord_vivaldi *node = mare_coord_vivaldi_init(malloc(size), size, &setup);
    assert_non_null(node);
    return node;
}

static void make_all(mare_coord_vivaldi **node, uint32_t count, uint32_t dimensions)
{
    for (uint32_t i = 0; i < count; i++)
        node[i] = make(dimensions, i + 1);
}

static void free_all(mare_coord_vivaldi **node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        free(node[i]);
}

/* Every node probes every other, so many times over. */
static void probe_all(mare_coord_vivaldi **node, uint32_t count, const double *rtt, uint32_t times)
{
    for (uint32_t t = 0; t < times; t++) {
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t j = 0; j < count; j++) {
                mare_coord_place there = *mare_coord_vivaldi_here(node[j]);
                if (i != j)
                    assert_int_equal(
                        mare_coord_vivaldi_update(node[i], j, &there, rtt[i * count + j]),
                        MARE_COORD_OK);
            }
        }
    }
}

static double estimate(mare_coord_vivaldi **node, uint32_t i, uint32_t j)
{
    return mare_coord_place_distance(mare_coord_vivaldi_here(node[i]),
                                     mare_coord_vivaldi_here(node[j]));
}

static void near_to(double value, double wanted, double part)
{
    if (fabs(value - wanted) > part * wanted)
        fail_msg("%g is not within %g of %g", value, part, wanted);
}

static void refuses_setups_without_sense(void **state)
{
    (void)state;
    mare_coord_vivaldi_setup good, bad;
    uint64_t memory[8];
    mare_coord_vivaldi_setup_init(&good);
    assert_true(mare_coord_vivaldi_size(&good) > sizeof memory);
    assert_null(mare_coord_vivaldi_init(memory, sizeof memory, &good));
    bad = good, bad.dimensions = 0;
    assert_int_equal(mare_coord_vivaldi_size(&bad), 0);
    bad.dimensions = MARE_COORD_DIMENSIONS + 1;
    assert_int_equal(mare_coord_vivaldi_size(&bad), 0);
    bad = good, bad.neighbours = 7;
    assert_int_equal(mare_coord_vivaldi_size(&bad), 0);
    bad = good, bad.longest = NAN;
    assert_int_equal(mare_coord_vivaldi_size(&bad), 0);
    assert_null(mare_coord_vivaldi_init(memory, sizeof memory, &bad));
}

static void refuses_absurd_round_trips(void **state)
{
    (void)state;
    const double absurd[] = {0, -0.0, -1, NAN, INFINITY, -INFINITY, 10000.1, 1e300};
    mare_coord_vivaldi *node[2];
    const double rtt[] = {0, 20, 20, 0};
    make_all(node, 2, 3);
    probe_all(node, 2, rtt, 5);
    mare_coord_place before = *mare_coord_vivaldi_here(node[0]);
    mare_coord_place there = *mare_coord_vivaldi_here(node[1]);
    for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
        assert_int_equal(mare_coord_vivaldi_update(node[0], 1, &there, absurd[i]),
                         MARE_COORD_REFUSED);
    assert_memory_equal(&before, mare_coord_vivaldi_here(node[0]), sizeof before);
    free_all(node, 2);
}

static void refuses_places_that_cannot_be(void **state)
{
    (void)state;
    mare_coord_vivaldi *node = make(2, 1);
    mare_coord_place before = *mare_coord_vivaldi_here(node);
    const mare_coord_place good = {.x = {1, 2}, .height = 1, .error = 0.1};
    mare_coord_place bad[10], beyond = good;
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].x[0] = NAN, bad[1].x[7] = INFINITY, bad[2].x[1] = 1e12, bad[3].x[1] = -1e12;
    bad[4].height = -1, bad[5].height = 1e12, bad[6].height = NAN;
    bad[7].error = NAN, bad[8].error = -0.1, bad[9].error = INFINITY;
    assert_true(mare_coord_place_valid(&good));
    for (size_t i = 0; i < 10; i++) {
        assert_false(mare_coord_place_valid(&bad[i]));
        assert_int_equal(mare_coord_vivaldi_update(node, 1, &bad[i], 10), MARE_COORD_MALFORMED);
    }
    beyond.x[2] = 1; /* a third dimension, where there are two */
    assert_true(mare_coord_place_valid(&beyond));
    assert_int_equal(mare_coord_vivaldi_update(node, 1, &beyond, 10), MARE_COORD_MALFORMED);
    assert_memory_equal(&before, mare_coord_vivaldi_here(node), sizeof before);
    free(node);
}

/* A square with a side of 100 on a plane, and what each pays to get there: all can be met. */
static void finds_a_square_with_heights(void **state)
{
    (void)state;
    const double at[4][2] = {{0, 0}, {100, 0}, {100, 100}, {0, 100}}, height[] = {5, 10, 20, 3};
    double rtt[16];
    mare_coord_vivaldi *node[4];
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++)
            rtt[i * 4 + j] =
                hypot(at[i][0] - at[j][0], at[i][1] - at[j][1]) + height[i] + height[j];
    }
    make_all(node, 4, 2);
    probe_all(node, 4, rtt, 400);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t j = 0; j < i; j++)
            near_to(estimate(node, i, j), rtt[i * 4 + j], 0.03);
        assert_true(mare_coord_vivaldi_here(node[i])->error < 0.1);
        assert_true(mare_coord_vivaldi_here(node[i])->height >= 0);
    }
    free_all(node, 4);
}

/* 1.0, 2.0 and 3.2 break the triangle inequality (figure 6.18 of the book): no space can hold them,
 * yet no estimate is far off. */
static void lives_with_a_broken_triangle(void **state)
{
    (void)state;
    const double rtt[] = {0, 1, 3.2, 1, 0, 2, 3.2, 2, 0};
    mare_coord_vivaldi *node[3];
    make_all(node, 3, 2);
    probe_all(node, 3, rtt, 400);
    near_to(estimate(node, 0, 1), 1.0, 0.2);
    near_to(estimate(node, 1, 2), 2.0, 0.2);
    near_to(estimate(node, 0, 2), 3.2, 0.2);
    free_all(node, 3);
}

/* A peer is probed again and again; now and then a queue makes it ten times slower. */
static void filters_spikes_of_a_peer(void **state)
{
    (void)state;
    mare_coord_vivaldi *node[2];
    make_all(node, 2, 2);
    for (int t = 0; t < 400; t++) {
        for (uint32_t i = 0; i < 2; i++) {
            mare_coord_place there = *mare_coord_vivaldi_here(node[1 - i]);
            mare_coord_vivaldi_update(node[i], 1 - i, &there, t % 5 == 4 ? 500 : 50);
            if (t > 100)
                near_to(estimate(node, 0, 1), 50, 0.1);
        }
    }
    free_all(node, 2);
}

/* One of eight says something else about itself each time. The others are where they would be. */
static void one_liar_among_eight(void **state)
{
    (void)state;
    double rtt[NODES * NODES];
    mare_coord_vivaldi *node[NODES];
    uint64_t random = 7;
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < NODES; j++) /* on a circle, 10 to each node's own door */
            rtt[i * NODES + j] = 20 + 100 * sin(M_PI * abs(i - j) / NODES);
    }
    make_all(node, NODES, 2);
    for (int t = 0; t < 500 * NODES * (NODES - 1); t++) {
        uint32_t i = (uint32_t)(unit_random(&random) % NODES);
        uint32_t j = (uint32_t)(unit_random(&random) % NODES);
        mare_coord_place there = *mare_coord_vivaldi_here(node[j]);
        if (j == 0)
            there = (mare_coord_place){.x = {(double)(unit_random(&random) % 2000) - 1000,
                                             (double)(unit_random(&random) % 2000) - 1000}};
        if (i != j)
            mare_coord_vivaldi_update(node[i], j, &there, rtt[i * NODES + j]);
    }
    double sum = 0;
    for (uint32_t i = 1; i < NODES; i++) {
        for (uint32_t j = 1; j < i; j++)
            sum += fabs(estimate(node, i, j) / rtt[i * NODES + j] - 1);
    }
    assert_true(sum / 21 < 0.15);
    free_all(node, NODES);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median relative error of a newcomer at `home` that knows seven settled nodes, with a height
 * of 5 each, and an eighth that says that it is far away, always at the same place, and answers in
 * `fast` milliseconds. */
static double error_beside_a_liar(uint64_t seed, double fast, int probes)
{
    mare_coord_vivaldi *node = make(3, seed);
    mare_coord_place there[NODES] = {{.x = {500, 500}, .error = 0.05}}, home = {.height = 5};
    uint64_t random = seed, peers[NODES];
    double errors[NODES - 1];
    for (int k = 0; k < 3; k++)
        home.x[k] = (double)(unit_random(&random) % 200);
    for (uint64_t i = 0; i < NODES; i++) {
        peers[i] = i;
        for (int k = 0; k < 3 && i > 0; k++)
            there[i].x[k] = (double)(unit_random(&random) % 200);
        if (i > 0)
            there[i].height = 5, there[i].error = 0.1;
    }
    for (int t = 0; t < probes; t++) {
        uint32_t i = mare_coord_vivaldi_choose(node, peers, NODES);
        double rtt = i == 0 ? fast : mare_coord_place_distance(&home, &there[i]);
        mare_coord_vivaldi_update(node, i, &there[i], rtt);
    }
    for (int i = 1; i < NODES; i++)
        errors[i - 1] = fabs(mare_coord_place_distance(mare_coord_vivaldi_here(node), &there[i]) /
                                 mare_coord_place_distance(&home, &there[i]) -
                             1);
    qsort(errors, NODES - 1, sizeof *errors, by_size);
    free(node);
    return errors[(NODES - 1) / 2];
}

/* Every fourth probe goes to the liar, for nobody seems nearer; and still it captures nobody. */
static void a_steady_liar_captures_no_newcomer(void **state)
{
    (void)state;
    const double fast[] = {0.5, 2, 5, 8};
    const int probes[] = {40, 200, 1000};
    for (int f = 0; f < 4; f++) {
        for (int p = 0; p < 3; p++) {
            double sum = 0;
            for (uint64_t seed = 1; seed <= 50; seed++) {
                double error = error_beside_a_liar(seed, fast[f], probes[p]);
                if (error > 0.5)
                    fail_msg("captured: error %g, liar at %g ms, after %d probes, seed %d", error,
                             fast[f], probes[p], (int)seed);
                sum += error;
            }
            assert_true(sum / 50 < 0.2);
        }
    }
}

/* Round trips as long as can be set, from peers at the edge: the node stays at a place. */
static void never_leaves_where_one_can_be(void **state)
{
    (void)state;
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    setup.dimensions = 2, setup.longest = 1e9;
    size_t size = mare_coord_vivaldi_size(&setup);
    mare_coord_vivaldi *node = mare_coord_vivaldi_init(malloc(size), size, &setup);
    for (uint64_t t = 0; t < 2000; t++) {
        double error = t < 1000 ? 1.5 : 0.1;
        mare_coord_place there = {.x = {t % 2 ? 1e9 : 9.9e8, t % 3 ? 1e9 : 9.8e8}, .error = error};
        if (t < 1000)
            there = (mare_coord_place){.x = {-1e9, -1e9}, .error = 1.5};
        assert_int_equal(mare_coord_vivaldi_update(node, t % 8, &there, 1e9), MARE_COORD_OK);
        assert_true(mare_coord_place_valid(mare_coord_vivaldi_here(node)));
    }
    free(node);
}

static void forgets_who_is_gone(void **state)
{
    (void)state;
    const double rtt[] = {0, 30, 40, 30, 0, 50, 40, 50, 0};
    mare_coord_vivaldi *node[3];
    make_all(node, 3, 2);
    probe_all(node, 3, rtt, 50);
    mare_coord_vivaldi_forget(node[0], 2);
    mare_coord_vivaldi_forget(node[0], 2);
    mare_coord_vivaldi_forget(node[0], 99);
    probe_all(node, 2, (const double[]){0, 30, 30, 0}, 50);
    near_to(estimate(node, 0, 1), 30, 0.05);
    mare_coord_vivaldi_forget(node[0], 1);
    free_all(node, 3);
}

/* Half of the probes go anywhere, the other half to the nearer ones. */
static void chooses_near_and_far(void **state)
{
    (void)state;
    uint64_t peers[16];
    uint32_t chosen[16] = {0};
    mare_coord_vivaldi *node = make(2, 3);
    assert_int_equal(mare_coord_vivaldi_choose(node, peers, 0), MARE_COORD_NOBODY);
    for (uint64_t i = 0; i < 16; i++) {
        mare_coord_place there = {.x = {10.0 * (double)(i + 1)}, .error = 0.1};
        peers[i] = 1000 + i;
        mare_coord_vivaldi_update(node, peers[i], &there, 10.0 * (double)(i + 1));
    }
    for (int t = 0; t < 16000; t++) {
        uint32_t i = mare_coord_vivaldi_choose(node, peers, 16);
        assert_in_range(i, 0, 15);
        chosen[i]++;
    }
    /* The nearest of four draws is the first of sixteen with 1 - (15/16)^4 = 0.228: in the mean of
     * both halves it is chosen with 0.145, the last one with hardly more than 1/32. */
    assert_in_range(chosen[0], 2000, 2650);
    assert_in_range(chosen[15], 350, 650);
    free(node);
}

static void same_calls_same_bits(void **state)
{
    (void)state;
    const double rtt[] = {0, 30, 40, 30, 0, 50, 40, 50, 0};
    mare_coord_vivaldi *a[3], *b[3];
    make_all(a, 3, 8);
    make_all(b, 3, 8);
    probe_all(a, 3, rtt, 100);
    probe_all(b, 3, rtt, 100);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(mare_coord_vivaldi_here(a[i]), mare_coord_vivaldi_here(b[i]),
                            sizeof(mare_coord_place));
    free_all(a, 3);
    free_all(b, 3);
}

/* A settled node is carried to the other side of the world: it begins again, and soon is there. */
static void finds_its_way_after_a_move(void **state)
{
    (void)state;
    mare_coord_vivaldi *node = make(3, 5);
    mare_coord_place there[20];
    uint64_t random = 11;
    for (int i = 0; i < 20; i++)
        there[i] = (mare_coord_place){.x = {(double)(unit_random(&random) % 300),
                                            (double)(unit_random(&random) % 300),
                                            (double)(unit_random(&random) % 300)},
                                      .height = 2,
                                      .error = 0.05};
    mare_coord_place home = {.x = {20, 20, 20}, .height = 3}, away = {.x = {900, 20, 20}};
    for (int t = 0; t < 300; t++)
        mare_coord_vivaldi_update(node, (uint64_t)t % 20, &there[t % 20],
                                  mare_coord_place_distance(&home, &there[t % 20]));
    assert_true(mare_coord_place_distance(mare_coord_vivaldi_here(node), &home) < 10);
    for (int t = 0; t < 100; t++)
        mare_coord_vivaldi_update(node, (uint64_t)t % 20, &there[t % 20],
                                  mare_coord_place_distance(&away, &there[t % 20]));
    for (int i = 0; i < 20; i++)
        near_to(mare_coord_place_distance(mare_coord_vivaldi_here(node), &there[i]),
                mare_coord_place_distance(&away, &there[i]), 0.1);
    free(node);
}

UNIT_TESTS(cmocka_unit_test(refuses_setups_without_sense),
           cmocka_unit_test(refuses_absurd_round_trips),
           cmocka_unit_test(refuses_places_that_cannot_be),
           cmocka_unit_test(finds_a_square_with_heights),
           cmocka_unit_test(lives_with_a_broken_triangle),
           cmocka_unit_test(filters_spikes_of_a_peer), cmocka_unit_test(one_liar_among_eight),
           cmocka_unit_test(a_steady_liar_captures_no_newcomer),
           cmocka_unit_test(never_leaves_where_one_can_be), cmocka_unit_test(forgets_who_is_gone),
           cmocka_unit_test(chooses_near_and_far), cmocka_unit_test(same_calls_same_bits),
           cmocka_unit_test(finds_its_way_after_a_move))
