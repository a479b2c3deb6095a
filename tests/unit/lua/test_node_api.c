// SPDX-License-Identifier: MIT
// Nodes of C programs: two runtimes of this program, which meet over loopback.
#include <mare/node.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

// Two nodes, `ebb` with exported functions, and `flow`, joined to it.
struct nodes {
    mare_runtime *ebb, *flow;
    mare_channel *told; // of nodes, at ebb
};

static void export_functions(mare_runtime *runtime)
{
    static const char code[] =
        "local node = require 'mare.node'\n"
        "assert(node.export('double', function(n) return 2 * n, 'times two' end))\n"
        "assert(node.export('fail', function() error('on purpose', 0) end))\n"
        "assert(node.export('wait', function() require 'mare'.sleep(1000) end))\n"
        "assert(node.export('answer', function(ch, text) ch:send(text .. '!') end))\n"
        "return true\n";
    run_true(runtime, code, NULL);
}

static void expect_text(const mare_message *message, size_t index, const char *text)
{
    mare_value value;
    assert_int_equal(mare_message_get(message, index, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(value.as.string.length, strlen(text));
    assert_memory_equal(value.as.string.bytes, text, strlen(text));
}

// What the monitor of ebb says next: a word of flow.
static void expect_told(const struct nodes *nodes, const char *word)
{
    mare_message *message;
    assert_int_equal(mare_chan_receive_until(nodes->told, &message, run_soon(nodes->ebb)), MARE_OK);
    expect_text(message, 0, word);
    expect_text(message, 1, "flow");
    mare_message_destroy(message);
}

static int meet(void **state)
{
    struct nodes *nodes = calloc(1, sizeof *nodes);
    char *address = NULL, *error = NULL, *name = NULL;
    nodes->ebb = run_start(2);
    nodes->flow = run_start(2);
    // Told at once, if at all: the cases are over before the silence.
    mare_node_options options = {.name = "ebb", .listen = "127.0.0.1:0", .silence_ms = 600000};
    assert_int_equal(mare_node_start(nodes->ebb, &options, &address, &error), MARE_OK);
    assert_null(error);
    assert_non_null(strstr(address, "127.0.0.1:"));
    export_functions(nodes->ebb);
    assert_int_equal(mare_chan_create(nodes->ebb, 100, NULL, &nodes->told), MARE_OK);
    assert_int_equal(mare_node_monitor(nodes->ebb, nodes->told), MARE_OK);

    options = (mare_node_options){.name = "flow", .silence_ms = 600000};
    char *none = address;
    assert_int_equal(mare_node_start(nodes->flow, &options, &none, NULL), MARE_OK);
    assert_null(none);
    assert_int_equal(mare_node_connect(nodes->flow, address, run_soon(nodes->flow), &name, &error),
                     MARE_OK);
    assert_string_equal(name, "ebb");
    expect_told(nodes, "up");
    free(name);
    free(address);
    *state = nodes;
    return 0;
}

static int part(void **state)
{
    struct nodes *nodes = *state;
    mare_chan_unref(nodes->told);
    if (nodes->flow)
        mare_stop(nodes->flow);
    mare_stop(nodes->ebb);
    free(nodes);
    return 0;
}

// ---- Cases --------------------------------------------------------------------------------------

static void messages_cross_between_two_c_programs(void **state)
{
    struct nodes *nodes = *state;
    mare_channel *numbers, *far, *answers;
    mare_message *message = run_message(), *got;
    mare_value value = {.type = MARE_CHANNEL};
    assert_int_equal(mare_chan_create(nodes->ebb, 4, "numbers", &numbers), MARE_OK);
    assert_int_equal(mare_chan_create(nodes->flow, 4, NULL, &answers), MARE_OK);
    assert_int_equal(mare_node_find(nodes->flow, "numbers@ebb", run_soon(nodes->flow), &far, NULL),
                     MARE_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mare_message_add_integer(message, i), MARE_OK);
        value = (mare_value){.type = MARE_CHANNEL, .as.channel = answers};
        assert_int_equal(mare_message_add(message, &value), MARE_OK);
        assert_int_equal(mare_chan_send_until(far, message, run_soon(nodes->flow)), MARE_OK);

        assert_int_equal(mare_chan_receive_until(numbers, &got, run_soon(nodes->ebb)), MARE_OK);
        assert_int_equal(mare_message_get(got, 0, &value), MARE_OK);
        assert_int_equal(value.as.integer, i);
        assert_int_equal(mare_message_add_integer(message, -i), MARE_OK);
        assert_int_equal(mare_message_get(got, 1, &value), MARE_OK);
        assert_int_equal(mare_chan_send_until(value.as.channel, message, run_soon(nodes->ebb)),
                         MARE_OK);
        mare_message_destroy(got);

        assert_int_equal(mare_chan_receive_until(answers, &got, run_soon(nodes->flow)), MARE_OK);
        assert_int_equal(mare_message_get(got, 0, &value), MARE_OK);
        assert_int_equal(value.as.integer, -i);
        mare_message_destroy(got);
    }
    // And the other way: who has found it receives.
    assert_int_equal(mare_message_add_string(message, "come"), MARE_OK);
    assert_int_equal(mare_chan_send_until(numbers, message, run_soon(nodes->ebb)), MARE_OK);
    assert_int_equal(mare_chan_receive_until(far, &got, run_soon(nodes->flow)), MARE_OK);
    expect_text(got, 0, "come");
    mare_message_destroy(got);
    mare_message_destroy(message);
    mare_chan_close(numbers);
    mare_chan_unref(numbers);
    mare_chan_unref(far);
    mare_chan_unref(answers);
}

static void exported_functions_are_called(void **state)
{
    struct nodes *nodes = *state;
    mare_message *arguments = run_message(), *result;
    mare_value value;
    char *error = NULL;
    uint64_t deadline = run_soon(nodes->flow);
    assert_int_equal(mare_message_add_integer(arguments, 21), MARE_OK);
    assert_int_equal(
        mare_node_call(nodes->flow, "ebb", "double", arguments, deadline, &result, &error),
        MARE_OK);
    assert_int_equal(mare_message_count(result), 2);
    assert_int_equal(mare_message_get(result, 0, &value), MARE_OK);
    assert_int_equal(value.as.integer, 42);
    expect_text(result, 1, "times two");
    mare_message_destroy(result);

    assert_int_equal(mare_node_call(nodes->flow, "ebb", "fail", NULL, deadline, &result, NULL),
                     MARE_DIED);
    expect_text(result, 0, "on purpose");
    mare_message_destroy(result);
    assert_int_equal(mare_node_call(nodes->flow, "ebb", "none", NULL, deadline, &result, &error),
                     MARE_NONAME);
    assert_null(result);
    assert_non_null(strstr(error, "exports no function 'none'"));
    free(error);
    assert_int_equal(mare_node_call(nodes->flow, "nobody", "double", NULL, deadline, NULL, NULL),
                     MARE_NONODE);
    mare_message_destroy(arguments);
}

static void a_call_that_takes_too_long_is_ended(void **state)
{
    struct nodes *nodes = *state;
    mare_process *process;
    mare_message *result;
    assert_int_equal(mare_node_call(nodes->flow, "ebb", "wait", NULL,
                                    mare_deadline_ms(nodes->flow, 50), &result, NULL),
                     MARE_TIMEOUT);
    assert_int_equal(
        mare_node_spawn(nodes->flow, "ebb", "wait", NULL, run_soon(nodes->flow), &process, NULL),
        MARE_OK);
    assert_int_equal(mare_process_join_until(process, mare_deadline_ms(nodes->flow, 1), &result),
                     MARE_TIMEOUT);
    assert_true(mare_process_kill(process));
    assert_int_equal(mare_process_join_until(process, run_soon(nodes->flow), &result), MARE_KILLED);
    mare_message_destroy(result);
    mare_process_unref(process);
}

static void references_are_arguments(void **state)
{
    struct nodes *nodes = *state;
    mare_channel *answers;
    mare_message *arguments = run_message(), *got;
    assert_int_equal(mare_chan_create(nodes->flow, 1, NULL, &answers), MARE_OK);
    mare_value value = {.type = MARE_CHANNEL, .as.channel = answers};
    assert_int_equal(mare_message_add(arguments, &value), MARE_OK);
    assert_int_equal(mare_message_add_string(arguments, "high water"), MARE_OK);
    assert_int_equal(
        mare_node_call(nodes->flow, "ebb", "answer", arguments, run_soon(nodes->flow), NULL, NULL),
        MARE_OK);
    assert_int_equal(mare_chan_receive_until(answers, &got, run_soon(nodes->flow)), MARE_OK);
    expect_text(got, 0, "high water!");
    mare_message_destroy(got);
    mare_message_destroy(arguments);
    mare_chan_unref(answers);
}

static void what_cannot_be_is_refused_in_words(void **state)
{
    struct nodes *nodes = *state;
    mare_channel *channel;
    mare_process *process;
    char *error = NULL;
    uint64_t deadline = run_soon(nodes->flow);
    const mare_node_options again = {.name = "again"}, wrong = {.name = "Big"};
    assert_int_equal(mare_node_start(nodes->flow, &again, NULL, NULL), MARE_EXISTS);
    assert_int_equal(mare_node_start(nodes->flow, &wrong, NULL, &error), MARE_INVALID);
    assert_non_null(strstr(error, "option 'name' must be"));
    free(error);
    assert_int_equal(mare_node_find(nodes->flow, "nothing@ebb", deadline, &channel, NULL),
                     MARE_NONAME);
    assert_int_equal(mare_node_find(nodes->flow, "nothing", deadline, &channel, NULL),
                     MARE_INVALID);
    assert_int_equal(mare_node_find(nodes->flow, NULL, deadline, &channel, NULL), MARE_INVALID);
    assert_int_equal(mare_node_connect(nodes->flow, "127.0.0.1:1", deadline, NULL, &error),
                     MARE_NONODE);
    assert_non_null(error);
    free(error);
    mare_channel *here;
    assert_int_equal(mare_chan_create(nodes->ebb, 1, "a channel", &here), MARE_OK);
    assert_int_equal(mare_node_find_process(nodes->flow, "a channel@ebb", deadline, &process, NULL),
                     MARE_INVALID);
    mare_chan_close(here);
    mare_chan_unref(here);
}

static void who_leaves_is_missed(void **state)
{
    struct nodes *nodes = *state;
    mare_channel *here, *far;
    mare_message *message;
    assert_int_equal(mare_chan_create(nodes->flow, 0, "here", &here), MARE_OK);
    assert_int_equal(mare_node_find(nodes->ebb, "here@flow", run_soon(nodes->ebb), &far, NULL),
                     MARE_OK);
    assert_int_equal(mare_node_stop(nodes->flow, run_soon(nodes->flow)), MARE_OK);
    expect_told(nodes, "left");
    assert_int_equal(mare_chan_receive_until(far, &message, run_soon(nodes->ebb)), MARE_NONODE);
    assert_int_equal(mare_node_stop(nodes->flow, run_soon(nodes->flow)), MARE_NONODE);
    assert_int_equal(mare_node_find(nodes->ebb, "here@flow", run_soon(nodes->ebb), &here, NULL),
                     MARE_NONODE);
    mare_chan_unref(far);
    mare_chan_unref(here);
}

// The runtime ends without a goodbye, while somebody has something of it.
static void who_ends_is_missed(void **state)
{
    struct nodes *nodes = *state;
    mare_channel *here, *far;
    mare_message *message;
    assert_int_equal(mare_chan_create(nodes->flow, 0, "here", &here), MARE_OK);
    assert_int_equal(mare_node_find(nodes->ebb, "here@flow", run_soon(nodes->ebb), &far, NULL),
                     MARE_OK);
    mare_chan_unref(here);
    mare_stop(nodes->flow);
    nodes->flow = NULL;
    assert_int_equal(mare_chan_receive_until(far, &message, run_soon(nodes->ebb)), MARE_NONODE);
    mare_chan_unref(far);
}

#define WITH_NODES(f) cmocka_unit_test_setup_teardown(f, meet, part)

UNIT_TESTS(WITH_NODES(messages_cross_between_two_c_programs),
           WITH_NODES(exported_functions_are_called),
           WITH_NODES(a_call_that_takes_too_long_is_ended), WITH_NODES(references_are_arguments),
           WITH_NODES(what_cannot_be_is_refused_in_words), WITH_NODES(who_leaves_is_missed),
           WITH_NODES(who_ends_is_missed))
