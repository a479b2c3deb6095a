/* SPDX-License-Identifier: MIT */

/* The checker of elections, from what the applications are told alone.
 *
 *   ONE-LEADER  no two members are told of different leaders of one epoch, ever: not by lost
 *               messages, partitions or restarts.
 *   EPOCH       what one member is told does not go back: each ELECTED of a life has an epoch that
 *               is not smaller than the one before it.
 *
 * Epochs are remembered in a table of fixed size, where a new one takes the place of an old one
 * with the same remainder: elections of long ago are forgotten, and nobody speaks of them.
 * Agreement is the workload's to ask for, in the second phase. */

#include "sim/check.h"

#include <inttypes.h>

#define REMEMBERED 8192u

typedef struct term {
    uint64_t epoch;
    uint32_t leader, told; /* who was told first */
    int used;
} term;

typedef struct leaders {
    term term[REMEMBERED];
    uint64_t latest[]; /* by member: the epoch that it was told last */
} leaders;

static size_t size(const mare_sim_options *options)
{
    return sizeof(leaders) + options->setup.capacity * sizeof(uint64_t);
}

static void check_elected(leaders *l, mare_sim *sim, const mare_sim_observation *seen)
{
    uint64_t epoch = seen->effect->number;
    uint32_t leader = seen->effect->peer;
    term *t = &l->term[epoch % REMEMBERED];
    if (t->used && t->epoch == epoch && t->leader != leader)
        mare_sim_violate(sim, "ONE-LEADER",
                         "p%" PRIu32 " was told that p%" PRIu32 " leads in epoch %" PRIu64
                         ", p%" PRIu32 " that p%" PRIu32 " does",
                         t->told, t->leader, epoch, seen->process, leader);
    if (!t->used || t->epoch != epoch)
        *t = (term){.epoch = epoch, .leader = leader, .told = seen->process, .used = 1};
    if (epoch < l->latest[seen->process])
        mare_sim_violate(sim, "EPOCH", "p%" PRIu32 " was told of epoch %" PRIu64 " after %" PRIu64,
                         seen->process, epoch, l->latest[seen->process]);
    l->latest[seen->process] = epoch;
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    leaders *l = state;
    if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_ELECTED)
        check_elected(l, sim, seen);
    else if (seen->sight == MARE_SIM_CRASHED || seen->sight == MARE_SIM_DEPARTED)
        l->latest[seen->process] = 0;
}

const mare_sim_checker mare_sim_check_leader = {
    .name = "leader",
    .promises = MARE_COORD_ONE_LEADER,
    .size = size,
    .see = see,
};
