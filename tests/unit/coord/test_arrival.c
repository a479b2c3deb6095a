// SPDX-License-Identifier: MIT
// Coming back to a group (src/coord/mutex/arrival.h) when not all members reach each other: links
// are cut one by one here, which the simulator's partitions never do.
#include "coord/machine.h"
#include "coord/table.h"
#include "support/unit.h"

#include <stdbool.h>
#include <string.h>

enum { BACK, AMID, FAR, N, ROOM = 64, BYTES = 4096, LETTERS = 64 };

typedef struct letter {
    uint32_t from, to, length;
    uint8_t bytes[64];
} letter;

typedef struct world {
    uint64_t memory[N][512];
    mare_coord *member[N];
    bool cut[N][N];
    uint64_t fence[N]; // of the last grant
    letter letters[LETTERS];
    uint32_t sent;
} world;

static void post(world *w, uint32_t from, uint32_t to, const mare_coord_effect *effect)
{
    if (to == from || w->cut[from][to])
        return;
    assert_true(w->sent < LETTERS && effect->length <= sizeof w->letters[0].bytes);
    letter *fresh = &w->letters[w->sent++];
    fresh->from = from;
    fresh->to = to;
    fresh->length = effect->length;
    memcpy(fresh->bytes, effect->data, effect->length);
}

static void step(world *w, uint32_t i, mare_coord_event event)
{
    mare_coord_effect list[ROOM];
    uint8_t bytes[BYTES];
    mare_coord_effects fx = {.list = list, .room = ROOM, .bytes = bytes, .bytes_room = BYTES};
    assert_int_equal(mare_coord_step(w->member[i], &event, &fx), MARE_COORD_OK);
    for (uint32_t j = 0; j < fx.count; j++) {
        if (list[j].kind == MARE_COORD_GRANTED)
            w->fence[i] = list[j].number;
        for (uint32_t to = 0; to < N; to++) {
            if (list[j].kind == MARE_COORD_BROADCAST ||
                (list[j].kind == MARE_COORD_SEND && list[j].peer == to))
                post(w, i, to, &list[j]);
        }
    }
}

// Something happens to one; and all that is sent because of it arrives.
static void happen(world *w, uint32_t i, mare_coord_event event)
{
    uint64_t now_us = event.now_us;
    w->sent = 0;
    step(w, i, event);
    for (uint32_t next = 0; next < w->sent; next++) {
        letter what = w->letters[next];
        step(w, what.to,
             (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                .peer = what.from,
                                .now_us = now_us,
                                .data = what.bytes,
                                .length = what.length});
    }
}

static void tell(world *w, uint64_t now_us, uint32_t i, mare_coord_event_kind kind, uint32_t peer)
{
    happen(w, i, (mare_coord_event){.kind = kind, .peer = peer, .now_us = now_us});
}

// One that begins with the group, or (in a later life) has lost what it kept.
static void make(world *w, uint32_t i, const mare_coord_algorithm *algorithm, uint64_t incarnation)
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, algorithm, N);
    mare_coord_setup_set(&setup, "lease", 1);
    setup.self = i;
    setup.founds = incarnation == 0;
    setup.incarnation = incarnation;
    assert_true(mare_coord_size(&setup) <= sizeof w->memory[i]);
    w->member[i] = mare_coord_init(w->memory[i], sizeof w->memory[i], &setup);
}

static void begin(world *w, const mare_coord_algorithm *algorithm)
{
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < N; i++) {
        make(w, i, algorithm, 0);
        tell(w, 1, i, MARE_COORD_START, MARE_COORD_NOBODY);
    }
}

// Timers of all that are there run out, again and again.
static void pass_time(world *w, uint64_t now_us, uint32_t first)
{
    enum { ROUNDS = 5, TIMERS = 2 };
    for (uint32_t round = 0; round < ROUNDS * TIMERS; round++) {
        for (uint32_t i = first; i < N; i++)
            happen(w, i,
                   (mare_coord_event){
                       .kind = MARE_COORD_TIMER, .number = round % TIMERS, .now_us = now_us});
    }
}

