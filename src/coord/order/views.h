/* SPDX-License-Identifier: MIT */
#pragma once

/* What the parts of virtual synchrony share: views.c (members and their multicasts; its first
 * paragraph has the whole protocol), views_change.c (from one view to the next) and views_order.c
 * (in which order the messages of a view are delivered). */

#include "coord/bytes.h"
#include "coord/order/casts.h"
#include "coord/order/hearing.h"

#include <mare/coord_clock.h>

#include <string.h>

enum { WINDOW, BYTES, RETRY_US, ORDER }; /* parameters */
enum { OF_SENDERS, CAUSAL, TOTAL };      /* orders */
enum { RETRY };                          /* timers */
enum { CAST, ACK, HELLO, WELCOME, OUT, PROPOSE, STATE, CUT, NEED, COPY, READY, INSTALL };
enum { SEEN = INSTALL + 1, ASK, TOLD };                            /* messages of the total order */
enum { VIEW, SECOND, THIRD, LIFE = 0, CLOCK = 1, SENT, OF, UPTO }; /* fields */
enum { FOLLOWING, COLLECTING, SPREADING };

#define TAIL_ARRAYS 3u /* numbers a slot in the longest tail, that of STATE */

typedef struct views {
    uint64_t life, view, delivered; /* view 0: outside */
    uint64_t promised;              /* the highest ballot in this view; not 0: flushing */
    uint64_t accepted;              /* the ballot of next and cut; 0: none */
    uint64_t planned;               /* the ballot of plan_next and plan_cut, or the best heard of */
    uint64_t installed;             /* the ballot that led to this view */
    uint32_t stage, patience, complained;
    mare__set group, gone;
    mare__set here;       /* who has been heard in this view; outside: who is outside too */
    mare__set answered;   /* the leader's: STATE or READY */
    uint64_t *lives;      /* by slot: the life that is in the view, or 0 */
    uint64_t *wants;      /* by slot: the life that wants in, or 0 */
    uint64_t *next, *cut; /* accepted: lives, and messages of each sender */
    uint64_t *plan_next, *plan_cut;
    uint64_t *most, *holder; /* the leader's: the most that anybody has of a sender, and who */
    uint8_t *scratch;        /* for tails */
    mare__casts casts;       /* what is cast: what the order needs, then the data */
    uint8_t *wrapped;        /* for making one */
    mare_coord_sparse past;  /* causal: what I delivered of others since I last multicast … */
    mare_coord_sparse stamp; /* … and for reading what came with a message */
    uint64_t clock;          /* total: Lamport's … */
    mare__hearing hearing;   /* … those of the others … */
    uint64_t *has;           /* … and how many of each sender a member has: [member][sender] */
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

/* The member that leads a change: the lowest of the view that is not gone. */
uint32_t mare__views_leader_of(const mare_coord *m);

/* Begins a view with an empty slate. */
void mare__views_enter(mare_coord *m, mare_coord_effects *fx, uint64_t number,
                       const uint64_t *lives);

/* Tells the leader that I am in the view. */
void mare__views_say_here(mare_coord *m, mare_coord_effects *fx);

/* Out of the group, to be let in again as another life. */
void mare__views_leave(mare_coord *m, mare_coord_effects *fx, const char *why);

/* views_change.c: leads a change if there is need of one and it is for me to do so. */
void mare__views_consider(mare_coord *m, mare_coord_effects *fx);

/* Leads a change, by a higher ballot than all so far. */
void mare__views_lead(mare_coord *m, mare_coord_effects *fx);

/* A message of a change, in the present view. */
void mare__views_change(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                        mare_coord_effects *fx);

/* The view is over, by the plan of this ballot. */
void mare__views_end(mare_coord *m, mare_coord_effects *fx, uint64_t ballot);

/* The change takes long: says again what has not been answered. */
void mare__views_retry(mare_coord *m, mare_coord_effects *fx);

/* views_order.c: bytes of a place and places a sender, as the order needs them. */
uint32_t mare__views_place_bytes(const mare_coord_setup *setup);
uint32_t mare__views_places(const mare_coord_setup *setup);

/* The part of the machine's memory, and its state when a view begins. */
void mare__views_order_lay_out(views *v, mare__block *block, const mare_coord_setup *setup);
void mare__views_order_clear(mare_coord *m);

/* Puts what the order needs in front of a multicast of mine, in `wrapped`; returns the length. */
uint32_t mare__views_wrap(mare_coord *m, const uint8_t *data, uint32_t length);

/* Whether somebody could have wrapped this, as a multicast of `of`. */
int mare__views_is_wrapped(const mare_coord *m, uint32_t of, const uint8_t *bytes, uint32_t length);

/* The stamp in what is wrapped, if the order has stamps. */
uint64_t mare__views_stamp_of(const mare_coord *m, const uint8_t *bytes);

/* The clock of a total order is past whatever comes, also from other views. */
void mare__views_tell_time(mare_coord *m, const mare_coord_message *msg);

/* Delivers what is to be delivered now that I have multicast, or this message has come. */
void mare__views_cast_own(mare_coord *m, mare_coord_effects *fx);
void mare__views_on_cast(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                         mare_coord_effects *fx);
void mare__views_on_seen(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                         mare_coord_effects *fx);
void mare__views_on_ask(mare_coord *m, uint32_t from, mare_coord_effects *fx);

/* Delivers the rest up to the cut: the view is over. */
void mare__views_deliver_rest(mare_coord *m, mare_coord_effects *fx);

/* Whether something waits for what others have to say; asks them for it. */
int mare__views_waits(const mare_coord *m);
void mare__views_ask(mare_coord *m, mare_coord_effects *fx);
