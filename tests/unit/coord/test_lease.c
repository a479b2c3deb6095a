// SPDX-License-Identifier: MIT
// The rules of the lease (src/coord/lease/lease.c), one by one: three members, whose messages
// arrive when a case says so. What the simulator's draws never bring about is brought about here.
#include "coord/lease/lease.h"
#include "support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, TERM = 100000, BEAT = 20000, ROOM = 64, BYTES = 4096 };
enum { RENEW, ANSWER };
enum { EPOCH, SENT, GIVEN };
enum { NOTHING };

typedef struct letter {
    uint8_t bytes[256];
    uint32_t length;
} letter;

typedef struct world {
    uint64_t memory[N][512];
    mare_coord *member[N];
    mare_coord_effect list[ROOM];
    uint8_t bytes[BYTES];
    mare_coord_effects fx; // of the last step
    letter out[N][N];      // the last letter, by writer and reader
} world;

static void make(world *w, uint32_t i, uint32_t founds, uint64_t incarnation, int64_t drift_ppm)
{
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, &mare__lease, N);
    mare_coord_setup_set(&setup, "lease_us", TERM);
    mare_coord_setup_set(&setup, "beat_us", BEAT);
    mare_coord_setup_set(&setup, "drift_ppm", drift_ppm);
    setup.self = i;
    setup.founds = founds;
    setup.incarnation = incarnation;
    assert_true(mare_coord_size(&setup) <= sizeof w->memory[i]);
    w->member[i] = mare_coord_init(w->memory[i], sizeof w->memory[i], &setup);
}

static void step(world *w, uint32_t i, mare_coord_event event)
{
    w->fx =
        (mare_coord_effects){.list = w->list, .room = ROOM, .bytes = w->bytes, .bytes_room = BYTES};
    assert_int_equal(mare_coord_step(w->member[i], &event, &w->fx), MARE_COORD_OK);
    for (uint32_t j = 0; j < w->fx.count; j++) {
        const mare_coord_effect *effect = &w->fx.list[j];
        for (uint32_t to = 0; to < N; to++) {
            bool goes = effect->kind == MARE_COORD_BROADCAST ||
                        (effect->kind == MARE_COORD_SEND && effect->peer == to);
            if (to == i || !goes)
                continue;
            assert_true(effect->length <= sizeof w->out[i][to].bytes);
            memcpy(w->out[i][to].bytes, effect->data, effect->length);
            w->out[i][to].length = effect->length;
        }
    }
}

// Whether the last step said this of a member.
static bool said(const world *w, mare_coord_effect_kind kind, uint32_t peer)
{
    for (uint32_t i = 0; i < w->fx.count; i++) {
        if (w->fx.list[i].kind == kind && w->fx.list[i].peer == peer)
            return true;
    }
    return false;
}

static void give(world *w, uint32_t from, uint32_t to, letter what, uint64_t now_us)
{
    step(w, to,
         (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                            .peer = from,
                            .now_us = now_us,
                            .data = what.bytes,
                            .length = what.length});
}

static void beat(world *w, uint32_t i, uint64_t now_us)
{
    step(w, i, (mare_coord_event){.kind = MARE_COORD_TIMER, .number = 0, .now_us = now_us});
}

// A beat of one member, and what another answers: both arrive at once.
static void ask(world *w, uint32_t who, uint32_t whom, uint64_t now_us)
{
    beat(w, who, now_us);
    give(w, who, whom, w->out[who][whom], now_us);
    give(w, whom, who, w->out[whom][who], now_us);
}

static mare_coord_message read_letter(const letter *what)
{
    mare_coord_message message;
    assert_int_equal(mare_coord_decode(&mare__lease, what->bytes, what->length, &message),
                     MARE_COORD_OK);
    return message;
}

static uint64_t epoch_of(const world *w, uint32_t i)
{
    return mare__lease_epoch(w->member[i], NULL);
}

// All have begun, and nobody has heard of anybody.
static void begin(world *w)
{
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < N; i++) {
        make(w, i, 1, 0, 0);
        step(w, i, (mare_coord_event){.kind = MARE_COORD_START, .now_us = 1});
    }
}

static void who_has_lost_it_begins_another_number(void **state)
{
    world w;
    (void)state;
    begin(&w);
    ask(&w, 0, 1, 2);
    uint64_t first = epoch_of(&w, 0);
    assert_true(first > 0);
    beat(&w, 0, TERM + 10);
    assert_true(said(&w, MARE_COORD_UNLEASED, 0));
    assert_int_equal(epoch_of(&w, 0), 0);
    ask(&w, 0, 1, TERM + 20);
    assert_true(epoch_of(&w, 0) > first);
}

