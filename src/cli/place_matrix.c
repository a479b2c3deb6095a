// SPDX-License-Identifier: MIT
// The commands of `mare place` on a matrix of round trips.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/place.h"

static int fail(const char *why)
{
    fprintf(stderr, "mare place: %s\n", why);
    return EXIT_DIED;
}

static int misuse(const char *why)
{
    fprintf(stderr, "mare place: %s; 'mare help place' tells more\n", why);
    return EXIT_USAGE;
}

static bool is_gnp(const struct place_arguments *args)
{
    return args->algorithm == PLACE_GNP;
}

bool mare__place_run(const struct place_arguments *args, const mare_sim_matrix *matrix,
                     uint64_t seed, mare_sim_placed *placed)
{
    mare_sim_gnp gnp = {.dimensions = (uint32_t)args->dimensions,
                        .landmarks = (uint32_t)args->landmarks,
                        .seed = seed};
    mare_sim_vivaldi vivaldi = {.dimensions = (uint32_t)args->dimensions,
                                .cycles = (uint32_t)args->cycles,
                                .seed = seed,
                                .springs = args->algorithm == PLACE_SPRINGS,
                                .liars = (uint32_t)args->liars,
                                .steady = args->steady,
                                .spikes = args->spikes / 100,
                                .joining = (uint32_t)args->joining,
                                .leaving = (uint32_t)args->leaving};
    if (is_gnp(args) ? mare_sim_gnp_run(&gnp, matrix, placed)
                     : mare_sim_vivaldi_run(&vivaldi, matrix, placed))
        return true;
    fail(is_gnp(args)
             ? "gnp needs more landmarks than dimensions, as many nodes, and measurements "
               "between the landmarks"
             : "too few nodes are there before others join or after some leave, or no memory");
    return false;
}

// ---- Evaluate ----------------------------------------------------------------------------------

struct figures {
    long count; // runs
    double median[3], p90[3], p99[3], within_2[3];
    double probes[3]; // of who joins: median, nine tenths, all
    size_t pairs;
};

enum { SUM, LEAST, MOST };

static void add(double *figure, double value, long before)
{
    figure[SUM] += value;
    figure[LEAST] = before == 0 || value < figure[LEAST] ? value : figure[LEAST];
    figure[MOST] = before == 0 || value > figure[MOST] ? value : figure[MOST];
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void add_run(struct figures *figures, const struct place_arguments *args,
                    const mare_sim_errors *errors, mare_sim_placed *placed)
{
    add(figures->median, errors->median, figures->count);
    add(figures->p90, errors->p90, figures->count);
    add(figures->p99, errors->p99, figures->count);
    add(figures->within_2, errors->within_2, figures->count);
    figures->pairs = errors->count;
    if (args->joining && !is_gnp(args)) {
        qsort(placed->probes, (size_t)args->joining, sizeof *placed->probes, by_number);
        long middle = args->joining / 2, nine_tenths = args->joining * 9 / 10;
        figures->probes[0] += placed->probes[middle];
        figures->probes[1] += placed->probes[nine_tenths];
        figures->probes[2] += placed->probes[args->joining - 1];
    }
    figures->count++;
}

// The dimensions that a run has when none are asked for; gnp has fewer than landmarks.
static long dimensions_of(const struct place_arguments *args)
{
    long landmarks = args->landmarks ? args->landmarks : 20, most = is_gnp(args) ? 7 : 8;
    if (args->dimensions)
        return args->dimensions;
    return is_gnp(args) && landmarks - 1 < most ? landmarks - 1 : most;
}

static void describe(const struct place_arguments *args, const mare_sim_matrix *matrix,
                     size_t pairs)
{
    printf("%" PRIu32 " nodes, %zu pairs judged, %.1f %% of triangles broken\n", matrix->n, pairs,
           100 * mare_sim_matrix_broken(matrix, 1));
    if (is_gnp(args))
        printf("gnp, %ld dimensions, %ld landmarks\n\n", dimensions_of(args),
               args->landmarks ? args->landmarks : 20);
    else
        printf("%s, %ld dimensions + height, %ld cycles\n\n", mare__place_algorithm(args),
               dimensions_of(args), args->cycles ? args->cycles : 1000);
    puts("            relative error           within");
    puts("  seed    median     p90     p99    factor 2");
}

static void print_row(const char *name, double median, double p90, double p99, double within_2)
{
    printf("%6s    %6.4f  %6.4f  %6.3f    %6.2f %%\n", name, median, p90, p99, 100 * within_2);
}

static void print_distribution(const mare_sim_errors *errors)
{
    static const double parts[] = {0.1, 0.2,  0.25, 0.3, 0.4,  0.5,  0.6,
                                   0.7, 0.75, 0.8,  0.9, 0.95, 0.99, 1};
    puts("\n  of the pairs   have an error of at most");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double error = mare_sim_errors_at(errors, parts[i]);
        int bar = (int)(error * 60 > 60 ? 60 : error * 60);
        printf("  %9.0f %%   %8.4f  ", 100 * parts[i], error);
        for (int k = 0; k < bar; k++)
            fputs("▇", stdout);
        putchar('\n');
    }
}

