// SPDX-License-Identifier: MIT
// A node in C, and one in Lua. The C program, a gauge, knows nothing of Lua: it finds a channel of
// the other node by its name, sends, receives, and calls a function. The Lua node could run on
// another machine; to have both on one page, a second runtime of this program runs it.
#include <mare/node.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char harbour[] =
    "local mare, node, told = require 'mare', require 'mare.node', ...\n"
    "local address = assert(node.start {name = 'harbour', listen = '127.0.0.1:0'})\n"
    "node.export('mean', function(a, b) return (a + b) / 2 end)\n"
    "local tides = mare.channel(10, 'tides')\n"
    "told:send(address)\n"
    "for height, answer in tides:messages() do\n"
    "    answer:send(height > 3 and 'high' or 'low')\n"
    "end\n";

static void check(mare_err err, const char *what, const char *why)
{
    if (err == MARE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, why ? why : mare_strerror(err));
    exit(1);
}

// Starts the Lua node, and returns its address.
static char *start_harbour(mare_runtime *runtime, mare_process **process)
{
    mare_channel *told;
    mare_message *message;
    mare_value value = {.type = MARE_CHANNEL};
    check(mare_chan_create(runtime, 1, NULL, &told), "channel", NULL);
    check(mare_message_create(&message), "message", NULL);
    value.as.channel = told;
    check(mare_message_add(message, &value), "argument", NULL);
    check(mare_spawn(runtime, harbour, strlen(harbour), "=harbour", message, process, NULL),
          "spawn", NULL);
    mare_message_destroy(message);
    check(mare_chan_receive_until(told, &message, mare_deadline_ms(runtime, 60000)), "harbour",
          NULL);
    check(mare_message_get(message, 0, &value), "address", NULL);
    char *address = strndup(value.as.string.bytes, value.as.string.length);
    mare_message_destroy(message);
    mare_chan_unref(told);
    return address;
}

// Tells the harbour a height, and prints what it answers.
static void report(mare_runtime *runtime, mare_channel *tides, mare_channel *answers, double height)
{
    mare_message *message;
    mare_value number = {.type = MARE_FLOAT, .as.number = height};
    mare_value channel = {.type = MARE_CHANNEL, .as.channel = answers}, text;
    uint64_t deadline = mare_deadline_ms(runtime, 60000);
    check(mare_message_create(&message), "message", NULL);
    check(mare_message_add(message, &number), "add", NULL);
    check(mare_message_add(message, &channel), "add", NULL); // where the answer is to go
    check(mare_chan_send_until(tides, message, deadline), "send", NULL);
    mare_message_destroy(message);
    check(mare_chan_receive_until(answers, &message, deadline), "receive", NULL);
    check(mare_message_get(message, 0, &text), "answer", NULL);
    printf("%.1f m is %.*s\n", height, (int)text.as.string.length, text.as.string.bytes);
    mare_message_destroy(message);
}

// Has the harbour compute something.
static void ask_mean(mare_runtime *runtime)
{
    mare_message *arguments, *result;
    mare_value value;
    char *error;
    check(mare_message_create(&arguments), "message", NULL);
    check(mare_message_add_integer(arguments, 2), "add", NULL);
    check(mare_message_add_integer(arguments, 5), "add", NULL);
    mare_err err = mare_node_call(runtime, "harbour", "mean", arguments,
                                  mare_deadline_ms(runtime, 60000), &result, &error);
    check(err, "call", error);
    check(mare_message_get(result, 0, &value), "result", NULL);
    printf("the mean is %.1f m\n", value.as.number);
    mare_message_destroy(result);
    mare_message_destroy(arguments);
}

int main(void)
{
    mare_runtime *there, *here;
    mare_process *process;
    mare_channel *news, *tides, *answers;
    mare_message *message;
    mare_value name;
    char *error;
    check(mare_start(NULL, &there), "start", NULL);
    char *address = start_harbour(there, &process);

    check(mare_start(NULL, &here), "start", NULL);
    const char *const join[] = {address, NULL};
    const mare_node_options options = {.name = "gauge", .join = join};
    mare_err err = mare_node_start(here, &options, NULL, &error);
    check(err, "node", error);
    check(mare_chan_create(here, 10, NULL, &news), "channel", NULL);
    check(mare_chan_create(here, 1, NULL, &answers), "channel", NULL);
    check(mare_node_monitor(here, news), "monitor", NULL);
    err = mare_node_find(here, "tides@harbour", mare_deadline_ms(here, 60000), &tides, &error);
    check(err, "find", error);
    report(here, tides, answers, 4.2);
    report(here, tides, answers, 1.5);
    ask_mean(here);

    // The other node leaves: whoever waits for something of it is told so.
    check(mare_node_stop(there, mare_deadline_ms(there, 60000)), "stop", NULL);
    mare_process_kill(process);
    mare_process_unref(process);
    mare_stop(there);
    err = mare_chan_receive_until(tides, &message, mare_deadline_ms(here, 60000));
    printf("the harbour: %s\n", mare_strerror(err));
    do { // it may have been told of the arrival, too
        check(mare_chan_receive_until(news, &message, mare_deadline_ms(here, 60000)), "news", NULL);
        check(mare_message_get(message, 0, &name), "word", NULL);
        err = strncmp(name.as.string.bytes, "up", 2) == 0 ? MARE_EMPTY : MARE_OK;
        if (err == MARE_OK)
            printf("news: %.*s\n", (int)name.as.string.length, name.as.string.bytes);
        mare_message_destroy(message);
    } while (err == MARE_EMPTY);

    mare_node_stop(here, mare_deadline_ms(here, 60000));
    mare_chan_unref(tides);
    mare_chan_unref(news);
    mare_chan_unref(answers);
    mare_stop(here);
    free(address);
    return 0;
}