// Also a term that is no number of milliseconds: whose clock is slow by d counts no more than what
// a term is by one that is fast by d, (1 - d) / (1 + d) of it, which is more than 1 - 2d.
static void no_part_of_a_term_is_forgotten(void **state)
{
    (void)state;
    static const struct {
        int64_t term_us, drift_ppm;
    } cases[] = {{199999, 400000}, {200999, 300000}, {1999, 400000}, {100, 400000}, {3000999, 999}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        world w = {0};
        mare_coord_setup setup;
        uint64_t until_us;
        mare_coord_setup_init(&setup, &mare__lease, 1);
        mare_coord_setup_set(&setup, "lease_us", cases[i].term_us);
        mare_coord_setup_set(&setup, "beat_us", 10);
        mare_coord_setup_set(&setup, "drift_ppm", cases[i].drift_ppm);
        setup.founds = 1;
        w.member[0] = mare_coord_init(w.memory[0], sizeof w.memory[0], &setup);
        step(&w, 0, (mare_coord_event){.kind = MARE_COORD_START, .now_us = 1});
        assert_true(mare__lease_epoch(w.member[0], &until_us));
        int64_t sure_us = cases[i].term_us * (1000000 - 2 * cases[i].drift_ppm) / 1000000;
        assert_true(until_us <= 1 + (uint64_t)sure_us);
    }
}

static void it_is_shorter_by_the_drift_of_both_clocks(void **state)
{
    world w;
    uint64_t until_us;
    (void)state;
    begin(&w);
    make(&w, 0, 1, 0, 10000); // one in a hundred
    step(&w, 0, (mare_coord_event){.kind = MARE_COORD_START, .now_us = 1});
    ask(&w, 0, 1, 1000);
    assert_true(mare__lease_epoch(w.member[0], &until_us) > 0);
    assert_in_range(until_us, 1000 + TERM / 2, 1000 + TERM - 2 * TERM / 100);
}

static void who_does_not_get_it_in_time_begins_another_number(void **state)
{
    world w;
    (void)state;
    begin(&w);
    uint64_t first = read_letter(&w.out[0][1]).field[EPOCH];
    beat(&w, 0, TERM / 2);
    assert_int_equal(read_letter(&w.out[0][1]).field[EPOCH], first);
    beat(&w, 0, TERM + 10); // nobody has answered
    assert_true(read_letter(&w.out[0][1]).field[EPOCH] > first);
}

// Member 0 had a lease that member 1 knows of, has lost it, and has another one.
static uint64_t twice(world *w, letter *news)
{
    begin(w);
    ask(w, 0, 1, 2);
    give(w, 0, 1, w->out[0][1], 3); // it tells at once that it has it
    uint64_t first = epoch_of(w, 0);
    ask(w, 0, 2, TERM + 10);
    assert_true(epoch_of(w, 0) > first);
    *news = w->out[0][1];
    return first;
}

static void what_is_of_an_older_epoch_is_not_listened_to(void **state)
{
    world w;
    letter news;
    (void)state;
    uint64_t first = twice(&w, &news), second = epoch_of(&w, 0);
    assert_true(mare__lease_hear(w.member[1], 0, first, &w.fx));
    give(&w, 0, 1, news, TERM + 20);
    assert_false(mare__lease_hear(w.member[1], 0, first, &w.fx));
    assert_true(mare__lease_hear(w.member[1], 0, second, &w.fx));
}

static void a_newer_epoch_says_that_the_older_is_over(void **state)
{
    world w;
    letter news;
    (void)state;
    twice(&w, &news);
    assert_false(mare__lease_is_down(w.member[1], 0));
    give(&w, 0, 1, news, TERM + 20);
    assert_true(said(&w, MARE_COORD_DOWN, 0)); // of the first …
    assert_true(said(&w, MARE_COORD_UP, 0));   // … and then it is there by the second
}

// Member 1 has heard member 0 once, at 2, and has called it silent in an answer to member 2.
static void call_silent(world *w, letter *renew)
{
    begin(w);
    *renew = w->out[0][1];
    give(w, 0, 1, *renew, 2);
    beat(w, 2, TERM + 10);
    give(w, 2, 1, w->out[2][1], TERM + 10);
    assert_int_equal(read_letter(&w->out[1][2]).kind, ANSWER);
    assert_true(read_letter(&w->out[1][2]).tail_length > 0);
}

