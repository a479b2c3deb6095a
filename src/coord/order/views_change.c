/* SPDX-License-Identifier: MIT */

/* From one view to the next: the leader collects what everybody has, spreads the cut, installs.
 * views.c describes the protocol, its sources and its assumptions.
 *
 *     leader     FOLLOWING ── PROPOSE ──▶ COLLECTING ── CUT ──▶ SPREADING ── INSTALL ──▶ FOLLOWING
 *                    ▲        a higher ballot │                     │
 *                    └────────────────────────┴─────────────────────┘
 *     follower   promised (answers STATE) ──▶ planned (has the cut) ──▶ accepted (and all of it)
 *
 * Invariants: nothing is delivered while `promised` is set; `accepted` means that next and cut are
 * complete and all up to the cut is here; what a leader spreads under one ballot never changes. */

#include "coord/order/views.h"

static void install(mare_coord *m, mare_coord_effects *fx, int leads)
{
    views *v = m->state;
    uint32_t n = m->setup.capacity;
    if (v->next[m->setup.self] != v->life) {
        mare__views_leave(m, fx, "left out");
        return;
    }
    mare__views_deliver_rest(m, fx);
    mare__views_copy_array(m, v->plan_next, v->lives); /* who was in it */
    v->installed = v->accepted;
    mare__views_enter(m, fx, v->view + 1, v->next);
    mare__views_put_array(m, 0, v->lives);
    for (uint32_t i = 0; leads && i < n; i++) {
        if (i == m->setup.self || v->plan_next[i] == v->lives[i] || !mare__alive(m, i))
            continue;
        if (v->lives[i])
            mare__views_say(m, fx, i, WELCOME, v->installed, 0, 1);
        else
            mare__views_say(m, fx, i, OUT, 0, 0, 0);
    }
    if (!leads)
        mare__views_say_here(m, fx);
    mare__views_consider(m, fx);
}

static int all_answered(const mare_coord *m)
{
    const views *v = m->state;
    return mare__set_covered(v->group, v->answered, v->gone, m->setup.capacity);
}

static void ask_for(mare_coord *m, mare_coord_effects *fx, uint32_t who)
{
    views *v = m->state;
    mare__views_put_array(m, 0, v->casts.received);
    mare__views_say(m, fx, who, NEED, 0, 0, 1);
}

static void say_cut(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    mare__views_put_array(m, 0, v->next);
    mare__views_put_array(m, 1, v->cut);
    mare__views_say_group(m, fx, &v->answered, CUT, v->promised, 2);
}

/* The leader, when something has changed that it may have waited for. */
static void go_on(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t n = m->setup.capacity;
    if (v->stage == COLLECTING && all_answered(m)) {
        for (uint32_t i = 0; !v->planned && i < n; i++) {
            int stays = v->lives[i] && !mare__set_has(v->gone, i);
            v->plan_next[i] = stays ? v->lives[i] : mare__alive(m, i) ? v->wants[i] : 0;
            v->plan_cut[i] = v->most[i];
        }
        if (!mare__casts_reach(&v->casts, v->plan_cut, n))
            return; /* the copies are under way */
        v->stage = SPREADING;
        v->accepted = v->planned = v->promised;
        mare__views_copy_array(m, v->next, v->plan_next);
        mare__views_copy_array(m, v->cut, v->plan_cut);
        mare__set_clear(v->answered, n);
        mare__set_add(v->answered, m->setup.self);
        say_cut(m, fx);
    }
    if (v->stage == SPREADING && all_answered(m)) {
        mare__views_say_group(m, fx, NULL, INSTALL, v->accepted, 0);
        install(m, fx, 1);
    }
}

