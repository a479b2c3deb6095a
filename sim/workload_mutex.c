/* SPDX-License-Identifier: MIT */

/* The workload of mutual exclusion: each process thinks, asks to enter, stays a while, goes out.
 *
 *     thinking ── wake ──▶ asked ── GRANTED ──▶ inside ── wake ──▶ thinking …
 *         ▲                  │  REVOKED            │ REVOKED, crash
 *         └──────────────────┴─────────────────────┘
 *
 * In the second phase every process that is up must be granted one more entry, and finish it. Then
 * it rests, so that nobody has to wait for a process that wants nothing any more. Where EM2 is
 * promised (every request is granted in the end), all then ask again and again until each has been
 * inside: a process that is served only when nobody else asks does not count as served. A process
 * that is late breaks EM2. A quiet process (sim.h) asks for nothing any more. */

#include "sim/workload.h"

#include <inttypes.h>

#define AGAIN_US 1000u /* at least, on average, after a refusal: or time would hardly go on */

typedef enum stage { ABSENT, THINKING, ASKED, INSIDE, FINISHED } stage;

typedef struct member {
    stage stage;
    uint32_t turn;    /* tells whether a planned wake still counts */
    uint32_t done;    /* entries begun */
    uint32_t settled; /* entries finished in the second phase */
    uint64_t asked_us;
} member;

static size_t size(const mare_sim_options *options)
{
    return options->setup.capacity * sizeof(member);
}

static int takes_part(const mare_sim *sim, uint32_t process)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    return (!options->entrants || process < options->entrants) &&
           !mare_sim_is_quiet(options, process, mare_sim_now(sim));
}

static void think(member *who, mare_sim *sim, uint32_t process, uint64_t mean_us)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    if (!takes_part(sim, process))
        who->stage = ABSENT;
    if (!takes_part(sim, process) || (who->stage == FINISHED && !mare_sim_settling(sim)))
        return;
    if (options->rounds && who->done >= options->rounds && !mare_sim_settling(sim)) {
        who->stage = FINISHED;
        return;
    }
    who->stage = THINKING;
    mare_sim_wake(sim, process,
                  mean_us ? mare_sim_exponential(mare_sim_workload_random(sim), mean_us) : 0,
                  ++who->turn);
}

static void begin(void *state, mare_sim *sim)
{
    member *all = state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.members; i++)
        think(&all[i], sim, i, mare_sim_options_of(sim)->think_us);
}

/* After a request that was refused: at once, as without a lease it is each time. A process that
 * thinks for no time, or for a few microseconds, would do nothing else but ask. */
static void try_later(member *who, mare_sim *sim, uint32_t process)
{
    uint64_t think_us = mare_sim_options_of(sim)->think_us;
    think(who, sim, process, think_us > AGAIN_US ? think_us : AGAIN_US);
}

static void see_effect(member *who, mare_sim *sim, const mare_sim_observation *seen)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    if (seen->effect->kind == MARE_COORD_GRANTED) {
        who->stage = INSIDE;
        mare_sim_wake(sim, seen->process, options->hold_us, ++who->turn);
    } else if (seen->effect->kind == MARE_COORD_REVOKED && who->stage == ASKED &&
               who->asked_us == mare_sim_now(sim)) {
        try_later(who, sim, seen->process);
    } else if (seen->effect->kind == MARE_COORD_REVOKED && who->stage != FINISHED) {
        think(who, sim, seen->process, options->think_us);
    }
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    member *all = state;
    if (seen->process == MARE_COORD_NOBODY)
        return;
    member *who = &all[seen->process];
    switch (seen->sight) {
    case MARE_SIM_EFFECT:
        see_effect(who, sim, seen);
        break;
    case MARE_SIM_CRASHED:
    case MARE_SIM_DEPARTED:
        if (who->stage != FINISHED)
            who->stage = ABSENT;
        who->turn++;
        break;
    case MARE_SIM_RESTARTED:
    case MARE_SIM_JOINED:
        think(who, sim, seen->process, mare_sim_options_of(sim)->think_us);
        break;
    default:
        break;
    }
}

