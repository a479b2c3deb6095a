/* SPDX-License-Identifier: MIT */

/* The checker of ordered multicast. It knows only what the applications multicast and deliver.
 *
 *   INVENTION  each message that is delivered was multicast by the sender that it names.
 *   DUPLICATE  nobody delivers a message twice (in one life).
 *   FIFO       the messages of each sender are delivered in the order sent, without gaps.
 *   CAUSAL     … and after all that their sender had multicast or delivered before them.
 *   TOTAL      … and everybody's deliveries are a beginning of one sequence.
 *   VIEW       a view has one list of members, the same for all. A member that installs a view is
 *              on its list. After a view comes the next one. Only a member that was told OUTSIDE
 *              begins anew.
 *   ATOMIC     a message is delivered in the view in which it was multicast. Members that go
 *              together from one view to the next have delivered the same messages in the first.
 *
 * With views a member may miss what was multicast while it was outside. So gaps are allowed between
 * views. CAUSAL looks only at what was delivered in the same view; for earlier views ATOMIC says
 * that everybody who went through them has it. TOTAL has one sequence for each view. A member that
 * goes on to the next view has delivered the whole sequence. Nobody has delivered more, not even a
 * member that died.
 *
 * A message is known by sender and content. A life ends by a crash, whatever it remembers. */

#include "sim/check.h"
#include "sim/heap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING UINT32_MAX

typedef struct cast {
    uint32_t from, number; /* the number-th of its sender */
    uint64_t content;
    uint64_t view;       /* in which it was multicast; 0 without views */
    uint32_t next;       /* in the same bucket */
    uint32_t *delivered; /* by process: in which life, from 1 */
    uint32_t *before;    /* by process: the last of its multicasts that its sender had delivered */
} cast;

typedef struct member {
    uint32_t life, sent;
    uint32_t *last;    /* by sender: number of the last delivery */
    uint32_t *in_view; /* by sender: … and the count of views in which it was */
    uint32_t views;    /* installed */
    uint64_t view;     /* number of the present one; 0: none */
    uint64_t latest;   /* … and of the last that it was in, in any life */
    uint32_t count;    /* deliveries in this life, or this view */
    uint64_t set;      /* what was delivered in it, in any order */
} member;

/* A view; if there are none, everything is in view 0. */
typedef struct stretch {
    uint64_t view;
    uint32_t *sequence, length; /* the one order: of casts */
    int over;                   /* somebody has gone on to the next one */
} stretch;

/* A step from one view to the next, as the first to make it made it. */
typedef struct passage {
    uint64_t from, to, set, list;
    uint32_t who;
} passage;

typedef struct order {
    unsigned promises;
    uint32_t n;
    member *member;
    cast *cast;
    uint32_t casts;
    uint32_t *bucket, buckets;
    stretch *stretch;
    uint32_t stretches;
    passage *passage;
    uint32_t passages;
} order;

static size_t size(const mare_sim_options *options)
{
    (void)options;
    return sizeof(order);
}

static void begin(void *state, mare_sim *sim)
{
    order *o = state;
    const mare_coord_setup *setup = &mare_sim_options_of(sim)->setup;
    o->promises = setup->algorithm->promises(setup);
    o->n = setup->capacity;
    o->buckets = 4096;
    o->member = calloc(o->n, sizeof *o->member);
    o->bucket = malloc(o->buckets * sizeof *o->bucket);
    memset(o->bucket, 0xff, o->buckets * sizeof *o->bucket);
    for (uint32_t i = 0; i < o->n; i++) {
        o->member[i].life = 1;
        o->member[i].last = calloc(2 * o->n, sizeof *o->member[i].last);
        o->member[i].in_view = o->member[i].last + o->n;
    }
}

static void clean_up(order *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        free(o->member[i].last);
    for (uint32_t i = 0; i < o->casts; i++)
        free(o->cast[i].delivered);
    free(o->member);
    free(o->cast);
    free(o->bucket);
    for (uint32_t i = 0; i < o->stretches; i++)
        free(o->stretch[i].sequence);
    free(o->stretch);
    free(o->passage);
}

/* Room for one more of anything: grows at the powers of two. */
static void *grow(void *list, uint32_t count, size_t each)
{
    if (count & (count - 1))
        return list;
    return mare_sim_realloc(list, (count ? 2 * (size_t)count : 1) * each);
}

