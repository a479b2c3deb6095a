// SPDX-License-Identifier: MIT
// `mare node`: its help. What it does is in lua/mare/_node_command.lua, on the module mare.node.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_node_help[] =
    "mare node [options] [app.lua [args]]\n"
    "\n"
    "Runs a program as a node: other nodes can reach its channels and processes. Without a\n"
    "program, runs a node until you interrupt it. The node stops when the script ends. The\n"
    "program can also come first: mare node app.lua --name ebb\n"
    "\n"
    "Options\n"
    "  --name NAME           its name, in lower case; required\n"
    "  --listen HOST:PORT    where it listens; port 0 is any; or the path of a socket\n"
    "  --join [NAME@]HOST:PORT   a node to stay connected with; may be repeated\n"
    "  --keys FOLDER         keys and certificates, as 'mare keys' makes them\n"
    "  --secret FILE         a secret instead, as 'mare keys secret' makes it\n"
    "  --insecure            neither, although other machines can connect\n"
    "  --guests              programs that are not nodes may call exported functions\n"
    "  --group GROUP         nodes of other groups are refused\n"
    "  --allow NAME          who may connect; may be repeated (all who have a key)\n"
    "  --attach NAME         who may 'mare attach', with all rights of the program; may be\n"
    "                        repeated; 'everybody' for all who connect (nobody)\n"
    "  --code LEVEL          what code others may send: none, source, bytecode (none)\n"
    "  --memory BYTES        memory limit of each process that others start here\n"
    "  --silence SECONDS     after which a silent node is lost (3)\n"
    "  --message BYTES       the largest message (4194304)\n"
    "  --address HOST:PORT   the address for others to dial, if not where it listens\n"
    "  --config FILE         a file of lines 'option = value' with these names\n"
    "  --json                prints events as one JSON object a line\n"
    "\n"
    "An option can also be set as MARE_NODE_NAME, MARE_NODE_LISTEN and so on. The command line\n"
    "overrides the environment, and the environment overrides the file.\n"
    "\n"
    "Try, in two terminals\n"
    "  mare node --name ebb --listen 127.0.0.1:7000\n"
    "  mare node --name flow --join 127.0.0.1:7000 app.lua\n"
    "\n"
    "Exit codes: 0 it ended normally; 1 it could not start, or the program died; 2 wrong\n"
    "usage.\n";

int mare__cli_node(int argc, char **argv)
{
    for (int i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_node_help, stdout);
            return 0;
        }
    }
    if (argc < 2) {
        fputs(mare__cli_node_help, stderr);
        return EXIT_USAGE;
    }
    return mare__cli_run_module("mare._node_command", argc, argv);
}
