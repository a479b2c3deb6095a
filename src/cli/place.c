// SPDX-License-Identifier: MIT
// `mare place`: network coordinates from the command line. Here are the arguments; the commands on
// a matrix are in place_matrix.c, those between agents in lua/mare/_place.lua.
#include "cli/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_place_help[] =
    "mare place evaluate FILE [options]      how well coordinates predict a matrix of round trips\n"
    "mare place replicas FILE K [options]    where to put K replicas, by coordinates alone\n"
    "mare place distance FILE A B [options]  the estimate between nodes A and B (from 0), and the\n"
    "                                        measurement\n"
    "mare place map FILE OUT.svg [options]   draws the nodes where their coordinates say\n"
    "mare place agent HOST:PORT [options]    keeps a coordinate by probing other agents over UDP\n"
    "mare place ask HOST:PORT [HOST:PORT]    an agent's coordinate; for two, the estimate between\n"
    "                                        them, with no probe from one to the other\n"
    "\n"
    "FILE is a square matrix of round trips in milliseconds, a row a line (- for standard input),\n"
    "or a generated network of N nodes, drawn from SEED (1):\n"
    "  made:N[:SEED]      towns, heavy tails, one triangle in six broken\n"
    "  noisy:N[:SEED]     most triangles broken, asymmetric, rounded to 10 ms\n"
    "  centre:N[:SEED]    racks of a data centre, about 0.2 ms\n"
    "  sites:N[:SEED]     six data centres, 0.3 ms within, up to 250 ms between\n"
    "\n"
    "How to place\n"
    "  --algorithm NAME   vivaldi, gnp (landmarks), or springs (evaluate: the usual Vivaldi,\n"
    "                     to compare with)\n"
    "  --dimensions N     of the space, 1 to 8 (8 and a height, gnp 7; a map 2)\n"
    "  --cycles N         in each, every node probes one random other (1000)\n"
    "  --landmarks N      of gnp (20)\n"
    "  --seed S           the random seed (1)\n"
    "  --seeds N          evaluate: so many runs, from --seed on\n"
    "\n"
    "What to try (vivaldi, springs)\n"
    "  --joining N        the last N nodes join late: after how many probes they are there\n"
    "  --leaving N        the last N nodes are gone after half of the cycles\n"
    "  --liars N          the first N nodes say that they are somewhere else each time\n"
    "  --steady           liars always say the same place, and answer faster than anybody\n"
    "  --spikes P         per cent of round trips measured up to ten times too long\n"
    "\n"
    "An agent\n"
    "  --peer HOST:PORT   a first peer; may be repeated; it tells of others\n"
    "  --interval MS      between two probes (1000)\n"
    "  --for SECONDS      prints its place after this time and ends; else on Ctrl-C\n"
    "  --hold MS          delays packets, to simulate a slow line\n"
    "\n"
    "What to see\n"
    "  --distribution     evaluate: the errors' whole distribution\n"
    "  --replicas K       map: K replicas marked\n"
    "  --json             figures for programs\n"
    "\n"
    "Try\n"
    "  mare place evaluate made:150\n"
    "  mare place map made:150 map.svg --replicas 5\n"
    "  mare place agent 127.0.0.1:7001 &\n"
    "  mare place agent 127.0.0.1:7002 --peer 127.0.0.1:7001 --interval 100 --for 5\n"
    "\n"
    "Exit codes: 0 success, 1 the file or the network failed, 2 wrong usage.\n";

static int refuse(const char *what, const char *word)
{
    return mare__cli_refuse("place", mare__cli_place_help, what, word);
}

// ---- Arguments ---------------------------------------------------------------------------------

static const char *const algorithms[] = {
    [PLACE_VIVALDI] = "vivaldi", [PLACE_SPRINGS] = "springs", [PLACE_GNP] = "gnp"};

const char *mare__place_algorithm(const struct place_arguments *args)
{
    return algorithms[args->algorithm];
}

bool mare__place_read(const char *text, long least, long most, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return end != text && !*end && !errno && *value >= least && *value <= most;
}

// NULL for `value`: it is for a command in Lua, and only checked here.
static bool read_decimal(const char *text, double least, double most, double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (value)
        *value = number;
    return end != text && !*end && number >= least && number <= most;
}

static bool read_flag(struct place_arguments *args, const char *word)
{
    if (strcmp(word, "--json") == 0)
        args->json = true;
    else if (strcmp(word, "--distribution") == 0)
        args->distribution = true;
    else if (strcmp(word, "--steady") == 0)
        args->steady = true;
    else
        return false;
    return true;
}

