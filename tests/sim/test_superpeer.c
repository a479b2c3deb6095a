/* SPDX-License-Identifier: MIT */

/* Superpeers in the simulator: how many there are beside the formula, and the four requirements of
 * the sources (a short way to a superpeer, an even spread, a set proportion, a bounded load) as
 * measured, for both ways of choosing them. */

#include "support/unit.h"

#include "coord/election/place.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>

#define NODES 256u

/* What each node was told last. */
typedef struct census {
    mare_sim_observer observer;
    uint32_t superpeer[NODES], load[NODES];
    uint32_t superpeers, most;
} census;

static void see(mare_sim_observer *self, const mare_sim_observation *seen)
{
    census *c = (census *)self;
    if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_ELECTED)
        c->superpeer[seen->process] = seen->effect->peer;
}

/* Runs until nothing changes any more, and counts. */
static void take_census(census *c, mare_sim_options *options, mare_sim_outcome *out)
{
    uint32_t n = options->setup.members;
    *c = (census){.observer = {.see = see}};
    mare_sim_observer *observers[] = {&c->observer, NULL};
    options->no_vectors = 1;
    options->rounds = options->entrants = 1;
    assert_true(mare_sim_run(options, observers, out));
    for (uint32_t i = 0; i < n; i++)
        c->load[c->superpeer[i]]++;
    for (uint32_t i = 0; i < n; i++) {
        c->superpeers += c->load[i] > 0;
        c->most = c->load[i] > c->most ? c->load[i] : c->most;
        assert_true(c->load[i] == 0 || c->superpeer[i] == i);
    }
}

/* m = 8 and k = 3: with every identifier taken there are 2^(3−8) · 256 = 8, and each serves 32. */
static void the_example_of_the_book(void **state)
{
    (void)state;
    for (int64_t salt = 0; salt < 5; salt++) {
        mare_sim_options options;
        mare_sim_outcome out;
        census c;
        mare_sim_options_init(&options, mare_coord_find("superpeer-dht"), NODES);
        mare_coord_setup_set(&options.setup, "salt", salt);
        take_census(&c, &options, &out);
        assert_int_equal(c.superpeers, 8);
        assert_int_equal(c.most, 32);
        print_message("# dht      m=8 k=3 N=256: %u superpeers of load %u, %.2f hops a lookup\n",
                      (unsigned)c.superpeers, (unsigned)c.most,
                      (double)out.by_kind[0] / (double)NODES);
    }
}

/* A sparse circle (m = 16): one superpeer for each pattern with somebody behind it. */
static void sparse_circles(void **state)
{
    (void)state;
    for (uint32_t n = 8; n <= NODES; n *= 2) {
        double sum = 0, most = 0, hops = 0, expected = 8 * (1 - pow(7.0 / 8, n));
        for (int64_t salt = 0; salt < 40; salt++) {
            mare_sim_options options;
            mare_sim_outcome out;
            census c;
            mare_sim_options_init(&options, mare_coord_find("superpeer-dht"), n);
            mare_coord_setup_set(&options.setup, "salt", salt * 7919);
            mare_coord_setup_set(&options.setup, "bits", 16);
            options.duration_us = 100000;
            take_census(&c, &options, &out);
            sum += c.superpeers;
            most += c.most;
            hops += (double)out.by_kind[0] / n;
            assert_true(c.superpeers <= 8);
        }
        print_message("# dht      m=16 k=3 N=%-3u: %.2f superpeers (2^k(1-(1-2^-k)^N) = %.2f), "
                      "largest load %.1f, %.2f hops a lookup\n",
                      (unsigned)n, sum / 40, expected, most / 40, hops / 40);
        assert_true(fabs(sum / 40 - expected) < 0.6);
    }
}

/* Distances of all nodes to the nearest of a set, and between the two nearest of the set. */
static void measure(const uint8_t *chosen, uint64_t salt, double *way, double *gap)
{
    *way = 0;
    *gap = 1e9;
    for (uint32_t i = 0; i < NODES; i++) {
        double least = 1e9;
        for (uint32_t j = 0; j < NODES; j++) {
            double d = sqrt((double)mare__place_square(salt, i, j, 2));
            if (chosen[j] && d < least)
                least = d;
            if (chosen[i] && chosen[j] && i < j && d < *gap)
                *gap = d;
        }
        *way += least / NODES;
    }
}

