/* SPDX-License-Identifier: MIT */

/* Clocks that agree among themselves: Berkeley's algorithm on the example of the book, message by
 * message, and reference broadcasts. */

#include "support/unit.h"

#include <mare/coord.h>
#include <mare/coord_time.h>

#include "coord/time/fixed.h"

#include <stdlib.h>
#include <string.h>

#define S MARE_TIME_SECOND
#define MS (S / 1000)
#define US (S / 1000000)
#define MINUTE (60 * S)
#define GROUP 3

/* Berkeley ------------------------------------------------------------------------------------ */

enum { ELECTION, ASK, TELL, MOVE }; /* as the algorithm lists its messages */

/* Three machines, a network without delay, and a local clock of its own for each. */
typedef struct room {
    mare_coord *machine[GROUP];
    uint64_t local_us[GROUP];
    mare_coord_effects effects;
    int alive[GROUP];
    struct {
        uint32_t from, to, length;
        uint8_t data[80];
    } wire[256];
    uint32_t head, tail;
    int timer[GROUP][MARE_COORD_TIMERS];
    int64_t moved_ns[GROUP]; /* what MOVE said to each */
    uint32_t told, moves;    /* how many TELL and MOVE were delivered */
    mare_coord_message ask;  /* the last ASK */
} room;

static void make(room *r, const uint64_t *local_us, int64_t agree_us)
{
    memset(r, 0, sizeof *r);
    for (uint32_t i = 0; i < GROUP; i++) {
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, mare_coord_find("berkeley"), GROUP);
        setup.self = i;
        setup.founds = 1;
        assert_int_equal(mare_coord_setup_set(&setup, "repair", 0), MARE_COORD_OK);
        assert_int_equal(mare_coord_setup_set(&setup, "agree_us", agree_us), MARE_COORD_OK);
        mare_coord_room(&setup, &r->effects.room, &r->effects.bytes_room);
        r->machine[i] =
            mare_coord_init(malloc(mare_coord_size(&setup)), mare_coord_size(&setup), &setup);
        r->local_us[i] = local_us[i];
        r->alive[i] = 1;
    }
    r->effects.list = calloc(r->effects.room, sizeof *r->effects.list);
    r->effects.bytes = malloc(r->effects.bytes_room);
}

static void unmake(room *r)
{
    for (uint32_t i = 0; i < GROUP; i++)
        free(r->machine[i]);
    free(r->effects.list);
    free(r->effects.bytes);
}

static void post(room *r, uint32_t from, uint32_t to, const mare_coord_effect *e)
{
    assert_true(e->length <= sizeof r->wire[0].data && r->tail < 256);
    r->wire[r->tail].from = from;
    r->wire[r->tail].to = to;
    r->wire[r->tail].length = e->length;
    memcpy(r->wire[r->tail++].data, e->data, e->length);
}

static void step(room *r, uint32_t who, mare_coord_event event)
{
    event.now_us = r->local_us[who];
    assert_int_equal(mare_coord_step(r->machine[who], &event, &r->effects), MARE_COORD_OK);
    for (uint32_t i = 0; i < r->effects.count; i++) {
        const mare_coord_effect *e = &r->effects.list[i];
        for (uint32_t to = 0; to < GROUP; to++) {
            if (to != who &&
                ((e->kind == MARE_COORD_SEND && e->peer == to) || e->kind == MARE_COORD_BROADCAST))
                post(r, who, to, e);
        }
        if (e->kind == MARE_COORD_SET_TIMER || e->kind == MARE_COORD_CANCEL_TIMER)
            r->timer[who][e->timer] = e->kind == MARE_COORD_SET_TIMER;
    }
}

static void deliver(room *r)
{
    for (; r->head != r->tail; r->head++) {
        mare_coord_message message;
        const mare_coord_algorithm *berkeley = mare_coord_find("berkeley");
        uint32_t to = r->wire[r->head].to;
        assert_int_equal(
            mare_coord_decode(berkeley, r->wire[r->head].data, r->wire[r->head].length, &message),
            MARE_COORD_OK);
        if (message.kind == MOVE) {
            r->moved_ns[to] = (int64_t)message.field[2];
            r->moves++;
        }
        r->told += message.kind == TELL;
        if (message.kind == ASK)
            r->ask = message;
        if (r->alive[to])
            step(r, to,
                 (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                    .peer = r->wire[r->head].from,
                                    .data = r->wire[r->head].data,
                                    .length = r->wire[r->head].length});
    }
    r->head = r->tail = 0;
}

static void pass(room *r, int64_t span_ns)
{
    for (uint32_t i = 0; i < GROUP; i++)
        r->local_us[i] += (uint64_t)(span_ns / 1000);
}

