// SPDX-License-Identifier: MIT
// How tasks wait, become ready and are run.
//
//     woken on a worker  --> [its line] --+--> run, before processes, a few at a time
//     woken elsewhere    --> [runtime's] -+
//     not run for a tick --> stolen ------+
//
// The lock of a task is what makes it safe to end its wait from outside without a barrier. It is
// held while the wait begins, that is from before the task is in any line or in the heap of timers
// until after. A cancel leaves a note and claims the wait, under the same lock: so either the wait
// has begun, and is ended, or it sees the note. A worker that has taken the task from a line of
// ready ones waits for the lock to be free before it touches the task: the thread on which the wait
// began may still be about to give it back, which is the last thing it does.
//
// The lock of a task comes before that of the timers, and that before those of channels. Nobody is
// woken, and no memory asked for, while one of them is held.
#include "sched/task.h"

#include "sched/timer.h"
#include "sched/worker.h"

// ---- Lines --------------------------------------------------------------------------------------

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
    atomic_store_explicit(&line->length, mare__tasks_length(line) + 1, memory_order_relaxed);
    mare__lock_release(&line->lock);
}

static struct mare__task *pop(struct mare__tasks *line)
{
    if (mare__tasks_length(line) == 0)
        return NULL;
    mare__lock_acquire(&line->lock);
    struct mare__task *task = line->head;
    if (task) {
        line->head = task->next;
        atomic_store_explicit(&line->length, mare__tasks_length(line) - 1,
                              memory_order_relaxed); // as above
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
    mare__object_init(&task->object, MARE__KIND_INTERNAL, destroy);
    task->runtime = runtime;
    task->run = run;
    task->wait.wake = wake;
    task->spot.wait = &task->wait;
    mare__list_init(&task->spot.entry);
    task->clean = true;
}

// ---- What it waits for --------------------------------------------------------------------------

bool mare__task_receive(struct mare__task *task, mare_channel *channel, uint64_t deadline)
{
    task->want = (struct mare__want){
        .waits = MARE__WAITS_TO_RECEIVE, .channel = channel, .deadline = deadline};
    return true;
}

bool mare__task_send(struct mare__task *task, mare_channel *channel, mare_message *message,
                     uint64_t deadline)
{
    task->want = (struct mare__want){
        .waits = MARE__WAITS_TO_SEND, .channel = channel, .message = message, .deadline = deadline};
    return true;
}

bool mare__task_select(struct mare__task *task, const struct mare__choice *choice,
                       uint64_t deadline)
{
    task->want =
        (struct mare__want){.waits = MARE__WAITS_IN_SELECT, .choice = choice, .deadline = deadline};
    return true;
}

bool mare__task_sleep(struct mare__task *task, uint64_t deadline)
{
    task->want = (struct mare__want){.waits = MARE__WAITS_FOR_TIME, .deadline = deadline};
    return true;
}

bool mare__task_yield(struct mare__task *task)
{
    task->want = (struct mare__want){.waits = MARE__WAITS_FOR_A_TURN, .deadline = MARE_FOREVER};
    return true;
}

// Begins the wait, or does what it wants at once. In the second case the task stays the caller's.
static mare_err begin(struct mare__task *task, uint32_t *fired)
{
    mare_runtime *runtime = task->runtime;
    struct mare__wait *met = NULL;
    bool timed = task->want.deadline != MARE_FOREVER;
    mare__lock_acquire(&task->lock);
    unsigned char note = atomic_load(&task->wait.note);
    bool told = note == MARE_KILLED || (note && mare__wait_heed(&task->wait));
    mare_err err =
        told ? (mare_err)note : mare__want_begin(runtime, &task->want, &task->spot, fired, &met);
    bool waits = mare__must_wait(err);
    task->clean = !waits;
    mare__lock_release(&task->lock);
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
    const struct mare__want *want = &task->want;
    bool receives = want->waits == MARE__WAITS_TO_RECEIVE;
    struct mare__far *far = receives ? want->channel->far : NULL;
    if (far && far->in != want->channel) // its own pump
        far = NULL;
    if (far)
        far->hold(far);
    mare__wait_begin(&task->wait);
    mare_err err = begin(task, &fired);
    while (err == MARE_NOMEM && // a ring grows, where no lock is held
           mare__must_wait(err = mare__want_try(want, &task->wait, &fired)))
        err = begin(task, &fired);
    bool waits = mare__must_wait(err);
    if (far && waits)
        far->ask(far);
    if (far)
        far->release(far);
    if (waits)
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

// What it waited in is left, before it runs.
static void leave(struct mare__task *task)
{
    mare__lock_acquire(&task->lock); // the thread in `begin` has let go of it: see the top
    mare__lock_release(&task->lock);
    if (!task->clean)
        mare__want_leave(task->runtime, &task->want, &task->spot);
    task->clean = true;
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

bool mare__tasks_anywhere(mare_runtime *runtime)
{
    bool any = mare__tasks_length(&runtime->tasks) > 0;
    for (unsigned i = 0; !any && i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        any = atomic_load(&runtime->workers[i]->tasks.late) &&
              mare__tasks_length(&runtime->workers[i]->tasks) > 0;
    return any;
}

bool mare__tasks_are_ready(mare_runtime *runtime)
{
    bool any = mare__tasks_length(&runtime->tasks) > 0;
    for (unsigned i = 0; !any && i < MARE__WORKERS_MAX && runtime->workers[i]; i++)
        any = mare__tasks_length(&runtime->workers[i]->tasks) > 0;
    return any;
}

void mare__tasks_share(struct mare__worker *worker)
{
    if (mare__tasks_length(&worker->tasks) > 0)
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