static void print_summary(const struct place_arguments *args, const struct figures *f)
{
    double n = (double)f->count;
    if (f->count > 1) {
        print_row("mean", f->median[SUM] / n, f->p90[SUM] / n, f->p99[SUM] / n,
                  f->within_2[SUM] / n);
        print_row("least", f->median[LEAST], f->p90[LEAST], f->p99[LEAST], f->within_2[LEAST]);
        print_row("most", f->median[MOST], f->p90[MOST], f->p99[MOST], f->within_2[MOST]);
    }
    if (args->joining && !is_gnp(args))
        printf("\nprobes until a newcomer is within 1.25 of its last error: median %.1f, nine "
               "tenths %.1f, all %.1f\n",
               f->probes[0] / n, f->probes[1] / n, f->probes[2] / n);
}

static void json_figure(const char *name, const double *figure, long count)
{
    printf(",\"%s\":%.6f,\"%s_least\":%.6f,\"%s_most\":%.6f", name, figure[SUM] / (double)count,
           name, figure[LEAST], name, figure[MOST]);
}

static void print_json(const struct place_arguments *args, const mare_sim_matrix *matrix,
                       const struct figures *f, const mare_sim_errors *errors)
{
    double n = (double)f->count;
    printf("{\"nodes\":%" PRIu32 ",\"pairs\":%zu,\"broken\":%.4f,\"algorithm\":\"%s\","
           "\"dimensions\":%ld,\"runs\":%ld",
           matrix->n, f->pairs, mare_sim_matrix_broken(matrix, 1), mare__place_algorithm(args),
           dimensions_of(args), f->count);
    json_figure("median", f->median, f->count);
    json_figure("p90", f->p90, f->count);
    json_figure("p99", f->p99, f->count);
    json_figure("within_2", f->within_2, f->count);
    if (args->joining && !is_gnp(args))
        printf(",\"probes\":%.2f,\"probes_p90\":%.2f", f->probes[0] / n, f->probes[1] / n);
    if (args->distribution) {
        fputs(",\"distribution\":[", stdout);
        for (int part = 0; part <= 100; part++)
            printf("%s%.6f", part ? "," : "", mare_sim_errors_at(errors, part / 100.0));
        putchar(']');
    }
    puts("}");
}

static bool run_one(const struct place_arguments *args, const mare_sim_matrix *matrix, long i,
                    struct figures *figures, mare_sim_errors *errors)
{
    mare_sim_placed placed;
    char name[24];
    if (!mare__place_run(args, matrix, (uint64_t)(args->seed + i), &placed))
        return false;
    uint32_t end = matrix->n - (is_gnp(args) ? 0 : (uint32_t)(args->joining + args->leaving));
    uint32_t first = is_gnp(args) ? 0 : (uint32_t)args->liars;
    if (first + 2 > end || !mare_sim_errors_of(&placed, matrix, first, end, errors)) {
        mare_sim_placed_fini(&placed);
        fail("nobody is left to judge");
        return false;
    }
    add_run(figures, args, errors, &placed);
    mare_sim_placed_fini(&placed);
    if (!args->json) {
        if (i == 0)
            describe(args, matrix, errors->count);
        snprintf(name, sizeof name, "%ld", args->seed + i);
        print_row(name, errors->median, errors->p90, errors->p99, errors->within_2);
    }
    return true;
}

