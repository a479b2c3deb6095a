/* SPDX-License-Identifier: MIT */

/* The core: set-up, messages as bytes, refusals, deadlines, and arbitrary events. */

#include "support/unit.h"

#include "coord/election/epoch.h"

#include <mare/coord.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    mare_coord *machine;
    mare_coord_effects effects;
    mare_coord_setup setup;
} bench;

/* A machine from the bench's set-up, in memory that is exactly large enough. */
static void build_it(bench *b)
{
    size_t size = mare_coord_size(&b->setup);
    b->machine = mare_coord_init(malloc(size), size, &b->setup);
    uint32_t room, bytes;
    mare_coord_room(&b->setup, &room, &bytes);
    b->effects = (mare_coord_effects){.list = malloc(room * sizeof *b->effects.list),
                                      .room = room,
                                      .bytes = malloc(bytes),
                                      .bytes_room = bytes};
    assert_non_null(b->machine);
}

static void build(bench *b, const char *algorithm, uint32_t members, uint32_t self)
{
    mare_coord_setup_init(&b->setup, mare_coord_find(algorithm), members);
    b->setup.self = self;
    b->setup.founds = 1;
    build_it(b);
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

static void begin(bench *b, const char *algorithm, uint32_t members, uint32_t self)
{
    build(b, algorithm, members, self);
    assert_int_equal(give(b, MARE_COORD_START, 0, 0), MARE_COORD_OK);
}

static mare_coord_status hear(bench *b, uint32_t from, mare_coord_message message)
{
    uint8_t bytes[256];
    mare_coord_event event = {.kind = MARE_COORD_MESSAGE, .peer = from, .data = bytes};
    event.length = mare_coord_encode(b->setup.algorithm, &message, bytes, sizeof bytes);
    assert_true(event.length > 0);
    return mare_coord_step(b->machine, &event, &b->effects);
}

static mare_coord_status multicast(bench *b, const char *text)
{
    mare_coord_event event = {.kind = MARE_COORD_MULTICAST,
                              .data = (const uint8_t *)text,
                              .length = (uint32_t)strlen(text)};
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
    setup.founds = 1;
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
    uint32_t effects = 1, bytes = 1;
    mare_coord_room(&setup, &effects, &bytes);
    assert_true(effects == 0 && bytes == 0);
    setup.capacity = 3;
    assert_null(mare_coord_init((uint8_t *)memory + 1, sizeof memory - 1, &setup)); /* unaligned */
    mare_coord_setup_init(&setup, mare_coord_find("no such algorithm"), 3);
    assert_int_equal(mare_coord_setup_set(&setup, "repair", 1), MARE_COORD_UNKNOWN);
    assert_int_equal(mare_coord_size(&setup), 0);
}

/* Founding is an explicit act: a start that neither founds the group nor has a number of its own
 * could be either, and a second founding would be a second group. */
static void a_start_says_which_it_is(void **state)
{
    (void)state;
    uint64_t memory[512];
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, mare_coord_find("ricart"), 3);
    assert_null(mare_coord_init(memory, sizeof memory, &setup));
    setup.incarnation = 1700000000;
    assert_non_null(mare_coord_init(memory, sizeof memory, &setup));
    setup.founds = 1; /* a founder may have a number too */
    assert_non_null(mare_coord_init(memory, sizeof memory, &setup));
    setup.incarnation = 0;
    assert_non_null(mare_coord_init(memory, sizeof memory, &setup));
    setup.capacity = 4;
    setup.self = 3; /* not among those that found the group */
    assert_null(mare_coord_init(memory, sizeof memory, &setup));
    setup.founds = 0;
    setup.incarnation = 1;
    assert_non_null(mare_coord_init(memory, sizeof memory, &setup));
}

/* What the largest step needs is counted in 32 bits: a set-up that needs more is refused, and not
 * made with the rest of the division. */
