// SPDX-License-Identifier: MIT
// `mare serve`, `mare submit`, `mare jobs`, `mare attach`: their help. What they do is in lua/mare:
// _serve_command.lua, _submit_command.lua, _jobs_command.lua, _attach_command.lua.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_serve_help[] =
    "mare serve --listen HOST:PORT [options]\n"
    "\n"
    "Offers this machine's scheduler: takes Lua code from others, and runs each piece as a new\n"
    "process, in a sandbox with limits. Runs until it is interrupted; every refusal is logged.\n"
    "\n"
    "Options\n"
    "  --listen HOST:PORT      where others can come in; port 0 is any; or the path of a socket\n"
    "  --name NAME             of the node (serve)\n"
    "  --keys FOLDER           keys and certificates, as 'mare keys' makes them\n"
    "  --secret FILE           a secret instead, as 'mare keys secret' makes it\n"
    "  --insecure              neither, although others than this machine can come in\n"
    "  --group GROUP           nodes of other groups are refused\n"
    "  --peers NAME            who may come in; may be given again (all who have a key)\n"
    "  --jobs N                that run at once (the number of workers)\n"
    "  --queue N               that wait; more are refused (64)\n"
    "  --history N             that have ended and can still be shown (100)\n"
    "  --grace SECONDS         for a submitter to read what is left, and for jobs at the end (5)\n"
    "  --log FILE              where the log goes (standard error)\n"
    "  --config FILE           lines 'option = value' with these names, and sections\n"
    "  --json                  the log as one JSON object a line\n"
    "\n"
    "Options of submitted code; a section '[peer NAME]' or '[signed NAME]' of the file has them\n"
    "for one node, or for code that one has signed\n"
    "  --memory BYTES          of a job (16M)\n"
    "  --time SECONDS          of a job (10)\n"
    "  --instructions N        of a job (no limit)\n"
    "  --output BYTES          that a job may print (1M)\n"
    "  --source BYTES          of its code (256K)\n"
    "  --allow NAME            a library or function that it may use, with checks of arguments\n"
    "                          behind it; may be given again (coroutine math string table utf8)\n"
    "  --submit yes|no         whether code is taken (yes)\n"
    "  --unsigned yes|no       also without a signature (yes)\n"
    "  --manage yes|no         may see and cancel jobs of others (no)\n"
    "  --submitter_jobs N      of one submitter at once (4)\n"
    "  --submitter_queue N     of one submitter that wait (16)\n"
    "  --submitter_memory BYTES   of all its jobs at once (256M)\n"
    "  --submitter_time SECONDS   of all its jobs, in an hour (3600)\n"
    "\n"
    "An option can also be set as MARE_SERVE_LISTEN and so on. The command line comes before the\n"
    "environment, and that before the file.\n"
    "\n"
    "Try, in two terminals\n"
    "  mare serve --listen 127.0.0.1:7000\n"
    "  echo 'print(\"hello from\", ...)' >hello.lua; mare submit 127.0.0.1:7000 hello.lua you\n"
    "\n"
    "Exit codes: 0 it ended as it should; 1 it could not start; 2 wrong usage.\n";

const char mare__cli_submit_help[] =
    "mare submit [options] [NAME@]HOST:PORT FILE.lua [args]\n"
    "\n"
    "Sends a file to a 'mare serve', prints what it prints there, and ends with its status: the\n"
    "number from 0 to 255 that the file returns, 0 for nothing. Ctrl-C cancels it, and so does\n"
    "the end of this command. A FILE.lua.sig beside it, of 'mare keys sign', is sent along.\n"
    "\n"
    "Options\n"
    "  --detach             prints the name of the job, and leaves it to itself\n"
    "  --signature FILE     the signature, if it is elsewhere\n"
    "  --keys FOLDER        keys and certificates, as 'mare keys' makes them; with --name\n"
    "  --name NAME          whose key\n"
    "  --secret FILE        a secret instead\n"
    "  --insecure           neither, although the server is on another machine\n"
    "  --group GROUP        the group of the server, if it has one\n"
    "  --timeout SECONDS    to reach it, and to be answered (15)\n"
    "  --config FILE        lines 'option = value' with these names\n"
    "  --json               what happens as one JSON object a line\n"
    "\n"
    "An option can also be set as MARE_SUBMIT_KEYS and so on.\n"
    "\n"
    "Exit codes: the program's own; 1 it failed; 2 wrong usage; 120 refused; 121 the server is\n"
    "not there, or was lost; 122 stopped by a limit; 123 cancelled; 130 interrupted.\n";

const char mare__cli_jobs_help[] =
    "mare jobs [options] [NAME@]HOST:PORT [list]        your jobs there, one a line\n"
    "mare jobs [options] [NAME@]HOST:PORT show JOB ...  some, with the end of what they printed\n"
    "mare jobs [options] [NAME@]HOST:PORT cancel JOB ...   ends them\n"
    "\n"
    "A line has the name of the job, how it is (queued, running, or how it ended: done, failed,\n"
    "cancelled, time, memory, instructions, output, syntax), how long it ran, who submitted it,\n"
    "and its file.\n"
    "\n"
    "Options\n"
    "  --keys, --name, --secret, --insecure, --group, --timeout, --config   as of 'mare submit';\n"
    "                       in the environment MARE_JOBS_KEYS and so on\n"
    "  --json               one JSON object a line\n"
    "\n"
    "Exit codes: 0 done; 1 there is no such job; 2 wrong usage; 120 refused; 121 the server is\n"
    "not there.\n";

const char mare__cli_attach_help[] =
    "mare attach [options] [NAME@]HOST:PORT\n"
    "\n"
    "Evaluates lines in a node that runs, in a process of its own there, and prints the values.\n"
    "The node must allow it: 'mare node --attach NAME'. Who is attached can do all that the\n"
    "program can; what is typed is logged there. Ctrl-D ends, Ctrl-C also ends what was typed.\n"
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
