// SPDX-License-Identifier: MIT
// How a worker rests (src/sched/worker.c). Its tick: long rests stop it, short ones do not, and one
// that turns out to be long lets it stop itself. And what others add in the moment before it counts
// as idle, when nobody wakes it.
#include "lua/binding.h"
#include "sched/runtime.h"
#include "sched/timer.h"
#include "task_probe.h"

static atomic_uint sets;       // how often a tick was stopped, or started
static atomic_ullong set_last; // to this period

static void note_and_set(void *context, struct mare__tick *tick, uint64_t period_ns)
{
    mare__platform_live.tick_set(context, tick, period_ns);
    atomic_fetch_add(&sets, 1);
    atomic_store(&set_last, period_ns);
}

// A process that answers, on the only worker of its runtime.
struct echo {
    struct mare__platform platform;
    mare_runtime *runtime;
    mare_channel *to, *from;
};

static void start_echo(struct echo *echo)
{
    mare_options options = {.workers = 1};
    echo->platform = mare__platform_live;
    echo->platform.tick_set = note_and_set;
    assert_int_equal(mare__start_on(&echo->platform, &options, &echo->runtime), MARE_OK);
    echo->to = run_channel(echo->runtime, 1);
    echo->from = run_channel(echo->runtime, 1);
    mare_message *arguments = run_message();
    run_add_channel(arguments, echo->to);
    run_add_channel(arguments, echo->from);
    mare_process *process =
        run_spawn(echo->runtime, "local to, from = ... for n in to:messages() do from:send(n) end",
                  arguments);
    mare_message_destroy(arguments);
    mare_process_unref(process);
}

static void stop_echo(struct echo *echo)
{
    mare_chan_unref(echo->to);
    mare_chan_unref(echo->from);
    mare_stop(echo->runtime);
}

// Waits until the worker rests, and ends its rest with a message.
static void wake(struct echo *echo)
{
    while (atomic_load(&echo->runtime->idle_count) == 0)
        sched_yield();
    run_send_integer(echo->runtime, echo->to, 1);
    assert_int_equal(run_receive_integer(echo->runtime, echo->from), 1);
}

// Until most of a row of rests were short: the machine may have other things to do. A tick that is
// stopped in each of them, and started again, is set twice as often as there are rests.
static void rest_briefly(struct echo *echo)
{
    enum { RESTS = 30, ROWS = 2000 };
    unsigned most = RESTS;
    for (int row = 0; row < ROWS && most >= RESTS; row++) {
        unsigned before = atomic_load(&sets);
        for (int i = 0; i < RESTS; i++)
            wake(echo);
        most = atomic_load(&sets) - before;
    }
    assert_true(most < RESTS);
}

static void short_rests_do_not_touch_it(void **state)
{
    (void)state;
    struct echo echo;
    start_echo(&echo);
    rest_briefly(&echo);
    stop_echo(&echo);
}

static void it_stops_itself_in_one_that_is_long(void **state)
{
    (void)state;
    struct echo echo;
    start_echo(&echo);
    for (int i = 0; i < 5; i++) {
        rest_briefly(&echo);
        uint64_t soon = run_soon(echo.runtime);
        while (atomic_load(&set_last) != 0 && mare__now(echo.runtime) < soon)
            sched_yield();
        assert_int_equal(atomic_load(&set_last), 0);
        unsigned before = atomic_load(&sets);
        wake(&echo);
        assert_true(atomic_load(&sets) > before); // it goes on
    }
    stop_echo(&echo);
}

// ---- The moment before it counts as idle --------------------------------------------------------

static atomic_bool finds_nothing, may_rest;

// The first time that a tick is stopped, its worker has found nothing, and stays there.
static void set_and_hold(void *context, struct mare__tick *tick, uint64_t period_ns)
{
    mare__platform_live.tick_set(context, tick, period_ns);
    if (period_ns == 0 && !atomic_exchange(&finds_nothing, true))
        while (!atomic_load(&may_rest))
            sched_yield();
}

// A runtime whose only worker stays in that moment until it is let go.
static mare_runtime *start_held(void)
{
    mare_runtime *runtime = NULL;
    mare_options options = {.workers = 1};
    struct mare__platform platform = mare__platform_live;
    platform.tick_set = set_and_hold;
    atomic_store(&finds_nothing, false);
    atomic_store(&may_rest, false);
    assert_int_equal(mare__start_on(&platform, &options, &runtime), MARE_OK);
    while (!atomic_load(&finds_nothing))
        sched_yield();
    return runtime;
}

// Lets the worker go, and waits until it has done something, without a call that could wake it.
static void let_rest(mare_runtime *runtime, bool (*is_done)(void *), void *what)
{
    assert_int_equal(atomic_load(&runtime->idle_count), 0); // so nobody was woken until here
    atomic_store(&may_rest, true);
    uint64_t soon = run_soon(runtime);
    while (!is_done(what)) {
        assert_true(mare_now_ns(runtime) < soon);
        sched_yield();
    }
}

static bool has_ended(void *process)
{
    return !mare_process_alive(process);
}

static void it_sees_a_process_that_is_ready_by_then(void **state)
{
    (void)state;
    mare_runtime *runtime = start_held();
    mare_process *process = run_spawn(runtime, "", NULL);
    let_rest(runtime, has_ended, process);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_stop(runtime);
}

static bool has_run(void *probe)
{
    return atomic_load(&((struct probe *)probe)->runs) > 0;
}

static void it_sees_a_task_that_is_ready_by_then(void **state)
{
    (void)state;
    mare_runtime *runtime = start_held();
    struct probe *probe = probe_new(runtime, NULL);
    probe->channel = run_channel(runtime, 0);
    start(probe, receives);
    run_send_integer(runtime, probe->channel, 1);
    assert_false(has_run(probe));
    let_rest(runtime, has_run, probe);
    assert_true(atomic_load(&probe->on_worker));
    let_go(probe);
    mare_stop(runtime);
}

struct timed {
    struct mare__wait wait;
    atomic_bool woken;
};

static void note_woken(struct mare__wait *wait)
{
    atomic_store(&MARE__ENTRY(wait, struct timed, wait)->woken, true);
}

static bool was_woken(void *timed)
{
    return atomic_load(&((struct timed *)timed)->woken);
}

static void it_sees_a_timer_that_runs_by_then(void **state)
{
    (void)state;
    struct timed timed = {.wait.wake = note_woken};
    mare_runtime *runtime = start_held();
    mare__wait_begin(&timed.wait);
    mare__lock_acquire(&runtime->timer_lock);
    assert_true(mare__wait_publish(&timed.wait));
    mare__timer_start(runtime, &timed.wait, 1);
    mare__lock_release(&runtime->timer_lock);
    mare__workers_look(runtime);
    let_rest(runtime, was_woken, &timed);
    assert_int_equal(timed.wait.result, MARE_TIMEOUT);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(short_rests_do_not_touch_it),
           cmocka_unit_test(it_stops_itself_in_one_that_is_long),
           cmocka_unit_test(it_sees_a_process_that_is_ready_by_then),
           cmocka_unit_test(it_sees_a_task_that_is_ready_by_then),
           cmocka_unit_test(it_sees_a_timer_that_runs_by_then))
