// SPDX-License-Identifier: MIT
// The scheduler for C programs: handlers run one after the other on the thread that drives it.
//
//     source's line --event--> object --> [line of the ready] --step--> handler --+
//           ^------------- the object stands in line again, as a receiver <-------+
//
// Each registered source has one object, a task that waits in the line of the source as a routine
// would. When its wait has ended it goes into the line of the ready, instead of to the workers, and
// the thread that drives the scheduler runs it from there. So to have a thousand sources costs
// nothing for each event, and an event stays in the line of its source, which is bounded, until the
// one before it has been handled.
//
// An object is in the index by its number as long as it has not ended. It holds the scheduler,
// which so outlives its destruction until the last object whose wait is just being ended has ended
// too.
#include "base/alloc.h"
#include "base/index.h"
#include "loop/source.h"
#include "sched/runtime.h"

struct mare_object {
    struct mare__task task;    // without a source it never waits: it is made ready once
    mare_scheduler *scheduler; // a hold
    uint64_t id;
    mare_handler *handler;
    void *user;
    mare_source *source; // a reference; NULL: it runs once
    mare_message parameters;
    atomic_bool removed; // somebody has removed the source
    // Guarded by the scheduler's lock.
    bool queued, ended;
    struct mare__list in_line;      // of the ready
    struct mare__index_entry entry; // while it has not ended
};

struct mare_scheduler {
    struct mare__object object; // the program's hold, and those of the objects
    mare_runtime *runtime;
    struct mare__parker parker; // of the thread that drives it
    atomic_uint stops;          // calls of stop
    mare__lock lock;            // guards all below
    bool destroyed;
    struct mare__list ready;
    size_t ready_count, source_count;
    uint64_t last_id;
    struct mare__index objects;
};

// ---- The pool: objects --------------------------------------------------------------------------

static void destroy_scheduler(struct mare__object *object)
{
    mare__free(object);
}

static void destroy_object(struct mare__object *held)
{
    mare_object *object = MARE__ENTRY(held, mare_object, task.object);
    if (object->source)
        mare_source_unref(object->source);
    mare__message_clear(&object->parameters);
    mare__unref(&object->scheduler->object);
    mare__free(object);
}

static bool run(struct mare__task *task);
static void ready(struct mare__task *task);

// A new one, with one hold: that of its life, until it ends.
static mare_object *object_new(mare_scheduler *scheduler, mare_handler *handler, void *user,
                               mare_source *source)
{
    mare_object *object = mare__alloc_zero(sizeof *object);
    if (!object)
        return NULL;
    mare__task_init(&object->task, scheduler->runtime, run, destroy_object);
    object->task.ready = ready;
    object->scheduler = mare__ref(&scheduler->object);
    object->handler = handler;
    object->user = user;
    object->source = source ? mare_source_ref(source) : NULL;
    mare__list_init(&object->in_line);
    mare__lock_acquire(&scheduler->lock);
    object->id = ++scheduler->last_id;
    mare__index_add(&scheduler->objects, &object->entry, object->id);
    scheduler->source_count += source != NULL;
    mare__lock_release(&scheduler->lock);
    return object;
}

// By whom it belongs to. Who drives the scheduler may have nothing left to wait for.
static void end(mare_object *object)
{
    mare_scheduler *scheduler = object->scheduler;
    mare__lock_acquire(&scheduler->lock);
    bool first = !object->ended;
    if (first) {
        object->ended = true;
        mare__index_remove(&object->entry);
        scheduler->source_count -= object->source != NULL;
    }
    mare__lock_release(&scheduler->lock);
    mare__unpark(&scheduler->parker);
    if (first)
        mare__task_release(&object->task);
}

// Puts it into the line of the ready. False: it stands there, or has ended, or nobody will come.
static bool enqueue(mare_object *object)
{
    mare_scheduler *scheduler = mare__ref(&object->scheduler->object);
    mare__lock_acquire(&scheduler->lock);
    bool fits = !object->queued && !object->ended && !scheduler->destroyed;
    if (fits) {
        object->queued = true;
        mare__list_append(&scheduler->ready, &object->in_line);
        scheduler->ready_count++;
    }
    mare__lock_release(&scheduler->lock);
    if (fits)
        mare__unpark(&scheduler->parker); // the object may be gone by now, but not the scheduler
    mare__unref(&scheduler->object);
    return fits;
}

