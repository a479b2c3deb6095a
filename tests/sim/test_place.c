/* SPDX-License-Identifier: MIT */

/* Network coordinates on whole matrices: made ones, with heavy tails and broken triangles, and the
 * measured one where it is found (MARE_PLACE_DATA, or the path that Meson gives). */

#include "sim/place.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { NODES = 150, SEEDS = 3 };

static mare_sim_matrix made;

static int make_matrix(void **state)
{
    (void)state;
    return mare_sim_matrix_make(&made, MARE_SIM_MADE, NODES, 7) ? 0 : 1;
}

static int free_matrix(void **state)
{
    (void)state;
    mare_sim_matrix_fini(&made);
    return 0;
}

/* Errors over the honest nodes that were there to the end. */
static mare_sim_errors run(mare_sim_vivaldi spec, const mare_sim_matrix *matrix)
{
    mare_sim_placed placed;
    mare_sim_errors errors;
    assert_true(mare_sim_vivaldi_run(&spec, matrix, &placed));
    assert_true(mare_sim_errors_of(&placed, matrix, spec.liars,
                                   matrix->n - spec.leaving - spec.joining, &errors));
    mare_sim_placed_fini(&placed);
    free(errors.sorted); /* the figures are wanted */
    errors.sorted = NULL;
    return errors;
}

static const char *read_text(mare_sim_matrix *matrix, const char *text, char why[100])
{
    char copy[200];
    strcpy(copy, text);
    FILE *file = fmemopen(copy, strlen(copy), "r");
    const char *wrong = mare_sim_matrix_read(matrix, file, why);
    fclose(file);
    return wrong;
}

static void reads_matrices(void **state)
{
    (void)state;
    mare_sim_matrix matrix;
    char why[100];
    assert_null(read_text(&matrix, "# a comment\n0\t1.5\n\n2,5 \n", why));
    assert_int_equal(matrix.n, 2);
    assert_true(mare_sim_matrix_at(&matrix, 0, 1) == 1.5);
    assert_true(mare_sim_matrix_at(&matrix, 1, 0) == 2);
    assert_true(mare_sim_matrix_at(&matrix, 1, 1) == 0);
    mare_sim_matrix_fini(&matrix);
    assert_null(read_text(&matrix, "0 nan -\n-1 0 inf\n1 2 0\n", why));
    assert_true(mare_sim_matrix_at(&matrix, 0, 1) < 0);
    assert_true(mare_sim_matrix_at(&matrix, 0, 2) < 0);
    assert_true(mare_sim_matrix_at(&matrix, 1, 0) < 0);
    assert_true(mare_sim_matrix_at(&matrix, 1, 2) < 0);
    mare_sim_matrix_fini(&matrix);
}

static void refuses_what_is_no_matrix(void **state)
{
    (void)state;
    const char *bad[] = {
        "#", "1", "0 1\n", "0 1\n1\n", "0 1\n1 0 2\n", "0 1\n1 x\n", "0 1\n1 0\n2 3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mare_sim_matrix matrix;
        char why[100] = "";
        assert_non_null(read_text(&matrix, bad[i], why));
        assert_null(matrix.rtt);
    }
}

/* What the made matrix is for: triangles are broken, and some round trips are very long. */
static void made_matrices_are_hard(void **state)
{
    (void)state;
    double longest = 0, sum = 0;
    for (uint32_t i = 0; i < NODES * NODES; i++) {
        longest = made.rtt[i] > longest ? made.rtt[i] : longest;
        sum += made.rtt[i] / (NODES * NODES);
    }
    assert_true(mare_sim_matrix_broken(&made, 1) > 0.1);
    assert_true(longest > 8 * sum);
}

/* Three quarters of its pairs fit a plane and heights exactly, the others take detours: the median
 * must be small, the ninth tenth cannot be. */
