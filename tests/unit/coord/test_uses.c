/* SPDX-License-Identifier: MIT */

/* What places are good for: nearest replica, placement, routing by position. */

#include "support/unit.h"

#include <mare/coord_place.h>
#include <math.h>
#include <string.h>

static uint64_t memory[1024];

static mare_coord_place at(double x, double y)
{
    return (mare_coord_place){.x = {x, y}};
}

static void near_to(double value, double wanted, double within)
{
    if (!(fabs(value - wanted) <= within))
        fail_msg("%.9g is not %.9g within %g", value, wanted, within);
}

static void the_nearest_of_some(void **state)
{
    (void)state;
    mare_coord_place client = at(0, 0), sites[] = {at(9, 0), at(3, 4), at(0, 6)};
    assert_int_equal(mare_coord_nearest(&client, sites, 3), 1);
    sites[1].height = 2; /* a slow way to the net: 7 */
    assert_int_equal(mare_coord_nearest(&client, sites, 3), 2);
    assert_int_equal(mare_coord_nearest(&client, sites, 0), MARE_COORD_NOBODY);
}

static double choose(const mare_coord_replicas *wanted, uint32_t *chosen)
{
    double mean = -1;
    assert_int_equal(mare_coord_replicas_choose(wanted, memory, sizeof memory, chosen, &mean),
                     MARE_COORD_OK);
    return mean;
}

/* Three towns of 4, 3 and 2 houses: one replica goes to the middle, three one to each. */
static void a_replica_for_each_town(void **state)
{
    (void)state;
    const mare_coord_place house[] = {at(0, 0),   at(1, 0),   at(0, 1),   at(1, 1),  at(100, 0),
                                      at(101, 0), at(100, 1), at(50, 80), at(51, 80)};
    mare_coord_replicas wanted = {
        .count = 3, .clients = 9, .sites = 9, .client = house, .site = house};
    uint32_t chosen[9], towns[3] = {0};
    /* Each of the towns of four costs 0 + 1 + 1 + sqrt(2) from a corner, of three 0 + 1 + 1 from
     * its corner, of two 0 + 1. */
    near_to(choose(&wanted, chosen), (2 + sqrt(2) + 2 + 1) / 9, 1e-12);
    for (int k = 0; k < 3; k++)
        towns[chosen[k] < 4 ? 0 : chosen[k] < 7 ? 1 : 2]++;
    assert_true(towns[0] == 1 && towns[1] == 1 && towns[2] == 1);
    wanted.count = 9;
    near_to(choose(&wanted, chosen), 0, 1e-12);
}

/* Greedy alone takes the middle first and is stuck with it; an exchange finds the two ends. */
static void exchanges_undo_a_greedy_choice(void **state)
{
    (void)state;
    const mare_coord_place house[] = {at(-10, 0), at(-10, 0), at(0, 0), at(10, 0), at(10, 0)};
    mare_coord_replicas wanted = {
        .count = 2, .clients = 5, .sites = 5, .client = house, .site = house};
    uint32_t chosen[2];
    near_to(choose(&wanted, chosen), 10.0 / 5, 1e-12);
    assert_true((chosen[0] < 2 && chosen[1] > 2) || (chosen[1] < 2 && chosen[0] > 2));
}

/* All choices tried one by one: exchanges end no more than a little above the best. */
static void compared_with_the_best(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    double ours = 0, best = 0;
    for (int t = 0; t < 40; t++) {
        mare_coord_place house[14];
        double share[14], all = 0, least = 1e300;
        uint32_t chosen[3];
        for (int i = 0; i < 14; i++) {
            house[i] =
                at((double)(unit_random(&random) % 1000), (double)(unit_random(&random) % 1000));
            share[i] = 1 + (double)(unit_random(&random) % 5);
            all += share[i];
        }
        mare_coord_replicas wanted = {
            .count = 3, .clients = 14, .sites = 14, .client = house, .site = house, .share = share};
        double mean = choose(&wanted, chosen);
        for (int a = 0; a < 14; a++) {
            for (int b = 0; b < a; b++) {
                for (int c = 0; c < b; c++) {
                    double sum = 0;
                    for (int i = 0; i < 14; i++)
                        sum +=
                            share[i] * fmin(fmin(mare_coord_place_distance(&house[i], &house[a]),
                                                 mare_coord_place_distance(&house[i], &house[b])),
                                            mare_coord_place_distance(&house[i], &house[c]));
                    least = fmin(least, sum / all);
                }
            }
        }
        assert_true(mean >= least - 1e-9);
        assert_true(mean <= 1.3 * least);
        ours += mean;
        best += least;
    }
    assert_true(ours <= 1.03 * best);
}

