// SPDX-License-Identifier: MIT
// The pool: a line of jobs and some threads for each lane.
//
//     start ──▶ [line] ──▶ a thread: run ──▶ over: `done` is closed, holder let go
//                 │                  └─────▶ nobody waits any more: lost, counts no longer
//                 └── nobody waits any more: never begun
//
// A thread is made when all are busy, and ends when it has been idle for a while. At most AT_WORK
// threads of a lane do work that somebody waits for. Others may be lost: stuck in a call that does
// not return, for a job that nobody waits for any more. All threads are detached, so a stuck one
// holds up nobody. The runtime, the threads, the jobs and open files hold the pool, which may
// outlive the runtime. To touch the runtime, take the lock and check that the runtime is still
// there.
#include "loop/job.h"

#include <errno.h>

#include "base/alloc.h"
#include "sched/runtime.h"

enum { AT_WORK = 16, LOST_MAX = 48 };

// A thread with nothing to do. It lies on that thread's stack.
struct idler {
    struct mare__list entry;
    struct mare__parker parker;
};

struct lane {
    struct mare__jobs *jobs;
    struct mare__list line; // of jobs that wait for a thread
    struct mare__list idle; // of struct idler; the last to become idle is called first
    // All threads, those with a job, and those whose job nobody waits for.
    unsigned threads, busy, lost;
};

struct mare__jobs {
    atomic_uint holders;
    struct mare__platform platform;
    long owner;            // the operating-system process whose threads these are
    pthread_mutex_t mutex; // guards all that follows, and the jobs
    mare_runtime *runtime; // NULL once it has ended
    struct lane lanes[MARE__LANES];
    bool at_once;              // the platform has no threads: the starter does the job
    unsigned holding_up;       // jobs that run and have `holds_up`
    struct mare__parker *ends; // the thread that ends the runtime, waiting for those
};

// ---- The pool's own life ------------------------------------------------------------------------

struct mare__jobs *mare__jobs_ref(struct mare__jobs *jobs)
{
    // Relaxed: the caller is a holder already.
    atomic_fetch_add_explicit(&jobs->holders, 1, memory_order_relaxed);
    return jobs;
}

void mare__jobs_unref(struct mare__jobs *jobs)
{
    // Acquire and release, as in mare__unref.
    if (atomic_fetch_sub_explicit(&jobs->holders, 1, memory_order_acq_rel) > 1)
        return;
    pthread_mutex_destroy(&jobs->mutex);
    mare__free(jobs);
}

const struct mare__platform *mare__jobs_platform(const struct mare__jobs *jobs)
{
    return &jobs->platform;
}

// False in a fork of the program: a thread that does not exist there may hold the lock for ever.
static bool is_usable(const struct mare__jobs *jobs)
{
    return jobs->owner == mare__os_process();
}

static void call_idler(struct lane *lane)
{
    struct mare__list *entry = lane->idle.prev;
    mare__list_remove(entry); // so that nobody calls it twice. It stays on its thread's stack: that
                              // thread cannot go on without the mutex, which the caller holds
    mare__unpark(&MARE__ENTRY(entry, struct idler, entry)->parker);
}

static const uint64_t PATIENCE = 1000000000u; // how long the end waits for those jobs

// Under the lock.
static void await_those_who_hold_up(struct mare__jobs *jobs)
{
    struct mare__parker parker = {.word = 0};
    uint64_t now = jobs->platform.now_ns(jobs->platform.context), deadline = now + PATIENCE;
    jobs->ends = &parker;
    for (bool called = true; jobs->holding_up > 0 && called;) {
        pthread_mutex_unlock(&jobs->mutex);
        called = jobs->platform.park(jobs->platform.context, &parker, deadline);
        pthread_mutex_lock(&jobs->mutex);
    }
    jobs->ends = NULL;
}

static void stop(struct mare__jobs *jobs)
{
    pthread_mutex_lock(&jobs->mutex);
    jobs->runtime = NULL;
    for (int i = 0; i < MARE__LANES; i++)
        while (!mare__list_empty(&jobs->lanes[i].idle))
            call_idler(&jobs->lanes[i]);
    await_those_who_hold_up(jobs);
    pthread_mutex_unlock(&jobs->mutex);
    mare__jobs_unref(jobs);
}

struct mare__jobs *mare__jobs_of(mare_runtime *runtime)
{
    struct mare__jobs *jobs = atomic_load(&runtime->jobs), *none = NULL;
    if (!mare__runtime_valid(runtime))
        return NULL;
    if (jobs)
        return jobs;
    jobs = mare__alloc_zero(sizeof *jobs);
    if (!jobs)
        return NULL;
    atomic_init(&jobs->holders, 1);
    jobs->platform = runtime->platform;
    jobs->owner = runtime->owner;
    jobs->runtime = runtime;
    pthread_mutex_init(&jobs->mutex, NULL);
    for (int i = 0; i < MARE__LANES; i++) {
        jobs->lanes[i].jobs = jobs;
        mare__list_init(&jobs->lanes[i].line);
        mare__list_init(&jobs->lanes[i].idle);
    }
    atomic_store(&runtime->jobs_stop, stop);
    if (!atomic_compare_exchange_strong(&runtime->jobs, &none, jobs)) { // another thread was
                                                                        // quicker
        mare__jobs_unref(jobs);
        return none;
    }
    return jobs;
}