// One comes back and is answered by the member in the middle. The far one, which it does not reach,
// still has it for dead, goes in with the other's permission, and dies without having answered.
static void the_dead_are_not_forgotten(void **state)
{
    enum { STAYS = 5 };
    world w;
    (void)state;
    begin(&w, &mare_coord_ricart);
    w.cut[BACK][FAR] = w.cut[FAR][BACK] = true;
    tell(&w, 10, AMID, MARE_COORD_PEER_DOWN, BACK);
    tell(&w, 10, FAR, MARE_COORD_PEER_DOWN, BACK);
    tell(&w, 20, AMID, MARE_COORD_PEER_UP, BACK);
    tell(&w, 20, BACK, MARE_COORD_START, MARE_COORD_NOBODY);
    for (uint64_t i = 0; i < STAYS; i++) {
        uint64_t before = w.fence[FAR];
        tell(&w, 30 + i, FAR, MARE_COORD_ENTER, MARE_COORD_NOBODY);
        assert_true(w.fence[FAR] > before);
        tell(&w, 30 + i, FAR, MARE_COORD_EXIT, MARE_COORD_NOBODY);
    }
    tell(&w, 40, BACK, MARE_COORD_ENTER, MARE_COORD_NOBODY);
    assert_true(w.fence[BACK] == 0); // the far one may be inside
    tell(&w, 50, AMID, MARE_COORD_PEER_DOWN, FAR);
    tell(&w, 50, BACK, MARE_COORD_PEER_DOWN, FAR);
    assert_true(w.fence[BACK] > w.fence[FAR]);
}

// The third is away while the other two go on. Of these one dies, and one loses its memory: the
// third and the forgetful are two of three, and one of them does not count. The dead one returns.
static void the_forgetful_do_not_count(void **state)
{
    static const mare_coord_algorithm *const table[] = {&mare_coord_central, &mare_coord_ricart,
                                                        &mare_coord_token};
    enum { DEAD, FORGETFUL, AWAY };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        world w;
        begin(&w, table[i]);
        w.cut[DEAD][AWAY] = w.cut[FORGETFUL][AWAY] = true;
        tell(&w, 10, DEAD, MARE_COORD_PEER_DOWN, AWAY);
        tell(&w, 10, FORGETFUL, MARE_COORD_PEER_DOWN, AWAY);
        tell(&w, 20, FORGETFUL, MARE_COORD_ENTER, MARE_COORD_NOBODY);
        assert_true(w.fence[FORGETFUL] > 0);

        make(&w, FORGETFUL, table[i], 1);
        w.cut[AWAY][FORGETFUL] = true; // until both have started
        w.cut[FORGETFUL][DEAD] = w.cut[AWAY][DEAD] = true;
        for (uint32_t who = FORGETFUL; who <= AWAY; who++) {
            tell(&w, 30, who, MARE_COORD_START, MARE_COORD_NOBODY);
            tell(&w, 30, who, MARE_COORD_PEER_DOWN, DEAD);
        }
        w.cut[FORGETFUL][AWAY] = w.cut[AWAY][FORGETFUL] = false;
        tell(&w, 40, AWAY, MARE_COORD_ENTER, MARE_COORD_NOBODY);
        pass_time(&w, 50, FORGETFUL);
        assert_true(w.fence[AWAY] == 0);

        memset(w.cut, 0, sizeof w.cut);
        for (uint32_t who = FORGETFUL; who <= AWAY; who++)
            tell(&w, 60, who, MARE_COORD_PEER_UP, DEAD);
        tell(&w, 60, DEAD, MARE_COORD_START, MARE_COORD_NOBODY);
        pass_time(&w, 70, DEAD);
        assert_true(w.fence[AWAY] > w.fence[FORGETFUL]);
    }
}

// All others are said to be down: one of three is no majority, until another is up again.
static void one_of_three_does_not_go_in(void **state)
{
    world w;
    (void)state;
    begin(&w, &mare_coord_ricart);
    for (uint32_t other = BACK; other <= FAR; other += FAR - BACK) {
        w.cut[AMID][other] = w.cut[other][AMID] = true;
        tell(&w, 10, AMID, MARE_COORD_PEER_DOWN, other);
    }
    tell(&w, 20, AMID, MARE_COORD_ENTER, MARE_COORD_NOBODY);
    assert_true(w.fence[AMID] == 0);
    w.cut[AMID][FAR] = w.cut[FAR][AMID] = false;
    tell(&w, 30, AMID, MARE_COORD_PEER_UP, FAR);
    assert_true(w.fence[AMID] > 0);
}

UNIT_TESTS(cmocka_unit_test(the_dead_are_not_forgotten),
           cmocka_unit_test(the_forgetful_do_not_count),
           cmocka_unit_test(one_of_three_does_not_go_in))