static double table_cost(void *context, uint32_t client, uint32_t site)
{
    return ((const double(*)[2])context)[client][site];
}

static void costs_of_ones_own(void **state)
{
    (void)state;
    double table[3][2] = {{1, 9}, {2, 7}, {8, 3}};
    mare_coord_replicas wanted = {
        .count = 1, .clients = 3, .sites = 2, .cost = table_cost, .context = table};
    uint32_t chosen[2];
    near_to(choose(&wanted, chosen), 11.0 / 3, 1e-12);
    assert_int_equal(chosen[0], 0);
    double share[] = {0, 1, 9};
    wanted.share = share;
    near_to(choose(&wanted, chosen), 3.4, 1e-12);
    assert_int_equal(chosen[0], 1);
}

static void refuses_what_makes_no_sense(void **state)
{
    (void)state;
    const mare_coord_place house[] = {at(0, 0), at(1, 1)};
    const double nothing[] = {0, 0};
    uint32_t chosen[3];
    double mean;
    mare_coord_replicas good = {
        .count = 1, .clients = 2, .sites = 2, .client = house, .site = house};
    mare_coord_replicas bad[] = {good, good, good, good};
    bad[0].count = 0, bad[1].count = 3, bad[2].clients = 0, bad[3].share = nothing;
    for (int i = 0; i < 4; i++)
        assert_int_equal(mare_coord_replicas_choose(&bad[i], memory, sizeof memory, chosen, &mean),
                         MARE_COORD_REFUSED);
    assert_int_equal(mare_coord_replicas_choose(&good, memory, 8, chosen, &mean),
                     MARE_COORD_NOROOM);
}

/* Follows next hops along links. Returns where it ends; counts the hops. */
static int walk(const mare_coord_place *node, int link[][8], int from, int to, int *hops)
{
    for (*hops = 0; from != to; (*hops)++) {
        mare_coord_place neighbour[8];
        uint32_t count = 0;
        while (link[from][count] >= 0) {
            neighbour[count] = node[link[from][count]];
            count++;
        }
        uint32_t next = mare_coord_next_hop(&node[from], &node[to], neighbour, count);
        if (next == MARE_COORD_NOBODY)
            return from;
        from = link[from][next];
        assert_true(*hops < 20);
    }
    return from;
}

/*   0 - 1 - 2 - 3     along the line it arrives; across the bay between 4 and 5 it does not:
 *           |         nobody near 4 is nearer to 5 than 4 itself, though a way exists. */
static void greedy_routing_and_its_dead_end(void **state)
{
    (void)state;
    const mare_coord_place node[] = {at(0, 0), at(1, 0), at(2, 0), at(3, 0),
                                     at(2, 2), at(2, 4), at(5, 0), at(5, 4)};
    int link[][8] = {{1, -1}, {0, 2, -1}, {1, 3, 4, -1}, {2, 6, -1},
                     {2, -1}, {7, -1},    {3, 7, -1},    {6, 5, -1}};
    int hops;
    assert_int_equal(walk(node, link, 0, 3, &hops), 3);
    assert_int_equal(hops, 3);
    assert_int_equal(walk(node, link, 0, 5, &hops), 4); /* caught at 4: 2 from 5, its way is back */
    assert_int_equal(walk(node, link, 6, 5, &hops), 5);
    assert_int_equal(walk(node, link, 4, 4, &hops), 4);
    assert_int_equal(hops, 0);
    assert_int_equal(mare_coord_next_hop(&node[0], &node[3], node, 0), MARE_COORD_NOBODY);
}