int mare__place_evaluate(const struct place_arguments *args, const mare_sim_matrix *matrix)
{
    struct figures figures = {0};
    mare_sim_errors errors = {0};
    for (long i = 0; i < args->seeds; i++) {
        mare_sim_errors_fini(&errors);
        if (!run_one(args, matrix, i, &figures, &errors))
            return EXIT_DIED;
    }
    if (args->json) {
        print_json(args, matrix, &figures, &errors);
    } else {
        print_summary(args, &figures);
        if (args->distribution)
            print_distribution(&errors);
    }
    mare_sim_errors_fini(&errors);
    return 0;
}

// ---- Replicas ----------------------------------------------------------------------------------

static double measured_cost(void *context, uint32_t client, uint32_t site)
{
    double rtt = mare_sim_matrix_at(context, client, site);
    return client == site ? 0 : rtt > 0 ? rtt : 1e6;
}

// Chooses by places, or by the measurements themselves when `placed` is NULL.
static uint32_t *choose(const mare_sim_matrix *matrix, const mare_sim_placed *placed,
                        uint32_t count, double *mean)
{
    mare_coord_replicas wanted = {.count = count,
                                  .clients = matrix->n,
                                  .sites = matrix->n,
                                  .client = placed ? placed->place : NULL,
                                  .site = placed ? placed->place : NULL,
                                  .cost = placed ? NULL : measured_cost,
                                  .context = (void *)matrix};
    size_t size = mare_coord_replicas_size(&wanted);
    void *memory = malloc(size);
    uint32_t *chosen = calloc(count, sizeof *chosen);
    bool good = memory && chosen &&
                mare_coord_replicas_choose(&wanted, memory, size, chosen, mean) == MARE_COORD_OK;
    free(memory);
    if (!good) {
        free(chosen);
        return NULL;
    }
    return chosen;
}

// The mean round trip to the nearest of the chosen, as measured.
static double measured_mean(const mare_sim_matrix *matrix, const uint32_t *chosen, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < matrix->n; i++) {
        double least = 1e6;
        for (uint32_t k = 0; k < count; k++) {
            double rtt = measured_cost((void *)matrix, i, chosen[k]);
            least = rtt < least ? rtt : least;
        }
        sum += least;
    }
    return sum / matrix->n;
}

// The part of nodes for which the replica nearest by coordinates is the nearest in fact, or no more
// than a tenth (and a millisecond) farther.
static double right_choice(const mare_sim_matrix *matrix, const mare_sim_placed *placed,
                           const uint32_t *chosen, uint32_t count)
{
    uint32_t right = 0;
    mare_coord_place *site = calloc(count, sizeof *site);
    for (uint32_t k = 0; site && k < count; k++)
        site[k] = placed->place[chosen[k]];
    for (uint32_t i = 0; site && i < matrix->n; i++) {
        double least = 1e6;
        uint32_t taken = mare_coord_nearest(&placed->place[i], site, count);
        for (uint32_t k = 0; k < count; k++) {
            double rtt = measured_cost((void *)matrix, i, chosen[k]);
            least = rtt < least ? rtt : least;
        }
        right += measured_cost((void *)matrix, i, chosen[taken]) <= 1.1 * least + 1;
    }
    free(site);
    return (double)right / matrix->n;
}

