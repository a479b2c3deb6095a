// SPDX-License-Identifier: MIT
// `mare sim`: the simulator from the command line. One run of an algorithm is done here; sweeps,
// scenario files and figures go to the module mare.sim, in Lua, in an ordinary process.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "platform/platform.h"
#include "sim/report.h"

enum { CALM_MEMBERS = 4 };

struct arguments {
    mare_coord_setup setup; // the algorithm and its parameters
    uint32_t n;             // 0: by the seed
    uint64_t seed, seeds;
    const char *faults, *map;
    mare_sim_profile profile;
    int64_t loss_ppm, duplicate_ppm, abandon_ppm, drift_ppm, rounds; // −1: not given
    bool seed_given, table, speed;
    struct mare_sim_show show;
};

const char mare__cli_sim_help[] =
    "mare sim ALGORITHM [options]     runs an algorithm in virtual time and checks its promises\n"
    "mare sim FIGURE [options]        a figure or worked example of the books, by its name\n"
    "mare sim FILE.lua [options]      a scenario of yours: docs/reference/sim.md\n"
    "mare sim list                    every algorithm and figure; --names: their names alone\n"
    "mare sim --table                 what each costs, measured next to its formulas\n"
    "\n"
    "A simulation is a group of processes, a network and its faults, all decided by one seed:\n"
    "the same seed gives the same run, to the bit. Checkers watch every step. When a promise is\n"
    "broken in a sweep, the faults are shrunk to the few that matter, the run is drawn, and the\n"
    "line that repeats it is printed.\n"
    "\n"
    "What to run\n"
    "  --n N              so many processes\n"
    "  --param NAME=VALUE a parameter of the algorithm; `mare sim list` has them\n"
    "  --rounds R         requests of each process (1 in a calm run)\n"
    "  --seed S           network, faults and pace drawn from S; without it the run is calm\n"
    "  --seeds N          a sweep: N seeds from --seed (or 1) on, until one breaks a promise\n"
    "\n"
    "Faults\n"
    "  --profile NAME     what the seed's faults are like: usual, clustered (crashes close\n"
    "                     together), joiners (newcomers fail), suspected (a paused process is\n"
    "                     taken for dead), brief (long stays, short crashes), quiet (some\n"
    "                     fall silent)\n"
    "  --faults LIST      crash:3@120000+50000,partition:0.1@200000+80000: process 3 is down from\n"
    "                     120 ms for 50 ms; then 0 and 1 are cut off from the others for 80 ms.\n"
    "                     Kinds: crash (returns with its memory), amnesia (without), pause,\n"
    "                     partition, one-way, leave, join, burst (per cent lost); +0 is forever\n"
    "  --loss, --duplicate, --abandon P   parts in a million, or 5%\n"
    "  --drift PPM        the largest error of the clocks' rates\n"
    "\n"
    "What to see\n"
    "  --trace            every step (a calm run shows it without being asked)\n"
    "  --draw FILE        a space-time diagram: FILE.html to move about in, or FILE.svg\n"
    "  --from US, --to US the part of the run to draw\n"
    "  --map FILE.svg     a network from above, for the figures that have one\n"
    "  --shiviz FILE      a log for ShiViz\n"
    "  --table            messages and delays next to the formulas, n = 2 ... 200\n"
    "  --speed            messages delivered in a second\n"
    "  --json             figures for programs\n"
    "\n"
    "Try\n"
    "  mare sim ricart --n 3 --draw ricart.html  three processes, one entry each\n"
    "  mare sim ricart --seeds 1000              a thousand runs with faults\n"
    "  mare sim ricart --seeds 1000 --param repair=0 --loss 1%\n"
    "                                            as in the book, but messages get lost: it fails\n"
    "\n"
    "Exit codes: 0 all promises kept, 1 one was broken, 2 wrong usage.\n";

// ---- Runs --------------------------------------------------------------------------------------

static void override(mare_sim_options *options, const struct arguments *args)
{
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
    if (args->rounds >= 0)
        options->rounds = (uint32_t)args->rounds;
}

// The options of one run: drawn from the seed, or calm, one request each and no second phase.
// Returns whether they make sense, after saying why they do not.
static bool prepare(mare_sim_options *options, const struct arguments *args, uint64_t seed,
                    bool calm)
{
    uint32_t n = calm ? CALM_MEMBERS : mare_sim_draw_members(seed);
    mare_sim_options_init(options, args->setup.algorithm, args->n ? args->n : n);
    memcpy(options->setup.param, args->setup.param, sizeof options->setup.param);
    options->seed = seed;
    options->profile = args->profile;
    if (calm) {
        options->rounds = 1;
        options->settle_us = args->faults && *args->faults ? options->settle_us : 0;
    } else {
        mare_sim_vary(options);
    }
    override(options, args);
    mare_sim_make_room_to_join(options);
    char why[200];
    if (!mare_sim_options_refuse(options, why, sizeof why))
        return true;
    fprintf(stderr, "mare sim: %s\n", why);
    mare_sim_options_fini(options);
    return false;
}