static void what_cannot_be_counted_is_refused(void **state)
{
    (void)state;
    const char *const names[] = {"fifo", "causal", "total", "views"};
    uint32_t effects, bytes;
    for (int a = 0; a < 4; a++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, mare_coord_find(names[a]), MARE_COORD_MEMBERS_MAX);
        mare_coord_setup_set(&setup, "window", 1024);
        mare_coord_setup_set(&setup, "bytes", 65536);
        assert_int_equal(mare_coord_size(&setup), 0); /* 2^42 bytes of effects */
        mare_coord_room(&setup, &effects, &bytes);
        assert_true(effects == 0 && bytes == 0);
        mare_coord_setup_init(&setup, mare_coord_find(names[a]), 1000);
        mare_coord_room(&setup, &effects, &bytes);
        assert_true(mare_coord_size(&setup) > 0 && effects > 16 * 1000);
        assert_true(bytes > 16 * 1000 * 64); /* a window of every member is delivered in one step */
    }
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
    begin(&b, "ricart", 3, 0);
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
    begin(&b, "ricart", 3, 0);
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

/* The timer of a deadline outlives the wait that it was for. */
static void a_deadline_is_of_its_own_wait(void **state)
{
    (void)state;
    bench b;
    mare_coord_view view;
    begin(&b, "ricart", 3, 0);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 5000), MARE_COORD_OK);
    uint32_t timer = b.effects.list[b.effects.count - 1].timer;
    assert_int_equal(give(&b, MARE_COORD_ABANDON, 0, 0), MARE_COORD_OK);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_OK); /* for as long as it takes */
    assert_int_equal(give(&b, MARE_COORD_TIMER, 0, timer), MARE_COORD_OK);
    assert_false(has_effect(&b, MARE_COORD_REVOKED));
    mare_coord_look(b.machine, &view);
    assert_true(view.waiting);
    tear_down(&b);
}

/* A crash ends a wait or a stay in every algorithm of the family. */
static void a_crash_ends_a_stay(void **state)
{
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t i = 0; i < count; i++) {
        bench b;
        if (table[i]->family != MARE_COORD_MUTEX)
            continue;
        begin(&b, table[i]->name, 1, 0);
        give(&b, MARE_COORD_ENTER, 0, 0);
        assert_true(has_effect(&b, MARE_COORD_GRANTED));
        give(&b, MARE_COORD_START, 0, 0);
        assert_int_equal(b.effects.list[0].kind, MARE_COORD_REVOKED);
        assert_string_equal(b.effects.list[0].text, "restarted");
        assert_int_equal(give(&b, MARE_COORD_EXIT, 0, 0), MARE_COORD_REFUSED);
        tear_down(&b);
    }
}

static void leaving_ends_a_stay(void **state)
{
    (void)state;
    bench b;
    begin(&b, "central", 1, 0);
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_GRANTED));
    assert_int_equal(give(&b, MARE_COORD_LEAVE, 0, 0), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_REVOKED));
    assert_int_equal(give(&b, MARE_COORD_ENTER, 0, 0), MARE_COORD_REFUSED);
    tear_down(&b);
}

/* One that has left is at rest, and does not come back: who joins again is another machine. */
static void who_has_left_hears_nothing(void **state)
{
    (void)state;
    bench b;
    begin(&b, "bully", 3, 2);
    assert_int_equal(give(&b, MARE_COORD_ELECT, 0, 0), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_ELECTED));
    assert_int_equal(give(&b, MARE_COORD_LEAVE, 2, 0), MARE_COORD_OK);
    for (int kind = 0; kind < MARE_COORD_EVENT_KINDS; kind++) {
        for (uint64_t number = 0; number < 2; number++) { /* timers: ANSWER, RETRY */
            assert_int_equal(give(&b, (mare_coord_event_kind)kind, 2, number), MARE_COORD_REFUSED);
            assert_int_equal(b.effects.count, 0);
        }
    }
    assert_int_equal(give(&b, MARE_COORD_PEER_DOWN, 0, 0), MARE_COORD_REFUSED);
    tear_down(&b);
}

static void bytes_that_are_not_there_are_refused(void **state)
{
    (void)state;
    bench b;
    begin(&b, "total", 3, 0);
    mare_coord_event event = {.kind = MARE_COORD_MULTICAST, .length = 5};
    assert_int_equal(mare_coord_step(b.machine, &event, &b.effects), MARE_COORD_MALFORMED);
    assert_int_equal(multicast(&b, ""), MARE_COORD_OK); /* none is enough */
    tear_down(&b);
}

