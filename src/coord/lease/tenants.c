/* SPDX-License-Identifier: MIT */

/* Machines under a lease; tenants.h has the states. Invariants: a tenant acts only while the lease
 * is held, and then it has been told of all that are down; its timers do not outlive its acting. */

#include "coord/lease/tenants.h"

#include "coord/machine.h"

static void carry_all(mare__tenants *t, mare__tenant *tenant, const mare_coord_effects *fx)
{
    for (uint32_t i = 0; i < fx->count; i++)
        t->carry(t->context, tenant, &fx->list[i]);
}

static mare_coord_status step(mare__tenants *t, mare__tenant *tenant, mare_coord_event event)
{
    mare_coord_status status = mare_coord_step(tenant->machine, &event, t->effects);
    carry_all(t, tenant, t->effects);
    return status;
}

/* The members that have joined or left since the machine last heard of it. */
static void tell_members(mare__tenants *t, mare__tenant *tenant, uint64_t now_us)
{
    for (uint32_t i = 0; i < t->lease->setup.capacity; i++) {
        int is = mare_coord_has_member(t->lease, i);
        mare_coord_event news = {
            .kind = is ? MARE_COORD_JOIN : MARE_COORD_LEAVE, .peer = i, .now_us = now_us};
        if (is != mare_coord_has_member(tenant->machine, i))
            step(t, tenant, news);
    }
}

/* The DOWN event of a member. `number` is 1 if the member has held nothing at some moment since
 * this member's life began. */
static mare_coord_event down_of(const mare__tenants *t, uint32_t peer, uint64_t now_us)
{
    return (mare_coord_event){.kind = MARE_COORD_PEER_DOWN,
                              .peer = peer,
                              .now_us = now_us,
                              .number = (uint64_t)mare__lease_was_silent(t->lease, peer)};
}

/* Starts or resumes a tenant. One that starts is told of its group first; one that comes back is
 * told first that it was away. A founder that the others may have gone on without does not
 * found. */
static void resume(mare__tenants *t, mare__tenant *tenant, uint64_t now_us)
{
    int first = !tenant->machine->started;
    if (first)
        tell_members(t, tenant, now_us);
    tenant->machine->late = mare__lease_is_late(t->lease) != 0;
    tenant->acts = 1;
    step(t, tenant, (mare_coord_event){.kind = MARE_COORD_START, .now_us = now_us});
    if (!first)
        tell_members(t, tenant, now_us);
    for (uint32_t i = 0; i < t->lease->setup.capacity; i++) {
        if (mare__lease_is_down(t->lease, i) && mare_coord_has_member(tenant->machine, i))
            step(t, tenant, down_of(t, i, now_us));
    }
}

/* What the tenant held is lost now, and not only when it is told the next event. */
static void suspend(mare__tenants *t, mare__tenant *tenant)
{
    mare_coord *m = tenant->machine;
    mare_coord_effect lost = {
        .kind = MARE_COORD_REVOKED, .peer = m->setup.self, .text = "noquorum"};
    int held = m->waiting || m->inside;
    if (!tenant->acts)
        return;
    tenant->acts = 0;
    m->waiting = m->inside = 0;
    for (uint32_t i = 0; i < MARE_COORD_TIMERS; i++) {
        mare_coord_effect cancel = {.kind = MARE_COORD_CANCEL_TIMER, .timer = i};
        t->carry(t->context, tenant, &cancel);
    }
    if (held)
        t->carry(t->context, tenant, &lost);
}

/* A second DOWN tells something new only to a tenant that asks about an earlier life. */
static void pass_on(mare__tenants *t, mare__tenant *tenant, const mare_coord_effect *effect,
                    uint64_t now_us)
{
    const mare_coord *machine = tenant->machine;
    mare_coord_event news = down_of(t, effect->peer, now_us);
    if (effect->kind == MARE_COORD_UP)
        news.kind = MARE_COORD_PEER_UP;
    else if (mare__set_has(machine->down, effect->peer) && !machine->unsure)
        return;
    if (tenant->acts && mare_coord_has_member(machine, effect->peer))
        step(t, tenant, news);
}

/* The host carries out the lease's messages and timers. News of the lease go to the tenants first:
 * when the host hears of a loss, the tenants know it. */
static void obey(mare__tenants *t, const mare_coord_effect *effect, uint64_t now_us)
{
    for (mare__tenant *i = t->first; i; i = i->next) {
        if (effect->kind == MARE_COORD_LEASED)
            resume(t, i, now_us);
        else if (effect->kind == MARE_COORD_UNLEASED)
            suspend(t, i);
        else if (effect->kind == MARE_COORD_UP || effect->kind == MARE_COORD_DOWN)
            pass_on(t, i, effect, now_us);
    }
    t->carry(t->context, NULL, effect);
}

mare_coord_status mare__tenants_step_lease(mare__tenants *t, const mare_coord_event *event)
{
    mare_coord_status status = mare_coord_step(t->lease, event, t->lease_effects);
    for (uint32_t i = 0; i < t->lease_effects->count; i++)
        obey(t, &t->lease_effects->list[i], event->now_us);
    int group = event->kind == MARE_COORD_JOIN || event->kind == MARE_COORD_LEAVE;
    for (mare__tenant *i = t->first; i && group && status == MARE_COORD_OK; i = i->next) {
        if (i->acts)
            step(t, i, *event);
    }
    return status;
}

uint64_t mare__tenants_epoch(mare__tenants *t, uint64_t now_us)
{
    uint64_t until_us;
    if (mare__lease_epoch(t->lease, &until_us) && now_us >= until_us) {
        mare_coord_event end = {
            .kind = MARE_COORD_TIMER, .number = MARE__LEASE_END, .now_us = now_us};
        mare__tenants_step_lease(t, &end);
    }
    return mare__lease_epoch(t->lease, NULL);
}

mare_coord_status mare__tenants_step(mare__tenants *t, mare__tenant *tenant,
                                     const mare_coord_event *event, uint64_t epoch)
{
    uint64_t own = mare__tenants_epoch(t, event->now_us);
    if (event->kind == MARE_COORD_MESSAGE) {
        if (!mare__lease_hear(t->lease, event->peer, epoch, t->lease_effects))
            return MARE_COORD_REFUSED;
        for (uint32_t i = 0; i < t->lease_effects->count; i++)
            obey(t, &t->lease_effects->list[i], event->now_us);
    }
    return own && tenant->acts ? step(t, tenant, *event) : MARE_COORD_REFUSED;
}

void mare__tenants_add(mare__tenants *t, mare__tenant *tenant, uint64_t now_us)
{
    tenant->next = t->first;
    tenant->acts = 0;
    t->first = tenant;
    if (mare__tenants_epoch(t, now_us))
        resume(t, tenant, now_us);
}

void mare__tenants_remove(mare__tenants *t, mare__tenant *tenant)
{
    mare__tenant **place = &t->first;
    while (*place && *place != tenant)
        place = &(*place)->next;
    if (*place)
        *place = tenant->next;
}
