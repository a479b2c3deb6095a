/* SPDX-License-Identifier: MIT */
/*
 * Events for C programs: sources of new kinds, and a scheduler to drive.
 *
 *     source --event--> its bounded queue -+--> a Lua routine: source:next(), mare.select,
 *     (ready, poll, wait or tell)          |    mare.scheduler.register_source
 *                                          +--> mare_scheduler: object, handler in C
 *
 * A source makes events; an event is a message. Events wait in a bounded queue, a channel, until
 * somebody takes them. While its queue is full, a source is not asked for more. So waiting for a
 * source is like waiting for any channel, in Lua and in C.
 *
 * Threads: as in mare.h, any thread may call any function, and no function blocks, unless its
 * comment says otherwise.
 */
#ifndef MARE_EVENTS_H
#define MARE_EVENTS_H

#include <mare.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Something that makes events. */
typedef struct mare_source mare_source;

/*
 * What a kind of source does. At most one of `ready`, `poll` and `wait` is not NULL, and decides
 * where its events come from:
 *
 *  - ready: asynchronous. The observer watches a descriptor. When it can be read, `ready` is called
 *    until it returns MARE_EMPTY. It must not block: a thread of the runtime runs it, or a thread
 *    that has just taken an event and so made room. (Use it for a demultiplexer of your own that
 *    has a descriptor, as epoll has.)
 *  - none: asynchronous too. A thread of the program calls mare_source_tell.
 *  - poll: synchronous with a time limit. A thread of the runtime, one for all such sources, calls
 *    them in turn, each with its part of 10 milliseconds; one that takes longer delays the others.
 *    It may return sooner without an event: then the thread sleeps for the rest of the time.
 *  - wait: synchronous without a limit. It has a thread of its own in which it may block.
 *
 * These three return MARE_OK, with the values of an event added to `event` (empty before);
 * MARE_EMPTY, when there is none now; MARE_CLOSED, when there will be no more; or an error, which
 * ends the source too. Calls for one source never overlap. No lock is held that the functions of
 * this interface wait for, so you may call them; but `ready` and `poll` must not call those that
 * wait.
 */
typedef struct mare_source_kind {
    const char *name; /* for people, such as "serial"; not NULL */
    mare_err (*ready)(void *self, mare_message *event);
    mare_err (*poll)(void *self, uint64_t timeout_ns, mare_message *event);
    mare_err (*wait)(void *self, mare_message *event);
    /* Called when somebody closes the source before it has ended. It should make a `wait` or `poll`
     * in progress return soon, and also one that is about to begin; a thread that tells should end.
     * Called once, on any thread, perhaps while the others run; it must not block. May be NULL;
     * then a `wait` that never returns keeps mare_stop from returning. */
    void (*stop)(void *self);
    /* The very last call, on any thread, when the source has ended and nobody refers to it. It
     * should free `self` and close a descriptor. May be NULL. */
    void (*destroy)(void *self);
} mare_source_kind;

/*
 * Makes a source. `kind` stays the caller's and must outlive it; its functions get `self`.
 * `descriptor` is for `ready`: it must not block (O_NONBLOCK), and stays the caller's until
 * `destroy`; else -1. `room` is the length of the queue; 0: 16. The source begins at once. Errors:
 * MARE_INVALID, MARE_STOPPED, MARE_NOMEM or MARE_IO (no descriptor or no thread left); then `self`
 * is still the caller's, and none of its functions was called.
 */
MARE_API mare_err mare_source_create(mare_runtime *runtime, const mare_source_kind *kind,
                                     void *self, int descriptor, size_t room, mare_source **out);

/* Adds a reference to a source, or releases one. With the last one it is closed. */
MARE_API mare_source *mare_source_ref(mare_source *source);
MARE_API void mare_source_unref(mare_source *source);

/* Ends a source. Waiters get MARE_CLOSED once the events in the queue have been taken. Does not
 * wait for a `wait` or `poll` in progress, whose event is lost. Returns false if it had ended. */
MARE_API bool mare_source_close(mare_source *source);

/*
 * Puts an event into the queue of a source. On success the message is empty, to be used again. On
 * an error (MARE_CLOSED, MARE_NOMEM, MARE_STOPPED; MARE_FULL, or MARE_TIMEOUT after the deadline)
 * it is as it was. The second function blocks until there is room; it is for threads of the program
 * only.
 */
MARE_API mare_err mare_source_tell(mare_source *source, mare_message *event);
MARE_API mare_err mare_source_tell_until(mare_source *source, mare_message *event,
                                         uint64_t deadline);

/*
 * Takes the next event into `*out`, which the caller destroys. Errors: MARE_TIMEOUT, MARE_NOMEM,
 * MARE_STOPPED; when the queue is empty and the source has ended, MARE_CLOSED or what its function
 * returned. Blocks until the deadline; for threads of the program only.
 */
MARE_API mare_err mare_source_next_until(mare_source *source, mare_message **out,
                                         uint64_t deadline);

/* How a source has ended: MARE_OK when it has not, MARE_CLOSED, or what its function returned. */
MARE_API mare_err mare_source_outcome(mare_source *source);

/* Appends a reference to a source to a message, so that a Lua process gets it as an argument or
 * from a channel. Errors: MARE_NOMEM, MARE_TOOBIG. */
MARE_API mare_err mare_message_add_source(mare_message *message, mare_source *source);

