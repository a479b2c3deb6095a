/* SPDX-License-Identifier: MIT */

/* Coming to a group that remembers; arrival.h has the rules, their reason and their assumptions. */

#include "coord/mutex/arrival.h"

void mare__arrival_lay_out(mare__arrival *a, mare__block *block, const mare_coord_setup *setup)
{
    a->told = mare__carve_set(block, setup->capacity);
    a->recalls = mare__carve_set(block, setup->capacity);
    a->life = setup->incarnation << 32;
    a->forgot = !setup->founds;
}

int mare__arrival_start(const mare_coord *m, mare__arrival *a)
{
    a->life++;
    a->asked_us = m->now_us;
    a->taught = a->complained = 0;
    a->ready = mare__founds(m) ? 1 : 0;
    mare__set_clear(a->told, m->setup.capacity);
    mare__set_clear(a->recalls, m->setup.capacity);
    mare__set_add(a->told, m->setup.self);
    if (!a->forgot)
        mare__set_add(a->recalls, m->setup.self);
    return !a->ready;
}

int mare__arrival_misses(const mare_coord *m, mare__arrival *a, uint32_t member)
{
    if (a->ready || mare__set_has(a->told, member) || a->asked_us == m->now_us)
        return 0; /* … or the answers are still to be given */
    return mare__arrival_start(m, a);
}

uint64_t mare__arrival_answer(const mare__arrival *a)
{
    if (a->ready)
        return MARE__ARRIVAL_READY;
    return a->quorum && !a->forgot ? MARE__ARRIVAL_RECALLS : MARE__ARRIVAL_FORGOT;
}

int mare__arrival_told(mare__arrival *a, uint32_t from, uint64_t life, uint64_t answer)
{
    if (a->ready || life != a->life)
        return 0;
    mare__set_add(a->told, from);
    a->taught |= answer == MARE__ARRIVAL_READY;
    if (answer == MARE__ARRIVAL_RECALLS)
        mare__set_add(a->recalls, from);
    return 1;
}

int mare__arrival_enough(const mare_coord *m, const mare__arrival *a, mare__set set)
{
    uint32_t founders = 0;
    for (uint32_t i = 0; i < m->setup.members; i++)
        founders += (uint32_t)mare__set_has(set, i);
    return !a->quorum || founders > m->setup.members / 2;
}

int mare__arrival_try(const mare_coord *m, mare__arrival *a, mare_coord_effects *fx)
{
    uint32_t told = mare__set_count(a->told, m->setup.capacity) - 1;
    int alone = mare__set_count(m->members, m->setup.capacity) == 1;
    if (a->ready || !mare__set_covered(m->members, a->told, m->down, m->setup.capacity))
        return 0;
    if (a->quorum)
        alone = mare__arrival_enough(m, a, a->recalls);
    if (a->taught || alone) {
        a->ready = 1;
        return 1;
    }
    if (!a->complained)
        mare__no_group(fx, told);
    a->complained = 1;
    return 0;
}

int mare__arrival_is_stuck(const mare__arrival *a)
{
    return a->complained && !a->ready;
}

void mare__arrival_keep(const mare__arrival *a, uint64_t latest, uint64_t *out)
{
    out[MARE__ARRIVAL_LATEST] = latest;
    out[MARE__ARRIVAL_LOST] = a->forgot;
}

mare_coord_status mare__arrival_recall(mare__arrival *a, uint64_t limit, const uint64_t *in,
                                       uint64_t *latest)
{
    if (in[MARE__ARRIVAL_LATEST] >= limit || in[MARE__ARRIVAL_LOST] > 1)
        return MARE_COORD_MALFORMED;
    *latest = in[MARE__ARRIVAL_LATEST];
    a->forgot = (uint16_t)in[MARE__ARRIVAL_LOST];
    return MARE_COORD_OK;
}
