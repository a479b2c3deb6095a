/* SPDX-License-Identifier: MIT */

/* Runs of network coordinates on a matrix, and their errors. */

#include "sim/place.h"
#include "sim/random.h"
#include "sim/springs.h"

#include <stdlib.h>
#include <string.h>

#define CYCLES 1000u
#define JOIN_PROBES 400u /* probes of a joining node; the error after them counts as its last */
#define JOIN_LAST 50u    /* over so many of them */
#define JOIN_WITHIN 1.25
#define STEADY 2.0    /* in which a steady liar answers: hardly anybody seems nearer */
#define JOIN_STAYS 3u /* probes in a row within it count as having come there */

struct world {
    const mare_sim_vivaldi *run;
    const mare_sim_matrix *matrix;
    uint32_t dimensions;
    mare_coord_vivaldi **node;
    char *memory;
    struct mare__springs *springs;       /* instead of these, */
    struct mare__springs_filter *filter; /* of node i for node j */
    mare_sim_random draws, noise;
    double unit;    /* of what liars say: a hundredth of the median round trip */
    double *errors; /* room for one node's */
};

static mare_coord_place here(const struct world *world, uint32_t i)
{
    if (!world->run->springs)
        return *mare_coord_vivaldi_here(world->node[i]);
    mare_coord_place place = world->springs[i].here;
    place.height += world->springs[i].adjustment; /* as every estimate has it */
    return place;
}

/* The place that a liar gives: a new one each time, or always the same far one; and it claims to be
 * very sure. */
static mare_coord_place lie(struct world *world, uint32_t j)
{
    mare_coord_place place = {.x = {500 + j, 500}, .error = 0.001};
    for (int i = 0; i < 2 && !world->run->steady; i++)
        place.x[i] = (double)mare_sim_below(&world->noise, 2000) - 1000;
    for (int i = 0; i < 2; i++)
        place.x[i] *= i < (int)world->dimensions ? world->unit : 0;
    return place;
}

static void probe(struct world *world, uint32_t i, uint32_t j)
{
    double rtt = mare_sim_matrix_at(world->matrix, i, j);
    int lies = j < world->run->liars;
    if (!(rtt > 0))
        return;
    uint32_t ppm = (uint32_t)(world->run->spikes * 1e6);
    if (mare_sim_chance(&world->noise, ppm))
        rtt *= 1 + (double)mare_sim_below(&world->noise, 900) / 100;
    if (lies && world->run->steady)
        rtt = STEADY * world->unit;
    if (world->run->springs) {
        struct mare__springs there = world->springs[j];
        if (lies)
            there = (struct mare__springs){.here = lie(world, j)};
        mare__springs_update(&world->springs[i], &there,
                             &world->filter[(size_t)i * world->matrix->n + j], rtt,
                             world->dimensions, &world->noise);
    } else {
        mare_coord_place there = lies ? lie(world, j) : here(world, j);
        mare_coord_vivaldi_update(world->node[i], j, &there, rtt);
    }
}

