// SPDX-License-Identifier: MIT
// `mare --inspect PATH`, which lets others look into a program, and `mare top PATH`, which does.
// What they do is in lua/mare/_inspect.lua and _top.lua.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const char mare__cli_inspect_help[] =
    "mare --inspect PATH app.lua [args]\n\n"
    "Runs a program (also -e CODE, or -) and lets 'mare top PATH' show what its processes do.\n"
    "PATH becomes a Unix-domain socket that only the owner of the program can use.\n";

const char mare__cli_top_help[] =
    "mare top PATH [--interval SECONDS] [--once]\n\n"
    "Shows the processes of a program that was started with 'mare --inspect PATH app.lua': who\n"
    "they are, their share of the processor, their memory, where they are and what they wait for.\n"
    "It refreshes every second; q ends it. With --once, or if the output is not a terminal, it\n"
    "prints them once.\n";

static const char *inspect_path;

void mare__cli_inspect(const char *path)
{
    inspect_path = path;
}

bool mare__cli_inspect_begin(mare_runtime *runtime)
{
    static const char code[] = "return require 'mare._inspect'(...)";
    mare_message *arguments = NULL, *result = NULL;
    mare_process *process = NULL;
    mare_value why = {.type = MARE_NIL};
    if (!inspect_path)
        return true;
    mare_err err = mare_message_create(&arguments);
    if (!err)
        err = mare_message_add_string(arguments, inspect_path);
    if (!err)
        err = mare_spawn(runtime, code, sizeof code - 1, "=mare", arguments, &process, NULL);
    if (!err)
        err = mare_process_join_until(process, MARE_FOREVER, &result);
    if (result)
        mare_message_get(result, 0, &why);
    bool said = why.type == MARE_STRING;
    if (err || said)
        fprintf(stderr, "mare: --inspect %s: %.*s\n", inspect_path,
                said ? (int)why.as.string.length : (int)strlen(mare_strerror(err)),
                said ? why.as.string.bytes : mare_strerror(err));
    mare_message_destroy(result);
    mare_message_destroy(arguments);
    if (process)
        mare_process_unref(process);
    return !err && !said;
}

int mare__cli_top(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            fputs(mare__cli_top_help, stdout);
            return 0;
        }
    return mare__cli_run_module("mare._top", argc, argv);
}
