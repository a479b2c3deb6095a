/* SPDX-License-Identifier: MIT */
#pragma once

/* Logical clocks: Lamport's scalar, the dense vector and the sparse vector.
 *
 * All of them live in memory of the caller, never allocate, never block, and may be called from any
 * thread as long as one clock is used by one thread at a time.
 *
 * Sources: Lamport, "Time, Clocks, and the Ordering of Events in a Distributed System" (1978), with
 * the three steps as Raynal and Singhal (1996) give them; Tanenbaum and Van Steen, "Distributed
 * Systems", section 6.2. */

#include <stddef.h>
#include <stdint.h>

#define MARE_COORD_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Lamport ------------------------------------------------------------------------------------- */

/* Step 1: before an event of this process. Returns the time of the event, which a message sent by
 * it carries (step 2). */
static inline uint64_t mare_coord_lamport_tick(uint64_t *clock)
{
    return ++*clock;
}

/* Step 3: a message that carries `stamp` has arrived. Returns the time of its delivery. Where
 * stamps come from strangers, refuse absurd ones first: a clock that is pushed to its end begins
 * again. */
static inline uint64_t mare_coord_lamport_receive(uint64_t *clock, uint64_t stamp)
{
    if (*clock < stamp)
        *clock = stamp;
    return ++*clock;
}

/* A moment made unique by appending the process number: 40.2 is time 40 at process 2. */
typedef struct mare_coord_stamp {
    uint64_t time;
    uint32_t process;
} mare_coord_stamp;

/* The total order: nonzero when `a` comes first. Equal times are decided by the process number. */
static inline int mare_coord_stamp_before(mare_coord_stamp a, mare_coord_stamp b)
{
    return a.time != b.time ? a.time < b.time : a.process < b.process;
}

/* Vectors ------------------------------------------------------------------------------------- */

/* How two vector times stand to each other. */
typedef enum mare_coord_order {
    MARE_COORD_EQUAL,
    MARE_COORD_BEFORE,     /* the first happened before the second */
    MARE_COORD_AFTER,      /* the second happened before the first */
    MARE_COORD_CONCURRENT, /* neither */
} mare_coord_order;

/* A dense vector is `count` numbers of the caller, one for each slot of the group. VC[i] at process
 * i counts its own events; VC[j] is how many events of j are known to it. */

/* Rule 1: counts an event of `self`, before it happens. Rule 2 is to send a copy of the whole
 * vector. */
MARE_COORD_EXPORT void mare_coord_vector_tick(uint64_t *clock, uint32_t self);

/* Rule 3: takes the larger of each pair, then ticks for the delivery. */
MARE_COORD_EXPORT void mare_coord_vector_receive(uint64_t *clock, const uint64_t *stamp,
                                                 uint32_t count, uint32_t self);

/* The larger of each pair, with no event counted: what causal multicast does on delivery. */
MARE_COORD_EXPORT void mare_coord_vector_merge(uint64_t *clock, const uint64_t *stamp,
                                               uint32_t count);

/* How two stamps of `count` members relate: before, after, equal or concurrent. */
MARE_COORD_EXPORT mare_coord_order mare_coord_vector_compare(const uint64_t *a, const uint64_t *b,
                                                             uint32_t count);

/* The condition of causal delivery: `stamp` of a message by `from` is the next one that `clock`
 * expects of it, and depends on nothing that `clock` has not seen. */
MARE_COORD_EXPORT int mare_coord_vector_deliverable(const uint64_t *clock, const uint64_t *stamp,
                                                    uint32_t count, uint32_t from);

/* A member took an empty slot, or gave it up: it counts from zero again. Stamps made before the
 * change must no longer be around, which a change of view by agreement sees to. */
MARE_COORD_EXPORT void mare_coord_vector_reset_slot(uint64_t *clock, uint32_t slot);

/* The sparse form: only members that have done something take room. In a group of ten thousand in
 * which five speak, a message carries five pairs. Sorted by member; an absent one counts zero.
 * A member that left keeps a tombstone, so that an old stamp cannot bring it back to life. */
typedef struct mare_coord_sparse_entry {
    uint32_t member;
    uint32_t left; /* nonzero: departed; ignored by comparison, never raised by a merge */
    uint64_t count;
} mare_coord_sparse_entry;

/* A vector clock of the members that have been heard of, for groups too large for a full one. */
typedef struct mare_coord_sparse {
    mare_coord_sparse_entry *entry; /* of the caller */
    uint32_t count, room;
} mare_coord_sparse;

/* How many events of `member` are known; 0 for one never heard of. */
MARE_COORD_EXPORT uint64_t mare_coord_sparse_get(const mare_coord_sparse *clock, uint32_t member);

/* Counts an event of `self`. This and the three below return 0, or -1 with nothing changed when
 * there is no room for a new entry. */
MARE_COORD_EXPORT int mare_coord_sparse_tick(mare_coord_sparse *clock, uint32_t self);

/* The larger of each pair, with no event counted; members that left here stay as they were. */
MARE_COORD_EXPORT int mare_coord_sparse_merge(mare_coord_sparse *clock,
                                              const mare_coord_sparse *stamp);

/* The member is gone: it keeps a tombstone, until the clock is compacted. */
MARE_COORD_EXPORT int mare_coord_sparse_leave(mare_coord_sparse *clock, uint32_t member);

/* The member is back, as a new one that counts from zero. */
MARE_COORD_EXPORT int mare_coord_sparse_join(mare_coord_sparse *clock, uint32_t member);

/* Drops the tombstones. Call it when no stamp from before the departures can still arrive. */
MARE_COORD_EXPORT void mare_coord_sparse_compact(mare_coord_sparse *clock);

/* How two clocks stand to each other. Members that left according to either do not take part. */
MARE_COORD_EXPORT mare_coord_order mare_coord_sparse_compare(const mare_coord_sparse *a,
                                                             const mare_coord_sparse *b);

/* Writes a clock as bytes: member (4) and count (8) of each living entry, little endian. Returns
 * the bytes written; 0 when they do not fit, or there are none. */
MARE_COORD_EXPORT size_t mare_coord_sparse_encode(const mare_coord_sparse *clock, uint8_t *out,
                                                  size_t room);

/* Fills `clock` from bytes. Returns 0; -1 for bytes that no encoder wrote (wrong length, members
 * not ascending) or that do not fit, and then `clock` is empty. */
MARE_COORD_EXPORT int mare_coord_sparse_decode(mare_coord_sparse *clock, const uint8_t *bytes,
                                               size_t length);

#ifdef __cplusplus
}
#endif