// Delivered messages in a second, checkers and all.
static int print_speed(const struct arguments *args)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    if (!prepare(&options, args, args->seed, true))
        return EXIT_USAGE;
    options.rounds = 0;
    options.duration_us = UINT64_C(60000000);
    override(&options, args);
    uint64_t begin = mare__platform_live.now_ns(mare__platform_live.context);
    mare_sim_run(&options, NULL, &outcome);
    double seconds =
        (double)(mare__platform_live.now_ns(mare__platform_live.context) - begin) / 1e9;
    printf(args->show.json ? "{\"algorithm\":\"%s\",\"n\":%" PRIu32 ",\"delivered\":%" PRIu64
                             ",\"seconds\":%.6f,\"per_second\":%.0f}\n"
                           : "%s, n = %" PRIu32 ": %" PRIu64 " messages delivered in %.3f s: "
                             "%.0f in a second\n",
           args->setup.algorithm->name, options.setup.members, outcome.delivered, seconds,
           (double)outcome.delivered / seconds);
    mare_sim_options_fini(&options);
    return 0;
}

static int print_table(const struct arguments *args)
{
    mare_sim_options options;
    if (!prepare(&options, args, args->seed, true))
        return EXIT_USAGE;
    mare_sim_options_fini(&options);
    return mare_sim_write_table(&args->setup, args->n, args->show.json, stdout) ? EXIT_DIED : 0;
}

static int run_once(const struct arguments *args)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    struct mare_sim_show show = args->show;
    show.trace |= !args->seed_given && !show.json && !show.draw && !show.shiviz;
    if (!prepare(&options, args, args->seed, !args->seed_given))
        return EXIT_USAGE;
    int code = mare_sim_show_run(&options, &show, stdout, &outcome);
    if (code == 1 && !show.json && args->seed_given) {
        printf("replay    mare sim %s ", options.setup.algorithm->name);
        mare_sim_write_replay(&options, stdout);
        putchar('\n');
    }
    mare_sim_options_fini(&options);
    return code;
}

// ---- Arguments ---------------------------------------------------------------------------------

static int refuse(const char *what, const char *word)
{
    return mare__cli_refuse("sim", mare__cli_sim_help, what, word);
}

// A whole number that is not negative, or −1. With `ppm`, "5%" is 50,000 parts in a million.
static int64_t read_number(const char *text, bool ppm)
{
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return -1;
    if (ppm && text[strlen(text) - 1] == '%') {
        double percent = strtod(text, &end);
        return *end == '%' && end[1] == '\0' && percent <= 100 ? (int64_t)(percent * 10000) : -1;
    }
    long long value = strtoll(text, &end, 10);
    return *end || errno ? -1 : value;
}

// "retry_us=100" of the algorithm; of a scenario, whose algorithm is not known yet, only its form.
static bool set_parameter(struct arguments *args, const char *text)
{
    char name[40], why[300], *end = NULL;
    const char *equals = strchr(text, '=');
    errno = 0;
    long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!equals || (size_t)(equals - text) >= sizeof name || end == equals + 1 || *end || errno) {
        fprintf(stderr, "mare sim: --param is NAME=NUMBER, not '%s'\n", text);
        return false;
    }
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    if (args->setup.algorithm && mare_sim_set_param(&args->setup, name, value, why, sizeof why)) {
        fprintf(stderr, "mare sim: %s\n", why);
        return false;
    }
    return true;
}

static bool read_flag(struct arguments *args, const char *word)
{
    const struct {
        const char *name;
        bool *flag;
        int *show;
    } flags[] = {{"--table", &args->table, NULL},
                 {"--speed", &args->speed, NULL},
                 {"--trace", NULL, &args->show.trace},
                 {"--json", NULL, &args->show.json}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(word, flags[i].name) != 0)
            continue;
        if (flags[i].flag)
            *flags[i].flag = true;
        else
            *flags[i].show = 1;
        return true;
    }
    return false;
}

