// SPDX-License-Identifier: MIT
// `mare clock`: which subcommand, its arguments, the file of keys.
#include "cli/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_clock_help[] =
    "mare clock query HOST[:PORT] ...   asks time servers how wrong this machine's clock is\n"
    "mare clock watch HOST[:PORT] ...   goes on asking; a chart in the terminal\n"
    "mare clock serve ADDRESS:PORT      serves the time (NTPv4)\n"
    "mare clock beacon GROUP:PORT       sends reference broadcasts by multicast\n"
    "mare clock hear GROUP:PORT         compares clocks with all that hear the same broadcasts\n"
    "mare clock simulate                the same algorithms in virtual time, against the truth\n"
    "\n"
    "Every offset comes with an error bound that supposes nothing of the network: the truth is\n"
    "not further away, as long as the servers keep to their own bounds and this machine's\n"
    "oscillator to --drift. With m servers, (m - 1) / 2 may lie. Nobody's clock is changed.\n"
    "\n"
    "Asking\n"
    "  --samples N        questions to each server (8); the one with the shortest way counts\n"
    "  --interval S       seconds between questions (query 0.05, watch 1)\n"
    "  --timeout S        how long to wait for an answer (1)\n"
    "  --drift PPM        maximum drift rate of the oscillator, parts in a million (100)\n"
    "  --count N          watch: stop after N rounds; serve: N answers; beacon: N broadcasts;\n"
    "                     hear: N comparisons\n"
    "\n"
    "Serving\n"
    "  --follow HOST      take the time from there, not from the system's clock; may be repeated\n"
    "  --stratum N        without --follow: what the system's clock is worth (10)\n"
    "  --error MS         without --follow: what it may be wrong by, milliseconds (100)\n"
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
    "  --authenticated    serving: who has no key gets no answer\n"
    "\n"
    "Simulating\n"
    "  --seed S, --seeds N   so many worlds (100), from S on (1)\n"
    "  --bound PERCENT    hold readings against so much of their bound (100)\n"
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

static int refuse(const char *what, const char *word)
{
    fprintf(stderr, "mare clock: %s '%s'; 'mare help clock' tells more\n", what, word);
    return EXIT_USAGE;
}

// ---- Keys --------------------------------------------------------------------------------------

static bool read_hex(const char *text, uint8_t secret[16])
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
        return false;
    for (int i = 0; i < 16; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        secret[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return true;
}

// A line is "NUMBER TYPE KEY". Of other types than AES128 we know nothing, and leave them to
// others.
static bool read_key(struct clock_arguments *args, char *line)
{
    char *number = strtok(line, " \t\r\n"), *type = strtok(NULL, " \t\r\n");
    char *key = strtok(NULL, " \t\r\n");
    if (!number || *number == '#')
        return true;
    if (!type || strcmp(type, "AES128") != 0)
        return type != NULL;
    unsigned long id = strtoul(number, NULL, 10);
    if (id == 0 || id > UINT32_MAX || !key || args->key_count == CLOCK_KEYS_MAX)
        return false;
    mare_ntp_key *into = &args->keys[args->key_count++];
    into->id = (uint32_t)id;
    if (strncmp(key, "HEX:", 4) == 0)
        return read_hex(key + 4, into->secret);
    if (strncmp(key, "ASCII:", 6) == 0)
        key += 6;
    memcpy(into->secret, key, strnlen(key, 16));
    return strlen(key) == 16;
}

static int read_keys(struct clock_arguments *args, const char *path)
{
    char line[256];
    unsigned number = 0;
    bool good = true;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "mare clock: %s: %s\n", path, strerror(errno));
        return EXIT_USAGE;
    }
    while (good && fgets(line, sizeof line, file)) {
        number++;
        good = read_key(args, line);
    }
    fclose(file);
    if (good)
        return 0;
    fprintf(stderr, "mare clock: %s:%u: a key is NUMBER AES128 HEX:32 digits, 16 keys at most\n",
            path, number);
    return EXIT_USAGE;
}

