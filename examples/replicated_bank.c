/* SPDX-License-Identifier: MIT */

/* State-machine replication: copies of an account that start equal and take the same commands in
 * the same order stay equal. The order comes from a multicast of libmare-coord; the "network" here
 * is a list of letters that arrive in the order that suits the story.
 *
 *     command ──▶ multicast ──▶ DELIVER at each replica, in one order ──▶ apply()
 *
 * An account of 1,000: a deposit of 100 in San Francisco and 1 % of interest in New York, at once.
 */

#include <mare/coord.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 2, LETTERS = 256 };

typedef struct letter {
    uint32_t from, to, length;
    uint8_t data[128];
} letter;

typedef struct bank {
    mare_coord *machine[REPLICAS];
    long balance[REPLICAS];
    mare_coord_effects effects;
    letter post[LETTERS];
    int letters;
} bank;

/* The state machine: nothing but the command and the state decides what comes out. */
static long apply(long balance, const uint8_t *command)
{
    return command[0] == 'd' ? balance + 100 : balance + balance / 100;
}

static void put_in_post(bank *b, uint32_t from, uint32_t to, const mare_coord_effect *effect)
{
    if (b->letters == LETTERS || effect->length > sizeof b->post->data)
        abort();
    letter *fresh = &b->post[b->letters++];
    *fresh = (letter){.from = from, .to = to, .length = effect->length};
    memcpy(fresh->data, effect->data, effect->length);
}

/* One event into one replica, and what it wants done. */
static void step(bank *b, uint32_t who, mare_coord_event event)
{
    if (mare_coord_step(b->machine[who], &event, &b->effects) != MARE_COORD_OK)
        abort();
    for (uint32_t i = 0; i < b->effects.count; i++) {
        const mare_coord_effect *effect = &b->effects.list[i];
        if (effect->kind == MARE_COORD_DELIVER)
            b->balance[who] = apply(b->balance[who], effect->data);
        if (effect->kind == MARE_COORD_SEND)
            put_in_post(b, who, effect->peer, effect);
        for (uint32_t to = 0; effect->kind == MARE_COORD_BROADCAST && to < REPLICAS; to++) {
            if (to != who)
                put_in_post(b, who, to, effect);
        }
    }
}

static void *get_memory(size_t size)
{
    void *memory = malloc(size);
    if (!memory)
        abort();
    return memory;
}

static void open_bank(bank *b, const mare_coord_algorithm *order)
{
    mare_coord_setup setup;
    memset(b, 0, sizeof *b);
    mare_coord_setup_init(&setup, order, REPLICAS);
    setup.founds = 1;                          /* the replicas have never run before */
    mare_coord_setup_set(&setup, "repair", 0); /* this post loses nothing */
    mare_coord_room(&setup, &b->effects.room, &b->effects.bytes_room);
    b->effects.list = get_memory(b->effects.room * sizeof *b->effects.list);
    b->effects.bytes = get_memory(b->effects.bytes_room);
    for (setup.self = 0; setup.self < REPLICAS; setup.self++) {
        size_t size = mare_coord_size(&setup);
        b->balance[setup.self] = 1000;
        b->machine[setup.self] = mare_coord_init(get_memory(size), size, &setup);
        step(b, setup.self, (mare_coord_event){.kind = MARE_COORD_START});
    }
}

static void command(bank *b, uint32_t who, const char *text)
{
    step(b, who,
         (mare_coord_event){.kind = MARE_COORD_MULTICAST,
                            .data = (const uint8_t *)text,
                            .length = (uint32_t)strlen(text)});
}

static void close_bank(bank *b)
{
    for (int i = 0; i < REPLICAS; i++)
        free(b->machine[i]);
    free(b->effects.list);
    free(b->effects.bytes);
}

static void run(const mare_coord_algorithm *order)
{
    bank b;
    open_bank(&b, order);
    command(&b, 0, "deposit");
    command(&b, 1, "interest");
    for (int i = 0; i < b.letters; i++) {
        letter taken = b.post[i];
        step(&b, taken.to,
             (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                .peer = taken.from,
                                .data = taken.data,
                                .length = taken.length});
    }
    printf("%-6s San Francisco %ld, New York %ld, %d messages\n", order->name, b.balance[0],
           b.balance[1], b.letters);
    close_bank(&b);
}

int main(void)
{
    run(&mare_coord_fifo);  /* each takes its own command first */
    run(&mare_coord_total); /* both take them in the same order */
    return 0;
}