/* ---- The scheduler --------------------------------------------------------------------------- */
/*
 * For a C program that wants to handle events one after the other on its own thread. Handlers are C
 * functions here, where they are routines in Lua. The three parts have the same names as in
 * `mare.scheduler`.
 *
 * The thread that calls step or loop runs the handlers, with no lock held. So a handler may do
 * anything: wait, register and remove sources, also its own, stop the loop, step. A handler that
 * waits delays the other handlers of this scheduler, and nothing else. While the handler of a
 * source runs or is ready, the source is not asked for its next event. So at most one event of each
 * source waits here, the others in the queue of the source.
 */
typedef struct mare_scheduler mare_scheduler;

/* A handler object: a function, its parameters, and an identifier. */
typedef struct mare_object mare_object;

/* A function that handles an event. The event is valid until it returns. */
typedef void mare_handler(void *user, mare_message *event);

/* Makes a scheduler. Errors: MARE_NOMEM, MARE_STOPPED. */
MARE_API mare_err mare_scheduler_create(mare_runtime *runtime, mare_scheduler **out);

/* Forgets all sources and objects, and frees it. Do not call it from a handler, nor while another
 * thread is inside a call. */
MARE_API void mare_scheduler_destroy(mare_scheduler *scheduler);

/*
 * Calls `handler(user, event)` for each event of the source. Keeps a reference to the source until
 * it ends or is removed. `*id` (if not NULL) is its identifier. Error: MARE_NOMEM.
 */
MARE_API mare_err mare_scheduler_register_source(mare_scheduler *scheduler, mare_source *source,
                                                 mare_handler *handler, void *user, uint64_t *id);

/*
 * The same for each message of a channel: the handler is called instead of a receiver. When the
 * channel has been closed, and all that was in it is handled, the handler is called once more, with
 * NULL as the event, and the channel is forgotten. Keeps a reference to the channel until then.
 */
MARE_API mare_err mare_scheduler_register_channel(mare_scheduler *scheduler, mare_channel *channel,
                                                  mare_handler *handler, void *user, uint64_t *id);

/* Forgets a source or a channel. A ready event is still handled. Returns false if there is none. */
MARE_API bool mare_scheduler_remove_source(mare_scheduler *scheduler, uint64_t id);

/*
 * Makes a handler object, which runs once, when it is made ready. Takes the contents of
 * `parameters` (may be NULL). `*id` is its identifier. Error: MARE_NOMEM.
 */
MARE_API mare_err mare_scheduler_create_object(mare_scheduler *scheduler, mare_handler *handler,
                                               void *user, mare_message *parameters, uint64_t *id);

/* Puts an object at the end of the ready queue. Returns false if there is no such object, or it is
 * there already. */
MARE_API bool mare_scheduler_make_ready(mare_scheduler *scheduler, uint64_t id);

/*
 * The observer's part: waits until handlers are ready. Copies the identifiers of sources with
 * events and of objects into `ids`, which has room for `room` of them (NULL for none), in the order
 * of the queue. Returns how many are ready; 0: the deadline passed, somebody called stop, or
 * nothing is left to wait for. Blocks. Only one thread at a time may call this function and those
 * below.
 */
MARE_API size_t mare_scheduler_wait_for_events(mare_scheduler *scheduler, uint64_t deadline,
                                               uint64_t *ids, size_t room);

/* Takes the first ready object out of the queue; if there is none, waits as above, and returns NULL
 * for its 0. Blocks. If you take an object, you must run it. */
MARE_API mare_object *mare_scheduler_get_ready_object(mare_scheduler *scheduler, uint64_t deadline);

/* The identifier of an object: that of the source, for an event. */
MARE_API uint64_t mare_object_id(const mare_object *object);

/* Calls the handler of an object that was taken. Afterwards the object is no longer the caller's.
 */
MARE_API void mare_object_run(mare_object *object);

/*
 * Handles at most one event, waiting for it until the deadline. MARE_OK: there was one;
 * MARE_TIMEOUT; MARE_CANCELLED: somebody called stop; MARE_EMPTY: nothing is left to wait for.
 * Blocks.
 */
MARE_API mare_err mare_scheduler_step(mare_scheduler *scheduler, uint64_t deadline);

/* Handles events until stop is called or nothing is left to wait for. Blocks. */
MARE_API void mare_scheduler_loop(mare_scheduler *scheduler);

/*
 * For a program with a loop of its own: a descriptor that can be read while a handler is ready, for
 * poll() and the like. Then call mare_scheduler_step as long as it is MARE_OK, with a deadline that
 * is past. Do not read, write or close it: it is the scheduler's, and always the same. Errors:
 * MARE_IO (no descriptor is left).
 */
MARE_API mare_err mare_scheduler_descriptor(mare_scheduler *scheduler, int *descriptor);

/* Ends the running loop, or the wait of a step, from a handler or from any thread. */
MARE_API void mare_scheduler_stop(mare_scheduler *scheduler);

/* ---- C modules for Lua ----------------------------------------------------------------------- */
struct lua_State;

/* The runtime that a Lua state of Maré belongs to. In a state of a host, such as lua5.4, there is
 * one once it has required "mare"; else NULL. */
MARE_API mare_runtime *mare_lua_runtime(struct lua_State *L);

/* Pushes a source, taking over the caller's reference. In Lua it has `source:next([timeout])` and
 * `source:close()`; it can be waited for in mare.select, registered in mare.scheduler and sent to
 * other processes. May raise a Lua error when out of memory; the reference is taken then too. */
MARE_API void mare_lua_push_source(struct lua_State *L, mare_source *source);

#ifdef __cplusplus
}
#endif

#endif