static void vivaldi_places_a_network(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        mare_sim_errors eight = run((mare_sim_vivaldi){.dimensions = 8, .seed = seed}, &made);
        mare_sim_errors two = run((mare_sim_vivaldi){.dimensions = 2, .seed = seed}, &made);
        assert_int_equal(eight.count, NODES * (NODES - 1));
        assert_true(eight.median < 0.06 && eight.p90 < 0.3 && eight.within_2 > 0.95);
        assert_true(two.median < 0.06 && two.p90 < 0.3 && two.within_2 > 0.95);
    }
}

static void same_seed_same_figures(void **state)
{
    (void)state;
    mare_sim_errors a = run((mare_sim_vivaldi){.seed = 4, .cycles = 100}, &made);
    mare_sim_errors b = run((mare_sim_vivaldi){.seed = 4, .cycles = 100}, &made);
    mare_sim_errors c = run((mare_sim_vivaldi){.seed = 5, .cycles = 100}, &made);
    assert_true(a.median == b.median && a.p90 == b.p90 && a.median != c.median);
}

static void one_liar_moves_nobody_far(void **state)
{
    (void)state;
    mare_sim_errors honest = run((mare_sim_vivaldi){.seed = 2}, &made);
    mare_sim_errors liar = run((mare_sim_vivaldi){.seed = 2, .liars = 1}, &made);
    assert_true(liar.median < 1.1 * honest.median + 0.005);
    assert_true(liar.p90 < 1.1 * honest.p90);
}

/* It says always the same, and seems to be the nearest to everybody. Among many it is one of many;
 * the fewer there are, the more it weighs. */
static void one_steady_liar_captures_nobody(void **state)
{
    (void)state;
    mare_sim_errors honest = run((mare_sim_vivaldi){.seed = 2}, &made);
    mare_sim_errors liar = run((mare_sim_vivaldi){.seed = 2, .liars = 1, .steady = 1}, &made);
    assert_true(liar.median < 1.1 * honest.median + 0.005);
    assert_true(liar.p90 < 1.1 * honest.p90);
    for (uint64_t seed = 1; seed <= 10; seed++) {
        mare_sim_matrix few;
        assert_true(mare_sim_matrix_make(&few, MARE_SIM_MADE, 12, seed));
        mare_sim_vivaldi spec = {.seed = seed, .dimensions = 3};
        honest = run(spec, &few);
        spec.liars = spec.steady = 1;
        liar = run(spec, &few);
        assert_true(liar.median < honest.median + 0.1);
        assert_true(liar.within_2 > 0.85);
        mare_sim_matrix_fini(&few);
    }
}

/* From the first cycle on, when they alone seem to know where they are. */
static void a_tenth_may_lie(void **state)
{
    (void)state;
    mare_sim_errors honest = run((mare_sim_vivaldi){.seed = 2}, &made);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        mare_sim_errors liars = run((mare_sim_vivaldi){.seed = seed, .liars = NODES / 10}, &made);
        assert_true(liars.median < 2 * honest.median);
        assert_true(liars.p90 < 2 * honest.p90);
    }
}

static void a_third_may_leave(void **state)
{
    (void)state;
    mare_sim_errors all = run((mare_sim_vivaldi){.seed = 3}, &made);
    mare_sim_errors rest = run((mare_sim_vivaldi){.seed = 3, .leaving = NODES / 3}, &made);
    assert_int_equal(rest.count, 100 * 99);
    assert_true(rest.median < 1.15 * all.median + 0.005);
    assert_true(rest.p90 < 1.15 * all.p90);
}

static void spikes_do_no_harm(void **state)
{
    (void)state;
    mare_sim_errors calm = run((mare_sim_vivaldi){.seed = 3}, &made);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        mare_sim_errors noisy = run((mare_sim_vivaldi){.seed = seed, .spikes = 0.1}, &made);
        assert_true(noisy.median < 1.2 * calm.median + 0.01);
        assert_true(noisy.p90 < 1.2 * calm.p90);
    }
}

static int by_number(const void *a, const void *b)
{
    return (int)*(const uint32_t *)a - (int)*(const uint32_t *)b;
}

