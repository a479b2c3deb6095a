// SPDX-License-Identifier: MIT
// How tasks wait, become ready and are run.
//
//     woken on a worker  --> [its line] --+--> run, before processes, a few at a time
//     woken elsewhere    --> [runtime's] -+
//     not run for a tick --> stolen ------+
//
// The lock of a task is what makes it safe to end its wait from outside without a barrier. It is
// held while the wait begins, that is from before the task is in any line or in the heap of timers
// until after. Who cancels notes that, and claims the wait, under the same lock: so either the wait
// has begun, and is ended, or it sees the note. And who has taken the task from a line of ready
// ones waits for the lock to be free before it touches the task: the thread on which the wait began
// may still be about to give it back, which is the last thing it does.
//
// The lock of a task comes before that of the timers, and that before those of channels. Nobody is
// woken, and no memory asked for, while one of them is held.
#include "sched/task.h"

#include <assert.h>

#include "sched/timer.h"
#include "sched/worker.h"

// ---- Lines --------------------------------------------------------------------------------------

static unsigned length_of(const struct mare__tasks *line)
{
    // Relaxed: a hint; who acts on it takes the lock.
    return atomic_load_explicit(&line->length, memory_order_relaxed);
}

static void push(struct mare__tasks *line, struct mare__task *task)
{
    task->next = NULL;
    mare__lock_acquire(&line->lock);
    if (line->head)
        line->tail->next = task;
    else
        line->head = task;
    line->tail = task;
    // Relaxed, and no read-modify-write: under the lock of the line.
    atomic_store_explicit(&line->length, length_of(line) + 1, memory_order_relaxed);
    mare__lock_release(&line->lock);
}

static struct mare__task *pop(struct mare__tasks *line)
{
    if (length_of(line) == 0)
        return NULL;
    mare__lock_acquire(&line->lock);
    struct mare__task *task = line->head;
    if (task) {
        line->head = task->next;
        atomic_store_explicit(&line->length, length_of(line) - 1, memory_order_relaxed); // as above
    }
    if (!line->head)
        atomic_store(&line->late, false);
    mare__lock_release(&line->lock);
    return task;
}

void mare__task_to_workers(struct mare__task *task)
{
    mare_runtime *runtime = task->runtime;
    struct mare__worker *worker = mare__this_worker();
    if (worker && worker->runtime == runtime && worker->tick.made) {
        push(&worker->tasks, task); // nobody is woken: it comes to it soon, or its tick says so
        return;
    }
    push(&runtime->tasks, task);
    mare__workers_wake(runtime);
}

static void wake(struct mare__wait *wait)
{
    struct mare__task *task = MARE__ENTRY(wait, struct mare__task, wait);
    if (task->ready)
        task->ready(task);
    else
        mare__task_to_workers(task);
}

void mare__task_init(struct mare__task *task, mare_runtime *runtime,
                     bool (*run)(struct mare__task *task),
                     void (*destroy)(struct mare__object *object))
{
    mare__object_init(&task->object, MARE__KIND_TASK, destroy);
    task->runtime = runtime;
    task->run = run;
    task->wait.wake = wake;
    task->spot.wait = &task->wait;
    mare__list_init(&task->spot.entry);
    task->clean = true;
}

// ---- What it waits for --------------------------------------------------------------------------

static bool want(struct mare__task *task, enum mare__waits waits, mare_channel *channel,
                 uint64_t deadline)
{
    task->waits = (uint8_t)waits;
    task->channel = channel;
    task->deadline = deadline;
    task->timed = deadline != MARE_FOREVER;
    return true;
}

bool mare__task_receive(struct mare__task *task, mare_channel *channel, uint64_t deadline)
{
    return want(task, MARE__WAITS_TO_RECEIVE, channel, deadline);
}

bool mare__task_send(struct mare__task *task, mare_channel *channel, mare_message *message,
                     uint64_t deadline)
{
    task->message = message;
    return want(task, MARE__WAITS_TO_SEND, channel, deadline);
}

bool mare__task_select(struct mare__task *task, const struct mare__choice *choice,
                       uint64_t deadline)
{
    task->choice = choice;
    return want(task, MARE__WAITS_IN_SELECT, NULL, deadline);
}

