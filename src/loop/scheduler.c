// SPDX-License-Identifier: MIT
// The scheduler for C programs: handlers run one after the other on the thread that drives it.
//
//     source's line --event--> object --> [line of the ready] --step--> handler --+
//           ^------------- the object stands in line again, as a receiver <-------+
//
// Each registered source has one object, which waits in the line of the source as a routine would,
// and is put into the line of the ready by whoever ends that wait. So to have a thousand sources
// costs nothing for each event, and an event stays in the line of its source, which is bounded,
// until the one before it has been handled.
//
// An object belongs to whoever has its wait, then to the line of the ready, then to who runs it.
// That one alone ends it. Those who look for it by its identifier hold it meanwhile (`holders`).
#include "base/alloc.h"
#include "loop/source.h"
#include "sched/runtime.h"

enum { BUCKETS = 256 };

struct mare_object {
    mare_scheduler *scheduler;
    uint64_t id;
    mare_handler *handler;
    void *user;
    mare_source *source; // a reference; NULL: it runs once
    mare_message parameters;
    // Guarded by the scheduler's lock.
    unsigned holders;
    bool queued, ended;
    struct mare__list in_line;  // of the ready
    struct mare__list in_table; // while it has not ended
    // How it waits for an event.
    struct mare__wait wait;
    struct mare__spot spot;
};

struct mare_scheduler {
    mare_runtime *runtime;
    struct mare__parker parker; // of the thread that drives it
    atomic_uint stops;          // calls of stop
    mare__lock lock;            // guards all below
    struct mare__list ready;
    size_t ready_count, source_count;
    uint64_t last_id;
    struct mare__list table[BUCKETS]; // from identifiers to objects
};

// ---- The pool: objects --------------------------------------------------------------------------

static struct mare__list *bucket_of(mare_scheduler *scheduler, uint64_t id)
{
    return &scheduler->table[id % BUCKETS];
}

static void wake(struct mare__wait *wait);

static mare_object *object_new(mare_scheduler *scheduler, mare_handler *handler, void *user,
                               mare_source *source)
{
    mare_object *object = mare__alloc_zero(sizeof *object);
    if (!object)
        return NULL;
    object->scheduler = scheduler;
    object->handler = handler;
    object->user = user;
    object->source = source ? mare_source_ref(source) : NULL;
    object->holders = 1;
    mare__list_init(&object->in_line);
    mare__list_init(&object->spot.entry);
    object->wait.wake = wake;
    object->spot.wait = &object->wait;
    mare__lock_acquire(&scheduler->lock);
    object->id = ++scheduler->last_id;
    mare__list_append(bucket_of(scheduler, object->id), &object->in_table);
    scheduler->source_count += source != NULL;
    mare__lock_release(&scheduler->lock);
    return object;
}

// Gives back a hold; the last one frees it.
static void drop(mare_object *object)
{
    mare_scheduler *scheduler = object->scheduler;
    mare__lock_acquire(&scheduler->lock);
    bool last = --object->holders == 0;
    mare__lock_release(&scheduler->lock);
    if (!last)
        return;
    if (object->source)
        mare_source_unref(object->source);
    mare__message_clear(&object->parameters);
    mare__free(object);
}

// By whom it belongs to. Who drives the scheduler may have nothing left to wait for.
static void end(mare_object *object)
{
    mare_scheduler *scheduler = object->scheduler;
    mare__lock_acquire(&scheduler->lock);
    object->ended = true;
    mare__list_remove(&object->in_table);
    scheduler->source_count -= object->source != NULL;
    mare__unpark(&scheduler->parker); // under the lock: then the scheduler may be gone
    mare__lock_release(&scheduler->lock);
    drop(object);
}