// ---- Arguments ---------------------------------------------------------------------------------

// An option that the command would not look at is a mistake of its user.
static bool is_for(const char *option, const char *command)
{
    static const struct {
        const char *option, *commands;
    } uses[] = {{"--samples", "query"},
                {"--interval", "query watch serve beacon"},
                {"--timeout", "query watch"},
                {"--drift", "query watch serve hear"},
                {"--count", "watch serve beacon hear"},
                {"--follow", "serve"},
                {"--stratum", "serve"},
                {"--error", "serve"},
                {"--slew", "serve"},
                {"--authenticated", "serve"},
                {"--keys", "query watch serve"},
                {"--key", "query watch serve"},
                {"--interface", "beacon hear"},
                {"--name", "hear"},
                {"--jitter", "hear"},
                {"--wander", "hear"},
                {"--ahead", "hear"},
                {"--seed", "simulate"},
                {"--seeds", "simulate"},
                {"--bound", "simulate"},
                {"--readings", "simulate"}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        if (strcmp(uses[i].option, option) == 0)
            return strstr(uses[i].commands, command) != NULL;
    }
    return true; // of all, or unknown
}

// Options with a number. Returns 1 when it is one, −1 when its value makes no sense, 0 otherwise.
static int read_amount(struct clock_arguments *args, const char *word, const char *value)
{
    double samples = args->samples, stratum = args->stratum, key = args->key;
    double count = (double)args->count, seed = (double)args->seed, seeds = (double)args->seeds;
    double bound = args->bound_percent;
    const struct {
        const char *name;
        double *place;
        double least, most;
        bool whole;
    } amounts[] = {{"--samples", &samples, 1, 1000, true},
                   {"--interval", &args->interval_s, 0, 131072, false},
                   {"--timeout", &args->timeout_s, 0.001, 3600, false},
                   {"--drift", &args->drift_ppm, 0, 100000, false},
                   {"--jitter", &args->jitter_us, 0, 1e9, false},
                   {"--wander", &args->wander_ppm, 0, 100000, false},
                   {"--ahead", &args->ahead_s, -1e8, 1e8, false},
                   {"--slew", &args->slew_ppm, 1, 500000, false},
                   {"--error", &args->error_ms, 0, 16000, false},
                   {"--stratum", &stratum, 1, 15, true},
                   {"--count", &count, 1, 1e15, true},
                   {"--key", &key, 1, UINT32_MAX, true},
                   {"--seed", &seed, 0, 1e15, true},
                   {"--seeds", &seeds, 1, 1e9, true},
                   {"--bound", &bound, 1, 100, true}};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        if (strcmp(word, amounts[i].name) != 0)
            continue;
        char *end;
        double number = strtod(value, &end);
        if (end == value || *end || !(number >= amounts[i].least && number <= amounts[i].most) ||
            (amounts[i].whole && number != floor(number)))
            return -1;
        *amounts[i].place = number;
        args->samples = (unsigned)samples;
        args->stratum = (unsigned)stratum;
        args->key = (unsigned)key;
        args->count = (uint64_t)count;
        args->seed = (uint64_t)seed;
        args->seeds = (uint64_t)seeds;
        args->bound_percent = (unsigned)bound;
        return 1;
    }
    return 0;
}

static int add_server(struct clock_arguments *args, const char *name)
{
    if (args->servers == MARE_NTP_SERVERS_MAX)
        return refuse("32 servers are enough, without", name);
    args->server[args->servers++] = name;
    return 0;
}

// What the packets of reference broadcasts have room for, and others can print.
static int read_name(struct clock_arguments *args, const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    if (strlen(name) > MARE_RBS_NAME || strspn(name, letters) != strlen(name))
        return refuse("--name has up to 8 letters, digits, dots and dashes, not", name);
    args->name = name;
    return 0;
}