static void run_out(room *r, uint32_t who, uint32_t timer)
{
    assert_true(r->timer[who][timer]);
    r->timer[who][timer] = 0;
    step(r, who, (mare_coord_event){.kind = MARE_COORD_TIMER, .number = timer});
}

static mare_time_reading read_clock(room *r, uint32_t who)
{
    mare_time_clock copy = *mare_berkeley_clock(r->machine[who], NULL, NULL);
    return mare_time_clock_read(&copy, (int64_t)r->local_us[who] * 1000);
}

static int64_t heading(room *r, uint32_t who)
{
    return mare_time_clock_target(mare_berkeley_clock(r->machine[who], NULL, NULL),
                                  (int64_t)r->local_us[who] * 1000)
        .time_ns;
}

static void begin(room *r)
{
    for (uint32_t i = 0; i < GROUP; i++)
        step(r, i, (mare_coord_event){.kind = MARE_COORD_START});
    step(r, 0, (mare_coord_event){.kind = MARE_COORD_ELECT});
    deliver(r);
}

#define AT(hour, minute) ((uint64_t)((hour)*60 + (minute)) * 60 * 1000000)
static const uint64_t figure_us[GROUP] = {AT(3, 25), AT(2, 50), AT(3, 0)}; /* 2 is the daemon */

/* Figure 6.7: 3:00, 2:50 and 3:25 end at 3:05, with +5, +15 and −20 minutes. */
static void the_figure(void **state)
{
    (void)state;
    room r;
    make(&r, figure_us, 3600 * INT64_C(1000000));
    begin(&r);
    run_out(&r, 2, 0); /* the daemon's first round */
    deliver(&r);
    assert_int_equal(r.moved_ns[0], -20 * MINUTE);
    assert_int_equal(r.moved_ns[1], 15 * MINUTE);
    for (uint32_t i = 0; i < GROUP; i++)
        assert_int_equal(heading(&r, i), (int64_t)AT(3, 5) * 1000);
    /* Nobody jumps: at first they show what they showed, and say how wrong that is. */
    assert_int_equal(read_clock(&r, 0).time_ns, (int64_t)AT(3, 25) * 1000);
    assert_in_range(read_clock(&r, 0).error_ns, 20 * MINUTE, 20 * MINUTE + 10 * US);
    assert_in_range(read_clock(&r, 2).error_ns, 5 * MINUTE, 5 * MINUTE + 10 * US);
    /* At a tenth, 20 minutes take 200. Then all agree. */
    pass(&r, 199 * MINUTE);
    assert_true(read_clock(&r, 0).time_ns > read_clock(&r, 2).time_ns);
    pass(&r, MINUTE);
    for (uint32_t i = 0; i < GROUP; i++)
        assert_int_equal(read_clock(&r, i).time_ns, (int64_t)AT(6, 25) * 1000);
    unmake(&r);
}

/* One clock is 35 minutes from the others: it is moved, but does not count. */
static void an_outlier_does_not_count(void **state)
{
    (void)state;
    room r;
    make(&r, figure_us, 15 * 60 * INT64_C(1000000));
    begin(&r);
    run_out(&r, 2, 0);
    deliver(&r);
    for (uint32_t i = 0; i < GROUP; i++) /* the mean of 3:00 and 2:50 */
        assert_int_equal(heading(&r, i), (int64_t)AT(2, 55) * 1000);
    unmake(&r);
}

/* The daemon dies; 1 is elected in its place and goes on with those that are left. */
static void the_daemon_dies(void **state)
{
    (void)state;
    room r;
    mare_coord_view view;
    make(&r, figure_us, 3600 * INT64_C(1000000));
    begin(&r);
    r.alive[2] = 0;
    step(&r, 0, (mare_coord_event){.kind = MARE_COORD_ELECT});
    deliver(&r);
    run_out(&r, 1, 2); /* 2 does not answer: timer 0 of the election */
    deliver(&r);
    mare_coord_look(r.machine[0], &view);
    assert_int_equal(view.leader, 1);
    run_out(&r, 1, 0); /* its first round; 2 is not heard of, so the time for answers runs out */
    deliver(&r);
    mare_coord_look(r.machine[1], &view);
    assert_string_equal(view.phase, "collecting");
    run_out(&r, 1, 1);
    deliver(&r);
    /* 3:25 and 2:50: in the middle are 3:07:30. */
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(heading(&r, i), (int64_t)AT(3, 7) * 1000 + 30 * S);
    unmake(&r);
}

