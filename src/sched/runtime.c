// SPDX-License-Identifier: MIT
// A runtime from start to stop, and the threads that wait for it from outside.
#include <stdlib.h>

#include "base/alloc.h"
#include "sched/libraries.h"
#include "sched/local.h"
#include "sched/look.h"
#include "sched/process.h"
#include "sched/profile.h"
#include "sched/runtime.h"
#include "sched/state.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "sched/worker.h"

static void runtime_free(mare_runtime *runtime)
{
    if (runtime->harvest)
        mare__harvest_destroy(runtime->harvest);
    mare__offers_free(runtime);
    mare__sites_free(runtime);
    mare__profile_free(runtime);
    if (runtime->names)
        mare__directory_destroy(runtime->names);
    mare__tasks_finish(runtime);
    for (struct mare__lookout *lookout; (lookout = runtime->lookouts) != NULL;) {
        runtime->lookouts = lookout->next;
        lookout->destroy(lookout);
    }
    struct mare__jobs *jobs = atomic_load(&runtime->jobs);
    if (jobs)
        atomic_load (&runtime->jobs_stop)(jobs);
    pthread_mutex_destroy(&runtime->end_mutex);
    pthread_mutex_destroy(&runtime->worker_mutex);
    pthread_mutex_destroy(&runtime->offer_mutex);
    pthread_mutex_destroy(&runtime->look_mutex);
    pthread_mutex_destroy(&runtime->trace.mutex);
    mare__free(runtime);
}

mare_err mare__runtime_start(const struct mare__platform *platform, const mare_options *options,
                             lua_CFunction (*module)(const char *name),
                             const struct mare__class *classes, mare_runtime **out)
{
    static const mare_options defaults;
    if (!options)
        options = &defaults;
    mare_runtime *runtime = mare__alloc_zero(sizeof *runtime);
    if (!runtime)
        return MARE_NOMEM;
    mare__barrier_init();
    runtime->platform = *platform;
    runtime->seed = runtime->platform.random(runtime->platform.context);
    runtime->module = module;
    runtime->classes = classes;
    runtime->owner = runtime->channels.owner = mare__os_process();
    mare__list_init(&runtime->idle);
    mare__list_init(&runtime->processes);
    mare__list_init(&runtime->visits);
    mare__list_init(&runtime->keepers);
    mare__list_init(&runtime->lingering);
    mare__list_init(&runtime->channels.list);
    mare__list_init(&runtime->channels.tours);
    mare__list_init(&runtime->sources.all);
    mare__list_init(&runtime->end_waiters);
    atomic_init(&runtime->next_deadline, MARE_FOREVER);
    atomic_init(&runtime->exit_code, -1);
    atomic_init(&runtime->recycle_limit, options->recycle);
    runtime->gc_stress = getenv("MARE_GC_STRESS") != NULL;
    const char *busy_wait = getenv("MARE_BUSY_WAIT");
    // With one processor, the other thread could not run meanwhile.
    runtime->busy_waits = mare__cpu_count() > 1 && !(busy_wait && strcmp(busy_wait, "0") == 0);
    pthread_mutex_init(&runtime->worker_mutex, NULL);
    pthread_mutex_init(&runtime->offer_mutex, NULL);
    pthread_mutex_init(&runtime->look_mutex, NULL);
    pthread_mutex_init(&runtime->end_mutex, NULL);
    pthread_mutex_init(&runtime->trace.mutex, NULL);
    runtime->harvest = mare__harvest_create();
    runtime->names = runtime->channels.names = mare__directory_create();
    mare_err err = runtime->harvest && runtime->names ? MARE_OK : MARE_NOMEM;
    if (!err)
        err = mare__workers_set(runtime, options->workers ? options->workers : mare__cpu_count());
    if (err) {
        mare__workers_stop(runtime);
        runtime_free(runtime);
        return err;
    }
    *out = runtime;
    return MARE_OK;
}

bool mare__runtime_valid(const mare_runtime *runtime)
{
    return runtime->owner == mare__os_process();
}

// ---- Waiting for its end ------------------------------------------------------------------------

// A thread that waits, on its stack.
struct waiter {
    struct mare__list entry;
    struct mare__parker parker;
};

bool mare__runtime_await_that(mare_runtime *runtime, bool (*holds)(void *argument), void *argument,
                              uint64_t deadline)
{
    struct waiter waiter = {.parker.word = 0};
    bool in_time = true, so;
    pthread_mutex_lock(&runtime->end_mutex);
    mare__list_append(&runtime->end_waiters, &waiter.entry);
    while (!(so = holds(argument)) && in_time) {
        pthread_mutex_unlock(&runtime->end_mutex);
        in_time = mare__runtime_park(runtime, &waiter.parker, deadline);
        pthread_mutex_lock(&runtime->end_mutex);
    }
    mare__list_remove(&waiter.entry);
    pthread_mutex_unlock(&runtime->end_mutex);
    return so;
}

// Under the mutex.
static void wake_waiters(mare_runtime *runtime)
{
    for (struct mare__list *at = runtime->end_waiters.next; at != &runtime->end_waiters;
         at = at->next)
        mare__unpark(&MARE__ENTRY(at, struct waiter, entry)->parker);
}

void mare__runtime_changed(mare_runtime *runtime)
{
    pthread_mutex_lock(&runtime->end_mutex);
    wake_waiters(runtime);
    pthread_mutex_unlock(&runtime->end_mutex);
}

void mare__runtime_left(mare_runtime *runtime)
{
    // Under the mutex: a thread that waits for the end needs it before it can free the runtime.
    pthread_mutex_lock(&runtime->end_mutex);
    atomic_fetch_sub(&runtime->own_threads, 1);
    wake_waiters(runtime);
    pthread_mutex_unlock(&runtime->end_mutex);
}