static void who_was_called_silent_is_promised_nothing_for_a_lease(void **state)
{
    world w;
    letter renew;
    (void)state;
    call_silent(&w, &renew);
    give(&w, 0, 1, renew, TERM + 20); // a copy that comes late
    assert_int_equal(read_letter(&w.out[1][0]).field[GIVEN], NOTHING);
    give(&w, 0, 1, renew, 2 * TERM + 20);
    assert_true(read_letter(&w.out[1][0]).field[GIVEN] != NOTHING);
}

// That another has called a member silent holds for a lease from when it was asked.
static void what_another_has_said_is_believed_for_a_lease(void **state)
{
    world w;
    letter renew;
    (void)state;
    for (int late = 0; late <= 1; late++) {
        begin(&w);
        renew = w.out[0][1];
        give(&w, 0, 1, renew, 2);
        give(&w, 0, 2, renew, 2);
        give(&w, 0, 1, renew, TERM - 10); // member 1 hears it longer
        ask(&w, 1, 2, TERM + 10);         // member 2 has called it silent by then
        assert_false(mare__lease_is_down(w.member[1], 0));
        if (late)
            give(&w, 0, 1, renew, 2 * TERM - 10);
        beat(&w, 1, (late ? 3 : 2) * TERM); // now member 1 finds the same
        assert_int_equal(mare__lease_is_down(w.member[1], 0), !late);
    }
}

static void a_lease_begins_with_all_being_alive(void **state)
{
    world w;
    (void)state;
    begin(&w);
    letter renew = w.out[0][1];
    give(&w, 0, 1, renew, 2);
    give(&w, 0, 2, renew, 2);
    ask(&w, 1, 2, TERM + 10);
    assert_true(mare__lease_is_down(w.member[1], 0));
    assert_true(epoch_of(&w, 1) > 0);
    // It loses its lease. Member 0, which has none yet, is heard of again.
    beat(&w, 1, 3 * TERM);
    assert_int_equal(epoch_of(&w, 1), 0);
    beat(&w, 0, 3 * TERM);
    give(&w, 0, 1, w.out[0][1], 3 * TERM + 1);
    give(&w, 0, 2, w.out[0][2], 3 * TERM + 1);
    assert_true(mare__lease_is_down(w.member[1], 0));
    ask(&w, 1, 2, 3 * TERM + 10);
    assert_true(epoch_of(&w, 1) > 0);
    assert_false(mare__lease_is_down(w.member[1], 0));
}

static void who_starts_again_promises_nothing_for_a_lease(void **state)
{
    world w;
    (void)state;
    begin(&w);
    make(&w, 1, 0, 1, 0); // its second life
    step(&w, 1, (mare_coord_event){.kind = MARE_COORD_START, .now_us = 10});
    give(&w, 0, 1, w.out[0][1], 20);
    assert_int_equal(read_letter(&w.out[1][0]).field[GIVEN], NOTHING);
    beat(&w, 0, TERM / 2);
    give(&w, 0, 1, w.out[0][1], TERM + 20);
    assert_true(read_letter(&w.out[1][0]).field[GIVEN] != NOTHING);
}

static void start_again(world *w, uint32_t i, uint64_t now_us)
{
    make(w, i, 0, 1, 0);
    step(w, i, (mare_coord_event){.kind = MARE_COORD_START, .now_us = now_us});
}

// Member 0 may have a promise of member 1's earlier life until that life's promises have run out.
// What member 2 was asked before that time says nothing about it.
static void who_starts_again_does_not_judge_by_early_answers(void **state)
{
    enum { AGAIN = 2 * TERM };
    world w;
    (void)state;
    begin(&w);
    start_again(&w, 1, AGAIN);
    ask(&w, 1, 2, AGAIN + 10); // member 2 calls member 0 silent
    assert_true(read_letter(&w.out[2][1]).tail_length > 0);
    beat(&w, 1, AGAIN + TERM + 5); // and so does member 1 now
    assert_false(mare__lease_is_down(w.member[1], 0));
    ask(&w, 1, 2, AGAIN + TERM + 6);
    assert_true(mare__lease_is_down(w.member[1], 0));
    assert_true(mare__lease_was_silent(w.member[1], 0));
}

