/* SPDX-License-Identifier: MIT */

/* The checker of elections. It knows only what the applications are told.
 *
 *   ONE-LEADER  no two members are ever told of different leaders of one epoch, whatever messages
 *               are lost and whoever restarts. A leader that has lost its memory counts as another
 *               leader: it does not lead in an epoch that anybody was told of in its earlier life.
 *   EPOCH       the epochs that one member is told of never fall during a life. A crash does not
 *               end a life. The loss of memory does.
 *
 * Epochs are kept in a table of fixed size, in which a new epoch replaces an old one with the same
 * remainder. Elections of long ago are forgotten; no message is about them any more. The workload
 * checks agreement, in the second phase. */

#include "sim/check.h"

#include <inttypes.h>

#define REMEMBERED 8192u

typedef struct term {
    uint64_t epoch;
    uint32_t leader, told; /* who leads; the first member that was told so */
    uint32_t life;         /* the leader's life at that time */
    int used;
} term;

typedef struct member {
    uint64_t latest; /* the last epoch that it was told of */
    uint32_t life;   /* counts losses of memory */
} member;

typedef struct leaders {
    term term[REMEMBERED];
    member member[];
} leaders;

static size_t size(const mare_sim_options *options)
{
    return sizeof(leaders) + options->setup.capacity * sizeof(member);
}

/* Epochs of later lives are far apart: without mixing, they would share few places. */
static term *place_of(leaders *l, uint64_t epoch)
{
    return &l->term[(epoch * UINT64_C(0x9E3779B97F4A7C15) >> 32) % REMEMBERED];
}

static void check_elected(leaders *l, mare_sim *sim, const mare_sim_observation *seen)
{
    uint64_t epoch = seen->effect->number;
    uint32_t leader = seen->effect->peer;
    uint32_t life = leader < mare_sim_options_of(sim)->setup.capacity ? l->member[leader].life : 0;
    member *who = &l->member[seen->process];
    term *t = place_of(l, epoch);
    if (t->used && t->epoch == epoch && t->leader != leader)
        mare_sim_violate(sim, "ONE-LEADER",
                         "p%" PRIu32 " was told that p%" PRIu32 " leads in epoch %" PRIu64
                         ", p%" PRIu32 " that p%" PRIu32 " does",
                         t->told, t->leader, epoch, seen->process, leader);
    if (!t->used || t->epoch != epoch)
        *t = (term){
            .epoch = epoch, .leader = leader, .told = seen->process, .life = life, .used = 1};
    if (leader == seen->process && t->life != life)
        mare_sim_violate(sim, "ONE-LEADER",
                         "p%" PRIu32 " leads in epoch %" PRIu64
                         ", in which it led before it lost its memory",
                         leader, epoch);
    if (epoch < who->latest)
        mare_sim_violate(sim, "EPOCH", "p%" PRIu32 " was told of epoch %" PRIu64 " after %" PRIu64,
                         seen->process, epoch, who->latest);
    who->latest = epoch;
}

static void begin_life(member *who)
{
    who->latest = 0;
    who->life++;
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    leaders *l = state;
    int without_memory = seen->sight == MARE_SIM_RESTARTED && seen->number == 0;
    if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_ELECTED)
        check_elected(l, sim, seen);
    else if (without_memory || seen->sight == MARE_SIM_JOINED)
        begin_life(&l->member[seen->process]);
}

const mare_sim_checker mare_sim_check_leader = {
    .name = "leader",
    .promises = MARE_COORD_ONE_LEADER,
    .size = size,
    .see = see,
};
