/* SPDX-License-Identifier: MIT */

/* mare-sim: the simulator from the command line, until `mare sim` takes its place.
 *
 *     mare-sim central --n 5                one calm run, with its trace
 *     mare-sim ricart --seed 42             the run of seed 42, faults and all
 *     mare-sim ricart --seeds 1000          a sweep; the first violation is shrunk and printed
 *     mare-sim ricart --counts              messages for an entry beside the formula, n = 2 … 200
 *     mare-sim list */

#include "sim/record.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHRINK_BUDGET 2000

typedef struct arguments {
    const mare_coord_algorithm *algorithm;
    mare_coord_setup setup; /* only its parameters are used */
    uint32_t n;             /* 0: by the seed */
    uint64_t seed, seeds;
    const char *faults;
    int64_t loss_ppm, duplicate_ppm, abandon_ppm, drift_ppm; /* −1: not given */
    int seed_given, counts, trace, speed;
} arguments;

static int usage(void)
{
    fprintf(stderr,
            "usage: mare-sim ALGORITHM [--n N] [--seed S] [--seeds N] [--faults LIST]\n"
            "                [--loss PPM] [--duplicate PPM] [--abandon PPM] [--drift PPM]\n"
            "                [--set NAME=VALUE] [--trace] [--counts] [--speed]\n"
            "       mare-sim list\n");
    return 2;
}

static void list_algorithms(void)
{
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t i = 0; i < count; i++) {
        printf("%-10s %s; %s messages\n", table[i]->name, table[i]->title, table[i]->formula);
        printf("%-10s after %s\n%-10s assumes: %s\n", "", table[i]->source, "",
               table[i]->assumes);
        for (const mare_coord_param *p = table[i]->params; p->name; p++)
            printf("%-10s   %s=%" PRId64 "  %s\n", "", p->name, p->initial, p->meaning);
    }
}

/* The options of one run; the seed varies them unless it is to be calm. */
static void prepare(mare_sim_options *options, const arguments *args, uint64_t seed, int calm)
{
    uint32_t n = args->n ? args->n : 2 + (uint32_t)(seed % 7);
    mare_sim_options_init(options, args->algorithm, n);
    memcpy(options->setup.param, args->setup.param, sizeof options->setup.param);
    options->seed = seed;
    if (!calm)
        mare_sim_vary(options);
    if (args->faults)
        mare_sim_faults_read(&options->faults, args->faults);
    if (args->loss_ppm >= 0)
        options->network.loss_ppm = (uint32_t)args->loss_ppm;
    if (args->duplicate_ppm >= 0)
        options->network.duplicate_ppm = (uint32_t)args->duplicate_ppm;
    if (args->abandon_ppm >= 0)
        options->abandon_ppm = (uint32_t)args->abandon_ppm;
    if (args->drift_ppm >= 0)
        options->drift_ppm = (uint32_t)args->drift_ppm;
}

static void print_replay(const mare_sim_options *options)
{
    size_t length = mare_sim_faults_write(&options->faults, NULL, 0);
    char *faults = malloc(length + 1);
    mare_sim_faults_write(&options->faults, faults, length + 1);
    const mare_coord_algorithm *algorithm = options->setup.algorithm;
    printf("replay: mare-sim %s --n %" PRIu32 " --seed %" PRIu64 " --loss %" PRIu32
           " --duplicate %" PRIu32 " --abandon %" PRIu32 " --drift %" PRIu32 " --faults '%s'",
           algorithm->name, options->setup.members, options->seed, options->network.loss_ppm,
           options->network.duplicate_ppm, options->abandon_ppm, options->drift_ppm, faults);
    for (int i = 0; i < MARE_COORD_PARAMS && algorithm->params[i].name; i++) {
        if (options->setup.param[i] != algorithm->params[i].initial)
            printf(" --set %s=%" PRId64, algorithm->params[i].name, options->setup.param[i]);
    }
    putchar('\n');
    free(faults);
}

static int run_traced(mare_sim_options *options, int trace)
{
    mare_sim_outcome out;
    mare_sim_recording recording;
    mare_sim_recording_init(&recording, options->setup.algorithm, options->setup.capacity);
    mare_sim_observer *observers[] = {&recording.observer, NULL};
    int good = mare_sim_run(options, observers, &out);
    if (trace)
        mare_sim_recording_write_text(&recording, stdout);
    mare_sim_recording_fini(&recording);
    printf("%" PRIu64 " messages sent, %" PRIu64 " delivered, %" PRIu64 " lost, %" PRIu64
           " entries of %" PRIu64 " requests in %" PRIu64 " ms\n",
           out.sent, out.delivered, out.lost, out.grants, out.requests, out.time_us / 1000);
    if (out.grants)
        printf("%.3f messages for an entry (formula %s, without faults or rivals: %" PRIu64 ")\n",
               (double)out.sent / (double)out.grants, options->setup.algorithm->formula,
               options->setup.algorithm->messages(&options->setup));
    if (!good)
        printf("VIOLATION %s: %s\n", out.violation, out.detail);
    return good;
}

