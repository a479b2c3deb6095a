/* SPDX-License-Identifier: MIT */
/*
 * Groups for C programs: nodes (mare/node.h) that agree on who holds a lock, who leads, in which
 * order messages come, what a replica's state is; see docs/reference/group.md.
 *
 *     mare_group_options options = {.name = "bank", .members = names, .folder = "/var/lib/bank"};
 *     mare_group_found(runtime, &options, &error);               once on each member, never again
 *     mare_group_join(runtime, &options, &error);
 *
 *     mare_group_lock(runtime, "bank", "account-7", deadline, &lock, &error);
 *     mare_lock_fence(lock, deadline, &number, &error);          larger than all before it
 *     mare_chan_receive_until(mare_lock_lost(lock), ...);        says when it is not held any more
 *     mare_lock_release(lock);
 *
 * News come by channels: receive with a deadline, look with mare_chan_try_receive, or hand the
 * channel to Lua. For callbacks, register the channel in a scheduler (mare/events.h,
 * mare_scheduler_register_channel): it calls a function for each message, on the thread that drives
 * it. For a loop of the program's own, such a scheduler has one descriptor to poll for all of its
 * channels (mare_scheduler_descriptor). A channel belongs to the object that it came from, and is
 * closed with that object; take a reference (mare_chan_ref) to keep it longer.
 *
 * Threads: any thread may call these functions, also several at once for the same object, but not
 * while another one ends it. All of them block, at most until the deadline and a moment; they are
 * for threads of the program, not for C functions that Lua calls. Release what you have made before
 * you call mare_stop.
 *
 * Errors: MARE_NOMEM, MARE_STOPPED, MARE_TIMEOUT, MARE_NONAME (this runtime has not joined the
 * group), MARE_NOQUORUM (this member does not reach a majority), MARE_CLOSED (it has left the
 * group), MARE_INVALID (an argument), MARE_DIED (the program killed the process behind the object,
 * which gave back what it held), and those that each function names. A parameter `error` may be
 * NULL; else it is set to NULL, or to a string to free() that says more.
 */
#ifndef MARE_GROUP_H
#define MARE_GROUP_H

#include <mare.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The options of a group: those of group.join in docs/reference/group.md. Zero is the default of
 * each; `name` is required, and so are `members` and `folder` without an engine. Everything is
 * copied. A list ends with NULL.
 */
typedef struct mare_group_options {
    const char *name;
    const char *const *members;   /* names of nodes, the same on each of them */
    const char *folder;           /* where this member keeps its state */
    const char *const *engine;    /* "etcd", then URLs: who holds what is kept there instead */
    uint64_t lease_ms;            /* how long the others wait for one that is silent */
    double drift;                 /* by what part a clock may run wrong */
    bool lost;                    /* this member has lost its folder, and votes no more */
    const char *const *algorithm; /* of all locks, "central"; of one, "NAME=ricart"; or several */
    bool newcomer;                /* not a member yet: it waits until one adds it … */
    uint64_t timeout_ms;          /* … for so long; 0: a minute */
    const char *const *voters;    /* the members that vote, the same on each; NULL: all */
} mare_group_options;

/* The first time, on each member: makes its state. Errors: MARE_EXISTS (it was done before),
 * MARE_NONODE (the runtime is no node), MARE_DENIED (this node is not among the members), MARE_IO.
 */
MARE_API mare_err mare_group_found(mare_runtime *runtime, const mare_group_options *options,
                                   char **error);

/* Makes this node a member again. Errors: as above, MARE_NOSTATE (there is nothing in the folder),
 * MARE_CORRUPT (what is there is damaged). */
MARE_API mare_err mare_group_join(mare_runtime *runtime, const mare_group_options *options,
                                  char **error);

/* Leaves: what is held here is lost. */
MARE_API mare_err mare_group_leave(mare_runtime *runtime, const char *group);

/* The members: a message with a name and "up", "down" or "unknown" for each, for the caller to
 * destroy. */
MARE_API mare_err mare_group_members(mare_runtime *runtime, const char *group, mare_message **out,
                                     char **error);

/* Makes a node a member that was none: one that joins, or has joined, as a newcomer. Makes a member
 * none, whether it is there or gone for good. Locks that are held meanwhile are lost. Errors:
 * MARE_TIMEOUT and MARE_NOQUORUM (nothing was changed), MARE_UNSURE (it may be yet), MARE_DENIED
 * (the members cannot change in this way; MARE_CLOSED: this one was removed meanwhile). */
MARE_API mare_err mare_group_add(mare_runtime *runtime, const char *group, const char *node,
                                 uint64_t deadline, char **error);
MARE_API mare_err mare_group_remove(mare_runtime *runtime, const char *group, const char *node,
                                    uint64_t deadline, char **error);

/* ---- Locks ----------------------------------------------------------------------------------- */

