// SPDX-License-Identifier: MIT
// The threads: how many workers there are, those that a process has for itself, the attendant that
// watches in the place of workers stuck in C functions; and the blocks that each keeps for reuse.
// What a worker does is in worker.c.
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/runtime.h"
#include "sched/worker.h"

// ---- Spare blocks -------------------------------------------------------------------------------
// The C library's own caches are per thread too, but hold seven blocks of a size, and processes end
// in crowds: when a collection finds that their references are garbage.

enum { SPARES_MAX = 256 };

void *mare__spare_take(enum mare__spares kind, size_t size)
{
    struct mare__worker *worker = mare__this_worker();
    struct mare__spare *spare = worker ? worker->spares[kind] : NULL;
    if (!spare || mare__alloc_must_fail())
        return mare__alloc_zero(size);
    worker->spares[kind] = spare->next;
    worker->spare_count[kind]--;
    return memset(spare, 0, size);
}

void mare__spare_give(enum mare__spares kind, void *block)
{
    struct mare__worker *worker = mare__this_worker();
    if (!worker || worker->spare_count[kind] == SPARES_MAX || MARE__ARENA_PLAIN) {
        mare__free(block);
        return;
    }
    struct mare__spare *spare = block;
    spare->next = worker->spares[kind];
    worker->spares[kind] = spare;
    worker->spare_count[kind]++;
}

static void free_spares(struct mare__worker *worker)
{
    for (int kind = 0; kind < MARE__SPARES; kind++)
        for (struct mare__spare *spare; (spare = worker->spares[kind]) != NULL;) {
            worker->spares[kind] = spare->next;
            mare__free(spare);
        }
}

// ---- What is watched ----------------------------------------------------------------------------

enum { ATTENDANCE_NS = 1000000 }; // between two looks in the place of those who are away

static void attend(void *argument)
{
    mare_runtime *runtime = argument;
    bool away = false;
    while (!atomic_load(&runtime->attendant.quit)) {
        mare__runtime_park(runtime, &runtime->attendant.parker,
                           away ? mare__now(runtime) + ATTENDANCE_NS : MARE_FOREVER);
        pthread_mutex_lock(&runtime->worker_mutex);
        struct mare__lookout *lookout = runtime->lookouts; // the list only grows, at its head
        pthread_mutex_unlock(&runtime->worker_mutex);
        away = false;
        for (; lookout; lookout = lookout->next)
            if (atomic_load(&lookout->unattended)) {
                lookout->attend(lookout);
                away = true;
            }
    }
}

// Not in pieces: where there are no threads, no worker is stuck while others go on.
static void attendant_start(mare_runtime *runtime)
{
    const struct mare__platform *platform = &runtime->platform;
    struct mare__runner *runner = &runtime->attendant.runner;
    if (atomic_exchange(&runtime->attendant.started, true))
        return;
    *runner = (struct mare__runner){.name = "mare-watch", .serve = attend, .argument = runtime};
    if (platform->start(platform->context, runner) != 0)
        atomic_store(&runtime->attendant.started, false);
}

static void attendant_stop(mare_runtime *runtime)
{
    const struct mare__platform *platform = &runtime->platform;
    if (!atomic_load(&runtime->attendant.started))
        return;
    atomic_store(&runtime->attendant.quit, true);
    mare__unpark(&runtime->attendant.parker);
    platform->join(platform->context, &runtime->attendant.runner);
}

struct mare__lookout *mare__worker_give_lookout(struct mare__worker *worker,
                                                struct mare__lookout *lookout)
{
    mare_runtime *runtime = worker->runtime;
    pthread_mutex_lock(&runtime->worker_mutex);
    struct mare__lookout *has = atomic_load(&worker->lookout);
    if (!has) {
        has = lookout;
        lookout->parker = &worker->parker;
        worker->parker.bell = lookout->ring;
        worker->parker.bell_argument = lookout->ring_argument;
        lookout->next = runtime->lookouts;
        runtime->lookouts = lookout;
        atomic_store_explicit(&worker->lookout, lookout, memory_order_release);
    }
    pthread_mutex_unlock(&runtime->worker_mutex);
    attendant_start(runtime);
    return has;
}

// ---- A worker for one process -------------------------------------------------------------------

