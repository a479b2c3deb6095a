/* SPDX-License-Identifier: MIT */

/* Coming to a group that remembers; arrival.h has the rule, its reason and its assumptions. */

#include "coord/mutex/arrival.h"

void mare__arrival_lay_out(mare__arrival *a, mare__block *block, const mare_coord_setup *setup)
{
    a->told = mare__carve_set(block, setup->capacity);
    a->life = setup->incarnation << 32;
}

int mare__arrival_start(const mare_coord *m, mare__arrival *a)
{
    a->life++;
    a->taught = 0;
    a->ready = !m->started && m->setup.incarnation == 0;
    mare__set_clear(a->told, m->setup.capacity);
    mare__set_add(a->told, m->setup.self);
    return !a->ready;
}

int mare__arrival_told(mare__arrival *a, uint32_t from, uint64_t life, int teaches)
{
    if (a->ready || life != a->life)
        return 0;
    mare__set_add(a->told, from);
    a->taught |= teaches != 0;
    return 1;
}

int mare__arrival_try(const mare_coord *m, mare__arrival *a)
{
    int alone = mare__set_count(m->members, m->setup.capacity) == 1;
    if (a->ready || (!a->taught && !alone) ||
        !mare__set_covered(m->members, a->told, m->down, m->setup.capacity))
        return 0;
    a->ready = 1;
    return 1;
}