static int sweep(const arguments *args)
{
    uint64_t entries = 0, messages = 0, lost = 0;
    for (uint64_t seed = args->seed; seed < args->seed + args->seeds; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        prepare(&options, args, seed, 0);
        if (!mare_sim_run(&options, NULL, &out)) {
            printf("seed %" PRIu64 ": VIOLATION %s: %s\n", seed, out.violation, out.detail);
            unsigned runs = mare_sim_shrink(&options, out.violation, SHRINK_BUDGET);
            printf("shrunk to %" PRIu32 " faults in %u runs\n", options.faults.count, runs);
            print_replay(&options);
            mare_sim_options_fini(&options);
            return 1;
        }
        entries += out.grants;
        messages += out.sent;
        lost += out.lost;
        mare_sim_options_fini(&options);
    }
    printf("%s: %" PRIu64 " seeds, %" PRIu64 " entries, %" PRIu64 " messages (%" PRIu64
           " lost), no violation\n",
           args->algorithm->name, args->seeds, entries, messages, lost);
    return 0;
}

/* Fault-free runs as in the sources, without rivals: what the formulas speak of. */
static int print_counts(const arguments *args)
{
    int wrong = 0;
    printf("%5s %10s %10s %10s\n", "n", "entries", "measured", args->algorithm->formula);
    for (uint32_t n = 2; n <= 200; n += n < 10 ? 1 : n < 100 ? 10 : 50) {
        mare_sim_options options;
        mare_sim_outcome out;
        arguments fixed = *args;
        fixed.n = n;
        prepare(&options, &fixed, args->seed, 1);
        mare_coord_setup_set(&options.setup, "repair", 0);
        options.settle_us = 0;
        options.entrants = n - 1;
        options.rounds = 3;
        options.duration_us = UINT64_C(3600000000);
        mare_sim_run(&options, NULL, &out);
        uint64_t formula = args->algorithm->messages(&options.setup);
        printf("%5" PRIu32 " %10" PRIu64 " %10.3f %10" PRIu64 "\n", n, out.grants,
               (double)out.sent / (double)out.grants, formula);
        wrong |= out.sent != out.grants * formula;
        mare_sim_options_fini(&options);
    }
    return wrong;
}

/* Delivered messages a second of processor time. */
static int print_speed(const arguments *args)
{
    mare_sim_options options;
    mare_sim_outcome out;
    prepare(&options, args, args->seed, 1);
    options.duration_us = 60000000;
    options.settle_us = 0;
    clock_t begin = clock();
    mare_sim_run(&options, NULL, &out);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("%s n=%" PRIu32 ": %" PRIu64 " messages delivered in %.3f s, %.0f a second\n",
           args->algorithm->name, options.setup.members, out.delivered, seconds,
           (double)out.delivered / seconds);
    mare_sim_options_fini(&options);
    return 0;
}

static int set_parameter(arguments *args, const char *text)
{
    char name[40];
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= sizeof name)
        return 1;
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    return mare_coord_setup_set(&args->setup, name, strtoll(equals + 1, NULL, 10)) != MARE_COORD_OK;
}

/* Returns how many words it took, 0 when it does not understand. */
static int read_option(arguments *args, const char *word, const char *value)
{
    if (strcmp(word, "--trace") == 0)
        return args->trace = 1;
    if (strcmp(word, "--counts") == 0)
        return args->counts = 1;
    if (strcmp(word, "--speed") == 0)
        return args->speed = 1;
    if (!value)
        return 0;
    if (strcmp(word, "--n") == 0)
        args->n = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(word, "--seed") == 0)
        args->seed = strtoull(value, NULL, 10), args->seed_given = 1;
    else if (strcmp(word, "--seeds") == 0)
        args->seeds = strtoull(value, NULL, 10);
    else if (strcmp(word, "--faults") == 0)
        args->faults = value;
    else if (strcmp(word, "--loss") == 0)
        args->loss_ppm = strtoll(value, NULL, 10);
    else if (strcmp(word, "--duplicate") == 0)
        args->duplicate_ppm = strtoll(value, NULL, 10);
    else if (strcmp(word, "--abandon") == 0)
        args->abandon_ppm = strtoll(value, NULL, 10);
    else if (strcmp(word, "--drift") == 0)
        args->drift_ppm = strtoll(value, NULL, 10);
    else if (strcmp(word, "--set") != 0 || set_parameter(args, value))
        return 0;
    return 2;
}

int main(int argc, char **argv)
{
    arguments args = {.seed = 1, .loss_ppm = -1, .duplicate_ppm = -1, .abandon_ppm = -1,
                      .drift_ppm = -1};
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list_algorithms(), 0;
    args.algorithm = argc > 1 ? mare_coord_find(argv[1]) : NULL;
    if (!args.algorithm)
        return usage();
    mare_coord_setup_init(&args.setup, args.algorithm, 2);
    for (int i = 2; i < argc;) {
        int taken = read_option(&args, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
        if (!taken)
            return usage();
        i += taken;
    }
    mare_sim_fault_list faults = {0};
    if (args.faults && mare_sim_faults_read(&faults, args.faults))
        return usage();
    mare_sim_faults_fini(&faults);
    if (args.counts)
        return print_counts(&args);
    if (args.speed)
        return print_speed(&args);
    if (args.seeds)
        return sweep(&args);
    mare_sim_options options;
    prepare(&options, &args, args.seed, !args.seed_given);
    int good = run_traced(&options, args.trace || !args.seed_given);
    mare_sim_options_fini(&options);
    return good ? 0 : 1;
}
