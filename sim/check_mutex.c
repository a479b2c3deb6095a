/* SPDX-License-Identifier: MIT */

/* The checker of mutual exclusion. It knows what the applications are told. For EM3 it also looks
 * at what a machine shows of itself: since when it has been asking the others
 * (mare_coord_view.asked).
 *
 *   EM1      nobody is told GRANTED while another process is inside. A process is inside from
 *            GRANTED to its EXIT, or until it is told REVOKED, crashes or leaves. A paused process
 *            stays inside. Under a lease it stays only until the lease is over by its own clock,
 *            because it looks at the clock before it does anything.
 *   EM3      when a request is granted, no pending request happened before it. The simulator works
 *            out happened-before from the messages that really travelled.
 *   FENCING  each grant has a larger number than all grants before it, whoever got them. */

#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

typedef struct member {
    int inside, waiting, asked;
    uint32_t moment;  /* its own count when it asked */
    uint32_t *vector; /* all counts when it asked */
} member;

typedef struct mutex {
    unsigned promises;
    uint32_t inside; /* how many are inside */
    uint64_t fence;
    member member[];
} mutex;

static size_t size(const mare_sim_options *options)
{
    size_t n = options->setup.capacity;
    size_t vectors = options->no_vectors ? 0 : n * n * sizeof(uint32_t);
    return sizeof(mutex) + n * sizeof(member) + vectors;
}

static void begin(void *state, mare_sim *sim)
{
    mutex *x = state;
    const mare_coord_setup *setup = &mare_sim_options_of(sim)->setup;
    uint32_t *vectors = (uint32_t *)&x->member[setup->capacity];
    x->promises = setup->algorithm->promises(setup);
    for (uint32_t i = 0; i < setup->capacity && !mare_sim_options_of(sim)->no_vectors; i++)
        x->member[i].vector = vectors + (size_t)i * setup->capacity;
}

static void leave(mutex *x, uint32_t process)
{
    x->inside -= (uint32_t)x->member[process].inside;
    x->member[process].inside = x->member[process].waiting = 0;
}

/* The order of requests counts from the time when the others are asked. */
static void note_asked(mutex *x, mare_sim *sim, const mare_sim_observation *seen)
{
    member *who = &x->member[seen->process];
    mare_coord_view view;
    mare_coord_look(seen->machine, &view);
    if (!seen->vector || !(view.asked || view.inside))
        return;
    who->asked = 1;
    who->moment = seen->vector[seen->process];
    memcpy(who->vector, seen->vector,
           mare_sim_options_of(sim)->setup.capacity * sizeof *seen->vector);
}

static void check_order(mutex *x, mare_sim *sim, uint32_t process)
{
    const member *who = &x->member[process];
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        const member *other = &x->member[i];
        if (i != process && other->waiting && other->asked && who->vector[i] >= other->moment)
            mare_sim_violate(sim, "EM3",
                             "p%" PRIu32 " is granted, though p%" PRIu32 " asked before it",
                             process, i);
    }
}

/* Whether a process that was granted may still act: its lease may have run out before it could say
 * so. */
static int may_act(const mare_sim *sim, uint32_t process)
{
    mare_coord_view view;
    mare_coord_look(mare_sim_machine(sim, process), &view);
    return !view.until_us || mare_sim_local(sim, process) < view.until_us;
}

static void check_grant(mutex *x, mare_sim *sim, uint32_t process, uint64_t fence)
{
    member *who = &x->member[process];
    for (uint32_t i = 0; x->inside && i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (i != process && x->member[i].inside && x->promises & MARE_COORD_EM1 && may_act(sim, i))
            mare_sim_violate(sim, "EM1", "p%" PRIu32 " is granted while p%" PRIu32 " is inside",
                             process, i);
    }
    if (fence <= x->fence && x->promises & MARE_COORD_FENCING)
        mare_sim_violate(sim, "FENCING", "p%" PRIu32 " is granted %" PRIu64 " after %" PRIu64,
                         process, fence, x->fence);
    if (who->asked && x->promises & MARE_COORD_EM3)
        check_order(x, sim, process);
    x->fence = fence > x->fence ? fence : x->fence;
    x->inside += (uint32_t)!who->inside;
    who->inside = 1;
    who->waiting = who->asked = 0;
}

static void see_step(mutex *x, mare_sim *sim, const mare_sim_observation *seen)
{
    member *who = &x->member[seen->process];
    if (seen->event->kind == MARE_COORD_EXIT && seen->status == MARE_COORD_OK) {
        leave(x, seen->process);
    } else if (seen->event->kind == MARE_COORD_ENTER && seen->status == MARE_COORD_OK) {
        who->waiting = 1;
        who->asked = 0;
    }
    if (who->waiting && !who->asked)
        note_asked(x, sim, seen);
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    mutex *x = state;
    switch (seen->sight) {
    case MARE_SIM_STEPPED:
        see_step(x, sim, seen);
        break;
    case MARE_SIM_EFFECT:
        if (seen->effect->kind == MARE_COORD_GRANTED)
            check_grant(x, sim, seen->process, seen->effect->number);
        else if (seen->effect->kind == MARE_COORD_REVOKED)
            leave(x, seen->process);
        break;
    case MARE_SIM_CRASHED:
    case MARE_SIM_DEPARTED:
        leave(x, seen->process);
        break;
    default:
        break;
    }
}

const mare_sim_checker mare_sim_check_mutex = {
    .name = "mutex",
    .promises = MARE_COORD_EM1 | MARE_COORD_EM3 | MARE_COORD_FENCING,
    .size = size,
    .begin = begin,
    .see = see,
};