/* The median over those who join of the probes until they have come there. */
static uint32_t probes_to_join(const mare_sim_matrix *matrix, uint32_t joining, uint64_t seed)
{
    mare_sim_placed placed;
    assert_true(mare_sim_vivaldi_run(&(mare_sim_vivaldi){.joining = joining, .seed = seed}, matrix,
                                     &placed));
    qsort(placed.probes, joining, sizeof *placed.probes, by_number);
    uint32_t middle = placed.probes[joining / 2];
    mare_sim_placed_fini(&placed);
    return middle;
}

static void newcomers_are_there_soon(void **state)
{
    (void)state;
    assert_in_range(probes_to_join(&made, 30, 1), 1, 20);
}

/* What each network is for, so that a figure on it means what it says. */
static void networks_are_as_they_should_be(void **state)
{
    (void)state;
    mare_sim_matrix noisy, centre, sites;
    assert_true(mare_sim_matrix_make(&noisy, MARE_SIM_NOISY, 99, 1));
    assert_true(mare_sim_matrix_make(&centre, MARE_SIM_CENTRE, 99, 1));
    assert_true(mare_sim_matrix_make(&sites, MARE_SIM_SITES, 99, 1));
    uint32_t asymmetric = 0, submillisecond = 0, near = 0, far = 0, pairs = 99 * 98;
    for (uint32_t i = 0; i < 99; i++) {
        for (uint32_t j = 0; j < 99; j++) {
            double rtt = mare_sim_matrix_at(&noisy, i, j);
            assert_true((double)(long)(rtt / 10) * 10 == rtt); /* rounded */
            asymmetric += rtt != mare_sim_matrix_at(&noisy, j, i);
            submillisecond += i != j && mare_sim_matrix_at(&centre, i, j) < 1;
            near += i != j && mare_sim_matrix_at(&sites, i, j) < 5;
            far += mare_sim_matrix_at(&sites, i, j) > 10;
        }
    }
    assert_true(mare_sim_matrix_broken(&noisy, 1) > 0.5);
    assert_true(asymmetric > pairs / 2);
    assert_true(submillisecond > 0.99 * pairs);
    assert_true(near > pairs / 10 && far > pairs / 2);
    mare_sim_matrix_fini(&noisy);
    mare_sim_matrix_fini(&centre);
    mare_sim_matrix_fini(&sites);
}

/* Multiplied by a power of two, the same network: nothing is decided by what a millisecond is. */
static void the_unit_does_not_matter(void **state)
{
    (void)state;
    mare_sim_matrix small = {.n = NODES, .rtt = calloc((size_t)NODES * NODES, sizeof(double))};
    assert_non_null(small.rtt);
    for (size_t i = 0; i < (size_t)NODES * NODES; i++)
        small.rtt[i] = made.rtt[i] / 1024;
    mare_sim_vivaldi spec = {.seed = 3, .cycles = 200};
    for (spec.liars = 0; spec.liars <= 10; spec.liars += 10) {
        mare_sim_placed large, little;
        assert_true(mare_sim_vivaldi_run(&spec, &made, &large));
        assert_true(mare_sim_vivaldi_run(&spec, &small, &little));
        for (uint32_t i = 0; i < NODES; i++) {
            assert_true(large.place[i].error == little.place[i].error);
            assert_true(large.place[i].height == 1024 * little.place[i].height);
            for (uint32_t k = 0; k < MARE_COORD_DIMENSIONS; k++)
                assert_true(large.place[i].x[k] == 1024 * little.place[i].x[k]);
        }
        mare_sim_placed_fini(&large);
        mare_sim_placed_fini(&little);
    }
    mare_sim_matrix_fini(&small);
}

static mare_sim_errors landmarks(mare_sim_gnp spec, const mare_sim_matrix *matrix)
{
    mare_sim_placed placed;
    mare_sim_errors errors;
    assert_true(mare_sim_gnp_run(&spec, matrix, &placed));
    assert_true(mare_sim_errors_of(&placed, matrix, 0, matrix->n, &errors));
    mare_sim_placed_fini(&placed);
    free(errors.sorted);
    errors.sorted = NULL;
    return errors;
}

