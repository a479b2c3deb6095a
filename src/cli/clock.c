// SPDX-License-Identifier: MIT
// `mare clock`: which subcommand, and the form of its arguments. What is done over the network is
// in lua/mare/_clock.lua, on the modules mare.ntp and mare.rbs; the simulation is in
// clock_simulate.c.
#include "cli/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_clock_help[] =
    "mare clock query HOST[:PORT] ...   asks time servers how wrong this machine's clock is\n"
    "mare clock watch HOST[:PORT] ...   keeps asking, and draws a chart in the terminal\n"
    "mare clock serve ADDRESS:PORT      serves the time (NTPv4)\n"
    "mare clock beacon GROUP:PORT       sends reference broadcasts by multicast\n"
    "mare clock hear GROUP:PORT         compares clocks with all that hear the same broadcasts\n"
    "mare clock simulate                the same algorithms in virtual time, against the truth\n"
    "\n"
    "Every offset comes with an error bound that assumes nothing about the network: the truth\n"
    "is within it, as long as the servers keep to their own bounds and this machine's oscillator\n"
    "to --drift. Of m servers (m - 1) / 2 may lie, and more than that must agree: two of three,\n"
    "three of five, whether the others answer or not. No clock is changed.\n"
    "\n"
    "Asking\n"
    "  --samples N        questions to each server (8); the one with the shortest delay counts\n"
    "  --interval S       seconds between questions (query 0.05, watch 1)\n"
    "  --timeout S        how long to wait for an answer (1)\n"
    "  --liars N          how many of the servers may be wrong; also with --follow\n"
    "  --drift PPM        maximum drift rate of the oscillator, parts in a million (100)\n"
    "  --count N          watch: stop after N rounds; serve: N answers; beacon: N broadcasts;\n"
    "                     hear: N comparisons\n"
    "\n"
    "Serving\n"
    "  --follow HOST      take the time from there, not from the system's clock; may be repeated\n"
    "  --stratum N        without --follow: what the system's clock is worth (10)\n"
    "  --error MS         without --follow: by how many milliseconds it may be wrong (100)\n"
    "  --slew PPM         how fast corrections go in (500)\n"
    "\n"
    "Reference broadcasts\n"
    "  --interface A      the interface, by its address (127.0.0.1)\n"
    "  --name WORD        what others call this receiver, up to 8 letters\n"
    "  --jitter US        two receivers hear the same broadcast within this, microseconds (1000)\n"
    "  --wander PPM       rates differ from a constant by at most this (1)\n"
    "  --ahead S          pretend that this clock is so many seconds ahead\n"
    "\n"
    "Keys (AES-128-CMAC, RFC 8573)\n"
    "  --keys FILE        lines of NUMBER AES128 HEX:32 digits, as chronyd has them\n"
    "  --key N            asking: the key to use\n"
    "  --authenticated    serving: clients without a key get no answer\n"
    "\n"
    "Simulating\n"
    "  --seed S, --seeds N   so many worlds (100), from S on (1)\n"
    "  --bound PERCENT    check readings against this share of their bound (100)\n"
    "  --readings         with --json: every reading\n"
    "\n"
    "  --json             for programs: one object, a line each in watch and serve\n"
    "\n"
    "Try\n"
    "  mare clock serve 127.0.0.1:11123 --stratum 5 &\n"
    "  mare clock watch 127.0.0.1:11123\n"
    "\n"
    "Exit codes: 0 there is a time, 1 there is none (no such host, no answer, no agreement), 2\n"
    "wrong usage.\n";

// ---- Options ------------------------------------------------------------------------------------

enum kind { FLAG, TEXT, NUMBER, WHOLE };

static const struct option {
    const char *name, *commands; // who looks at it; NULL: all
    enum kind kind;
    double least, most; // of a number
} options[] = {{"--samples", "query", WHOLE, 1, 1000},
               {"--interval", "query watch serve beacon", NUMBER, 0, 131072},
               {"--timeout", "query watch", NUMBER, 0.001, 3600},
               {"--liars", "query watch serve", WHOLE, 0, 31},
               {"--drift", "query watch serve hear", NUMBER, 0, 100000},
               {"--count", "watch serve beacon hear", WHOLE, 1, 1e15},
               {"--follow", "serve", TEXT, 0, 0},
               {"--stratum", "serve", WHOLE, 1, 15},
               {"--error", "serve", NUMBER, 0, 16000},
               {"--slew", "serve", NUMBER, 1, 500000},
               {"--authenticated", "serve", FLAG, 0, 0},
               {"--keys", "query watch serve", TEXT, 0, 0},
               {"--key", "query watch serve", WHOLE, 1, UINT32_MAX},
               {"--interface", "beacon hear", TEXT, 0, 0},
               {"--name", "hear", TEXT, 0, 0},
               {"--jitter", "hear", NUMBER, 0, 1e9},
               {"--wander", "hear", NUMBER, 0, 100000},
               {"--ahead", "hear", NUMBER, -1e8, 1e8},
               {"--seed", "simulate", WHOLE, 0, 1e15},
               {"--seeds", "simulate", WHOLE, 1, 1e9},
               {"--bound", "simulate", WHOLE, 1, 100},
               {"--readings", "simulate", FLAG, 0, 0},
               {"--json", NULL, FLAG, 0, 0}};

