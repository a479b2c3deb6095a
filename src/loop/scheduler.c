// SPDX-License-Identifier: MIT
// The scheduler for C programs: handlers run one after the other on the thread that drives it.
//
//     source's line --event--> object --> [line of the ready] --step--> handler --+
//           ^------------- the object stands in line again, as a receiver <-------+
//
// Each registered source or channel has one object: a task that waits in its line as a routine
// would. When its wait has ended, the object goes into the line of the ready instead of to the
// workers. The thread that drives the scheduler takes it from there and runs it. So a thousand
// registered sources cost nothing for each event. A second event stays in the line of its source,
// which is bounded, until the first one was handled.
//
// An object is in the index, by its number, until it has ended. It holds the scheduler. So after
// mare_scheduler_destroy the memory stays until every object has ended, even one whose wait is
// ending on another thread at that moment.
#include "base/alloc.h"
#include "base/index.h"
#include "loop/source.h"
#include "platform/socket.h"
#include "sched/runtime.h"

struct mare_object {
    struct mare__task task;    // without a source it never waits: it becomes ready once
    mare_scheduler *scheduler; // a hold
    uint64_t id;
    mare_handler *handler;
    void *user;
    mare_source *source; // a reference, or NULL
    mare_channel *line;  // a reference: where it waits; NULL: it waits nowhere, and runs once
    mare_message parameters;
    atomic_bool removed; // the source was removed
    // Guarded by the scheduler's lock.
    bool queued, ended;
    struct mare__list in_line;      // the line of the ready
    struct mare__index_entry entry; // in the index, until it has ended
};

struct mare_scheduler {
    struct mare__object object; // held by the program and by the objects
    mare_runtime *runtime;
    struct mare__parker parker; // of the thread that drives the scheduler
    atomic_uint stops;          // how often stop was called
    pthread_mutex_t flag_mutex; // guards the next two; taken before the lock
    atomic_int flag;            // a descriptor, readable while objects are ready; or -1
    bool raised;                // it is readable
    mare__lock lock;            // guards all that follows
    bool destroyed;
    struct mare__list ready;
    size_t ready_count, source_count;
    uint64_t last_id;
    struct mare__index objects;
};

// ---- The pool: objects --------------------------------------------------------------------------

static void destroy_scheduler(struct mare__object *object)
{
    mare_scheduler *scheduler = (mare_scheduler *)object;
    if (atomic_load(&scheduler->flag) >= 0)
        mare__socket_close(atomic_load(&scheduler->flag));
    pthread_mutex_destroy(&scheduler->flag_mutex);
    mare__free(scheduler);
}

static void destroy_object(struct mare__object *held)
{
    mare_object *object = MARE__ENTRY(held, mare_object, task.object);
    if (object->source)
        mare_source_unref(object->source);
    if (object->line)
        mare_chan_unref(object->line);
    mare__message_clear(&object->parameters);
    mare__unref(&object->scheduler->object);
    mare__free(object);
}

static bool run(struct mare__task *task);
static void ready(struct mare__task *task);

// A new object with one hold, given back when the object ends.
static mare_object *object_new(mare_scheduler *scheduler, mare_handler *handler, void *user,
                               mare_source *source, mare_channel *line)
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
    object->line = line ? mare_chan_ref(line) : NULL;
    mare__list_init(&object->in_line);
    mare__lock_acquire(&scheduler->lock);
    object->id = ++scheduler->last_id;
    mare__index_add(&scheduler->objects, &object->entry, object->id);
    scheduler->source_count += line != NULL;
    mare__lock_release(&scheduler->lock);
    return object;
}

// Called by the object's owner. Wakes the driver of the scheduler, which may have nothing left to
// wait for.
static void end(mare_object *object)
{
    mare_scheduler *scheduler = object->scheduler;
    mare__lock_acquire(&scheduler->lock);
    bool first = !object->ended;
    if (first) {
        object->ended = true;
        mare__index_remove(&object->entry);
        scheduler->source_count -= object->line != NULL;
    }
    mare__lock_release(&scheduler->lock);
    mare__unpark(&scheduler->parker);
    if (first)
        mare__task_release(&object->task);
}

// Makes the flag say whether an object is ready, now that it may say otherwise. That takes a system
// call, and so the lock is not held. Several threads may come here at once: each looks what is so
// now, and so the last of them leaves the flag right.
static void show(mare_scheduler *scheduler)
{
    if (atomic_load(&scheduler->flag) < 0)
        return;
    pthread_mutex_lock(&scheduler->flag_mutex);
    mare__lock_acquire(&scheduler->lock);
    bool ready = scheduler->ready_count > 0;
    mare__lock_release(&scheduler->lock);
    if (ready && !scheduler->raised)
        mare__flag_raise(atomic_load(&scheduler->flag));
    else if (!ready && scheduler->raised)
        mare__flag_lower(atomic_load(&scheduler->flag));
    scheduler->raised = ready;
    pthread_mutex_unlock(&scheduler->flag_mutex);
}

// Puts an object into the line of the ready. False: it stands there already, or has ended, or the
// scheduler is destroyed.
static bool enqueue(mare_object *object)
{
    mare_scheduler *scheduler = mare__ref(&object->scheduler->object);
    mare__lock_acquire(&scheduler->lock);
    bool fits = !object->queued && !object->ended && !scheduler->destroyed, first = false;
    if (fits) {
        object->queued = true;
        mare__list_append(&scheduler->ready, &object->in_line);
        first = scheduler->ready_count++ == 0;
    }
    mare__lock_release(&scheduler->lock);
    if (first)
        show(scheduler);
    if (fits)
        mare__unpark(&scheduler->parker); // the object may be freed by now; the scheduler is held
    mare__unref(&scheduler->object);
    return fits;
}