static void print_replicas(const struct place_arguments *args, const uint32_t *chosen,
                           uint32_t count, const double *means, double right)
{
    printf(args->json ? "{\"replicas\":[" : "replicas at nodes");
    for (uint32_t k = 0; k < count; k++)
        printf(args->json ? "%s%" PRIu32 : "%s %" PRIu32, k && args->json ? "," : "", chosen[k]);
    printf(args->json ? "],\"estimated_ms\":%.3f,\"measured_ms\":%.3f,\"by_measurement_ms\":%.3f,"
                        "\"right\":%.4f}\n"
                      : "\n\nmean round trip to the nearest\n  estimated             %8.2f ms\n"
                        "  measured              %8.2f ms\n"
                        "  placed by measurement %8.2f ms\n\n"
                        "the nearest by coordinates is the nearest, or nearly: %.1f %% of nodes\n",
           means[0], means[1], means[2], args->json ? right : 100 * right);
}

int mare__place_replicas(const struct place_arguments *args, const mare_sim_matrix *matrix)
{
    mare_sim_placed placed;
    double means[3];
    long count;
    if (!mare__place_read(args->word[1], 1, (long)matrix->n, &count))
        return misuse("replicas: K is a number from 1 to the number of nodes");
    if (!mare__place_run(args, matrix, (uint64_t)args->seed, &placed))
        return EXIT_DIED;
    uint32_t k = (uint32_t)count;
    uint32_t *chosen = choose(matrix, &placed, k, &means[0]);
    uint32_t *best = choose(matrix, NULL, k, &means[2]);
    int code = chosen && best ? 0 : fail("not enough memory");
    if (code == 0) {
        means[1] = measured_mean(matrix, chosen, k);
        print_replicas(args, chosen, k, means, right_choice(matrix, &placed, chosen, k));
    }
    free(chosen);
    free(best);
    mare_sim_placed_fini(&placed);
    return code;
}

// ---- Distance and map --------------------------------------------------------------------------

int mare__place_distance(const struct place_arguments *args, const mare_sim_matrix *matrix)
{
    mare_sim_placed placed;
    long a, b, last = (long)matrix->n - 1;
    if (!mare__place_read(args->word[1], 0, last, &a) ||
        !mare__place_read(args->word[2], 0, last, &b))
        return misuse("distance: A and B are numbers of nodes, from 0");
    if (!mare__place_run(args, matrix, (uint64_t)args->seed, &placed))
        return EXIT_DIED;
    double guess = a == b ? 0 : mare_coord_place_distance(&placed.place[a], &placed.place[b]);
    double rtt = mare_sim_matrix_at(matrix, (uint32_t)a, (uint32_t)b);
    mare_sim_placed_fini(&placed);
    if (args->json && rtt > 0)
        printf("{\"estimated_ms\":%.4f,\"measured_ms\":%.4f}\n", guess, rtt);
    else if (args->json)
        printf("{\"estimated_ms\":%.4f,\"measured_ms\":null}\n", guess);
    else if (rtt > 0)
        printf("estimated %.2f ms, measured %.2f ms\n", guess, rtt);
    else
        printf("estimated %.2f ms, not measured\n", guess);
    return 0;
}

int mare__place_map(const struct place_arguments *args, const mare_sim_matrix *matrix)
{
    mare_sim_placed placed;
    struct place_arguments flat = *args;
    double mean;
    flat.dimensions = args->dimensions ? args->dimensions : 2;
    if (args->replicas > (long)matrix->n)
        return misuse("--replicas asks for more replicas than there are nodes");
    if (!mare__place_run(&flat, matrix, (uint64_t)args->seed, &placed))
        return EXIT_DIED;
    uint32_t *chosen =
        args->replicas ? choose(matrix, &placed, (uint32_t)args->replicas, &mean) : NULL;
    if (args->replicas && !chosen) {
        mare_sim_placed_fini(&placed);
        return fail("not enough memory");
    }
    FILE *out = fopen(args->word[1], "w");
    bool written = out && mare_sim_map_write(&placed, chosen, (uint32_t)args->replicas, out);
    written = out && fclose(out) == 0 && written;
    int error = errno;
    free(chosen);
    mare_sim_placed_fini(&placed);
    if (!written) {
        fprintf(stderr, "mare place: %s: %s\n", args->word[1], strerror(error));
        return EXIT_DIED;
    }
    return 0;
}
