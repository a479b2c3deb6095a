// SPDX-License-Identifier: MIT
// Workers: threads that run ready processes. ready.c has who is ready, and in which order they run.
//
//     ready -> run -> waits | gives way | ends
//
// Sleep and wake: a worker announces itself as idle, then looks once more everywhere, then sleeps
// (rest). A thread that adds work that another could do, or a timer, first adds it and then looks
// at the idle count (mare__workers_wake). Between its two steps each has a full fence, so at least
// one of the two sees what the other did first.
#include <assert.h>
#include <stdio.h>

#include "sched/block.h"
#include "sched/local.h"
#include "sched/look.h"
#include "sched/preempt.h"
#include "sched/ready.h"
#include "sched/routine.h"
#include "sched/runtime.h"
#include "sched/task.h"
#include "sched/timer.h"
#include "sched/worker.h"

void mare__worker_tick(struct mare__worker *worker, uint64_t period_ns)
{
    const struct mare__platform *platform = &worker->runtime->platform;
    platform->tick_set(platform->context, &worker->tick, period_ns);
}

void mare__workers_look(mare_runtime *runtime)
{
    struct mare__worker *worker = mare__this_worker();
    if (!worker || worker->runtime != runtime)
        mare__workers_wake(runtime);
}

// ---- Running ------------------------------------------------------------------------------------

// So many routines of a process may run after each other, none of them for long, before another
// process that waits has its turn.
enum { TURNS_OF_ROUTINES = 16 };

// Whether others shall have the worker, now that the process that has it could go on: those that
// stand in its own lines, and with each tick all others, the timers and what is watched.
static bool is_wanted(const struct mare__worker *worker)
{
    return mare__others_wait(worker) || worker->ticked || !worker->tick.made;
}

// Gives the process the worker until it waits, its turn is over or it ends.
static inline __attribute__((always_inline)) void run(struct mare__worker *worker,
                                                      struct mare__local *process)
{
    int arguments = 0, results = 0, turns = 0;
    process->worker = worker;
    mare__count(&process->slices);
    mare__count(&worker->counters.switches);
    for (;;) {
        mare__look_out(worker->runtime, process);
        if (process->pool && !mare__pool_next(process, &arguments))
            return;
        if (mare__killed(process)) {
            mare__local_finish(process, LUA_YIELD, 0);
            return;
        }
        if (!process->state && !mare__local_start(process, &arguments))
            return;
        process->yield = MARE__YIELD_BY_PROGRAM;
        worker->age_ns = 0;
        worker->running = process;
        int status = lua_resume(process->routine, NULL, arguments, &results);
        worker->running = NULL;
        arguments = 0;
        if (process->pool) {
            if (!mare__pool_back(process, &status, &results)) {
                mare__local_finish(process, status, results);
                return;
            }
            bool yields = process->yield != MARE__YIELD_WAIT;
            bool whole = yields || ++turns >= TURNS_OF_ROUTINES;
            if (worker->ticked || (yields && mare__ready_common(worker->runtime)) ||
                (whole && (is_wanted(worker) || mare__lookout_in(worker)))) {
                // After a tick in any case: a timer may be due, or the worker may be to leave.
                mare__ready_again(worker, process);
                return;
            }
            continue;
        }
        if (status != LUA_YIELD) {
            if (process->is_read && status == LUA_OK) { // and its program begins: see local.c
                process->is_read = false;
                arguments = results - 1;
                continue;
            }
            mare__local_finish(process, status, results);
            return;
        }
        if (results > 0)
            lua_pop(process->state, results);
        if (process->yield != MARE__YIELD_WAIT) {
            mare__ready_again(worker, process);
            return;
        }
        // Release: who looks at it (look.c) finds the state as it was left.
        atomic_store_explicit(&process->status, MARE__BLOCKED, memory_order_release);
        if (mare__sleep_commit(process, &process->sleep))
            return;
        if (is_wanted(worker)) { // it need not wait, but had its turn: a loop of selects is one
            mare__ready(process);
            return;
        }
    }
}

// Messages that it writes meanwhile count against its limit, if it has one.
static inline __attribute__((always_inline)) void run_paying(struct mare__worker *worker,
                                                             struct mare__local *process)
{
    mare__paying = process->account;
    run(worker, process);
    mare__paying = NULL;
}

// For who only looks: a process in the slot of a worker that has yet to leave idleness counts too.
static bool ready_anywhere(mare_runtime *runtime)
{
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        if (atomic_load(&runtime->workers[i]->slot))
            return true;
    return mare__ready_anywhere(runtime) || mare__tasks_are_ready(runtime);
}

