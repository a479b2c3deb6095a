/* SPDX-License-Identifier: MIT */

/* What outlives a machine of majority.c: on the disk, for a later life of the member; and in
 * memory, for a lock that is thrown away and comes again. */

#include "coord/mutex/majority_state.h"

#include "coord/bytes.h"
#include "coord/machine.h"

/* Keeping ------------------------------------------------------------------------------------ */

uint32_t mare__majority_kept(const mare_coord_setup *setup)
{
    return setup->param[LEASE] ? MARE__MAJORITY_VOTED + MARE__SET_WORDS(setup->capacity) : KEPT + 1;
}

void mare__majority_keep(const mare_coord *m, uint64_t *out)
{
    const majority *x = m->state;
    if (mare__param(m, LEASE)) {
        out[MARE__MAJORITY_BOUND] = x->reserved;
        out[MARE__MAJORITY_ABSTAINS] = x->abstains;
        for (uint32_t i = 0; i < MARE__SET_WORDS(m->setup.capacity); i++)
            out[MARE__MAJORITY_VOTED + i] = x->voted.word[i];
        return;
    }
    for (uint32_t i = 0; i < KEPT; i++)
        out[i] = x->given[i];
    out[KEPT] = x->abstains;
}

/* Takes all stamps up to the bound for used. */
static mare_coord_status recall_bound(mare_coord *m, const uint64_t *in)
{
    majority *x = m->state;
    if (in[MARE__MAJORITY_BOUND] >= MARE__CLOCK_LIMIT || in[MARE__MAJORITY_ABSTAINS] > 1)
        return MARE_COORD_MALFORMED;
    x->reserved = in[MARE__MAJORITY_BOUND];
    x->used = in[MARE__MAJORITY_BOUND];
    x->user = m->setup.capacity - 1;
    x->clock = x->clock > in[MARE__MAJORITY_BOUND] ? x->clock : in[MARE__MAJORITY_BOUND];
    x->abstains = (uint32_t)in[MARE__MAJORITY_ABSTAINS];
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        if (in[MARE__MAJORITY_VOTED + i / 64] >> (i % 64) & 1)
            mare__set_add(x->voted, i);
        if (i != m->setup.self && mare__set_has(x->voted, i))
            mare__set_add(x->asked, i);
    }
    m->unsure = !x->abstains && mare__set_count(x->asked, m->setup.capacity);
    return MARE_COORD_OK;
}

mare_coord_status mare__majority_recall(mare_coord *m, const uint64_t *in)
{
    majority *x = m->state;
    mare__ballot *b = &x->ballot;
    if (mare__param(m, LEASE))
        return recall_bound(m, in);
    if ((in[VOTE] && in[HOLDER] >= m->setup.capacity) || in[USER] >= m->setup.capacity ||
        in[HELD_STAMP] >= MARE__CLOCK_LIMIT || in[USED] >= MARE__CLOCK_LIMIT || in[KEPT] > 1)
        return MARE_COORD_MALFORMED;
    for (uint32_t i = 0; i < KEPT; i++)
        x->given[i] = in[i];
    x->used = in[USED];
    x->user = (uint32_t)in[USER];
    x->abstains = (uint32_t)in[KEPT];
    x->clock = in[HELD_STAMP] > in[USED] ? in[HELD_STAMP] : in[USED];
    b->vote = in[VOTE];
    if (in[VOTE]) {
        b->holder = (uint32_t)in[HOLDER];
        b->ticket[b->holder] = in[HELD_TICKET];
        b->stamp[b->holder] = in[HELD_STAMP];
    }
    return MARE_COORD_OK;
}

/* Forgetting --------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

int mare__majority_forget(const mare_coord *m, mare__majority_past *past)
{
    const majority *x = m->state;
    mare_coord_stamp used = {x->used, x->user}, before = {past->used, past->user};
    if (m->waiting || m->inside || m->unsure || x->ballot.holder != MARE_COORD_NOBODY)
        return 0;
    for (uint32_t i = 0; i < m->setup.capacity; i++) {
        if (x->ballot.ticket[i])
            return 0;
    }
    past->clock = later(past->clock, x->clock);
    past->ticket = later(past->ticket, x->ticket);
    past->vote = later(past->vote, x->ballot.vote);
    if (mare_coord_stamp_before(before, used)) {
        past->used = x->used;
        past->user = x->user;
    }
    return 1;
}

/* A request that is late is older than what was used, or is over for who has sent it: it returns a
 * vote for a ticket that it does not know. */
void mare__majority_follow(mare_coord *m, const mare__majority_past *past)
{
    majority *x = m->state;
    mare_coord_stamp used = {x->used, x->user}, before = {past->used, past->user};
    x->clock = later(x->clock, past->clock);
    x->ticket = later(x->ticket, past->ticket);
    x->none = x->ticket;
    x->ballot.vote = later(x->ballot.vote, past->vote);
    if (mare_coord_stamp_before(used, before)) {
        x->used = past->used;
        x->user = past->user;
    }
}

/* Of all locks --------------------------------------------------------------------------------- */

/* What locks keep, as one: the largest of their bounds, and all who have ever had a vote. That is
 * more than each of them needs, and so right for each: after a crash a stamp too many counts as
 * used, or one member too many is asked. */
int mare__majority_merge(uint8_t *into, const uint8_t *saved, uint32_t length)
{
    int grows = 0;
    for (uint32_t i = 0; 8 * i < length; i++) {
        uint64_t old = mare__get_number(into + 8 * i, 8);
        uint64_t both = old | mare__get_number(saved + 8 * i, 8); /* a set, or always the same */
        if (i == MARE__SAVED_HEAD + MARE__MAJORITY_BOUND) {
            both = mare__get_number(saved + 8 * i, 8);
            both = both > old ? both : old;
        }
        grows |= both != old;
        mare__put_numbers(into + 8 * i, &both, 1);
    }
    return grows;
}
