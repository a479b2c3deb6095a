// SPDX-License-Identifier: MIT
// What a listener is told: every kind of event, in an order that fits what happened before what,
// and nothing when nobody listens.
#include "runtime.h"

enum { MOST = 1000, PROCESSES = 16 };

static struct {
    mare_event events[MOST];
    size_t count;
} heard;

static void listen(void *user, const mare_event *event)
{
    if (user == &heard && heard.count < MOST)
        heard.events[heard.count++] = *event;
}

static int forget(void **state)
{
    (void)state;
    memset(&heard, 0, sizeof heard);
    return 0;
}

// The n-th event (from 1) of a kind by a process, or NULL.
static const mare_event *nth(uint64_t process, mare_event_kind kind, int n)
{
    for (size_t i = 0; i < heard.count; i++)
        if (heard.events[i].process == process && heard.events[i].kind == kind && --n == 0)
            return &heard.events[i];
    return NULL;
}

static const mare_event *first(uint64_t process, mare_event_kind kind)
{
    const mare_event *event = nth(process, kind, 1);
    if (!event)
        fail_msg("process %d: no %s", (int)process, mare_event_name(kind));
    return event;
}

// Whether one event happened before another, by vector clocks that are computed from nothing but
// process, number and cause.
static bool before(const mare_event *a, const mare_event *b)
{
    static unsigned clocks[MOST][PROCESSES];
    memset(clocks, 0, sizeof clocks);
    for (size_t i = 0; i < heard.count; i++) {
        const mare_event *event = &heard.events[i];
        assert_int_equal(event->number, heard.events[0].number + i);
        assert_true(event->process < PROCESSES);
        assert_true(event->cause < event->number);
        for (size_t k = i; k-- > 0;) {
            bool own = heard.events[k].process == event->process;
            if (own || heard.events[k].number == event->cause)
                for (int p = 0; p < PROCESSES; p++)
                    if (clocks[i][p] < clocks[k][p])
                        clocks[i][p] = clocks[k][p];
        }
        clocks[i][event->process]++;
    }
    size_t i = (size_t)(a - heard.events), k = (size_t)(b - heard.events);
    return i != k && clocks[k][a->process] >= clocks[i][a->process];
}

static mare_process *spawn_with(mare_runtime *runtime, const char *code, mare_channel *a,
                                mare_channel *b)
{
    mare_message *arguments = run_message();
    run_add_channel(arguments, a);
    run_add_channel(arguments, b);
    mare_process *process = run_spawn(runtime, code, arguments);
    mare_message_destroy(arguments);
    return process;
}

static void a_relay_is_told_in_its_order(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 4; workers++) {
        forget(NULL);
        mare_runtime *runtime = run_start(workers);
        mare_trace(runtime, listen, &heard);
        mare_channel *one = run_channel(runtime, 0), *two = run_channel(runtime, 1);
        mare_process *c =
            spawn_with(runtime, "local _, from = ... return from:receive()", one, two);
        mare_process *b =
            spawn_with(runtime, "local from, to = ... to:send(from:receive())", one, two);
        mare_process *a = spawn_with(runtime, "local to = ... to:send(7)", one, two);
        mare_process *apart = spawn_with(runtime, "return 1", one, two);
        uint64_t ids[] = {mare_process_id(a), mare_process_id(b), mare_process_id(c),
                          mare_process_id(apart)};
        assert_int_equal(run_join(runtime, a, NULL), MARE_OK);
        assert_int_equal(run_join(runtime, b, NULL), MARE_OK);
        assert_int_equal(run_join(runtime, c, NULL), MARE_OK);
        assert_int_equal(run_join(runtime, apart, NULL), MARE_OK);
        mare_trace(runtime, NULL, NULL);

        const mare_event *sent = first(ids[0], MARE_EVENT_SEND),
                         *relayed = first(ids[1], MARE_EVENT_SEND),
                         *got = first(ids[1], MARE_EVENT_RECEIVE),
                         *arrived = first(ids[2], MARE_EVENT_RECEIVE);
        assert_int_equal(got->cause, sent->number);
        assert_int_equal(got->channel, sent->channel);
        assert_int_equal(arrived->cause, relayed->number);
        assert_int_equal(arrived->channel, relayed->channel);
        assert_int_not_equal(arrived->channel, got->channel);
        assert_true(before(sent, arrived)); // through another process
        assert_false(before(arrived, sent));
        assert_true(before(first(ids[0], MARE_EVENT_START), arrived));
        assert_true(before(arrived, first(ids[2], MARE_EVENT_END)));
        for (int i = 0; i < 4; i++) {
            const mare_event *start = first(ids[i], MARE_EVENT_START);
            const mare_event *spawn = &heard.events[start->cause - heard.events[0].number];
            assert_int_equal(spawn->kind, MARE_EVENT_SPAWN);
            assert_int_equal(spawn->process, 0); // this thread
            assert_int_equal(spawn->other, ids[i]);
            // This thread is told of the end by its join.
            const mare_event *told = nth(0, MARE_EVENT_RECEIVE, i + 1);
            assert_non_null(told);
            assert_int_equal(told->cause, first(ids[i], MARE_EVENT_END)->number);
            assert_int_equal(told->channel, 0);
        }
        // What nothing connects is not ordered, whatever the numbers say.
        const mare_event *ended = first(ids[3], MARE_EVENT_END);
        assert_false(before(ended, arrived));
        assert_false(before(arrived, ended));
        mare_chan_unref(one);
        mare_chan_unref(two);
        mare_stop(runtime);
    }
}

