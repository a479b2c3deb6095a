// SPDX-License-Identifier: MIT
// Sources of kinds that programs define. Events come from a watched descriptor, from a poll when it
// is the source's turn, from a thread of the source's own, or from the program. They go into a
// channel, the line of the source. A task of the source waits for the descriptor, and for room in
// the line:
//
//     descriptor:  watched --told--> ready() --event--> [line] --full--> waits --taken--+
//                     ^--------------- EMPTY --+  ^-------------------------------------+
//     polled:      ring --turn--> poll() --event--> [line] --full--> waits --taken--> ring
//     thread:      wait() --event--> [line], where it blocks
//
// Invariants: one thread at a time makes events for a source. It is the thread that has the
// source's task: the worker that runs the task, or the poller while the task does not run. Only
// that thread calls `finish`, once, after its last event. A close cancels the task.
#include "loop/source.h"

#include "base/alloc.h"
#include "platform/socket.h"
#include "sched/foreign.h"
#include "sched/runtime.h"

enum {
    ROOM = 16,          // events in the line, unless the program says otherwise
    EVENTS_AT_ONCE = 64 // events of a descriptor, before other tasks have their turn
};

#define POLL_NS UINT64_C(10000000) // the time for one round of all polled sources

struct mare__poller {
    mare_runtime *runtime;
    struct mare__parker parker;
    pthread_mutex_t mutex; // guards the ring, and `quit`
    struct mare__list ring;
    unsigned count;
    bool quit;
};

static bool has_ended(const mare_source *source)
{
    return atomic_load(&source->outcome) != MARE_OK;
}

// ---- The end ------------------------------------------------------------------------------------

static void destroy_task(struct mare__object *object)
{
    mare_source *source = MARE__ENTRY(object, mare_source, task.object);
    if (source->begun && source->kind->destroy)
        source->kind->destroy(source->self);
    for (int way = 0; way < MARE__WAYS; way++)
        if (source->observed.ready[way])
            mare_chan_unref(source->observed.ready[way]);
    mare__message_clear(&source->event);
    mare_chan_unref(source->events);
    mare__free(source);
}

// Takes the source off the list of those that the end of the runtime closes.
static void unlist(mare_source *source)
{
    mare_runtime *runtime = source->task.runtime;
    mare__lock_acquire(&runtime->sources.lock);
    mare__list_remove(&source->in_all);
    mare__lock_release(&runtime->sources.lock);
}

// The source makes no more events.
static void finish(mare_source *source, mare_err how)
{
    mare_runtime *runtime = source->task.runtime;
    unsigned lives = MARE_OK;
    atomic_compare_exchange_strong(&source->outcome, &lives, how); // unless it was closed: that
                                                                   // stays
    unlist(source);
    mare_chan_close(source->events);
    if (source->kind->ready) {
        mare__observed_close(&source->observed); // its callback releases the task
        return;
    }
    atomic_fetch_sub(&runtime->own_busy, 1);
    if (atomic_load(&runtime->waiters) > 0)
        mare__runtime_changed(runtime); // the rest of the program may be in a deadlock now
    mare__task_release(&source->task);
}

// ---- Descriptors --------------------------------------------------------------------------------

static void on_descriptor_closed(struct mare__observed *observed)
{
    mare__task_release(&MARE__ENTRY(observed, mare_source, observed)->task);
}

// Makes events until there is nothing more to read, no room, or other tasks should have their turn.
static bool read_all(mare_source *source)
{
    struct mare__task *task = &source->task;
    mare_channel *ready = NULL;
    mare_err err = MARE_OK, put = MARE_OK;
    for (int i = 0; !err && !put && i < EVENTS_AT_ONCE; i++) {
        err = source->kind->ready(source->self, &source->event);
        if (!err)
            put = mare__chan_send(source->events, &source->event, NULL);
    }
    if (!err && !put)
        return mare__task_yield(task);
    if (put == MARE_FULL)
        return mare__task_send(task, source->events, &source->event, MARE_FOREVER);
    mare__message_clear(&source->event);
    if (err == MARE_EMPTY)
        ready = mare__observed_await(task->runtime, &source->observed, MARE__TO_READ);
    if (ready)
        return mare__task_receive(task, ready, MARE_FOREVER);
    finish(source, err == MARE_EMPTY ? MARE_NOMEM : err ? err : put);
    return false;
}

