/* SPDX-License-Identifier: MIT */
#pragma once

/* What the multicasts share: the messages that have come, or were sent, and are still needed.
 *
 * Each member numbers its multicasts from 1. For each sender there is a ring of `window` places;
 * number s lies in place s mod window.
 *
 *     ── taken ──┬── received ──┬── gaps ──┬─ taken + window
 *      delivered │  all here    │ some here│  no place yet: as good as lost, sent again
 *
 * Invariants: taken ≤ received ≤ taken + window; a place is used again only when what lay there was
 * delivered. A place keeps its bytes after delivery, for those who have to be sent them again:
 * `acked` says how far each member has confirmed what is mine. */

#include "coord/machine.h"

typedef struct mare__cast {
    uint64_t seq;   /* 0: empty */
    uint64_t stamp; /* the algorithm's own */
    uint32_t length;
} mare__cast;

typedef struct mare__casts {
    uint32_t window, bytes; /* places a sender, bytes a place */
    uint64_t *received;     /* by sender: all up to this one are here */
    uint64_t *taken;        /* by sender: all up to this one are delivered */
    uint64_t *acked;        /* by member: it has my multicasts up to this one */
    mare__cast *place;
    uint8_t *data;
} mare__casts;

/* The part of the machine's memory; see mare__carve(). */
void mare__casts_lay_out(mare__casts *casts, mare__block *block, uint32_t capacity, uint32_t window,
                         uint32_t bytes);

/* Keeps a message. Nonzero when it is new and there was a place for it. */
int mare__casts_put(mare__casts *casts, uint32_t from, uint64_t seq, uint64_t stamp,
                    const uint8_t *data, uint32_t length);

/* The message, or NULL when it is not here (any more). */
const mare__cast *mare__casts_at(const mare__casts *casts, uint32_t from, uint64_t seq);

/* The one with the earliest stamp of those that come next of their senders, or NULL; not beyond
 * `upto` of each, unless that is NULL. `from` gets its sender. */
const mare__cast *mare__casts_earliest(const mare__casts *casts, uint32_t capacity,
                                       const uint64_t *upto, uint32_t *from);

static inline const uint8_t *mare__casts_bytes(const mare__casts *casts, const mare__cast *cast)
{
    return casts->data + (size_t)(cast - casts->place) * casts->bytes;
}

/* How many I have multicast. */
static inline uint64_t mare__casts_sent(const mare_coord *m, const mare__casts *casts)
{
    return casts->received[m->setup.self];
}

/* How many of mine are not known to be with everybody in `group`. */
uint64_t mare__casts_owed(const mare_coord *m, const mare__casts *casts, mare__set group);

/* Notes that a member has mine up to this one. */
void mare__casts_confirm(mare__casts *casts, uint32_t member, uint64_t upto);

/* Where nothing is lost a sender need not hear of every message, only of room: whether half a
 * window of `from` (the whole of a window of 2) has been delivered since that was last so. */
static inline int mare__casts_frees(const mare__casts *casts, uint32_t from)
{
    uint32_t half = casts->window > 2 ? (casts->window + 1) / 2 : casts->window;
    return casts->taken[from] % half == 0;
}

/* How an algorithm sends one of its own multicasts. */
typedef void mare__casts_send(mare_coord *m, mare_coord_effects *fx, uint32_t to,
                              const mare__cast *cast);

/* Sends a member all of mine that it has not confirmed. */
void mare__casts_repeat(mare_coord *m, mare_coord_effects *fx, const mare__casts *casts,
                        uint32_t to, mare__casts_send *send);

/* Whether a member heard at `heard` has got past `need`. */
static inline int mare__casts_past(uint64_t heard, uint64_t need)
{
    return heard >= need;
}

/* Whether a member that has so many messages of a sender has this one. */
static inline int mare__casts_has(uint64_t many, uint64_t seq)
{
    return many >= seq;
}

/* Whether all up to `cut` of each sender are here. */
static inline int mare__casts_reach(const mare__casts *casts, const uint64_t *cut,
                                    uint32_t capacity)
{
    for (uint32_t i = 0; i < capacity; i++) {
        if (casts->received[i] < cut[i])
            return 0;
    }
    return 1;
}

/* Forgets everything; numbers begin with 1 again. */
void mare__casts_clear(mare__casts *casts, uint32_t capacity);
