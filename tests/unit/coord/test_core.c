/* SPDX-License-Identifier: MIT */

/* The core: set-up, messages as bytes, refusals, deadlines, and arbitrary events. */

#include "support/unit.h"

#include <mare/coord.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    mare_coord *machine;
    mare_coord_effects effects;
    mare_coord_setup setup;
} bench;

static void build(bench *b, const char *algorithm, uint32_t members, uint32_t self)
{
    mare_coord_setup_init(&b->setup, mare_coord_find(algorithm), members);
    b->setup.self = self;
    size_t size = mare_coord_size(&b->setup);
    b->machine = mare_coord_init(malloc(size), size, &b->setup);
    b->effects = (mare_coord_effects){0};
    mare_coord_room(&b->setup, &b->effects.room, &b->effects.bytes_room);
    b->effects.list = malloc(b->effects.room * sizeof *b->effects.list);
    b->effects.bytes = malloc(b->effects.bytes_room);
}

static void tear_down(bench *b)
{
    free(b->machine);
    free(b->effects.list);
    free(b->effects.bytes);
}

static mare_coord_status give(bench *b, mare_coord_event_kind kind, uint32_t peer, uint64_t number)
{
    mare_coord_event event = {.kind = kind, .peer = peer, .number = number, .now_us = 1000};
    return mare_coord_step(b->machine, &event, &b->effects);
}

static int has_effect(const bench *b, mare_coord_effect_kind kind)
{
    for (uint32_t i = 0; i < b->effects.count; i++) {
        if (b->effects.list[i].kind == kind)
            return 1;
    }
    return 0;
}

static void setup_is_checked(void **state)
{
    (void)state;
    mare_coord_setup setup;
    uint64_t memory[512];
    mare_coord_setup_init(&setup, mare_coord_find("ricart"), 3);
    assert_null(mare_coord_find("no such algorithm"));
    assert_int_equal(mare_coord_setup_set(&setup, "retry_us", 9), MARE_COORD_OK);
    assert_int_equal(mare_coord_setup_set(&setup, "retry_us", -9), MARE_COORD_REFUSED);
    assert_int_equal(mare_coord_setup_set(&setup, "no such", 1), MARE_COORD_UNKNOWN);
    assert_true(mare_coord_size(&setup) > 0 && mare_coord_size(&setup) < sizeof memory);
    assert_null(mare_coord_init(memory, mare_coord_size(&setup) - 1, &setup));
    assert_non_null(mare_coord_init(memory, mare_coord_size(&setup), &setup));
    setup.self = 3;
    assert_int_equal(mare_coord_size(&setup), 0);
    setup.self = 0;
    setup.capacity = 2;
    assert_int_equal(mare_coord_size(&setup), 0);
}

static void messages_round_trip(void **state)
{
    (void)state;
    const mare_coord_algorithm *a = mare_coord_find("ricart");
    uint8_t bytes[64], longer[64] = {0};
    char text[80], cut[8];
    mare_coord_message sent = {.kind = 0, .field = {8, 1, UINT64_MAX}}, got;
    uint32_t length = mare_coord_encode(a, &sent, bytes, sizeof bytes);
    assert_int_equal(length, 26);
    assert_int_equal(mare_coord_encode(a, &sent, bytes, 25), 0);
    assert_int_equal(mare_coord_decode(a, bytes, length, &got), MARE_COORD_OK);
    assert_int_equal(got.field[2], UINT64_MAX);
    mare_coord_describe(a, bytes, length, text, sizeof text);
    assert_string_equal(text, "REQUEST clock=8 ticket=1 stamp=18446744073709551615");
    mare_coord_describe(a, bytes, length, cut, sizeof cut);
    assert_string_equal(cut, "REQUEST");
    memcpy(longer, bytes, length);
    assert_int_equal(mare_coord_decode(a, longer, length + 1, &got), MARE_COORD_MALFORMED);
    for (uint32_t shorter = 0; shorter < length; shorter++)
        assert_int_equal(mare_coord_decode(a, bytes, shorter, &got), MARE_COORD_MALFORMED);
    bytes[1] = 200;
    assert_int_equal(mare_coord_decode(a, bytes, length, &got), MARE_COORD_MALFORMED);
    bytes[0] ^= 1;
    assert_int_equal(mare_coord_decode(a, bytes, length, &got), MARE_COORD_MALFORMED);
    sent.kind = 200;
    assert_int_equal(mare_coord_encode(a, &sent, bytes, sizeof bytes), 0);
}

static void what_is_out_of_place_is_refused(void **state)
{
    (void)state;
    bench b;
    build(&b, "ricart", 3, 0);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_REFUSED); /* before START */
    assert_int_equal(give(&b, MARE_COORD_START, 0, 0), MARE_COORD_OK);
    assert_int_equal(give(&b, MARE_COORD_EXIT, 0, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_ABANDON, 0, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_ELECT, 0, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_MULTICAST, 0, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_OK);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_MESSAGE, 9, 0), MARE_COORD_STRANGER);
    assert_int_equal(give(&b, MARE_COORD_MESSAGE, 0, 0), MARE_COORD_STRANGER); /* oneself */
    assert_int_equal(give(&b, MARE_COORD_MESSAGE, 1, 0), MARE_COORD_MALFORMED);
    assert_int_equal(give(&b, MARE_COORD_PEER_DOWN, 9, 0), MARE_COORD_STRANGER);
    assert_int_equal(give(&b, MARE_COORD_PEER_DOWN, 0, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_JOIN, 1, 0), MARE_COORD_REFUSED);
    assert_int_equal(give(&b, MARE_COORD_TIMER, 0, 99), MARE_COORD_UNKNOWN);
    assert_int_equal(give(&b, MARE_COORD_EVENT_KINDS, 0, 0), MARE_COORD_UNKNOWN);
    tear_down(&b);
}

