/* SPDX-License-Identifier: MIT */
/*
 * Events for C programs: sources of new kinds, and a scheduler to drive.
 *
 *     source --event--> its bounded line --+--> a Lua routine: source:next(), mare.select,
 *     (ready, poll, wait or tell)          |    mare.scheduler.register_source
 *                                          +--> mare_scheduler: object, handler in C
 *
 * A source makes events; an event is a message. Events stand in a bounded line, a channel, until
 * somebody takes them; a source whose line is full is asked for no more until there is room. So
 * whoever waits for a source waits as for any channel, in Lua and in C.
 *
 * Threads: as in mare.h, any thread may call anything unless it says otherwise, and nothing blocks
 * unless it says so.
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
 * What a kind of source does. One at most of `ready`, `poll` and `wait` is not NULL, and decides
 * where its events come from:
 *
 *  - ready: asynchronous. A descriptor is watched by the observer, beside all others; when it can
 * be read, `ready` is called until it says MARE_EMPTY. It must not block: a thread of the runtime
 *    runs it, or one that takes an event, so that there is room. (A demultiplexer of one's own that
 *    has a descriptor, as epoll has, is watched so.)
 *  - none: asynchronous too. A thread of the program calls mare_source_tell.
 *  - poll: synchronous with a time limit. A thread of the runtime, one for all such sources, calls
 *    them in turn, each with its part of 10 milliseconds; who needs longer holds back the others.
 *    One that returns sooner without an event may: the thread sleeps for the rest of the time.
 *  - wait: synchronous without a limit. It has a thread of its own in which it may block.
 *
 * These three return MARE_OK, with the values of an event added to `event` (empty before);
 * MARE_EMPTY, when there is none now; MARE_CLOSED, when there will be none any more; or why it
 * failed, which ends the source too. One call at a time is made for a source. No lock is held that
 * the functions of this interface wait for, so they may be called; but a `ready` or `poll` must not
 * call those that wait.
 */
typedef struct mare_source_kind {
    const char *name; /* for those who look: "serial"; not NULL */
    mare_err (*ready)(void *self, mare_message *event);
    mare_err (*poll)(void *self, uint64_t timeout_ns, mare_message *event);
    mare_err (*wait)(void *self, mare_message *event);
    /* Somebody closes the source before it has ended: a `wait` or `poll` under way shall return
     * soon, and so shall one that is just about to begin; a thread that tells shall end. Called
     * once, on any thread, perhaps while the others run; must not block. May be NULL; then a `wait`
     * that never returns keeps mare_stop from returning. */
    void (*stop)(void *self);
    /* The last call of all, on any thread, when the source has ended and nobody refers to it. Frees
     * `self`, and closes a descriptor. May be NULL. */
    void (*destroy)(void *self);
} mare_source_kind;

/*
 * A new source of a kind (which stays the caller's and must outlive it), in which `self` is what
 * its functions get. `descriptor` is what `ready` needs, which does not block (O_NONBLOCK) and
 * stays the caller's until `destroy`; else -1. `room` is how many events may stand in line; 0: 16.
 * It begins at once. MARE_INVALID, MARE_STOPPED, MARE_NOMEM or MARE_IO (no descriptor, no thread
 * left); then `self` is still the caller's, and none of its functions was called.
 */
MARE_API mare_err mare_source_create(mare_runtime *runtime, const mare_source_kind *kind,
                                     void *self, int descriptor, size_t room, mare_source **out);

/* Adds a reference to a source, or gives one back. Without any it is closed. */
MARE_API mare_source *mare_source_ref(mare_source *source);
MARE_API void mare_source_unref(mare_source *source);

/* Ends a source: whoever waits is told (MARE_CLOSED) once the events in line have been taken. Does
 * not wait for a `wait` or `poll` under way, whose event is lost. False if it had ended. */
MARE_API bool mare_source_close(mare_source *source);

/*
 * Puts an event into the line of a source. On success the message is empty, to be used again; else
 * (MARE_CLOSED, MARE_NOMEM, MARE_STOPPED; MARE_FULL, or MARE_TIMEOUT after the deadline) as it was.
 * The second one blocks until there is room; for a thread of the program only.
 */
MARE_API mare_err mare_source_tell(mare_source *source, mare_message *event);
MARE_API mare_err mare_source_tell_until(mare_source *source, mare_message *event,
                                         uint64_t deadline);

/*
 * Takes the next event into `*out`, which the caller destroys: MARE_TIMEOUT, MARE_NOMEM,
 * MARE_STOPPED, or, when the line is empty and the source has ended, why: MARE_CLOSED, or what its
 * function returned. Blocks until the deadline; for a thread of the program only.
 */
MARE_API mare_err mare_source_next_until(mare_source *source, mare_message **out,
                                         uint64_t deadline);

/* How a source has ended: MARE_OK when it has not, MARE_CLOSED, or what its function returned. */
MARE_API mare_err mare_source_outcome(mare_source *source);

