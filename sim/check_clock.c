/* SPDX-License-Identifier: MIT */

/* The checker of logical clocks: if a happened before b then C(a) < C(b).
 *
 * Happened-before is made of two kinds of steps: from one event of a process to its next, and from
 * the sending of a message to its arrival. A relation that every such step respects is respected by
 * every chain of them, so it is enough to check each step once: a clock never falls as long as the
 * process has its memory, crash or not; a message says a time that its sender's clock went through
 * in the step that sent it; after the arrival the receiver's clock is past that time.
 *
 * Algorithms that keep a Lamport clock show it in their view and call the field of their messages
 * that carries it "clock".
 *
 * A vector clock that an algorithm shows is counted again from what the application was told: VC[k]
 * at a process is how many messages of k were delivered to it. The effects of a step are seen after
 * the step, so the clock that it left is compared when the process is stepped next. */

#include "sim/check.h"

#include <inttypes.h>
#include <string.h>

typedef struct clock {
    uint64_t before, after; /* the last step */
    int remembers;          /* it is about to start with the memory of an earlier life */
} clock;

/* State: a clock each, then for each process what its vector should be and what it was. */
static size_t size(const mare_sim_options *options)
{
    size_t n = options->setup.capacity;
    return n * sizeof(clock) + (options->no_vectors ? 0 : 2 * n * n * sizeof(uint64_t));
}

/* The time that a message carries, or 0. */
static uint64_t time_in(const mare_sim_observation *seen, const mare_coord_algorithm *algorithm)
{
    mare_coord_message message;
    if (mare_coord_decode(algorithm, seen->data, seen->length, &message) != MARE_COORD_OK)
        return 0;
    const mare_coord_form *form = &algorithm->forms[message.kind];
    for (int i = 0; i < MARE_COORD_FIELDS && form->field[i]; i++) {
        if (strcmp(form->field[i], "clock") == 0)
            return message.field[i];
    }
    return 0;
}

static void see_sending(const clock *sender, mare_sim *sim, const mare_sim_observation *seen)
{
    uint64_t time = time_in(seen, mare_sim_options_of(sim)->setup.algorithm);
    if (time && (time <= sender->before || time > sender->after))
        mare_sim_violate(sim, "CLOCK",
                         "message %" PRIu64 " says %" PRIu64 ", but the clock of p%" PRIu32
                         " went from %" PRIu64 " to %" PRIu64,
                         seen->message, time, seen->process, sender->before, sender->after);
}

static void see_step(clock *own, mare_sim *sim, const mare_sim_observation *seen, uint64_t now)
{
    int born = seen->event->kind == MARE_COORD_START && !own->remembers;
    own->remembers = 0;
    if (!born && now < own->after)
        mare_sim_violate(sim, "CLOCK",
                         "the clock of p%" PRIu32 " fell from %" PRIu64 " to %" PRIu64,
                         seen->process, own->after, now);
    if (seen->event->kind == MARE_COORD_MESSAGE && seen->status == MARE_COORD_OK) {
        uint64_t left = time_in(seen, mare_sim_options_of(sim)->setup.algorithm);
        if (left >= now)
            mare_sim_violate(sim, "CLOCK",
                             "message %" PRIu64 " left p%" PRIu32 " at %" PRIu64
                             " and arrived at %" PRIu64,
                             seen->message, seen->peer, left, now);
    }
    own->before = born ? 0 : own->after;
    own->after = now;
}

static void see_vector(clock *all, mare_sim *sim, const mare_sim_observation *seen,
                       const uint64_t *now)
{
    uint32_t n = mare_sim_options_of(sim)->setup.capacity;
    uint64_t *should = (uint64_t *)(all + n) + (size_t)2 * n * seen->process, *was = should + n;
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

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    clock *all = state;
    mare_coord_view view;
    int delivery = seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_DELIVER;
    if (seen->sight == MARE_SIM_RESTARTED)
        all[seen->process].remembers = seen->number == 1;
    if (seen->sight != MARE_SIM_STEPPED && seen->sight != MARE_SIM_SENT && !delivery)
        return;
    mare_coord_look(seen->machine, &view);
    if (view.vector && seen->sight != MARE_SIM_SENT && !mare_sim_options_of(sim)->no_vectors)
        see_vector(all, sim, seen, view.vector);
    if (delivery)
        return;
    if (view.lamport && seen->sight == MARE_SIM_SENT)
        see_sending(&all[seen->process], sim, seen);
    else if (view.lamport)
        see_step(&all[seen->process], sim, seen, view.lamport);
}

const mare_sim_checker mare_sim_check_clock = {
    .name = "clock",
    .size = size,
    .see = see,
};
