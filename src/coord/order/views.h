/* SPDX-License-Identifier: MIT */
#pragma once

/* What the two halves of virtual synchrony share: views.c (members and their multicasts; its first
 * paragraph has the whole protocol) and views_change.c (from one view to the next). */

#include "coord/bytes.h"
#include "coord/order/casts.h"

#include <string.h>

enum { WINDOW, BYTES, RETRY_US }; /* parameters */
enum { RETRY };                   /* timers */
enum { CAST, ACK, HELLO, WELCOME, OUT, PROPOSE, STATE, CUT, NEED, COPY, READY, INSTALL };
enum { VIEW, SECOND, THIRD, LIFE = 0 }; /* fields */
enum { FOLLOWING, COLLECTING, SPREADING };

#define TAIL_ARRAYS 3u /* numbers a slot in the longest tail, that of STATE */

typedef struct views {
    uint64_t life, view, delivered; /* view 0: outside */
    uint64_t promised;              /* the highest ballot in this view; not 0: flushing */
    uint64_t accepted;              /* the ballot of next and cut; 0: none */
    uint64_t planned;               /* the ballot of plan_next and plan_cut, or the best heard of */
    uint64_t installed;             /* the ballot that led to this view */
    uint32_t stage, patience;
    mare__set group, gone, answered; /* answered: the leader's, STATE or READY */
    uint64_t *lives;                 /* by slot: the life that is in the view, or 0 */
    uint64_t *wants;                 /* by slot: the life that wants in, or 0 */
    uint64_t *next, *cut;            /* accepted: lives, and messages of each sender */
    uint64_t *plan_next, *plan_cut;
    uint64_t *most, *holder; /* the leader's: the most that anybody has of a sender, and who */
    uint8_t *scratch;        /* for tails */
    mare__casts casts;
} views;

/* Tails of messages are arrays of one number a slot; they are put together in the scratch. */

static inline void mare__views_put_array(const mare_coord *m, uint32_t index, const uint64_t *array)
{
    views *v = m->state;
    mare__put_numbers(v->scratch + (size_t)8 * m->setup.capacity * index, array, m->setup.capacity);
}

static inline uint64_t mare__views_get_number(const mare_coord *m, const mare_coord_message *msg,
                                              uint32_t index, uint32_t slot)
{
    return mare__get_number(msg->tail + (size_t)8 * (m->setup.capacity * index + slot), 8);
}

static inline void mare__views_get_array(const mare_coord *m, const mare_coord_message *msg,
                                         uint32_t index, uint64_t *array)
{
    mare__get_numbers(array, msg->tail + (size_t)8 * m->setup.capacity * index, m->setup.capacity);
}

static inline void mare__views_copy_array(const mare_coord *m, uint64_t *to, const uint64_t *from)
{
    memcpy(to, from, m->setup.capacity * sizeof *to);
}

/* Sends; the first `arrays` of the scratch are the tail. */
void mare__views_say(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t kind,
                     uint64_t second, uint64_t third, uint32_t arrays);

/* The same to all others of the view that are not gone and not in `but`, which may be NULL. */
void mare__views_say_group(mare_coord *m, mare_coord_effects *fx, const mare__set *but,
                           uint32_t kind, uint64_t second, uint32_t arrays);

/* Sends a multicast of `of`. */
void mare__views_say_cast(mare_coord *m, mare_coord_effects *fx, uint32_t to, uint32_t of,
                          const mare__cast *cast);

void mare__views_deliver_upto(mare_coord *m, mare_coord_effects *fx, uint32_t from, uint64_t upto);

/* Who leads a change: the lowest member of the view that is not gone. */
uint32_t mare__views_leader_of(const mare_coord *m);

/* Begins a view with an empty slate. */
void mare__views_enter(mare_coord *m, mare_coord_effects *fx, uint64_t number,
                       const uint64_t *lives);

/* Out of the group, to be let in again as another life. */
void mare__views_leave(mare_coord *m, mare_coord_effects *fx);

/* views_change.c: leads a change if there is need of one and it is for me to do so. */
void mare__views_consider(mare_coord *m, mare_coord_effects *fx);

/* Leads a change, by a higher ballot than all so far. */
void mare__views_lead(mare_coord *m, mare_coord_effects *fx);

/* A message of a change, in the present view. */
void mare__views_change(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                        mare_coord_effects *fx);

/* The change takes long: says again what has not been answered. */
void mare__views_retry(mare_coord *m, mare_coord_effects *fx);
