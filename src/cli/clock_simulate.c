// SPDX-License-Identifier: MIT
// `mare clock simulate`: many worlds of sim/clocks.h, and how far from the truth their clocks were.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "sim/clocks.h"

// A span for people: "12.3 us".
static const char *span(double ns, char text[32])
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    int at = 0;
    while (at < 3 && ns < units[at].ns)
        at++;
    snprintf(text, 32, "%.3g %s", ns / units[at].ns, units[at].name);
    return text;
}

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

static void write_scores(bool json, const struct sums *sum)
{
    if (!json)
        printf("%-10s %12s %14s %14s %18s\n", "method", "readings", "true error", "bound",
               "closest to it");
    for (int m = 0; m < MARE_SIM_METHODS; m++) {
        const char *name = mare_sim_method_name((mare_sim_method)m);
        char error[32], bound[32];
        double n = sum[m].readings > 0 ? sum[m].readings : 1;
        if (json)
            printf("{\"method\":\"%s\",\"readings\":%.0f,\"error_ns\":%.0f,\"bound_ns\":%.0f,"
                   "\"closest_percent\":%.1f}\n",
                   name, sum[m].readings, sum[m].error_ns / n, sum[m].bound_ns / n, sum[m].closest);
        else
            printf("%-10s %12.0f %14s %14s %16.1f %%\n", name, sum[m].readings,
                   span(sum[m].error_ns / n, error), span(sum[m].bound_ns / n, bound),
                   sum[m].closest);
    }
}

static void write_reading(void *context, mare_sim_method method, uint64_t error_ns,
                          uint64_t bound_ns)
{
    (void)context;
    printf("{\"reading\":\"%s\",\"error_ns\":%" PRIu64 ",\"bound_ns\":%" PRIu64 "}\n",
           mare_sim_method_name(method), error_ns, bound_ns);
}

int mare__clock_simulate(int argc, char **argv)
{
    struct sums sum[MARE_SIM_METHODS] = {{0}};
    bool json = mare__clock_option(argc, argv, "--json", 0);
    bool readings = mare__clock_option(argc, argv, "--readings", 0);
    unsigned percent = (unsigned)mare__clock_option(argc, argv, "--bound", 100);
    uint64_t first = (uint64_t)mare__clock_option(argc, argv, "--seed", 1);
    uint64_t end = first + (uint64_t)mare__clock_option(argc, argv, "--seeds", 100);
    for (uint64_t seed = first; seed < end; seed++) {
        mare_sim_clocks_options options;
        mare_sim_clocks_outcome outcome;
        mare_sim_clocks_vary(&options, seed);
        options.bound_percent = percent;
        options.reading = readings ? write_reading : NULL;
        if (!mare_sim_clocks_run(&options, &outcome)) {
            printf(json ? "{\"seed\":%" PRIu64 ",\"violation\":\"%s\",\"detail\":\"%s\"}\n"
                        : "seed %" PRIu64 ": %s is violated: %s\n",
                   seed, outcome.violation, outcome.detail);
            return EXIT_DIED;
        }
        for (int m = 0; m < MARE_SIM_METHODS; m++)
            add_score(&sum[m], &outcome.score[m]);
    }
    write_scores(json, sum);
    return 0;
}
