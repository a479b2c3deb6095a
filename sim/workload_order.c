/* SPDX-License-Identifier: MIT */

/* The workload of ordered multicast: each process thinks, multicasts, thinks …
 *
 * What it multicasts is unlike anything else in the run: process, count, then some bytes of noise.
 * In the second phase every process that is up multicasts again and again until each of them has
 * delivered something of each of them from that phase. A quiet one (sim.h) says nothing there, and
 * has to deliver all the same.
 *
 * Then everybody falls silent, and whatever was multicast (with views: in the last one, which must
 * be the same for all) has to be delivered everywhere: what is lost now is not made up for by what
 * is said next. If either does not come about in time, AGREEMENT is broken. */

#include "sim/workload.h"

#include <inttypes.h>
#include <string.h>

#define NOISE_MAX 24u
#define HEAD_BYTES 13u
#define POLL_US 20000u
#define POLL UINT32_MAX /* the number of a wake that only looks */

typedef struct member {
    uint32_t turn; /* tells whether a planned wake still counts */
    uint32_t done;
    uint32_t sent; /* in this view, or at all */
    uint64_t view; /* 0: none */
} member;

typedef struct order {
    member *member;
    uint32_t *has; /* [receiver][sender]: deliveries in this view, or at all */
    uint8_t *got;  /* [receiver][sender]: has delivered something of the second phase */
    int hushed;    /* everybody has fallen silent */
} order;

static size_t size(const mare_sim_options *options)
{
    size_t n = options->setup.capacity;
    return sizeof(order) + n * sizeof(member) + n * n * (sizeof(uint32_t) + 1);
}

static int speaks(const mare_sim *sim, uint32_t process)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    return (!options->entrants || process < options->entrants) &&
           !mare_sim_is_quiet(options, process, mare_sim_now(sim));
}

static void think(order *o, mare_sim *sim, uint32_t process)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    member *who = &o->member[process];
    uint64_t mean_us = options->think_us + options->setup.members * UINT64_C(2000);
    if (!speaks(sim, process) || o->hushed ||
        (options->rounds && who->done >= options->rounds && !mare_sim_settling(sim)))
        return;
    if (mare_sim_settling(sim))
        mean_us = 20000;
    mare_sim_wake(sim, process, mare_sim_exponential(mare_sim_workload_random(sim), mean_us),
                  ++who->turn);
}

static void begin(void *state, mare_sim *sim)
{
    order *o = state;
    uint32_t n = mare_sim_options_of(sim)->setup.capacity;
    o->member = (member *)(o + 1);
    o->has = (uint32_t *)(o->member + n);
    o->got = (uint8_t *)(o->has + (size_t)n * n);
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.members; i++)
        think(o, sim, i);
}

static void put(uint8_t *out, uint64_t number, uint32_t bytes)
{
    for (uint32_t b = 0; b < bytes; b++)
        out[b] = (uint8_t)(number >> (8 * b));
}

static void multicast(order *o, mare_sim *sim, uint32_t process)
{
    uint8_t data[HEAD_BYTES + NOISE_MAX];
    mare_sim_random *random = mare_sim_workload_random(sim);
    uint32_t noise = (uint32_t)mare_sim_below(random, NOISE_MAX + 1);
    put(data, process, 4);
    put(data + 4, o->member[process].done + 1, 8);
    data[12] = (uint8_t)mare_sim_settling(sim);
    for (uint32_t i = 0; i < noise; i++)
        data[HEAD_BYTES + i] = (uint8_t)mare_sim_draw(random);
    o->member[process].sent++; /* before the request: it may be delivered at once, and must be
                                * counted by then */
    if (mare_sim_request(sim, process, MARE_COORD_MULTICAST, 0, data, HEAD_BYTES + noise) ==
        MARE_COORD_OK)
        o->member[process].done++;
    else
        o->member[process].sent--;
}

static void wake(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    order *o = state;
    if (number == POLL)
        mare_sim_wake(sim, process, POLL_US, POLL);
    if (number != o->member[process].turn || !speaks(sim, process) || o->hushed)
        return;
    multicast(o, sim, process);
    think(o, sim, process);
}