/* Without heights it cannot fit the ways to the net, so it is worse than Vivaldi here. */
static void gnp_places_a_network(void **state)
{
    (void)state;
    mare_sim_errors squares = landmarks((mare_sim_gnp){.seed = 1}, &made);
    assert_true(squares.within_2 >= 0.95 && squares.median <= 0.1);
    mare_sim_errors robust = landmarks((mare_sim_gnp){.seed = 1, .robust = 0.15}, &made);
    assert_true(robust.within_2 >= 0.95 && robust.median < squares.median);
}

static void add(mare_sim_errors *sum, mare_sim_errors one)
{
    sum->median += one.median / SEEDS;
    sum->p90 += one.p90 / SEEDS;
    sum->within_2 += one.within_2 / SEEDS;
}

/* On every kind of network ours is better than the algorithm that others have, and than landmarks
 * that all can measure; the bounds leave some room above the table in docs/reference/place.md. With
 * three networks of each kind, drawn from seeds 1 to 3. */
static void every_kind_of_network(void **state)
{
    (void)state;
    static const struct {
        mare_sim_network network;
        uint32_t n;
        double median, p90;        /* with 8 dimensions */
        double flat, flat_p90;     /* with 2 */
        double liars, liars_p90;   /* a tenth of steady ones, 8 dimensions */
        double spikes, spikes_p90; /* one round trip in ten */
    } wanted[] = {
        {MARE_SIM_NOISY, 99, 0.14, 0.92, 0.16, 0.93, 0.26, 0.95, 0.15, 0.92},
        {MARE_SIM_MADE, 150, 0.035, 0.23, 0.035, 0.25, 0.04, 0.23, 0.04, 0.23},
        {MARE_SIM_CENTRE, 120, 0.042, 0.12, 0.06, 0.17, 0.05, 0.13, 0.045, 0.12},
        {MARE_SIM_SITES, 120, 0.032, 0.08, 0.045, 0.12, 0.035, 0.09, 0.035, 0.13},
    };
    /* Where it is slow the first will do: the figures are the same in every build. */
    size_t kinds = unit_slow() > 1 ? 1 : sizeof wanted / sizeof *wanted;
    for (size_t k = 0; k < kinds; k++) {
        mare_sim_errors ours = {0}, flat = {0}, liars = {0}, spikes = {0};
        mare_sim_errors springs = {0}, flat_springs = {0}, spiked_springs = {0}, gnp = {0};
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            mare_sim_matrix m;
            assert_true(mare_sim_matrix_make(&m, wanted[k].network, wanted[k].n, seed));
            uint32_t tenth = m.n / 10;
            add(&ours, run((mare_sim_vivaldi){.seed = seed}, &m));
            add(&flat, run((mare_sim_vivaldi){.seed = seed, .dimensions = 2}, &m));
            add(&liars, run((mare_sim_vivaldi){.seed = seed, .liars = tenth, .steady = 1}, &m));
            add(&spikes, run((mare_sim_vivaldi){.seed = seed, .spikes = 0.1}, &m));
            add(&springs, run((mare_sim_vivaldi){.seed = seed, .springs = 1}, &m));
            add(&flat_springs,
                run((mare_sim_vivaldi){.seed = seed, .springs = 1, .dimensions = 2}, &m));
            add(&spiked_springs,
                run((mare_sim_vivaldi){.seed = seed, .springs = 1, .spikes = 0.1}, &m));
            add(&gnp, landmarks((mare_sim_gnp){.seed = seed}, &m));
            mare_sim_matrix_fini(&m);
        }
        print_message("# %s: ours %.4f/%.3f, springs %.4f/%.3f, gnp %.4f/%.3f; in 2 dimensions "
                      "%.4f/%.3f, springs %.4f/%.3f; spikes %.4f/%.3f, springs %.4f/%.3f; liars "
                      "%.4f/%.3f\n",
                      mare_sim_network_name(wanted[k].network), ours.median, ours.p90,
                      springs.median, springs.p90, gnp.median, gnp.p90, flat.median, flat.p90,
                      flat_springs.median, flat_springs.p90, spikes.median, spikes.p90,
                      spiked_springs.median, spiked_springs.p90, liars.median, liars.p90);
        assert_true(ours.median <= wanted[k].median && ours.p90 <= wanted[k].p90);
        assert_true(flat.median <= wanted[k].flat && flat.p90 <= wanted[k].flat_p90);
        assert_true(liars.median <= wanted[k].liars && liars.p90 <= wanted[k].liars_p90);
        assert_true(spikes.median <= wanted[k].spikes && spikes.p90 <= wanted[k].spikes_p90);
        assert_true(ours.median < springs.median && ours.p90 < springs.p90);
        assert_true(ours.median < gnp.median && ours.p90 < gnp.p90);
        assert_true(spikes.median < spiked_springs.median && spikes.p90 < spiked_springs.p90);
        assert_true(flat.p90 < flat_springs.p90);
    }
}