// Returns 1 when it is an option with a value, −1 when the value makes no sense, 0 otherwise.
static int read_value(struct place_arguments *args, const char *word, const char *value)
{
    const struct {
        const char *name;
        long *place;
        long least, most;
    } whole[] = {{"--dimensions", &args->dimensions, 1, MARE_COORD_DIMENSIONS},
                 {"--cycles", &args->cycles, 1, 1000000},
                 {"--landmarks", &args->landmarks, 2, 1000},
                 {"--replicas", &args->replicas, 1, 1000},
                 {"--seed", &args->seed, 0, 1000000000},
                 {"--seeds", &args->seeds, 1, 1000},
                 {"--joining", &args->joining, 1, 10000},
                 {"--leaving", &args->leaving, 1, 10000},
                 {"--liars", &args->liars, 1, 10000}};
    const struct {
        const char *name;
        double *place, least, most;
    } decimal[] = {{"--interval", NULL, 1, 1e6},
                   {"--for", NULL, 1e-3, 1e9},
                   {"--hold", NULL, 0, 1000},
                   {"--spikes", &args->spikes, 0, 100}};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(word, whole[i].name) == 0)
            return mare__place_read(value, whole[i].least, whole[i].most, whole[i].place) ? 1 : -1;
    for (size_t i = 0; i < sizeof decimal / sizeof *decimal; i++)
        if (strcmp(word, decimal[i].name) == 0)
            return read_decimal(value, decimal[i].least, decimal[i].most, decimal[i].place) ? 1
                                                                                            : -1;
    if (strcmp(word, "--algorithm") == 0) {
        for (int i = PLACE_VIVALDI; i <= PLACE_GNP; i++) {
            args->algorithm = (enum place_algorithm)i;
            if (strcmp(value, algorithms[i]) == 0)
                return 1;
        }
        return -1;
    }
    return strcmp(word, "--peer") == 0; // of which lua/mare/_place.lua knows more
}

// An option that would not be looked at is a mistake of its user. In `uses` are the commands, and
// the algorithms where not all have a use for it. Of unknown options nothing is said here.
static bool is_for(const char *option, const char *command, const char *algorithm)
{
#define MATRICES "evaluate replicas distance map"
#define SPRINGS "vivaldi springs"
    static const struct {
        const char *option, *commands, *algorithms;
    } uses[] = {{"--algorithm", MATRICES, NULL},
                {"--dimensions", MATRICES " agent", NULL},
                {"--cycles", MATRICES, SPRINGS},
                {"--landmarks", MATRICES, "gnp"},
                {"--seed", MATRICES, NULL},
                {"--seeds", "evaluate", NULL},
                {"--joining", "evaluate", SPRINGS},
                {"--leaving", "evaluate", SPRINGS},
                {"--liars", MATRICES, SPRINGS},
                {"--steady", MATRICES, SPRINGS},
                {"--spikes", MATRICES, SPRINGS},
                {"--peer", "agent", NULL},
                {"--interval", "agent", NULL},
                {"--for", "agent", NULL},
                {"--hold", "agent", NULL},
                {"--distribution", "evaluate", NULL},
                {"--replicas", "map", NULL},
                {"--json", "evaluate replicas distance agent ask", NULL}};
#undef MATRICES
#undef SPRINGS
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (strcmp(uses[i].option, option) == 0)
            return strstr(uses[i].commands, command) &&
                   (!uses[i].algorithms || !algorithm || strstr(uses[i].algorithms, algorithm));
    }
    return true;
}

// Checks that every option belongs to this command and to the chosen algorithm.
static int check_options(const struct place_arguments *args, int argc, char **argv)
{
    const char *algorithm = mare__place_algorithm(args);
    for (int i = 2; i < argc; i++) {
        bool good = is_for(argv[i], argv[1], NULL);
        if (good && is_for(argv[i], argv[1], algorithm))
            continue;
        fprintf(stderr, "mare place: %s is not for %s; 'mare help place' tells more\n", argv[i],
                good ? algorithm : argv[1]);
        return EXIT_USAGE;
    }
    if (args->algorithm == PLACE_SPRINGS && strcmp(argv[1], "evaluate") != 0)
        return refuse("only evaluate compares with", algorithm);
    return args->steady && !args->liars ? refuse("without --liars there is no", "--steady") : 0;
}

