// SPDX-License-Identifier: MIT
// Clock, parker, tick and lock, with threads where they matter.
#include "platform/platform.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/lock.h"
#include "platform/wall.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

static uint64_t now(void)
{
    return mare__platform_live.now_ns(mare__platform_live.context);
}

static uint64_t generous(void)
{
    return now() + 60 * SECOND * unit_slow();
}

static void the_clock_does_not_go_back(void **state)
{
    (void)state;
    uint64_t last = now();
    assert_true(last > 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t next = now();
        assert_true(next >= last);
        last = next;
    }
    assert_true(mare__cpu_count() >= 1);
}

// ---- Parker -------------------------------------------------------------------------------------

static void a_wake_that_comes_first_is_kept(void **state)
{
    (void)state;
    struct mare__parker parker = {0};
    mare__unpark(&parker);
    mare__unpark(&parker); // two are one
    assert_true(mare__park(&parker, MARE_FOREVER));
    assert_false(mare__park(&parker, now()));
    assert_false(mare__park(&parker, 0));
}

static void a_deadline_ends_the_sleep(void **state)
{
    (void)state;
    struct mare__parker parker = {0};
    uint64_t deadline = now() + SECOND / 100;
    assert_false(mare__park(&parker, deadline));
    assert_true(now() >= deadline); // not before; how long after is the system's affair
    mare__unpark(&parker);
    assert_true(mare__park(&parker, 0)); // a wake counts even when it is late
}

enum { ROUNDS = 20000 };

struct pair {
    struct mare__parker parkers[2];
    int turn; // guarded by whose turn it is
    bool lost;
};

static void *play(struct pair *pair, int me)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (!mare__park(&pair->parkers[me], generous())) {
            pair->lost = true;
            break;
        }
        pair->turn++;
        mare__unpark(&pair->parkers[!me]);
    }
    return NULL;
}

static void *play_second(void *argument)
{
    return play(argument, 1);
}

// Two threads wake each other in turns: no wake is lost, and what one wrote before it the other
// sees.
static void wakes_are_not_lost(void **state)
{
    (void)state;
    struct pair pair = {0};
    pthread_t thread;
    assert_int_equal(mare__thread_start(&thread, "test", play_second, &pair), 0);
    mare__unpark(&pair.parkers[0]);
    play(&pair, 0);
    pthread_join(thread, NULL);
    assert_false(pair.lost);
    assert_int_equal(pair.turn, 2 * ROUNDS);
}

struct racer {
    struct mare__parker parker;
    atomic_int given, stop;
};

static void *wake_often(void *argument)
{
    struct racer *racer = argument;
    while (!atomic_load(&racer->stop)) {
        atomic_fetch_add(&racer->given, 1);
        mare__unpark(&racer->parker);
        usleep(1 + (unsigned)atomic_load(&racer->given) % 60);
    }
    return NULL;
}

// Deadlines that pass while a wake arrives: whatever the order, a sleep never returns true more
// often than it was woken.
static void a_deadline_and_a_wake_at_once(void **state)
{
    (void)state;
    struct racer racer = {0};
    pthread_t thread;
    int taken = 0;
    assert_int_equal(mare__thread_start(&thread, "test", wake_often, &racer), 0);
    uint64_t patience = generous(); // the other thread may be long in coming
    for (int i = 0; i < 3000 || (taken == 0 && now() < patience); i++)
        taken += mare__park(&racer.parker, now() + (uint64_t)(i % 100) * 1000);
    atomic_store(&racer.stop, 1);
    pthread_join(thread, NULL);
    taken += mare__park(&racer.parker, now());
    assert_true(taken <= atomic_load(&racer.given));
    assert_true(taken > 0);
    assert_false(mare__park(&racer.parker, now()));
}

// ---- Lock ---------------------------------------------------------------------------------------

enum { LOCKERS = 4, EACH = 50000 };

struct guarded {
    mare__lock lock;
    long counter; // plain on purpose: the lock guards it
};

static void *count_up(void *argument)
{
    struct guarded *guarded = argument;
    for (int i = 0; i < EACH; i++) {
        if (i % 3 == 0) {
            while (!mare__lock_try(&guarded->lock))
                mare__pause();
        } else {
            mare__lock_acquire(&guarded->lock);
        }
        guarded->counter++;
        mare__lock_release(&guarded->lock);
    }
    return NULL;
}

static void a_lock_has_one_holder(void **state)
{
    (void)state;
    struct guarded guarded = {0};
    pthread_t threads[LOCKERS];
    assert_true(mare__lock_try(&guarded.lock));
    assert_false(mare__lock_try(&guarded.lock));
    mare__lock_release(&guarded.lock);
    for (int i = 0; i < LOCKERS; i++)
        assert_int_equal(mare__thread_start(&threads[i], "test", count_up, &guarded), 0);
    for (int i = 0; i < LOCKERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(guarded.counter, LOCKERS * EACH);
}

static void asks_for_memory(void)
{
    mare__free(mare__alloc(1));
}

static void gives_memory_back(void)
{
    mare__free(NULL);
}

static void wakes(void)
{
    struct mare__parker parker = {0};
    mare__unpark(&parker);
}

static void sleeps(void)
{
    struct mare__parker parker = {0};
    mare__park(&parker, 0);
}

static void *nothing(void *argument)
{
    return argument;
}

static void starts_a_thread(void)
{
    pthread_t thread;
    if (mare__thread_start(&thread, "test", nothing, NULL) == 0)
        pthread_join(thread, NULL);
}

static void reaches_all_threads(void)
{
    mare__barrier_everywhere();
}

// The signal that a child of ours dies of which does something, or 0.
static int dies_of(void (*act)(void), bool holds_a_lock)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        mare__lock lock = {0};
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO); // it says why
        if (holds_a_lock)
            mare__lock_acquire(&lock);
        act();
        if (holds_a_lock)
            mare__lock_release(&lock);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void who_holds_a_spinlock_does_nothing_that_takes_long(void **state)
{
    (void)state;
    static void (*const acts[])(void) = {asks_for_memory, gives_memory_back, wakes,
                                         sleeps,          starts_a_thread,   reaches_all_threads};
    if (!MARE__COUNT_LOCKS)
        skip(); // only some builds look
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        assert_int_equal(dies_of(acts[i], true), SIGABRT);
        assert_int_equal(dies_of(acts[i], false), 0);
    }
}