void mare__own_leave(struct mare__worker *own)
{
    mare_runtime *runtime = own->runtime;
    while (atomic_load(&own->wakers) > 0) // until they have let go of it: see own_ready
        mare__yield_thread();
    free_spares(own);
    mare__free(own);
    mare__runtime_left(runtime);
}

bool mare__worker_own(struct mare__local *process)
{
    struct mare__worker *own = mare__alloc_zero(sizeof *own);
    mare_runtime *runtime = process->shared.runtime;
    const struct mare__platform *platform = &runtime->platform;
    if (!own)
        return false;
    own->runtime = runtime;
    own->index = MARE__WORKERS_MAX; // it is none of them
    mare__list_init(&own->idle);
    own->runner = (struct mare__runner){.serve = mare__own_serve,
                                        .advance = mare__own_advance,
                                        .argument = own,
                                        .parker = &own->parker,
                                        .is_detached = true};
    snprintf(own->runner.name, sizeof own->runner.name, "mare-p%lu",
             (unsigned long)process->shared.id % 100000000);
    process->own = own;
    atomic_fetch_add(&runtime->own_threads, 1);
    if (platform->start(platform->context, &own->runner) == 0)
        return true;
    atomic_fetch_sub(&runtime->own_threads, 1);
    process->own = NULL;
    mare__free(own);
    return false;
}

// ---- Their number -------------------------------------------------------------------------------

static mare_err worker_start(mare_runtime *runtime, unsigned index)
{
    struct mare__worker *worker = runtime->workers[index];
    if (!worker) {
        worker = mare__alloc_zero(sizeof *worker);
        if (!worker)
            return MARE_NOMEM;
        worker->runtime = runtime;
        worker->index = index;
        mare__vigil_init(&worker->vigil, runtime->busy_waits);
        mare__list_init(&worker->idle);
        atomic_store(&runtime->workers[index], worker);
    }
    mare__lock_acquire(&worker->lock);
    atomic_store(&worker->quit, false);
    bool alive = worker->alive; // then it stays after all
    worker->alive = true;
    mare__lock_release(&worker->lock);
    if (alive) {
        mare__unpark(&worker->parker); // it may only be watching by now
        return MARE_OK;
    }
    const struct mare__platform *platform = &runtime->platform;
    if (worker->started)
        platform->join(platform->context, &worker->runner);
    worker->runner = (struct mare__runner){.serve = mare__worker_serve,
                                           .advance = mare__worker_advance,
                                           .argument = worker,
                                           .parker = &worker->parker};
    snprintf(worker->runner.name, sizeof worker->runner.name, "mare-%u", index);
    atomic_fetch_add(&runtime->worker_alive, 1);
    worker->started = platform->start(platform->context, &worker->runner) == 0;
    if (!worker->started) {
        worker->alive = false;
        atomic_fetch_sub(&runtime->worker_alive, 1);
    }
    return worker->started ? MARE_OK : MARE_NOMEM;
}

static void worker_dismiss(struct mare__worker *worker)
{
    atomic_store(&worker->quit, true);
    mare__unpark(&worker->parker);
}

mare_err mare__workers_set(mare_runtime *runtime, unsigned count)
{
    if (count < 1 || count > MARE__WORKERS_MAX)
        return MARE_INVALID;
    mare_err err = MARE_OK;
    pthread_mutex_lock(&runtime->worker_mutex);
    unsigned have = atomic_load(&runtime->worker_count);
    for (; have < count && !err; have += !err)
        err = worker_start(runtime, have);
    for (; have > count; have--)
        worker_dismiss(runtime->workers[have - 1]);
    atomic_store(&runtime->worker_count, have);
    pthread_mutex_unlock(&runtime->worker_mutex);
    return err;
}

void mare__workers_stop(mare_runtime *runtime)
{
    const struct mare__platform *platform = &runtime->platform;
    mare__runtime_await_threads(runtime);
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        worker_dismiss(runtime->workers[i]);
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        if (runtime->workers[i]->started)
            platform->join(platform->context, &runtime->workers[i]->runner);
    attendant_stop(runtime);
    for (struct mare__lookout *lookout = runtime->lookouts; lookout; lookout = lookout->next)
        lookout->parker = &lookout->idle;
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++) {
        free_spares(runtime->workers[i]); // only now: they look at each other
        mare__free(runtime->workers[i]);
    }
}
