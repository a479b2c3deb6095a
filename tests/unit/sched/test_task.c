// SPDX-License-Identifier: MIT
// Tasks: what they can wait for, and who runs them.
#include "task_probe.h"

// ---- What it can wait for -----------------------------------------------------------------------

static void receives_what_is_sent(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct probe *probe = probe_new(runtime, receives_until_cancelled);
    probe->channel = run_channel(runtime, 0);
    start(probe, receives);
    for (unsigned i = 1; i <= 100; i++) {
        if (i % 10 == 0)
            await_quiet(runtime); // and is woken by it
        run_send_integer(runtime, probe->channel, i * 7);
        await(&probe->runs, i);
        assert_int_equal(probe->number, i * 7);
    }
    assert_int_equal(atomic_load(&probe->outcomes), 1u << MARE_OK);
    assert_true(atomic_load(&probe->on_worker));
    assert_false(pthread_equal(probe->thread, pthread_self()));
    mare__task_cancel(&probe->task);
    let_go(probe);
    mare_stop(runtime);
}

static void what_is_there_need_not_be_waited_for(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct probe *probe = probe_new(runtime, receives_until_cancelled);
    probe->channel = run_channel(runtime, 10);
    for (int i = 1; i <= 10; i++)
        run_send_integer(runtime, probe->channel, i);
    start(probe, receives);
    await(&probe->runs, 10);
    assert_int_equal(probe->number, 10);
    mare__task_cancel(&probe->task);
    await(&probe->runs, 11);
    let_go(probe);
    mare_stop(runtime);
}

static bool sends_three(struct probe *probe)
{
    if (probe->task.wait.result != MARE_OK || atomic_load(&probe->runs) == 2)
        return false;
    put(&probe->message, probe->number += 1);
    return sends(probe);
}

static void sends_when_somebody_receives(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (size_t capacity = 0; capacity < 4; capacity++) {
        struct probe *probe = probe_new(runtime, sends_three);
        probe->channel = run_channel(runtime, capacity);
        put(&probe->message, probe->number = 1);
        start(probe, sends);
        for (int i = 1; i <= 3; i++)
            assert_int_equal(run_receive_integer(runtime, probe->channel), i);
        await(&probe->runs, 3);
        assert_int_equal(atomic_load(&probe->outcomes), 1u << MARE_OK);
        assert_true(mare__message_empty(&probe->message));
        let_go(probe);
    }
    mare_stop(runtime);
}

static void a_deadline_ends_each_wait(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    bool (*const waits[])(struct probe *) = {receives, sends, sleeps};
    for (int i = 0; i < 3; i++) {
        struct probe *probe = probe_new(runtime, NULL);
        probe->channel = run_channel(runtime, 0);
        put(&probe->message, 5);
        probe->deadline = mare_deadline_ms(runtime, 5);
        await_quiet(runtime); // who starts it is no worker: one must be told of the time
        start(probe, waits[i]);
        await(&probe->runs, 1);
        assert_true(mare_now_ns(runtime) >= probe->deadline);
        assert_int_equal(atomic_load(&probe->outcomes), 1u << MARE_TIMEOUT);
        // It stands in line no more.
        mare_message *none = NULL, *one = run_message();
        assert_int_equal(mare_chan_try_receive(probe->channel, &none), MARE_EMPTY);
        assert_int_equal(mare_chan_try_send(probe->channel, one), MARE_FULL);
        mare_message_destroy(one);
        let_go(probe);
    }
    assert_int_equal(atomic_load(&runtime->timer_count), 0);
    mare_stop(runtime);
}

static void what_comes_before_the_deadline_stops_the_timer(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct probe *probe = probe_new(runtime, NULL);
    probe->channel = run_channel(runtime, 0);
    probe->deadline = run_soon(runtime);
    start(probe, receives);
    run_send_integer(runtime, probe->channel, 1);
    await(&probe->runs, 1);
    assert_int_equal(atomic_load(&runtime->timer_count), 0);
    assert_int_equal(atomic_load(&probe->outcomes), 1u << MARE_OK);
    let_go(probe);
    mare_stop(runtime);
}