static void ask(member *who, mare_sim *sim, uint32_t process)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    mare_sim_random *random = mare_sim_workload_random(sim);
    uint64_t deadline_us = 0;
    if (!mare_sim_settling(sim) && mare_sim_chance(random, options->abandon_ppm))
        deadline_us = mare_sim_below(random, 8 * (options->hold_us + 1));
    who->stage = ASKED;
    who->done++;
    who->asked_us = mare_sim_now(sim);
    if (mare_sim_request(sim, process, MARE_COORD_ENTER, deadline_us, NULL, 0) != MARE_COORD_OK)
        try_later(who, sim, process);
}

/* Whether all that are up have finished so many entries of the second phase. */
static int all_have(const member *all, mare_sim *sim, uint32_t entries)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    for (uint32_t i = 0; i < options->setup.capacity; i++) {
        if (takes_part(sim, i) && mare_sim_is_up(sim, i) && all[i].settled < entries)
            return 0;
    }
    return 1;
}

static uint32_t entries_to_settle(const mare_sim_options *options)
{
    return options->setup.algorithm->promises(&options->setup) & MARE_COORD_EM2 ? 2 : 1;
}

/* After an entry of the second phase. When the last process has had its first entry, all are called
 * again. From then on each asks again sooner than another can be served, so that somebody always
 * waits; but not at once, or time would stand still. */
static void go_on(member *all, mare_sim *sim, uint32_t process)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    uint64_t breath_us = 1 + (options->network.delay_us + options->hold_us) / 4;
    int first = ++all[process].settled == 1;
    if (entries_to_settle(options) == 1 || !all_have(all, sim, 1))
        return;
    for (uint32_t i = 0; first && i < options->setup.capacity; i++) {
        if (mare_sim_is_up(sim, i))
            think(&all[i], sim, i, breath_us);
    }
    if (!first)
        think(&all[process], sim, process, breath_us);
}

static void wake(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    member *all = state, *who = &all[process];
    if (number != who->turn)
        return;
    if (who->stage == THINKING && takes_part(sim, process)) {
        ask(who, sim, process);
    } else if (who->stage == INSIDE) {
        mare_sim_request(sim, process, MARE_COORD_EXIT, 0, NULL, 0);
        if (mare_sim_settling(sim))
            go_on(all, sim, process);
        else
            think(who, sim, process, mare_sim_options_of(sim)->think_us);
    }
}

static void settle(void *state, mare_sim *sim)
{
    member *all = state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        int idle = all[i].stage != ASKED && all[i].stage != INSIDE;
        if (idle && mare_sim_is_up(sim, i))
            think(&all[i], sim, i, 0);
    }
}

static int settled(void *state, mare_sim *sim)
{
    return all_have(state, sim, entries_to_settle(mare_sim_options_of(sim)));
}

/* Names one process: of those with too few entries, the one that has waited longest. Others may
 * have been served, and be waiting for its turn. */
static void overdue(void *state, mare_sim *sim)
{
    const member *all = state;
    const mare_sim_options *options = mare_sim_options_of(sim);
    uint32_t entries = entries_to_settle(options), late = 0, starving = MARE_COORD_NOBODY;
    for (uint32_t i = options->setup.capacity; i-- > 0;) {
        if (!takes_part(sim, i) || !mare_sim_is_up(sim, i) || all[i].settled >= entries)
            continue;
        late = i;
        if (all[i].stage == ASKED &&
            (starving == MARE_COORD_NOBODY || all[i].asked_us <= all[starving].asked_us))
            starving = i;
    }
    if (starving != MARE_COORD_NOBODY)
        mare_sim_violate(sim, "EM2", "p%" PRIu32 " asked at %" PRIu64 " us and is not served",
                         starving, all[starving].asked_us);
    else
        mare_sim_violate(sim, "EM2", "p%" PRIu32 " was inside %" PRIu32 " of %" PRIu32 " times",
                         late, all[late].settled, entries);
}

const mare_sim_workload mare_sim_workload_mutex = {
    .name = "mutex",
    .family = MARE_COORD_MUTEX,
    .size = size,
    .begin = begin,
    .see = see,
    .wake = wake,
    .settle = settle,
    .settled = settled,
    .overdue = overdue,
};