/* A process that enters a view, or is outside, counts anew. */
static void begin_view(order *o, uint32_t process, uint64_t view, uint32_t n)
{
    o->member[process].view = view;
    o->member[process].sent = 0;
    memset(o->has + (size_t)process * n, 0, n * sizeof *o->has);
}

static void see_effect(order *o, uint32_t n, const mare_sim_observation *seen)
{
    const mare_coord_effect *effect = seen->effect;
    size_t pair = (size_t)seen->process * n + effect->peer;
    if (effect->kind == MARE_COORD_VIEW || effect->kind == MARE_COORD_OUTSIDE) {
        begin_view(o, seen->process, effect->number, n);
    } else if (effect->kind == MARE_COORD_DELIVER) {
        o->has[pair]++;
        if (effect->length >= HEAD_BYTES && effect->data[12])
            o->got[pair] = 1;
    }
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    order *o = state;
    uint32_t n = mare_sim_options_of(sim)->setup.capacity;
    if (!o->member || seen->process == MARE_COORD_NOBODY)
        return; /* the founders start before the workload begins */
    if (seen->sight == MARE_SIM_EFFECT)
        see_effect(o, n, seen);
    if (seen->sight == MARE_SIM_RESTARTED || seen->sight == MARE_SIM_JOINED)
        think(o, sim, seen->process);
}

static void settle(void *state, mare_sim *sim)
{
    order *o = state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (mare_sim_is_up(sim, i))
            think(o, sim, i);
    }
}

/* The first pair of which one has delivered nothing of the other; returns 0 when there is none. */
static int find_missing(const order *o, const mare_sim *sim, uint32_t *receiver, uint32_t *sender)
{
    const mare_sim_options *options = mare_sim_options_of(sim);
    uint32_t n = options->setup.capacity;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n && mare_sim_is_up(sim, i); j++) {
            int sends = mare_sim_is_up(sim, j) && speaks(sim, j);
            if (sends && !o->got[i * n + j]) {
                *receiver = i;
                *sender = j;
                return 1;
            }
        }
    }
    return 0;
}

/* The first pair of which one has not delivered all of the other, or is in another view; returns 0
 * when there is none. */
static int find_behind(const order *o, const mare_sim *sim, uint32_t *receiver, uint32_t *sender)
{
    uint32_t n = mare_sim_options_of(sim)->setup.capacity;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n && mare_sim_is_up(sim, i); j++) {
            int behind = o->has[(size_t)i * n + j] != o->member[j].sent ||
                         o->member[i].view != o->member[j].view;
            if (mare_sim_is_up(sim, j) && behind) {
                *receiver = i;
                *sender = j;
                return 1;
            }
        }
    }
    return 0;
}

static void hush(order *o, mare_sim *sim)
{
    uint32_t first = 0;
    while (first < mare_sim_options_of(sim)->setup.capacity && !mare_sim_is_up(sim, first))
        first++;
    o->hushed = 1;
    if (first < mare_sim_options_of(sim)->setup.capacity)
        mare_sim_wake(sim, first, POLL_US, POLL);
}

static int settled(void *state, mare_sim *sim)
{
    order *o = state;
    uint32_t receiver, sender;
    if (!o->hushed && !find_missing(o, sim, &receiver, &sender))
        hush(o, sim);
    return o->hushed && !find_behind(o, sim, &receiver, &sender);
}

static void overdue(void *state, mare_sim *sim)
{
    const order *o = state;
    uint32_t receiver, sender;
    if (find_missing(o, sim, &receiver, &sender))
        mare_sim_violate(sim, "AGREEMENT", "p%" PRIu32 " delivers nothing of p%" PRIu32 " any more",
                         receiver, sender);
    else if (find_behind(o, sim, &receiver, &sender))
        mare_sim_violate(sim, "AGREEMENT",
                         "p%" PRIu32 " does not deliver all of p%" PRIu32
                         ", and nobody says anything more",
                         receiver, sender);
}

const mare_sim_workload mare_sim_workload_order = {
    .name = "order",
    .family = MARE_COORD_ORDER,
    .size = size,
    .begin = begin,
    .see = see,
    .wake = wake,
    .settle = settle,
    .settled = settled,
    .overdue = overdue,
};