static void a_close_is_told(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    bool (*const waits[])(struct probe *) = {receives, sends};
    for (int i = 0; i < 2; i++)
        for (int before = 0; before < 2; before++) {
            struct probe *probe = probe_new(runtime, NULL);
            probe->channel = run_channel(runtime, 0);
            put(&probe->message, 5);
            if (before)
                mare_chan_close(probe->channel);
            start(probe, waits[i]);
            if (!before)
                mare_chan_close(probe->channel);
            await(&probe->runs, 1);
            assert_int_equal(atomic_load(&probe->outcomes), 1u << MARE_CLOSED);
            let_go(probe);
        }
    mare_stop(runtime);
}

// Several at once: the first that can go, the one that goes later, and none before the deadline.
static void selects_one_of_several(void **state)
{
    (void)state;
    enum { CASES = 3 };
    mare_runtime *runtime = run_start(1);
    for (uint32_t fires = 0; fires <= CASES; fires++)
        for (int before = 0; before < 2; before++) {
            struct probe *probe = probe_new(runtime, NULL);
            struct mare__case cases[CASES];
            mare_channel *order[CASES];
            struct mare__choice choice;
            memset(cases, 0, sizeof cases);
            for (uint32_t i = 0; i < CASES; i++) {
                cases[i].channel = run_channel(runtime, 0);
                cases[i].send = i == 1;
                put(&cases[i].message, 7);
            }
            mare__choice_init(&choice, cases, CASES, order);
            mare__task_select(&probe->task, &choice,
                              fires == CASES ? mare_deadline_ms(runtime, 1) : MARE_FOREVER);
            mare_message *one = run_message();
            mare_message_add_integer(one, 9);
            if (before && fires < CASES)
                mare_chan_close(cases[fires].channel);
            mare__task_start(&probe->task);
            if (!before && fires < CASES && cases[fires].send)
                assert_int_equal(run_receive_integer(runtime, cases[fires].channel), 7);
            else if (!before && fires < CASES)
                assert_int_equal(mare_chan_send_until(cases[fires].channel, one, run_soon(runtime)),
                                 MARE_OK);
            await(&probe->runs, 1);
            assert_int_equal(probe->task.wait.fired, fires < CASES ? fires : MARE__FIRED_NONE);
            assert_int_equal(atomic_load(&probe->outcomes), 1u << (fires == CASES ? MARE_TIMEOUT
                                                                   : before       ? MARE_CLOSED
                                                                                  : MARE_OK));
            mare_message_destroy(one);
            let_go(probe);
            for (uint32_t i = 0; i < CASES; i++) { // it stands in none of the lines
                assert_true(mare__list_empty(&cases[i].channel->receivers));
                assert_true(mare__list_empty(&cases[i].channel->senders));
                mare__message_clear(&cases[i].message);
                mare_chan_unref(cases[i].channel);
            }
        }
    mare_stop(runtime);
}

// ---- Who runs it, and when ----------------------------------------------------------------------

// A process that has the only worker and does not wait is preempted for a task.
static void a_computation_gives_way(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_process *process = run_spawn(runtime, run_spin(), NULL);
    while (atomic_load(&mare__local_of(process)->status) != MARE__RUNNING)
        sched_yield();
    struct probe *probe = probe_new(runtime, NULL);
    start(probe, yields_until_cancelled);
    await(&probe->runs, 1);
    let_go(probe);
    mare_process_kill(process);
    mare_process_unref(process);
    mare_stop(runtime);
}

// Tasks that are always ready keep neither processes nor each other from running.
static void nobody_starves(void **state)
{
    (void)state;
    enum { TASKS = 5 };
    mare_runtime *runtime = run_start(1);
    struct probe *probes[TASKS];
    for (int i = 0; i < TASKS; i++) {
        probes[i] = probe_new(runtime, yields_until_cancelled);
        start(probes[i], yields_until_cancelled);
    }
    run_true(runtime,
             "local m = require 'mare' local c = m.channel() "
             "m.spawn(function() for i = 1, 100 do c:send(i) m.yield() end c:close() end) "
             "local n = 0 for i in c:messages() do n = n + i end return n == 5050",
             NULL);
    for (int i = 0; i < TASKS; i++)
        await(&probes[i]->runs, atomic_load(&probes[(i + 1) % TASKS]->runs) / 2);
    for (int i = 0; i < TASKS; i++) {
        mare__task_cancel(&probes[i]->task);
        await_outcome(probes[i], MARE_KILLED);
        let_go(probes[i]);
    }
    mare_stop(runtime);
}