// ---- Jobs ---------------------------------------------------------------------------------------

static void release(struct mare__job *job)
{
    // Acquire and release, as in mare__unref.
    if (atomic_fetch_sub_explicit(&job->holders, 1, memory_order_acq_rel) > 1)
        return;
    struct mare__jobs *jobs = job->jobs;
    if (job->done)
        mare_chan_unref(job->done);
    job->end(job);
    mare__jobs_unref(jobs);
}

// Nobody waits for the job any more, or it is over: the deadlock detector need not count it. Under
// the lock.
static void uncount(struct mare__job *job)
{
    mare_runtime *runtime = job->jobs->runtime;
    if (!runtime)
        return;
    atomic_fetch_sub(&runtime->own_busy, 1);
    if (atomic_load(&runtime->waiters) > 0)
        mare__runtime_changed(runtime); // the rest of the program may be in a deadlock now
}

static bool can_grow(const struct lane *lane)
{
    return lane->threads - lane->lost < AT_WORK && lane->threads < AT_WORK + LOST_MAX;
}

static void *serve(void *argument);

// There is a job in the line: calls an idle thread, or makes one. Under the lock.
static void call(struct lane *lane)
{
    if (!mare__list_empty(&lane->idle)) {
        call_idler(lane);
    } else if (can_grow(lane)) {
        mare__jobs_ref(lane->jobs);
        lane->threads++;
        const struct mare__platform *platform = &lane->jobs->platform;
        int err = platform->start_apart(platform->context, "mare-job", serve, lane);
        lane->jobs->at_once = err == ENOTSUP;
        if (err && !lane->jobs->at_once) {
            lane->threads--;
            mare__jobs_unref(lane->jobs);
        }
    }
}

// Nobody waits for the job any more. True: it has not begun and never will, so the caller gives
// back the pool's hold. Under the lock.
static bool abandon(struct mare__job *job)
{
    struct lane *lane = &job->jobs->lanes[job->lane];
    bool begun = job->stage == MARE__JOB_RUNS;
    if (begun) {
        job->lost = true;
        lane->lost++;
        if (!mare__list_empty(&lane->line))
            call(lane);
    } else {
        mare__list_remove(&job->entry);
        job->stage = MARE__JOB_OVER;
        bool about_to_begin = can_grow(lane) || lane->busy < lane->threads;
        job->held_back = about_to_begin ? 0 : lane->lost;
        atomic_store(&job->over, true);
    }
    return !begun;
}

static void leave(struct mare__job *job, unsigned waiters)
{
    bool dropped = false;
    pthread_mutex_lock(&job->jobs->mutex);
    bool last = job->waiters > 0 && job->waiters == waiters;
    job->waiters -= waiters;
    if (last && job->stage != MARE__JOB_OVER) {
        dropped = abandon(job);
        uncount(job);
    }
    pthread_mutex_unlock(&job->jobs->mutex);
    if (!dropped)
        return;
    if (job->drop)
        job->drop(job);
    release(job);
}

void mare__job_leave(struct mare__job *job)
{
    leave(job, 1);
}

void mare__job_expect(struct mare__job *job)
{
    pthread_mutex_lock(&job->jobs->mutex);
    if (job->waiters++ == 0 && job->stage != MARE__JOB_OVER) {
        atomic_fetch_add(&job->jobs->runtime->own_busy, 1);
        job->jobs->lanes[job->lane].lost -= job->lost;
        job->lost = false;
    }
    pthread_mutex_unlock(&job->jobs->mutex);
}

bool mare__job_is_lost(struct mare__job *job)
{
    pthread_mutex_lock(&job->jobs->mutex);
    bool lost = job->lost;
    pthread_mutex_unlock(&job->jobs->mutex);
    return lost;
}

// All who asked for it are gone. A process that was killed in the wait has not called
// mare__job_leave.
static void destroy(struct mare__object *object)
{
    struct mare__job *job = (struct mare__job *)object;
    if (!is_usable(job->jobs))
        return;
    if (job->waiters > 0) // of this thread, or of one that gave its references away
        leave(job, job->waiters);
    release(job);
}

bool mare__job_init(struct mare__job *job, mare_runtime *runtime, enum mare__lane lane,
                    void (*run)(struct mare__job *job), void (*end)(struct mare__job *job))
{
    static const enum mare__tells tells[MARE__LANES] = {
        [MARE__LANE_FILES] = MARE__TELLS_FILE,
        [MARE__LANE_RESOLVE] = MARE__TELLS_RESOLVE,
        [MARE__LANE_DATABASE] = MARE__TELLS_DATABASE,
    };
    struct mare__event event = {.tells = tells[lane]};
    struct mare__jobs *jobs = mare__jobs_of(runtime);
    job->done = jobs ? mare__chan_new_event(runtime, 0, event) : NULL;
    if (!job->done)
        return false;
    mare__object_init(&job->object, MARE__KIND_REQUEST, destroy);
    job->object.weight = sizeof *job + sizeof *job->done;
    atomic_init(&job->holders, 1);
    mare__list_init(&job->entry);
    job->jobs = mare__jobs_ref(jobs);
    job->lane = lane;
    job->run = run;
    job->end = end;
    return true;
}