void mare__views_lead(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t n = m->setup.capacity;
    v->promised = (v->promised / n + 1) * n + m->setup.self;
    v->stage = COLLECTING;
    v->patience = 0;
    v->planned = v->accepted;
    mare__views_copy_array(m, v->plan_next, v->next);
    mare__views_copy_array(m, v->plan_cut, v->cut);
    mare__views_copy_array(m, v->most, v->casts.received);
    mare__set_clear(v->answered, n);
    mare__set_add(v->answered, m->setup.self);
    mare__mark(m, fx, "leads a change");
    mare__views_say_group(m, fx, NULL, PROPOSE, v->promised, 0);
    go_on(m, fx);
}

/* Whether one that has told what it has is gone: it may have been the only one to have it. */
static int lost_an_answer(const mare_coord *m)
{
    const views *v = m->state;
    uint32_t i = mare__set_next(v->gone, 0, m->setup.capacity);
    while (i != MARE_COORD_NOBODY && !mare__set_has(v->answered, i))
        i = mare__set_next(v->gone, i + 1, m->setup.capacity);
    return i != MARE_COORD_NOBODY;
}

void mare__views_consider(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t owner = (uint32_t)(v->promised % m->setup.capacity);
    int need = 0;
    if (!v->view || mare__views_leader_of(m) != m->setup.self)
        return;
    for (uint32_t i = 0; i < m->setup.capacity; i++)
        need |= mare__set_has(v->gone, i) || (v->wants[i] && v->wants[i] != v->lives[i]);
    int begins = v->stage == FOLLOWING && need && (!v->promised || mare__set_has(v->gone, owner));
    int begins_again = v->stage == COLLECTING && lost_an_answer(m);
    if (begins || begins_again)
        mare__views_lead(m, fx);
    else if (v->stage != FOLLOWING)
        go_on(m, fx);
}

/* Messages ----------------------------------------------------------------------------------- */

static void on_propose(mare_coord *m, uint32_t from, uint64_t ballot, mare_coord_effects *fx)
{
    views *v = m->state;
    if (ballot % m->setup.capacity != from)
        return;
    if (ballot > v->promised) {
        v->promised = ballot;
        v->stage = FOLLOWING;
        v->patience = 0;
    }
    mare__views_put_array(m, 0, v->casts.received);
    mare__views_put_array(m, 1, v->next);
    mare__views_put_array(m, 2, v->cut);
    mare__views_say(m, fx, from, STATE, v->promised, v->accepted,
                    3); /* that may be of a higher ballot */
}

static void on_state(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                     mare_coord_effects *fx)
{
    views *v = m->state;
    int more = 0;
    if (msg->field[SECOND] > v->promised) { /* somebody else has led, and gone further */
        v->promised = msg->field[SECOND];
        v->stage = FOLLOWING;
        mare__views_consider(m, fx);
        return;
    }
    if (v->stage != COLLECTING || msg->field[SECOND] != v->promised)
        return;
    mare__set_add(v->answered, from);
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        uint64_t has = mare__views_get_number(m, msg, 0, i);
        more |= has > v->casts.received[i];
        if (has <= v->most[i])
            continue;
        v->most[i] = has;
        v->holder[i] = from;
    }
    if (msg->field[THIRD] > v->planned) {
        v->planned = msg->field[THIRD];
        mare__views_get_array(m, msg, 1, v->plan_next);
        mare__views_get_array(m, msg, 2, v->plan_cut);
    }
    if (more)
        ask_for(m, fx, from);
    go_on(m, fx);
}

/* Accepts the plan if everything up to its cut is here. */
static void try_accept(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    uint32_t owner = (uint32_t)(v->promised % m->setup.capacity);
    if (v->stage != FOLLOWING || !v->planned || v->planned != v->promised)
        return;
    if (!mare__casts_reach(&v->casts, v->plan_cut, m->setup.capacity))
        return;
    v->accepted = v->planned;
    mare__views_copy_array(m, v->next, v->plan_next);
    mare__views_copy_array(m, v->cut, v->plan_cut);
    mare__views_say(m, fx, owner, READY, v->accepted, 0, 0);
}

