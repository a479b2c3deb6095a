// SPDX-License-Identifier: MIT
// How long it takes until n nodes know of each other, and what it costs. Each node is a runtime
// with one worker, all in this program: they share nothing but its memory, and talk over loopback
// TCP. All are given the address of the first.
//
//   floor_gossip N    seconds: from the first start until each knows all; per node: kib_out,
//                     messages_out, of the first node (which all have joined) and of the others
#include <mare.h>
#include <string.h>

#include "floor.h"

static const char BEGIN[] =
    "local name, seed = ...\n"
    "return assert(require 'mare.node'.start {name = name, listen = '127.0.0.1:0',\n"
    "    join = seed and {seed} or nil, silence = 600})\n";

// Waits until so many are known.
static const char LEARN[] = "local mare, node = require 'mare', require 'mare.node'\n"
                            "while #node.list() < ... do mare.sleep(0.02) end\n";

static const char COST[] = "local bytes, messages = 0, 0\n"
                           "for _, it in ipairs(require 'mare.node'.list()) do\n"
                           "    bytes = bytes + (it.bytes_out or 0)\n"
                           "    messages = messages + (it.messages_out or 0)\n"
                           "end\n"
                           "return bytes, messages\n";

static void must(mare_err err, const char *what)
{
    if (err != MARE_OK)
        floor_fail(what);
}

// Runs code to its end. The result is the caller's.
static mare_message *run(mare_runtime *runtime, const char *code, mare_message *arguments)
{
    mare_process *process = NULL;
    mare_message *result = NULL;
    char *error = NULL;
    must(mare_spawn(runtime, code, strlen(code), "=gossip", arguments, &process, &error), "spawn");
    mare_err err = mare_process_join_until(process, MARE_FOREVER, &result);
    mare_value value;
    if (err && result && mare_message_get(result, 0, &value) == MARE_OK &&
        value.type == MARE_STRING)
        fprintf(stderr, "%.*s\n", (int)value.as.string.length, value.as.string.bytes);
    must(err, "a process died");
    mare_process_unref(process);
    mare_message_destroy(arguments);
    return result;
}

static mare_message *arguments_new(void)
{
    mare_message *message = NULL;
    must(mare_message_create(&message), "message");
    return message;
}

static void begin(mare_runtime **node, long number, char *seed)
{
    char name[32];
    mare_message *arguments = arguments_new();
    const mare_options options = {.workers = 1};
    mare_value value;
    must(mare_start(&options, node), "start");
    snprintf(name, sizeof name, "node%ld", number);
    must(mare_message_add_string(arguments, name), "name");
    if (number > 0)
        must(mare_message_add_string(arguments, seed), "seed");
    mare_message *address = run(*node, BEGIN, arguments);
    if (number == 0) {
        must(mare_message_get(address, 0, &value), "address");
        snprintf(seed, 64, "%.*s", (int)value.as.string.length, value.as.string.bytes);
    }
    mare_message_destroy(address);
}

static void learn(mare_runtime *node, long count)
{
    mare_message *arguments = arguments_new();
    must(mare_message_add_integer(arguments, count), "count");
    mare_message_destroy(run(node, LEARN, arguments));
}

// Adds what it has sent.
static void add_cost(mare_runtime *node, double cost[2])
{
    mare_message *result = run(node, COST, arguments_new());
    for (size_t i = 0; i < 2; i++) {
        mare_value value;
        must(mare_message_get(result, i, &value), "cost");
        cost[i] += (double)value.as.integer;
    }
    mare_message_destroy(result);
}

int main(int argc, char **argv)
{
    long count = floor_count(argc, argv, 1, 100);
    char seed[64];
    mare_runtime **nodes = calloc((size_t)count, sizeof(mare_runtime *));
    double first[2] = {0}, others[2] = {0};
    if (!nodes)
        floor_fail("memory");
    double start = floor_now_ns();
    for (long i = 0; i < count; i++)
        begin(&nodes[i], i, seed);
    double started = floor_now_ns();
    for (long i = 0; i < count; i++)
        learn(nodes[i], count);
    double end = floor_now_ns();
    add_cost(nodes[0], first);
    for (long i = 1; i < count; i++)
        add_cost(nodes[i], others);
    floor_report("start_seconds", (started - start) / 1e9);
    floor_report("seconds", (end - start) / 1e9);
    floor_report("first_kib_out", first[0] / 1024);
    floor_report("first_messages_out", first[1]);
    floor_report("kib_out", others[0] / 1024 / (double)(count - 1));
    floor_report("messages_out", others[1] / (double)(count - 1));
    for (long i = 0; i < count; i++)
        mare_stop(nodes[i]);
    free(nodes);
    return 0;
}