/* A lock that is held, until it is released or lost. */
typedef struct mare_lock mare_lock;

/* Takes the lock of this name; waits for it until the deadline. */
MARE_API mare_err mare_group_lock(mare_runtime *runtime, const char *group, const char *name,
                                  uint64_t deadline, mare_lock **out, char **error);

/* The number of this grant, for what the lock protects to check: it is larger than all before.
 * Finds out first whether the lock is still held. If not, it is MARE_NOQUORUM; or MARE_CLOSED (the
 * group was left, or its members have changed). MARE_TIMEOUT: it may still be held. */
MARE_API mare_err mare_lock_fence(mare_lock *lock, uint64_t deadline, uint64_t *fence,
                                  char **error);

/* Gets one message when the lock is lost: a word that says why, as "noquorum". */
MARE_API mare_channel *mare_lock_lost(mare_lock *lock);

/* Gives it back, and ends the object. NULL is nothing. */
MARE_API void mare_lock_release(mare_lock *lock);

/* ---- Elections ------------------------------------------------------------------------------- */

/* A part in an election. */
typedef struct mare_election mare_election;

/* Takes part in the election of this name. The algorithm says who of those that stand is to lead:
 * "first", "bully", "ring" or "wireless" (docs/reference/group.md), the same on each member; NULL:
 * this one does not stand, it only wants to know. `worth` is for "wireless". */
MARE_API mare_err mare_group_election(mare_runtime *runtime, const char *group, const char *name,
                                      const char *algorithm, uint32_t worth, uint64_t deadline,
                                      mare_election **out, char **error);

/* Gets a message for each change: the leader's name, or false when nobody is known to lead; and the
 * epoch. When it is full, the oldest gives way: the latest is what counts. It is closed when the
 * group was left; and when this member is denied, because others elect by another algorithm: then
 * the last message is nil and a text that says so. */
MARE_API mare_channel *mare_election_changes(mare_election *election);

/* Takes part no more: if this member led, another one can. Ends the object. NULL is nothing. */
MARE_API void mare_election_resign(mare_election *election);

/* ---- Multicasts ------------------------------------------------------------------------------ */

/* Messages that every member gets in the same order. */
typedef struct mare_multicast mare_multicast;

/* `order` is "fifo", "causal" or "total"; NULL is total. */
MARE_API mare_err mare_group_multicast(mare_runtime *runtime, const char *group, const char *name,
                                       const char *order, uint64_t deadline, mare_multicast **out,
                                       char **error);

/* Sends the first value of the message, a plain one, to every member. The message stays the
 * caller's. MARE_OK: this member has taken it. MARE_TOOBIG: it has more than 1 MiB. */
MARE_API mare_err mare_multicast_send(mare_multicast *multicast, const mare_message *value,
                                      uint64_t deadline, char **error);

/* Gets a message for each that is delivered: the name of the node that has sent it, and the value.
 * A program that does not read falls behind, and the channel is closed in the end. */
MARE_API mare_channel *mare_multicast_messages(mare_multicast *multicast);

/* This program takes part no more; ends the object. NULL is nothing. */
MARE_API void mare_multicast_leave(mare_multicast *multicast);

/* ---- Replicas -------------------------------------------------------------------------------- */

/* A state that is the same on every member. */
typedef struct mare_replica mare_replica;

/*
 * What changes the state is a function that the program has offered (mare_offer): it gets the state
 * and a value, and adds the next state to its results, and perhaps an answer for who has applied
 * the value. It must do the same everywhere: what it does follows from its arguments alone. If it
 * fails, the state stays as it was. `initial`, the state at the beginning, is the first value of
 * the message, which stays the caller's.
 */
MARE_API mare_err mare_group_replica(mare_runtime *runtime, const char *group, const char *name,
                                     const mare_message *initial, const char *module,
                                     const char *function, uint64_t deadline, mare_replica **out,
                                     char **error);

/* Applies the first value of the message on every member, in the same order. `*answer`, if it is
 * not NULL, becomes a message with the answer of the function, or without a value. Errors:
 * MARE_DIED (the function has failed), MARE_TIMEOUT, MARE_NOQUORUM, MARE_TOOBIG (more than 1 MiB):
 * it was not done; MARE_UNSURE (it may be). */
MARE_API mare_err mare_replica_apply(mare_replica *replica, const mare_message *value,
                                     uint64_t deadline, mare_message **answer, char **error);

/* The state, with all that was acknowledged to anybody before: a message for the caller to destroy.
 */
MARE_API mare_err mare_replica_read(mare_replica *replica, uint64_t deadline, mare_message **state,
                                    char **error);

/* This program takes part no more; ends the object. NULL is nothing. */
MARE_API void mare_replica_leave(mare_replica *replica);

#ifdef __cplusplus
}
#endif

#endif
