// SPDX-License-Identifier: MIT
// Links and monitors from several threads at once, and when memory is short.
#include "sched/ties.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "base/alloc.h"
#include "runtime.h"
#include "sched/process.h"

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

static mare_process *parked(mare_runtime *runtime)
{
    return run_spawn(runtime, "require 'mare'.channel():receive()", NULL);
}

static bool is_tied(mare_process *a, mare_process *b)
{
    mare__lock_acquire(&a->lock);
    bool tied = mare__index_find(&a->ties, b->id) != NULL;
    mare__lock_release(&a->lock);
    return tied;
}

// Waits until every process has ended and told whom it had to; without memory.
static void await_all(mare_runtime *runtime)
{
    while (atomic_load(&runtime->live) > 0)
        sched_yield();
}

// Nobody refers to it but the test, and it is tied to nobody. Its end gives its own reference back
// last of all.
static void release(mare_process *process)
{
    assert_null(mare__index_any(&process->ties));
    while (atomic_load(&process->object.references) > 1)
        sched_yield();
    mare_process_unref(process);
}

// ---- Two threads --------------------------------------------------------------------------------

struct pair {
    mare_process *a, *b;
    pthread_barrier_t *begin;
    void (*act)(mare_process *a, mare_process *b);
};

static void *act(void *argument)
{
    struct pair *pair = argument;
    pthread_barrier_wait(pair->begin);
    pair->act(pair->a, pair->b);
    return NULL;
}

// The same done to (a, b) by one thread and to (b, a) by another, at once.
static void both_ways(mare_process *a, mare_process *b,
                      void (*what)(mare_process *, mare_process *))
{
    pthread_barrier_t begin;
    pthread_t thread;
    pthread_barrier_init(&begin, NULL, 2);
    struct pair there = {a, b, &begin, what}, back = {b, a, &begin, what};
    assert_int_equal(pthread_create(&thread, NULL, act, &back), 0);
    act(&there);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&begin);
}

static void tie(mare_process *a, mare_process *b)
{
    mare__process_tie(a, b);
}

static void two_links_at_once_in_opposite_directions_are_one(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_process *a = parked(runtime), *b = parked(runtime);
    for (int round = 0; round < 200; round++) {
        both_ways(a, b, tie);
        assert_true(is_tied(a, b) && is_tied(b, a));
        mare__process_untie(a, b);
        assert_false(is_tied(a, b) || is_tied(b, a));
        mare__process_tie(a, b);
        both_ways(a, b, mare__process_untie);
        assert_false(is_tied(a, b) || is_tied(b, a));
    }
    mare_process_kill(a);
    while (mare_process_alive(a))
        sched_yield();
    assert_true(mare_process_alive(b)); // which is not linked any more
    mare_process_kill(b);
    await_all(runtime);
    release(a);
    release(b);
    mare_stop(runtime);
}

static void kill_one(mare_process *a, mare_process *b)
{
    (void)b;
    mare_process_kill(a);
}

static void two_that_are_linked_can_end_at_once(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int round = 0; round < 100; round++) {
        mare_process *a = parked(runtime), *b = parked(runtime);
        mare__process_tie(a, b);
        both_ways(a, b, kill_one);
        await_all(runtime);
        release(a);
        release(b);
    }
    mare_stop(runtime);
}

static void tie_and_end(mare_process *a, mare_process *b)
{
    mare__process_tie(a, b);
    mare_process_kill(a);
}

// Whichever comes first: both are dead in the end, and nothing is left of the link.
static void a_link_can_be_made_while_its_ends_end(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int round = 0; round < 100; round++) {
        mare_process *a = parked(runtime), *b = parked(runtime);
        both_ways(a, b, tie_and_end);
        await_all(runtime);
        release(a);
        release(b);
    }
    mare_stop(runtime);
}

// ---- Everything at random -----------------------------------------------------------------------

enum { PROCESSES = 12, THREADS = 4, STEPS = 3000 };

struct crowd {
    mare_process *processes[PROCESSES];
    uint64_t seed;
};