/* One cycle: each of the first `count` probes one of the others among them. */
static void cycle(struct world *world, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = (uint32_t)mare_sim_below(&world->draws, count - 1);
        probe(world, i, j + (j >= i));
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median relative error of node i towards the first `count`. */
static double error_of(struct world *world, uint32_t i, uint32_t count)
{
    uint32_t n = 0;
    mare_coord_place from = here(world, i);
    for (uint32_t j = 0; j < count; j++) {
        double rtt = mare_sim_matrix_at(world->matrix, i, j);
        mare_coord_place to = here(world, j);
        double wrong = mare_coord_place_distance(&from, &to);
        if (i != j && rtt > 0)
            world->errors[n++] = wrong > rtt ? wrong / rtt - 1 : 1 - wrong / rtt;
    }
    qsort(world->errors, n, sizeof *world->errors, by_size);
    return n ? world->errors[n / 2] : 0;
}

/* Node i joins the first `count` nodes, which stay where they are. Returns after how many probes it
 * has come within JOIN_WITHIN of its last error. */
static uint32_t join(struct world *world, uint32_t i, uint32_t count)
{
    double history[JOIN_PROBES], last = 0;
    for (uint32_t k = 0; k < JOIN_PROBES; k++) {
        probe(world, i, (uint32_t)mare_sim_below(&world->draws, count));
        history[k] = error_of(world, i, count);
        last += k >= JOIN_PROBES - JOIN_LAST ? history[k] / JOIN_LAST : 0;
    }
    uint32_t row = 0, k = 0;
    while (k < JOIN_PROBES && row < JOIN_STAYS)
        row = history[k++] <= JOIN_WITHIN * last ? row + 1 : 0;
    return k - row + 1;
}

static double median_rtt(const mare_sim_matrix *matrix)
{
    size_t all = (size_t)matrix->n * matrix->n, count = 0;
    double *sorted = calloc(all, sizeof *sorted), median = 0;
    for (size_t i = 0; sorted && i < all; i++) {
        if (matrix->rtt[i] > 0)
            sorted[count++] = matrix->rtt[i];
    }
    if (count) {
        qsort(sorted, count, sizeof *sorted, by_size);
        median = sorted[count / 2];
    }
    free(sorted);
    return median;
}

static int make_nodes(struct world *world, mare_coord_vivaldi_setup *setup)
{
    uint32_t n = world->matrix->n;
    size_t size = (mare_coord_vivaldi_size(setup) + 63) / 64 * 64;
    world->node = calloc(n, sizeof *world->node);
    world->memory = size ? aligned_alloc(64, n * size) : NULL;
    if (!world->node || !world->memory)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        setup->seed = world->run->seed * 1000003 + i;
        world->node[i] = mare_coord_vivaldi_init(world->memory + i * size, size, setup);
    }
    return 1;
}

static int make_springs(struct world *world)
{
    uint32_t n = world->matrix->n;
    world->springs = calloc(n, sizeof *world->springs);
    world->filter = calloc((size_t)n * n, sizeof *world->filter);
    if (!world->springs || !world->filter)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        mare__springs_init(&world->springs[i]);
    return 1;
}

static int make_world(struct world *world)
{
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    if (world->run->dimensions)
        setup.dimensions = world->run->dimensions;
    if (world->run->neighbours)
        setup.neighbours = world->run->neighbours;
    world->dimensions = setup.dimensions;
    world->draws = mare_sim_stream(world->run->seed, 1);
    world->noise = mare_sim_stream(world->run->seed, 2);
    world->unit = world->run->liars ? median_rtt(world->matrix) / 100 : 0;
    world->errors = calloc(world->matrix->n, sizeof *world->errors);
    return world->errors && (world->run->springs ? make_springs(world) : make_nodes(world, &setup));
}

static void take_part(struct world *world, mare_sim_placed *placed)
{
    const mare_sim_vivaldi *run = world->run;
    uint32_t cycles = run->cycles ? run->cycles : CYCLES;
    uint32_t all = placed->n - run->joining;
    for (uint32_t t = 0; t < cycles; t++)
        cycle(world, t >= cycles / 2 ? all - run->leaving : all);
    for (uint32_t i = all; i < placed->n; i++)
        placed->probes[i - all] = join(world, i, all);
    for (uint32_t i = 0; i < placed->n; i++)
        placed->place[i] = here(world, i);
}

int mare_sim_vivaldi_run(const mare_sim_vivaldi *run, const mare_sim_matrix *matrix,
                         mare_sim_placed *placed)
{
    struct world world = {.run = run, .matrix = matrix};
    placed->n = matrix->n;
    placed->place = calloc(matrix->n, sizeof *placed->place);
    placed->probes = calloc(run->joining + 1, sizeof *placed->probes);
    int made = run->joining + run->leaving + 2 <= matrix->n && placed->place && placed->probes &&
               make_world(&world);
    if (made)
        take_part(&world, placed);
    free(world.node);
    free(world.memory);
    free(world.springs);
    free(world.filter);
    free(world.errors);
    if (!made)
        mare_sim_placed_fini(placed);
    return made;
}

struct gnp {
    mare_coord_gnp_setup setup;
    const mare_sim_matrix *matrix;
    uint32_t *chosen;
    double *rtt; /* between the landmarks; then of one node to them */
    double *scratch;
    mare_coord_place *landmark;
    void *memory;
};

static int measure_landmarks(struct gnp *gnp)
{
    uint32_t count = gnp->setup.landmarks;
    double sum;
    mare_coord_gnp_spread(gnp->matrix->rtt, gnp->matrix->n, count, gnp->scratch, gnp->chosen);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++)
            gnp->rtt[i * count + j] =
                mare_sim_matrix_at(gnp->matrix, gnp->chosen[i], gnp->chosen[j]);
    }
    return mare_coord_gnp_landmarks(&gnp->setup, gnp->rtt, gnp->memory,
                                    mare_coord_gnp_size(&gnp->setup), gnp->landmark,
                                    &sum) == MARE_COORD_OK;
}