static void enqueue(mare_object *object)
{
    mare_scheduler *scheduler = object->scheduler;
    mare__lock_acquire(&scheduler->lock);
    object->queued = true;
    mare__list_append(&scheduler->ready, &object->in_line);
    scheduler->ready_count++;
    mare__unpark(&scheduler->parker); // as above
    mare__lock_release(&scheduler->lock);
}

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
    struct mare__list *bucket = bucket_of(scheduler, id);
    mare_object *found = NULL;
    mare__lock_acquire(&scheduler->lock);
    for (struct mare__list *at = bucket->next; at != bucket && !found; at = at->next)
        if (MARE__ENTRY(at, mare_object, in_table)->id == id)
            found = MARE__ENTRY(at, mare_object, in_table);
    if (found)
        found->holders++;
    mare__lock_release(&scheduler->lock);
    return found;
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
    mare__lock_acquire(&scheduler->lock);
    bool mine = !object->source && !object->queued && !object->ended;
    if (mine) {
        object->queued = true;
        mare__list_append(&scheduler->ready, &object->in_line);
        scheduler->ready_count++;
        mare__unpark(&scheduler->parker);
    }
    mare__lock_release(&scheduler->lock);
    drop(object);
    return mine;
}

uint64_t mare_object_id(const mare_object *object)
{
    return object->id;
}

// ---- The observer: waiting for events -----------------------------------------------------------

static bool is_removed(mare_object *object)
{
    return atomic_load(&object->wait.note) == MARE_KILLED;
}

// Takes the next event of the source, or waits for it.
static void await_event(mare_object *object)
{
    if (is_removed(object)) { // it would still be given what is in line
        end(object);
        return;
    }
    mare__wait_begin(&object->wait);
    mare_err err = mare__chan_receive(object->source->events, &object->wait.message, &object->spot);
    if (err == MARE_OK) {
        mare__message_move(&object->parameters, &object->wait.message);
        enqueue(object);
    } else if (err != MARE_EMPTY) { // the source has ended, or was removed
        end(object);
    }
}

static void wake(struct mare__wait *wait)
{
    mare_object *object = MARE__ENTRY(wait, mare_object, wait);
    if (wait->fired == MARE__FIRED_NONE)
        mare__chan_forget(object->source->events, &object->spot);
    if (wait->result == MARE_OK) {
        mare__message_move(&object->parameters, &wait->message);
        enqueue(object);
    } else {
        end(object);
    }
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
        late = !mare__park(&scheduler->parker, deadline);
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
    object->handler(object->user, &object->parameters);
    mare__message_clear(&object->parameters);
    if (object->source)
        await_event(object);
    else
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
    await_event(object);
    return MARE_OK;
}

bool mare_scheduler_remove_source(mare_scheduler *scheduler, uint64_t id)
{
    mare_object *object = find(scheduler, id);
    bool first = object && object->source && !is_removed(object);
    if (first)
        mare__wait_cancel(&object->wait); // it ends here, or when it would wait again
    if (object)
        drop(object);
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
    scheduler->runtime = runtime;
    mare__list_init(&scheduler->ready);
    for (int i = 0; i < BUCKETS; i++)
        mare__list_init(&scheduler->table[i]);
    *out = scheduler;
    return MARE_OK;
}

// The first object of a bucket, held; or NULL.
static mare_object *any_of(mare_scheduler *scheduler, struct mare__list *bucket)
{
    mare__lock_acquire(&scheduler->lock);
    struct mare__list *entry = mare__list_first(bucket);
    mare_object *object = entry ? MARE__ENTRY(entry, mare_object, in_table) : NULL;
    if (object)
        object->holders++;
    mare__lock_release(&scheduler->lock);
    return object;
}

void mare_scheduler_destroy(mare_scheduler *scheduler)
{
    mare_object *object;
    for (int i = 0; i < BUCKETS; i++)
        while ((object = any_of(scheduler, &scheduler->table[i])) != NULL) {
            mare_object *ready;
            if (object->source)
                mare__wait_cancel(&object->wait);
            while ((ready = dequeue(scheduler)) != NULL)
                end(ready);
            if (!object->source && !object->ended)
                end(object); // never made ready
            drop(object);
            mare__pause(); // one whose event is just being brought comes into the line in a moment
        }
    mare__free(scheduler);
}