// ---- Those that are polled ----------------------------------------------------------------------

static void rejoin_ring(struct mare__poller *poller, mare_source *source)
{
    pthread_mutex_lock(&poller->mutex);
    mare__list_append(&poller->ring, &source->turn);
    poller->count++;
    pthread_mutex_unlock(&poller->mutex);
}

static void join_ring(mare_source *source)
{
    struct mare__poller *poller = source->task.runtime->sources.poller;
    rejoin_ring(poller, source);
    mare__unpark(&poller->parker); // the poller is not freed before every source has ended
}

// Takes the next source out of the ring, and says how many share the time.
static mare_source *take_turn(struct mare__poller *poller, unsigned *sharing, bool *quit)
{
    pthread_mutex_lock(&poller->mutex);
    struct mare__list *entry = mare__list_first(&poller->ring);
    if (entry)
        mare__list_remove(entry);
    *sharing = poller->count;
    poller->count -= entry != NULL;
    *quit = poller->quit;
    pthread_mutex_unlock(&poller->mutex);
    return entry ? MARE__ENTRY(entry, mare_source, turn) : NULL;
}

// Polls a source for its part of the time. Returns whether there was an event.
static bool poll_one(struct mare__poller *poller, mare_source *source, uint64_t part)
{
    mare_err err =
        has_ended(source) ? MARE_CLOSED : source->kind->poll(source->self, part, &source->event);
    if (err == MARE_OK) {
        err = mare__chan_send(source->events, &source->event, NULL);
        if (err == MARE_OK) {
            rejoin_ring(poller, source);
        } else if (err == MARE_FULL) { // `proceed` will put it back
            mare__task_send(&source->task, source->events, &source->event, MARE_FOREVER);
            mare__task_start(&source->task);
        } else {
            finish(source, err);
        }
        return true;
    }
    mare__message_clear(&source->event);
    if (err == MARE_EMPTY)
        rejoin_ring(poller, source);
    else
        finish(source, err);
    return false;
}

static void *poll_all(void *argument)
{
    struct mare__poller *poller = argument;
    mare_runtime *runtime = poller->runtime;
    uint64_t began = 0;
    unsigned left = 0, sharing;
    bool quit = false, quiet = true;
    for (;;) {
        mare_source *source = take_turn(poller, &sharing, &quit);
        if (!source && quit)
            break;
        if (!source) {
            mare__runtime_park(runtime, &poller->parker, MARE_FOREVER);
            left = 0;
            continue;
        }
        if (left == 0) { // a round begins
            left = sharing;
            quiet = true;
            began = mare__now(runtime);
        }
        quiet &= !poll_one(poller, source, POLL_NS / sharing);
        if (--left == 0 && quiet) // a quiet round that ended early: wait for the rest of its time
            mare__runtime_park(runtime, &poller->parker, began + POLL_NS);
    }
    pthread_mutex_destroy(&poller->mutex);
    mare__free(poller);
    mare__runtime_left(runtime);
    return NULL;
}

static mare_err start_poller(mare_runtime *runtime)
{
    const struct mare__platform *platform = &runtime->platform;
    struct mare__poller *poller = mare__alloc_zero(sizeof *poller);
    if (!poller)
        return MARE_NOMEM;
    poller->runtime = runtime;
    pthread_mutex_init(&poller->mutex, NULL);
    mare__list_init(&poller->ring);
    if (platform->start_apart(platform->context, "mare-poll", poll_all, poller) != 0) {
        pthread_mutex_destroy(&poller->mutex);
        mare__free(poller);
        return MARE_IO;
    }
    atomic_fetch_add(&runtime->own_threads, 1); // before anything can tell the poller to quit
    runtime->sources.poller = poller;
    return MARE_OK;
}

// Makes the poller with the first source that needs one.
static mare_err find_poller(mare_runtime *runtime)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    mare_err err = runtime->sources.poller ? MARE_OK : start_poller(runtime);
    pthread_mutex_unlock(&making);
    return err;
}

// ---- Those that block ---------------------------------------------------------------------------