static bool has_no_threads(void *argument)
{
    mare_runtime *runtime = argument;
    return atomic_load(&runtime->own_threads) == 0;
}

void mare__runtime_await_threads(mare_runtime *runtime)
{
    mare__runtime_await_that(runtime, has_no_threads, runtime, MARE_FOREVER);
}

struct ending {
    mare_runtime *runtime;
    bool or_stuck;
    mare_err err; // how the wait has ended
};

static bool has_ended(void *argument)
{
    struct ending *ending = argument;
    mare_runtime *runtime = ending->runtime;
    ending->err = MARE_OK;
    unsigned live = atomic_load(&runtime->live);
    if (live == 0)
        return true;
    bool given_up = live <= atomic_load(&runtime->given_up);
    if (ending->or_stuck && (given_up || atomic_load(&runtime->exit_code) >= 0))
        ending->err = MARE_STOPPED;
    else if (ending->or_stuck && mare__workers_stuck(runtime))
        ending->err = MARE_DEADLOCK;
    return ending->err != MARE_OK;
}

mare_err mare__runtime_await(mare_runtime *runtime, bool or_stuck, uint64_t deadline)
{
    struct ending ending = {.runtime = runtime, .or_stuck = or_stuck};
    atomic_fetch_add(&runtime->waiters, 1);
    bool so = mare__runtime_await_that(runtime, has_ended, &ending, deadline);
    atomic_fetch_sub(&runtime->waiters, 1);
    return so ? ending.err : MARE_TIMEOUT;
}

mare_err mare_wait_until(mare_runtime *runtime, uint64_t deadline)
{
    if (!mare__runtime_valid(runtime))
        return MARE_STOPPED;
    return mare__runtime_await(runtime, false, deadline);
}

// ---- All processes ------------------------------------------------------------------------------

void mare__visit_begin(struct mare__visit *visit, mare_runtime *runtime)
{
    visit->runtime = runtime;
    mare__lock_acquire(&runtime->process_lock);
    mare__tour_begin(&visit->tour, &runtime->visits, &runtime->processes);
    mare__lock_release(&runtime->process_lock);
}

void mare__visit_end(struct mare__visit *visit)
{
    mare__lock_acquire(&visit->runtime->process_lock);
    mare__tour_end(&visit->tour);
    mare__lock_release(&visit->runtime->process_lock);
}

struct mare__local *mare__visit_next(struct mare__visit *visit)
{
    struct mare__local *process = NULL;
    mare__lock_acquire(&visit->runtime->process_lock);
    struct mare__list *entry = mare__tour_next(&visit->tour, &visit->runtime->processes);
    if (entry) {
        process = MARE__ENTRY(entry, struct mare__local, in_all);
        mare__ref(&process->shared.object); // a live one has others: see mare__local_launch
    }
    mare__lock_release(&visit->runtime->process_lock);
    return process;
}

void mare__runtime_kill_all(mare_runtime *runtime, const char *reason)
{
    struct mare__visit visit;
    struct mare__local *process;
    mare__visit_begin(&visit, runtime);
    while ((process = mare__visit_next(&visit)) != NULL) {
        mare__local_kill(process, reason);
        mare_process_unref(&process->shared);
    }
    mare__visit_end(&visit);
}

// Nothing runs any more.
static void make_last_call(mare_runtime *runtime)
{
    void (*last_call)(mare_runtime *) = atomic_load(&runtime->last_call);
    if (!last_call)
        return;
    if (runtime->in_last_call)
        atomic_store(runtime->in_last_call, true);
    last_call(runtime);
    if (runtime->in_last_call)
        atomic_store(runtime->in_last_call, false);
}

void mare_stop(mare_runtime *runtime)
{
    if (!mare__runtime_valid(runtime))
        return;
    atomic_store(&runtime->stopping, true);
    for (uint64_t spawned = UINT64_MAX; atomic_load(&runtime->live) > 0;) {
        mare_stats stats;
        mare_get_stats(runtime, &stats);
        if (stats.spawned != spawned) // what a dying process still spawns dies too
            mare__runtime_kill_all(runtime, "the runtime stops");
        spawned = stats.spawned;
        mare__runtime_await(runtime, false, mare__now(runtime) + 10000000u);
    }
    if (runtime->sources.stop)
        runtime->sources.stop(runtime);
    mare__timer_expire(runtime, MARE_FOREVER);
    mare__workers_stop(runtime);
    struct mare__log *log = atomic_load(&runtime->log);
    if (log)
        atomic_load (&runtime->log_stop)(log);
    mare__tasks_finish(runtime);
    mare__state_trim(runtime, 0);
    mare__local_release_kept(runtime);
    mare__chan_empty_all(&runtime->channels);
    mare__tasks_finish(runtime); // of objects that have ended just now
    make_last_call(runtime);
    runtime_free(runtime);
}

uint64_t mare_now_ns(const mare_runtime *runtime)
{
    return mare__now(runtime);
}

uint64_t mare_deadline_ms(const mare_runtime *runtime, uint64_t timeout_ms)
{
    uint64_t now = mare__now(runtime);
    return timeout_ms > (MARE_FOREVER - 1 - now) / 1000000u ? MARE_FOREVER
                                                            : now + timeout_ms * 1000000u;
}

mare_err mare_set_workers(mare_runtime *runtime, unsigned workers)
{
    return mare__runtime_valid(runtime) ? mare__workers_set(runtime, workers) : MARE_STOPPED;
}

void mare_set_recycle(mare_runtime *runtime, unsigned states)
{
    if (!mare__runtime_valid(runtime))
        return;
    atomic_store(&runtime->recycle_limit, states);
    mare__state_trim(runtime, states);
}
