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
    a->taught = a->complained = 0;
    a->ready = mare__founds(m) ? 1 : 0;
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

int mare__arrival_try(const mare_coord *m, mare__arrival *a, mare_coord_effects *fx)
{
    uint32_t told = mare__set_count(a->told, m->setup.capacity) - 1;
    int alone = mare__set_count(m->members, m->setup.capacity) == 1;
    if (a->ready || !mare__set_covered(m->members, a->told, m->down, m->setup.capacity))
        return 0;
    if (a->taught || alone) {
        a->ready = 1;
        return 1;
    }
    if (!a->complained)
        mare__no_group(fx, told);
    a->complained = 1;
    return 0;
}