static void on_cut(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                   mare_coord_effects *fx)
{
    views *v = m->state;
    if (msg->field[SECOND] < v->promised)
        on_propose(m, from, msg->field[SECOND], fx);
    if (msg->field[SECOND] != v->promised || v->stage != FOLLOWING)
        return;
    v->planned = v->promised;
    v->patience = 0;
    mare__views_get_array(m, msg, 0, v->plan_next);
    mare__views_get_array(m, msg, 1, v->plan_cut);
    try_accept(m, fx);
    if (v->accepted != v->promised)
        ask_for(m, fx, from);
}

static void on_need(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                    mare_coord_effects *fx)
{
    views *v = m->state;
    for (uint32_t i = 0; v->promised && i < m->setup.capacity; i++) {
        uint64_t has = mare__views_get_number(m, msg, 0, i), mine = v->casts.received[i];
        uint64_t least = mine > v->casts.window ? mine - v->casts.window : 0;
        for (uint64_t s = has < least ? least : has; s < mine; s++) {
            const mare__cast *cast = mare__casts_at(&v->casts, i, s + 1);
            if (cast)
                mare__views_say_cast(m, fx, from, i, cast);
        }
    }
}

static void on_copy(mare_coord *m, const mare_coord_message *msg, mare_coord_effects *fx)
{
    views *v = m->state;
    if (!v->promised || !v->lives[msg->field[THIRD]])
        return;
    mare__casts_put(&v->casts, (uint32_t)msg->field[THIRD], msg->field[SECOND],
                    mare__views_stamp_of(m, msg->tail), msg->tail, msg->tail_length);
    if (v->stage == COLLECTING)
        go_on(m, fx);
    else if (v->accepted != v->promised)
        try_accept(m, fx);
}

static void on_ready(mare_coord *m, uint32_t from, uint64_t ballot, mare_coord_effects *fx)
{
    views *v = m->state;
    if (v->stage != SPREADING || ballot != v->promised)
        return;
    mare__set_add(v->answered, from);
    go_on(m, fx);
}

/* A later plan that was accepted is the same, taken up. One that has accepted neither was not
 * asked, and cannot go on with the others, who may be in the next view and count it in: it lacks
 * what they delivered, or has delivered what they lack. */
void mare__views_end(mare_coord *m, mare_coord_effects *fx, uint64_t ballot)
{
    const views *v = m->state;
    if (v->accepted && v->accepted >= ballot)
        install(m, fx, 0);
    else
        mare__views_leave(m, fx, "left out");
}

void mare__views_change(mare_coord *m, uint32_t from, const mare_coord_message *msg,
                        mare_coord_effects *fx)
{
    uint64_t ballot = msg->field[SECOND];
    if (msg->kind == PROPOSE)
        on_propose(m, from, ballot, fx);
    else if (msg->kind == STATE)
        on_state(m, from, msg, fx);
    else if (msg->kind == CUT)
        on_cut(m, from, msg, fx);
    else if (msg->kind == NEED)
        on_need(m, from, msg, fx);
    else if (msg->kind == COPY)
        on_copy(m, msg, fx);
    else if (msg->kind == READY)
        on_ready(m, from, ballot, fx);
    else if (msg->kind == INSTALL)
        mare__views_end(m, fx, ballot);
}

void mare__views_retry(mare_coord *m, mare_coord_effects *fx)
{
    views *v = m->state;
    if (v->stage == COLLECTING) {
        mare__views_say_group(m, fx, &v->answered, PROPOSE, v->promised, 0);
        for (uint32_t i = 0; i < m->setup.capacity; i++) {
            if (v->most[i] > v->casts.received[i])
                ask_for(m, fx, (uint32_t)v->holder[i]);
        }
    } else if (v->stage == SPREADING) {
        say_cut(m, fx);
    } else if (mare__views_leader_of(m) == m->setup.self &&
               v->patience++ > 2 + mare__random(m) % 8) {
        mare__views_lead(m, fx); /* the one that leads seems to be left out, and does not know */
    }
}