bool mare__job_start(struct mare__job *job)
{
    struct lane *lane = &job->jobs->lanes[job->lane];
    // Relaxed: the caller is a holder already.
    atomic_fetch_add_explicit(&job->holders, 1, memory_order_relaxed); // for the pool
    pthread_mutex_lock(&job->jobs->mutex);
    mare__list_append(&lane->line, &job->entry);
    call(lane);
    bool hopeless = lane->threads == 0, at_once = job->jobs->at_once;
    if (hopeless)
        mare__list_remove(&job->entry);
    pthread_mutex_unlock(&job->jobs->mutex);
    if (hopeless)
        release(job);
    else if (at_once)
        serve(lane);
    return !hopeless;
}

// ---- Threads ------------------------------------------------------------------------------------

// The next job, once there is one. NULL: the thread must end. Under the lock.
static struct mare__job *next(struct lane *lane)
{
    struct mare__jobs *jobs = lane->jobs;
    for (bool idle = false;;) {
        struct mare__list *entry = mare__list_first(&lane->line);
        if (entry) {
            struct mare__job *job = MARE__ENTRY(entry, struct mare__job, entry);
            mare__list_remove(entry);
            job->stage = MARE__JOB_RUNS;
            lane->busy++;
            jobs->holding_up += job->holds_up;
            return job;
        }
        if (idle || !jobs->runtime || jobs->at_once || lane->threads - lane->lost > AT_WORK)
            return NULL;
        struct idler idler = {.parker.word = 0};
        mare__list_append(&lane->idle, &idler.entry);
        pthread_mutex_unlock(&jobs->mutex);
        uint64_t now = jobs->platform.now_ns(jobs->platform.context);
        idle = !jobs->platform.park(jobs->platform.context, &idler.parker, now + MARE__JOB_IDLE_NS);
        pthread_mutex_lock(&jobs->mutex);
        idle = idle && !mare__list_empty(&idler.entry); // or it was called as its time ran out
        mare__list_remove(&idler.entry);
    }
}

// Under the lock. Makes the waiters ready before it stops counting the job: else the program would
// look stuck for a moment.
static void finish(struct lane *lane, struct mare__job *job)
{
    job->stage = MARE__JOB_OVER;
    lane->busy--;
    lane->lost -= job->lost;
    // Release: pairs with the acquire in mare__job_is_over.
    atomic_store_explicit(&job->over, true, memory_order_release);
    if (!lane->jobs->runtime)
        return;
    if (job->done)
        mare_chan_close(job->done);
    if (job->waiters > 0)
        uncount(job);
}

static void *serve(void *argument)
{
    struct lane *lane = argument;
    struct mare__jobs *jobs = lane->jobs;
    struct mare__job *job;
    pthread_mutex_lock(&jobs->mutex);
    while ((job = next(lane)) != NULL) {
        pthread_mutex_unlock(&jobs->mutex);
        job->run(job);
        pthread_mutex_lock(&jobs->mutex);
        finish(lane, job);
        bool held_up = job->holds_up;
        pthread_mutex_unlock(&jobs->mutex);
        release(job);
        pthread_mutex_lock(&jobs->mutex);
        jobs->holding_up -= held_up;
        if (held_up && jobs->ends)
            mare__unpark(jobs->ends);
    }
    lane->threads--;
    pthread_mutex_unlock(&jobs->mutex);
    mare__jobs_unref(jobs);
    return NULL;
}

// ---- For nobody ---------------------------------------------------------------------------------

struct posted {
    struct mare__job job;
    void (*function)(void *argument);
    void *argument;
};

static void run_posted(struct mare__job *job)
{
    struct posted *posted = (struct posted *)job;
    posted->function(posted->argument);
}

static void end_posted(struct mare__job *job)
{
    mare__free(job);
}

void mare__jobs_post(struct mare__jobs *jobs, enum mare__lane lane,
                     void (*function)(void *argument), void *argument)
{
    struct posted *posted = is_usable(jobs) ? mare__alloc_zero(sizeof *posted) : NULL;
    bool started = false;
    if (posted) {
        posted->function = function;
        posted->argument = argument;
        posted->job.run = run_posted;
        posted->job.end = end_posted;
        posted->job.jobs = mare__jobs_ref(jobs);
        posted->job.lane = lane;
        atomic_init(&posted->job.holders, 1);
        mare__list_init(&posted->job.entry);
        pthread_mutex_lock(&jobs->mutex);
        bool goes_on = jobs->runtime != NULL; // false: all threads end, so call it here
        pthread_mutex_unlock(&jobs->mutex);
        started = goes_on && mare__job_start(&posted->job);
        release(&posted->job);
    }
    if (!started)
        function(argument);
}
