// SPDX-License-Identifier: MIT
// Tasks that other threads cancel, nudge, withdraw and let go at any moment, and that a runtime
// ends.
#include "task_probe.h"

// ---- From other threads, at any moment ----------------------------------------------------------

static bool keeps_its_worker_once(struct probe *probe)
{
    if (atomic_load(&probe->runs) == 0)
        keeps_its_worker(probe);
    return receives_until_cancelled(probe);
}

static void cancelled_it_is_told_once_in_each_state(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    sem_t go_on;
    sem_init(&go_on, 0, 0);
    enum { RESTS, WAITS, IS_READY, RUNS, STATES };
    for (int when = 0; when < STATES; when++) {
        struct probe *probe = probe_new(runtime, receives_until_cancelled), *busy = NULL;
        probe->channel = run_channel(runtime, 10);
        probe->let_go = &go_on;
        if (when == RESTS) {
            mare__task_cancel(&probe->task);
            mare__task_cancel(&probe->task);
            run_send_integer(runtime, probe->channel, 1); // which it does not get any more
            start(probe, receives);
        } else if (when == WAITS) {
            start(probe, receives);
            mare__task_cancel(&probe->task);
            mare__task_cancel(&probe->task);
        } else if (when == IS_READY) {
            busy = probe_new(runtime, keeps_its_worker);
            busy->let_go = &go_on;
            start(busy, yields_until_cancelled);
            await(&busy->inside, 1);
            start(probe, yields_until_cancelled);
            mare__task_cancel(&probe->task);
            sem_post(&go_on);
        } else {
            probe->act = keeps_its_worker_once;
            start(probe, yields_until_cancelled);
            await(&probe->inside, 1);
            run_send_integer(runtime, probe->channel, 1);
            mare__task_cancel(&probe->task);
            sem_post(&go_on);
        }
        await_outcome(probe, MARE_KILLED);
        await_quiet(runtime);
        assert_int_equal(atomic_load(&probe->times[MARE_KILLED]), 1);
        assert_int_equal(probe->number, 0);
        assert_true(mare__list_empty(&probe->channel->receivers));
        mare__task_cancel(&probe->task); // it has ended: nothing happens
        let_go(probe);
        if (busy)
            let_go(busy);
    }
    mare_stop(runtime);
    sem_destroy(&go_on);
}

static void nudged_it_is_told_once_and_goes_on(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    sem_t go_on;
    sem_init(&go_on, 0, 0);
    for (int when = 0; when < 3; when++) { // at rest, waiting, running
        struct probe *probe = probe_new(runtime, receives_until_cancelled);
        probe->channel = run_channel(runtime, 0);
        probe->let_go = &go_on;
        if (when == 1)
            start(probe, receives);
        if (when == 2) {
            probe->act = keeps_its_worker_once;
            start(probe, yields_until_cancelled);
            await(&probe->inside, 1);
        }
        mare__task_nudge(&probe->task);
        if (when != 1) { // several while it does not wait are one
            mare__task_nudge(&probe->task);
            mare__task_nudge(&probe->task);
        }
        if (when == 0)
            start(probe, receives);
        if (when == 2)
            sem_post(&go_on);
        await_outcome(probe, MARE_CANCELLED);
        run_send_integer(runtime, probe->channel, 5); // it waits again
        while (atomic_load(&probe->times[MARE_OK]) < 1u + (when == 2))
            sched_yield();
        await_quiet(runtime);
        assert_int_equal(probe->number, 5);
        assert_int_equal(atomic_load(&probe->times[MARE_CANCELLED]), 1);
        mare__task_cancel(&probe->task);
        let_go(probe);
    }
    mare_stop(runtime);
    sem_destroy(&go_on);
}

static void withdrawn_it_does_not_run(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    bool (*const waits[])(struct probe *) = {receives, sends, sleeps};
    for (int i = 0; i < 6; i++) {
        struct probe *probe = probe_new(runtime, NULL);
        probe->channel = run_channel(runtime, 0);
        probe->deadline = i < 3 ? run_soon(runtime) : MARE_FOREVER;
        start(probe, waits[i % 3]);
        assert_true(mare__task_withdraw(&probe->task));
        assert_int_equal(atomic_load(&runtime->timer_count), 0);
        assert_true(mare__list_empty(&probe->channel->receivers));
        assert_true(mare__list_empty(&probe->channel->senders));
        assert_false(mare__task_withdraw(&probe->task));
        assert_int_equal(atomic_load(&probe->runs), 0);
        unsigned before = atomic_load(&destroyed);
        mare__task_release(&probe->task); // the only one that holds it
        assert_int_equal(atomic_load(&destroyed), before + 1);
    }
    mare_stop(runtime);
}

enum { PROBES = 8, THREADS = 4, STEPS = 4000 };

struct crowd {
    mare_runtime *runtime;
    struct probe *probes[PROBES];
    mare_channel *channel;
    atomic_ulong sent;
    uint64_t seed;
};

// Whatever it was told: it waits for something else next.
static bool waits_in_turn(struct probe *probe)
{
    if (probe->task.wait.result == MARE_KILLED)
        return false;
    switch (atomic_load(&probe->runs) % 4) {
    case 0:
        return mare__task_receive(&probe->task, probe->channel, MARE_FOREVER);
    case 1:
        return mare__task_receive(&probe->task, probe->channel,
                                  mare_now_ns(probe->task.runtime) + 20000);
    case 2:
        return mare__task_sleep(&probe->task, mare_now_ns(probe->task.runtime) + 10000);
    default:
        return mare__task_yield(&probe->task);
    }
}

