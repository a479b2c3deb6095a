// SPDX-License-Identifier: MIT
// A runtime as a C program sees it: start and stop, spawn, join, kill, workers, names.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime.h"
#include "sched/local.h"
#include "sched/process.h"

static void starts_and_stops_many_times(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        mare_runtime *runtime = run_start(1 + i % 8);
        if (i % 3 == 0)
            run_true(runtime, "return true", NULL);
        mare_stop(runtime);
    }
}

static void stops_with_work_under_way(void **state)
{
    (void)state;
    const char *const codes[] = {
        run_spin(), "require 'mare'.sleep(1000)", "require 'mare'.channel():receive()",
        "local m = require 'mare' while true do m.yield() end",
        "local m = require 'mare' while true do m.spawn('return 1'):join() end"};
    for (int i = 0; i < 40; i++) {
        mare_runtime *runtime = run_start(1 + (unsigned)i % 4);
        for (int k = 0; k < 5; k++)
            mare_process_unref(run_spawn(runtime, codes[(i + k) % 5], NULL));
        mare_stop(runtime);
    }
}

static void options_are_checked(void **state)
{
    (void)state;
    mare_options options = {.workers = 1025};
    mare_runtime *runtime = NULL;
    assert_int_equal(mare_start(&options, &runtime), MARE_INVALID);
    assert_int_equal(mare_start(NULL, &runtime), MARE_OK);
    assert_int_equal(mare_set_workers(runtime, 0), MARE_INVALID);
    assert_int_equal(mare_set_workers(runtime, (unsigned)-1), MARE_INVALID);
    assert_int_equal(mare_set_workers(runtime, 1025), MARE_INVALID);
    run_true(runtime, "return require 'mare'.workers() >= 1", NULL);
    mare_stop(runtime);
}

static void deadlines_do_not_wrap(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    uint64_t now = mare_now_ns(runtime);
    assert_true(mare_deadline_ms(runtime, 0) >= now);
    assert_true(mare_deadline_ms(runtime, 1000) >= now + 1000000000u);
    assert_true(mare_deadline_ms(runtime, UINT64_MAX) == MARE_FOREVER);
    assert_true(mare_deadline_ms(runtime, UINT64_MAX / 1000000) == MARE_FOREVER);
    mare_stop(runtime);
}

// ---- Spawn --------------------------------------------------------------------------------------

static void a_syntax_error_is_told(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_process *process = NULL;
    char *error = NULL;
    assert_int_equal(mare_spawn(runtime, "return +", 8, "=chunk", NULL, &process, &error),
                     MARE_SYNTAX);
    assert_non_null(error);
    assert_non_null(strstr(error, "chunk:1:"));
    free(error);
    assert_null(process);
    assert_int_equal(mare_spawn(runtime, "x x", 3, NULL, NULL, &process, NULL), MARE_SYNTAX);
    assert_int_equal(mare_wait_until(runtime, run_soon(runtime)), MARE_OK); // nothing was started
    mare_stop(runtime);
}

