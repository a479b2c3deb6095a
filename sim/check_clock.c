/* SPDX-License-Identifier: MIT */

/* The checker of logical clocks: if a happened before b then C(a) < C(b).
 *
 * Happened-before is made of two kinds of steps: from one event of a process to its next, and from
 * the sending of a message to its arrival. If every such step keeps the order of clocks, so does
 * every chain of steps. So it is enough to check each step once. A clock never goes back while the
 * process has its memory, crash or not. The time in a message is one that its sender's clock had
 * during the step that sent it. After the arrival the receiver's clock is past that time.
 *
 * Algorithms that keep a Lamport clock show it in their view and call the field of their messages
 * that carries it "clock". A time of 0 means none: it says that nothing has happened yet, but at
 * least the sending has.
 *
 * The checker counts vector clocks itself, from what the application was told: VC[k] at a process
 * is the number of k's messages that were delivered to it, in the present view if there are views.
 * The effects of a step are seen after the step, so the clock that it left is compared when the
 * process is stepped next. */

#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

typedef struct clock {
    uint64_t before, after; /* the last step */
} clock;

/* The state: this, then a clock for each process, then for each what its vector should be and what
 * it was. */
typedef struct clocks {
    uint64_t has_times; /* messages carry Lamport's */
    clock each[];
} clocks;

static size_t size(const mare_sim_options *options)
{
    size_t n = options->setup.capacity;
    return sizeof(clocks) + n * sizeof(clock) +
           (options->no_vectors ? 0 : 2 * n * n * sizeof(uint64_t));
}

/* Which field of a message is the time, or -1. */
static int time_field(const mare_coord_form *form)
{
    for (int i = 0; i < MARE_COORD_FIELDS && form->field[i]; i++) {
        if (strcmp(form->field[i], "clock") == 0)
            return i;
    }
    return -1;
}

static void begin(void *state, mare_sim *sim)
{
    clocks *all = state;
    for (const mare_coord_form *form = mare_sim_options_of(sim)->setup.algorithm->forms; form->name;
         form++)
        all->has_times |= time_field(form) >= 0;
}

/* Whether a message carries a time, and which one. */
static int find_time(const mare_sim_observation *seen, const mare_coord_algorithm *algorithm,
                     uint64_t *time)
{
    mare_coord_message message;
    if (mare_coord_decode(algorithm, seen->data, seen->length, &message) != MARE_COORD_OK)
        return 0;
    int field = time_field(&algorithm->forms[message.kind]);
    if (field >= 0)
        *time = message.field[field];
    return field >= 0;
}

static void see_sending(const clock *sender, mare_sim *sim, const mare_sim_observation *seen)
{
    uint64_t time;
    if (find_time(seen, mare_sim_options_of(sim)->setup.algorithm, &time) &&
        (time <= sender->before || time > sender->after))
        mare_sim_violate(sim, "CLOCK",
                         "message %" PRIu64 " says %" PRIu64 ", but the clock of p%" PRIu32
                         " went from %" PRIu64 " to %" PRIu64,
                         seen->message, time, seen->process, sender->before, sender->after);
}

static void see_step(clock *own, mare_sim *sim, const mare_sim_observation *seen, uint64_t now)
{
    if (now < own->after)
        mare_sim_violate(sim, "CLOCK",
                         "the clock of p%" PRIu32 " fell from %" PRIu64 " to %" PRIu64,
                         seen->process, own->after, now);
    if (seen->event->kind == MARE_COORD_MESSAGE && seen->status == MARE_COORD_OK) {
        uint64_t left;
        if (find_time(seen, mare_sim_options_of(sim)->setup.algorithm, &left) && left >= now)
            mare_sim_violate(sim, "CLOCK",
                             "message %" PRIu64 " left p%" PRIu32 " at %" PRIu64
                             " and arrived at %" PRIu64,
                             seen->message, seen->peer, left, now);
    }
    own->before = own->after;
    own->after = now;
}

/* Of a process, n numbers: what its vector should be; then n more, what it was. */
static uint64_t *vectors_of(clocks *all, const mare_sim_options *options, uint32_t process)
{
    size_t n = options->setup.capacity;
    return (uint64_t *)(all->each + n) + 2 * n * process;
}

static void see_vector(clocks *all, mare_sim *sim, const mare_sim_observation *seen,
                       const uint64_t *now)
{
    uint32_t n = mare_sim_options_of(sim)->setup.capacity;
    uint64_t *should = vectors_of(all, mare_sim_options_of(sim), seen->process), *was = should + n;
    if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_VIEW) {
        memset(should, 0, n * sizeof *should);
        return;
    }
    if (seen->sight == MARE_SIM_EFFECT) {
        should[seen->effect->peer]++;
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (seen->event->kind == MARE_COORD_START)
            should[k] = now[k];
        else if (should[k] != was[k])
            mare_sim_violate(sim, "CLOCK",
                             "the vector of p%" PRIu32 " counts %" PRIu64 " of p%" PRIu32
                             ", but it delivered %" PRIu64,
                             seen->process, was[k], k, should[k]);
        was[k] = now[k];
    }
}

/* A new machine knows no time. It may be told of the group before it starts. */
static void see_birth(clocks *all, const mare_sim_options *options, uint32_t process)
{
    all->each[process] = (clock){0};
    if (!options->no_vectors)
        memset(vectors_of(all, options, process), 0,
               2 * options->setup.capacity * sizeof(uint64_t));
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    clocks *all = state;
    mare_coord_view view;
    int news = seen->sight == MARE_SIM_EFFECT &&
               (seen->effect->kind == MARE_COORD_DELIVER || seen->effect->kind == MARE_COORD_VIEW);
    if (seen->sight == MARE_SIM_JOINED || (seen->sight == MARE_SIM_RESTARTED && !seen->number))
        see_birth(all, mare_sim_options_of(sim), seen->process);
    if (seen->sight != MARE_SIM_STEPPED && seen->sight != MARE_SIM_SENT && !news)
        return;
    mare_coord_look(seen->machine, &view);
    if (view.vector && seen->sight != MARE_SIM_SENT && !mare_sim_options_of(sim)->no_vectors)
        see_vector(all, sim, seen, view.vector);
    if (news || !all->has_times)
        return;
    if (seen->sight == MARE_SIM_SENT)
        see_sending(&all->each[seen->process], sim, seen);
    else
        see_step(&all->each[seen->process], sim, seen, view.lamport);
}

const mare_sim_checker mare_sim_check_clock = {
    .name = "clock",
    .size = size,
    .begin = begin,
    .see = see,
};
