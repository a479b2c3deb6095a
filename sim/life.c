/* SPDX-License-Identifier: MIT */

/* The lives of processes: crash and restart, pause, joining and leaving, and the failure detector.
 *
 *            JOIN ──▶ UP ◀──▶ PAUSED
 *     AWAY            │ ▲
 *       ◀── LEAVE ──  ▼ │  with its memory, or as a new machine of the next incarnation
 *                    DOWN
 *
 * The detector works by looks. Some time after q has changed, each p looks at q, and is told if q
 * looks different from what p was told last. The accurate one sees whether q is down; the eager one
 * takes a partition between them for a death as well, the hasty one also a pause. Changes of
 * membership reach all living members at once (a paused one when it resumes), which is the contract
 * of JOIN and LEAVE. */

#include "sim/world.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_MOST (UINT64_C(8) << 30) /* for the machines of one run: more is a mistake */

/* Bits of told_down. */
static int was_told(const process *p, uint32_t peer)
{
    return (int)(p->told_down[peer / 64] >> (peer % 64) & 1);
}

static void set_told(process *p, uint32_t peer, int down)
{
    uint64_t bit = UINT64_C(1) << (peer % 64);
    p->told_down[peer / 64] = down ? p->told_down[peer / 64] | bit : p->told_down[peer / 64] & ~bit;
}

/* The detector ------------------------------------------------------------------------------- */

static void plan_look(mare_sim *sim, uint32_t watcher, uint32_t watched)
{
    const mare_sim_options *options = sim->options;
    if (watcher == watched || options->detector == MARE_SIM_NO_DETECTOR ||
        sim->process[watcher].presence < UP)
        return;
    mare_sim_due due = {.kind = DUE_LOOK, .process = watcher, .index = watched};
    due.time_us = sim->now_us + options->detect_us +
                  mare_sim_below(&sim->life_random, options->detect_us / 2 + 1);
    mare_sim_heap_push(&sim->heap, due);
}

/* Everybody looks at this process, and it looks at everybody. */
static void plan_looks(mare_sim *sim, uint32_t who)
{
    for (uint32_t i = 0; i < sim->capacity; i++) {
        plan_look(sim, i, who);
        plan_look(sim, who, i);
    }
}

static int seems_down(const mare_sim *sim, uint32_t watcher, uint32_t watched)
{
    const mare_sim_fault_list *faults = &sim->options->faults;
    mare_sim_detector detector = sim->options->detector;
    if (sim->process[watched].presence == DOWN ||
        (detector == MARE_SIM_HASTY && sim->process[watched].presence == PAUSED))
        return 1;
    for (uint32_t i = 0; detector >= MARE_SIM_EAGER && i < faults->count; i++) {
        const mare_sim_fault *fault = &faults->fault[i];
        int cut = fault->kind == MARE_SIM_PARTITION || fault->kind == MARE_SIM_ONE_WAY;
        if (cut && sim->fault_active[i] && mare_sim_fault_stops(fault, watched, watcher))
            return 1;
    }
    return 0;
}

void mare__sim_look(mare_sim *sim, uint32_t watcher, uint32_t watched)
{
    process *p = &sim->process[watcher];
    int down = seems_down(sim, watcher, watched);
    if (sim->process[watched].presence == AWAY || was_told(p, watched) == down ||
        !mare_coord_has_member(p->machine, watched))
        return;
    set_told(p, watched, down);
    mare_coord_event event = {.kind = down ? MARE_COORD_PEER_DOWN : MARE_COORD_PEER_UP,
                              .peer = watched};
    mare__sim_step(sim, watcher, event, NULL);
}

/* Membership --------------------------------------------------------------------------------- */

static int are_linked(const mare_sim *sim, uint32_t a, uint32_t b)
{
    const mare_sim_hooks *hooks = &sim->options->hooks;
    return a == b || !hooks->linked || hooks->linked(hooks->context, a, b);
}

/* A change of membership reaches one machine. From then on the machine knows nothing of that
 * member's health. */