// Takes the first object out of the line of the ready.
static mare_object *dequeue(mare_scheduler *scheduler)
{
    bool last = false;
    mare__lock_acquire(&scheduler->lock);
    struct mare__list *entry = mare__list_first(&scheduler->ready);
    mare_object *object = entry ? MARE__ENTRY(entry, mare_object, in_line) : NULL;
    if (object) {
        mare__list_remove(entry);
        object->queued = false;
        last = --scheduler->ready_count == 0;
    }
    mare__lock_release(&scheduler->lock);
    if (last)
        show(scheduler);
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
    mare_object *object = object_new(scheduler, handler, user, NULL, NULL);
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
    bool mine = !object->line && enqueue(object);
    mare__task_release(&object->task);
    return mine;
}

uint64_t mare_object_id(const mare_object *object)
{
    return object->id;
}

// ---- The observer: waiting for events -----------------------------------------------------------

// Whether the wait says that nothing more will come: then the handler is called with NULL. Only for
// channels: the handler of a source is not told.
static bool is_last(const mare_object *object)
{
    mare_err why = object->task.wait.result;
    return !object->source && (why == MARE_CLOSED || why == MARE_NONODE);
}

// The wait of an object is over. With an event, the object goes to the thread that drives the
// scheduler. If the wait was ended for good, a worker gets the task, and ends the object.
static void ready(struct mare__task *task)
{
    mare_object *object = MARE__ENTRY(task, mare_object, task);
    bool news = task->wait.result == MARE_OK || is_last(object);
    if (!news || !enqueue(object))
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
    bool gone = is_gone(object), lives = task->wait.result == MARE_OK && !gone;
    if (lives)
        object->handler(object->user, &task->wait.message);
    else if (is_last(object) && !gone && !atomic_load(&object->removed))
        object->handler(object->user, NULL);
    mare__message_clear(&task->wait.message);
    if (lives && !atomic_load(&object->removed))
        return mare__task_receive(task, mare__chan_in(object->line), MARE_FOREVER);
    end(object);
    return false;
}

// Copies the identifiers of the ready objects. Returns how many are ready; `*idle`: no source is
// left that could bring an event.
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

// Waits until an object is ready: MARE_OK. Other results are those of mare_scheduler_step.
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
    if (object->line) {
        mare__task_proceed(&object->task);
        return;
    }
    object->handler(object->user, &object->parameters);
    end(object);
}

// One step. `stops`: the number of stops when the caller's loop began; a later stop ends the wait.
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

static mare_err enlist(mare_scheduler *scheduler, mare_source *source, mare_channel *line,
                       mare_handler *handler, void *user, uint64_t *id)
{
    mare_object *object = object_new(scheduler, handler, user, source, line);
    if (!object)
        return MARE_NOMEM;
    if (id)
        *id = object->id;
    mare__task_receive(&object->task, mare__chan_in(line), MARE_FOREVER);
    mare__task_start(&object->task);
    return MARE_OK;
}

mare_err mare_scheduler_register_source(mare_scheduler *scheduler, mare_source *source,
                                        mare_handler *handler, void *user, uint64_t *id)
{
    return enlist(scheduler, source, source->events, handler, user, id);
}

mare_err mare_scheduler_register_channel(mare_scheduler *scheduler, mare_channel *channel,
                                         mare_handler *handler, void *user, uint64_t *id)
{
    return enlist(scheduler, NULL, channel, handler, user, id);
}

mare_err mare_scheduler_descriptor(mare_scheduler *scheduler, int *descriptor)
{
    pthread_mutex_lock(&scheduler->flag_mutex);
    if (atomic_load(&scheduler->flag) < 0)
        atomic_store(&scheduler->flag, mare__flag_new());
    *descriptor = atomic_load(&scheduler->flag);
    pthread_mutex_unlock(&scheduler->flag_mutex);
    show(scheduler);
    return *descriptor < 0 ? MARE_IO : MARE_OK;
}

// Ends the wait of an object, and the object. If it is not waiting now, it ends when it would wait
// again.
static void withdraw(mare_object *object)
{
    if (mare__task_withdraw(&object->task))
        end(object);
}

bool mare_scheduler_remove_source(mare_scheduler *scheduler, uint64_t id)
{
    mare_object *object = find(scheduler, id);
    bool first = object && object->line && !atomic_exchange(&object->removed, true);
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
    pthread_mutex_init(&scheduler->flag_mutex, NULL);
    atomic_init(&scheduler->flag, -1);
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

// No handler is called after this. An object whose event is on its way at this moment goes to a
// worker, which finds that the object has ended.
void mare_scheduler_destroy(mare_scheduler *scheduler)
{
    mare_object *object;
    mare__lock_acquire(&scheduler->lock);
    scheduler->destroyed = true;
    mare__lock_release(&scheduler->lock);
    while ((object = dequeue(scheduler)) != NULL)
        if (object->line)
            mare__task_proceed(&object->task);
        else
            end(object);
    while ((object = any(scheduler)) != NULL) {
        if (object->line)
            mare__task_withdraw(&object->task);
        end(object);
        mare__task_release(&object->task);
    }
    mare__unref(&scheduler->object);
}