static void wakes_for_a_signal(int number)
{
    (void)number;
    wakes();
}

static void is_interrupted(void)
{
    mare__signals_take(wakes_for_a_signal);
    raise(SIGINT);
}

// The tick's handler does the same: every test of preemption shows it.
static void a_signal_may_wake_a_thread_whatever_it_interrupts(void **state)
{
    (void)state;
    assert_int_equal(dies_of(is_interrupted, true), 0);
}

// ---- Tick ---------------------------------------------------------------------------------------

struct ticker {
    struct mare__tick tick;
    struct mare__parker ready, go_on;
    atomic_int ticks;
    atomic_bool elsewhere;
    pthread_t thread, self; // as its maker knows it, and as it knows itself
    bool kept_errno;
};

static const struct mare__platform *const live = &mare__platform_live;

static void on_tick(void *argument)
{
    struct ticker *ticker = argument;
    if (!pthread_equal(pthread_self(), ticker->self))
        atomic_store(&ticker->elsewhere, true);
    errno = EINVAL; // whatever it does to errno, the code under it does not see
    atomic_fetch_add(&ticker->ticks, 1);
}

static void *tick_for_a_while(void *argument)
{
    struct ticker *ticker = argument;
    ticker->self = pthread_self();
    ticker->kept_errno = true;
    if (live->tick_init(NULL, &ticker->tick, on_tick, ticker) != 0)
        return NULL;
    live->tick_set(NULL, &ticker->tick, SECOND / 1000);
    uint64_t deadline = generous();
    errno = 0;
    while (atomic_load(&ticker->ticks) < 20 && now() < deadline)
        if (errno)
            ticker->kept_errno = false;
    live->tick_set(NULL, &ticker->tick, 0);
    live->tick_set(NULL, &ticker->tick, 0); // again is nothing
    mare__unpark(&ticker->ready);
    mare__park(&ticker->go_on, deadline);
    live->tick_fini(NULL, &ticker->tick);
    return NULL;
}

static void ticks_come_to_the_thread_that_asked(void **state)
{
    (void)state;
    struct ticker tickers[2] = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            mare__thread_start(&tickers[i].thread, "tick", tick_for_a_while, &tickers[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(mare__park(&tickers[i].ready, generous()));
        assert_true(atomic_load(&tickers[i].ticks) >= 20);
    }
    for (int i = 0; i < 2; i++) {
        pthread_t thread = tickers[i].thread;
        mare__unpark(&tickers[i].go_on);
        pthread_join(thread, NULL);
        assert_false(atomic_load(&tickers[i].elsewhere));
        assert_true(tickers[i].kept_errno);
    }
    raise(SIGURG); // one that arrives after the end does no harm
}

static void *sleep_with_ticks(void *argument)
{
    struct ticker *ticker = argument;
    ticker->self = pthread_self();
    if (live->tick_init(NULL, &ticker->tick, on_tick, ticker) != 0)
        return NULL;
    live->tick_set(NULL, &ticker->tick, SECOND / 5000);
    uint64_t deadline = now() + SECOND / 20;
    bool woken = mare__park(&ticker->go_on, deadline);
    ticker->kept_errno = !woken && now() >= deadline; // signals do not end a sleep
    live->tick_fini(NULL, &ticker->tick);
    return NULL;
}

static void a_tick_does_not_end_a_sleep(void **state)
{
    (void)state;
    struct ticker ticker = {0};
    pthread_t thread;
    assert_int_equal(mare__thread_start(&thread, "tick", sleep_with_ticks, &ticker), 0);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&ticker.ticks) > 0);
    assert_true(ticker.kept_errno);
}

// Nobody can suspend a machine for a test; but that it was is told from one look to the next.
static void a_suspended_machine_is_noticed_once(void **state)
{
    (void)state;
    int64_t before = mare__wall_suspended_ns(), known = before;
    assert_true(before > -(int64_t)SECOND);
    assert_false(mare__wall_woke(&known));
    known -= (int64_t)SECOND; // as it would have been read before a second's sleep
    assert_true(mare__wall_woke(&known));
    assert_true(known > before - (int64_t)SECOND / 2);
    assert_false(mare__wall_woke(&known));
}

UNIT_TESTS(cmocka_unit_test(the_clock_does_not_go_back),
           cmocka_unit_test(a_suspended_machine_is_noticed_once),
           cmocka_unit_test(a_wake_that_comes_first_is_kept),
           cmocka_unit_test(a_deadline_ends_the_sleep), cmocka_unit_test(wakes_are_not_lost),
           cmocka_unit_test(a_deadline_and_a_wake_at_once), cmocka_unit_test(a_lock_has_one_holder),
           cmocka_unit_test(who_holds_a_spinlock_does_nothing_that_takes_long),
           cmocka_unit_test(a_signal_may_wake_a_thread_whatever_it_interrupts),
           cmocka_unit_test(ticks_come_to_the_thread_that_asked),
           cmocka_unit_test(a_tick_does_not_end_a_sleep))