void mare__sim_tell_news(mare_sim *sim, uint32_t who, mare_coord_event_kind kind, uint32_t about)
{
    set_told(&sim->process[who], about, 0);
    mare__sim_step(sim, who, (mare_coord_event){.kind = kind, .peer = about}, NULL);
    if (sim->process[about].presence == DOWN)
        plan_look(sim, who, about);
}

/* Tells a machine of the changes that it missed. */
static void catch_up(mare_sim *sim, uint32_t who)
{
    for (uint32_t i = 0; i < sim->capacity; i++) {
        int is = i == who || (sim->process[i].presence != AWAY && are_linked(sim, who, i));
        if (is != mare_coord_has_member(sim->process[who].machine, i))
            mare__sim_tell_news(sim, who, is ? MARE_COORD_JOIN : MARE_COORD_LEAVE, i);
    }
}

void mare_sim_relink(mare_sim *sim)
{
    for (uint32_t i = 0; i < sim->capacity; i++) {
        if (sim->process[i].presence == UP)
            catch_up(sim, i);
    }
}

static void tell_all(mare_sim *sim, mare_coord_event_kind kind, uint32_t about)
{
    for (uint32_t i = 0; i < sim->capacity; i++) {
        process *p = &sim->process[i];
        if (i == about || p->presence < UP || !are_linked(sim, i, about))
            continue;
        mare_sim_due due = {.time_us = sim->now_us,
                            .kind = DUE_NEWS,
                            .process = i,
                            .index = about,
                            .serial = p->life << 8 | (uint32_t)kind};
        if (p->presence == UP && p->news == 0) {
            mare__sim_tell_news(sim, i, kind, about);
        } else {
            p->news++;
            mare_sim_heap_push(&sim->heap, due);
        }
    }
}

/* Lives -------------------------------------------------------------------------------------- */

static mare_coord_setup setup_of(const mare_sim_options *options, uint32_t who,
                                 uint32_t incarnation)
{
    mare_coord_setup setup = options->setup;
    mare_sim_random seeds = mare_sim_stream(options->seed, 1000 + who);
    setup.self = who;
    setup.founds = incarnation == 0;
    setup.incarnation = incarnation;
    setup.seed = mare_sim_draw(&seeds) + incarnation;
    if (options->hooks.adjust)
        options->hooks.adjust(options->hooks.context, &setup);
    return setup;
}

/* Every machine that the run may make must be possible, and all together must fit into memory. */
int mare_sim_options_refuse(const mare_sim_options *options, char *why, size_t room)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < options->setup.capacity; i++) {
        mare_coord_setup setup = setup_of(options, i, i >= options->setup.members); /* joined */
        uint32_t effects, message_bytes;
        size_t size = mare_coord_size(&setup);
        mare_coord_room(&setup, &effects, &message_bytes);
        if (size == 0 || effects == 0) {
            snprintf(
                why, room,
                "%s cannot be process %" PRIu32 " of %" PRIu32
                ": a step of it may make 4 GB of messages or more, or its settings make no sense",
                setup.algorithm->name, i, setup.capacity);
            return 1;
        }
        bytes += size;
        if (bytes > MEMORY_MOST) {
            snprintf(why, room, "%s with %" PRIu32 " processes takes more than %u GiB",
                     setup.algorithm->name, setup.capacity, (unsigned)(MEMORY_MOST >> 30));
            return 1;
        }
    }
    return mare_sim_faults_refuse(&options->faults, options->setup.members, options->setup.capacity,
                                  options->duration_us, why, room);
}

static void make_machine(mare_sim *sim, uint32_t who)
{
    process *p = &sim->process[who];
    mare_coord_setup setup = setup_of(sim->options, who, p->incarnation);
    size_t size = mare_coord_size(&setup);
    if (!p->machine)
        p->machine = mare_sim_realloc(NULL, size);
    mare_coord_init(p->machine, size, &setup);
    for (uint32_t i = 0; p->vector && i < sim->capacity; i++)
        p->vector[i] = i == who ? p->vector[i] : 0; /* what it knew is lost with its memory */
}

