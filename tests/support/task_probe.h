// SPDX-License-Identifier: MIT
// A task for the tests of tasks: it waits for what a case wants, and counts how it was run.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "runtime.h"
#include "sched/task.h"
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

static inline bool run(struct mare__task *task)
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

static inline void destroy(struct mare__object *object)
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

static inline struct probe *probe_new(mare_runtime *runtime, bool (*act)(struct probe *probe))
{
    struct probe *probe = calloc(1, sizeof *probe);
    assert_non_null(probe);
    mare__task_init(&probe->task, runtime, run, destroy);
    probe->act = act;
    probe->destroyed = &destroyed;
    probe->deadline = MARE_FOREVER;
    return probe;
}

static inline bool receives(struct probe *probe)
{
    return mare__task_receive(&probe->task, probe->channel, probe->deadline);
}

// The same until it is told that it cannot.
static inline bool receives_until_cancelled(struct probe *probe)
{
    return probe->task.wait.result != MARE_KILLED && receives(probe);
}

static inline bool sends(struct probe *probe)
{
    return mare__task_send(&probe->task, probe->channel, &probe->message, probe->deadline);
}

static inline bool sleeps(struct probe *probe)
{
    return mare__task_sleep(&probe->task, probe->deadline);
}

static inline bool yields_until_cancelled(struct probe *probe)
{
    return probe->task.wait.result != MARE_KILLED && mare__task_yield(&probe->task);
}

static inline bool keeps_its_worker(struct probe *probe)
{
    while (sem_wait(probe->let_go) != 0)
        ; // a tick
    return false;
}

static inline void start(struct probe *probe, bool (*wants)(struct probe *probe))
{
    assert_true(wants(probe));
    mare__task_start(&probe->task);
}

static inline void await(const atomic_uint *count, unsigned value)
{
    while (atomic_load(count) < value)
        sched_yield();
}

static inline void await_outcome(struct probe *probe, mare_err outcome)
{
    while (!(atomic_load(&probe->outcomes) & 1u << outcome))
        sched_yield();
}

static inline void put(mare_message *message, int64_t number)
{
    mare__message_init(message);
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
}

// Gives the test's hold back, and waits until nobody has one.
static inline void let_go(struct probe *probe)
{
    unsigned before = atomic_load(&destroyed);
    mare__task_release(&probe->task);
    await(&destroyed, before + 1);
}

// Nothing can move. (A worker may look around once more, for a wake that came late.)
static inline void await_stuck(mare_runtime *runtime)
{
    while (!mare__workers_stuck(runtime))
        sched_yield();
}

// All workers sleep.
static inline void await_quiet(mare_runtime *runtime)
{
    while (atomic_load(&runtime->idle_count) < atomic_load(&runtime->worker_alive))
        sched_yield();
}
