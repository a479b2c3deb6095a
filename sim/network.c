/* SPDX-License-Identifier: MIT */

/* The network: what happens to a message between its sending and its arrival.
 *
 *     sent ──▶ cut? ──▶ lost? ──▶ delay (and a second copy) ──▶ arrival, if somebody is there
 *
 * Messages live in slots that are used again, together with their buffers, so that a long run
 * allocates nothing. A partition stops what is sent while it lasts; what is under way arrives. */

#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#define FIFO_BY_PAIR_MAX 512u /* larger groups keep order by sender: stricter, and smaller */

static uint32_t take_slot(mare_sim *sim)
{
    uint32_t slot = sim->free_message;
    if (slot != UINT32_MAX) {
        sim->free_message = sim->message[slot].next_free;
        return slot;
    }
    if ((sim->messages & (sim->messages - 1)) == 0) {
        size_t room = sim->messages ? (size_t)sim->messages * 2 : 1;
        sim->message = mare_sim_realloc(sim->message, room * sizeof *sim->message);
    }
    message *fresh = &sim->message[sim->messages];
    *fresh = (message){0};
    sim->message_bytes += sizeof *fresh;
    if (!sim->options->no_vectors) {
        sim->message_bytes += sim->capacity * sizeof *fresh->vector;
        fresh->vector = mare_sim_realloc(NULL, sim->capacity * sizeof *fresh->vector);
    }
    return sim->messages++;
}

void mare__sim_message_free(mare_sim *sim, uint32_t slot)
{
    sim->message[slot].next_free = sim->free_message;
    sim->free_message = slot;
}

static uint64_t draw_delay(mare_sim *sim)
{
    const mare_sim_network *net = &sim->options->network;
    mare_sim_random *random = &sim->network_random;
    switch (net->delay) {
    case MARE_SIM_UNIFORM:
        return mare_sim_below(random, 2 * net->delay_us + 1);
    case MARE_SIM_EXPONENTIAL:
        return mare_sim_exponential(random, net->delay_us);
    case MARE_SIM_SPIKY: {
        uint64_t delay_us = mare_sim_below(random, 2 * net->delay_us + 1);
        return mare_sim_below(random, 32) ? delay_us : 20 * delay_us;
    }
    default:
        return net->delay_us;
    }
}

static uint64_t arrival_time(mare_sim *sim, uint32_t from, uint32_t to, uint64_t delay_us)
{
    if (sim->options->network.bus) {
        uint64_t start_us = sim->bus_free_us > sim->now_us ? sim->bus_free_us : sim->now_us;
        return sim->bus_free_us = start_us + delay_us;
    }
    uint64_t at_us = sim->now_us + delay_us;
    if (sim->options->network.fifo) {
        int by_pair = sim->capacity <= FIFO_BY_PAIR_MAX;
        size_t size = by_pair ? (size_t)sim->capacity * sim->capacity : sim->capacity;
        size_t place = by_pair ? (size_t)from * sim->capacity + to : from;
        if (!sim->last_arrival) {
            sim->last_arrival = mare_sim_realloc(NULL, size * sizeof *sim->last_arrival);
            memset(sim->last_arrival, 0, size * sizeof *sim->last_arrival);
        }
        uint64_t *last = &sim->last_arrival[place];
        at_us = *last = at_us > *last ? at_us : *last;
    }
    return at_us;
}

static int is_cut(const mare_sim *sim, uint32_t from, uint32_t to)
{
    const mare_sim_fault_list *faults = &sim->options->faults;
    for (uint32_t i = 0; sim->cuts && i < faults->count; i++) {
        const mare_sim_fault *fault = &faults->fault[i];
        if (sim->fault_active[i] && mare_sim_fault_stops(fault, from, to) &&
            (fault->kind == MARE_SIM_PARTITION || fault->kind == MARE_SIM_ONE_WAY))
            return 1;
    }
    return 0;
}

/* How the message is lost, or NULL. */
static const char *fate(mare_sim *sim, uint32_t from, uint32_t to, const uint8_t *data,
                        uint32_t length, uint64_t *delay_us)
{
    const mare_sim_hooks *hooks = &sim->options->hooks;
    if (hooks->route &&
        !hooks->route(hooks->context, sim->now_us, from, to, data, length, delay_us))
        return "no way";
    if (is_cut(sim, from, to))
        return "cut";
    if (sim->settling)
        return NULL;
    if (mare_sim_chance(&sim->network_random, sim->options->network.loss_ppm) ||
        mare_sim_chance(&sim->network_random, sim->burst_percent * 10000))
        return "loss";
    return NULL;
}

void mare__sim_lose(mare_sim *sim, const message *lost, const char *how)
{
    sim->outcome->lost++;
    mare_sim_observation seen = {.sight = MARE_SIM_LOST,
                                 .process = lost->to,
                                 .peer = lost->from,
                                 .message = lost->number,
                                 .data = lost->data,
                                 .length = lost->length,
                                 .text = how};
    mare__sim_see(sim, &seen);
}

static uint32_t make_copy(mare_sim *sim, uint32_t from, uint32_t to, const uint8_t *data,
                          uint32_t length)
{
    uint32_t slot = take_slot(sim);
    message *copy = &sim->message[slot];
    if (copy->room < length) {
        sim->message_bytes -= copy->room;
        copy->room = length < 64 ? 64 : length * 2;
        sim->message_bytes += copy->room;
        copy->data = mare_sim_realloc(copy->data, copy->room);
    }
    copy->from = from;
    copy->to = to;
    copy->length = length;
    copy->number = sim->message_number;
    if (length > 0)
        memcpy(copy->data, data, length);
    if (copy->vector)
        memcpy(copy->vector, sim->process[from].vector, sim->capacity * sizeof *copy->vector);
    return slot;
}

static void post(mare_sim *sim, uint32_t slot, uint64_t delay_us)
{
    mare_sim_due due = {.kind = DUE_MESSAGE, .process = sim->message[slot].to, .index = slot};
    due.time_us = arrival_time(sim, sim->message[slot].from, sim->message[slot].to, delay_us);
    mare_sim_heap_push(&sim->heap, due);
}

void mare__sim_send(mare_sim *sim, uint32_t from, uint32_t to, const uint8_t *data, uint32_t length)
{
    sim->message_number++;
    sim->outcome->sent++;
    if (length > 1)
        sim->outcome->by_kind[data[1]]++;
    mare_sim_observation seen = {.sight = MARE_SIM_SENT,
                                 .process = from,
                                 .peer = to,
                                 .message = sim->message_number,
                                 .data = data,
                                 .length = length,
                                 .machine = sim->process[from].machine,
                                 .vector = sim->process[from].vector};
    mare__sim_see(sim, &seen);
    uint64_t delay_us = draw_delay(sim);
    const char *how = fate(sim, from, to, data, length, &delay_us);
    uint32_t slot = make_copy(sim, from, to, data, length);
    if (how) {
        mare__sim_lose(sim, &sim->message[slot], how);
        mare__sim_message_free(sim, slot);
        return;
    }
    post(sim, slot, delay_us);
    if (!sim->settling &&
        mare_sim_chance(&sim->network_random, sim->options->network.duplicate_ppm)) {
        sim->outcome->duplicated++;
        post(sim, make_copy(sim, from, to, data, length), draw_delay(sim));
    }
}