static void leave_idle(struct mare__worker *worker)
{
    mare_runtime *runtime = worker->runtime;
    mare__lock_acquire(&runtime->idle_lock);
    if (worker->is_idle) {
        mare__list_remove(&worker->idle);
        worker->is_idle = false;
        atomic_fetch_sub(&runtime->idle_count, 1);
    }
    mare__lock_release(&runtime->idle_lock);
}

// ---- Watching -----------------------------------------------------------------------------------

// A busy worker looks at what it watches every so many runs, and with every tick.
enum { RUNS_BETWEEN_LOOKS = 32 };

static void look(struct mare__worker *worker)
{
    struct mare__lookout *lookout = mare__lookout_in(worker);
    worker->runs = 0;
    if (lookout)
        lookout->wait(lookout, 0);
}

// The same of one who has something to do: not if the last look has shown that there is more of it
// than others would add.
static void look_too(struct mare__worker *worker)
{
    struct mare__lookout *lookout = mare__lookout_in(worker);
    if (lookout && lookout->spared > 0 && !atomic_load(&lookout->called)) {
        lookout->spared--;
        worker->runs = 0;
    } else {
        look(worker);
    }
}

static bool anything_looked_for(mare_runtime *runtime)
{
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        if (mare__lookout_in(runtime->workers[i]))
            return true;
    return false;
}

// What a worker that was dismissed has not come to goes to the inbox; and somebody else looks at
// the timers, for this one may have started one that nobody has looked at.
static void hand_over(struct mare__worker *worker)
{
    struct mare__local *left;
    mare__thread_data = NULL; // so that what it makes ready goes there
    while ((left = mare__ready_take_slot(worker)) || (left = mare__ready_take_queue(worker)))
        mare__ready(left);
    mare__tasks_hand_over(worker);
    mare__workers_wake(worker->runtime);
}

// A worker that was dismissed but watches something stays for that, unless the runtime stops.
static bool is_to_watch(const struct mare__worker *worker)
{
    return atomic_load(&worker->quit) && !atomic_load(&worker->runtime->stopping) &&
           mare__lookout_in(worker) != NULL;
}

static void only_watch(struct mare__worker *worker)
{
    mare__worker_tick(worker, 0);
    hand_over(worker);
    while (is_to_watch(worker)) {
        // Not mare__lookout_in: the last thing to watch may end just now, on another thread that
        // has the turn of the loop, and then there is nothing "in" it. The lookout itself stays.
        struct mare__lookout *lookout = atomic_load(&worker->lookout);
        lookout->wait(lookout, MARE_FOREVER);
    }
    mare__worker_tick(worker, MARE__TICK_NS);
    mare__thread_data = worker;
}

// ---- Idleness -----------------------------------------------------------------------------------

// To stop the tick and to start it again takes as long as a short rest. So after some short rests
// the tick goes on in the next one. If it comes before that is over, it stops itself.
static void pause_tick(struct mare__worker *worker)
{
    enum { AFTER = 3 };
    worker->resting = 1;
    if (worker->short_rests < AFTER)
        mare__worker_tick(worker, 0);
}

static void resume_tick(struct mare__worker *worker)
{
    worker->resting = 0;
    atomic_signal_fence(memory_order_seq_cst); // from here on a tick does not stop itself any more
    if (worker->tick.period_ns == 0)
        mare__worker_tick(worker, MARE__TICK_NS);
}

static void note_rest(struct mare__worker *worker, uint64_t ns)
{
    enum { SHORT_NS = 500000 };
    worker->short_rests = ns < SHORT_NS ? worker->short_rests + (worker->short_rests < 1000) : 0;
    mare__vigil_rested(&worker->vigil, ns);
}

// Begins to rest: there is nothing to do. False: there may be, now that others know of it. Else it
// may sleep until it is woken, or until the time in *until_ns.
static bool rest(struct mare__worker *worker, uint64_t *until_ns)
{
    mare_runtime *runtime = worker->runtime;
    // Nobody would find what is in its slot now. But only this thread fills it, and has just found
    // it empty; what fills it from here on (an event that it watches) ends its rest.
    assert(!atomic_load_explicit(&worker->slot, memory_order_relaxed));
    pause_tick(worker);
    mare__lock_acquire(&runtime->idle_lock);
    mare__list_append(&runtime->idle, &worker->idle);
    worker->is_idle = true;
    unsigned idle = atomic_fetch_add(&runtime->idle_count, 1) + 1;
    mare__lock_release(&runtime->idle_lock);
    // Announced; now it looks, for work and at the next deadline. Pairs with mare__workers_wake.
    atomic_thread_fence(memory_order_seq_cst);
    if (mare__ready_anywhere(runtime) || atomic_load(&worker->quit))
        return false;
    if (idle >= atomic_load(&runtime->worker_alive) && atomic_load(&runtime->waiters) > 0 &&
        atomic_load(&runtime->timer_count) == 0 && !anything_looked_for(runtime) &&
        atomic_load(&runtime->own_busy) == 0)
        mare__runtime_changed(runtime);
    *until_ns = atomic_load(&runtime->next_deadline);
    return true;
}