static void *wait_and_put(void *argument)
{
    mare_source *source = argument;
    mare_runtime *runtime = source->task.runtime;
    mare_err err = MARE_OK;
    while (!has_ended(source) && (!err || err == MARE_EMPTY)) {
        err = source->kind->wait(source->self, &source->event);
        if (err == MARE_OK)
            err = mare_chan_send(source->events, &source->event); // waits here while the line is
                                                                  // full
        else
            mare__message_clear(&source->event);
    }
    finish(source, err);
    mare__runtime_left(runtime);
    return NULL;
}

static mare_err start_thread(mare_source *source)
{
    mare_runtime *runtime = source->task.runtime;
    const struct mare__platform *platform = &runtime->platform;
    atomic_fetch_add(&runtime->own_threads, 1);
    if (platform->start_apart(platform->context, "mare-source", wait_and_put, source) == 0)
        return MARE_OK;
    mare__runtime_left(runtime);
    return MARE_IO;
}

// ---- Going on, and being closed -----------------------------------------------------------------

// The task's wait is over: there is room, the descriptor is readable, or the source was closed.
static bool proceed(struct mare__task *task)
{
    mare_source *source = MARE__ENTRY(task, mare_source, task);
    mare__message_clear(&task->wait.message);
    if (task->wait.result != MARE_OK || has_ended(source))
        finish(source, MARE_CLOSED);
    else if (source->kind->ready)
        return read_all(source);
    else
        join_ring(source); // from here on the poller has it
    return false;
}

bool mare_source_close(mare_source *source)
{
    unsigned lives = MARE_OK;
    if (!mare__runtime_valid(source->task.runtime) ||
        !atomic_compare_exchange_strong(&source->outcome, &lives, MARE_CLOSED))
        return false;
    const mare_source_kind *kind = source->kind;
    mare__task_hold(&source->task); // the thread that makes events may end the source meanwhile
    unlist(source);
    mare_chan_close(source->events);
    if (kind->stop)
        kind->stop(source->self);
    if (kind->ready || kind->poll)
        mare__task_cancel(&source->task);
    else if (!kind->wait)
        finish(source, MARE_CLOSED);
    mare__task_release(&source->task);
    return true;
}

static void destroy(struct mare__object *object)
{
    mare_source *source = (mare_source *)object;
    if (!mare__runtime_valid(source->task.runtime))
        return; // after a fork: the threads are in the other process
    mare_source_close(source);
    mare__task_release(&source->task);
}

// A source that has not ended, held; or NULL. It is safe to take a hold under the lock of the list:
// whoever gives back the last hold (finish, mare_source_close) has taken the source off the list
// first.
static mare_source *take_living(mare_runtime *runtime)
{
    mare__lock_acquire(&runtime->sources.lock);
    struct mare__list *entry = mare__list_first(&runtime->sources.all);
    mare_source *source = entry ? MARE__ENTRY(entry, mare_source, in_all) : NULL;
    if (source) {
        mare__list_remove(entry);
        mare__task_hold(&source->task);
    }
    mare__lock_release(&runtime->sources.lock);
    return source;
}

static void stop_all(mare_runtime *runtime)
{
    mare_source *source;
    while ((source = take_living(runtime)) != NULL) {
        mare_source_close(source);
        mare__task_release(&source->task);
    }
    struct mare__poller *poller = runtime->sources.poller; // no thread makes one any more
    if (!poller)
        return;
    pthread_mutex_lock(&poller->mutex);
    poller->quit = true;
    mare__unpark(&poller->parker); // under the mutex: once it is free, the poller may be freed
    pthread_mutex_unlock(&poller->mutex);
}

// ---- The beginning ------------------------------------------------------------------------------

// Begins to make events.
static mare_err begin(mare_source *source)
{
    const mare_source_kind *kind = source->kind;
    mare_runtime *runtime = source->task.runtime;
    if (kind->ready) {
        mare_channel *ready = mare__observed_await(runtime, &source->observed, MARE__TO_READ);
        if (!ready)
            return MARE_NOMEM;
        mare__task_receive(&source->task, ready, MARE_FOREVER);
        mare__task_start(&source->task);
        return MARE_OK;
    }
    atomic_fetch_add(&runtime->own_busy, 1);
    mare_err err = MARE_OK;
    if (kind->poll) {
        err = find_poller(runtime);
        if (!err)
            join_ring(source);
    } else if (kind->wait) {
        err = start_thread(source);
    }
    if (err)
        atomic_fetch_sub(&runtime->own_busy, 1);
    return err;
}

