// SPDX-License-Identifier: MIT
// Whoever ends a wait, or begins one for another, may look at it a moment longer. So what is woken
// does not go on before that thread has let go of it. Here the test is that thread, and takes its
// time: nothing may happen as long as it does.
#include <pthread.h>

#include "sched/local.h"
#include "sched/process.h"
#include "sched/timer.h"
#include "sched/worker.h"
#include "task_probe.h"

// Looks whether something happens that must not. To look longer finds more, and is never wrong.
enum { LOOKS = 5000 };

static void never(bool (*happens)(void *), void *what)
{
    for (int i = 0; i < LOOKS; i++) {
        assert_false(happens(what));
        sched_yield();
    }
}

static void by_another_thread(void *(*act)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, act, argument), 0);
    pthread_join(thread, NULL);
}

// ---- A process ----------------------------------------------------------------------------------

static void *interrupt(void *process)
{
    mare__local_interrupt(mare__local_of(process));
    return NULL;
}

static bool can_be_received_from(void *channel)
{
    return atomic_load(&((mare_channel *)channel)->can) & MARE__CAN_RECEIVE;
}

// The worker on which it fell asleep has the lock of the process until it has done with the wait.
static void who_sleeps_for_ever_goes_on_after_its_worker(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *channel = run_channel(runtime, 1);
    mare_message *arguments = run_message();
    run_add_channel(arguments, channel);
    mare_process *process = run_spawn(runtime,
                                      "local channel, mare = ..., require 'mare' "
                                      "pcall(mare.sleep, 1e10) channel:send(1)",
                                      arguments);
    mare_message_destroy(arguments);
    while (strcmp(mare__process_status(process), "blocked") != 0)
        sched_yield();
    mare__lock_acquire(&process->lock);
    by_another_thread(interrupt, process);
    never(can_be_received_from, channel);
    mare__lock_release(&process->lock);
    assert_int_equal(run_receive_integer(runtime, channel), 1);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// ---- A task -------------------------------------------------------------------------------------

static void *send_one(void *channel)
{
    mare_message message;
    mare__message_init(&message);
    mare_message_add_integer(&message, 1);
    mare_chan_try_send(channel, &message);
    mare__message_clear(&message);
    return NULL;
}

static bool has_run(void *probe)
{
    return atomic_load(&((struct probe *)probe)->runs) > 0;
}

// The thread on which its wait began has its lock until it has.
static void a_task_runs_after_the_thread_that_made_it_wait(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct probe *probe = probe_new(runtime, NULL);
    probe->channel = run_channel(runtime, 0);
    start(probe, receives);
    mare__lock_acquire(&probe->task.lock);
    by_another_thread(send_one, probe->channel);
    never(has_run, probe);
    mare__lock_release(&probe->task.lock);
    let_go(probe);
    mare_stop(runtime);
}

// ---- A process with a thread of its own ---------------------------------------------------------

static bool has_left(void *runtime)
{
    return atomic_load(&((mare_runtime *)runtime)->own_threads) == 0;
}

// Its thread ends with it, and frees what others wake it by.
static void a_thread_of_its_own_stays_for_who_wakes_it(void **state)
{
    (void)state;
    static const char code[] = "local channel = ... channel:receive()";
    const mare_spawn_options options = {.thread = true};
    mare_runtime *runtime = run_start(1);
    mare_channel *channel = run_channel(runtime, 0);
    mare_message *arguments = run_message();
    mare_process *process;
    run_add_channel(arguments, channel);
    assert_int_equal(
        mare_spawn_with(runtime, code, strlen(code), "=own", arguments, &options, &process, NULL),
        MARE_OK);
    mare_message_destroy(arguments);
    struct mare__worker *own = mare__local_of(process)->own;
    atomic_fetch_add(&own->wakers, 1);
    run_send_integer(runtime, channel, 1);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    never(has_left, runtime);
    atomic_fetch_sub(&own->wakers, 1);
    while (!has_left(runtime))
        sched_yield();
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// ---- A worker -----------------------------------------------------------------------------------

// What it has found in its loop stands in its slot, and it counts as idle a moment longer. Here the
// test puts a process there.
static void what_stands_in_a_slot_is_no_deadlock(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *channel = run_channel(runtime, 0);
    mare_message *arguments = run_message();
    run_add_channel(arguments, channel);
    mare_process *process = run_spawn(runtime, "local channel = ... channel:receive()", arguments);
    mare_message_destroy(arguments);
    uint64_t deadline = run_soon(runtime);
    while (!mare__workers_stuck(runtime)) {
        assert_true(mare_now_ns(runtime) < deadline);
        sched_yield();
    }
    struct mare__worker *worker = runtime->workers[0];
    atomic_store(&worker->slot, mare__local_of(process));
    bool stuck = mare__workers_stuck(runtime);
    atomic_store(&worker->slot, NULL);
    assert_false(stuck);
    assert_true(mare__workers_stuck(runtime));
    mare_chan_close(channel);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// ---- A timer ------------------------------------------------------------------------------------

struct timed {
    struct mare__wait wait;
    mare_runtime *runtime;
    atomic_bool woken, over;
};

static void wake_timed(struct mare__wait *wait)
{
    atomic_store(&MARE__ENTRY(wait, struct timed, wait)->woken, true);
}

static void *let_time_pass(void *argument)
{
    struct timed *timed = argument;
    while (!atomic_load(&timed->over))
        mare__timer_expire(timed->runtime, MARE_FOREVER - 1);
    return NULL;
}

// A wait with a deadline that is over, which something else may end at the same moment.
static void wait_a_little(struct timed *timed)
{
    mare__wait_begin(&timed->wait);
    mare__lock_acquire(&timed->runtime->timer_lock);
    assert_true(mare__wait_publish(&timed->wait));
    mare__timer_start(timed->runtime, &timed->wait, 1);
    mare__lock_release(&timed->runtime->timer_lock);
    while (atomic_load(&timed->runtime->timer_count) > 0) // the other thread is about to end it
        mare__pause();
    if (!mare__wait_claim(&timed->wait))
        while (!atomic_load(&timed->woken))
            mare__pause();
    atomic_store(&timed->woken, false);
    mare__timer_stop(timed->runtime, &timed->wait);
}

// Who has stopped its timer begins another wait, without one: that is nobody's to end.
static void a_timer_ends_its_own_wait_and_no_later_one(void **state)
{
    (void)state;
    enum { TIMES = 20000 };
    struct timed timed = {.wait.wake = wake_timed, .runtime = run_start(1)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, let_time_pass, &timed), 0);
    for (int i = 0; i < TIMES; i++) {
        wait_a_little(&timed);
        mare__wait_begin(&timed.wait);
        assert_true(mare__wait_publish(&timed.wait));
        for (int spin = i % 20; spin > 0; spin--)
            mare__pause();
        assert_true(mare__wait_claim(&timed.wait));
        assert_false(atomic_load(&timed.woken));
    }
    atomic_store(&timed.over, true);
    pthread_join(thread, NULL);
    mare_stop(timed.runtime);
}

UNIT_TESTS(cmocka_unit_test(who_sleeps_for_ever_goes_on_after_its_worker),
           cmocka_unit_test(a_task_runs_after_the_thread_that_made_it_wait),
           cmocka_unit_test(a_thread_of_its_own_stays_for_who_wakes_it),
           cmocka_unit_test(what_stands_in_a_slot_is_no_deadlock),
           cmocka_unit_test(a_timer_ends_its_own_wait_and_no_later_one))