static void rise(struct mare__worker *worker)
{
    leave_idle(worker);
    resume_tick(worker);
}

// Sleeps until there may be something to do.
static void go_idle(struct mare__worker *worker)
{
    uint64_t until_ns;
    if (rest(worker, &until_ns)) {
        struct mare__lookout *lookout = mare__lookout_in(worker);
        uint64_t began = mare__now(worker->runtime);
        if (lookout)
            lookout->wait(lookout, until_ns ? until_ns : 1);
        else
            mare__runtime_park(worker->runtime, &worker->parker, until_ns);
        note_rest(worker, mare__now(worker->runtime) - began);
    }
    rise(worker);
}

bool mare__workers_stuck(mare_runtime *runtime)
{
    // An idle worker takes this lock (leave_idle) before it looks at timers or queues again, so
    // none begins to do something while we count.
    mare__lock_acquire(&runtime->idle_lock);
    // The order of these tests matters. An event first makes a process ready and then lessens what
    // is watched. We look at what is watched first: if the event has gone from there, its process
    // is seen among the ready.
    bool stuck = atomic_load(&runtime->idle_count) >= atomic_load(&runtime->worker_alive) &&
                 atomic_load(&runtime->timer_count) == 0 && !anything_looked_for(runtime) &&
                 !ready_anywhere(runtime) && atomic_load(&runtime->own_busy) == 0;
    mare__lock_release(&runtime->idle_lock);
    return stuck;
}

// ---- A step -------------------------------------------------------------------------------------

// A tick has come: the timers, what is watched, and whose turn it is now.
static void on_ticked(struct mare__worker *worker)
{
    bool crowd = mare__ready_common(worker->runtime);
    worker->ticked = 0;
    worker->fresh_ticked |= mare__ready_common_turn(worker) && !worker->spent_turn;
    worker->common_first = crowd && !mare__ready_common_turn(worker);
    if (worker->tick.period_ns != MARE__TICK_NS && !crowd)
        mare__worker_tick(worker, MARE__TICK_NS);
    mare__timer_expire(worker->runtime, mare__now(worker->runtime));
    look_too(worker);
}

// Nobody is ready in its own lines: everywhere else. A task of another is run where it is found.
static struct mare__local *find_elsewhere(struct mare__worker *worker)
{
    mare__timer_expire(worker->runtime, mare__now(worker->runtime));
    if (mare__tasks_wait(worker)) // they come first
        return NULL;
    struct mare__local *process = mare__ready_find(worker);
    if (!process)
        process = mare__ready_steal(worker);
    if (!process && !mare__tasks_steal(worker))
        process = mare__ready_take_common(worker);
    return process;
}

// Looks for events for a while. Others have the processor between two looks, and before the first:
// it may be one of them that has to answer.
static struct mare__local *keep_vigil(struct mare__worker *worker)
{
    bool goes_on = true;
    while (goes_on && !atomic_load_explicit(&worker->quit, memory_order_relaxed)) {
        mare__yield_thread();
        look(worker);
        struct mare__local *process = mare__ready_find(worker);
        if (!process)
            process = find_elsewhere(worker);
        if (process || mare__others_wait(worker)) {
            mare__vigil_paid(&worker->vigil);
            return process;
        }
        goes_on = mare__vigil_goes_on(&worker->vigil, mare__now(worker->runtime));
    }
    return NULL;
}

// Looks a few times before it sleeps: a wake through the kernel costs more than a short wait. If
// events have come soon lately, it looks for them as well.
static struct mare__local *find_patiently(struct mare__worker *worker)
{
    struct mare__local *process = NULL;
    if (mare__lookout_in(worker) && mare__vigil_begin(&worker->vigil, mare__now(worker->runtime)))
        return keep_vigil(worker);
    for (int i = 1; i < MARE__SPINS && !process && !mare__others_wait(worker) && !worker->quit;
         i++) {
        mare__pause();
        process = find_elsewhere(worker);
    }
    return process;
}

static inline struct mare__local *find(struct mare__worker *worker)
{
    if (worker->ticked || !worker->tick.made)
        on_ticked(worker);
    else if (++worker->runs >= RUNS_BETWEEN_LOOKS)
        look_too(worker);
    if (mare__tasks_wait(worker))
        mare__tasks_run(worker);
    struct mare__local *process = worker->common_first ? mare__ready_take_common(worker) : NULL;
    if (!process)
        process = mare__ready_find(worker);
    if (!process && worker->lookout) {
        look(worker);
        mare__tasks_run(worker);
        process = mare__ready_find(worker);
    }
    return process ? process : find_elsewhere(worker);
}

