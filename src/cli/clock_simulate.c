// SPDX-License-Identifier: MIT
// `mare clock simulate`: many worlds of sim/clocks.h, and how far from the truth their clocks were.
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "sim/clocks.h"

struct sums {
    double readings, error_ns, bound_ns, closest;
};

static void add_score(struct sums *sum, const mare_sim_clocks_score *score)
{
    sum->readings += (double)score->readings;
    sum->error_ns += (double)score->error_ns;
    sum->bound_ns += (double)score->bound_ns;
    double closest = (double)score->closest_ppm / 1e4;
    sum->closest = closest > sum->closest ? closest : sum->closest;
}

static void write_scores(const struct clock_arguments *args, const struct sums *sum)
{
    if (!args->json)
        printf("%-10s %12s %14s %14s %18s\n", "method", "readings", "true error", "bound",
               "closest to it");
    for (int m = 0; m < MARE_SIM_METHODS; m++) {
        const char *name = mare_sim_method_name((mare_sim_method)m);
        char error[32], bound[32];
        double n = sum[m].readings > 0 ? sum[m].readings : 1;
        if (args->json)
            printf("{\"method\":\"%s\",\"readings\":%.0f,\"error_ns\":%.0f,\"bound_ns\":%.0f,"
                   "\"closest_percent\":%.1f}\n",
                   name, sum[m].readings, sum[m].error_ns / n, sum[m].bound_ns / n, sum[m].closest);
        else
            printf("%-10s %12.0f %14s %14s %16.1f %%\n", name, sum[m].readings,
                   mare__clock_span(sum[m].error_ns / n, false, error),
                   mare__clock_span(sum[m].bound_ns / n, false, bound), sum[m].closest);
    }
}

static void write_reading(void *context, mare_sim_method method, uint64_t error_ns,
                          uint64_t bound_ns)
{
    (void)context;
    printf("{\"reading\":\"%s\",\"error_ns\":%" PRIu64 ",\"bound_ns\":%" PRIu64 "}\n",
           mare_sim_method_name(method), error_ns, bound_ns);
}

int mare__clock_simulate(const struct clock_arguments *args)
{
    struct sums sum[MARE_SIM_METHODS] = {{0}};
    for (uint64_t seed = args->seed; seed < args->seed + args->seeds; seed++) {
        mare_sim_clocks_options options;
        mare_sim_clocks_outcome outcome;
        mare_sim_clocks_vary(&options, seed);
        options.bound_percent = args->bound_percent;
        options.reading = args->readings ? write_reading : NULL;
        if (!mare_sim_clocks_run(&options, &outcome)) {
            printf(args->json ? "{\"seed\":%" PRIu64 ",\"violation\":\"%s\",\"detail\":\"%s\"}\n"
                              : "seed %" PRIu64 ": %s is violated: %s\n",
                   seed, outcome.violation, outcome.detail);
            return EXIT_DIED;
        }
        for (int m = 0; m < MARE_SIM_METHODS; m++)
            add_score(&sum[m], &outcome.score[m]);
    }
    write_scores(args, sum);
    return 0;
}