bool mare__task_sleep(struct mare__task *task, uint64_t deadline)
{
    return want(task, MARE__WAITS_FOR_TIME, NULL, deadline);
}

bool mare__task_yield(struct mare__task *task)
{
    return want(task, MARE__WAITS_FOR_A_TURN, NULL, MARE_FOREVER);
}

static bool must_wait(mare_err err)
{
    return err == MARE_EMPTY || err == MARE_FULL;
}

// Does what it wants, if that can be done at once.
static mare_err try(struct mare__task *task, uint32_t *fired)
{
    struct mare__wait *wait = &task->wait;
    unsigned char note = atomic_load(&wait->note);
    if (note && (note == MARE_KILLED || mare__wait_heed(wait)))
        return (mare_err)note;
    switch (task->waits) {
    case MARE__WAITS_TO_RECEIVE:
        return mare__chan_receive(task->channel, &wait->message, NULL);
    case MARE__WAITS_TO_SEND:
        return mare__chan_send(task->channel, task->message, NULL);
    case MARE__WAITS_IN_SELECT:
        return mare__chan_choose(task->choice, NULL, &wait->message, fired);
    case MARE__WAITS_FOR_A_TURN:
        return MARE_OK;
    default:
        return MARE_EMPTY;
    }
}

// The same, or stands in line; under locks.
static mare_err try_or_stand(struct mare__task *task, uint32_t *fired, struct mare__wait **met)
{
    struct mare__wait *wait = &task->wait;
    switch (task->waits) {
    case MARE__WAITS_TO_RECEIVE:
        return mare__chan_receive_quietly(task->channel, &wait->message, &task->spot, met);
    case MARE__WAITS_TO_SEND:
        return mare__chan_send_quietly(task->channel, task->message, &task->spot, met);
    case MARE__WAITS_IN_SELECT:
        return mare__chan_choose_quietly(task->choice, wait, &wait->message, fired, met);
    default:
        return mare__wait_publish(wait) ? MARE_EMPTY : wait->result;
    }
}

// Begins the wait, if there must be one. Its deadline stands before anybody can have the task who
// would take it back, for that one needs the lock of the task first.
static mare_err stand(struct mare__task *task, uint32_t *fired)
{
    mare_runtime *runtime = task->runtime;
    struct mare__wait *met = NULL;
    bool timed = task->timed;
    mare__lock_acquire(&task->lock);
    task->clean = false;
    if (timed)
        mare__lock_acquire(&runtime->timer_lock);
    mare_err err = try_or_stand(task, fired, &met);
    bool waits = must_wait(err);
    if (timed && waits)
        mare__timer_start(runtime, &task->wait, task->deadline);
    if (timed)
        mare__lock_release(&runtime->timer_lock);
    task->clean = !waits;
    mare__lock_release(&task->lock);
    // From here on, if it waits, it is not this thread's any more.
    if (met)
        met->wake(met);
    if (timed && waits)
        mare__workers_look(runtime);
    return err;
}

// Whether it waits now, and must not be touched any more.
static bool commit(struct mare__task *task)
{
    uint32_t fired = MARE__FIRED_NONE;
    mare__wait_begin(&task->wait);
    mare_err err = try(task, &fired);
    if (must_wait(err))
        err = stand(task, &fired);
    if (must_wait(err))
        return true;
    task->wait.fired = fired;
    task->wait.result = err;
    return false;
}

void mare__task_start(struct mare__task *task)
{
    mare__task_hold(task);
    if (!commit(task))
        wake(&task->wait);
}

// ---- Running ------------------------------------------------------------------------------------

// Leaves every line that it stands in, and the heap.
static void leave(struct mare__task *task)
{
    struct mare__wait *wait = &task->wait;
    mare__lock_acquire(&task->lock); // who let it wait is done with it
    mare__lock_release(&task->lock);
    if (task->clean)
        return;
    task->clean = true;
    if (task->timed && wait->result != MARE_TIMEOUT) // else it was taken out
        mare__timer_stop(task->runtime, wait);
    if (task->waits == MARE__WAITS_IN_SELECT) {
        for (uint32_t i = 0; i < task->choice->count; i++)
            if (i != wait->fired)
                mare__chan_forget(task->choice->cases[i].channel, &task->choice->cases[i].spot);
    } else if (task->channel && wait->fired == MARE__FIRED_NONE) {
        mare__chan_forget(task->channel, &task->spot);
    }
}