/* Appends a reference to a source to a message, so that a Lua process gets it as an argument or
 * from a channel: MARE_NOMEM, MARE_TOOBIG. */
MARE_API mare_err mare_message_add_source(mare_message *message, mare_source *source);

/* ---- The scheduler --------------------------------------------------------------------------- */
/*
 * For a C program that wants its events handled one after the other on a thread of its own: calls
 * of C functions, in place of the routines that Lua handlers are. Its three parts have the names of
 * `mare.scheduler` in Lua.
 *
 * The thread that calls step or loop runs the handlers, with no lock held. So a handler may do
 * anything: wait, register and remove sources, its own too, stop the loop, step. One that waits
 * holds back the other handlers of this scheduler, and nothing else. A source of which the handler
 * runs, or stands in line, is not asked for its next event; so one event a source waits here at the
 * most, the others in the line of the source.
 */
typedef struct mare_scheduler mare_scheduler;

/* A handler object: a function, its parameters, and an identifier. */
typedef struct mare_object mare_object;

/* What is called for an event. The event is valid until it returns. */
typedef void mare_handler(void *user, mare_message *event);

/* A new scheduler: MARE_NOMEM, MARE_STOPPED. */
MARE_API mare_err mare_scheduler_create(mare_runtime *runtime, mare_scheduler **out);

/* Forgets all sources and objects, and frees it. Not to be called from a handler, nor while another
 * thread is inside a call. */
MARE_API void mare_scheduler_destroy(mare_scheduler *scheduler);

/*
 * Calls `handler(user, event)` for each event of the source, of which a reference is kept until it
 * ends or is removed. `*id` (if not NULL) is its identifier. MARE_NOMEM.
 */
MARE_API mare_err mare_scheduler_register_source(mare_scheduler *scheduler, mare_source *source,
                                                 mare_handler *handler, void *user, uint64_t *id);

/* Forgets a source. An event that is ready is still handled. False: there was none (any more). */
MARE_API bool mare_scheduler_remove_source(mare_scheduler *scheduler, uint64_t id);

/*
 * A handler object that runs when it is made ready, once. The contents of `parameters` (may be
 * NULL) leave it. `*id` is its identifier. MARE_NOMEM.
 */
MARE_API mare_err mare_scheduler_create_object(mare_scheduler *scheduler, mare_handler *handler,
                                               void *user, mare_message *parameters, uint64_t *id);

/* Puts an object at the end of the line of those that are ready. False: there is none, or it stands
 * there. */
MARE_API bool mare_scheduler_make_ready(mare_scheduler *scheduler, uint64_t id);

/*
 * The observer's part: waits until handlers are ready. Copies identifiers, of the sources whose
 * events came and of objects, into `ids`, which has `room` for so many (it may be NULL for none),
 * the first in line first. Returns how many are ready; 0: the deadline passed, somebody called
 * stop, or nothing is left to wait for. Blocks. This and those below: one thread at a time.
 */
MARE_API size_t mare_scheduler_wait_for_events(mare_scheduler *scheduler, uint64_t deadline,
                                               uint64_t *ids, size_t room);

/* Takes the first ready object out of the line; when none is ready the observer is asked, as above,
 * and NULL is its 0. Blocks. Whoever takes one runs it. */
MARE_API mare_object *mare_scheduler_get_ready_object(mare_scheduler *scheduler, uint64_t deadline);

/* The identifier of an object: that of the source, for an event. */
MARE_API uint64_t mare_object_id(const mare_object *object);

/* Calls the handler of an object taken out of the line, which is the caller's no more. */
MARE_API void mare_object_run(mare_object *object);

/*
 * Handles at most one event, waiting for it until the deadline. MARE_OK: there was one;
 * MARE_TIMEOUT; MARE_CANCELLED: somebody called stop; MARE_EMPTY: nothing is left to wait for.
 * Blocks.
 */
MARE_API mare_err mare_scheduler_step(mare_scheduler *scheduler, uint64_t deadline);

/* Handles events until stop is called or nothing is left to wait for. Blocks. */
MARE_API void mare_scheduler_loop(mare_scheduler *scheduler);

/* Ends the loop, or the wait of a step, that is under way, from a handler or from any thread. */
MARE_API void mare_scheduler_stop(mare_scheduler *scheduler);

/* ---- C modules for Lua ----------------------------------------------------------------------- */
struct lua_State;

/* The runtime that a Lua state of Maré belongs to. In a state of a host, such as lua5.4: once it
 * has required "mare"; else NULL. */
MARE_API mare_runtime *mare_lua_runtime(struct lua_State *L);

/* Pushes a source, taking over the caller's reference. In Lua it has `source:next([timeout])` and
 * `source:close()`; it can be waited for in mare.select, registered in mare.scheduler and sent to
 * other processes. May raise a Lua error for want of memory; the reference is taken then too. */
MARE_API void mare_lua_push_source(struct lua_State *L, mare_source *source);

#ifdef __cplusplus
}
#endif

#endif