// That an epoch is over says nothing of a later one, which this member's earlier life knew.
static void to_begin_another_epoch_is_not_to_be_silent(void **state)
{
    enum { AGAIN = 3 * TERM };
    world w;
    (void)state;
    begin(&w);
    ask(&w, 0, 1, 2);
    letter first = w.out[0][1]; // it has a lease
    beat(&w, 0, TERM + 10);
    letter second = w.out[0][1]; // it has lost it, and asks for another
    start_again(&w, 1, AGAIN);
    give(&w, 0, 1, first, AGAIN + 1);
    give(&w, 0, 1, second, AGAIN + 2);
    assert_true(said(&w, MARE_COORD_DOWN, 0));
    assert_true(mare__lease_is_down(w.member[1], 0));
    assert_false(mare__lease_was_silent(w.member[1], 0));
    ask(&w, 1, 2, AGAIN + TERM + 20);
    assert_true(said(&w, MARE_COORD_DOWN, 0)); // once more: now nothing of it is left
    assert_true(mare__lease_was_silent(w.member[1], 0));
}

// Member 0 votes; 1 and 2 have joined, so they have no vote.
static void begin_with_joiners(world *w)
{
    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < N; i++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, &mare__lease, 1);
        mare_coord_setup_set(&setup, "lease_us", TERM);
        mare_coord_setup_set(&setup, "beat_us", BEAT);
        setup.capacity = N;
        setup.self = i;
        setup.founds = i == 0;
        setup.incarnation = i > 0;
        w->member[i] = mare_coord_init(w->memory[i], sizeof w->memory[i], &setup);
        assert_non_null(w->member[i]);
        for (uint32_t peer = 1; peer < N; peer++) {
            if (peer != i)
                step(w, i, (mare_coord_event){.kind = MARE_COORD_JOIN, .peer = peer});
        }
        step(w, i, (mare_coord_event){.kind = MARE_COORD_START, .now_us = 1});
    }
}

// Nobody asks it for anything. It hears of the others by the answers of voters.
static void who_has_no_vote_hears_by_answers_who_is_down_and_up(void **state)
{
    world w;
    (void)state;
    begin_with_joiners(&w);
    ask(&w, 2, 0, TERM);
    give(&w, 2, 0, w.out[2][0], TERM); // it tells at once that it has it
    ask(&w, 1, 0, 2 * TERM);
    assert_true(said(&w, MARE_COORD_DOWN, 2)); // the voter has not heard of it for a term
    for (uint64_t now_us = 2 * TERM + BEAT; now_us < 4 * TERM; now_us += BEAT) {
        ask(&w, 1, 0, now_us); // it holds its own all the time
        assert_false(said(&w, MARE_COORD_UP, 2));
    }
    ask(&w, 2, 0, 4 * TERM + 1);
    assert_true(epoch_of(&w, 2) > 0); // it has another one, but the voter does not know
    ask(&w, 1, 0, 4 * TERM + 2);
    assert_false(said(&w, MARE_COORD_UP, 2));
    give(&w, 2, 0, w.out[2][0], 4 * TERM + 3);
    ask(&w, 1, 0, 4 * TERM + 4);
    assert_true(said(&w, MARE_COORD_UP, 2));
    assert_false(mare__lease_is_down(w.member[1], 2));
    assert_true(epoch_of(&w, 1) > 0);
    assert_int_equal(w.out[1][2].length, 0);
    assert_int_equal(w.out[2][1].length, 0);
}

// A late list says that somebody holds a lease that is known to be over.
static void an_answer_does_not_bring_back_what_is_over(void **state)
{
    world w;
    (void)state;
    begin_with_joiners(&w);
    ask(&w, 2, 0, TERM);
    give(&w, 2, 0, w.out[2][0], TERM);
    ask(&w, 1, 0, 2 * TERM);
    assert_true(mare__lease_is_down(w.member[1], 2));
    mare_coord_message message = read_letter(&w.out[0][1]);
    assert_int_equal(message.tail_length, 16); // that member 2 is silent
    letter late = w.out[0][1];
    late.bytes[late.length - 16 + 4] = 1; // that it holds a lease
    give(&w, 0, 1, late, 2 * TERM + 1);
    assert_true(mare__lease_is_down(w.member[1], 2));
}

// A hundred members of which seven vote, and all messages of one beat.
enum { CROWD = 100, VOTERS = 7, BEATS = 20 };

typedef struct crowd {
    mare_coord *member[CROWD];
    mare_coord_effects fx;
    uint32_t received[CROWD], sent;
} crowd;

