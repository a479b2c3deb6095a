// SPDX-License-Identifier: MIT
// The evaluating half of the REPL (lua/mare/_repl.lua) and interrupts, wherever they hit it: the
// terminal's thread waits for an answer to each text, and must get one.
#include <stdio.h>
#include <unistd.h>

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

// What the terminal sends when the answer to a text does not come.
static void ask_again(int64_t number)
{
    mare_message *message = run_message();
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
    assert_int_equal(mare_chan_send_until(repl.input, message, run_soon(repl.runtime)), MARE_OK);
    mare_message_destroy(message);
}

static void assert_answer_and_more(int64_t number, bool more)
{
    mare_message *message;
    mare_value values[2] = {0};
    assert_int_equal(mare_chan_receive_until(repl.output, &message, run_soon(repl.runtime)),
                     MARE_OK);
    assert_int_equal(mare_message_get(message, 0, &values[0]), MARE_OK);
    assert_int_equal(mare_message_get(message, 1, &values[1]), MARE_OK);
    mare_message_destroy(message);
    assert_int_equal(values[0].as.integer, number);
    assert_int_equal(values[1].type, MARE_BOOLEAN);
    assert_int_equal(values[1].as.boolean, more);
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

// An interrupt may take a text away before it is evaluated. The user is told, and only once.
static void a_text_that_was_lost_is_told_of(void **state)
{
    (void)state;
    FILE *said = tmpfile();
    int before = dup(STDERR_FILENO);
    char text[64] = "";
    assert_non_null(said);
    assert_answer(0);
    assert_int_equal(dup2(fileno(said), STDERR_FILENO), STDERR_FILENO);
    ask_again(7);
    int64_t first = run_receive_integer(repl.runtime, repl.output);
    ask_again(7);
    int64_t second = run_receive_integer(repl.runtime, repl.output);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(first, 7);
    assert_int_equal(second, 7);
    close(before);
    rewind(said);
    text[fread(text, 1, sizeof text - 1, said)] = '\0';
    assert_string_equal(text, "interrupted!\n");
    fclose(said);
}

// If only the answer was lost, it is given again.
static void an_answer_that_was_lost_is_given_again(void **state)
{
    (void)state;
    assert_answer(0);
    send_text(1, "x =");
    assert_answer_and_more(1, true);
    ask_again(1);
    assert_answer_and_more(1, true);
    send_text(2, "x = 1");
    assert_answer_and_more(2, false);
    ask_again(2);
    assert_answer_and_more(2, false);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, end)

UNIT_TESTS(CASE(it_says_when_it_can_be_interrupted),
           CASE(an_interrupt_is_told_even_where_there_is_no_room_for_it),
           CASE(a_text_that_was_lost_is_told_of), CASE(an_answer_that_was_lost_is_given_again))