static void without_room_nothing_happens(void **state)
{
    (void)state;
    bench b;
    build(&b, "ricart", 3, 0);
    give(&b, MARE_COORD_START, 0, 0);
    b.effects.room--;
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_NOROOM);
    b.effects.room++;
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_OK); /* it had not entered */
    tear_down(&b);
}

static void a_wait_ends_by_its_deadline(void **state)
{
    (void)state;
    bench b;
    mare_coord_view view;
    build(&b, "ricart", 3, 0);
    give(&b, MARE_COORD_START, 0, 0);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 5000), MARE_COORD_OK);
    mare_coord_effect last = b.effects.list[b.effects.count - 1];
    assert_int_equal(last.kind, MARE_COORD_SET_TIMER);
    assert_int_equal(last.number, 4000);
    assert_int_equal(give(&b, MARE_COORD_TIMER, 0, last.timer), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_REVOKED));
    mare_coord_look(b.machine, &view);
    assert_string_equal(view.phase, "idle");
    assert_int_equal(give(&b, MARE_COORD_TIMER, 0, last.timer), MARE_COORD_OK); /* harmless */
    assert_false(has_effect(&b, MARE_COORD_REVOKED));
    tear_down(&b);
}

static void leaving_ends_a_stay(void **state)
{
    (void)state;
    bench b;
    build(&b, "central", 1, 0);
    give(&b, MARE_COORD_START, 0, 0);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_GRANTED));
    assert_int_equal(give(&b, MARE_COORD_LEAVE, 0, 0), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_REVOKED));
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_REFUSED);
    tear_down(&b);
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* Arbitrary events, half of the messages being well formed: never a crash (the sanitizers watch),
 * never more effects than declared, never GRANTED to one that did not ask. */
static void arbitrary_events_are_survived(void **state)
{
    (void)state;
    size_t algorithms;
    const mare_coord_algorithm *const *table = mare_coord_table(&algorithms);
    uint64_t seed = 11;
    for (size_t a = 0; a < algorithms; a++) {
        bench b;
        build(&b, table[a]->name, 4, (uint32_t)(draw(&seed) % 4));
        for (int i = 0; i < 200000; i++) {
            uint8_t bytes[80];
            mare_coord_view before;
            mare_coord_message message = {.kind = (uint32_t)(draw(&seed) % 8)};
            for (int f = 0; f < MARE_COORD_FIELDS; f++)
                message.field[f] = draw(&seed) % 3 ? draw(&seed) % 16 : draw(&seed) << 31;
            mare_coord_event event = {.kind = draw(&seed) % (MARE_COORD_EVENT_KINDS + 1),
                                      .peer = (uint32_t)(draw(&seed) % 6),
                                      .now_us = draw(&seed),
                                      .number = draw(&seed) % 10,
                                      .data = bytes};
            if (draw(&seed) % 2)
                event.length = mare_coord_encode(table[a], &message, bytes, sizeof bytes);
            else
                for (event.length = 0; event.length < draw(&seed) % sizeof bytes; event.length++)
                    bytes[event.length] = (uint8_t)draw(&seed);
            mare_coord_look(b.machine, &before);
            mare_coord_step(b.machine, &event, &b.effects);
            assert_int_equal(b.effects.lost, 0);
            if (has_effect(&b, MARE_COORD_GRANTED) && event.kind != MARE_COORD_ENTER)
                assert_true(before.waiting);
        }
        tear_down(&b);
    }
}

/* Every row of the table is complete, and no two have the same name or tag. */
static void the_table_is_complete(void **state)
{
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t i = 0; i < count; i++) {
        const mare_coord_algorithm *a = table[i];
        assert_true(a->name && a->title && a->source && a->assumes && a->formula && a->tag);
        assert_true(a->params && a->forms && a->promises && a->tolerates && a->messages);
        assert_true(a->size && a->room && a->init && a->receive && a->request);
        assert_true(a->cost || !a->delay_formula);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(a->name, table[j]->name);
            assert_int_not_equal(a->tag, table[j]->tag);
        }
    }
}

/* Limits are in order, and what `messages` says is one of them. */
static void costs_are_in_order(void **state)
{
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t n = 2; n <= 200; n++) {
            mare_coord_setup setup;
            mare_coord_cost cost;
            mare_coord_setup_init(&setup, table[i], n);
            mare_coord_cost_of(&setup, &cost);
            uint64_t messages = table[i]->messages(&setup);
            assert_true(cost.messages_least <= cost.messages_most);
            assert_true(messages == cost.messages_least || messages == cost.messages_most);
            assert_true(cost.delay_least <= cost.delay_most);
            assert_true(table[i]->delay_formula || cost.delay_most == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_is_checked),
        cmocka_unit_test(messages_round_trip),
        cmocka_unit_test(what_is_out_of_place_is_refused),
        cmocka_unit_test(without_room_nothing_happens),
        cmocka_unit_test(a_wait_ends_by_its_deadline),
        cmocka_unit_test(leaving_ends_a_stay),
        cmocka_unit_test(arbitrary_events_are_survived),
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(costs_are_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