/* A message that nobody of the group has just sent: late, or repeated. */
static void inject(room *r, uint32_t from, uint32_t to, uint32_t kind, uint64_t third)
{
    uint8_t bytes[80];
    mare_coord_message message = {.kind = kind,
                                  .field = {r->ask.field[0], r->ask.field[1], third, 0}};
    uint32_t length = mare_coord_encode(mare_coord_find("berkeley"), &message, bytes, sizeof bytes);
    step(r, to,
         (mare_coord_event){
             .kind = MARE_COORD_MESSAGE, .peer = from, .data = bytes, .length = length});
}

/* A copy of ASK is not answered: the bound counts from the first answer. */
static void a_question_is_answered_once(void **state)
{
    (void)state;
    room r;
    make(&r, figure_us, 3600 * INT64_C(1000000));
    begin(&r);
    run_out(&r, 2, 0);
    deliver(&r);
    assert_int_equal(r.told, 2);
    pass(&r, S);
    inject(&r, 2, 0, ASK, r.ask.field[2]);
    deliver(&r);
    assert_int_equal(r.told, 2);
    int64_t before_ns = heading(&r, 0);
    inject(&r, 2, 0, MOVE, (uint64_t)MINUTE); /* nor is MOVE taken twice */
    assert_int_equal(heading(&r, 0), before_ns);
    unmake(&r);
}

/* A MOVE is the daemon's to send. */
static void only_the_daemon_moves_others(void **state)
{
    (void)state;
    room r;
    make(&r, figure_us, 3600 * INT64_C(1000000));
    begin(&r);
    r.alive[1] = 0; /* so that the round is not over */
    run_out(&r, 2, 0);
    deliver(&r);
    assert_int_equal(r.moves, 0);
    int64_t before_ns = heading(&r, 0);
    inject(&r, 1, 0, MOVE, (uint64_t)MINUTE);
    assert_int_equal(heading(&r, 0), before_ns);
    inject(&r, 2, 0, MOVE, (uint64_t)MINUTE);
    assert_int_equal(heading(&r, 0), before_ns + MINUTE);
    unmake(&r);
}

/* 1 has told daemon 2, which is silent then; 1 takes over and moves itself. What 2 still has to say
 * of that old round rests on a clock that is no more. */
static void an_old_daemon_speaks_late(void **state)
{
    (void)state;
    room r;
    make(&r, figure_us, 3600 * INT64_C(1000000));
    begin(&r);
    run_out(&r, 2, 0);
    r.alive[2] = 0; /* ASK is under way, the answers find nobody */
    deliver(&r);
    mare_coord_message old = r.ask;
    step(&r, 1, (mare_coord_event){.kind = MARE_COORD_ELECT});
    deliver(&r);
    run_out(&r, 1, 2);
    deliver(&r);
    run_out(&r, 1, 0);
    deliver(&r);
    r.ask = old;
    int64_t before_ns = heading(&r, 1);
    inject(&r, 2, 1, MOVE, (uint64_t)MINUTE); /* in the middle of its own round */
    assert_int_equal(heading(&r, 1), before_ns);
    run_out(&r, 1, 1);
    deliver(&r);
    before_ns = heading(&r, 1);
    inject(&r, 2, 1, MOVE, (uint64_t)MINUTE); /* and after it */
    assert_int_equal(heading(&r, 1), before_ns);
    unmake(&r);
}

/* 1 leads and collects; 2 comes back and takes the lead. The answer that 1 was waiting for must not
 * make it finish its round. */
static void a_deposed_daemon_moves_nobody(void **state)
{
    (void)state;
    room r;
    make(&r, figure_us, 3600 * INT64_C(1000000));
    begin(&r);
    r.alive[2] = 0;
    step(&r, 1, (mare_coord_event){.kind = MARE_COORD_ELECT});
    deliver(&r);
    run_out(&r, 1, 2);
    deliver(&r);
    r.alive[0] = 0; /* so that nobody answers */
    run_out(&r, 1, 0);
    deliver(&r);
    r.ask = (mare_coord_message){0};
    mare_coord_view view;
    mare_coord_look(r.machine[1], &view);
    assert_string_equal(view.phase, "collecting");
    uint64_t epoch = view.epoch;
    r.alive[0] = r.alive[2] = 1;
    step(&r, 2, (mare_coord_event){.kind = MARE_COORD_START}); /* it is back, and calls */
    deliver(&r);
    mare_coord_look(r.machine[1], &view);
    assert_int_equal(view.leader, 2);
    int64_t before_ns = heading(&r, 1);
    r.ask.field[0] = epoch;
    r.ask.field[1] = 1; /* its first round */
    inject(&r, 0, 1, TELL, (uint64_t)(60 * MINUTE));
    inject(&r, 2, 1, TELL, (uint64_t)(60 * MINUTE));
    deliver(&r);
    assert_int_equal(heading(&r, 1), before_ns);
    assert_int_equal(r.moves, 0);
    unmake(&r);
}

