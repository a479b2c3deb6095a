// SPDX-License-Identifier: MIT
// The observer: that what is watched is told, whoever watches it and whatever its worker does
// meanwhile; and that what is closed is closed once.
#include "loop/observer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

// A descriptor that is watched: an eventfd, unless it is given one.
struct thing {
    struct mare__observed observed;
    atomic_int closed;
};

static void on_closed(struct mare__observed *observed)
{
    atomic_fetch_add(&MARE__ENTRY(observed, struct thing, observed)->closed, 1);
}

static void thing_init(struct thing *thing, int fd)
{
    memset(thing, 0, sizeof *thing);
    assert_true(fd >= 0);
    mare__observed_init(&thing->observed, fd, on_closed);
}

static void thing_open(struct thing *thing)
{
    thing_init(thing, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

static void excite(struct thing *thing)
{
    assert_int_equal(eventfd_write(thing->observed.fd, 1), 0);
}

static void calm(struct thing *thing)
{
    eventfd_t value;
    assert_int_equal(eventfd_read(thing->observed.fd, &value), 0);
}

static mare_channel *watch(mare_runtime *runtime, struct thing *thing, int way)
{
    mare_channel *ready = mare__observed_await(runtime, &thing->observed, way);
    assert_non_null(ready);
    return ready;
}

// Waits until it is told.
static void await(mare_runtime *runtime, struct thing *thing, int way)
{
    mare_message *message = NULL;
    assert_int_equal(
        mare_chan_receive_until(watch(runtime, thing, way), &message, run_soon(runtime)), MARE_OK);
    mare_message_destroy(message);
}

// Closes it, waits for that, and forgets its channels.
static void thing_close(struct thing *thing)
{
    mare__observed_close(&thing->observed);
    for (int i = 0; atomic_load(&thing->closed) == 0; i++) {
        if (i > 30000 * (int)unit_slow())
            fail_msg("it is not closed");
        usleep(1000);
    }
    for (int way = 0; way < MARE__WAYS; way++)
        if (thing->observed.ready[way])
            mare_chan_unref(thing->observed.ready[way]);
    assert_int_equal(atomic_load(&thing->closed), 1);
}

// ---- Telling ------------------------------------------------------------------------------------

static void what_is_watched_is_told(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct thing thing;
    mare_message *message;
    thing_open(&thing);
    mare_channel *ready = watch(runtime, &thing, MARE__TO_READ);
    assert_int_equal(mare_chan_receive_until(ready, &message, 0), MARE_TIMEOUT);
    for (int i = 0; i < 100; i++) {
        excite(&thing);
        await(runtime, &thing, MARE__TO_READ);
        calm(&thing);
        await(runtime, &thing, MARE__TO_WRITE); // which it always is
    }
    thing_close(&thing);
    mare_stop(runtime);
}

// Waits in C, as sources do: when it is told it asks to be told again, there and then.
struct asker {
    struct mare__wait wait;
    struct mare__spot spot;
    mare_runtime *runtime;
    struct thing *thing;
    int way, left;
    atomic_bool done;
};

static void ask(struct asker *asker)
{
    mare_err err = MARE_OK;
    while (err == MARE_OK && asker->left > 0) {
        mare_channel *ready =
            mare__observed_await(asker->runtime, &asker->thing->observed, asker->way);
        asker->left--;
        mare__wait_begin(&asker->wait);
        err = mare__chan_receive(ready, &asker->wait.message, &asker->spot);
    }
    if (err == MARE_OK)
        atomic_store(&asker->done, true);
}

static void on_told(struct mare__wait *wait)
{
    ask(MARE__ENTRY(wait, struct asker, wait));
}

// To ask again when one was told must have an effect, though the observer has not come back from
// telling: the mark that it is watched is gone before.
static void who_is_told_can_ask_again_at_once(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    for (int way = 0; way < MARE__WAYS; way++) {
        struct thing thing;
        struct asker asker = {.wait.wake = on_told, .runtime = runtime, .way = way, .left = 50};
        thing_open(&thing);
        excite(&thing); // it can be read for good, and written to
        asker.thing = &thing;
        asker.spot.wait = &asker.wait;
        mare__list_init(&asker.spot.entry);
        ask(&asker);
        for (int i = 0; !atomic_load(&asker.done); i++) {
            if (i > 30000 * (int)unit_slow())
                fail_msg("way %d: nobody tells any more", way);
            usleep(1000);
        }
        thing_close(&thing);
    }
    mare_stop(runtime);
}

static double cpu_seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

// A pipe that can be read for ever, one that can be written to, and one that nobody reads from:
// told to whoever asks, and again to who asks again; then nobody spins, though that lasts.
static void what_lasts_is_told_to_who_asks_and_costs_nothing(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct thing reader, writer, broken;
    int ends[2], torn[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    assert_int_equal(pipe2(torn, O_NONBLOCK | O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    close(torn[0]);
    thing_init(&reader, ends[0]);
    thing_init(&writer, ends[1]);
    thing_init(&broken, torn[1]);
    for (int i = 0; i < 20; i++) {
        await(runtime, &reader, MARE__TO_READ);
        await(runtime, &writer, MARE__TO_WRITE);
        await(runtime, &broken, MARE__TO_READ); // whoever waits for anything shall see it
    }
    for (int i = 0; i < 20; i++)
        await(runtime, &broken, MARE__TO_WRITE);
    watch(runtime, &reader, MARE__TO_READ);
    watch(runtime, &writer, MARE__TO_WRITE);
    watch(runtime, &broken, MARE__TO_READ);
    usleep(100000); // for what there is to be told
    double began = cpu_seconds();
    usleep(500000);
    assert_true(cpu_seconds() - began < 0.05);
    thing_close(&reader);
    thing_close(&writer);
    thing_close(&broken);
    mare_stop(runtime);
}

static void a_file_is_always_ready(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct thing thing;
    FILE *file = tmpfile();
    assert_non_null(file);
    thing_init(&thing, dup(fileno(file)));
    for (int i = 0; i < 3; i++) {
        await(runtime, &thing, MARE__TO_READ);
        await(runtime, &thing, MARE__TO_WRITE);
    }
    thing_close(&thing);
    fclose(file);
    mare_stop(runtime);
}

// ---- Closing ------------------------------------------------------------------------------------

static void *wait_until_closed(void *argument)
{
    mare_channel *ready = argument;
    mare_message *message = NULL;
    mare_err err;
    while ((err = mare_chan_receive(ready, &message)) == MARE_OK)
        mare_message_destroy(message);
    return (void *)(intptr_t)err;
}

// The worker waits in its loop meanwhile, so the close is a command for it.
static void who_waits_learns_that_another_thread_has_closed_it(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    for (int i = 0; i < 100; i++) {
        struct thing thing;
        pthread_t thread;
        void *err;
        thing_open(&thing);
        mare_channel *ready = mare_chan_ref(watch(runtime, &thing, MARE__TO_READ));
        if (i % 2)
            excite(&thing);
        assert_int_equal(pthread_create(&thread, NULL, wait_until_closed, ready), 0);
        thing_close(&thing);
        mare__observed_close(&thing.observed); // once is enough
        pthread_join(thread, &err);
        assert_int_equal((intptr_t)err, MARE_CLOSED);
        assert_int_equal(atomic_load(&thing.closed), 1);
        mare_chan_unref(ready);
    }
    mare_stop(runtime);
}

static void one_that_was_never_watched_is_closed_at_once(void **state)
{
    (void)state;
    struct thing thing;
    thing_open(&thing);
    int fd = thing.observed.fd;
    mare__observed_close(&thing.observed);
    assert_int_equal(atomic_load(&thing.closed), 1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void what_is_watched_when_the_runtime_stops_is_closed(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct thing thing;
    thing_open(&thing);
    watch(runtime, &thing, MARE__TO_READ);
    mare__observed_close(&thing.observed); // perhaps still a command
    mare_channel *ready = thing.observed.ready[MARE__TO_READ];
    mare_chan_unref(ready);
    mare_stop(runtime);
    assert_int_equal(atomic_load(&thing.closed), 1);
}

// ---- Many, from many threads --------------------------------------------------------------------

enum { THREADS = 3, ROUNDS = 150 };

static void *come_and_go(void *argument)
{
    mare_runtime *runtime = argument;
    for (int i = 0; i < ROUNDS; i++) {
        struct thing thing;
        thing_open(&thing);
        excite(&thing);
        await(runtime, &thing, i % 2 ? MARE__TO_READ : MARE__TO_WRITE);
        thing_close(&thing);
    }
    return NULL;
}

// All of them are of one worker's observer, in which it waits, and is called out of.
static void threads_watch_and_close_beside_each_other(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, runtime), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mare_stop(runtime);
}

static void thousands_are_watched(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit more = limit;
    more.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    if (more.rlim_cur < COUNT + 100)
        skip();
    mare_runtime *runtime = run_start(2);
    struct thing *things = calloc(COUNT, sizeof *things);
    assert_non_null(things);
    for (int i = 0; i < COUNT; i++) {
        thing_open(&things[i]);
        watch(runtime, &things[i], MARE__TO_READ);
    }
    for (int i = 0; i < COUNT; i++)
        excite(&things[i]);
    for (int i = COUNT - 1; i >= 0; i--)
        await(runtime, &things[i], MARE__TO_READ);
    for (int i = 0; i < COUNT; i++)
        mare__observed_close(&things[i].observed);
    for (int i = 0; i < COUNT; i++)
        thing_close(&things[i]);
    free(things);
    mare_stop(runtime);
    setrlimit(RLIMIT_NOFILE, &limit);
}

// ---- Which worker ------------------------------------------------------------------------------

// Watches it as if this thread were the worker.
static struct mare__observer *observer_of(struct mare__worker *worker, struct thing *thing)
{
    thing_open(thing);
    mare__thread_data = worker;
    watch(worker->runtime, thing, MARE__TO_READ);
    mare__thread_data = NULL;
    return thing->observed.observer;
}

static void what_a_process_gathers_is_watched_by_one_worker(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct thing things[3];
    thing_open(&things[0]);
    watch(runtime, &things[0], MARE__TO_READ); // this thread is no worker: the first one does
    struct mare__observer *first = things[0].observed.observer;
    assert_ptr_not_equal(observer_of(runtime->workers[1], &things[1]), first);
    struct mare__worker *another = calloc(1, sizeof *another);
    struct mare__local *process = calloc(1, sizeof *process);
    assert_non_null(another);
    assert_non_null(process);
    process->gathers = true;
    another->runtime = runtime;
    another->running = process;
    assert_ptr_equal(observer_of(another, &things[2]), first);
    free(process);
    free(another);
    for (int i = 0; i < 3; i++)
        thing_close(&things[i]);
    mare_stop(runtime);
}

// ---- Without descriptors ------------------------------------------------------------------------

static void without_descriptors_there_is_no_loop_and_later_there_is(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct rlimit limit, none;
    struct thing thing;
    thing_open(&thing);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)thing.observed.fd + 2; // fewer than a loop needs
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    mare_channel *ready = mare__observed_await(runtime, &thing.observed, MARE__TO_READ);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_null(ready);
    excite(&thing);
    await(runtime, &thing, MARE__TO_READ);
    thing_close(&thing);
    mare_stop(runtime);
}

// ---- A worker that does not look ----------------------------------------------------------------

// It opens a FIFO, and so stays in the system's call until somebody opens the other end.
static void a_worker_stuck_in_c_is_attended_to(void **state)
{
    (void)state;
    if (__tsan_init) // which holds the tick back until the call returns
        skip();
    char path[] = "/tmp/mare-test-XXXXXX", code[200];
    assert_non_null(mkdtemp(path));
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(code, sizeof code, "local begun = ...; begun:send(1); io.open('%s'):close()", fifo);
    mare_runtime *runtime = run_start(1);
    mare_channel *begun = run_channel(runtime, 1);
    mare_message *arguments = run_message();
    run_add_channel(arguments, begun);
    mare_process *process = run_spawn(runtime, code, arguments);
    run_receive_integer(runtime, begun);
    struct thing things[3];
    for (int i = 0; i < 3; i++) {
        thing_open(&things[i]);
        watch(runtime, &things[i], MARE__TO_READ);
        excite(&things[i]);
        await(runtime, &things[i], MARE__TO_READ);
    }
    assert_true(mare_process_alive(process)); // still there
    thing_close(&things[0]);
    int fd = open(fifo, O_WRONLY | O_CLOEXEC);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    calm(&things[1]);
    excite(&things[1]);
    await(runtime, &things[1], MARE__TO_READ); // it is back, and looks itself
    thing_close(&things[1]);
    thing_close(&things[2]);
    close(fd);
    unlink(fifo);
    rmdir(path);
    mare_message_destroy(arguments);
    mare_chan_unref(begun);
    mare_stop(runtime);
}

// A worker whose process is always ready looks with every tick, not only after many turns: each
// turn here lasts for longer than one. (A write that finds room does not wait, nor look.)
static void a_busy_worker_looks_with_every_tick(void **state)
{
    (void)state;
    static const char code[] =
        "local mare, net = require 'mare', require 'mare.net'\n"
        "local listener <close> = assert(net.listen('127.0.0.1', 0))\n"
        "local here <close> = assert(net.connect(listener:address()))\n"
        "local there <close> = assert(listener:accept())\n"
        "local heard = 0\n"
        "mare.go(function()\n"
        "    while there:read() do heard = heard + 1 end\n"
        "end)\n"
        "mare.yield()\n"
        "local function burn()\n"
        "    local till = os.clock() + 0.006\n"
        "    while os.clock() < till do local _ = {} end\n"
        "end\n"
        "local turns = 0\n"
        "for i = 1, 8 do\n"
        "    here:write 'x'\n"
        "    while heard < i do\n"
        "        burn() mare.yield()\n"
        "        turns = turns + 1\n"
        "    end\n"
        "end\n"
        "here:shutdown()\n"
        "assert(turns <= 60, turns)\n" // of 256, if only every 32nd turn were one to look
        "return true\n";
    mare_runtime *runtime = run_start(1);
    run_true(runtime, code, NULL);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(what_is_watched_is_told),
           cmocka_unit_test(who_is_told_can_ask_again_at_once),
           cmocka_unit_test(what_lasts_is_told_to_who_asks_and_costs_nothing),
           cmocka_unit_test(a_file_is_always_ready),
           cmocka_unit_test(who_waits_learns_that_another_thread_has_closed_it),
           cmocka_unit_test(one_that_was_never_watched_is_closed_at_once),
           cmocka_unit_test(what_is_watched_when_the_runtime_stops_is_closed),
           cmocka_unit_test(threads_watch_and_close_beside_each_other),
           cmocka_unit_test(what_a_process_gathers_is_watched_by_one_worker),
           cmocka_unit_test(thousands_are_watched),
           cmocka_unit_test(without_descriptors_there_is_no_loop_and_later_there_is),
           cmocka_unit_test(a_worker_stuck_in_c_is_attended_to),
           cmocka_unit_test(a_busy_worker_looks_with_every_tick))