static uint64_t mix(uint64_t hash, const uint8_t *data, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ data[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static uint64_t content_of(uint32_t from, const uint8_t *data, uint32_t length)
{
    return mix(UINT64_C(0xcbf29ce484222325) + from * UINT64_C(0x9e3779b97f4a7c15), data, length);
}

static void see_multicast(order *o, const mare_sim_observation *seen)
{
    member *who = &o->member[seen->process];
    o->cast = grow(o->cast, o->casts, sizeof *o->cast);
    cast *fresh = &o->cast[o->casts];
    *fresh = (cast){.from = seen->process, .number = ++who->sent, .view = who->view};
    fresh->content = content_of(seen->process, seen->event->data, seen->event->length);
    fresh->delivered = calloc(2 * o->n, sizeof *fresh->delivered);
    fresh->before = fresh->delivered + o->n;
    for (uint32_t k = 0; k < o->n; k++)
        fresh->before[k] = who->in_view[k] == who->views ? who->last[k] : 0;
    uint32_t *bucket = &o->bucket[fresh->content % o->buckets];
    fresh->next = *bucket;
    *bucket = o->casts++;
}

/* The oldest message with this content that the process has not delivered; NOTHING when there is
 * none, and then `known` says whether there was one at all. */
static uint32_t find(const order *o, const mare_sim_observation *seen, int *known)
{
    const mare_coord_effect *effect = seen->effect;
    uint64_t content = content_of(effect->peer, effect->data, effect->length);
    uint32_t life = o->member[seen->process].life, found = NOTHING;
    *known = 0;
    for (uint32_t i = o->bucket[content % o->buckets]; i != NOTHING; i = o->cast[i].next) {
        if (o->cast[i].content != content || o->cast[i].from != effect->peer)
            continue;
        *known = 1;
        if (o->cast[i].delivered[seen->process] != life)
            found = i;
    }
    return found;
}

static void check_fifo(const order *o, mare_sim *sim, uint32_t process, const cast *got)
{
    const member *who = &o->member[process];
    uint32_t last = who->last[got->from];
    int may_gap = o->promises & MARE_COORD_ATOMIC && who->in_view[got->from] != who->views;
    if (o->promises & MARE_COORD_FIFO && (may_gap ? got->number <= last : got->number != last + 1))
        mare_sim_violate(sim, "FIFO",
                         "p%" PRIu32 " delivers number %" PRIu32 " of p%" PRIu32
                         " after number %" PRIu32,
                         process, got->number, got->from, last);
}

static void check_causal(const order *o, mare_sim *sim, uint32_t process, const cast *got)
{
    const member *who = &o->member[process];
    for (uint32_t k = 0; o->promises & MARE_COORD_CAUSAL && k < o->n; k++) {
        if (k != got->from && got->before[k] > who->last[k])
            mare_sim_violate(sim, "CAUSAL",
                             "p%" PRIu32 " delivers number %" PRIu32 " of p%" PRIu32
                             ", which follows number %" PRIu32 " of p%" PRIu32
                             ", but has only %" PRIu32,
                             process, got->number, got->from, got->before[k], k, who->last[k]);
    }
}

static stretch *stretch_of(order *o, uint64_t view)
{
    for (uint32_t i = o->stretches; i > 0; i--) {
        if (o->stretch[i - 1].view == view)
            return &o->stretch[i - 1];
    }
    o->stretch = grow(o->stretch, o->stretches, sizeof *o->stretch);
    o->stretch[o->stretches] = (stretch){.view = view};
    return &o->stretch[o->stretches++];
}

static void check_total(order *o, mare_sim *sim, uint32_t process, uint32_t got)
{
    const member *who = &o->member[process];
    const cast *is = &o->cast[got];
    if (!(o->promises & MARE_COORD_TOTAL))
        return;
    stretch *all = stretch_of(o, who->view);
    if (who->count < all->length && all->sequence[who->count] != got) {
        const cast *was = &o->cast[all->sequence[who->count]];
        mare_sim_violate(sim, "TOTAL",
                         "delivery %" PRIu32 " is number %" PRIu32 " of p%" PRIu32 " at p%" PRIu32
                         " and number %" PRIu32 " of p%" PRIu32 " elsewhere",
                         who->count + 1, is->number, is->from, process, was->number, was->from);
    } else if (who->count == all->length && all->over) {
        mare_sim_violate(sim, "TOTAL",
                         "p%" PRIu32 " delivers number %" PRIu32 " of p%" PRIu32 " in view %" PRIu64
                         ", which ended elsewhere without it",
                         process, is->number, is->from, who->view);
    } else if (who->count == all->length) {
        all->sequence = grow(all->sequence, all->length, sizeof *all->sequence);
        all->sequence[all->length++] = got;
    }
}

/* A member that goes on to the next view has delivered all that anybody did in this one. */
static void end_stretch(order *o, mare_sim *sim, uint32_t process)
{
    const member *who = &o->member[process];
    if (!(o->promises & MARE_COORD_TOTAL))
        return;
    stretch *all = stretch_of(o, who->view);
    all->over = 1;
    if (who->count < all->length) {
        const cast *more = &o->cast[all->sequence[who->count]];
        mare_sim_violate(sim, "TOTAL",
                         "p%" PRIu32 " ends view %" PRIu64 " without number %" PRIu32
                         " of p%" PRIu32 ", which was delivered in it",
                         process, who->view, more->number, more->from);
    }
}

static void check_view(const order *o, mare_sim *sim, uint32_t process, const cast *got)
{
    uint64_t view = o->member[process].view;
    if (o->promises & MARE_COORD_ATOMIC && got->view != view)
        mare_sim_violate(sim, "ATOMIC",
                         "p%" PRIu32 " delivers number %" PRIu32 " of p%" PRIu32 " in view %" PRIu64
                         ", but it was multicast in view %" PRIu64,
                         process, got->number, got->from, view, got->view);
}

static void see_delivery(order *o, mare_sim *sim, const mare_sim_observation *seen)
{
    int known;
    uint32_t got = find(o, seen, &known);
    member *who = &o->member[seen->process];
    if (got == NOTHING) {
        mare_sim_violate(sim, known ? "DUPLICATE" : "INVENTION",
                         "p%" PRIu32 " delivers of p%" PRIu32 " what %s", seen->process,
                         seen->effect->peer,
                         known ? "it has delivered before" : "nobody multicast");
        return;
    }
    check_view(o, sim, seen->process, &o->cast[got]);
    check_fifo(o, sim, seen->process, &o->cast[got]);
    check_causal(o, sim, seen->process, &o->cast[got]);
    check_total(o, sim, seen->process, got);
    o->cast[got].delivered[seen->process] = who->life;
    who->last[o->cast[got].from] = o->cast[got].number;
    who->in_view[o->cast[got].from] = who->views;
    who->count++;
    who->set += (got + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void check_list(mare_sim *sim, const mare_sim_observation *seen)
{
    const mare_coord_effect *effect = seen->effect;
    uint32_t each = MARE_COORD_NOBODY;
    for (uint32_t at = 0; at + sizeof each <= effect->length && each != seen->process;
         at += sizeof each)
        memcpy(&each, effect->data + at, sizeof each);
    if (each != seen->process)
        mare_sim_violate(sim, "VIEW", "p%" PRIu32 " installs view %" PRIu64 " without itself",
                         seen->process, effect->number);
}

/* From view to view; unless the application was told that it is in none: then to any later one. */
static void check_step(mare_sim *sim, uint32_t process, uint64_t from, uint64_t latest, uint64_t to)
{
    if (from ? to != from + 1 : to <= latest)
        mare_sim_violate(sim, "VIEW", "p%" PRIu32 " goes from view %" PRIu64 " to %" PRIu64,
                         process, latest, to);
}

static void check_passage(const passage *old, const passage *mine, mare_sim *sim)
{
    if (old->to == mine->to && old->list != mine->list)
        mare_sim_violate(sim, "VIEW",
                         "view %" PRIu64 " is not the same for p%" PRIu32 " and p%" PRIu32,
                         mine->to, old->who, mine->who);
    if (!mine->from || old->from != mine->from || old->to != mine->to)
        return;
    if (old->set != mine->set)
        mare_sim_violate(sim, "ATOMIC",
                         "p%" PRIu32 " and p%" PRIu32 " went from view %" PRIu64 " to %" PRIu64
                         " with different deliveries",
                         old->who, mine->who, mine->from, mine->to);
}

static void see_view(order *o, mare_sim *sim, const mare_sim_observation *seen)
{
    member *who = &o->member[seen->process];
    passage mine = {who->view, seen->effect->number, who->set,
                    mix(1, seen->effect->data, seen->effect->length), seen->process};
    check_list(sim, seen);
    check_step(sim, seen->process, mine.from, who->latest, mine.to);
    if (mine.from)
        end_stretch(o, sim, seen->process);
    for (uint32_t i = 0; i < o->passages; i++)
        check_passage(&o->passage[i], &mine, sim);
    o->passage = grow(o->passage, o->passages, sizeof *o->passage);
    o->passage[o->passages++] = mine;
    who->view = who->latest = mine.to;
    who->views++;
    who->count = 0;
    who->set = 0;
}

/* What was delivered in a view has nothing to do with what comes after it. */
static void end_view(member *who)
{
    who->views++;
    who->view = who->set = 0;
    who->count = 0;
}

/* What a process was told in one life says nothing about its next. */
static void end_life(member *who)
{
    who->life++;
    end_view(who);
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    order *o = state;
    if (seen->sight == MARE_SIM_STEPPED && seen->event->kind == MARE_COORD_MULTICAST &&
        seen->status == MARE_COORD_OK)
        see_multicast(o, seen);
    else if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_DELIVER)
        see_delivery(o, sim, seen);
    else if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_VIEW)
        see_view(o, sim, seen);
    else if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_OUTSIDE)
        end_view(&o->member[seen->process]);
    else if (seen->sight == MARE_SIM_CRASHED || seen->sight == MARE_SIM_DEPARTED)
        end_life(&o->member[seen->process]);
    else if (seen->sight == MARE_SIM_ENDED) /* also after a violation */
        clean_up(o);
}

const mare_sim_checker mare_sim_check_order = {
    .name = "order",
    .promises = MARE_COORD_FIFO | MARE_COORD_CAUSAL | MARE_COORD_TOTAL | MARE_COORD_ATOMIC,
    .size = size,
    .begin = begin,
    .see = see,
};
