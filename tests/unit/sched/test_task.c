// SPDX-License-Identifier: MIT
// Tasks: what they can wait for, who runs them, and how they are cancelled, nudged and let go from
// any thread at any moment.
#include "sched/task.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "runtime.h"
#include "sched/worker.h"

// A task that does what the case wants, and counts.
struct probe {
    struct mare__task task;
    bool (*act)(struct probe *probe); // called by its run: what it waits for next
    mare_channel *channel, *other;
    mare_message message;
    uint64_t deadline;
    sem_t *let_go;                            // what a run waits for that keeps its worker
    struct probe *partner;                    // another one that it wakes
    atomic_uint runs, inside, most, outcomes; // the last: bits of what was told
    atomic_uint times[32];                    // how often, by outcome
    atomic_bool on_worker;
    atomic_uint *destroyed;
    pthread_t thread; // that ran it last
    int64_t number;   // that it received last
};

static bool run(struct mare__task *task)
{
    struct probe *probe = MARE__ENTRY(task, struct probe, task);
    mare_value value = {.type = MARE_NIL};
    unsigned inside = atomic_fetch_add(&probe->inside, 1) + 1;
    if (inside > atomic_load(&probe->most))
        atomic_store(&probe->most, inside);
    if (!mare_message_get(&task->wait.message, 0, &value))
        probe->number = value.as.integer;
    mare__message_clear(&task->wait.message);
    probe->thread = pthread_self();
    atomic_store(&probe->on_worker, mare__this_worker() != NULL);
    atomic_fetch_add(&probe->times[task->wait.result], 1);
    atomic_fetch_or(&probe->outcomes, 1u << task->wait.result);
    bool waits = probe->act && probe->act(probe);
    atomic_fetch_sub(&probe->inside, 1);
    atomic_fetch_add(&probe->runs, 1);
    return waits;
}

static void destroy(struct mare__object *object)
{
    struct probe *probe = MARE__ENTRY(object, struct probe, task.object);
    atomic_uint *destroyed = probe->destroyed;
    if (probe->channel)
        mare_chan_unref(probe->channel);
    if (probe->other)
        mare_chan_unref(probe->other);
    mare__message_clear(&probe->message);
    free(probe);
    atomic_fetch_add(destroyed, 1);
}

static atomic_uint destroyed;

static struct probe *probe_new(mare_runtime *runtime, bool (*act)(struct probe *probe))
{
    struct probe *probe = calloc(1, sizeof *probe);
    assert_non_null(probe);
    mare__task_init(&probe->task, runtime, run, destroy);
    probe->act = act;
    probe->destroyed = &destroyed;
    probe->deadline = MARE_FOREVER;
    return probe;
}

static bool receives(struct probe *probe)
{
    return mare__task_receive(&probe->task, probe->channel, probe->deadline);
}

// The same until it is told that it cannot.
static bool receives_until_cancelled(struct probe *probe)
{
    return probe->task.wait.result != MARE_KILLED && receives(probe);
}

static bool sends(struct probe *probe)
{
    return mare__task_send(&probe->task, probe->channel, &probe->message, probe->deadline);
}

static bool sleeps(struct probe *probe)
{
    return mare__task_sleep(&probe->task, probe->deadline);
}

static bool yields_until_cancelled(struct probe *probe)
{
    return probe->task.wait.result != MARE_KILLED && mare__task_yield(&probe->task);
}

static bool keeps_its_worker(struct probe *probe)
{
    while (sem_wait(probe->let_go) != 0)
        ; // a tick
    return false;
}

static void start(struct probe *probe, bool (*wants)(struct probe *probe))
{
    assert_true(wants(probe));
    mare__task_start(&probe->task);
}

static void await(const atomic_uint *count, unsigned value)
{
    while (atomic_load(count) < value)
        sched_yield();
}

static void await_outcome(struct probe *probe, mare_err outcome)
{
    while (!(atomic_load(&probe->outcomes) & 1u << outcome))
        sched_yield();
}

static void put(mare_message *message, int64_t number)
{
    mare__message_init(message);
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
}

// Gives the test's hold back, and waits until nobody has one.
static void let_go(struct probe *probe)
{
    unsigned before = atomic_load(&destroyed);
    mare__task_release(&probe->task);
    await(&destroyed, before + 1);
}

// Nothing can move. (A worker may look around once more, for a wake that came late.)
static void await_stuck(mare_runtime *runtime)
{
    while (!mare__workers_stuck(runtime))
        sched_yield();
}

// All workers sleep.
static void await_quiet(mare_runtime *runtime)
{
    while (atomic_load(&runtime->idle_count) < atomic_load(&runtime->worker_alive))
        sched_yield();
}

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
    while (atomic_load(&process->status) != MARE__RUNNING)
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
    while (atomic_load(&process->sleep.wait.word) != MARE__WAIT_WAITING)
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

UNIT_TESTS(cmocka_unit_test(receives_what_is_sent),
           cmocka_unit_test(what_is_there_need_not_be_waited_for),
           cmocka_unit_test(sends_when_somebody_receives),
           cmocka_unit_test(a_deadline_ends_each_wait),
           cmocka_unit_test(what_comes_before_the_deadline_stops_the_timer),
           cmocka_unit_test(a_close_is_told), cmocka_unit_test(selects_one_of_several),
           cmocka_unit_test(a_computation_gives_way), cmocka_unit_test(nobody_starves),
           cmocka_unit_test(ready_ones_are_no_deadlock),
           cmocka_unit_test(a_worker_that_is_stuck_keeps_no_task),
           cmocka_unit_test(it_can_have_a_line_of_its_own),
           cmocka_unit_test(cancelled_it_is_told_once_in_each_state),
           cmocka_unit_test(nudged_it_is_told_once_and_goes_on),
           cmocka_unit_test(withdrawn_it_does_not_run),
           cmocka_unit_test(one_thread_at_a_time_whatever_others_do),
           cmocka_unit_test(a_cancel_meets_any_moment),
           cmocka_unit_test(those_that_wait_for_time_are_told),
           cmocka_unit_test(what_is_left_is_run_by_who_stops_it))
