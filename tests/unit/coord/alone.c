/* SPDX-License-Identifier: MIT */

/* A program that takes the library home alone: one header, no libc but the three memory functions,
 * no start-up code, four kilobytes. Five members agree on who is inside, and five elect a leader in
 * three ways, all five of them and their buffers in the one small block. It names the algorithms
 * that it uses, so it is linked with those alone. alone_main.c shows what it reports;
 * microcontroller.sh links it for a Cortex-M0. */

#include "alone.h"

#include <mare/coord.h>

enum { MEMBERS = 5, BUDGET = 4096, UNDER_WAY = 32, LONGEST = 66 };

static uint64_t memory[BUDGET / 8];
static uint32_t used; /* of the memory */
static mare_coord *machine[MEMBERS];
static mare_coord_effects effects;
static uint32_t entries, elected[MEMBERS];

/* The network: not the library's, so not in its budget. */
static struct {
    uint32_t from, to, length;
    uint8_t data[LONGEST];
} wire[UNDER_WAY];
static uint32_t wire_head, wire_tail;

static void *take(size_t bytes)
{
    uint32_t at = used, end = used + ((uint32_t)bytes + 7) / 8;
    if (end > BUDGET / 8)
        return NULL;
    used = end;
    return &memory[at];
}

static int post(uint32_t from, uint32_t to, const mare_coord_effect *effect)
{
    if (wire_tail - wire_head == UNDER_WAY || effect->length > LONGEST)
        return 0;
    uint32_t at = wire_tail++ % UNDER_WAY;
    wire[at].from = from;
    wire[at].to = to;
    wire[at].length = effect->length;
    for (uint32_t i = 0; i < effect->length; i++)
        wire[at].data[i] = effect->data[i];
    return 1;
}

static int step(uint32_t who, mare_coord_event event)
{
    int fine = mare_coord_step(machine[who], &event, &effects) == MARE_COORD_OK;
    for (uint32_t i = 0; i < effects.count; i++) {
        const mare_coord_effect *effect = &effects.list[i];
        if (effect->kind == MARE_COORD_SEND)
            fine &= post(who, effect->peer, effect);
        for (uint32_t to = 0; effect->kind == MARE_COORD_BROADCAST && to < MEMBERS; to++) {
            if (to != who)
                fine &= post(who, to, effect);
        }
        entries += effect->kind == MARE_COORD_GRANTED;
        if (effect->kind == MARE_COORD_ELECTED)
            elected[who] = effect->peer;
    }
    return fine;
}

static int deliver(void)
{
    int fine = 1;
    while (wire_head != wire_tail) {
        uint32_t at = wire_head % UNDER_WAY;
        uint8_t data[LONGEST];
        for (uint32_t i = 0; i < wire[at].length; i++)
            data[i] = wire[at].data[i];
        wire_head++; /* the place is free for what comes of it */
        fine &= step(wire[at].to, (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                                     .peer = wire[at].from,
                                                     .data = data,
                                                     .length = wire[at].length});
    }
    return fine;
}

static int make_group(const mare_coord_algorithm *algorithm, alone_report *report)
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, algorithm, MEMBERS);
    setup.founds = 1;
    size_t size = mare_coord_size(&setup);
    used = wire_head = wire_tail = entries = 0;
    effects = (mare_coord_effects){0};
    mare_coord_room(&setup, &effects.room, &effects.bytes_room);
    effects.list = take(effects.room * sizeof *effects.list);
    effects.bytes = take(effects.bytes_room);
    *report = (alone_report){algorithm->name, (uint32_t)size,
                             (uint32_t)(effects.room * sizeof *effects.list), effects.bytes_room};
    if (!effects.list || !effects.bytes)
        return 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        setup.self = i;
        elected[i] = MARE_COORD_NOBODY;
        machine[i] = mare_coord_init(take(size), size, &setup);
        if (!machine[i] || !step(i, (mare_coord_event){.kind = MARE_COORD_START}))
            return 0;
    }
    return 1;
}

static int elect(const mare_coord_algorithm *algorithm, alone_report *report)
{
    if (!make_group(algorithm, report) || !step(1, (mare_coord_event){.kind = MARE_COORD_ELECT}) ||
        !deliver())
        return 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (elected[i] != MEMBERS - 1)
            return 0;
    }
    return 1;
}

static int enter_in_turn(const mare_coord_algorithm *algorithm, alone_report *report)
{
    if (!make_group(algorithm, report))
        return 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (!step(i, (mare_coord_event){.kind = MARE_COORD_ENTER}) || !deliver() ||
            entries != i + 1 || !step(i, (mare_coord_event){.kind = MARE_COORD_EXIT}) || !deliver())
            return 0;
    }
    return 1;
}

int coord_alone(alone_report report[8])
{
    if (!enter_in_turn(&mare_coord_ricart, &report[0]))
        return __LINE__;
    if (!elect(&mare_coord_bully, &report[1]))
        return __LINE__;
    if (!elect(&mare_coord_ring, &report[2]))
        return __LINE__;
    if (!elect(&mare_coord_wireless, &report[3]))
        return __LINE__;
    report[4].algorithm = NULL;
    return 0;
}