enum { OPTIONS = sizeof options / sizeof *options, SERVERS_MOST = 32 };

static int refuse(const char *what, const char *word)
{
    return mare__cli_refuse("clock", mare__cli_clock_help, what, word);
}

static const struct option *find(const char *name)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static bool can_be(const struct option *option, const char *value)
{
    char *end;
    if (option->kind == TEXT)
        return true;
    double number = strtod(value, &end);
    return end != value && !*end && number >= option->least && number <= option->most &&
           (option->kind != WHOLE || number == floor(number));
}

// An option that the command would not look at is a mistake of its user.
static int check_option(const char *command, const char *word, const char *value)
{
    const struct option *option = find(word);
    if (!option && value)
        return refuse("there is no option", word);
    if (!option || (option->kind != FLAG && !value))
        return refuse("unknown option, or one without its value,", word);
    bool mine = !option->commands || strstr(option->commands, command);
    if (mine && (option->kind == FLAG || can_be(option, value)))
        return 0;
    fprintf(stderr,
            mine ? "mare clock: %s cannot be '%s'; 'mare help clock' tells more\n"
                 : "mare clock: %s is not for %s; 'mare help clock' tells more\n",
            word, mine ? value : command);
    return EXIT_USAGE;
}

double mare__clock_option(int argc, char **argv, const char *name, double otherwise)
{
    double value = otherwise;
    for (int i = 2; i < argc; i++) {
        const struct option *option = find(argv[i]);
        bool flag = option && option->kind == FLAG;
        if (option && strcmp(option->name, name) == 0)
            value = flag ? 1 : strtod(argv[i + 1], NULL);
        i += option && !flag;
    }
    return value;
}

// ---- Commands -----------------------------------------------------------------------------------

// How many words that are no options a command has, and what it says of too few or too many.
struct command {
    const char *name;
    int least, most;
    const char *what, *example;
};

static const struct command commands[] = {
    {"query", 1, SERVERS_MOST, "which server? As in", "mare clock query 127.0.0.1:123"},
    {"watch", 1, SERVERS_MOST, "which server? As in", "mare clock query 127.0.0.1:123"},
    {"serve", 1, 1, "at which address? As in", "127.0.0.1:11123, or 239.1.2.3:11124"},
    {"beacon", 1, 1, "at which address? As in", "127.0.0.1:11123, or 239.1.2.3:11124"},
    {"hear", 1, 1, "at which address? As in", "127.0.0.1:11123, or 239.1.2.3:11124"},
    {"simulate", 0, 0, NULL, NULL}};

static int check_arguments(const struct command *command, int argc, char **argv)
{
    int words = 0, follows = 0;
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] != '-') {
            if (++words > command->most)
                return refuse(command->most == 0   ? "'simulate' takes only options, not"
                              : command->most == 1 ? "only one address, not also"
                                                   : "at most 32 servers, not also",
                              argv[i]);
            continue;
        }
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int code = check_option(command->name, argv[i], value);
        if (code)
            return code;
        if (strcmp(argv[i], "--follow") == 0 && ++follows > SERVERS_MOST)
            return refuse("at most 32 servers, not also", value);
        i += find(argv[i])->kind != FLAG;
    }
    return words < command->least ? refuse(command->what, command->example) : 0;
}

int mare__cli_clock(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_clock_help, stdout);
            return 0;
        }
    }
    if (argc < 2) {
        fputs(mare__cli_clock_help, stderr);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        int code = check_arguments(&commands[i], argc, argv);
        if (code)
            return code;
        if (commands[i].most > 0)
            return mare__cli_run_module("mare._clock", argc, argv);
        if (mare__clock_option(argc, argv, "--readings", 0) &&
            !mare__clock_option(argc, argv, "--json", 0))
            return refuse("only with --json there is", "--readings");
        return mare__clock_simulate(argc, argv);
    }
    return refuse("there is no", argv[1]);
}
