// SPDX-License-Identifier: MIT
// Sources of kinds written in C: where their events come from, what happens when nobody takes them,
// and how they end.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mare/events.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime.h"
#include "sched/process.h"
#include "sched/runtime.h"

// What all of them are made of here: a pipe, bytes through which are events, and counts of calls.
struct device {
    int ends[2]; // to read from, to write to
    atomic_int calls, stopped, destroyed;
    atomic_bool blocked; // in its wait
    mare_err fails;      // in place of MARE_CLOSED, at the end of the pipe
    uint64_t longest;    // time it was given
};

static void device_open(struct device *device)
{
    memset(device, 0, sizeof *device);
    device->fails = MARE_CLOSED;
    assert_int_equal(pipe2(device->ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(device->ends[0], F_SETFL, O_NONBLOCK), 0);
}

static void device_close(struct device *device)
{
    close(device->ends[0]);
    if (device->ends[1] >= 0)
        close(device->ends[1]);
}

static void device_write(struct device *device, const char *bytes)
{
    assert_int_equal(write(device->ends[1], bytes, strlen(bytes)), strlen(bytes));
}

static void device_hang_up(struct device *device)
{
    close(device->ends[1]);
    device->ends[1] = -1;
}

static mare_err device_ready(void *self, mare_message *event)
{
    struct device *device = self;
    char byte;
    atomic_fetch_add(&device->calls, 1);
    ssize_t got = read(device->ends[0], &byte, 1);
    if (got < 0)
        return errno == EAGAIN ? MARE_EMPTY : MARE_IO;
    return got == 0 ? device->fails : mare_message_add_integer(event, byte);
}

static mare_err device_poll(void *self, uint64_t timeout_ns, mare_message *event)
{
    struct device *device = self;
    struct pollfd one = {.fd = device->ends[0], .events = POLLIN};
    if (timeout_ns > device->longest)
        device->longest = timeout_ns;
    poll(&one, 1, (int)(timeout_ns / 1000000));
    return device_ready(self, event);
}

static mare_err device_wait(void *self, mare_message *event)
{
    struct device *device = self;
    struct pollfd one = {.fd = device->ends[0], .events = POLLIN};
    atomic_store(&device->blocked, true);
    poll(&one, 1, -1);
    atomic_store(&device->blocked, false);
    return device_ready(self, event);
}

// A byte makes a wait return, also one that begins later.
static void device_stop(void *self)
{
    struct device *device = self;
    if (atomic_fetch_add(&device->stopped, 1) == 0 && device->ends[1] >= 0)
        assert_int_equal(write(device->ends[1], "!", 1), 1);
}

static void device_destroy(void *self)
{
    struct device *device = self;
    atomic_fetch_add(&device->destroyed, 1);
}

static void count_stop(void *self)
{
    atomic_fetch_add(&((struct device *)self)->stopped, 1);
}

static const mare_source_kind watched = {.name = "watched",
                                         .ready = device_ready,
                                         .stop = count_stop,
                                         .destroy = device_destroy},
                              polled = {.name = "polled",
                                        .poll = device_poll,
                                        .stop = count_stop,
                                        .destroy = device_destroy},
                              threaded = {.name = "threaded",
                                          .wait = device_wait,
                                          .stop = device_stop,
                                          .destroy = device_destroy},
                              told = {
                                  .name = "told", .stop = count_stop, .destroy = device_destroy};

static const mare_source_kind *const reading[] = {&watched, &polled, &threaded};
enum { READING = 3 };

// A source of an open device.
static mare_source *make_source(mare_runtime *runtime, const mare_source_kind *kind,
                                struct device *device, size_t room)
{
    mare_source *source = NULL;
    assert_int_equal(mare_source_create(runtime, kind, device,
                                        kind == &watched ? device->ends[0] : -1, room, &source),
                     MARE_OK);
    return source;
}

static mare_source *open_source(mare_runtime *runtime, const mare_source_kind *kind,
                                struct device *device, size_t room)
{
    device_open(device);
    return make_source(runtime, kind, device, room);
}

static int64_t next_event(mare_runtime *runtime, mare_source *source)
{
    mare_message *event = NULL;
    mare_value value;
    assert_int_equal(mare_source_next_until(source, &event, run_soon(runtime)), MARE_OK);
    assert_int_equal(mare_message_get(event, 0, &value), MARE_OK);
    mare_message_destroy(event);
    return value.as.integer;
}

// What another thread does has been done so often.
static void await(const atomic_int *count, int value)
{
    for (int i = 0; atomic_load(count) < value; i++) {
        if (i > 30000 * (int)unit_slow())
            fail_msg("still %d, not %d", atomic_load(count), value);
        usleep(1000);
    }
}

static int descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

// ---- Events -------------------------------------------------------------------------------------

static void events_come_in_order_from_each_kind(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct device device;
    for (int i = 0; i < READING; i++) {
        mare_source *source = open_source(runtime, reading[i], &device, 0);
        device_write(&device, "one");
        for (const char *at = "one"; *at; at++)
            assert_int_equal(next_event(runtime, source), *at);
        device_write(&device, "2");
        assert_int_equal(next_event(runtime, source), '2');
        assert_int_equal(mare_source_outcome(source), MARE_OK);
        mare_source_unref(source);
        await(&device.destroyed, 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

static void the_end_is_told_after_the_last_event(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int i = 0; i < 2 * READING; i++) {
        struct device device;
        mare_message *event;
        device_open(&device);
        device.fails = i % 2 ? MARE_IO : MARE_CLOSED;
        device_write(&device, "x");
        device_hang_up(&device);
        mare_source *source = make_source(runtime, reading[i / 2], &device, 0);
        assert_int_equal(next_event(runtime, source), 'x');
        assert_int_equal(mare_source_next_until(source, &event, run_soon(runtime)), device.fails);
        assert_int_equal(mare_source_outcome(source), device.fails);
        assert_false(mare_source_close(source));
        assert_int_equal(atomic_load(&device.stopped), 0);
        mare_source_unref(source);
        await(&device.destroyed, 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

static void who_waits_for_an_event_has_a_deadline(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct device device;
    mare_message *event;
    mare_source *source = open_source(runtime, &watched, &device, 0);
    assert_int_equal(mare_source_next_until(source, &event, 0), MARE_TIMEOUT);
    mare_source_unref(source);
    await(&device.destroyed, 1);
    device_close(&device);
    mare_stop(runtime);
}

static void events_can_be_told_by_any_thread(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct device device;
    mare_source *source = open_source(runtime, &told, &device, 2);
    mare_message *event = run_message();
    for (int i = 1; i <= 3; i++) {
        mare_message_add_integer(event, i);
        assert_int_equal(mare_source_tell(source, event), i < 3 ? MARE_OK : MARE_FULL);
        assert_int_equal(mare_message_count(event), i < 3 ? 0 : 1);
    }
    assert_int_equal(mare_source_tell_until(source, event, 0), MARE_TIMEOUT);
    assert_int_equal(next_event(runtime, source), 1);
    assert_int_equal(mare_source_tell_until(source, event, run_soon(runtime)), MARE_OK);
    assert_true(mare_source_close(source));
    assert_int_equal(mare_source_tell(source, event), MARE_CLOSED);
    assert_int_equal(next_event(runtime, source), 2); // what was in line stays
    assert_int_equal(next_event(runtime, source), 3);
    assert_int_equal(atomic_load(&device.stopped), 1);
    assert_int_equal(atomic_load(&device.destroyed), 0); // somebody has it
    mare_message_destroy(event);
    mare_source_unref(source);
    assert_int_equal(atomic_load(&device.destroyed), 1);
    device_close(&device);
    mare_stop(runtime);
}

// ---- Back-pressure ------------------------------------------------------------------------------

// One event more than there is room for is made, and waits; the next when one was taken.
static void a_source_whose_line_is_full_is_not_asked(void **state)
{
    (void)state;
    enum { EVENTS = 200, ROOM = 2 };
    mare_runtime *runtime = run_start(2);
    for (int i = 0; i < READING; i++) {
        struct device device;
        char bytes[EVENTS + 1];
        memset(bytes, 'x', EVENTS);
        bytes[EVENTS] = '\0';
        device_open(&device);
        device_write(&device, bytes);
        mare_source *source = make_source(runtime, reading[i], &device, ROOM);
        for (int taken = 0; taken < EVENTS - ROOM - 1; taken++) {
            await(&device.calls, taken + ROOM + 1);
            assert_int_equal(atomic_load(&device.calls), taken + ROOM + 1);
            assert_int_equal(next_event(runtime, source), 'x');
        }
        mare_source_unref(source);
        await(&device.destroyed, 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

static void more_than_is_read_at_once_is_read(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct device device;
    mare_source *source = open_source(runtime, &watched, &device, 4096);
    char bytes[1001];
    memset(bytes, 'x', 1000);
    bytes[1000] = '\0';
    device_write(&device, bytes);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(next_event(runtime, source), 'x');
    mare_source_unref(source);
    await(&device.destroyed, 1);
    device_close(&device);
    mare_stop(runtime);
}

// ---- Polling ------------------------------------------------------------------------------------

static mare_err poll_never(void *self, uint64_t timeout_ns, mare_message *event)
{
    struct device *device = self;
    (void)event;
    if (timeout_ns > device->longest)
        device->longest = timeout_ns;
    atomic_fetch_add(&device->calls, 1);
    return MARE_EMPTY; // at once
}

static void polled_sources_share_their_time_and_do_not_spin(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    static const mare_source_kind never = {
        .name = "never", .poll = poll_never, .destroy = device_destroy};
    mare_runtime *runtime = run_start(1);
    struct device devices[COUNT], busy;
    mare_source *sources[COUNT], *source;
    uint64_t began = mare_now_ns(runtime);
    for (int i = 0; i < COUNT; i++)
        sources[i] = open_source(runtime, &never, &devices[i], 0);
    await(&devices[COUNT - 1].calls, 3);
    int polls = atomic_load(&devices[0].calls);
    uint64_t took = mare_now_ns(runtime) - began;
    // A round when a source joins, and one every 10 milliseconds: else it spins.
    assert_true((uint64_t)polls <= took / 10000000 + COUNT + 1);
    source = open_source(runtime, &polled, &busy, 1);
    device_write(&busy, "abc");
    for (const char *at = "abc"; *at; at++)
        assert_int_equal(next_event(runtime, source), *at);
    assert_true(busy.longest <= 10000000 / (COUNT + 1) + 1);
    for (int i = 0; i < COUNT; i++) {
        assert_true(mare_source_close(sources[i]));
        assert_int_equal(atomic_load(&devices[i].destroyed), 0); // somebody has it
        mare_source_unref(sources[i]);
        await(&devices[i].destroyed, 1);
        device_close(&devices[i]);
    }
    mare_source_unref(source);
    await(&busy.destroyed, 1);
    device_close(&busy);
    mare_stop(runtime);
}

// ---- Ends ---------------------------------------------------------------------------------------

static void *take_until_the_end(void *argument)
{
    mare_source *source = argument;
    mare_message *event;
    while (mare_source_next_until(source, &event, MARE_FOREVER) == MARE_OK)
        mare_message_destroy(event);
    return NULL;
}

// Idle; with a full line; while events come and somebody takes them.
static void each_kind_can_be_closed_in_each_state(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    int before = descriptors();
    for (int round = 0; round < 60; round++)
        for (int i = 0; i < READING; i++) {
            struct device device;
            pthread_t taker;
            mare_source *source = open_source(runtime, reading[i], &device, 1);
            assert_int_equal(
                pthread_create(&taker, NULL, take_until_the_end, mare_source_ref(source)), 0);
            if (round % 3 > 0)
                device_write(&device, round % 3 == 1 ? "abcdefgh" : "a");
            assert_true(mare_source_close(source));
            assert_false(mare_source_close(source));
            pthread_join(taker, NULL);
            assert_int_equal(mare_source_outcome(source), MARE_CLOSED);
            assert_int_equal(atomic_load(&device.stopped), 1);
            mare_source_unref(source);
            mare_source_unref(source);
            await(&device.destroyed, 1);
            device_close(&device);
        }
    mare_stop(runtime);
    assert_true(descriptors() <= before);
}

// Nobody ever takes: the line is full when it is closed.
static void a_full_line_does_not_keep_a_source(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int i = 0; i < READING; i++) {
        struct device device;
        device_open(&device);
        device_write(&device, "abc");
        mare_source *source = make_source(runtime, reading[i], &device, 1);
        await(&device.calls, 2);
        mare_source_unref(source);
        await(&device.destroyed, 1);
        assert_int_equal(atomic_load(&device.stopped), 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

// A runtime that stops ends what Lua processes still have, and a thread that blocks.
static void a_runtime_that_stops_ends_them(void **state)
{
    (void)state;
    for (int i = 0; i < READING; i++) {
        mare_runtime *runtime = run_start(2);
        struct device device;
        mare_source *source = open_source(runtime, reading[i], &device, 1);
        mare_message *arguments = run_message();
        assert_int_equal(mare_message_add_source(arguments, source), MARE_OK);
        mare_process *process = run_spawn(runtime, "(...):next()", arguments);
        mare_message_destroy(arguments);
        mare_source_unref(source); // it is the process's alone
        mare_process_unref(process);
        mare_stop(runtime);
        assert_int_equal(atomic_load(&device.destroyed), 1);
        device_close(&device);
    }
}

// A process that is killed while it waits gives back its reference: the source ends.
static void a_killed_process_leaves_no_source(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    int before = -1;
    for (int round = 0; round < 2; round++) { // the first one makes loops and threads
        for (int i = 0; i < READING; i++) {
            struct device device;
            mare_source *source = open_source(runtime, reading[i], &device, 1);
            mare_message *arguments = run_message();
            assert_int_equal(mare_message_add_source(arguments, source), MARE_OK);
            mare_process *process = run_spawn(runtime, "(...):next()", arguments);
            mare_message_destroy(arguments);
            mare_source_unref(source);
            while (strcmp(mare__process_status(process), "blocked") != 0)
                usleep(100);
            assert_true(mare_process_kill(process));
            assert_int_equal(run_join(runtime, process, NULL), MARE_KILLED);
            await(&device.destroyed, 1);
            device_close(&device);
        }
        if (round == 0)
            before = descriptors();
    }
    assert_int_equal(descriptors(), before);
    mare_stop(runtime);
}

// ---- In Lua -------------------------------------------------------------------------------------

static void lua_takes_events_one_by_one_and_in_selects(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    static const char code[] =
        "local mare, source = require 'mare', ...\n"
        "assert(tostring(source) == 'source ' .. (select(2, ...)))\n"
        "assert(source:next() == 97)\n"
        "local other = mare.channel()\n"
        "local case, event = mare.select({other, source}, 20)\n"
        "assert(case == 2 and event == 98)\n"
        "local nothing, message, code = source:next(0.001)\n"
        "assert(nothing == nil and code == 'timeout', code)\n"
        "assert(not pcall(source.next, 42))\n"
        "assert(source:close() == true and source:close() == false)\n"
        "nothing, message, code = source:next()\n"
        "assert(nothing == nil and code == 'closed' and message:find 'has ended')\n"
        "case, nothing, message, code = mare.select {source}\n"
        "assert(case == 1 and code == 'closed')\n"
        "assert(tostring(source):find 'ended')\n"
        "return true\n";
    for (int i = 0; i < READING; i++) {
        struct device device;
        mare_source *source = open_source(runtime, reading[i], &device, 1);
        mare_message *arguments = run_message();
        device_write(&device, "ab");
        assert_int_equal(mare_message_add_source(arguments, source), MARE_OK);
        assert_int_equal(mare_message_add_string(arguments, reading[i]->name), MARE_OK);
        mare_source_unref(source);
        run_true(runtime, code, arguments);
        mare_message_destroy(arguments);
        await(&device.destroyed, 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

static void lua_registers_them_and_learns_of_failures(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    static const char code[] = "local scheduler, source = require 'mare.scheduler', ...\n"
                               "local got = {}\n"
                               "scheduler.register_source(source, function(byte)\n"
                               "    got[#got + 1] = string.char(byte)\n"
                               "end)\n"
                               "scheduler.loop()\n"
                               "assert(table.concat(got) == 'abcdef', table.concat(got))\n"
                               "local _, message, code = source:next()\n"
                               "assert(code == 'io', code)\n"
                               "return true\n";
    for (int i = 0; i < READING; i++) {
        struct device device;
        device_open(&device);
        device.fails = MARE_IO;
        device_write(&device, "abcdef");
        device_hang_up(&device);
        mare_source *source = make_source(runtime, reading[i], &device, 2);
        mare_message *arguments = run_message();
        assert_int_equal(mare_message_add_source(arguments, source), MARE_OK);
        run_true(runtime, code, arguments);
        mare_message_destroy(arguments);
        mare_source_unref(source);
        await(&device.destroyed, 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

// Whoever waits for a source is not stuck, as long as it may have an event; then he is.
static void a_source_is_hope(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    static const mare_source_kind *const kinds[] = {&watched, &polled, &threaded, &told};
    for (int i = 0; i < 4; i++) {
        struct device device;
        mare_source *source = open_source(runtime, kinds[i], &device, 1);
        mare_message *arguments = run_message();
        assert_int_equal(mare_message_add_source(arguments, source), MARE_OK);
        mare_process *process = run_spawn(runtime,
                                          "local mare = require 'mare';\n"
                                          "(...):next()\n"
                                          "mare.channel():receive()",
                                          arguments);
        mare_message_destroy(arguments);
        assert_int_equal(mare__runtime_await(runtime, true, mare_now_ns(runtime) + 20000000),
                         MARE_TIMEOUT);
        mare_source_close(source);
        assert_int_equal(mare__runtime_await(runtime, true, run_soon(runtime)), MARE_DEADLOCK);
        assert_true(mare_process_kill(process));
        assert_int_equal(run_join(runtime, process, NULL), MARE_KILLED);
        mare_source_unref(source);
        await(&device.destroyed, 1);
        device_close(&device);
    }
    mare_stop(runtime);
}

// ---- Failures -----------------------------------------------------------------------------------

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct device device;
    mare_source *source;
    mare_source_kind two = watched, nameless = told;
    device_open(&device);
    two.poll = device_poll;
    nameless.name = NULL;
    int fd = device.ends[0];
    assert_int_equal(mare_source_create(runtime, &two, &device, fd, 0, &source), MARE_INVALID);
    assert_int_equal(mare_source_create(runtime, &nameless, &device, -1, 0, &source), MARE_INVALID);
    assert_int_equal(mare_source_create(runtime, &watched, &device, -1, 0, &source), MARE_INVALID);
    assert_int_equal(mare_source_create(runtime, &polled, &device, fd, 0, &source), MARE_INVALID);
    assert_int_equal(mare_source_create(runtime, &watched, &device, 12345, 0, &source), MARE_IO);
    assert_null(source);
    mare_stop(runtime);
    assert_int_equal(atomic_load(&device.destroyed), 0); // it was never theirs
    device_close(&device);
}

static void without_memory_there_is_none_and_nothing_is_lost(void **state)
{
    (void)state;
    for (int i = 0; i < READING; i++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            mare_runtime *runtime = run_start(1);
            struct device device;
            mare_source *source;
            device_open(&device);
            int before = descriptors();
            mare__alloc_fail_after(n);
            mare_err err =
                mare_source_create(runtime, reading[i], &device,
                                   reading[i] == &watched ? device.ends[0] : -1, 0, &source);
            mare__alloc_fail_after(0);
            assert_true(err == MARE_OK || err == MARE_NOMEM);
            done = err == MARE_OK;
            if (done)
                mare_source_unref(source);
            mare_stop(runtime);
            assert_int_equal(atomic_load(&device.destroyed), done);
            assert_true(descriptors() <= before);
            device_close(&device);
        }
    }
}

UNIT_TESTS(cmocka_unit_test(events_come_in_order_from_each_kind),
           cmocka_unit_test(the_end_is_told_after_the_last_event),
           cmocka_unit_test(who_waits_for_an_event_has_a_deadline),
           cmocka_unit_test(events_can_be_told_by_any_thread),
           cmocka_unit_test(a_source_whose_line_is_full_is_not_asked),
           cmocka_unit_test(more_than_is_read_at_once_is_read),
           cmocka_unit_test(polled_sources_share_their_time_and_do_not_spin),
           cmocka_unit_test(each_kind_can_be_closed_in_each_state),
           cmocka_unit_test(a_full_line_does_not_keep_a_source),
           cmocka_unit_test(a_runtime_that_stops_ends_them),
           cmocka_unit_test(a_killed_process_leaves_no_source),
           cmocka_unit_test(lua_takes_events_one_by_one_and_in_selects),
           cmocka_unit_test(lua_registers_them_and_learns_of_failures),
           cmocka_unit_test(a_source_is_hope), cmocka_unit_test(what_makes_no_sense_is_refused),
           cmocka_unit_test(without_memory_there_is_none_and_nothing_is_lost))
