// SPDX-License-Identifier: MIT
// The evaluating half of the REPL (lua/mare/_repl.lua) and interrupts, wherever they hit it: the
// terminal's thread waits for an answer to each text, and must get one.
#include "runtime.h"
#include "sched/local.h"
#include "sched/process.h"

static struct {
    mare_runtime *runtime;
    mare_process *process;
    mare_channel *input, *output;
} repl;

static int start(void **state)
{
    (void)state;
    mare_message *arguments = run_message();
    repl.runtime = run_start(1);
    repl.input = run_channel(repl.runtime, 1);
    repl.output = run_channel(repl.runtime, 1);
    run_add_channel(arguments, repl.input);
    run_add_channel(arguments, repl.output);
    repl.process = run_spawn(repl.runtime, "return require 'mare._repl' (...)", arguments);
    mare_message_destroy(arguments);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mare_chan_close(repl.input);
    assert_int_equal(run_join(repl.runtime, repl.process, NULL), MARE_OK);
    mare_chan_unref(repl.input);
    mare_chan_unref(repl.output);
    mare_stop(repl.runtime);
    return 0;
}

static void send_text(int64_t number, const char *text)
{
    mare_message *message = run_message();
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
    assert_int_equal(mare_message_add_string(message, text), MARE_OK);
    assert_int_equal(mare_chan_send_until(repl.input, message, run_soon(repl.runtime)), MARE_OK);
    mare_message_destroy(message);
}

static void assert_answer(int64_t number)
{
    assert_int_equal(run_receive_integer(repl.runtime, repl.output), number);
}

// Until it stands in line at the channel.
static void await_it(mare_channel *at)
{
    for (bool waits = false; !waits;) {
        mare__lock_acquire(&at->lock);
        waits = !mare__list_empty(&at->receivers) || !mare__list_empty(&at->senders);
        mare__lock_release(&at->lock);
    }
}

// From the first 0 on it can be interrupted, and says 0 each time.
static void it_says_when_it_can_be_interrupted(void **state)
{
    (void)state;
    assert_answer(0);
    for (int i = 0; i < 100; i++) {
        mare__local_interrupt(mare__local_of(repl.process));
        assert_answer(0);
    }
    send_text(1, "x = 1");
    assert_answer(1);
}

// The answer that was not taken is an old one: that a newer one was lost must be told all the same.
static void an_interrupt_is_told_even_where_there_is_no_room_for_it(void **state)
{
    (void)state;
    assert_answer(0);
    send_text(1, "x = 1");
    await_it(repl.input); // the answer lies there
    send_text(2, "x = 2");
    await_it(repl.output);
    mare__local_interrupt(mare__local_of(repl.process));
    await_it(repl.input);
    assert_answer(0);
    send_text(3, "x = 3");
    assert_answer(3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

UNIT_TESTS(CASE(it_says_when_it_can_be_interrupted),
           CASE(an_interrupt_is_told_even_where_there_is_no_room_for_it))