// Steps one, and at once all who receive what it sends.
static void crowd_step(crowd *c, uint32_t i, mare_coord_event event)
{
    letter out[2 * CROWD];
    uint32_t to[2 * CROWD], count = 0;
    assert_int_equal(mare_coord_step(c->member[i], &event, &c->fx), MARE_COORD_OK);
    assert_int_equal(c->fx.lost, 0);
    for (uint32_t j = 0; j < c->fx.count; j++) {
        const mare_coord_effect *effect = &c->fx.list[j];
        assert_int_not_equal(effect->kind, MARE_COORD_BROADCAST);
        assert_int_not_equal(effect->kind, MARE_COORD_DOWN);
        if (effect->kind != MARE_COORD_SEND || event.kind == MARE_COORD_START)
            continue; // not all have begun then
        assert_true(effect->length <= sizeof out[0].bytes);
        memcpy(out[count].bytes, effect->data, effect->length);
        out[count].length = effect->length;
        to[count++] = effect->peer;
    }
    for (uint32_t j = 0; j < count; j++) {
        c->sent++;
        c->received[to[j]]++;
        crowd_step(c, to[j],
                   (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                      .peer = i,
                                      .now_us = event.now_us,
                                      .data = out[j].bytes,
                                      .length = out[j].length});
    }
}

static void crowd_begin(crowd *c)
{
    *c = (crowd){0};
    for (uint32_t i = 0; i < CROWD; i++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, &mare__lease, VOTERS);
        mare_coord_setup_set(&setup, "lease_us", TERM);
        mare_coord_setup_set(&setup, "beat_us", BEAT);
        setup.capacity = CROWD;
        setup.self = i;
        setup.founds = i < VOTERS;
        setup.incarnation = 1;
        size_t size = mare_coord_size(&setup);
        c->member[i] = mare_coord_init(malloc(size), size, &setup);
        if (i == 0) {
            mare_coord_room(&setup, &c->fx.room, &c->fx.bytes_room);
            c->fx.list = malloc(c->fx.room * sizeof *c->fx.list);
            c->fx.bytes = malloc(c->fx.bytes_room);
        }
        for (uint32_t peer = VOTERS; peer < CROWD; peer++) {
            if (peer != i)
                crowd_step(c, i, (mare_coord_event){.kind = MARE_COORD_JOIN, .peer = peer});
        }
    }
}

static void a_beat_of_many_costs_what_their_voters_cost(void **state)
{
    crowd c;
    (void)state;
    crowd_begin(&c);
    for (uint32_t beats = 0; beats <= BEATS; beats++) {
        for (uint32_t i = 0; i < CROWD; i++) {
            mare_coord_event event = {.kind = beats ? MARE_COORD_TIMER : MARE_COORD_START,
                                      .now_us = 1 + beats * BEAT + i};
            if (beats == 2 && i == 0) {
                c.sent = 0; // all have begun, and told that they have a lease
                memset(c.received, 0, sizeof c.received);
            }
            crowd_step(&c, i, event);
        }
    }
    uint32_t counted = BEATS - 1;
    assert_int_equal(c.sent, counted * 2 * VOTERS * (CROWD - 1));
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_true(mare__lease_epoch(c.member[i], NULL) > 0);
        assert_int_equal(c.received[i], counted * (i < VOTERS ? CROWD - 1 + VOTERS - 1 : VOTERS));
        free(c.member[i]);
    }
    free(c.fx.list);
    free(c.fx.bytes);
}

UNIT_TESTS(cmocka_unit_test(who_has_lost_it_begins_another_number),
           cmocka_unit_test(it_is_shorter_by_the_drift_of_both_clocks),
           cmocka_unit_test(no_part_of_a_term_is_forgotten),
           cmocka_unit_test(who_does_not_get_it_in_time_begins_another_number),
           cmocka_unit_test(what_is_of_an_older_epoch_is_not_listened_to),
           cmocka_unit_test(a_newer_epoch_says_that_the_older_is_over),
           cmocka_unit_test(who_was_called_silent_is_promised_nothing_for_a_lease),
           cmocka_unit_test(what_another_has_said_is_believed_for_a_lease),
           cmocka_unit_test(a_lease_begins_with_all_being_alive),
           cmocka_unit_test(who_starts_again_promises_nothing_for_a_lease),
           cmocka_unit_test(who_starts_again_does_not_judge_by_early_answers),
           cmocka_unit_test(to_begin_another_epoch_is_not_to_be_silent),
           cmocka_unit_test(who_has_no_vote_hears_by_answers_who_is_down_and_up),
           cmocka_unit_test(an_answer_does_not_bring_back_what_is_over),
           cmocka_unit_test(a_beat_of_many_costs_what_their_voters_cost))