/* Numbers that nobody gets to by counting ------------------------------------------------------ */

static void clocks_have_a_limit(void **state)
{
    (void)state;
    const char *const names[] = {"ricart", "majority", "voting", "total"};
    for (int a = 0; a < 4; a++) {
        bench b;
        begin(&b, names[a], 3, 0);
        mare_coord_message last = {.field = {(UINT64_C(1) << 47) - 1, 1}}, beyond = last;
        beyond.field[0]++;
        last.field[2] = beyond.field[2] = a == 3; /* the stamp of a CAST is not 0 */
        assert_int_equal(hear(&b, 1, beyond), MARE_COORD_MALFORMED);
        mare_coord_status status = hear(&b, 1, last); /* of voting: not my replica, perhaps */
        assert_true(status == MARE_COORD_OK || (a == 2 && status == MARE_COORD_REFUSED));
        tear_down(&b);
    }
}

static void hops_have_a_limit(void **state)
{
    (void)state;
    bench b;
    begin(&b, "token", 3, 1);
    mare_coord_message token = {.field = {0, UINT64_MAX, 0}}; /* one more would be 0 */
    assert_int_equal(hear(&b, 0, token), MARE_COORD_MALFORMED);
    token.field[1] = 1;
    assert_int_equal(hear(&b, 0, token), MARE_COORD_OK);
    tear_down(&b);
}

/* The last of a group starts from the founders' epoch: fencing numbers have one beginning. */
static void one_that_comes_to_an_empty_group_counts_on(void **state)
{
    (void)state;
    bench b;
    mare_coord_setup_init(&b.setup, mare_coord_find("central"), 4);
    b.setup.self = 1;
    b.setup.incarnation = 1;
    build_it(&b);
    for (uint32_t i = 0; i < 4; i++) {
        if (i != 1)
            assert_int_equal(give(&b, MARE_COORD_LEAVE, i, 0), MARE_COORD_OK);
    }
    give(&b, MARE_COORD_START, 0, 0);
    give(&b, MARE_COORD_ENTER, 0, 0);
    const mare_coord_effect *granted = &b.effects.list[0];
    assert_int_equal(granted->kind, MARE_COORD_GRANTED);
    assert_int_equal(granted->number, UINT64_C(2) << 32 | 1); /* epoch 5, two after the first, 3 */
    tear_down(&b);
}

/* One that claims to have everything, and more, lacks nothing. */
static void who_needs_nothing_is_sent_nothing(void **state)
{
    (void)state;
    enum { PROPOSE = 5, NEED = 8, HAS = 2 };
    bench b;
    uint8_t all[2 * 8];
    begin(&b, "views", 2, 0);
    for (int i = 0; i < HAS; i++)
        assert_int_equal(multicast(&b, "x"), MARE_COORD_OK);
    mare_coord_message propose = {.kind = PROPOSE, .field = {1, 3}}; /* view 1, a ballot of 1's */
    assert_int_equal(hear(&b, 1, propose), MARE_COORD_OK);
    mare_coord_message need = {.kind = NEED, .field = {1}, .tail = all, .tail_length = sizeof all};
    memset(all, 0xff, sizeof all);
    assert_int_equal(hear(&b, 1, need), MARE_COORD_OK);
    assert_false(has_effect(&b, MARE_COORD_SEND));
    memset(all, 0, sizeof all);
    assert_int_equal(hear(&b, 1, need), MARE_COORD_OK);
    assert_int_equal(b.effects.count, HAS);
    tear_down(&b);
}

/* A prefix as long as the identifier, or longer, names every node. */
static void a_long_prefix_names_everybody(void **state)
{
    (void)state;
    for (int64_t prefix = 8; prefix <= 9; prefix++) {
        for (uint32_t self = 0; self < 4; self++) {
            bench b;
            mare_coord_setup_init(&b.setup, mare_coord_find("superpeer-dht"), 4);
            mare_coord_setup_set(&b.setup, "prefix", prefix);
            b.setup.self = self;
            b.setup.founds = 1;
            build_it(&b);
            give(&b, MARE_COORD_START, 0, 0);
            assert_int_equal(b.effects.list[0].kind, MARE_COORD_ELECTED);
            assert_int_equal(b.effects.list[0].peer, self);
            tear_down(&b);
        }
    }
}