static void waits_are_told(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *channel = run_channel(runtime, 0);
    mare_trace(runtime, listen, &heard);
    mare_process *process =
        spawn_with(runtime, "local ch = ... require 'mare'.sleep(0.001) return ch:receive()",
                   channel, channel);
    uint64_t id = mare_process_id(process);
    run_send_integer(runtime, channel, 1);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_trace(runtime, NULL, NULL);
    const mare_event *slept = first(id, MARE_EVENT_BLOCK), *woke = first(id, MARE_EVENT_WAKE);
    assert_int_equal(slept->channel, 0);
    assert_true(slept->number < woke->number);
    const mare_event *sent = first(0, MARE_EVENT_SEND), *got = first(id, MARE_EVENT_RECEIVE);
    assert_int_equal(got->cause, sent->number);
    assert_int_equal(sent->channel, got->channel);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

static void a_select_and_a_monitor_are_told(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *in = run_channel(runtime, 1), *out = run_channel(runtime, 1);
    mare_trace(runtime, listen, &heard);
    run_send_integer(runtime, in, 5);
    mare_process *process = spawn_with(runtime,
                                       "local mare, from, to = require 'mare', ... "
                                       "assert(select('#', mare.select {from}) == 2) "
                                       "assert(mare.select {{to, 6}} == 1) "
                                       "local news = mare.channel(1) "
                                       "local child = mare.spawn({monitor = news}, 'return') "
                                       "assert(news:receive() == child) "
                                       "return child:join()",
                                       in, out);
    uint64_t id = mare_process_id(process);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    assert_int_equal(run_receive_integer(runtime, out), 6);
    mare_trace(runtime, NULL, NULL);
    assert_int_equal(first(id, MARE_EVENT_RECEIVE)->cause, first(0, MARE_EVENT_SEND)->number);
    uint64_t child = first(id, MARE_EVENT_SPAWN)->other;
    uint64_t end = first(child, MARE_EVENT_END)->number;
    const mare_event *news = nth(id, MARE_EVENT_RECEIVE, 2),
                     *joined = nth(id, MARE_EVENT_RECEIVE, 3);
    assert_non_null(news);
    assert_non_null(joined);
    assert_int_equal(news->cause, end); // the runtime sends it in the child's name
    assert_int_not_equal(news->channel, 0);
    assert_int_equal(joined->cause, end);
    assert_int_equal(nth(0, MARE_EVENT_RECEIVE, 2)->cause, first(id, MARE_EVENT_SEND)->number);
    mare_chan_unref(in);
    mare_chan_unref(out);
    mare_stop(runtime);
}

static void nobody_is_told_who_does_not_listen(void **state)
{
    (void)state;
    static const char code[] = "local mare = require 'mare' local ch = mare.channel(1) ch:send(1) "
                               "return ch:receive() == 1 and mare.spawn('return true'):join()";
    mare_runtime *runtime = run_start(2);
    mare_channel *channel = run_channel(runtime, 2);
    run_true(runtime, code, NULL);
    assert_int_equal(heard.count, 0);
    run_send_integer(runtime, channel, 1); // unheard
    mare_trace(runtime, listen, &heard);
    run_send_integer(runtime, channel, 2);
    run_true(runtime, code, NULL);
    size_t count = heard.count;
    assert_true(count > 8);
    mare_trace(runtime, NULL, NULL);
    run_true(runtime, code, NULL);
    assert_int_equal(heard.count, count);

    // What was sent while nobody listened has no cause; what was, keeps it.
    uint64_t number = first(0, MARE_EVENT_SEND)->number;
    forget(NULL);
    mare_trace(runtime, listen, &heard);
    assert_int_equal(run_receive_integer(runtime, channel), 1);
    assert_int_equal(run_receive_integer(runtime, channel), 2);
    assert_int_equal(nth(0, MARE_EVENT_RECEIVE, 1)->cause, 0);
    assert_int_equal(nth(0, MARE_EVENT_RECEIVE, 2)->cause, number);
    assert_true(nth(0, MARE_EVENT_RECEIVE, 1)->number > count); // numbers go on
    mare_chan_unref(channel);
    mare_stop(runtime); // with a listener
}

// A message that nobody took was told of; sent again when nobody listens, it has no cause.
static void an_attempt_that_failed_is_no_cause(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *channel = run_channel(runtime, 1);
    run_send_integer(runtime, channel, 1);
    mare_message *message = run_message();
    mare_message_add_integer(message, 2);
    mare_trace(runtime, listen, &heard);
    assert_int_equal(mare_chan_try_send(channel, message), MARE_FULL);
    assert_int_equal(first(0, MARE_EVENT_SEND)->number, 1);
    mare_trace(runtime, NULL, NULL);
    assert_int_equal(run_receive_integer(runtime, channel), 1);
    assert_int_equal(mare_chan_try_send(channel, message), MARE_OK);
    mare_trace(runtime, listen, &heard);
    assert_int_equal(run_receive_integer(runtime, channel), 2);
    assert_int_equal(first(0, MARE_EVENT_RECEIVE)->cause, 0);
    mare_message_destroy(message);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// Processes that live already are heard from the moment somebody listens.
static void who_comes_later_hears_those_who_are_there(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *to = run_channel(runtime, 0), *from = run_channel(runtime, 0);
    mare_process *echo = spawn_with(
        runtime, "local from, to = ... for m in from:messages() do to:send(m) end", to, from);
    uint64_t id = mare_process_id(echo);
    for (int round = 0; round < 20; round++) {
        bool listens = round % 2 == 1;
        forget(NULL);
        mare_trace(runtime, listens ? listen : NULL, &heard);
        run_send_integer(runtime, to, round);
        assert_int_equal(run_receive_integer(runtime, from), round);
        mare_trace(runtime, NULL, NULL);
        if (listens) {
            assert_int_equal(first(id, MARE_EVENT_RECEIVE)->cause,
                             first(0, MARE_EVENT_SEND)->number);
            assert_int_equal(first(0, MARE_EVENT_RECEIVE)->cause,
                             first(id, MARE_EVENT_SEND)->number);
        } else {
            assert_int_equal(heard.count, 0);
        }
    }
    mare_chan_close(to);
    assert_int_equal(run_join(runtime, echo, NULL), MARE_OK);
    mare_chan_unref(to);
    mare_chan_unref(from);
    mare_stop(runtime);
}

#define CASE(name) cmocka_unit_test_setup(name, forget)

UNIT_TESTS(CASE(a_relay_is_told_in_its_order), CASE(waits_are_told),
           CASE(a_select_and_a_monitor_are_told), CASE(nobody_is_told_who_does_not_listen),
           CASE(an_attempt_that_failed_is_no_cause),
           CASE(who_comes_later_hears_those_who_are_there))