void mare__task_proceed(struct mare__task *task)
{
    leave(task);
    if (!task->run(task))
        mare__task_release(task); // which another may have started again by now
    else if (!commit(task))
        wake(&task->wait); // again, but after others
}

void mare__tasks_run(struct mare__worker *worker)
{
    struct mare__task *own, *outside;
    unsigned ran = 0;
    do {
        own = pop(&worker->tasks);
        outside = pop(&worker->runtime->tasks);
        if (own)
            mare__task_proceed(own);
        if (outside)
            mare__task_proceed(outside);
    } while ((own || outside) && !worker->ticked && ++ran < MARE__TASKS_AT_ONCE);
}

bool mare__tasks_steal(struct mare__worker *thief)
{
    mare_runtime *runtime = thief->runtime;
    for (unsigned i = 0; i < MARE__WORKERS_MAX && runtime->workers[i]; i++) {
        struct mare__tasks *line = &runtime->workers[i]->tasks;
        struct mare__task *task = atomic_load(&line->late) ? pop(line) : NULL;
        if (task) {
            mare__task_proceed(task);
            return true;
        }
    }
    return false;
}

bool mare__tasks_wait(const struct mare__worker *worker)
{
    return length_of(&worker->tasks) > 0 || length_of(&worker->runtime->tasks) > 0;
}

bool mare__tasks_anywhere(mare_runtime *runtime)
{
    bool any = length_of(&runtime->tasks) > 0;
    for (unsigned i = 0; !any && i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        any = atomic_load(&runtime->workers[i]->tasks.late) &&
              length_of(&runtime->workers[i]->tasks) > 0;
    return any;
}

bool mare__tasks_are_ready(mare_runtime *runtime)
{
    bool any = length_of(&runtime->tasks) > 0;
    for (unsigned i = 0; !any && i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        any = length_of(&runtime->workers[i]->tasks) > 0;
    return any;
}

void mare__tasks_share(struct mare__worker *worker)
{
    if (length_of(&worker->tasks) > 0)
        atomic_store(&worker->tasks.late, true);
}

void mare__tasks_hand_over(struct mare__worker *worker)
{
    struct mare__task *task;
    while ((task = pop(&worker->tasks)) != NULL)
        mare__task_to_workers(task); // it counts as a worker no more: to those from outside
}

void mare__tasks_finish(mare_runtime *runtime)
{
    struct mare__task *task;
    do {
        mare__timer_expire(runtime, MARE_FOREVER);
        task = pop(&runtime->tasks);
        if (task)
            mare__task_proceed(task);
    } while (task);
}

// ---- From any thread ----------------------------------------------------------------------------

// Ends the wait, or the next one before it begins. Whether it was this one: then the task is the
// caller's, to be made ready.
static bool disturb(struct mare__task *task, mare_err why)
{
    struct mare__wait *wait = &task->wait;
    unsigned char none = 0;
    mare__lock_acquire(&task->lock);
    if (why == MARE_KILLED)
        atomic_store(&wait->note, MARE_KILLED);
    else
        atomic_compare_exchange_strong(&wait->note, &none, (unsigned char)why);
    bool ended = mare__wait_claim(wait);
    if (ended) {
        mare__wait_heed(wait);
        wait->result = why;
    }
    mare__lock_release(&task->lock);
    return ended;
}

void mare__task_cancel(struct mare__task *task)
{
    if (disturb(task, MARE_KILLED))
        wake(&task->wait);
}

void mare__task_nudge(struct mare__task *task)
{
    if (disturb(task, MARE_CANCELLED))
        wake(&task->wait);
}

bool mare__task_withdraw(struct mare__task *task)
{
    if (!disturb(task, MARE_KILLED))
        return false;
    leave(task);
    mare__task_release(task); // nobody will run it
    return true;
}