/* Anything at all ------------------------------------------------------------------------------ */

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* A group that begins anew, founder or newcomer, with or without room for others. */
static void build_any(bench *b, const mare_coord_algorithm *algorithm, uint64_t *seed)
{
    mare_coord_setup_init(&b->setup, algorithm, 4);
    mare_coord_setup_set(&b->setup, "repair", draw(seed) % 4 != 0);
    b->setup.self = (uint32_t)(draw(seed) % 4);
    b->setup.capacity += (uint32_t)(draw(seed) % 3);
    b->setup.founds = (uint32_t)(draw(seed) % 2);
    b->setup.incarnation = !b->setup.founds;
    b->setup.marks = draw(seed) % 2;
    build_it(b);
}

/* Any event; of the messages, one of three is noise. */
static mare_coord_event draw_event(const mare_coord_algorithm *algorithm, uint64_t *seed,
                                   uint8_t bytes[160])
{
    uint8_t tail[160];
    mare_coord_message message = {.kind = (uint32_t)(draw(seed) % 12), .tail = tail};
    for (int f = 0; f < MARE_COORD_FIELDS; f++)
        message.field[f] = draw(seed) % 3 ? draw(seed) % 16 : draw(seed) << (draw(seed) % 33);
    message.tail_length = (uint32_t)(draw(seed) % 4 ? draw(seed) % 16 * 8 : draw(seed) % 100);
    for (uint32_t i = 0; i < message.tail_length; i++)
        tail[i] = (uint8_t)(i % 8 ? draw(seed) % 16 == 0 : draw(seed) % 8);
    mare_coord_event event = {.kind = draw(seed) % (MARE_COORD_EVENT_KINDS + 1),
                              .peer = (uint32_t)(draw(seed) % 7),
                              .now_us = draw(seed),
                              .number = draw(seed) % 10,
                              .data = bytes};
    if (draw(seed) % 2)
        event.kind = MARE_COORD_MESSAGE;
    if (draw(seed) % 3)
        event.length = mare_coord_encode(algorithm, &message, bytes, 160);
    else
        for (event.length = 0; event.length < draw(seed) % 80; event.length++)
            bytes[event.length] = (uint8_t)draw(seed);
    return event;
}

/* Arbitrary events: never a crash (the sanitizers watch), never more effects than declared, never
 * GRANTED to one that did not ask, nothing sent to oneself, every message one that others read. */