static void place_node(struct gnp *gnp, uint32_t node, mare_coord_place *place)
{
    double sum;
    for (uint32_t k = 0; k < gnp->setup.landmarks; k++) {
        if (gnp->chosen[k] == node) {
            *place = gnp->landmark[k];
            return;
        }
        gnp->rtt[k] = mare_sim_matrix_at(gnp->matrix, node, gnp->chosen[k]);
    }
    if (mare_coord_gnp_place(&gnp->setup, gnp->landmark, gnp->rtt, gnp->memory,
                             mare_coord_gnp_size(&gnp->setup), place, &sum) != MARE_COORD_OK)
        *place = (mare_coord_place){.error = 1.5};
}

int mare_sim_gnp_run(const mare_sim_gnp *run, const mare_sim_matrix *matrix,
                     mare_sim_placed *placed)
{
    struct gnp gnp = {.matrix = matrix};
    uint32_t count = run->landmarks ? run->landmarks : 20;
    mare_coord_gnp_setup_init(&gnp.setup, count);
    gnp.setup.dimensions = run->dimensions ? run->dimensions : gnp.setup.dimensions;
    gnp.setup.seed = run->seed;
    gnp.setup.robust = run->robust;
    gnp.chosen = calloc(count, sizeof *gnp.chosen);
    gnp.rtt = calloc((size_t)count * count, sizeof *gnp.rtt);
    gnp.scratch = calloc(matrix->n, sizeof *gnp.scratch);
    gnp.landmark = calloc(count, sizeof *gnp.landmark);
    gnp.memory = malloc(mare_coord_gnp_size(&gnp.setup) + 1);
    *placed = (mare_sim_placed){.n = matrix->n, .place = calloc(matrix->n, sizeof *placed->place)};
    int good = count <= matrix->n && gnp.chosen && gnp.rtt && gnp.scratch && gnp.landmark &&
               gnp.memory && placed->place && measure_landmarks(&gnp);
    for (uint32_t i = 0; good && i < matrix->n; i++)
        place_node(&gnp, i, &placed->place[i]);
    free(gnp.chosen);
    free(gnp.rtt);
    free(gnp.scratch);
    free(gnp.landmark);
    free(gnp.memory);
    if (!good)
        mare_sim_placed_fini(placed);
    return good;
}

void mare_sim_placed_fini(mare_sim_placed *placed)
{
    free(placed->place);
    free(placed->probes);
    *placed = (mare_sim_placed){0};
}

double mare_sim_errors_at(const mare_sim_errors *errors, double part)
{
    size_t at = (size_t)(part * (double)errors->count);
    return errors->count ? errors->sorted[at < errors->count ? at : errors->count - 1] : 0;
}

int mare_sim_errors_of(const mare_sim_placed *placed, const mare_sim_matrix *matrix, uint32_t first,
                       uint32_t end, mare_sim_errors *errors)
{
    size_t side = end - first, near = 0;
    *errors = (mare_sim_errors){.sorted = calloc(side * side + 1, sizeof *errors->sorted)};
    if (!errors->sorted)
        return 0;
    for (uint32_t i = first; i < end; i++) {
        for (uint32_t j = first; j < end; j++) {
            double rtt = mare_sim_matrix_at(matrix, i, j);
            if (i == j || !(rtt > 0))
                continue;
            double guess = mare_coord_place_distance(&placed->place[i], &placed->place[j]);
            errors->sorted[errors->count++] = (guess > rtt ? guess - rtt : rtt - guess) / rtt;
            near += guess <= 2 * rtt && rtt <= 2 * guess;
        }
    }
    qsort(errors->sorted, errors->count, sizeof *errors->sorted, by_size);
    errors->median = mare_sim_errors_at(errors, 0.5);
    errors->p90 = mare_sim_errors_at(errors, 0.9);
    errors->p99 = mare_sim_errors_at(errors, 0.99);
    errors->within_2 = errors->count ? (double)near / (double)errors->count : 0;
    return 1;
}

void mare_sim_errors_fini(mare_sim_errors *errors)
{
    free(errors->sorted);
    *errors = (mare_sim_errors){0};
}