static void *disturb(void *argument)
{
    struct crowd *crowd = argument;
    uint64_t random = crowd->seed;
    mare_message message;
    for (int i = 0; i < STEPS; i++) {
        struct probe *probe = crowd->probes[unit_random(&random) % PROBES];
        mare__task_hold(&probe->task);
        switch (unit_random(&random) % 4) {
        case 0:
            mare__task_nudge(&probe->task);
            break;
        case 1:
            sched_yield();
            break;
        default:
            mare__message_init(&message);
            mare_message_add_integer(&message, 1);
            mare_chan_try_send(crowd->channel, &message);
            mare__message_clear(&message);
        }
        mare__task_release(&probe->task);
    }
    return NULL;
}

static void one_thread_at_a_time_whatever_others_do(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    mare_runtime *runtime = run_start(3);
    struct crowd crowds[THREADS];
    pthread_t threads[THREADS];
    mare_channel *channel = run_channel(runtime, 4);
    unsigned before = atomic_load(&destroyed);
    for (int i = 0; i < PROBES; i++) {
        crowds[0].probes[i] = probe_new(runtime, waits_in_turn);
        crowds[0].probes[i]->channel = mare_chan_ref(channel);
        start(crowds[0].probes[i], yields_until_cancelled);
    }
    for (int i = 0; i < THREADS; i++) {
        memcpy(crowds[i].probes, crowds[0].probes, sizeof crowds[0].probes);
        crowds[i].runtime = runtime;
        crowds[i].channel = channel;
        crowds[i].seed = unit_random(&seed);
        assert_int_equal(pthread_create(&threads[i], NULL, disturb, &crowds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PROBES; i++) {
        struct probe *probe = crowds[0].probes[i];
        mare__task_cancel(&probe->task);
        await_outcome(probe, MARE_KILLED);
        assert_int_equal(atomic_load(&probe->most), 1);
        mare__task_release(&probe->task);
    }
    await(&destroyed, before + PROBES);
    assert_int_equal(atomic_load(&runtime->timer_count), 0);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// Cancelled while it wakes, ends or waits again on another thread: told once, destroyed once.
static void a_cancel_meets_any_moment(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int i = 0; i < 2000; i++) {
        struct probe *probe = probe_new(runtime, waits_in_turn);
        probe->channel = run_channel(runtime, 1);
        start(probe, yields_until_cancelled);
        for (int spin = i % 50; spin > 0; spin--)
            mare__pause();
        run_send_integer(runtime, probe->channel, 1);
        for (int spin = i % 70; spin > 0; spin--)
            mare__pause();
        mare__task_cancel(&probe->task);
        await_outcome(probe, MARE_KILLED);
        assert_int_equal(atomic_load(&probe->times[MARE_KILLED]), 1);
        let_go(probe);
    }
    mare_stop(runtime);
}

// ---- The end of the runtime ---------------------------------------------------------------------

static bool again_until_stopped(struct probe *probe)
{
    return probe->task.wait.result != MARE_STOPPED && probe->task.wait.result != MARE_KILLED &&
           mare__task_sleep(&probe->task, mare_now_ns(probe->task.runtime) + 1000000);
}

static void those_that_wait_for_time_are_told(void **state)
{
    (void)state;
    enum { TASKS = 50 };
    mare_runtime *runtime = run_start(2);
    struct probe *probes[TASKS];
    for (int i = 0; i < TASKS; i++) {
        probes[i] = probe_new(runtime, again_until_stopped);
        probes[i]->deadline = i % 2 ? run_soon(runtime) : mare_now_ns(runtime);
        start(probes[i], sleeps);
    }
    mare_stop(runtime);
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(atomic_load(&probes[i]->times[MARE_STOPPED]), 1);
        mare__task_release(&probes[i]->task);
    }
}

// An object in a channel that nobody empties: its end, at the end of all, cancels a task.
struct holder {
    struct mare__object object;
    struct probe *probe;
};

static void end_holder(struct mare__object *object)
{
    mare__task_cancel(&((struct holder *)object)->probe->task);
}

static void what_is_left_is_run_by_who_stops_it(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    struct probe *probe = probe_new(runtime, receives_until_cancelled);
    struct holder holder = {.probe = probe};
    mare_channel *channel = run_channel(runtime, 1);
    mare_message message;
    probe->channel = mare__chan_new(runtime, 0); // in no list: nobody closes it
    start(probe, receives);
    mare__object_init(&holder.object, MARE__KIND_BUFFER, end_holder);
    mare__message_init(&message);
    assert_true(mare__message_append_handle(&message, &holder.object));
    assert_true(mare__message_append_handle(&message, &channel->object)); // so only the end does
    assert_int_equal(mare__chan_send(channel, &message, NULL), MARE_OK);
    mare__unref(&holder.object);
    mare_chan_unref(channel);
    mare_stop(runtime);
    assert_int_equal(atomic_load(&probe->times[MARE_KILLED]), 1);
    assert_false(atomic_load(&probe->on_worker));
    assert_true(pthread_equal(probe->thread, pthread_self()));
    mare__task_release(&probe->task);
}

UNIT_TESTS(cmocka_unit_test(cancelled_it_is_told_once_in_each_state),
           cmocka_unit_test(nudged_it_is_told_once_and_goes_on),
           cmocka_unit_test(withdrawn_it_does_not_run),
           cmocka_unit_test(one_thread_at_a_time_whatever_others_do),
           cmocka_unit_test(a_cancel_meets_any_moment),
           cmocka_unit_test(those_that_wait_for_time_are_told),
           cmocka_unit_test(what_is_left_is_run_by_who_stops_it))
