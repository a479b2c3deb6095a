/* SPDX-License-Identifier: MIT */

/* A program that takes the library home alone: one header, no libc but the three memory functions,
 * everything in a few static bytes. Five members agree on who is inside, and five elect a leader,
 * within the budget of a small microcontroller; the exit status says whether they did. */

#include <mare/coord.h>

#define MEMBERS 5
#define MACHINE_BYTES 768 /* a member of a group of five; see docs/reference/coord.md */
#define EFFECTS 24
#define MESSAGE_BYTES 384
#define UNDER_WAY 64

static uint64_t memory[MEMBERS][MACHINE_BYTES / 8];
static mare_coord *machine[MEMBERS];
static mare_coord_effect list[EFFECTS];
static uint8_t bytes[MESSAGE_BYTES];
static struct {
    uint32_t from, to, length;
    uint8_t data[40];
} wire[UNDER_WAY];
static uint32_t wire_head, wire_tail, entries, elected[MEMBERS];

static void post(uint32_t from, uint32_t to, const mare_coord_effect *effect)
{
    uint32_t at = wire_tail++ % UNDER_WAY;
    wire[at].from = from;
    wire[at].to = to;
    wire[at].length = effect->length;
    for (uint32_t i = 0; i < effect->length; i++)
        wire[at].data[i] = effect->data[i];
}

static mare_coord_status step(uint32_t who, mare_coord_event event)
{
    mare_coord_effects effects = {
        .list = list, .room = EFFECTS, .bytes = bytes, .bytes_room = MESSAGE_BYTES};
    mare_coord_status status = mare_coord_step(machine[who], &event, &effects);
    for (uint32_t i = 0; i < effects.count; i++) {
        if (list[i].kind == MARE_COORD_SEND)
            post(who, list[i].peer, &list[i]);
        for (uint32_t to = 0; list[i].kind == MARE_COORD_BROADCAST && to < MEMBERS; to++) {
            if (to != who)
                post(who, to, &list[i]);
        }
        entries += list[i].kind == MARE_COORD_GRANTED;
        if (list[i].kind == MARE_COORD_ELECTED)
            elected[who] = list[i].peer;
    }
    return status;
}

static void deliver(void)
{
    for (; wire_head != wire_tail; wire_head++) {
        uint32_t at = wire_head % UNDER_WAY;
        step(wire[at].to, (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                             .peer = wire[at].from,
                                             .data = wire[at].data,
                                             .length = wire[at].length});
    }
}

static int make_group(const char *algorithm)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, mare_coord_find(algorithm), MEMBERS);
        setup.self = i;
        machine[i] = mare_coord_init(memory[i], sizeof memory[i], &setup);
        if (!machine[i] || step(i, (mare_coord_event){.kind = MARE_COORD_START}) != MARE_COORD_OK)
            return 0;
    }
    return 1;
}

static int elect(const char *algorithm)
{
    if (!make_group(algorithm) ||
        step(1, (mare_coord_event){.kind = MARE_COORD_ELECT}) != MARE_COORD_OK)
        return 0;
    for (uint32_t i = 0; i < MEMBERS; i++)
        elected[i] = MARE_COORD_NOBODY;
    deliver();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (elected[i] != MEMBERS - 1)
            return 0;
    }
    return 1;
}

int main(void)
{
    if (!make_group("ricart"))
        return 1;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (step(i, (mare_coord_event){.kind = MARE_COORD_ENTER}) != MARE_COORD_OK)
            return 2;
        deliver();
        if (entries != i + 1)
            return 3;
        if (step(i, (mare_coord_event){.kind = MARE_COORD_EXIT}) != MARE_COORD_OK)
            return 4;
        deliver();
    }
    return elect("bully") && elect("ring") && elect("wireless") ? 0 : 5;
}