/* Reference broadcasts ------------------------------------------------------------------------- */

static void products_and_quotients(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    assert_int_equal(mare__mul_div(-7, 5, 3), -11);
    assert_int_equal(mare__mul_div(INT64_MAX, INT64_MAX, INT64_MAX), INT64_MAX);
    assert_int_equal(mare__mul_div(INT64_MAX, 2, 1), INT64_MAX); /* cut */
    for (int i = 0; i < 100000; i++) {
        int64_t a = (int64_t)unit_random(&seed) >> unit_random(&seed) % 63;
        int64_t b = (int64_t)unit_random(&seed) >> unit_random(&seed) % 63;
        uint64_t c = (unit_random(&seed) >> unit_random(&seed) % 63) | 1;
        __int128 exact = (__int128)a * b / (__int128)c;
        if (exact > INT64_MAX)
            exact = INT64_MAX;
        if (exact < -INT64_MAX)
            exact = -INT64_MAX;
        assert_true(mare__mul_div(a, b, c) == (int64_t)exact);
    }
}

/* The mean of the source: Σ(T_p,k − T_q,k) / M. */
static void the_mean_of_pairs(void **state)
{
    (void)state;
    mare_rbs rbs;
    mare_rbs_offset offset;
    mare_rbs_init(&rbs, 10, 0, 0);
    assert_false(mare_rbs_mean(&rbs, 0, &offset));
    static const int64_t p[] = {1000, 2000, 3000, 4000}, q[] = {495, 1505, 2502, 3498};
    for (uint64_t k = 0; k < 4; k++) {
        mare_rbs_hear(&rbs, 100 + k, p[k]);
        mare_rbs_hear(&rbs, 100 + k, p[k] + 77); /* an echo */
        assert_true(mare_rbs_match(&rbs, 100 + k, q[k]));
        assert_false(mare_rbs_match(&rbs, 100 + k, q[k])); /* told twice */
    }
    assert_false(mare_rbs_match(&rbs, 99, 400)); /* not heard here */
    assert_true(mare_rbs_mean(&rbs, 4000, &offset));
    assert_int_equal(offset.pairs, 4);
    assert_int_equal(offset.offset_ns, (505 + 495 + 498 + 502) / 4);
    assert_in_range(offset.error_ns, 10, 13); /* three roundings */
    assert_int_equal(rbs.heard, 4);
}

/* A clock that is 3 s behind and 100 ppm fast: the line finds both, and what it will show. */
static void the_line_of_pairs(void **state)
{
    (void)state;
    mare_rbs rbs;
    mare_rbs_offset offset;
    mare_rbs_init(&rbs, 0, 100000, 0);
    for (int64_t k = 0; k < 2; k++) {
        mare_rbs_hear(&rbs, (uint64_t)k, k * S);
        mare_rbs_match(&rbs, (uint64_t)k, k * S - 3 * S + k * 100 * US);
    }
    assert_false(mare_rbs_line(&rbs, S, &offset)); /* two are too few */
    for (int64_t k = 2; k < 11; k++) {
        mare_rbs_hear(&rbs, (uint64_t)k, k * S);
        mare_rbs_match(&rbs, (uint64_t)k, k * S - 3 * S + k * 100 * US);
    }
    assert_true(mare_rbs_line(&rbs, 60 * S, &offset));
    assert_in_range(-offset.alpha_ppb, 99999, 100001);
    assert_int_equal(offset.origin_ns, 5 * S);
    assert_int_equal(offset.beta_ns, 3 * S - 500 * US);
    int64_t wrong = offset.offset_ns - (3 * S - 6 * MS);
    assert_true(wrong >= -100 && wrong <= 100);
    assert_true((uint64_t)(wrong < 0 ? -wrong : wrong) <= offset.error_ns);
    assert_true(offset.error_ns < US);
    /* The mean is out by the 55 s since its middle, and says so. */
    assert_true(mare_rbs_mean(&rbs, 60 * S, &offset));
    assert_int_equal(offset.offset_ns, 3 * S - 500 * US);
    assert_in_range(offset.error_ns, 2 * 5500 * US, 2 * 5500 * US + 5 * US);
    assert_false(mare_rbs_line(&rbs, 100 * S, &offset)); /* too far from the pairs to say */
}

/* The truth is a line, and every reception is as wrong as it may be: with intervals from
 * nanoseconds to minutes, the bound holds or there is no line. */