// Options with a number. Returns 1 when it is one, −1 after saying why its value makes no sense, 0
// otherwise.
static int read_amount(struct arguments *args, const char *word, const char *value)
{
    int64_t n = -1, seed = -1, seeds = -1, from = -1, to = -1;
    const struct {
        const char *name;
        int64_t *place;
        int64_t least, most;
        bool ppm;
    } amounts[] = {{"--n", &n, 1, 65536, false},
                   {"--seed", &seed, 0, INT64_MAX, false},
                   {"--seeds", &seeds, 1, INT64_MAX, false},
                   {"--from", &from, 0, INT64_MAX, false},
                   {"--to", &to, 1, INT64_MAX, false},
                   {"--rounds", &args->rounds, 0, UINT32_MAX, false},
                   {"--loss", &args->loss_ppm, 0, 1000000, true},
                   {"--duplicate", &args->duplicate_ppm, 0, 1000000, true},
                   {"--abandon", &args->abandon_ppm, 0, 1000000, true},
                   {"--drift", &args->drift_ppm, 0, 100000, true}};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        if (strcmp(word, amounts[i].name) != 0)
            continue;
        *amounts[i].place = read_number(value, amounts[i].ppm);
        if (*amounts[i].place < amounts[i].least || *amounts[i].place > amounts[i].most) {
            fprintf(stderr,
                    "mare sim: %s is a whole number from %" PRId64 " to %" PRId64 "%s, "
                    "not '%s'\n",
                    word, amounts[i].least, amounts[i].most,
                    amounts[i].ppm ? " (parts in a million), or per cent as in 0.5%" : "", value);
            return -1;
        }
        args->n = n >= 0 ? (uint32_t)n : args->n;
        args->seed_given |= seed >= 0;
        args->seed = seed >= 0 ? (uint64_t)seed : args->seed;
        args->seeds = seeds >= 0 ? (uint64_t)seeds : args->seeds;
        args->show.from_us = from >= 0 ? (uint64_t)from : args->show.from_us;
        args->show.to_us = to >= 0 ? (uint64_t)to : args->show.to_us;
        return 1;
    }
    return 0;
}

static bool faults_make_sense(const char *text)
{
    mare_sim_fault_list list = {0};
    size_t wrong = mare_sim_faults_read(&list, text);
    mare_sim_faults_fini(&list);
    const char *rest = wrong ? text + wrong - 1 : "";
    if (wrong && *rest)
        fprintf(stderr, "mare sim: --faults cannot be read from '%s' on; ", rest);
    else if (wrong)
        fprintf(stderr, "mare sim: --faults '%s' lacks something at its end; ", text);
    if (wrong)
        fputs("a fault is KIND:PROCESS@AT_US+FOR_US, as crash:3@120000+50000\n", stderr);
    return wrong == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

// Options with a text. Returns as read_amount().
static int read_text(struct arguments *args, const char *word, const char *value)
{
    if (strcmp(word, "--param") == 0)
        return set_parameter(args, value) ? 1 : -1;
    if (strcmp(word, "--faults") == 0) {
        args->faults = value;
        return faults_make_sense(value) ? 1 : -1;
    }
    if (strcmp(word, "--profile") == 0) {
        args->profile = mare_sim_profile_find(value);
        if (args->profile < MARE_SIM_PROFILES)
            return 1;
        fprintf(stderr, "mare sim: there is no profile '%s', but", value);
        for (int i = 0; i < MARE_SIM_PROFILES; i++)
            fprintf(stderr, "%s %s", i ? "," : "", mare_sim_profile_name((mare_sim_profile)i));
        fputc('\n', stderr);
        return -1;
    }
    if (strcmp(word, "--shiviz") == 0) {
        args->show.shiviz = value;
        return 1;
    }
    if (strcmp(word, "--map") == 0) {
        args->map = value;
        if (ends_with(value, ".svg"))
            return 1;
        fprintf(stderr, "mare sim: --map is a file that ends with .svg, not '%s'\n", value);
        return -1;
    }
    if (strcmp(word, "--draw") != 0)
        return 0;
    args->show.draw = value;
    if (ends_with(value, ".html") || ends_with(value, ".svg"))
        return 1;
    fprintf(stderr, "mare sim: --draw is a file that ends with .html or .svg, not '%s'\n", value);
    return -1;
}

// Reads the options into `args`. Returns 0 or an exit code.
static int read_options(struct arguments *args, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (read_flag(args, word))
            continue;
        if (word[0] != '-')
            return refuse("one name only, not also", word);
        int known = value ? read_amount(args, word, value) : 0;
        known = value && known == 0 ? read_text(args, word, value) : known;
        if (known == 0)
            return refuse(
                value ? "there is no option" : "unknown option, or one without its value,", word);
        if (known < 0)
            return EXIT_USAGE;
        i++;
    }
    return 0;
}