static void arbitrary_events_are_survived(void **state)
{
    (void)state;
    size_t algorithms;
    const mare_coord_algorithm *const *table = mare_coord_table(&algorithms);
    uint64_t seed = 11;
    for (size_t a = 0; a < algorithms; a++) {
        bench b;
        build_any(&b, table[a], &seed);
        for (int i = 0; i < 200000; i++) {
            uint8_t bytes[160];
            mare_coord_view before;
            mare_coord_message sent;
            mare_coord_event event = draw_event(table[a], &seed, bytes);
            mare_coord_look(b.machine, &before);
            mare_coord_step(b.machine, &event, &b.effects);
            assert_int_equal(b.effects.lost, 0);
            if (has_effect(&b, MARE_COORD_GRANTED) && event.kind != MARE_COORD_ENTER)
                assert_true(before.waiting);
            for (uint32_t e = 0; e < b.effects.count; e++) {
                const mare_coord_effect *effect = &b.effects.list[e];
                if (effect->kind != MARE_COORD_SEND && effect->kind != MARE_COORD_BROADCAST)
                    continue;
                assert_int_not_equal(effect->peer, b.setup.self);
                assert_int_equal(mare_coord_decode(table[a], effect->data, effect->length, &sent),
                                 MARE_COORD_OK);
            }
            if (mare_coord_has_member(b.machine, b.setup.self))
                continue;
            tear_down(&b); /* it has left: the next one */
            build_any(&b, table[a], &seed);
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

/* Whose a count is: the only life that would take it. */
static void counts_belong_to_one_life(void **state)
{
    (void)state;
    const uint64_t lives[] = {0, 1, 2, 3, 1000, 1700000000, MARE__LIFE_LIMIT - 1};
    const size_t count = sizeof lives / sizeof *lives;
    uint64_t from = 1;
    for (int i = 0; i < 1000; i++, from = from * 3 / 2 % (UINT64_C(1) << 40) + 1) {
        for (size_t a = 0; a < count; a++) {
            uint64_t taken = mare__epoch_count(from, lives[a]);
            assert_true(taken >= from && taken - from <= 8 * MARE__LIFE_LIMIT);
            for (size_t b = 0; b < count; b++)
                assert_int_equal(mare__epoch_count(taken, lives[b]) == taken, a == b);
        }
    }
    assert_int_equal(mare__epoch_count(1, 0), 1); /* founders count 1, 2 … 7, 9 … */
    assert_int_equal(mare__epoch_count(8, 0), 9);
}

/* How long the wait for the end of the election that is called now is. */
static uint64_t patience_of(bench *b)
{
    enum { PATIENCE = 0 };
    assert_int_equal(give(b, MARE_COORD_ELECT, 0, 0), MARE_COORD_OK);
    for (uint32_t i = 0; i < b->effects.count; i++) {
        const mare_coord_effect *effect = &b->effects.list[i];
        if (effect->kind == MARE_COORD_SET_TIMER && effect->timer == PATIENCE)
            return effect->number;
    }
    return 0;
}

/* A round of a ring has taken long: the next one is waited for at least twice as long. */
static void a_slow_ring_is_kept_in_mind(void **state)
{
    (void)state;
    enum { COORDINATOR = 1, LONG_US = 10000000 };
    bench b;
    uint8_t bytes[64], list[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1}; /* both, in their first lives */
    mare_coord_message closed = {
        .kind = COORDINATOR, .field = {2, 1}, .tail = list, .tail_length = sizeof list};
    begin(&b, "ring", 2, 0);
    uint64_t first_us = patience_of(&b);
    assert_in_range(first_us, 1, LONG_US);
    mare_coord_event event = {
        .kind = MARE_COORD_MESSAGE, .peer = 1, .now_us = 1000 + LONG_US, .data = bytes};
    event.length = mare_coord_encode(b.setup.algorithm, &closed, bytes, sizeof bytes);
    assert_int_equal(mare_coord_step(b.machine, &event, &b.effects), MARE_COORD_OK);
    assert_true(has_effect(&b, MARE_COORD_ELECTED));
    assert_true(patience_of(&b) >= UINT64_C(2) * LONG_US);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(setup_is_checked),
        cmocka_unit_test(a_start_says_which_it_is),
        cmocka_unit_test(what_cannot_be_counted_is_refused),
        cmocka_unit_test(messages_round_trip),
        cmocka_unit_test(what_is_out_of_place_is_refused),
        cmocka_unit_test(without_room_nothing_happens),
        cmocka_unit_test(a_wait_ends_by_its_deadline),
        cmocka_unit_test(a_deadline_is_of_its_own_wait),
        cmocka_unit_test(a_crash_ends_a_stay),
        cmocka_unit_test(leaving_ends_a_stay),
        cmocka_unit_test(who_has_left_hears_nothing),
        cmocka_unit_test(bytes_that_are_not_there_are_refused),
        cmocka_unit_test(clocks_have_a_limit),
        cmocka_unit_test(hops_have_a_limit),
        cmocka_unit_test(one_that_comes_to_an_empty_group_counts_on),
        cmocka_unit_test(who_needs_nothing_is_sent_nothing),
        cmocka_unit_test(a_long_prefix_names_everybody),
        cmocka_unit_test(arbitrary_events_are_survived),
        cmocka_unit_test(the_table_is_complete),
        cmocka_unit_test(costs_are_in_order),
        cmocka_unit_test(counts_belong_to_one_life),
        cmocka_unit_test(a_slow_ring_is_kept_in_mind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
