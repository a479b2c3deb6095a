// SPDX-License-Identifier: MIT
// Work that blocks (a name being looked up, a file system) in threads apart, so that no worker
// waits for it. Who asked waits for the job's channel, which is closed when the job is over: as for
// anything else, with a deadline, in any routine. Who does not wait any more leaves the job alone;
// if it is stuck, its thread is left behind, even by the end of the program.
#pragma once

#include "sched/sched.h"

// Jobs of one kind do not wait for those of another.
enum mare__lane { MARE__LANE_FILES, MARE__LANE_RESOLVE, MARE__LANE_DATABASE, MARE__LANES };

// The first member of what knows how to do the work and has its results.
struct mare__job {
    struct mare__object object; // of those who asked: when they are all gone, nobody waits
    atomic_uint holders;        // they, and the pool until it is over
    struct mare__jobs *jobs;    // a reference
    mare_channel *done;         // closed when it is over; NULL: nobody can wait for it
    enum mare__lane lane;

    // On a thread of the pool. It must touch nothing but what the job owns: the runtime may have
    // ended meanwhile.
    void (*run)(struct mare__job *job);
    // It will never be begun, and gives back what it would have used; on the thread of the last who
    // waited. NULL: nothing.
    void (*drop)(struct mare__job *job);
    // Frees it with what it owns. Any thread, perhaps after the runtime's end.
    void (*end)(struct mare__job *job);
    // Once begun, the end of the runtime waits a moment for it: for what it makes in the system and
    // must not leave behind, or for what it uses and others take away. Set before it starts.
    bool holds_up;

    atomic_bool over; // it was done, or will never be begun
    // Under the pool's lock.
    struct mare__list entry; // in the line of its lane
    enum { MARE__JOB_WAITS, MARE__JOB_RUNS, MARE__JOB_OVER } stage;
    unsigned waiters; // routines
    bool lost;        // it runs, and nobody waits
    // It was never begun, as so many threads of its lane are stuck for nobody; known to who waited.
    unsigned held_back;
};

// The pool of a runtime, made on first use; it lasts as long as somebody holds it. NULL: not enough
// memory, or this is a fork of the program that the runtime belongs to.
struct mare__jobs *mare__jobs_of(mare_runtime *runtime);
struct mare__jobs *mare__jobs_ref(struct mare__jobs *jobs);
void mare__jobs_unref(struct mare__jobs *jobs);

// That of its runtime; it stays when the runtime has ended.
const struct mare__platform *mare__jobs_platform(const struct mare__jobs *jobs);

// Prepares a new job (zeros) for its one owner, a KIND_REQUEST. False: not enough memory; nothing
// needs to be undone.
bool mare__job_init(struct mare__job *job, mare_runtime *runtime, enum mare__lane lane,
                    void (*run)(struct mare__job *job), void (*end)(struct mare__job *job));

// Begins. False: there is no thread for it, and none could be made.
bool mare__job_start(struct mare__job *job);

// Somebody is about to wait for `done`; and does not any more. When the last one leaves, a job that
// was not begun never will be.
void mare__job_expect(struct mare__job *job);
void mare__job_leave(struct mare__job *job);

// Whether it is over: its results are the caller's to look at.
static inline bool mare__job_is_over(const struct mare__job *job)
{
    // Acquire: pairs with the release in `finish`, which comes after all that the job has done.
    return atomic_load_explicit(&job->over, memory_order_acquire);
}

// For `run`: nobody waits for it, so that it need not be finished.
bool mare__job_is_lost(struct mare__job *job);

// Calls a function on a thread of the pool, for those who do not want to know how it ends; now, if
// that cannot be.
void mare__jobs_post(struct mare__jobs *jobs, enum mare__lane lane,
                     void (*function)(void *argument), void *argument);