/* A client on the site itself pays nothing, however long its way to the net is. */
static void heights_are_not_paid_to_oneself(void **state)
{
    (void)state;
    mare_coord_place node[] = {at(0, 0), at(30, 0)};
    node[0].height = 50, node[1].height = 1;
    assert_int_equal(mare_coord_nearest(&node[0], node, 2), 0); /* 0 against 81 */
    mare_coord_replicas wanted = {
        .count = 2, .clients = 2, .sites = 2, .client = node, .site = node};
    uint32_t chosen[2];
    near_to(choose(&wanted, chosen), 0, 1e-12);
    wanted.count = 1; /* each is 81 from the other */
    near_to(choose(&wanted, chosen), 81.0 / 2, 1e-12);
}

/* The target has a long way to the net: a node beside it is by 10 + 0.5 from it, the target as its
 * own neighbour is not. And on the way a neighbour with a longer way to the net is no step. */
static void routing_with_heights(void **state)
{
    (void)state;
    mare_coord_place here = at(5, 0), target = at(0, 0), neighbour[] = {at(4, 0), at(0, 0)};
    here.height = 0.5, target.height = neighbour[1].height = 10, neighbour[0].height = 2;
    assert_int_equal(mare_coord_next_hop(&here, &target, neighbour, 1), MARE_COORD_NOBODY);
    assert_int_equal(mare_coord_next_hop(&here, &target, neighbour, 2), 1);
    here = at(0, 0); /* on the target's point, but not the target */
    assert_int_equal(mare_coord_next_hop(&here, &target, neighbour, 2), 1);
    assert_int_equal(mare_coord_next_hop(&target, &target, neighbour, 2), MARE_COORD_NOBODY);
}

static void what_cannot_be_a_place_is_not_chosen(void **state)
{
    (void)state;
    mare_coord_place client = at(0, 0), none = at(NAN, 0), site[] = {none, at(3, 4), at(9, 9)};
    mare_coord_place deep = at(0, 0), beyond = at(1e300, 0);
    deep.height = -100;
    uint32_t chosen[3];
    double mean;
    assert_int_equal(mare_coord_nearest(&client, site, 3), 1);
    assert_int_equal(mare_coord_nearest(&client, site, 1), MARE_COORD_NOBODY);
    assert_int_equal(mare_coord_nearest(&none, site, 3), MARE_COORD_NOBODY);
    assert_int_equal(mare_coord_nearest(&client, &deep, 1), MARE_COORD_NOBODY);
    assert_int_equal(mare_coord_next_hop(&site[2], &client, site, 3), 1);
    assert_int_equal(mare_coord_next_hop(&none, &client, site, 3), MARE_COORD_NOBODY);
    assert_int_equal(mare_coord_next_hop(&beyond, &client, site, 3), MARE_COORD_NOBODY);
    assert_int_equal(mare_coord_next_hop(&client, &none, site, 3), MARE_COORD_NOBODY);
    mare_coord_replicas wanted = {
        .count = 1, .clients = 1, .sites = 3, .client = &client, .site = site};
    assert_int_equal(mare_coord_replicas_choose(&wanted, memory, sizeof memory, chosen, &mean),
                     MARE_COORD_REFUSED);
    wanted.site = site + 1, wanted.sites = 2;
    near_to(choose(&wanted, chosen), 5, 1e-12);
    wanted.client = &none;
    assert_int_equal(mare_coord_replicas_choose(&wanted, memory, sizeof memory, chosen, &mean),
                     MARE_COORD_REFUSED);
}

UNIT_TESTS(cmocka_unit_test(the_nearest_of_some), cmocka_unit_test(a_replica_for_each_town),
           cmocka_unit_test(exchanges_undo_a_greedy_choice),
           cmocka_unit_test(compared_with_the_best), cmocka_unit_test(costs_of_ones_own),
           cmocka_unit_test(refuses_what_makes_no_sense),
           cmocka_unit_test(greedy_routing_and_its_dead_end),
           cmocka_unit_test(heights_are_not_paid_to_oneself),
           cmocka_unit_test(routing_with_heights),
           cmocka_unit_test(what_cannot_be_a_place_is_not_chosen))
