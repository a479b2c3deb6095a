// SPDX-License-Identifier: MIT
// The REPL. This thread reads lines, with history and editing; a process evaluates them
// (lua/mare/_repl.lua), so that others go on while the prompt waits. Lines that are only the
// beginning of something are collected.
#include <editline/readline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "sched/sched.h"

static char *history_file(void)
{
    const char *home = getenv("HOME");
    char *path = NULL;
    if (!home || asprintf(&path, "%s/.mare_history", home) < 0)
        return NULL;
    return path;
}

static mare_process *start(mare_runtime *runtime, mare_channel *input, mare_channel *output)
{
    static const char code[] = "return require 'mare._repl' (...)";
    mare_process *process = NULL;
    mare_message *arguments;
    if (mare_message_create(&arguments) != MARE_OK)
        return NULL;
    mare_value values[] = {{.type = MARE_CHANNEL, .as.channel = input},
                           {.type = MARE_CHANNEL, .as.channel = output}};
    if (mare_message_add(arguments, &values[0]) == MARE_OK &&
        mare_message_add(arguments, &values[1]) == MARE_OK)
        mare_spawn(runtime, code, sizeof code - 1, "=repl", arguments, &process, NULL);
    mare_message_destroy(arguments);
    return process;
}

// Sends the text to be evaluated. Returns whether more is needed; *alive turns false when the
// process has ended.
static bool evaluate(mare_process *repl, mare_channel *input, mare_channel *output,
                     const char *text, bool *alive)
{
    mare_message *message;
    bool more = false;
    mare__cli_interrupts_go_to(repl);
    *alive = mare_message_create(&message) == MARE_OK &&
             mare_message_add_string(message, text) == MARE_OK &&
             mare_chan_send(input, message) == MARE_OK;
    mare_message_destroy(message);
    if (*alive && mare_chan_receive(output, &message) == MARE_OK) {
        mare_value value;
        mare_message_get(message, 0, &value);
        more = value.type == MARE_STRING && value.as.string.length == 4 &&
               memcmp(value.as.string.bytes, "more", 4) == 0;
        mare_message_destroy(message);
    } else {
        *alive = false;
    }
    mare__cli_interrupts_go_to(NULL);
    return more;
}

static void converse(mare_process *repl, mare_channel *input, mare_channel *output)
{
    char *text = NULL, *line;
    bool alive = true;
    while (alive && (line = readline(text ? ">> " : "> ")) != NULL) {
        char *whole = NULL;
        if (asprintf(&whole, "%s%s%s", text ? text : "", text ? "\n" : "", line) < 0)
            break;
        free(text);
        text = whole;
        if (*line)
            add_history(line);
        free(line);
        if (!evaluate(repl, input, output, text, &alive)) {
            free(text);
            text = NULL;
        }
    }
    free(text);
    if (alive)
        putchar('\n');
}

int mare__cli_repl(void)
{
    mare_runtime *runtime = mare__cli_start();
    mare_channel *input, *output;
    if (!runtime || mare_chan_create(runtime, 0, NULL, &input) ||
        mare_chan_create(runtime, 0, NULL, &output))
        return EXIT_DIED;
    runtime->main = start(runtime, input, output);
    if (!runtime->main)
        return EXIT_DIED;
    puts("Maré " MARE_VERSION
         ", Lua 5.4. End with Ctrl-D. `mare` is loaded; docs/reference/lua.md tells what it has.");
    char *path = history_file();
    rl_readline_name = "mare";
    using_history();
    stifle_history(1000);
    if (path)
        read_history(path);
    converse(runtime->main, input, output);
    if (path)
        write_history(path);
    free(path);
    mare_chan_close(input);
    mare_chan_close(output);
    mare_chan_unref(input);
    mare_chan_unref(output);
    return mare__cli_finish(runtime);
}
