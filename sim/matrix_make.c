/* SPDX-License-Identifier: MIT */

/* Networks that the project makes itself, as hard as measured ones. Each kind first settles its
 * nodes, then says how long the way between two of them takes. Decided by the seed alone.
 *
 *     kind     like                              round trips       broken triangles
 *     made     hosts in towns, detours           10 to 400 ms      1 in 6
 *     noisy    volunteers' machines that wait    10 ms to 1 s,     more than half; either way
 *              before they answer                rounded to 10 ms  has a round trip of its own
 *     centre   racks of one data centre          0.05 to 0.5 ms    1 in 20
 *     sites    six data centres, far apart       0.2 to 250 ms     4 in 10
 */

#include "sim/place.h"
#include "sim/random.h"

#include <stdlib.h>

enum { TOWNS = 12, NOISY_TOWNS = 5, SITES = 6, RACK = 12, ROW = 4 };

struct maker {
    mare_sim_random random;
    mare_coord_place *node;
    uint32_t *group; /* the rack or the site of a node */
    uint32_t n;
};

static double uniform(mare_sim_random *random)
{
    return (double)(mare_sim_draw(random) >> 11) / 9007199254740992.0;
}

/* Pareto's distribution with exponent 2, cut off: at least 1, 2 in the mean, seldom large. */
static double heavy(mare_sim_random *random)
{
    double u = uniform(random), low = 1, high = 20;
    while (high - low > 1e-6) { /* bisection: without libm there is no root function */
        double x = (low + high) / 2;
        if (1 / (x * x) > u)
            low = x;
        else
            high = x;
    }
    return low;
}

/* Nodes in towns of a side of `size` on a plane of width and depth, `height` from the net. */
static void settle_in_towns(struct maker *maker, int towns, const double plane[2], double size,
                            double height)
{
    mare_sim_random *random = &maker->random;
    double town[TOWNS][2];
    for (int t = 0; t < towns; t++) {
        town[t][0] = plane[0] * uniform(random);
        town[t][1] = plane[1] * uniform(random);
    }
    for (uint32_t i = 0; i < maker->n; i++) {
        uint64_t home = mare_sim_below(random, (uint64_t)towns);
        maker->group[i] = (uint32_t)home;
        maker->node[i].x[0] = town[home][0] + size * uniform(random);
        maker->node[i].x[1] = town[home][1] + size * uniform(random);
        maker->node[i].height = height * heavy(random);
    }
}

static double distance(const struct maker *maker, uint32_t i, uint32_t j)
{
    return mare_coord_place_distance(&maker->node[i], &maker->node[j]);
}

static void settle_made(struct maker *maker)
{
    settle_in_towns(maker, TOWNS, (const double[]){200, 120}, 15, 2);
}

static double way_made(struct maker *maker, uint32_t i, uint32_t j)
{
    double detour = uniform(&maker->random) < 0.25 ? 0.5 + 0.5 * heavy(&maker->random) : 1;
    return detour * distance(maker, i, j);
}

static void settle_noisy(struct maker *maker)
{
    settle_in_towns(maker, NOISY_TOWNS, (const double[]){250, 150}, 20, 4);
}

/* One answer in three waits until the machine looks for packets; a few come much later. */
static double way_noisy(struct maker *maker, uint32_t i, uint32_t j)
{
    mare_sim_random *random = &maker->random;
    double rtt = distance(maker, i, j) * (1 + 0.3 * uniform(random));
    if (uniform(random) < 0.35)
        rtt += 280 + 200 * uniform(random);
    if (uniform(random) < 0.01)
        rtt += 500 * heavy(random);
    return 10 * (double)(uint64_t)(rtt / 10 + 0.5);
}

static void settle_centre(struct maker *maker)
{
    for (uint32_t i = 0; i < maker->n; i++) {
        maker->group[i] = (uint32_t)mare_sim_below(&maker->random, maker->n / RACK + 1);
        maker->node[i].height = 0.012 * heavy(&maker->random);
    }
}

static double way_centre(struct maker *maker, uint32_t i, uint32_t j)
{
    uint32_t here = maker->group[i], there = maker->group[j];
    double rtt = here == there ? 0.03 : here / ROW == there / ROW ? 0.08 : 0.18;
    rtt = (rtt + distance(maker, i, j)) * (1 + 0.15 * uniform(&maker->random));
    return uniform(&maker->random) < 0.1 ? rtt * (0.5 + 0.5 * heavy(&maker->random)) : rtt;
}

static void settle_sites(struct maker *maker)
{
    settle_in_towns(maker, SITES, (const double[]){200, 120}, 0, 0.1);
}

static double way_sites(struct maker *maker, uint32_t i, uint32_t j)
{
    return distance(maker, i, j) * (1 + 0.1 * uniform(&maker->random));
}

static const struct kind {
    const char *name;
    void (*settle)(struct maker *maker);
    double (*way)(struct maker *maker, uint32_t i, uint32_t j);
    int one_way; /* the round trips i to j and j to i are unrelated */
} kinds[MARE_SIM_NETWORKS] = {
    [MARE_SIM_MADE] = {"made", settle_made, way_made, 0},
    [MARE_SIM_NOISY] = {"noisy", settle_noisy, way_noisy, 1},
    [MARE_SIM_CENTRE] = {"centre", settle_centre, way_centre, 0},
    [MARE_SIM_SITES] = {"sites", settle_sites, way_sites, 0},
};

const char *mare_sim_network_name(mare_sim_network network)
{
    return kinds[network].name;
}

int mare_sim_matrix_make(mare_sim_matrix *matrix, mare_sim_network network, uint32_t n,
                         uint64_t seed)
{
    const struct kind *kind = &kinds[network];
    struct maker maker = {.random = mare_sim_stream(seed, 77), .n = n};
    maker.node = calloc(n, sizeof *maker.node);
    maker.group = calloc(n, sizeof *maker.group);
    *matrix = (mare_sim_matrix){.n = n, .rtt = calloc((size_t)n * n, sizeof *matrix->rtt)};
    int made = maker.node && maker.group && matrix->rtt;
    if (made) {
        kind->settle(&maker);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < i; j++) {
                double rtt = matrix->rtt[(size_t)i * n + j] = kind->way(&maker, i, j);
                matrix->rtt[(size_t)j * n + i] = kind->one_way ? kind->way(&maker, j, i) : rtt;
            }
        }
    } else {
        mare_sim_matrix_fini(matrix);
    }
    free(maker.node);
    free(maker.group);
    return made;
}
