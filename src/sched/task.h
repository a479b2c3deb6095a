// SPDX-License-Identifier: MIT
// Tasks: C functions that wait as processes do. A task says what it wants to wait for and returns.
// The end of that wait (the other end of a channel, a close, a timer, a cancel) puts the task into
// a line of ready ones, and a worker calls its function from its own loop: never on the stack of
// the waker, never with a lock held, and on one thread at a time.
//
//          mare__task_start                  somebody ends the wait            a worker
//     rest ----------------> waiting (holds) ----------------------> ready ----------------> runs
//      ^                        ^                                                             |
//      |                        +--------- it has said what it waits for next ----------------+
//      +---------------------------------- it has not ---------------------------------------+
//
// Who may touch what of a task:
//  - Its `run`, while it runs: everything.
//  - While it is at rest, its maker, or the one to whom its last run has left it: everything. That
//    one may start it (again).
//  - Any thread that has a hold may hold, release, cancel and nudge it, at any time.
//  - While it waits or is ready, nobody touches anything else.
// A task that waits, is ready or runs is held for that. It is destroyed once, when the last hold is
// given back, on the thread that gave it back: after the end of everything else.
#pragma once

#include "sched/sched.h"
#include "sched/want.h"

struct mare__task {
    struct mare__object object; // those who hold it
    mare_runtime *runtime;
    // Looks at the outcome in `wait`. True: it has said what it waits for next. False: it rests,
    // and may be another's by now. It must not block: a worker stands still meanwhile.
    bool (*run)(struct mare__task *task);
    // Where it goes when it is ready: NULL for a line of the workers. Else something that calls
    // mare__task_proceed in its turn; it is called on the stack of the task's waker.
    void (*ready)(struct mare__task *task);

    // The outcome of the last wait, for `run`. `wait.result`:
    //  MARE_OK         it has sent; it has received, into `wait.message`, which `run` clears; the
    //                  case `wait.fired` has done one of these; or it only wanted a turn
    //  MARE_TIMEOUT    the deadline has passed
    //  MARE_CLOSED     the channel (of the case that fired) is closed
    //  MARE_CANCELLED  it was nudged
    //  MARE_KILLED     it was cancelled, and cannot wait any more: each wait ends at once, so
    //  MARE_STOPPED    the runtime stops: no deadline will pass any more
    //  MARE_NOMEM      there was no memory to send
    struct mare__wait wait;
    struct mare__spot spot;

    struct mare__want want;  // what it waits for
    bool clean;              // it stands in no line, and has no timer
    mare__lock lock;         // held from before a wait begins until it has: see task.c
    struct mare__task *next; // in a line of ready ones
};

// Prepares a task (zeros) that rests; it has one hold, the caller's. `destroy` frees it.
void mare__task_init(struct mare__task *task, mare_runtime *runtime,
                     bool (*run)(struct mare__task *task),
                     void (*destroy)(struct mare__object *object));

// ---- What it waits for next ---------------------------------------------------------------------
// Each returns true, so that `run` can end with `return mare__task_receive(...)`. A deadline of
// MARE_FOREVER: none. Channels, the message to be sent and the choice are not held, and must last
// as long as the wait. To receive from a channel that may be another node's, give mare__chan_in of
// it.
bool mare__task_receive(struct mare__task *task, mare_channel *channel, uint64_t deadline);
bool mare__task_send(struct mare__task *task, mare_channel *channel, mare_message *message,
                     uint64_t deadline);
bool mare__task_select(struct mare__task *task, const struct mare__choice *choice,
                       uint64_t deadline);
bool mare__task_sleep(struct mare__task *task, uint64_t deadline);
bool mare__task_yield(struct mare__task *task); // for its next turn, after others that are ready

// Begins the wait that was asked for. It may run on another thread before this returns.
void mare__task_start(struct mare__task *task);

// ---- From any thread ----------------------------------------------------------------------------
static inline void mare__task_hold(struct mare__task *task)
{
    mare__ref(&task->object);
}

static inline void mare__task_release(struct mare__task *task)
{
    mare__unref(&task->object);
}

// It does not wait any more: it runs once more, told so, unless it ends itself before. One at rest
// is told when it is started.
void mare__task_cancel(struct mare__task *task);

// The same for a task that need not be told. True: it waited, and rests now, without having run.
// False: it runs once more, or is at rest already.
bool mare__task_withdraw(struct mare__task *task);

// Something has changed that it should look at: it runs once more, soon. (It is told once, however
// often it was nudged meanwhile.)
void mare__task_nudge(struct mare__task *task);

// ---- For those who run them ---------------------------------------------------------------------
// It was ready, and the caller has it from the line: runs it, and lets it wait again.
void mare__task_proceed(struct mare__task *task);

// Puts a ready one into a line of the workers.
void mare__task_to_workers(struct mare__task *task);

// Runs those that are ready, of this worker and of those from outside, but no longer than to the
// next tick: then processes have their turn.
void mare__tasks_run(struct mare__worker *worker);

// The same for one that another worker has not come to for a tick.
bool mare__tasks_steal(struct mare__worker *thief);

static inline unsigned mare__tasks_length(const struct mare__tasks *line)
{
    // Relaxed: a hint; who acts on it takes the lock.
    return atomic_load_explicit(&line->length, memory_order_relaxed);
}

// Whether some wait for this worker (a hint), for any; or are ready anywhere, also where their own
// worker will come to them. The first is asked between any two turns.
static inline bool mare__tasks_wait(const struct mare__worker *worker)
{
    return mare__tasks_length(&worker->tasks) > 0 ||
           mare__tasks_length(&worker->runtime->tasks) > 0;
}
bool mare__tasks_anywhere(mare_runtime *runtime);
bool mare__tasks_are_ready(mare_runtime *runtime);

// A tick has come, and they were not run: others may. In a signal handler, on the worker's thread.
void mare__tasks_share(struct mare__worker *worker);

// The worker leaves: what is left goes to the others.
void mare__tasks_hand_over(struct mare__worker *worker);

// There are no workers any more: ends every wait for time, and runs what is left.
void mare__tasks_finish(mare_runtime *runtime);