static void short_spreads_and_long_ones(void **state)
{
    (void)state;
    uint64_t seed = unit_seed(), lines = 0;
    for (int run = 0; run < 30000; run++) {
        mare_rbs rbs;
        mare_rbs_offset offset;
        uint64_t jitter = unit_random(&seed) % 3 ? unit_random(&seed) % 1000000 : 0;
        int64_t rate = (int64_t)(unit_random(&seed) % 200001) - 100000, t = 0;
        uint64_t step_ns = UINT64_C(1) << unit_random(&seed) % 36;
        int64_t base = (int64_t)(unit_random(&seed) >> 4),
                ahead = (int64_t)(unit_random(&seed) >> 6);
        uint64_t pairs = 3 + unit_random(&seed) % 40;
        mare_rbs_init(&rbs, jitter, 100000, 0);
        for (uint64_t k = 0; k < pairs; k++) {
            t += 1 + (int64_t)(unit_random(&seed) % step_ns);
            int64_t late = unit_random(&seed) % 2 ? (int64_t)jitter : -(int64_t)jitter;
            mare_rbs_hear(&rbs, k, base + t);
            mare_rbs_match(&rbs, k, base + t - ahead - mare__part(t, rate) - late);
        }
        for (int64_t times = 0; times <= 8; times++) {
            int64_t at = t * times;
            if (!mare_rbs_line(&rbs, base + at, &offset))
                continue;
            int64_t wrong = offset.offset_ns - ahead - mare__part(at, rate);
            assert_in_range(mare__size(wrong), 0, offset.error_ns + 1); /* the truth is rounded */
            lines++;
        }
    }
    assert_true(lines > 10000);
}

static void pairs_that_make_no_line(void **state)
{
    (void)state;
    mare_rbs rbs;
    mare_rbs_offset offset;
    mare_rbs_init(&rbs, 0, 0, 0);
    for (uint64_t k = 0; k < 10; k++) {
        mare_rbs_hear(&rbs, k, 7);
        mare_rbs_match(&rbs, k, 8);
    }
    assert_false(mare_rbs_line(&rbs, 7, &offset));
    mare_rbs_hear(&rbs, 20, 8);
    assert_false(mare_rbs_match(&rbs, 20, INT64_MIN));
    assert_false(mare_rbs_match(&rbs, 20, INT64_MAX));
}

static void what_travels_for_broadcasts(void **state)
{
    (void)state;
    mare_rbs_packet packet = {.kind = MARE_RBS_REPORT,
                              .series = UINT64_C(0x0102030405060708),
                              .number = 9,
                              .who = 10,
                              .when_ns = -2,
                              .name = "receiver"},
                    back;
    static const uint8_t by_hand[MARE_RBS_PACKET_BYTES] = {
        'M',  'R',  'B',  'S',  1,    2,    0,    0,    1,   2,   3,   4,   5,   6,   7,   8,
        0,    0,    0,    0,    0,    0,    0,    9,    0,   0,   0,   0,   0,   0,   0,   10,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 'r', 'e', 'c', 'e', 'i', 'v', 'e', 'r'};
    uint8_t bytes[MARE_RBS_PACKET_BYTES];
    mare_rbs_encode(&packet, bytes);
    assert_memory_equal(bytes, by_hand, sizeof bytes);
    assert_true(mare_rbs_decode(bytes, sizeof bytes, &back));
    assert_memory_equal(&packet, &back, sizeof back);
    assert_false(mare_rbs_decode(bytes, sizeof bytes - 1, &back));
    bytes[5] = 3; /* no such kind */
    assert_false(mare_rbs_decode(bytes, sizeof bytes, &back));
    bytes[5] = 1;
    bytes[40] = '"'; /* nothing that would upset a terminal, or a reader of JSON */
    assert_false(mare_rbs_decode(bytes, sizeof bytes, &back));
}

UNIT_TESTS(cmocka_unit_test(the_figure), cmocka_unit_test(an_outlier_does_not_count),
           cmocka_unit_test(the_daemon_dies), cmocka_unit_test(a_question_is_answered_once),
           cmocka_unit_test(only_the_daemon_moves_others),
           cmocka_unit_test(an_old_daemon_speaks_late),
           cmocka_unit_test(a_deposed_daemon_moves_nobody),
           cmocka_unit_test(products_and_quotients), cmocka_unit_test(the_mean_of_pairs),
           cmocka_unit_test(the_line_of_pairs), cmocka_unit_test(short_spreads_and_long_ones),
           cmocka_unit_test(pairs_that_make_no_line), cmocka_unit_test(what_travels_for_broadcasts))