static int read_option(struct clock_arguments *args, const char *word, const char *value)
{
    if (!value)
        return refuse("unknown option, or one without its value,", word);
    int amount = read_amount(args, word, value);
    if (amount < 0) {
        fprintf(stderr, "mare clock: %s cannot be '%s'; 'mare help clock' tells more\n", word,
                value);
        return EXIT_USAGE;
    }
    if (amount > 0)
        return 0;
    if (strcmp(word, "--keys") == 0)
        return read_keys(args, value);
    if (strcmp(word, "--follow") == 0)
        return add_server(args, value);
    if (strcmp(word, "--interface") == 0)
        args->interface = value;
    else if (strcmp(word, "--name") == 0)
        return read_name(args, value);
    else
        return refuse("there is no option", word);
    return 0;
}

static int read_arguments(struct clock_arguments *args, int argc, char **argv)
{
    bool asking = strcmp(argv[1], "query") == 0 || strcmp(argv[1], "watch") == 0;
    for (int i = 2; i < argc; i++) {
        int code = 0;
        if (argv[i][0] == '-' && !is_for(argv[i], args->command)) {
            fprintf(stderr, "mare clock: %s is not for %s; 'mare help clock' tells more\n", argv[i],
                    args->command);
            return EXIT_USAGE;
        }
        if (strcmp(argv[i], "--json") == 0)
            args->json = true;
        else if (strcmp(argv[i], "--authenticated") == 0)
            args->authenticated_only = true;
        else if (strcmp(argv[i], "--readings") == 0)
            args->readings = true;
        else if (argv[i][0] == '-') {
            code = read_option(args, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        } else if (asking)
            code = add_server(args, argv[i]);
        else if (strcmp(args->command, "simulate") == 0)
            code = refuse("simulate takes options alone, not", argv[i]);
        else if (args->listen)
            code = refuse("one address only, not also", argv[i]);
        else
            args->listen = argv[i];
        if (code)
            return code;
    }
    return 0;
}

static bool has_key(const struct clock_arguments *args)
{
    bool found = args->key == 0;
    for (unsigned i = 0; i < args->key_count; i++)
        found = found || args->keys[i].id == args->key;
    return found;
}

// Those who do not wait for an answer must wait for the clock.
static bool floods(const struct clock_arguments *args, const char *command)
{
    bool waits =
        strcmp(command, "beacon") != 0 && (strcmp(command, "serve") != 0 || !args->servers);
    return !waits && args->interval_s < 0.01;
}

int mare__cli_clock(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct clock_arguments *);
        double interval_s;
    } commands[] = {{"query", mare__clock_query, 0.05}, {"watch", mare__clock_watch, 1},
                    {"serve", mare__clock_serve, 4},    {"beacon", mare__clock_beacon, 1},
                    {"hear", mare__clock_hear, 1},      {"simulate", mare__clock_simulate, 0}};
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
        struct clock_arguments args = {.command = commands[i].name,
                                       .samples = MARE_NTP_FILTER,
                                       .interval_s = commands[i].interval_s,
                                       .timeout_s = 1,
                                       .drift_ppm = 100,
                                       .slew_ppm = 500,
                                       .error_ms = 100,
                                       .stratum = 10,
                                       .interface = "127.0.0.1",
                                       .name = "",
                                       .jitter_us = 1000,
                                       .wander_ppm = 1,
                                       .seed = 1,
                                       .seeds = 100,
                                       .bound_percent = 100};
        int code = read_arguments(&args, argc, argv);
        if (code)
            return code;
        if (i < 2 && args.servers == 0)
            return refuse("which server? As in", "mare clock query 127.0.0.1:123");
        if (i >= 2 && i <= 4 && !args.listen)
            return refuse("at which address? As in", "127.0.0.1:11123, or 239.1.2.3:11124");
        if (floods(&args, argv[1]))
            return refuse("--interval is at least 0.01 with", argv[1]);
        if (args.readings && !args.json)
            return refuse("only with --json there is", "--readings");
        if (!has_key(&args)) {
            fprintf(stderr, "mare clock: --key %u is not in the file of --keys\n", args.key);
            return EXIT_USAGE;
        }
        return commands[i].run(&args);
    }
    return refuse("there is no", argv[1]);
}