// Takes the first one out of the line.
static mare_object *dequeue(mare_scheduler *scheduler)
{
    mare__lock_acquire(&scheduler->lock);
    struct mare__list *entry = mare__list_first(&scheduler->ready);
    mare_object *object = entry ? MARE__ENTRY(entry, mare_object, in_line) : NULL;
    if (object) {
        mare__list_remove(entry);
        object->queued = false;
        scheduler->ready_count--;
    }
    mare__lock_release(&scheduler->lock);
    return object;
}

// The object of an identifier, held; or NULL.
static mare_object *find(mare_scheduler *scheduler, uint64_t id)
{
    mare__lock_acquire(&scheduler->lock);
    struct mare__index_entry *entry = mare__index_find(&scheduler->objects, id);
    mare_object *object = entry ? MARE__ENTRY(entry, mare_object, entry) : NULL;
    if (object)
        mare__task_hold(&object->task);
    mare__lock_release(&scheduler->lock);
    return object;
}

mare_err mare_scheduler_create_object(mare_scheduler *scheduler, mare_handler *handler, void *user,
                                      mare_message *parameters, uint64_t *id)
{
    mare_object *object = object_new(scheduler, handler, user, NULL);
    if (!object)
        return MARE_NOMEM;
    if (parameters)
        mare__message_move(&object->parameters, parameters);
    *id = object->id;
    return MARE_OK;
}

bool mare_scheduler_make_ready(mare_scheduler *scheduler, uint64_t id)
{
    mare_object *object = find(scheduler, id);
    if (!object)
        return false;
    bool mine = !object->source && enqueue(object);
    mare__task_release(&object->task);
    return mine;
}

uint64_t mare_object_id(const mare_object *object)
{
    return object->id;
}

// ---- The observer: waiting for events -----------------------------------------------------------

// The wait of one that has a source is over: with an event, for the thread that drives the
// scheduler; or for ever, for a worker, which ends it.
static void ready(struct mare__task *task)
{
    mare_object *object = MARE__ENTRY(task, mare_object, task);
    if (task->wait.result != MARE_OK || !enqueue(object))
        mare__task_to_workers(task);
}

static bool is_gone(mare_object *object)
{
    mare__lock_acquire(&object->scheduler->lock);
    bool gone = object->ended || object->scheduler->destroyed;
    mare__lock_release(&object->scheduler->lock);
    return gone;
}

static bool run(struct mare__task *task)
{
    mare_object *object = MARE__ENTRY(task, mare_object, task);
    bool lives = task->wait.result == MARE_OK && !is_gone(object);
    if (lives)
        object->handler(object->user, &task->wait.message);
    mare__message_clear(&task->wait.message);
    if (lives && !atomic_load(&object->removed))
        return mare__task_receive(task, object->source->events, MARE_FOREVER);
    end(object);
    return false;
}

// Copies the identifiers of the ready ones. Returns how many there are; `*idle`: and that nothing
// can come.
static size_t list_ready(mare_scheduler *scheduler, uint64_t *ids, size_t room, bool *idle)
{
    size_t copied = 0;
    mare__lock_acquire(&scheduler->lock);
    for (struct mare__list *at = scheduler->ready.next; at != &scheduler->ready && copied < room;
         at = at->next)
        ids[copied++] = MARE__ENTRY(at, mare_object, in_line)->id;
    size_t count = scheduler->ready_count;
    *idle = scheduler->source_count == 0;
    mare__lock_release(&scheduler->lock);
    return count;
}

// MARE_OK: some are ready. Else as mare_scheduler_step.
static mare_err await_ready(mare_scheduler *scheduler, uint64_t deadline, unsigned stops,
                            uint64_t *ids, size_t room, size_t *count)
{
    bool idle, late = false;
    for (;;) {
        *count = list_ready(scheduler, ids, room, &idle);
        if (*count > 0)
            return MARE_OK;
        if (atomic_load(&scheduler->stops) != stops)
            return MARE_CANCELLED;
        if (idle)
            return MARE_EMPTY;
        if (late)
            return MARE_TIMEOUT;
        late = !mare__runtime_park(scheduler->runtime, &scheduler->parker, deadline);
    }
}

size_t mare_scheduler_wait_for_events(mare_scheduler *scheduler, uint64_t deadline, uint64_t *ids,
                                      size_t room)
{
    size_t count;
    await_ready(scheduler, deadline, atomic_load(&scheduler->stops), ids, room, &count);
    return count;
}