/* Starts a machine. A new one learns who is in the group first. One that has its memory is first
 * told that it was away, and then what it has missed. */
static void start(mare_sim *sim, uint32_t who, int with_memory)
{
    process *p = &sim->process[who];
    p->presence = UP;
    memset(p->told_down, 0, (sim->capacity + 63) / 64 * sizeof *p->told_down);
    if (!with_memory)
        catch_up(sim, who);
    mare__sim_step(sim, who, (mare_coord_event){.kind = MARE_COORD_START}, NULL);
    if (with_memory)
        catch_up(sim, who);
    if (p->life > 0 || p->incarnation > 0)
        plan_looks(sim, who);
}

/* Ends a life: its planned events will not happen. */
static void end_life(process *p, presence then)
{
    p->presence = then;
    p->life++;
    p->news = 0;
    for (uint32_t i = 0; i < MARE_COORD_TIMERS; i++)
        p->timer_serial[i]++;
}

static void crash(mare_sim *sim, uint32_t who)
{
    process *p = &sim->process[who];
    if (p->presence < UP)
        return;
    end_life(p, DOWN);
    mare__sim_see_plain(sim, MARE_SIM_CRASHED, who, 0);
    for (uint32_t i = 0; i < sim->capacity; i++)
        plan_look(sim, i, who);
}

/* With memory: the same machine goes on; or, if the algorithm SAVEs, a new one that loads what was
 * saved. */
static void restart(mare_sim *sim, uint32_t who, int with_memory)
{
    process *p = &sim->process[who];
    int loads = with_memory && p->saved_length;
    if (p->presence != DOWN)
        return;
    if (!with_memory || loads) {
        p->incarnation++;
        make_machine(sim, who);
    }
    if (loads) {
        mare_coord_status status = mare_coord_load(p->machine, p->saved, p->saved_length);
        assert(status == MARE_COORD_OK);
        (void)status;
    }
    mare__sim_see_plain(sim, MARE_SIM_RESTARTED, who, (uint64_t)(with_memory && !loads));
    start(sim, who, with_memory);
}

static void join(mare_sim *sim, uint32_t who)
{
    process *p = &sim->process[who];
    if (p->presence != AWAY)
        return;
    p->incarnation++;
    make_machine(sim, who);
    tell_all(sim, MARE_COORD_JOIN, who);
    mare__sim_see_plain(sim, MARE_SIM_JOINED, who, 0);
    start(sim, who, 0);
}

static void leave(mare_sim *sim, uint32_t who)
{
    process *p = &sim->process[who];
    if (p->presence < UP)
        return;
    mare__sim_step(sim, who, (mare_coord_event){.kind = MARE_COORD_LEAVE, .peer = who}, NULL);
    end_life(p, AWAY);
    mare__sim_see_plain(sim, MARE_SIM_DEPARTED, who, 0);
    tell_all(sim, MARE_COORD_LEAVE, who);
}

/* Faults ------------------------------------------------------------------------------------- */

static void cut(mare_sim *sim, uint32_t index, int on)
{
    sim->cuts += on ? 1u : UINT32_MAX;
    mare__sim_see_plain(sim, on ? MARE_SIM_CUT : MARE_SIM_HEALED, MARE_COORD_NOBODY, index);
    for (uint32_t i = 0; sim->options->detector >= MARE_SIM_EAGER && i < sim->capacity; i++) {
        for (uint32_t j = 0; j < sim->capacity; j++)
            plan_look(sim, i, j);
    }
}

static void pause(mare_sim *sim, uint32_t who, uint64_t for_us)
{
    process *p = &sim->process[who];
    if (p->presence != UP || for_us == 0)
        return;
    p->presence = PAUSED;
    p->resume_us = sim->now_us + for_us;
    mare__sim_see_plain(sim, MARE_SIM_PAUSED, who, 0);
    if (sim->options->detector == MARE_SIM_HASTY)
        plan_looks(sim, who);
}