/* The figures of the specification. */
static void the_measured_matrix(void **state)
{
    (void)state;
    const char *path = getenv("MARE_PLACE_DATA");
    FILE *file = fopen(path ? path : PLACE_DATA, "r");
    mare_sim_matrix matrix;
    char why[100];
    if (!file)
        skip();
    assert_null(mare_sim_matrix_read(&matrix, file, why));
    fclose(file);
    mare_sim_errors eight = run((mare_sim_vivaldi){.dimensions = 8, .seed = 1}, &matrix);
    assert_true(eight.median <= 0.068 && eight.p90 <= 0.26);
    mare_sim_errors two = run((mare_sim_vivaldi){.dimensions = 2, .seed = 1}, &matrix);
    assert_true(two.median <= 0.098 && two.p90 <= 0.43);
    mare_sim_errors liars = run((mare_sim_vivaldi){.seed = 1, .liars = 49, .steady = 1}, &matrix);
    assert_true(liars.median <= 0.068 && liars.p90 <= 0.26);
    /* What we compare with is what was published: 0.079 and 0.370, 0.112 and 0.543. */
    eight = run((mare_sim_vivaldi){.dimensions = 8, .seed = 1, .springs = 1}, &matrix);
    assert_true(eight.median > 0.074 && eight.median < 0.084 && eight.p90 > 0.34 &&
                eight.p90 < 0.41);
    two = run((mare_sim_vivaldi){.dimensions = 2, .seed = 1, .springs = 1}, &matrix);
    assert_true(two.median > 0.105 && two.median < 0.12 && two.p90 > 0.51 && two.p90 < 0.59);
    assert_in_range(probes_to_join(&matrix, 40, 1), 1, 20);
    mare_sim_errors gnp = landmarks((mare_sim_gnp){.seed = 1}, &matrix);
    assert_true(gnp.within_2 >= 0.98 && gnp.median <= 0.075);
    mare_sim_matrix_fini(&matrix);
}

UNIT_TESTS_WITH(make_matrix, free_matrix, cmocka_unit_test(reads_matrices),
                cmocka_unit_test(refuses_what_is_no_matrix),
                cmocka_unit_test(made_matrices_are_hard),
                cmocka_unit_test(networks_are_as_they_should_be),
                cmocka_unit_test(the_unit_does_not_matter), cmocka_unit_test(every_kind_of_network),
                cmocka_unit_test(vivaldi_places_a_network),
                cmocka_unit_test(same_seed_same_figures),
                cmocka_unit_test(one_liar_moves_nobody_far),
                cmocka_unit_test(one_steady_liar_captures_nobody),
                cmocka_unit_test(a_tenth_may_lie), cmocka_unit_test(a_third_may_leave),
                cmocka_unit_test(spikes_do_no_harm), cmocka_unit_test(newcomers_are_there_soon),
                cmocka_unit_test(gnp_places_a_network), cmocka_unit_test(the_measured_matrix))