static inline __attribute__((always_inline)) bool step(struct mare__worker *worker, bool patiently)
{
    struct mare__local *process = find(worker);
    if (!process && patiently)
        process = find_patiently(worker);
    if (process)
        run_paying(worker, process);
    return process || mare__others_wait(worker); // a task may have made them ready just now
}

// ---- The runner ---------------------------------------------------------------------------------

// Leaves if it still should; under the lock, so that whoever wants it back can tell whether it is
// too late.
static bool retire(struct mare__worker *worker)
{
    mare__lock_acquire(&worker->lock);
    bool leaves = atomic_load(&worker->quit);
    worker->alive = !leaves;
    mare__lock_release(&worker->lock);
    return leaves;
}

static void begin(struct mare__worker *worker)
{
    const struct mare__platform *platform = &worker->runtime->platform;
    if (platform->tick_init(platform->context, &worker->tick, mare__on_tick, worker) != 0)
        fprintf(stderr, "mare: no timer for %s: processes on it are not preempted\n",
                worker->runner.name);
}

static void end(struct mare__worker *worker)
{
    const struct mare__platform *platform = &worker->runtime->platform;
    platform->tick_fini(platform->context, &worker->tick);
}

static void leave(struct mare__worker *worker)
{
    end(worker);
    mare__thread_data = NULL;
    atomic_fetch_sub(&worker->runtime->worker_alive, 1);
    mare__ready_wake_one(worker->runtime); // which may find that nothing can move any more
}

void mare__worker_serve(void *argument)
{
    struct mare__worker *worker = argument;
    mare__thread_data = worker;
    begin(worker);
    mare__worker_tick(worker, MARE__TICK_NS);
    do {
        while (!atomic_load_explicit(&worker->quit, memory_order_relaxed))
            if (!step(worker, true))
                go_idle(worker);
        only_watch(worker);
    } while (!retire(worker));
    leave(worker);
}

// A piece of the same.
static enum mare__progress advance(struct mare__worker *worker, uint64_t *until_ns)
{
    if (!worker->serves)
        begin(worker);
    if (worker->rests || !worker->serves)
        rise(worker);
    worker->serves = true;
    worker->rests = false;
    if (!atomic_load(&worker->quit)) {
        if (step(worker, false))
            return MARE__GOES_ON;
        worker->rests = rest(worker, until_ns);
        if (worker->rests)
            return MARE__RESTS;
        rise(worker);
        return MARE__GOES_ON;
    }
    hand_over(worker);
    if (is_to_watch(worker)) {
        look(worker);
        *until_ns = mare__now(worker->runtime) + MARE__TICK_NS;
        return MARE__RESTS;
    }
    if (!retire(worker))
        return MARE__GOES_ON;
    worker->serves = false;
    leave(worker);
    return MARE__IS_OVER;
}

enum mare__progress mare__worker_advance(void *argument, uint64_t *until_ns)
{
    void *outside = mare__thread_data;
    mare__thread_data = argument;
    enum mare__progress progress = advance(argument, until_ns);
    mare__thread_data = outside;
    return progress;
}

// ---- Of one process -----------------------------------------------------------------------------
// It counts for no other thread as a worker: what it makes ready goes to the inbox.

// False: it waits for something.
static bool serve_own(struct mare__worker *own)
{
    mare_runtime *runtime = own->runtime;
    struct mare__local *process = mare__ready_take_queue(own);
    if (!process)
        return false;
    mare__worker_tick(own, MARE__TICK_NS);
    run_paying(own, process);
    mare__worker_tick(own, 0);
    atomic_fetch_sub(&runtime->own_busy, 1);
    mare__ready_wake_one(runtime); // it may have started a timer, which workers look after
    if (atomic_load(&runtime->waiters) > 0)
        mare__runtime_changed(runtime); // perhaps nothing can move now
    return true;
}

void mare__own_serve(void *argument)
{
    struct mare__worker *own = argument;
    begin(own);
    while (!atomic_load(&own->quit))
        if (!serve_own(own))
            mare__runtime_park(own->runtime, &own->parker, MARE_FOREVER);
    end(own);
    mare__own_leave(own);
}

enum mare__progress mare__own_advance(void *argument, uint64_t *until_ns)
{
    struct mare__worker *own = argument;
    void *outside = mare__thread_data;
    enum mare__progress progress = MARE__GOES_ON;
    if (!own->serves)
        begin(own);
    own->serves = true;
    *until_ns = MARE_FOREVER;
    mare__thread_data = NULL;
    if (!serve_own(own)) {
        progress = MARE__RESTS;
    } else if (atomic_load(&own->quit)) {
        end(own);
        mare__own_leave(own);
        progress = MARE__IS_OVER;
    }
    mare__thread_data = outside;
    return progress;
}
