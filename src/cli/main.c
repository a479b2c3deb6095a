// SPDX-License-Identifier: MIT
// `mare`: which command, and help.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/help.h"

struct command {
    const char *name, *summary, *help;
    int (*run)(int argc, char **argv); // argv[0] is the command
};

static int help(int argc, char **argv);
static int dispatch(int argc, char **argv);

static int version(int argc, char **argv)
{
    (void)argc, (void)argv;
    puts("Maré " MARE_VERSION " (Lua 5.4)");
    return 0;
}

static int run_stdin(int argc, char **argv)
{
    return mare__cli_run(SOURCE_STDIN, argc, argv);
}

static int run_code(int argc, char **argv)
{
    if (argc < 2) {
        fputs("mare: -e needs a piece of Lua: mare -e 'print(1 + 1)'\n", stderr);
        return EXIT_USAGE;
    }
    return mare__cli_run(SOURCE_CODE, argc - 1, argv + 1);
}

// Whether the words after an option that writes a file are a file and a program. Whoever forgets
// the file must not find the program overwritten.
static bool has_file_and_program(int argc, char **argv, const char *example)
{
    size_t length = argc < 2 ? 0 : strlen(argv[1]);
    if (length > 4 && strcmp(argv[1] + length - 4, ".lua") == 0) {
        fprintf(stderr,
                "mare: %s would overwrite %s, which looks like a program; the file to write comes "
                "first: %s\n",
                argv[0], argv[1], example);
        return false;
    }
    if (argc < 3)
        fprintf(stderr, "mare: %s needs a file and a program: %s\n", argv[0], example);
    return argc >= 3;
}

static int run_traced(int argc, char **argv)
{
    if (!has_file_and_program(argc, argv, "mare --trace app.trace app.lua"))
        return EXIT_USAGE;
    return mare__cli_trace_open(argv[1]) ? dispatch(argc - 1, argv + 1) : EXIT_DIED;
}

static int run_profiled(int argc, char **argv)
{
    if (!has_file_and_program(argc, argv, "mare --profile out.svg app.lua"))
        return EXIT_USAGE;
    return mare__cli_profile_open(argv[1]) ? dispatch(argc - 1, argv + 1) : EXIT_DIED;
}

static int run_inspected(int argc, char **argv)
{
    if (argc < 2) {
        fputs("mare: --inspect needs a path: mare --inspect PATH app.lua\n", stderr);
        return EXIT_USAGE;
    }
    mare__cli_inspect(argv[1]);
    return dispatch(argc - 1, argv + 1);
}

static int run_interactively(int argc, char **argv)
{
    return mare__cli_repl(argc - 1, argv + 1);
}

static int run_with_library(int argc, char **argv)
{
    if (argc < 2 || !mare__cli_library(argv[1])) {
        fputs(argc < 2 ? "mare: -l needs the name of a module: mare -l lpeg app.lua\n"
                       : "mare: too many modules after -l\n",
              stderr);
        return EXIT_USAGE;
    }
    return dispatch(argc - 1, argv + 1);
}

static int run_leniently(int argc, char **argv)
{
    mare__cli_be_lenient();
    return dispatch(argc, argv);
}