// What is ready counts as such: a program that waits for it is not stuck.
static void ready_ones_are_no_deadlock(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    sem_t go_on;
    sem_init(&go_on, 0, 0);
    struct probe *first = probe_new(runtime, keeps_its_worker), *next = probe_new(runtime, NULL);
    await_stuck(runtime);
    assert_false(mare__tasks_are_ready(runtime));
    first->let_go = &go_on;
    start(first, yields_until_cancelled);
    await(&first->inside, 1);
    start(next, yields_until_cancelled);
    assert_true(mare__tasks_are_ready(runtime));
    assert_false(mare__workers_stuck(runtime));
    assert_int_equal(atomic_load(&next->runs), 0);
    sem_post(&go_on);
    await(&next->runs, 1);
    await_stuck(runtime);
    let_go(first);
    let_go(next);
    mare_stop(runtime);
    sem_destroy(&go_on);
}

static bool wakes_another_and_keeps_its_worker(struct probe *probe)
{
    mare__task_nudge(&probe->partner->task);
    return keeps_its_worker(probe);
}

static bool tells_a_process(struct probe *probe)
{
    mare__chan_send(probe->channel, &probe->message, NULL);
    return false;
}

// What a worker has woken and does not come to is taken over by another when a tick has come; and
// what that wakes runs there, too.
static void a_worker_that_is_stuck_keeps_no_task(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    sem_t go_on;
    sem_init(&go_on, 0, 0);
    struct probe *stuck = probe_new(runtime, wakes_another_and_keeps_its_worker),
                 *woken = probe_new(runtime, tells_a_process);
    mare_message *arguments = run_message(), *result = NULL;
    stuck->partner = woken;
    stuck->let_go = &go_on;
    woken->channel = run_channel(runtime, 0);
    put(&woken->message, 1);
    run_add_channel(arguments, woken->channel);
    mare_process *process = run_spawn(runtime, "return (...):receive()", arguments);
    mare_message_destroy(arguments);
    while (atomic_load(&mare__local_of(process)->sleep.wait.word) != MARE__WAIT_WAITING)
        sched_yield();
    start(woken, sleeps);
    start(stuck, yields_until_cancelled);
    assert_int_equal(run_join(runtime, process, &result), MARE_OK);
    mare_message_destroy(result);
    await(&woken->runs, 1);
    assert_int_equal(atomic_load(&stuck->runs), 0);
    assert_false(pthread_equal(stuck->thread, woken->thread));
    sem_post(&go_on);
    await(&stuck->runs, 1);
    let_go(stuck);
    let_go(woken);
    mare_stop(runtime);
    sem_destroy(&go_on);
}

static struct {
    pthread_mutex_t mutex;
    struct mare__task *task;
} mine = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void to_me(struct mare__task *task)
{
    pthread_mutex_lock(&mine.mutex);
    mine.task = task;
    pthread_mutex_unlock(&mine.mutex);
}

static void it_can_have_a_line_of_its_own(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    struct probe *probe = probe_new(runtime, receives);
    probe->channel = run_channel(runtime, 0);
    probe->task.ready = to_me;
    mare_message *arguments = run_message();
    run_add_channel(arguments, probe->channel);
    start(probe, receives);
    run_true(runtime, "local c = ... c:send(1) return true", arguments);
    mare_message_destroy(arguments);
    assert_ptr_equal(mine.task, &probe->task);
    assert_int_equal(atomic_load(&probe->runs), 0);
    mare__task_proceed(&probe->task);
    assert_int_equal(atomic_load(&probe->runs), 1);
    assert_true(pthread_equal(probe->thread, pthread_self()));
    assert_true(mare__task_withdraw(&probe->task));
    let_go(probe);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(receives_what_is_sent),
           cmocka_unit_test(what_is_there_need_not_be_waited_for),
           cmocka_unit_test(sends_when_somebody_receives),
           cmocka_unit_test(a_deadline_ends_each_wait),
           cmocka_unit_test(what_comes_before_the_deadline_stops_the_timer),
           cmocka_unit_test(a_close_is_told), cmocka_unit_test(selects_one_of_several),
           cmocka_unit_test(a_computation_gives_way), cmocka_unit_test(nobody_starves),
           cmocka_unit_test(ready_ones_are_no_deadlock),
           cmocka_unit_test(a_worker_that_is_stuck_keeps_no_task),
           cmocka_unit_test(it_can_have_a_line_of_its_own))