static void arguments_arrive_and_stay_the_callers(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_message *arguments = run_message();
    mare_channel *channel = run_channel(runtime, 1);
    mare_value values[] = {{.type = MARE_NIL},
                           {.type = MARE_BOOLEAN, .as.boolean = true},
                           {.type = MARE_INTEGER, .as.integer = INT64_MIN},
                           {.type = MARE_FLOAT, .as.number = 2.0},
                           {.type = MARE_STRING, .as.string = {"a\0b", 3}},
                           {.type = MARE_CHANNEL, .as.channel = channel}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_int_equal(mare_message_add(arguments, &values[i]), MARE_OK);
    for (int i = 0; i < 3; i++) // more than once
        run_true(
            runtime,
            "local n, b, i, f, s, c = ...\n"
            "assert(select('#', ...) == 6 and n == nil and b == true and i == math.mininteger)\n"
            "assert(math.type(f) == 'float' and f == 2 and s == 'a\\0b')\n"
            "c:send(i) assert(c:receive() == i) return true",
            arguments);
    assert_int_equal(mare_message_count(arguments), 6);
    mare_message_destroy(arguments);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

static void binary_code_is_accepted(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_message *result = NULL;
    mare_value code;
    assert_int_equal(run_join(runtime,
                              run_spawn(runtime, "return string.dump(load 'return ... + 1')", NULL),
                              &result),
                     MARE_OK);
    assert_int_equal(mare_message_get(result, 0, &code), MARE_OK);
    mare_message *arguments = run_message(), *sum = NULL;
    mare_message_add_integer(arguments, 41);
    mare_process *process;
    assert_int_equal(mare_spawn(runtime, code.as.string.bytes, code.as.string.length, NULL,
                                arguments, &process, NULL),
                     MARE_OK);
    assert_int_equal(run_join(runtime, process, &sum), MARE_OK);
    mare_value value;
    assert_int_equal(mare_message_get(sum, 0, &value), MARE_OK);
    assert_int_equal(value.as.integer, 42);
    mare_message_destroy(sum);
    mare_message_destroy(arguments);
    mare_message_destroy(result);
    mare_stop(runtime);
}

// What Lua sent, given to a new process: shared references and all.
static void arguments_may_come_from_lua(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_message *result = NULL;
    run_join(runtime, run_spawn(runtime, "local t = {5} t.self = t return t, t, {t}", NULL),
             &result);
    assert_non_null(result);
    run_true(runtime,
             "local a, b, c = ... assert(type(a) == 'table' and a[1] == 5, type(a))\n"
             "return a == b and c[1] == a and a.self == a",
             result);
    mare_message_destroy(result);
    mare_stop(runtime);
}

// What came from outside stays untrusted on the way into a process: bytes that look like a
// reference are not followed.
static void arguments_from_outside_are_not_trusted(void **state)
{
    (void)state;
    static const uint8_t forged[] = {0xc7, 12,   9,    0,    0,    0,    0,   0x41,
                                     0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41};
    mare_runtime *runtime = run_start(1);
    mare_message *message = NULL, *result = NULL;
    mare_process *process = NULL;
    mare_err err = mare_message_parse(forged, sizeof forged, &message);
    if (err == MARE_OK) {
        err = mare_spawn(runtime, "return true", 11, NULL, message, &process, NULL);
        if (err == MARE_OK)
            err = run_join(runtime, process, &result);
        mare_message_destroy(result);
        mare_message_destroy(message);
    }
    assert_int_not_equal(err, MARE_OK);
    mare_stop(runtime);
}

// ---- The end of a process -----------------------------------------------------------------------

static void join_tells_how_it_ended(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_message *result = NULL;
    mare_value value;
    assert_int_equal(run_join(runtime, run_spawn(runtime, "return 1, 'two'", NULL), &result),
                     MARE_OK);
    assert_int_equal(mare_message_count(result), 2);
    mare_message_destroy(result);
    assert_int_equal(run_join(runtime, run_spawn(runtime, "error 'oops'", NULL), &result),
                     MARE_DIED);
    assert_int_equal(mare_message_get(result, 0, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_non_null(memmem(value.as.string.bytes, value.as.string.length, "test:1: oops", 12));
    mare_message_destroy(result);
    assert_int_equal(run_join(runtime, run_spawn(runtime, "error()", NULL), &result), MARE_DIED);
    mare_message_destroy(result);
    assert_int_equal(run_join(runtime, run_spawn(runtime, "return", NULL), NULL), MARE_OK);
    mare_process *process = run_spawn(runtime, run_spin(), NULL);
    assert_true(mare_process_alive(process));
    assert_int_equal(mare_process_join_until(process, mare_now_ns(runtime), &result), MARE_TIMEOUT);
    assert_null(result);
    assert_true(mare_process_kill(process));
    assert_int_equal(mare_process_join_until(process, run_soon(runtime), &result), MARE_KILLED);
    assert_null(result);
    assert_false(mare_process_alive(process));
    assert_false(mare_process_kill(process));
    assert_int_equal(mare_process_join_until(process, 0, &result),
                     MARE_KILLED); // again, and at once
    mare_process_unref(process);
    mare_stop(runtime);
}

static void ids_are_unique(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_process *a = run_spawn(runtime, "", NULL), *b = run_spawn(runtime, "", NULL);
    assert_true(mare_process_id(a) != mare_process_id(b));
    assert_ptr_equal(mare_process_ref(a), a);
    mare_process_unref(a);
    mare_process_unref(a);
    mare_process_unref(b);
    assert_int_equal(mare_wait_until(runtime, run_soon(runtime)), MARE_OK);
    mare_stop(runtime);
}

static void kill_runs_closing_handlers(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *ready = run_channel(runtime, 0), *closed = run_channel(runtime, 1);
    mare_message *arguments = run_message();
    run_add_channel(arguments, ready);
    run_add_channel(arguments, closed);
    const char *const codes[] = {"ready:receive()",
                                 run_spin(),
                                 "require 'mare'.sleep(1000)",
                                 "closed:receive()",
                                 "coroutine.wrap(function() ready:receive() end)()",
                                 "require 'mare'.select({ready}, 1000)"};
    for (size_t i = 0; i < 10 * sizeof codes / sizeof *codes;
         i++) { // several times: wherever it is by then
        char code[400];
        snprintf(
            code, sizeof code,
            "local ready, closed = ...\n"
            "local x <close> = setmetatable({}, {__close = function() closed:trysend(%d) end})\n"
            "ready:send(1) %s",
            (int)i, codes[i % (sizeof codes / sizeof *codes)]);
        mare_process *process = run_spawn(runtime, code, arguments);
        run_receive_integer(runtime, ready); // it runs
        assert_true(mare_process_kill(process));
        assert_int_equal(run_join(runtime, process, NULL), MARE_KILLED);
        assert_int_equal(run_receive_integer(runtime, closed), i);
    }
    mare_message_destroy(arguments);
    mare_chan_unref(ready);
    mare_chan_unref(closed);
    mare_stop(runtime);
}

static void killed_before_it_ran(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_process *busy = run_spawn(runtime, run_spin(), NULL);
    for (int i = 0; i < 200; i++) {
        mare_process *process = run_spawn(runtime, "return 1", NULL);
        bool killed = mare_process_kill(process);
        mare_err err = run_join(runtime, process, NULL);
        assert_true(err == MARE_KILLED || (err == MARE_OK && !killed) || err == MARE_OK);
    }
    mare_process_kill(busy);
    mare_process_unref(busy);
    mare_stop(runtime);
}

static void wait_has_a_deadline(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    assert_int_equal(mare_wait_until(runtime, MARE_FOREVER), MARE_OK);
    mare_process *process = run_spawn(runtime, "require 'mare'.sleep(1000)", NULL);
    assert_int_equal(mare_wait_until(runtime, mare_deadline_ms(runtime, 5)), MARE_TIMEOUT);
    assert_int_equal(mare_wait_until(runtime, 0), MARE_TIMEOUT);
    mare_process_kill(process);
    assert_int_equal(mare_wait_until(runtime, run_soon(runtime)), MARE_OK);
    mare_process_unref(process);
    mare_stop(runtime);
}

// ---- Names --------------------------------------------------------------------------------------

static void names_are_found_from_both_sides(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *channel, *found;
    assert_int_equal(mare_chan_find(runtime, "c", &found), MARE_NONAME);
    assert_null(found);
    assert_int_equal(mare_chan_create(runtime, 1, "c", &channel), MARE_OK);
    assert_int_equal(mare_chan_create(runtime, 1, "c", &found), MARE_EXISTS);
    assert_null(found);
    assert_int_equal(mare_chan_find(runtime, "c", &found), MARE_OK);
    assert_ptr_equal(found, channel);
    mare_chan_unref(found);
    run_true(runtime,
             "local m = require 'mare' return m.find('c'):send(7) and not m.channel(0, 'c')", NULL);
    assert_int_equal(run_receive_integer(runtime, channel), 7);
    run_true(runtime, "local m = require 'mare' m.channel(1, 'lua'):send(8) return true", NULL);
    assert_int_equal(mare_chan_find(runtime, "lua", &found), MARE_OK);
    assert_int_equal(run_receive_integer(runtime, found), 8);
    assert_true(mare_chan_close(found));
    mare_chan_unref(found);
    assert_int_equal(mare_chan_find(runtime, "lua", &found), MARE_NONAME);
    // A process has a name in the same space, but is no channel.
    mare_process *process = run_spawn(
        runtime, "require 'mare'.spawn({name = 'p'}, 'require \"mare\".sleep(1000)')", NULL);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    assert_int_equal(mare_chan_find(runtime, "p", &found), MARE_NONAME);
    assert_int_equal(mare_chan_create(runtime, 0, "p", &found), MARE_EXISTS);
    assert_true(mare_chan_close(channel));
    mare_chan_unref(channel);
    mare_stop(runtime);
}

static void a_name_that_is_never_closed(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *channel;
    assert_int_equal(mare_chan_create(runtime, 1, "open to the end", &channel), MARE_OK);
    mare_chan_unref(channel); // the name keeps it
    assert_int_equal(mare_chan_find(runtime, "open to the end", &channel), MARE_OK);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// ---- Workers ------------------------------------------------------------------------------------

static void *change_workers(void *argument)
{
    mare_runtime *runtime = argument;
    uint64_t random = 1;
    for (int i = 0; i < 60; i++) {
        mare_set_workers(runtime, 1 + (unsigned)(unit_random(&random) % 6));
        mare_set_recycle(runtime, (unsigned)(unit_random(&random) % 20));
        usleep((unsigned)(unit_random(&random) % 500));
    }
    return NULL;
}

static void workers_come_and_go_while_processes_run(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    pthread_t thread;
    pthread_create(&thread, NULL, change_workers, runtime);
    run_true(runtime,
             "local m = require 'mare'\n"
             "for round = 1, 30 do\n"
             "  local ps, ch = {}, m.channel()\n"
             "  local function life(c, k) m.sleep(0) c:send(k) return k end\n"
             "  for i = 1, 30 do ps[i] = m.spawn(life, ch, i) end\n"
             "  local sum = 0 for i = 1, 30 do sum = sum + ch:receive() end assert(sum == 465)\n"
             "  for i = 1, 30 do assert(select(2, ps[i]:join()) == i) end\n"
             "  m.processes()\n"
             "end return true",
             NULL);
    pthread_join(thread, NULL);
    assert_int_equal(mare_set_workers(runtime, 1), MARE_OK);
    run_true(runtime, "return require 'mare'.workers() == 1", NULL);
    mare_stop(runtime);
}

// The same code again and again: the state is put back to the moment when it had been loaded.
static void a_recycled_state_has_no_limit_of_its_predecessor(void **state)
{
    (void)state;
    mare_options options = {.workers = 1, .recycle = 4};
    mare_runtime *runtime;
    assert_int_equal(mare_start(&options, &runtime), MARE_OK);
    run_true(runtime,
             "local m = require 'mare'\n"
             "local f = load(string.dump(load([[return #('x'):rep(...)]], '=f'), true))\n"
             "for i = 1, 4 do assert(m.spawn({memory = 300000}, f, 10):join()) end\n"
             "for i = 1, 4 do assert(m.spawn(f, 5000000):join()) end\n"
             "local ok, err = m.spawn({memory = 300000}, f, 5000000):join()\n"
             "assert(not ok and err:find 'memory') return true",
             NULL);
    mare_stop(runtime);
}

static void *own_runtime(void *argument)
{
    (void)argument;
    for (int i = 0; i < 10; i++) {
        mare_options options = {.workers = 2};
        mare_runtime *runtime;
        mare_process *process;
        static const char code[] =
            "local m = require 'mare' local c = m.channel(0, 'same name')\n"
            "m.spawn(function() c:send(m.self():id()) end) return c:receive(30)";
        if (mare_start(&options, &runtime) != MARE_OK)
            return "start";
        if (mare_spawn(runtime, code, sizeof code - 1, NULL, NULL, &process, NULL) != MARE_OK)
            return "spawn";
        mare_message *result = NULL;
        if (mare_process_join_until(process, MARE_FOREVER, &result) != MARE_OK ||
            mare_message_count(result) != 1)
            return "join";
        mare_message_destroy(result);
        mare_process_unref(process);
        mare_channel *channel;
        if (mare_chan_find(runtime, "same name", &channel) != MARE_OK || !mare_chan_close(channel))
            return "find";
        mare_chan_unref(channel);
        mare_stop(runtime);
    }
    return NULL;
}

static void each_thread_may_have_a_runtime(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, own_runtime, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *complaint;
        pthread_join(threads[i], &complaint);
        if (complaint)
            fail_msg("%s", (char *)complaint);
    }
}

static void what_lives_can_be_listed(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_process_info processes[2];
    mare_chan_info channels[1];
    mare_stats stats;
    mare_channel *channel;
    assert_int_equal(mare_list_processes(runtime, NULL, 0), 0);
    assert_int_equal(mare_list_channels(runtime, NULL, 0), 0);
    char name[100];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(mare_chan_create(runtime, 2, name, &channel), MARE_OK);
    mare_message *message = run_message();
    run_add_channel(message, channel);
    mare_process *process =
        run_spawn(runtime, "local ch = ... ch:send(1) ch:send(2) ch:send(3)", message);
    do
        assert_int_equal(mare_list_channels(runtime, channels, 1), 1);
    while (channels[0].senders == 0);
    assert_int_equal(channels[0].capacity, 2);
    assert_int_equal(channels[0].buffered, 2);
    assert_int_equal(channels[0].sent, 2);
    assert_int_equal(strlen(channels[0].name), 63);
    assert_false(channels[0].closed);
    assert_int_equal(mare_list_processes(runtime, processes, 2), 1);
    assert_int_equal(processes[0].id, mare_process_id(process));
    assert_string_equal(processes[0].status, "blocked");
    assert_true(processes[0].memory > 1000 && processes[0].slices > 0);
    mare_get_stats(runtime, &stats);
    assert_int_equal(stats.spawned, 1);
    assert_int_equal(stats.live, 1);
    assert_int_equal(stats.sent, 2);
    assert_int_equal(stats.workers, 1);
    mare_process_kill(process);
    run_join(runtime, process, NULL);
    assert_int_equal(mare_list_processes(runtime, processes, 2), 0);
    mare_message_destroy(message);
    mare_chan_close(channel);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

static void *name_channels(void *runtime)
{
    for (int i = 0; i < 3000; i++) {
        mare_channel *channel;
        if (mare_chan_create(runtime, 0, "a channel with a name", &channel) != MARE_OK)
            return "create";
        mare_chan_close(channel); // and give back the name
        mare_chan_unref(channel);
    }
    return NULL;
}

static void a_channel_is_listed_with_its_name_or_not_at_all(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_chan_info info;
    pthread_t thread;
    void *complaint = "";
    assert_int_equal(pthread_create(&thread, NULL, name_channels, runtime), 0);
    while (pthread_tryjoin_np(thread, &complaint) != 0)
        if (mare_list_channels(runtime, &info, 1) > 0)
            assert_string_equal(info.name, "a channel with a name");
    assert_null(complaint);
    mare_stop(runtime);
}

// ---- Interrupts ---------------------------------------------------------------------------------

static void *interrupt_again_and_again(void *process)
{
    for (int i = 0; i < 3000; i++)
        mare__local_interrupt(mare__local_of(process));
    return NULL;
}

// Who sleeps for ever is interrupted by two threads at once, as it wakes, runs and sleeps again.
static void two_interrupts_are_no_two_resumes(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int round = 0; round < 10; round++) {
        mare_channel *over = run_channel(runtime, 0);
        mare_message *arguments = run_message();
        run_add_channel(arguments, over);
        mare_process *process = run_spawn(runtime,
                                          "local m, over = require 'mare', ... "
                                          "local function sleep() m.sleep(1e10) end "
                                          "local function loop() "
                                          "    repeat pcall(sleep) until over:closed() "
                                          "end "
                                          "repeat pcall(loop) until over:closed() "
                                          "return true",
                                          arguments);
        mare_message_destroy(arguments);
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, interrupt_again_and_again, process),
                             0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        mare_chan_close(over);
        while (mare_process_alive(process)) // it may be about to sleep once more
            mare__local_interrupt(mare__local_of(process));
        mare_err err = run_join(runtime, process, NULL); // or it died of one, between two pcalls
        assert_true(err == MARE_OK || err == MARE_DIED);
        mare_chan_unref(over);
    }
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(two_interrupts_are_no_two_resumes),
           cmocka_unit_test(what_lives_can_be_listed),
           cmocka_unit_test(a_channel_is_listed_with_its_name_or_not_at_all),
           cmocka_unit_test(starts_and_stops_many_times),
           cmocka_unit_test(stops_with_work_under_way), cmocka_unit_test(options_are_checked),
           cmocka_unit_test(deadlines_do_not_wrap), cmocka_unit_test(a_syntax_error_is_told),
           cmocka_unit_test(arguments_arrive_and_stay_the_callers),
           cmocka_unit_test(binary_code_is_accepted), cmocka_unit_test(join_tells_how_it_ended),
           cmocka_unit_test(ids_are_unique), cmocka_unit_test(kill_runs_closing_handlers),
           cmocka_unit_test(killed_before_it_ran), cmocka_unit_test(wait_has_a_deadline),
           cmocka_unit_test(names_are_found_from_both_sides),
           cmocka_unit_test(workers_come_and_go_while_processes_run),
           cmocka_unit_test(each_thread_may_have_a_runtime),
           cmocka_unit_test(arguments_may_come_from_lua),
           cmocka_unit_test(arguments_from_outside_are_not_trusted),
           cmocka_unit_test(a_name_that_is_never_closed),
           cmocka_unit_test(a_recycled_state_has_no_limit_of_its_predecessor))
