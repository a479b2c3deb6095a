/* SPDX-License-Identifier: MIT */

/* Profiles: the kinds of faults that a seed draws. The usual draw (fault.c) spreads faults over the
 * run, with at most one at a time for each process. So some situations are rare. These profiles
 * make them in every run:
 *
 *   clustered   most of the group crash, or one or two members again and again. They crash shortly
 *               after each other, and are back before all have heard of it. So news of a death and
 *               of a return come late, or while the others still react to it
 *   joiners     a process that joins crashes, loses its memory or stands still, at once or later
 *   suspected   processes stand still for longer than the detector waits, so others take them for
 *               dead (only for algorithms that tolerate a wrong detector)
 *   brief       processes stay inside for long, and others crash for a moment. So a process that
 *               has voted may be back, without its memory, before that vote has come to its end
 *   quiet       the usual faults. From some time on, some processes want nothing any more. Their
 *               last words may be lost, and they say nothing more that makes up for it
 *
 * In all but the usual one, half of the seeds are quiet too. Profiles draw from a stream of their
 * own. So a seed has the same network and the same pace in each of them. */

#include "sim/sim.h"

#include <string.h>

#define STREAM 9u
#define QUIET_STREAM 4000000u
#define STAY 30u /* delays of a message that a stay is long */

static const char *const names[] = {"usual", "clustered", "joiners", "suspected", "brief", "quiet"};
_Static_assert(sizeof names / sizeof *names == MARE_SIM_PROFILES, "a name each");

const char *mare_sim_profile_name(mare_sim_profile profile)
{
    return names[profile];
}

mare_sim_profile mare_sim_profile_find(const char *name)
{
    int profile = 0;
    while (profile < MARE_SIM_PROFILES && strcmp(names[profile], name) != 0)
        profile++;
    return (mare_sim_profile)profile;
}

typedef struct draw {
    mare_sim_options *options;
    mare_sim_random random;
    unsigned tolerated;
    uint32_t spared;
} draw;

/* Crashes, now and then with loss of memory, seldom for ever. */
static mare_sim_fault draw_death(draw *d, uint32_t process, uint64_t at_us, uint64_t most_us)
{
    mare_sim_fault fault = {.process = process, .at_us = at_us};
    fault.kind = mare_sim_below(&d->random, 4) ? MARE_SIM_CRASH : MARE_SIM_AMNESIA;
    if (!(d->tolerated & MARE_COORD_AMNESIA))
        fault.kind = MARE_SIM_CRASH;
    fault.for_us = 1 + mare_sim_below(&d->random, most_us);
    if (mare_sim_below(&d->random, 16) == 0 && fault.kind == MARE_SIM_CRASH &&
        !(d->tolerated & MARE_COORD_ALL_RETURN))
        fault.for_us = 0;
    return fault;
}

static void add(draw *d, const mare_sim_fault *fault)
{
    const mare_sim_options *options = d->options;
    mare_sim_faults_add_fair(&d->options->faults, fault, d->tolerated, options->setup.members,
                             options->setup.capacity, d->spared);
}

/* One moment at which many crash, or few again and again. */
static void draw_cluster(draw *d, uint64_t unit_us)
{
    const mare_sim_options *options = d->options;
    uint32_t members = options->setup.members;
    uint64_t at_us = mare_sim_below(&d->random, options->duration_us * 3 / 4 + 1);
    uint64_t width_us = 1 + mare_sim_below(&d->random, 6 * unit_us);
    uint64_t count = 1 + mare_sim_below(&d->random, 2 * members);
    uint32_t first = (uint32_t)mare_sim_below(&d->random, members);
    uint64_t victims = mare_sim_below(&d->random, 3) ? members : 1 + mare_sim_below(&d->random, 2);
    uint64_t most_us = victims == members ? 3 * unit_us : width_us / 4 + 1;
    while (count-- > 0) {
        uint32_t process = (first + (uint32_t)mare_sim_below(&d->random, victims)) % members;
        uint64_t when_us = at_us + mare_sim_below(&d->random, width_us);
        mare_sim_fault fault = draw_death(d, process, when_us, most_us);
        if (fault.at_us < options->duration_us)
            add(d, &fault);
    }
}

static void draw_clusters(draw *d)
{
    const mare_sim_options *options = d->options;
    for (uint64_t left = 1 + mare_sim_below(&d->random, 3); left > 0; left--)
        draw_cluster(d, options->detect_us + options->network.delay_us);
}

/* The failure of one that joined; not together with another of its own. */
static void add_to_joiner(draw *d, const mare_sim_fault *fault)
{
    const mare_sim_fault_list *list = &d->options->faults;
    if (fault->at_us >= d->options->duration_us)
        return;
    for (uint32_t i = 0; i < list->count; i++) {
        const mare_sim_fault *old = &list->fault[i];
        if (old->kind != MARE_SIM_JOIN && old->process == fault->process &&
            (!old->for_us || old->at_us + old->for_us >= fault->at_us))
            return;
    }
    mare_sim_faults_add(&d->options->faults, fault);
}