// Reads what follows the command. Returns 0 or an exit code.
static int read_arguments(struct place_arguments *args, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (read_flag(args, word))
            continue;
        if (word[0] != '-' || word[1] == '\0') {
            if (args->words == PLACE_WORDS)
                return refuse("nothing to do with", word);
            args->word[args->words++] = word;
            continue;
        }
        int read = value ? read_value(args, word, value) : 0;
        if (read == 0)
            return refuse(
                value ? "there is no option" : "unknown option, or one without its value,", word);
        if (read < 0) {
            fprintf(stderr, "mare place: %s cannot be '%s'; 'mare help place' tells more\n", word,
                    value);
            return EXIT_USAGE;
        }
        i++;
    }
    return 0;
}

// ---- Matrices ----------------------------------------------------------------------------------

// The network that "made:9", "noisy:9:2" … is of, and what follows the name; NULL: it is a file.
static const char *network_of(const char *name, mare_sim_network *network)
{
    for (int i = 0; i < MARE_SIM_NETWORKS; i++) {
        *network = (mare_sim_network)i;
        const char *kind = mare_sim_network_name(*network);
        size_t length = strlen(kind);
        if (strncmp(name, kind, length) == 0 && name[length] == ':')
            return name + length + 1;
    }
    return NULL;
}

// N or N:SEED is in `text`. Returns 0, or an exit code after saying why.
static int make_matrix(const char *name, mare_sim_network network, const char *text,
                       mare_sim_matrix *matrix)
{
    char nodes[8];
    long n, seed = 1;
    size_t digits = strcspn(text, ":");
    const char *rest = text + digits;
    snprintf(nodes, sizeof nodes, "%.*s", digits < sizeof nodes ? (int)digits : 0, text);
    if (!mare__place_read(nodes, 3, 5000, &n) ||
        (*rest && !mare__place_read(rest + 1, 0, 1000000000, &seed)))
        return refuse("NAME:N has from 3 to 5000 nodes, and NAME:N:SEED a number, not", name);
    if (!mare_sim_matrix_make(matrix, network, (uint32_t)n, (uint64_t)seed)) {
        fputs("mare place: not enough memory\n", stderr);
        return EXIT_DIED;
    }
    return 0;
}

static int read_matrix(const char *name, mare_sim_matrix *matrix)
{
    char why[100];
    mare_sim_network network;
    const char *made = network_of(name, &network);
    if (made)
        return make_matrix(name, network, made, matrix);
    FILE *file = strcmp(name, "-") == 0 ? stdin : fopen(name, "r");
    if (!file) {
        fprintf(stderr, "mare place: %s: %s\n", name, strerror(errno));
        return EXIT_DIED;
    }
    const char *wrong = mare_sim_matrix_read(matrix, file, why);
    if (file != stdin)
        fclose(file);
    if (wrong) {
        fprintf(stderr, "mare place: %s: %s\n", name, wrong);
        return EXIT_DIED;
    }
    return 0;
}

// ---- Commands ----------------------------------------------------------------------------------

struct command {
    const char *name;
    int least, most; // words
    // NULL: it is in Lua.
    int (*on_matrix)(const struct place_arguments *args, const mare_sim_matrix *matrix);
};

static const struct command commands[] = {
    {"evaluate", 1, 1, mare__place_evaluate},
    {"replicas", 2, 2, mare__place_replicas},
    {"distance", 3, 3, mare__place_distance},
    {"map", 2, 2, mare__place_map},
    {"agent", 1, 1, NULL},
    {"ask", 1, 2, NULL},
};

static int carry_out(const struct command *command, const struct place_arguments *args)
{
    mare_sim_matrix matrix;
    int code = read_matrix(args->word[0], &matrix);
    if (code)
        return code;
    code = command->on_matrix(args, &matrix);
    mare_sim_matrix_fini(&matrix);
    return code;
}

int mare__cli_place(int argc, char **argv)
{
    struct place_arguments args = {.seed = 1, .seeds = 1};
    if (argc < 2) {
        fputs(mare__cli_place_help, stderr);
        return EXIT_USAGE;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_place_help, stdout);
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        int code = read_arguments(&args, argc, argv);
        code = code ? code : check_options(&args, argc, argv);
        if (code)
            return code;
        if (!args.word[0] || args.words < commands[i].least || args.words > commands[i].most)
            return refuse("more or fewer words than it takes after", argv[1]);
        return commands[i].on_matrix ? carry_out(&commands[i], &args)
                                     : mare__cli_run_module("mare._place", argc, argv);
    }
    return refuse("there is no command", argv[1]);
}