static void *mingle(void *argument)
{
    struct crowd *crowd = argument;
    uint64_t random = crowd->seed;
    for (int i = 0; i < STEPS; i++) {
        mare_process *a = crowd->processes[unit_random(&random) % PROCESSES],
                     *b = crowd->processes[unit_random(&random) % PROCESSES];
        uint64_t what = unit_random(&random) % (2 * STEPS);
        if (what == 0) // in half of the runs of a thread
            mare_process_kill(a);
        else if (what % 2)
            mare__process_tie(a, b);
        else
            mare__process_untie(a, b);
    }
    return NULL;
}

static void links_are_whole_whatever_threads_do(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    mare_runtime *runtime = run_start(2);
    for (int round = 0; round < 10; round++) {
        struct crowd crowds[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < PROCESSES; i++)
            crowds[0].processes[i] = parked(runtime);
        for (int i = 0; i < THREADS; i++) {
            crowds[i] = crowds[0];
            crowds[i].seed = unit_random(&seed);
            assert_int_equal(pthread_create(&threads[i], NULL, mingle, &crowds[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < PROCESSES * PROCESSES; i++) {
            mare_process *a = crowds[0].processes[i / PROCESSES],
                         *b = crowds[0].processes[i % PROCESSES];
            // One that ends may just be undoing it: then neither has it in a moment.
            while (is_tied(a, b) != is_tied(b, a))
                sched_yield();
        }
        for (int i = 0; i < PROCESSES; i++)
            mare_process_kill(crowds[0].processes[i]);
        await_all(runtime);
        for (int i = 0; i < PROCESSES; i++)
            release(crowds[0].processes[i]);
    }
    mare_stop(runtime);
}

// ---- Monitors without memory --------------------------------------------------------------------

// The notice in the channel: that process, that word.
static void check_notice(mare_channel *channel, mare_process *process, const char *how)
{
    mare_message *message = NULL;
    mare_value value;
    assert_int_equal(mare_chan_try_receive(channel, &message), MARE_OK);
    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    assert_int_equal(value.type, MARE_PROCESS);
    assert_ptr_equal(value.as.process, process);
    assert_int_equal(mare_message_get(message, 1, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(value.as.string.length, strlen(how));
    assert_memory_equal(value.as.string.bytes, how, strlen(how));
    mare_message_destroy(message);
}

// From the n-th allocation on there is no memory, while a process gets monitors, and fails or is
// killed: each monitor that could be made is told.
static bool monitors_with(mare_runtime *runtime, size_t capacity, long n, bool killed)
{
    enum { MONITORS = 20 }; // more than a ring has room for at first
    mare_channel *told = run_channel(runtime, capacity);
    mare_process *process = run_spawn(runtime, "require 'mare'.sleep(1000)", NULL);
    int made = 0;
    while (atomic_load(&process->status) != MARE__BLOCKED)
        sched_yield(); // to begin it needs memory
    mare__alloc_fail_after(n);
    for (int i = 0; i < MONITORS; i++)
        made += mare__process_monitor(process, told);
    if (made == 0)
        mare__process_observed(process); // or its error would be printed
    if (killed)
        mare_process_kill(process);
    else
        mare__process_interrupt(process);
    await_all(runtime);
    bool failed = mare__alloc_has_failed();
    mare__alloc_fail_after(0);
    for (int i = 0; i < made; i++)
        check_notice(told, process, killed ? "killed" : "died");
    mare_message *none;
    assert_int_equal(mare_chan_try_receive(told, &none), MARE_EMPTY);
    mare_chan_unref(told);
    release(process);
    return failed;
}

static void a_notice_is_never_lost_for_want_of_memory(void **state)
{
    (void)state;
    static const size_t capacities[] = {0, 1, 1000};
    mare_runtime *runtime = run_start(2);
    for (size_t c = 0; c < sizeof capacities / sizeof *capacities; c++)
        for (int killed = 0; killed < 2; killed++) {
            int through = 0;
            long n = 1;
            for (; through < 3; n++)
                through = monitors_with(runtime, capacities[c], n, killed) ? 0 : through + 1;
            assert_true(n > 20);
        }
    mare_stop(runtime);
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(two_links_at_once_in_opposite_directions_are_one),
           CASE(two_that_are_linked_can_end_at_once), CASE(a_link_can_be_made_while_its_ends_end),
           CASE(links_are_whole_whatever_threads_do),
           CASE(a_notice_is_never_lost_for_want_of_memory))