static const struct command commands[] = {
    {"help", "what commands and functions do: mare help [command | function]",
     "mare help [command | function | module ...]\n\n"
     "Without a command, lists them all. Functions and modules are those of the reference: spawn,\n"
     "mare.spawn, ch:send, mare.http.\n",
     help},
    {"-e", "runs a piece of Lua: mare -e CODE [args]",
     "mare -e CODE [args]\n\n"
     "Runs CODE as the main process. The arguments are `...` and the table `arg`.\n\n"
     "    mare -e 'print(require(\"mare\").workers())'\n",
     run_code},
    {"-l", "requires a module before the program: mare -l NAME app.lua [args]",
     "mare -l NAME app.lua [args]\n\n"
     "Requires a module and puts it into the global of that name; `-l global=module` chooses\n"
     "another. It can be given several times, also before -e and -.\n",
     run_with_library},
    {"-i", "reads lines after a program: mare -i app.lua [args]",
     "mare -i [app.lua [args]]\n\n"
     "Runs the program, then reads, evaluates and prints lines in the same process.\n",
     run_interactively},
    {"-", "runs the program on standard input: mare - [args]",
     "mare - [args]\n\nReads a whole program from standard input, then runs it.\n", run_stdin},
    {"--lenient", "exits with 0 even if other processes fail: mare --lenient app.lua [args]",
     "mare --lenient app.lua [args]\n\n"
     "The exit code is that of the main process alone. Without this it is also 1 when another\n"
     "process died and nobody observed it, and when processes were ended because of a deadlock:\n"
     "what they waited for could no longer come.\n",
     run_leniently},
    {"--trace", "records what processes do: mare --trace FILE app.lua [args]", mare__cli_trace_help,
     run_traced},
    {"trace", "draws what such a file tells: mare trace draw FILE [options]",
     mare__cli_trace_draw_help, mare__cli_trace},
    {"--profile", "draws where the time goes: mare --profile out.svg app.lua [args]",
     mare__cli_profile_help, run_profiled},
    {"--inspect", "lets others look into a program: mare --inspect PATH app.lua [args]",
     mare__cli_inspect_help, run_inspected},
    {"top", "shows what the processes of such a program do: mare top PATH", mare__cli_top_help,
     mare__cli_top},
    {"test", "runs tests, each case in a process: mare test [FILE.lua | FOLDER ...] [PATTERN]",
     mare__cli_test_help, mare__cli_test},
    {"sim", "simulates coordination algorithms, checks and draws them: mare sim ALGORITHM",
     mare__cli_sim_help, mare__cli_sim},
    {"place", "network coordinates: evaluates, places, draws, probes: mare place evaluate FILE",
     mare__cli_place_help, mare__cli_place},
    {"clock", "asks time servers, serves time, watches: mare clock query HOST",
     mare__cli_clock_help, mare__cli_clock},
    {"node", "runs a program as a node that others can reach: mare node --name NAME app.lua",
     mare__cli_node_help, mare__cli_node},
    {"group", "asks a member of a group who is up and holds locks: mare group NAME --join ADDRESS",
     mare__cli_group_help, mare__cli_group},
    {"serve", "runs code that others submit, in sandboxes: mare serve --listen HOST:PORT",
     mare__cli_serve_help, mare__cli_serve},
    {"submit", "sends a file to a server, prints what it prints: mare submit HOST:PORT FILE.lua",
     mare__cli_submit_help, mare__cli_submit},
    {"jobs", "lists, shows and cancels jobs of a server: mare jobs HOST:PORT", mare__cli_jobs_help,
     mare__cli_jobs},
    {"attach", "evaluates lines in a running node: mare attach HOST:PORT", mare__cli_attach_help,
     mare__cli_attach},
    {"keys", "makes keys and certificates for nodes: mare keys authority GROUP",
     mare__cli_keys_help, mare__cli_keys},
    {"-v", "prints the version", "mare -v\n\nPrints the version; --version is the same.\n",
     version},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static const struct command *find(const char *name)
{
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "-v";
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

// Prints the documentation of all functions with this name. False: there is none.
static bool help_functions(const char *name)
{
    bool found = false;
    size_t length = strlen(name);
    for (size_t i = 0; i < mare__help_count; i++) {
        const char *at = mare__help[i].names;
        while ((at = strstr(at, name)) && (at[-1] != ' ' || at[length] != ' '))
            at++;
        if (at) {
            printf("%s%s", found ? "\n" : "", mare__help[i].text);
            found = true;
        }
    }
    return found;
}

// Whether one of these names, separated by spaces, is similar to the word.
static bool has_near(const char *names, const char *word)
{
    char one[64];
    for (const char *at = names; *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        snprintf(one, sizeof one, "%.*s", (int)strcspn(at, " "), at);
        if (one[0] && mare__cli_edits(one, word) <= mare__cli_edits_most(word))
            return true;
    }
    return false;
}

// Says that there is no help for this name, and lists similar names.
static int help_nothing(const char *name)
{
    bool first = true;
    fprintf(stderr,
            "mare: there is no command, function or module '%s'; 'mare help' lists the commands\n",
            name);
    for (size_t i = 0; i < COMMAND_COUNT && *name; i++)
        if (has_near(commands[i].name, name)) {
            fprintf(stderr, "%smare %s\n", first ? "mare: perhaps " : "              ",
                    commands[i].name);
            first = false;
        }
    for (size_t i = 0; i < mare__help_count && *name; i++)
        if (strstr(mare__help[i].names, name) || has_near(mare__help[i].names, name)) {
            fprintf(stderr, "%s%.*s\n", first ? "mare: perhaps " : "              ",
                    (int)strcspn(mare__help[i].text, "\n"), mare__help[i].text);
            first = false;
        }
    return EXIT_USAGE;
}

// A command, or any number of functions and modules. `mare help trace` is of `mare --trace` too.
static int help(int argc, char **argv)
{
    if (argc > 1) {
        const struct command *command = find(argv[1]), *option = NULL;
        char dashed[64];
        if (argv[1][0] != '-') {
            snprintf(dashed, sizeof dashed, "--%s", argv[1]);
            option = find(dashed);
        }
        if (command)
            fputs(command->help, stdout);
        if (option && option != command && option->run != help)
            printf("%s%s", command ? "\n" : "", option->help);
        if (command || option)
            return 0;
        int code = 0;
        for (int i = 1; i < argc; i++) {
            if (i > 1)
                putchar('\n');
            if (!help_functions(argv[i]))
                code = help_nothing(argv[i]);
        }
        return code;
    }
    puts("Maré: concurrent Lua 5.4.\n\n"
         "  mare app.lua [args]   runs a program\n"
         "  mare                  reads, evaluates and prints, with history\n\nCommands:");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-9s  %s\n", commands[i].name, commands[i].summary);
    puts("\nExit codes: 0 success; 1 a process died unobserved, or a deadlock at the end; 2\n"
         "wrong usage; 128 + n ended by signal n; or what the program gave to os.exit.\n"
         "'mare help spawn' describes a function; docs/guide is an introduction.");
    return 0;
}

// The command that was perhaps meant, or NULL.
static const char *nearest_command(const char *word)
{
    const char *best = NULL;
    unsigned least = mare__cli_edits_most(word) + 1;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        unsigned edits = mare__cli_edits(commands[i].name, word);
        if (strlen(commands[i].name) > 2 && edits < least) {
            least = edits;
            best = commands[i].name;
        }
    }
    return best;
}

// argv[1] is a command or a program.
static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return isatty(STDIN_FILENO) ? mare__cli_repl(0, NULL)
                                    : mare__cli_run(SOURCE_STDIN, argc, argv);
    const struct command *command = find(argv[1]);
    if (command)
        return command->run(argc - 1, argv + 1);
    if (argv[1][0] == '-' || access(argv[1], F_OK) != 0) {
        const char *meant = nearest_command(argv[1]);
        if (argv[1][0] == '-' || meant) {
            fprintf(stderr,
                    argv[1][0] == '-' ? "mare: there is no option '%s'; "
                                      : "mare: there is no command or file '%s'; ",
                    argv[1]);
            if (meant)
                fprintf(stderr, "is it '%s'? ", meant);
            fputs("'mare help' lists them\n", stderr);
            return EXIT_USAGE;
        }
    }
    return mare__cli_run(SOURCE_FILE, argc - 1, argv + 1);
}

// The program may have been started with one of 0, 1 and 2 closed. The next thing opened, a
// connection or the loop's own, would have its number, and be what children inherit and print
// writes to. So something stands there that can be neither read nor written, as before.
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    // The memory of processes that end is wanted again at once: keep it rather than give it back.
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mare__cli_given(argv);
    return dispatch(argc, argv);
}