/* Tokens that repel each other lie further apart, and nearer to everybody, than where they began:
 * at nodes picked at random. */
static void tokens_spread(void **state)
{
    (void)state;
    double way_sum[2] = {0}, gap_sum[2] = {0}, most = 0;
    for (int64_t salt = 1; salt <= 10; salt++) {
        mare_sim_options options;
        mare_sim_outcome out;
        census c;
        uint8_t before[NODES] = {0}, after[NODES] = {0};
        double way, gap;
        mare_sim_options_init(&options, mare_coord_find("superpeer-tokens"), NODES);
        mare_coord_setup_set(&options.setup, "salt", salt);
        mare_coord_setup_set(&options.setup, "tokens", 8);
        options.duration_us = 3000000;
        take_census(&c, &options, &out);
        assert_int_equal(c.superpeers, 8); /* the proportion is what was asked for */
        for (uint32_t i = 0; i < NODES; i++) {
            before[i] = i < 8;
            after[i] = c.load[i] > 0;
        }
        measure(before, (uint64_t)salt, &way, &gap);
        way_sum[0] += way / 10;
        gap_sum[0] += gap / 10;
        measure(after, (uint64_t)salt, &way, &gap);
        way_sum[1] += way / 10;
        gap_sum[1] += gap / 10;
        most += c.most / 10.0;
    }
    print_message(
        "# tokens   8 of N=256, a square of 1024: mean way to a superpeer %.0f (at random "
        "%.0f), nearest two %.0f apart (%.0f), largest load %.1f (even: 32)\n",
        way_sum[1], way_sum[0], gap_sum[1], gap_sum[0], most);
    assert_true(way_sum[1] < way_sum[0]);
    assert_true(gap_sum[1] > 2 * gap_sum[0]);
}

/* One that hears of two superpeers has the nearer one, by the places that its host has measured. */
static void measured_places_count(void **state)
{
    (void)state;
    static uint64_t memory[128];
    static mare_coord_effect list[16];
    static uint8_t room[1024], bytes[64];
    int32_t places[] = {0, 0, 0, 900, 0, 0, 0, 100, 0};
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, mare_coord_find("superpeer-tokens"), 3);
    setup.founds = 1;
    mare_coord_setup_set(&setup, "dimensions", 3);
    mare_coord *m = mare_coord_init(memory, sizeof memory, &setup);
    mare_coord_effects fx = {.list = list, .room = 16, .bytes = room, .bytes_room = sizeof room};
    assert_non_null(m);
    mare__superpeer_places(m, places);
    mare_coord_event event = {.kind = MARE_COORD_START, .now_us = 1};
    assert_int_equal(mare_coord_step(m, &event, &fx), MARE_COORD_OK);
    uint8_t table[24] = {[0] = 1, [4] = 1, [12] = 2, [16] = 1}; /* each token's holder, stamp */
    mare_coord_message msg = {.tail = table, .tail_length = sizeof table};
    event = (mare_coord_event){.kind = MARE_COORD_MESSAGE, .peer = 1, .now_us = 2, .data = bytes};
    event.length = mare_coord_encode(setup.algorithm, &msg, bytes, sizeof bytes);
    for (uint32_t nearer = 2; nearer >= 1; nearer--) {
        assert_int_equal(mare_coord_step(m, &event, &fx), MARE_COORD_OK);
        assert_int_equal(fx.count, 1);
        assert_int_equal(fx.list[0].kind, MARE_COORD_ELECTED);
        assert_int_equal(fx.list[0].peer, nearer);
        places[7] = 1000; /* the second has moved away */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_places_count),
        cmocka_unit_test(the_example_of_the_book),
        cmocka_unit_test(sparse_circles),
        cmocka_unit_test(tokens_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