static void draw_joiners(draw *d)
{
    mare_sim_options *options = d->options;
    uint64_t unit_us = options->detect_us + options->network.delay_us;
    for (uint32_t i = options->setup.members; i < options->setup.capacity; i++) {
        mare_sim_fault joins = {.kind = MARE_SIM_JOIN, .process = i};
        joins.at_us = mare_sim_below(&d->random, options->duration_us * 3 / 4 + 1);
        if (mare_sim_below(&d->random, 2))
            joins.for_us = 1 + mare_sim_below(&d->random, options->duration_us / 2);
        mare_sim_faults_add(&options->faults, &joins);
        uint64_t at_us = joins.at_us;
        for (uint64_t left = 1 + mare_sim_below(&d->random, 4); left > 0; left--) {
            at_us += 1 + mare_sim_below(&d->random, 4 * unit_us);
            mare_sim_fault fault = draw_death(d, i, at_us, 3 * unit_us);
            if (mare_sim_below(&d->random, 4) == 0) {
                fault.kind = MARE_SIM_PAUSE;
                fault.for_us = 1 + mare_sim_below(&d->random, 3 * unit_us);
            }
            if (d->tolerated & (fault.kind == MARE_SIM_PAUSE ? MARE_COORD_PAUSE : MARE_COORD_CRASH))
                add_to_joiner(d, &fault);
            at_us += fault.for_us;
        }
    }
}

static void draw_suspected(draw *d)
{
    mare_sim_options *options = d->options;
    uint64_t unit_us = options->detect_us + options->network.delay_us;
    options->detector = MARE_SIM_HASTY;
    for (uint64_t left = 1 + mare_sim_below(&d->random, 8); left > 0; left--) {
        mare_sim_fault fault = {.kind = MARE_SIM_PAUSE};
        fault.process = (uint32_t)mare_sim_below(&d->random, options->setup.members);
        fault.at_us = mare_sim_below(&d->random, options->duration_us * 3 / 4 + 1);
        fault.for_us = 1 + mare_sim_below(&d->random, 8 * unit_us);
        add(d, &fault);
    }
}

static void draw_brief(draw *d)
{
    mare_sim_options *options = d->options;
    uint64_t delay_us = options->network.delay_us + 1;
    options->hold_us = STAY * delay_us;
    for (uint64_t left = 2 + mare_sim_below(&d->random, 8); left > 0; left--) {
        mare_sim_fault fault = {.kind = MARE_SIM_CRASH};
        fault.process = (uint32_t)mare_sim_below(&d->random, options->setup.members);
        fault.at_us = mare_sim_below(&d->random, options->duration_us * 3 / 4 + 1);
        fault.for_us = 1 + mare_sim_below(&d->random, 2 * delay_us);
        add(d, &fault);
    }
}

/* The joins of the usual draw give way to those of the profile. */
static void drop_joins(mare_sim_fault_list *list)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->fault[i].kind != MARE_SIM_JOIN)
            list->fault[kept++] = list->fault[i];
    }
    list->count = kept;
}

void mare_sim_profile_draw(mare_sim_options *options, unsigned tolerated, uint32_t spared)
{
    draw d = {options, mare_sim_stream(options->seed, STREAM), tolerated, spared};
    mare_sim_profile profile = options->profile;
    options->quiet = profile == MARE_SIM_QUIET;
    if (profile == MARE_SIM_USUAL || profile == MARE_SIM_QUIET)
        return;
    options->quiet = (int)mare_sim_below(&d.random, 2);
    if (mare_sim_below(&d.random, 2))
        options->faults.count = 0; /* nothing but those of the profile */
    if (profile == MARE_SIM_CLUSTERED) {
        draw_clusters(&d);
    } else if (profile == MARE_SIM_JOINERS && tolerated & MARE_COORD_CHURN) {
        drop_joins(&options->faults);
        draw_joiners(&d);
    } else if (profile == MARE_SIM_SUSPECTED && tolerated & MARE_COORD_SUSPECTS) {
        draw_suspected(&d);
    } else if (profile == MARE_SIM_BRIEF && tolerated & MARE_COORD_CRASH) {
        draw_brief(&d);
    }
}

int mare_sim_is_quiet(const mare_sim_options *options, uint32_t process, uint64_t now_us)
{
    mare_sim_random random = mare_sim_stream(options->seed, QUIET_STREAM + process);
    int is = (int)mare_sim_below(&random, 2);
    return options->quiet && is && process != options->seed % options->setup.members &&
           now_us >= mare_sim_below(&random, options->duration_us + 1);
}