// Refuses options that have no effect together, so that nobody believes that they had one.
static int check_together(const struct arguments *args)
{
    const struct mare_sim_show *show = &args->show;
    bool sweep = args->seeds != 0, window = show->from_us || show->to_us;
    bool asks = args->faults || args->loss_ppm >= 0 || args->duplicate_ppm >= 0 ||
                args->abandon_ppm >= 0 || args->drift_ppm >= 0 || args->rounds >= 0;
    bool looks = show->trace || show->draw || show->shiviz || window;
    const struct {
        bool wrong;
        const char *why;
    } rules[] = {
        {args->table && args->speed, "use either --table or --speed"},
        {args->table && (args->seed_given || sweep || asks || looks),
         "--table measures calm runs: it takes only --n, --param and --json"},
        {args->speed && (args->seed_given || sweep || looks),
         "--speed takes no seeds, and nothing to show but --json"},
        {args->profile != MARE_SIM_USUAL && !args->seed_given && !sweep,
         "--profile needs --seed or --seeds"},
        {show->json && show->trace, "use either --json or --trace"},
        {window && !show->draw && !sweep,
         "--from and --to need --draw: they choose the part of the run that it draws"},
        {sweep && args->map, "--map draws one run, so it cannot be used with --seeds"},
        {show->to_us && show->from_us >= show->to_us, "--from must be before --to"},
        {sweep && args->seed > (uint64_t)INT64_MAX - (args->seeds - 1),
         "there are not that many seeds above --seed"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].wrong) {
            fprintf(stderr, "mare sim: %s\n", rules[i].why);
            return EXIT_USAGE;
        }
    }
    return 0;
}

// ---- Scenarios and sweeps ----------------------------------------------------------------------

// Runs as a program whose arguments are the options, checked, and "--bar" if there is somebody to
// see it.
static int run_in_lua(const struct arguments *args, int argc, char **argv)
{
    static char code[] = "require 'mare.sim'.main(...)", bar[] = "--bar";
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (!words) {
        fputs("mare sim: out of memory\n", stderr);
        return EXIT_DIED;
    }
    int count = 0;
    words[count++] = code;
    for (int i = 1; i < argc; i++)
        words[count++] = argv[i];
    if (isatty(STDERR_FILENO) && !args->show.json)
        words[count++] = bar;
    int result = mare__cli_run(SOURCE_CODE, count, words);
    free(words);
    return result;
}

// `mare sim list` and `mare sim --table`, each with --json if wanted; `mare sim list --names`.
static int show_all(int argc, char **argv)
{
    bool list = strcmp(argv[1], "list") == 0;
    if (argc == 3 && list && strcmp(argv[2], "--names") == 0)
        return mare__cli_sim_names();
    bool json = argc > 2 && strcmp(argv[2], "--json") == 0;
    if (argc > 2 + json)
        return refuse(list ? "'list' takes --json or --names, not"
                           : "the tables of all algorithms take only --json, not",
                      argv[2 + json]);
    if (list)
        return mare__cli_sim_list(json);
    return mare__cli_sim_tables(json);
}

static bool asks_for_help(int argc, char **argv)
{
    if (strcmp(argv[1], "help") == 0)
        return true;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

// Prints what is known of an algorithm, if one is named, and then the options.
static int help(const char *name)
{
    const mare_coord_algorithm *algorithm = mare_sim_find(name);
    if (algorithm) {
        mare__cli_sim_describe(algorithm);
        putchar('\n');
    }
    fputs(mare__cli_sim_help, stdout);
    return 0;
}

static int refuse_name(const char *name)
{
    const char *near = mare__cli_sim_nearest(name);
    fprintf(stderr, "mare sim: there is no algorithm, figure or file '%s'; ", name);
    if (near)
        fprintf(stderr, "is it '%s'? ", near);
    fputs("'mare sim list' shows them\n", stderr);
    return EXIT_USAGE;
}

int mare__cli_sim(int argc, char **argv)
{
    struct arguments args = {.seed = 1,
                             .loss_ppm = -1,
                             .duplicate_ppm = -1,
                             .abandon_ppm = -1,
                             .drift_ppm = -1,
                             .rounds = -1};
    if (argc < 2) {
        fputs(mare__cli_sim_help, stderr);
        return EXIT_USAGE;
    }
    if (asks_for_help(argc, argv))
        return help(argv[1]);
    if (strcmp(argv[1], "list") == 0 || strcmp(argv[1], "--table") == 0)
        return show_all(argc, argv);
    args.setup.algorithm = mare_sim_find(argv[1]);
    bool scenario =
        !args.setup.algorithm && (ends_with(argv[1], ".lua") || mare__cli_sim_is_figure(argv[1]));
    if (!args.setup.algorithm && !scenario)
        return refuse_name(argv[1]);
    if (!scenario)
        mare_coord_setup_init(&args.setup, args.setup.algorithm, 2);
    int code = read_options(&args, argc, argv);
    code = code ? code : check_together(&args);
    if (code)
        return code;
    if (scenario && (args.table || args.speed))
        return refuse("a figure or file has no", args.table ? "--table" : "--speed");
    if (!scenario && args.map)
        return refuse("only some figures, and files of yours, have a", "--map");
    if (args.table)
        return print_table(&args);
    if (args.speed)
        return print_speed(&args);
    return scenario || args.seeds ? run_in_lua(&args, argc, argv) : run_once(&args);
}