mare_object *mare_scheduler_get_ready_object(mare_scheduler *scheduler, uint64_t deadline)
{
    size_t count;
    mare_object *object = dequeue(scheduler);
    if (!object && await_ready(scheduler, deadline, atomic_load(&scheduler->stops), NULL, 0,
                               &count) == MARE_OK)
        object = dequeue(scheduler);
    return object;
}

// ---- The scheduler ------------------------------------------------------------------------------

void mare_object_run(mare_object *object)
{
    if (object->source) {
        mare__task_proceed(&object->task);
        return;
    }
    object->handler(object->user, &object->parameters);
    end(object);
}

// One step of a loop that began after so many calls of stop.
static mare_err step(mare_scheduler *scheduler, uint64_t deadline, unsigned stops)
{
    size_t count;
    mare_err err = await_ready(scheduler, deadline, stops, NULL, 0, &count);
    if (!err)
        mare_object_run(dequeue(scheduler));
    return err;
}

mare_err mare_scheduler_step(mare_scheduler *scheduler, uint64_t deadline)
{
    return step(scheduler, deadline, atomic_load(&scheduler->stops));
}

void mare_scheduler_loop(mare_scheduler *scheduler)
{
    unsigned stops = atomic_load(&scheduler->stops);
    while (atomic_load(&scheduler->stops) == stops &&
           step(scheduler, MARE_FOREVER, stops) == MARE_OK)
        ;
}

void mare_scheduler_stop(mare_scheduler *scheduler)
{
    atomic_fetch_add(&scheduler->stops, 1);
    mare__unpark(&scheduler->parker);
}

mare_err mare_scheduler_register_source(mare_scheduler *scheduler, mare_source *source,
                                        mare_handler *handler, void *user, uint64_t *id)
{
    mare_object *object = object_new(scheduler, handler, user, source);
    if (!object)
        return MARE_NOMEM;
    if (id)
        *id = object->id;
    mare__task_receive(&object->task, source->events, MARE_FOREVER);
    mare__task_start(&object->task);
    return MARE_OK;
}

// It waits no more. One that does not wait now ends when it would again.
static void withdraw(mare_object *object)
{
    if (mare__task_withdraw(&object->task))
        end(object);
}

bool mare_scheduler_remove_source(mare_scheduler *scheduler, uint64_t id)
{
    mare_object *object = find(scheduler, id);
    bool first = object && object->source && !atomic_exchange(&object->removed, true);
    if (first)
        withdraw(object);
    if (object)
        mare__task_release(&object->task);
    return first;
}

mare_err mare_scheduler_create(mare_runtime *runtime, mare_scheduler **out)
{
    *out = NULL;
    if (!mare__runtime_valid(runtime) || atomic_load(&runtime->stopping))
        return MARE_STOPPED;
    mare_scheduler *scheduler = mare__alloc_zero(sizeof *scheduler);
    if (!scheduler)
        return MARE_NOMEM;
    mare__object_init(&scheduler->object, MARE__KIND_INTERNAL, destroy_scheduler);
    scheduler->runtime = runtime;
    mare__list_init(&scheduler->ready);
    *out = scheduler;
    return MARE_OK;
}

// Any object that has not ended, held; or NULL.
static mare_object *any(mare_scheduler *scheduler)
{
    mare__lock_acquire(&scheduler->lock);
    struct mare__index_entry *entry = mare__index_any(&scheduler->objects);
    mare_object *object = entry ? MARE__ENTRY(entry, mare_object, entry) : NULL;
    if (object)
        mare__task_hold(&object->task);
    mare__lock_release(&scheduler->lock);
    return object;
}

// Handlers are not called any more. One whose event is just being brought goes to a worker, which
// finds that it has ended.
void mare_scheduler_destroy(mare_scheduler *scheduler)
{
    mare_object *object;
    mare__lock_acquire(&scheduler->lock);
    scheduler->destroyed = true;
    mare__lock_release(&scheduler->lock);
    while ((object = dequeue(scheduler)) != NULL)
        if (object->source)
            mare__task_proceed(&object->task);
        else
            end(object);
    while ((object = any(scheduler)) != NULL) {
        if (object->source)
            mare__task_withdraw(&object->task);
        end(object);
        mare__task_release(&object->task);
    }
    mare__unref(&scheduler->object);
}
