// SPDX-License-Identifier: MIT
// The loop of a thread: how waits in it end, what it says of descriptors, and the parker of a
// thread that sleeps there instead of in mare__park.
#include "platform/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "platform/platform.h"
#include "platform/socket.h"
#include "unit.h"

#define MILLISECOND UINT64_C(1000000)

static uint64_t now(void)
{
    return mare__platform_live.now_ns(NULL);
}

static int setup(void **state)
{
    static struct mare__loop loop;
    *state = &loop;
    return mare__loops_live.init(NULL, &loop) ? 0 : -1;
}

static int teardown(void **state)
{
    mare__loops_live.fini(*state);
    return 0;
}

// ---- Waiting ------------------------------------------------------------------------------------

static void a_wait_ends_at_its_time_and_not_before(void **state)
{
    uint64_t began = now();
    mare__loops_live.wait(*state, 20 * MILLISECOND);
    assert_true(now() - began >= 19 * MILLISECOND); // libuv counts in milliseconds
}

// Its time has come before the loop looks at it.
static void a_wait_for_no_time_ends(void **state)
{
    for (int i = 0; i < 100; i++)
        mare__loops_live.wait(*state, 0);
    for (int i = 0; i < 100; i++)
        mare__loops_live.wait(*state, 1);
}

static void a_bell_that_was_rung_before_ends_a_wait(void **state)
{
    mare__loops_live.ring(*state);
    mare__loops_live.wait(*state, UINT64_MAX);
    mare__loops_live.look(*state); // which never waits
}

static void *ring_later(void *loop)
{
    usleep(10000);
    mare__loops_live.ring(loop);
    return NULL;
}

static void a_bell_that_is_rung_meanwhile_ends_a_wait(void **state)
{
    pthread_t thread;
    assert_int_equal(mare__thread_start(&thread, "test", ring_later, *state), 0);
    mare__loops_live.wait(*state, UINT64_MAX);
    pthread_join(thread, NULL);
}

// ---- A thread that sleeps here ------------------------------------------------------------------

static void ring(void *loop)
{
    mare__loops_live.ring(loop);
}

static void a_wake_that_came_before_keeps_the_thread(void **state)
{
    struct mare__parker parker = {.bell = ring, .bell_argument = *state};
    mare__unpark(&parker);
    assert_false(mare__park_elsewhere(&parker));
    assert_true(mare__park_elsewhere(&parker)); // it was used up
    mare__unpark(&parker);
    mare__loops_live.wait(*state, UINT64_MAX);
    mare__park_return(&parker);
    assert_true(mare__park_elsewhere(&parker)); // so was that one
    mare__park_return(&parker);
    mare__unpark(&parker);
    assert_true(mare__park(&parker, 0)); // either way of sleeping sees it
}

enum { ROUNDS = 20000 };

struct pair {
    struct mare__parker here, there; // one sleeps in the loop as often as not, the other never
    int turn;                        // guarded by whose turn it is
    atomic_int answers;
};

static void *play_there(void *argument)
{
    struct pair *pair = argument;
    for (int i = 0; i < ROUNDS; i++) {
        while (!mare__park(&pair->there, MARE_FOREVER))
            ;
        pair->turn++;
        atomic_fetch_add(&pair->answers, 1);
        mare__unpark(&pair->here);
    }
    return NULL;
}

