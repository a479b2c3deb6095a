// SPDX-License-Identifier: MIT
// `mare serve`, `mare submit`, `mare jobs`, `mare attach`: their help. What they do is in lua/mare:
// _serve_command.lua, _submit_command.lua, _jobs_command.lua, _attach_command.lua.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_serve_help[] =
    "mare serve --listen HOST:PORT [options]\n"
    "\n"
    "A server for untrusted code: takes Lua code from others, and runs each piece as a new\n"
    "process, in a sandbox with limits. Runs until you interrupt it; refusals are logged.\n"
    "\n"
    "Options\n"
    "  --listen HOST:PORT      where it listens; port 0 is any; or the path of a socket\n"
    "  --name NAME             the name of the node (serve)\n"
    "  --keys FOLDER           keys and certificates, as 'mare keys' makes them\n"
    "  --secret FILE           a secret instead, as 'mare keys secret' makes it\n"
    "  --insecure              neither, although other machines can connect\n"
    "  --group GROUP           nodes of other groups are refused\n"
    "  --peers NAME            who may connect; may be repeated (all who have a key)\n"
    "  --jobs N                how many jobs run at once (the number of workers)\n"
    "  --queue N               how many jobs may wait; more are refused (64)\n"
    "  --history N             how many ended jobs can still be shown (100)\n"
    "  --grace SECONDS         for reading the rest of the output, and for jobs at the end (5)\n"
    "  --log FILE              where the log goes (standard error)\n"
    "  --config FILE           a file of lines 'option = value', with sections\n"
    "  --json                  the log as one JSON object a line\n"
    "\n"
    "Options for submitted code. In the file, a section '[peer NAME]' or '[signed NAME]' sets\n"
    "them for one node, or for code that somebody has signed\n"
    "  --memory BYTES          memory limit of a job (16M)\n"
    "  --time SECONDS          time limit of a job (10)\n"
    "  --instructions N        instruction limit of a job (no limit)\n"
    "  --output BYTES          how much a job may print (1M)\n"
    "  --source BYTES          the longest code (256K)\n"
    "  --allow NAME            a library or function that it may use, followed by checks of\n"
    "                          arguments; may be repeated (coroutine math string table utf8)\n"
    "  --submit yes|no         whether it accepts code (yes)\n"
    "  --unsigned yes|no       whether it accepts code without a signature (yes)\n"
    "  --manage yes|no         whether they may see and cancel jobs of others (no)\n"
    "  --submitter_jobs N      how many jobs of one submitter run at once (4)\n"
    "  --submitter_queue N     how many jobs of one submitter may wait (16)\n"
    "  --submitter_memory BYTES   for all its running jobs (256M)\n"
    "  --submitter_time SECONDS   for all its jobs, in an hour (3600)\n"
    "\n"
    "An option can also be set as MARE_SERVE_LISTEN and so on. The command line overrides the\n"
    "environment, and the environment overrides the file.\n"
    "\n"
    "Try, in two terminals\n"
    "  mare serve --listen 127.0.0.1:7000\n"
    "  echo 'print(\"hello from\", ...)' >hello.lua; mare submit 127.0.0.1:7000 hello.lua you\n"
    "\n"
    "Exit codes: 0 it ended normally; 1 it could not start; 2 wrong usage.\n";

const char mare__cli_submit_help[] =
    "mare submit [options] [NAME@]HOST:PORT FILE.lua [args]\n"
    "\n"
    "Sends a file to a 'mare serve', prints what it prints there, and ends with its status: the\n"
    "number from 0 to 255 that the file returns, 0 for nothing. Ctrl-C cancels it, and so does\n"
    "the end of this command. If there is a FILE.lua.sig, of 'mare keys sign', it is sent too.\n"
    "\n"
    "Options\n"
    "  --detach             prints the name of the job, and does not wait for it\n"
    "  --signature FILE     the signature, if it is elsewhere\n"
    "  --keys FOLDER        keys and certificates, as 'mare keys' makes them; with --name\n"
    "  --name NAME          the name in the key\n"
    "  --secret FILE        a secret instead\n"
    "  --insecure           neither, although the server is on another machine\n"
    "  --group GROUP        the group of the server, if it has one\n"
    "  --timeout SECONDS    for reaching the server and its answer (15)\n"
    "  --config FILE        a file of lines 'option = value' with these names\n"
    "  --json               prints events as one JSON object a line\n"
    "\n"
    "An option can also be set as MARE_SUBMIT_KEYS and so on.\n"
    "\n"
    "Exit codes: the program's own; 1 it failed; 2 wrong usage; 120 refused; 121 the server is\n"
    "not there, was lost, or its answer cannot be read; 122 stopped by a limit; 123 cancelled;\n"
    "130 interrupted.\n";

const char mare__cli_jobs_help[] =
    "mare jobs [options] [NAME@]HOST:PORT [list]        your jobs there, one a line\n"
    "mare jobs [options] [NAME@]HOST:PORT show JOB ...  some, with the end of what they printed\n"
    "mare jobs [options] [NAME@]HOST:PORT cancel JOB ...   ends them\n"
    "\n"
    "A line has the name of the job, its state (queued, running, or how it ended: done, failed,\n"
    "cancelled, time, memory, instructions, output, syntax), how long it ran, who submitted it,\n"
    "and its file.\n"
    "\n"
    "Options\n"
    "  --keys, --name, --secret, --insecure, --group, --timeout, --config   as of 'mare submit';\n"
    "                       in the environment MARE_JOBS_KEYS and so on\n"
    "  --json               one JSON object a line\n"
    "\n"
    "Exit codes: 0 done; 1 there is no such job; 2 wrong usage; 120 refused; 121 the server is\n"
    "not there, or its answer cannot be read.\n";

const char mare__cli_attach_help[] =
    "mare attach [options] [NAME@]HOST:PORT\n"
    "\n"
    "A REPL in a running node: evaluates lines in a process of its own there, and prints values.\n"
    "The node must allow it: 'mare node --attach NAME'. You can then do everything that the\n"
    "program can; the node logs what you type. Ctrl-D ends it; Ctrl-C also stops what runs.\n"
    "\n"
    "Options\n"
    "  --keys, --name, --secret, --insecure, --group, --timeout, --config   as of 'mare submit';\n"
    "                       in the environment MARE_ATTACH_KEYS and so on\n"
    "\n"
    "Exit codes: 0 done; 2 wrong usage; 120 refused; 121 the node is not there, or was lost.\n";

static int run(int argc, char **argv, const char *help, const char *module)
{
    for (int i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return 0;
        }
    }
    if (argc < 2) {
        fputs(help, stderr);
        return EXIT_USAGE;
    }
    return mare__cli_run_module(module, argc, argv);
}

int mare__cli_serve(int argc, char **argv)
{
    return run(argc, argv, mare__cli_serve_help, "mare._serve_command");
}

int mare__cli_submit(int argc, char **argv)
{
    return run(argc, argv, mare__cli_submit_help, "mare._submit_command");
}

int mare__cli_jobs(int argc, char **argv)
{
    return run(argc, argv, mare__cli_jobs_help, "mare._jobs_command");
}

int mare__cli_attach(int argc, char **argv)
{
    return run(argc, argv, mare__cli_attach_help, "mare._attach_command");
}