// Keeps the source's code in memory. Lua unloads a C module with the last state that has it, but
// the source may live on in another state, or be in the middle of a call.
static void keep_code(const mare_source_kind *kind)
{
    uintptr_t code[] = {(uintptr_t)kind->ready, (uintptr_t)kind->poll, (uintptr_t)kind->wait,
                        (uintptr_t)kind->destroy, (uintptr_t)kind};
    int first = 0;
    while (!code[first])
        first++;
    mare__library_keep(code[first]);
}

static mare_err check(const mare_runtime *runtime, const mare_source_kind *kind, int descriptor)
{
    if (!mare__runtime_valid(runtime) || atomic_load(&runtime->stopping))
        return MARE_STOPPED;
    int ways = (kind->ready != NULL) + (kind->poll != NULL) + (kind->wait != NULL);
    bool fits = kind->ready ? descriptor >= 0 : descriptor < 0;
    return kind->name && ways <= 1 && fits ? MARE_OK : MARE_INVALID;
}

// The source could not begin: frees what it is made of, except `self`.
static void abandon(mare_source *source)
{
    source->begun = false;
    unlist(source);
    if (source->kind->ready)
        mare__observed_close(&source->observed);
    else
        mare__task_release(&source->task);
    mare__task_release(&source->task);
}

static void init(mare_source *source, mare_runtime *runtime, const mare_source_kind *kind,
                 void *self, int fd)
{
    mare__object_init(&source->object, MARE__KIND_SOURCE, destroy);
    source->object.weight = sizeof *source + sizeof(mare_channel);
    mare__task_init(&source->task, runtime, proceed, destroy_task);
    mare__task_hold(&source->task);
    source->kind = kind;
    source->self = self;
    source->begun = true;
    mare__list_init(&source->in_all);
    mare__list_init(&source->turn);
    mare__observed_init(&source->observed, fd, on_descriptor_closed);
}

mare_err mare_source_create(mare_runtime *runtime, const mare_source_kind *kind, void *self,
                            int descriptor, size_t room, mare_source **out)
{
    *out = NULL;
    mare_err err = check(runtime, kind, descriptor);
    if (err)
        return err;
    // Watch a copy: the program may close its own descriptor while this one is still watched.
    int fd = descriptor < 0 ? -1 : mare__socket_copy(descriptor);
    if (descriptor >= 0 && fd < 0)
        return MARE_IO;
    mare_source *source = mare__alloc_zero(sizeof *source);
    mare_channel *events = NULL;
    if (!source || mare__chan_create(runtime, room ? room : ROOM, NULL, &events) != MARE_OK) {
        if (fd >= 0)
            mare__socket_close(fd);
        mare__free(source);
        return MARE_NOMEM;
    }
    init(source, runtime, kind, self, fd);
    source->events = events;
    keep_code(kind);
    mare__lock_acquire(&runtime->sources.lock);
    mare__list_append(&runtime->sources.all, &source->in_all);
    runtime->sources.stop = stop_all;
    mare__lock_release(&runtime->sources.lock);
    err = begin(source);
    if (err)
        abandon(source);
    else
        *out = source;
    return err;
}

// ---- What programs do with them -----------------------------------------------------------------

mare_source *mare_source_ref(mare_source *source)
{
    return mare__ref(&source->object);
}

void mare_source_unref(mare_source *source)
{
    mare__unref(&source->object);
}

mare_err mare_source_outcome(mare_source *source)
{
    return (mare_err)atomic_load(&source->outcome);
}

mare_err mare_source_tell(mare_source *source, mare_message *event)
{
    return mare_chan_try_send(source->events, event);
}

mare_err mare_source_tell_until(mare_source *source, mare_message *event, uint64_t deadline)
{
    return mare_chan_send_until(source->events, event, deadline);
}

mare_err mare_source_next_until(mare_source *source, mare_message **out, uint64_t deadline)
{
    mare_err err = mare_chan_receive_until(source->events, out, deadline);
    return err == MARE_CLOSED ? mare_source_outcome(source) : err;
}

mare_err mare_message_add_source(mare_message *message, mare_source *source)
{
    if (message->length > MARE__MESSAGE_MAX - 64)
        return MARE_TOOBIG;
    if (!mare__message_append_handle(message, &source->object))
        return MARE_NOMEM;
    message->count++;
    return MARE_OK;
}