static void resume(mare_sim *sim, uint32_t who)
{
    process *p = &sim->process[who];
    if (p->presence != PAUSED)
        return;
    p->presence = UP;
    mare__sim_see_plain(sim, MARE_SIM_RESUMED, who, 0);
    if (sim->options->detector == MARE_SIM_HASTY)
        plan_looks(sim, who);
}

void mare__sim_begin_fault(mare_sim *sim, uint32_t index)
{
    const mare_sim_fault *fault = &sim->options->faults.fault[index];
    int names_process = fault->kind != MARE_SIM_BURST;
    if (sim->settling || (names_process && fault->process >= sim->capacity))
        return;
    sim->fault_active[index] = 1;
    switch (fault->kind) {
    case MARE_SIM_CRASH:
    case MARE_SIM_AMNESIA:
        crash(sim, fault->process);
        break;
    case MARE_SIM_PAUSE:
        pause(sim, fault->process, fault->for_us);
        break;
    case MARE_SIM_LEAVE:
        leave(sim, fault->process);
        break;
    case MARE_SIM_JOIN:
        join(sim, fault->process);
        break;
    case MARE_SIM_BURST:
        sim->burst_percent = fault->process;
        break;
    default:
        cut(sim, index, 1);
    }
    mare_sim_due due = {.time_us = sim->now_us + fault->for_us, .kind = DUE_MEND, .index = index};
    if (fault->for_us)
        mare_sim_heap_push(&sim->heap, due);
}

void mare__sim_end_fault(mare_sim *sim, uint32_t index)
{
    const mare_sim_fault *fault = &sim->options->faults.fault[index];
    if (!sim->fault_active[index])
        return;
    sim->fault_active[index] = 0;
    switch (fault->kind) {
    case MARE_SIM_CRASH:
    case MARE_SIM_AMNESIA:
        restart(sim, fault->process, fault->kind == MARE_SIM_CRASH);
        break;
    case MARE_SIM_PAUSE:
        resume(sim, fault->process);
        break;
    case MARE_SIM_LEAVE:
        join(sim, fault->process);
        break;
    case MARE_SIM_JOIN:
        leave(sim, fault->process);
        break;
    case MARE_SIM_BURST:
        sim->burst_percent = 0;
        break;
    default:
        cut(sim, index, 0);
    }
}

void mare__sim_mend_all(mare_sim *sim)
{
    for (uint32_t i = 0; i < sim->options->faults.count; i++) {
        int joined = sim->options->faults.fault[i].kind == MARE_SIM_JOIN;
        if (sim->options->faults.fault[i].for_us && !joined)
            mare__sim_end_fault(sim, i);
    }
}

void mare__sim_populate(mare_sim *sim)
{
    const mare_sim_options *options = sim->options;
    uint32_t drift = options->drift_ppm;
    for (uint32_t i = 0; i < sim->capacity; i++) {
        process *p = &sim->process[i];
        p->told_down = calloc((sim->capacity + 63) / 64, sizeof *p->told_down);
        p->vector = options->no_vectors ? NULL : calloc(sim->capacity, sizeof *p->vector);
        if (drift)
            p->drift_ppm = (int32_t)mare_sim_below(&sim->life_random, 2 * (uint64_t)drift + 1) -
                           (int32_t)drift;
        mare_sim_random offset = mare_sim_stream(options->seed, 3000000 + i);
        p->offset_us = mare_sim_below(&offset, options->offset_us + 1);
        if (i < options->setup.members) {
            make_machine(sim, i);
            p->presence = UP;
        }
    }
    for (uint32_t i = 0; i < options->setup.members; i++)
        start(sim, i, 0);
}

void mare__sim_depopulate(mare_sim *sim)
{
    for (uint32_t i = 0; i < sim->capacity; i++) {
        free(sim->process[i].machine);
        free(sim->process[i].vector);
        free(sim->process[i].told_down);
        free(sim->process[i].saved);
    }
    free(sim->process);
}
