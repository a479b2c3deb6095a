// SPDX-License-Identifier: MIT
// Work that blocks (resolving a name, using a file system), done by separate threads so that no
// worker waits for it. The caller waits on the job's channel, which is closed when the job is over:
// like any other wait, with a deadline, in any routine. A caller that stops waiting leaves the job
// to itself. If the job is stuck, its thread is left behind, even at the end of the program.
#pragma once

#include "sched/sched.h"

// Jobs of one kind do not wait for those of another.
enum mare__lane { MARE__LANE_FILES, MARE__LANE_RESOLVE, MARE__LANE_DATABASE, MARE__LANES };

// The first member of a larger structure, which knows how to do the work and gets its results.
struct mare__job {
    struct mare__object object; // held by those who asked: when all have let go, nobody waits
    atomic_uint holders;        // the object, and the pool until the job is over
    struct mare__jobs *jobs;    // a reference
    mare_channel *done;         // closed when it is over; NULL: nobody can wait for it
    enum mare__lane lane;

    // Does the work, on a thread of the pool. It may touch only what the job owns: the runtime may
    // have ended meanwhile.
    void (*run)(struct mare__job *job);
    // Called if the job will never be begun: gives back what it would have used. On the thread of
    // the last caller that waited. NULL: nothing to do.
    void (*drop)(struct mare__job *job);
    // Frees the job and what it owns. On any thread, perhaps after the end of the runtime.
    void (*end)(struct mare__job *job);
    // Once begun, the end of the runtime waits a moment for it. For jobs that must not leave
    // something behind in the system, or that use what others take away. Set it before the start.
    bool holds_up;

    atomic_bool over; // it was done, or will never be begun
    // Guarded by the pool's lock.
    struct mare__list entry; // in the line of its lane
    enum { MARE__JOB_WAITS, MARE__JOB_RUNS, MARE__JOB_OVER } stage;
    unsigned waiters; // routines that wait
    bool lost;        // it runs, and nobody waits
    // Set if it was never begun: how many threads of its lane were stuck then. For the message to
    // its caller.
    unsigned held_back;
};

// The pool of a runtime, made on first use; it lasts as long as somebody holds it. NULL: not enough
// memory, or this is a fork of the program that owns the runtime.
struct mare__jobs *mare__jobs_of(mare_runtime *runtime);
struct mare__jobs *mare__jobs_ref(struct mare__jobs *jobs);
void mare__jobs_unref(struct mare__jobs *jobs);

// The platform of the pool's runtime. Usable after the runtime has ended.
const struct mare__platform *mare__jobs_platform(const struct mare__jobs *jobs);

// Prepares a new job (all zeros) for its one owner, a KIND_REQUEST. False: not enough memory;
// nothing needs to be undone.
bool mare__job_init(struct mare__job *job, mare_runtime *runtime, enum mare__lane lane,
                    void (*run)(struct mare__job *job), void (*end)(struct mare__job *job));

// Starts the job. False: there is no thread for it, and none could be made.
bool mare__job_start(struct mare__job *job);

// expect: somebody is about to wait for `done`. leave: it does not wait any more. When the last one
// leaves, a job that was not begun never will be.
void mare__job_expect(struct mare__job *job);
void mare__job_leave(struct mare__job *job);

// Whether it is over: then the caller may read its results.
static inline bool mare__job_is_over(const struct mare__job *job)
{
    // Acquire: pairs with the release in `finish`, after all that the job has written.
    return atomic_load_explicit(&job->over, memory_order_acquire);
}

// For `run`: whether nobody waits any more, so that the job need not be finished.
bool mare__job_is_lost(struct mare__job *job);

// Calls a function on a thread of the pool, when nobody needs to know how it ends. If there is no
// thread, calls it now.
void mare__jobs_post(struct mare__jobs *jobs, enum mare__lane lane,
                     void (*function)(void *argument), void *argument);
