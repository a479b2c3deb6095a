// SPDX-License-Identifier: MIT
// `mare group`: its help. What it does is in lua/mare/_group_command.lua, on the module mare.group.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_group_help[] =
    "mare group NAME --join [NODE@]HOST:PORT [options]\n"
    "\n"
    "Asks the members of a group what they know: who is up; who holds each lock, by which\n"
    "fencing number, and who waits for it; who leads each election; how far each replica and\n"
    "multicast is. The node of --join is asked first, then the members that it takes for alive.\n"
    "What is not used by a member that answers is not listed.\n"
    "\n"
    "Options\n"
    "  --join [NODE@]HOST:PORT   the node to ask, a member of the group; required\n"
    "  --keys FOLDER         keys and certificates, as 'mare keys' makes them, with --name\n"
    "  --name NAME           the name of this command as a node\n"
    "  --secret FILE         a secret instead, as 'mare keys secret' makes it\n"
    "  --insecure            neither, although the node is on another machine\n"
    "  --group GROUP         the group option of the nodes, if they have one\n"
    "  --json                as one JSON object\n"
    "\n"
    "Try\n"
    "  mare group bank --join 127.0.0.1:7000\n"
    "\n"
    "Exit codes: 0 the node has answered, and has a lease: its part of the group works; 1 it has\n"
    "not answered; 2 wrong usage; 3 it has answered, and has no lease: it reaches no majority.\n";

static int refuse(const char *problem, const char *word)
{
    return mare__cli_refuse("group", mare__cli_group_help, problem, word);
}

int mare__cli_group(int argc, char **argv)
{
    static const char *const valued[] = {"--join", "--keys", "--name", "--secret", "--group"};
    static const char *const flags[] = {"--insecure", "--json"};
    for (int i = 1; i < argc; i++) {
        bool known = argv[i][0] != '-';
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_group_help, stdout);
            return 0;
        }
        for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
            known |= strcmp(argv[i], flags[j]) == 0;
        for (size_t j = 0; j < sizeof valued / sizeof *valued && !known; j++) {
            if (strcmp(argv[i], valued[j]) != 0)
                continue;
            if (++i == argc)
                return refuse("there is no value for", valued[j]);
            known = true;
        }
        if (!known)
            return refuse("there is no option", argv[i]);
    }
    if (argc < 2) {
        fputs(mare__cli_group_help, stderr);
        return EXIT_USAGE;
    }
    return mare__cli_run_module("mare._group_command", argc, argv);
}