// One wake for each turn: one that is lost is a hang. As with workers, what a wake is for is told
// apart from it, and it may come once too often.
static void wakes_are_not_lost(void **state)
{
    struct pair pair = {.here = {.bell = ring, .bell_argument = *state}};
    pthread_t thread;
    assert_int_equal(mare__thread_start(&thread, "test", play_there, &pair), 0);
    for (int i = 0; i < ROUNDS; i++) {
        pair.turn++;
        mare__unpark(&pair.there);
        while (atomic_load(&pair.answers) <= i) {
            if (i % 2) {
                mare__park(&pair.here, MARE_FOREVER);
            } else if (mare__park_elsewhere(&pair.here)) {
                mare__loops_live.wait(*state, UINT64_MAX);
                mare__park_return(&pair.here);
            }
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(pair.turn, 2 * ROUNDS);
}

// ---- Descriptors --------------------------------------------------------------------------------

struct watched {
    struct mare__poll poll;
    unsigned ways;
    int calls, closed;
};

static void on_ready(struct mare__poll *poll, unsigned ways)
{
    struct watched *watched = (struct watched *)poll;
    watched->ways = ways;
    watched->calls++;
}

static void on_closed(struct mare__poll *poll)
{
    ((struct watched *)poll)->closed++;
}

static void watch(struct mare__loop *loop, struct watched *watched, int fd)
{
    *watched = (struct watched){.poll = {.ready = on_ready, .closed = on_closed}};
    assert_true(mare__loops_live.open(loop, &watched->poll, fd));
}

static void unwatch(struct mare__loop *loop, struct watched *watched)
{
    mare__loops_live.close(&watched->poll);
    assert_int_equal(watched->closed, 0);
    mare__loops_live.look(loop);
    assert_int_equal(watched->closed, 1);
}

static void what_is_wanted_is_told_as_long_as_it_is_so(void **state)
{
    struct watched watched;
    int ends[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    watch(*state, &watched, ends[0]);
    mare__loops_live.look(*state);
    assert_int_equal(watched.calls, 0); // nothing is wanted yet
    mare__loops_live.want(&watched.poll, MARE__WRITABLE);
    mare__loops_live.look(*state);
    assert_int_equal(watched.ways, MARE__WRITABLE);
    mare__loops_live.want(&watched.poll, MARE__READABLE);
    watched.calls = 0;
    mare__loops_live.look(*state);
    assert_int_equal(watched.calls, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    for (int i = 1; i <= 3; i++) {
        mare__loops_live.wait(*state, UINT64_MAX);
        assert_int_equal(watched.ways, MARE__READABLE);
        assert_int_equal(watched.calls, i);
    }
    mare__loops_live.want(&watched.poll, MARE__READABLE | MARE__WRITABLE);
    mare__loops_live.look(*state);
    assert_int_equal(watched.ways, MARE__READABLE | MARE__WRITABLE);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    mare__loops_live.want(&watched.poll, 0);
    watched.calls = 0;
    assert_int_equal(write(ends[1], "x", 1), 1);
    mare__loops_live.look(*state);
    assert_int_equal(watched.calls, 0);
    unwatch(*state, &watched);
    close(ends[0]);
    close(ends[1]);
}

// Who waits for no more than this must learn of it: a worker that stays only to watch.
static void a_wait_ends_when_what_was_watched_is_closed(void **state)
{
    struct watched watched;
    int fd = eventfd(0, EFD_NONBLOCK);
    watch(*state, &watched, fd);
    mare__loops_live.want(&watched.poll, MARE__READABLE);
    mare__loops_live.look(*state);
    mare__loops_live.close(&watched.poll);
    mare__loops_live.wait(*state, UINT64_MAX);
    assert_int_equal(watched.closed, 1);
    close(fd);
}

// Two ends of a connection.
static void connect_pair(int ends[2])
{
    struct mare__address address;
    assert_true(mare__address_numeric(&address, "127.0.0.1", 0));
    int listener = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(mare__socket_bind(listener, &address), 0);
    assert_int_equal(mare__socket_listen(listener, 1), 0);
    assert_int_equal(mare__socket_address(listener, false, &address), 0);
    ends[0] = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(mare__socket_connect(ends[0], &address), -EINPROGRESS);
    while ((ends[1] = mare__socket_accept(listener)) == -EAGAIN)
        usleep(100);
    assert_true(ends[1] >= 0);
    mare__socket_close(listener);
}

// A reset is told once: libuv does not watch it any more, until that is wanted again.
static void what_is_broken_is_said_to_be(void **state)
{
    struct watched watched;
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    int ends[2];
    connect_pair(ends);
    watch(*state, &watched, ends[0]);
    mare__loops_live.want(&watched.poll, MARE__READABLE);
    setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    mare__socket_close(ends[1]);
    while (watched.calls == 0)
        mare__loops_live.wait(*state, UINT64_MAX);
    assert_int_equal(watched.ways, MARE__READABLE | MARE__WRITABLE | MARE__BROKEN);
    mare__loops_live.look(*state);
    assert_int_equal(watched.calls, 1);
    mare__loops_live.want(&watched.poll, MARE__READABLE);
    mare__loops_live.look(*state);
    assert_int_equal(watched.calls, 2);
    unwatch(*state, &watched);
    mare__socket_close(ends[0]);
}

static void a_file_cannot_be_watched(void **state)
{
    struct mare__poll poll = {.ready = on_ready, .closed = on_closed};
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_false(mare__loops_live.open(*state, &poll, fileno(file)));
    fclose(file);
}

// ---- Addresses ----------------------------------------------------------------------------------

static void addresses_become_text_and_back(void **state)
{
    (void)state;
    struct mare__address address;
    char host[MARE__HOST_MAX], path[200] = "/";
    const char *numbers[] = {"127.0.0.1", "255.255.255.255", "::1", "2001:db8::7", "::"};
    for (int i = 0; i < 5; i++) {
        assert_true(mare__address_numeric(&address, numbers[i], 65535));
        assert_int_equal(mare__address_text(&address, host), 65535);
        assert_string_equal(host, numbers[i]);
    }
    const char *others[] = {"", "localhost", "1.2.3", "1.2.3.4.5", "256.1.1.1", ":::", "1.2.3.4 "};
    for (int i = 0; i < 7; i++)
        assert_false(mare__address_numeric(&address, others[i], 1));
    memset(path + 1, 'x', 106); // 107 bytes and a zero: what the system has room for
    assert_true(mare__address_unix(&address, path));
    assert_int_equal(mare__address_text(&address, host), -1);
    assert_string_equal(host, path);
    path[107] = 'x';
    assert_false(mare__address_unix(&address, path));
}

// ---- The end ------------------------------------------------------------------------------------

static atomic_bool ended;

// Two threads that have nothing to do with each other: relaxed.
static void *open_others(void *unused)
{
    int others[8];
    while (!atomic_load_explicit(&ended, memory_order_relaxed))
        sched_yield();
    for (int i = 0; i < 8; i++)
        others[i] = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < 8; i++)
        close(others[i]);
    return unused;
}

// ThreadSanitizer must be able to see that it has closed them.
static void the_descriptors_of_one_that_has_ended_may_be_any_threads(void **state)
{
    struct mare__loop loop;
    pthread_t thread;
    (void)state;
    assert_int_equal(mare__thread_start(&thread, "test", open_others, NULL), 0);
    assert_true(mare__loops_live.init(NULL, &loop));
    mare__loops_live.fini(&loop);
    atomic_store_explicit(&ended, true, memory_order_relaxed);
    pthread_join(thread, NULL);
}

#define IN_LOOP(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

UNIT_TESTS(IN_LOOP(a_wait_ends_at_its_time_and_not_before), IN_LOOP(a_wait_for_no_time_ends),
           IN_LOOP(a_bell_that_was_rung_before_ends_a_wait),
           IN_LOOP(a_bell_that_is_rung_meanwhile_ends_a_wait),
           IN_LOOP(a_wake_that_came_before_keeps_the_thread), IN_LOOP(wakes_are_not_lost),
           IN_LOOP(what_is_wanted_is_told_as_long_as_it_is_so),
           IN_LOOP(a_wait_ends_when_what_was_watched_is_closed),
           IN_LOOP(what_is_broken_is_said_to_be), IN_LOOP(a_file_cannot_be_watched),
           cmocka_unit_test(addresses_become_text_and_back),
           cmocka_unit_test(the_descriptors_of_one_that_has_ended_may_be_any_threads))
