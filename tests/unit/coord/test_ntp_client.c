/* SPDX-License-Identifier: MIT */

/* NTP: what a client believes, what it drops, and what it makes of the rest. */

#include "support/unit.h"

#include "ntp.h"

#include <stdlib.h>
#include <string.h>

#define US (S / 1000000)

/* It leaves at 100 and takes 12 by two clocks that differ by 10, and comes back after 2 more. */
static void theta_and_delta(void **state)
{
    (void)state;
    mare_ntp_exchange e = mare_ntp_measure(100, 112, 115, 107);
    assert_int_equal(e.offset_ns, 10); /* ((112 − 100) + (115 − 107)) / 2 */
    assert_int_equal(e.delay_ns, 2);   /* ((112 − 100) + (107 − 115)) / 2 */
    /* Far apart: the sum of the two differences would not fit into 64 bits. */
    e = mare_ntp_measure(0, INT64_C(6000000000000000000), INT64_C(6000000000000000002), 6);
    assert_int_equal(e.offset_ns, INT64_C(5999999999999999998));
    assert_int_equal(e.delay_ns, 2);
}

typedef struct talk {
    mare_ntp_client client;
    mare_ntp_packet answer; /* a good one to the last question, to be spoilt */
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
    uint64_t nonce;
    int64_t local_ns;
} talk;

static void begin(talk *t, const mare_ntp_key *key)
{
    *t = (talk){.nonce = 1000};
    mare_ntp_client_init(&t->client, &(mare_ntp_setup){.drift_ppb = 15000,
                                                       .precision_ns = 1,
                                                       .near_ns = NOW,
                                                       .poll_least = 4,
                                                       .poll_most = 10,
                                                       .key = key});
}

/* A question at `local_ns`, and the makings of the answer of a server whose clock is ahead of the
 * local one by `offset_ns`: `out_ns` there, nothing to do, and `back_ns` back. */
static void ask(talk *t, int64_t offset_ns, int64_t out_ns, int64_t back_ns)
{
    mare_ntp_client_ask(&t->client, t->local_ns, ++t->nonce, t->bytes);
    int64_t server_ns = t->local_ns + out_ns + offset_ns;
    t->answer = (mare_ntp_packet){.version = 4,
                                  .mode = MARE_NTP_SERVER,
                                  .stratum = 2,
                                  .precision = -30,
                                  .origin = t->nonce,
                                  .receive = mare_ntp_stamp(server_ns),
                                  .transmit = mare_ntp_stamp(server_ns)};
    t->local_ns += out_ns + back_ns;
}

static mare_ntp_verdict take(talk *t, const mare_ntp_key *key)
{
    uint32_t length = mare_ntp_encode(&t->answer, key, t->bytes);
    return mare_ntp_client_take(&t->client, t->local_ns, t->bytes, length);
}

static void the_question(void **state)
{
    (void)state;
    talk t;
    begin(&t, NULL);
    uint8_t expected[48] = {0x23, 0, 4};
    assert_int_equal(mare_ntp_client_ask(&t.client, 5, 0x0a0b0c0d, t.bytes), 48);
    expected[44] = 0x0a, expected[45] = 0x0b, expected[46] = 0x0c, expected[47] = 0x0d;
    assert_memory_equal(t.bytes, expected, 48);
}

static void an_answer_is_taken(void **state)
{
    (void)state;
    talk t;
    mare_ntp_estimate estimate;
    begin(&t, NULL);
    assert_false(mare_ntp_client_best(&t.client, 0, &estimate));
    ask(&t, NOW, 3 * MS, 5 * MS);
    t.answer.root_delay = mare_ntp_short(2 * MS);
    t.answer.root_dispersion = mare_ntp_short(4 * MS);
    assert_int_equal(take(&t, NULL), MARE_NTP_TAKEN);
    assert_true(mare_ntp_client_best(&t.client, t.local_ns, &estimate));
    /* The truth is 8 ms after NOW; the two ways differ by 2 ms, so half of that is the error. */
    assert_int_equal(estimate.time_ns, NOW + 8 * MS - MS);
    assert_int_equal(estimate.delay_ns, 4 * MS);
    /* δ + root delay / 2 + dispersion, each in units of 2^-16 s, and 8 ms × 15 ppm. */
    assert_in_range(estimate.error_ns, (4 + 1 + 4) * MS, (4 + 1 + 4) * MS + 2 * 15260 + 200);
    assert_int_equal(estimate.stratum, 2);
    /* 100 s later the bound has grown by 1.5 ms. */
    uint64_t before_ns = estimate.error_ns;
    assert_true(mare_ntp_client_best(&t.client, t.local_ns + 100 * S, &estimate));
    assert_int_equal(estimate.time_ns, NOW + 7 * MS + 100 * S);
    assert_in_range(estimate.error_ns - before_ns, 1500 * US, 1500 * US + 50);
    assert_int_equal(t.client.reach, 1);
}

static void what_does_not_answer_is_dropped(void **state)
{
    (void)state;
    talk t;
    begin(&t, NULL);
    ask(&t, NOW, MS, MS);
    t.answer.origin++;
    assert_int_equal(take(&t, NULL), MARE_NTP_BOGUS);
    t.answer.origin = 0;
    assert_int_equal(take(&t, NULL), MARE_NTP_BOGUS);
    t.answer.origin = t.nonce;
    t.answer.mode = MARE_NTP_CLIENT;
    assert_int_equal(take(&t, NULL), MARE_NTP_MALFORMED);
    t.answer.mode = MARE_NTP_SERVER;
    t.answer.version = 5;
    assert_int_equal(take(&t, NULL), MARE_NTP_MALFORMED);
    t.answer.version = 4;
    assert_int_equal(mare_ntp_client_take(&t.client, 0, t.bytes, 47), MARE_NTP_MALFORMED);
    assert_int_equal(t.client.count, 0);
    assert_int_equal(take(&t, NULL), MARE_NTP_TAKEN); /* none of those used the question up */
    assert_int_equal(take(&t, NULL), MARE_NTP_DUPLICATE);
    mare_ntp_packet late = t.answer;
    ask(&t, NOW, MS, MS);
    late.transmit++;
    mare_ntp_packet fresh = t.answer;
    t.answer = late; /* a second answer to the question before */
    assert_int_equal(take(&t, NULL), MARE_NTP_BOGUS);
    t.answer = fresh;
    assert_int_equal(take(&t, NULL), MARE_NTP_TAKEN);
    assert_int_equal(t.client.count, 2);
    assert_int_equal(t.client.verdicts[MARE_NTP_BOGUS], 3);
}

static mare_ntp_verdict spoilt(void (*spoil)(mare_ntp_packet *))
{
    talk t;
    begin(&t, NULL);
    ask(&t, NOW, MS, MS);
    spoil(&t.answer);
    mare_ntp_verdict verdict = take(&t, NULL);
    assert_int_equal(t.client.count, 0);
    return verdict;
}

static void stratum_16(mare_ntp_packet *p)
{
    p->stratum = 16;
}

static void stratum_0_without_text(mare_ntp_packet *p)
{
    p->stratum = 0;
}

static void leap_unknown(mare_ntp_packet *p)
{
    p->leap = MARE_NTP_LEAP_UNKNOWN;
}

static void far_from_the_truth(mare_ntp_packet *p)
{
    p->root_dispersion = mare_ntp_short(16 * S);
}

static void no_transmit(mare_ntp_packet *p)
{
    p->transmit = 0;
}

static void sent_before_received(mare_ntp_packet *p)
{
    p->transmit -= UINT64_C(1) << 32;
}

/* It claims to have held the question for a second, when all in all 2 ms have passed. */
static void held_too_long(mare_ntp_packet *p)
{
    p->transmit += UINT64_C(1) << 32;
}

static void servers_that_cannot_be_used(void **state)
{
    (void)state;
    assert_int_equal(spoilt(stratum_16), MARE_NTP_UNFIT);
    assert_int_equal(spoilt(stratum_0_without_text), MARE_NTP_UNFIT);
    assert_int_equal(spoilt(leap_unknown), MARE_NTP_UNFIT);
    assert_int_equal(spoilt(far_from_the_truth), MARE_NTP_UNFIT);
    assert_int_equal(spoilt(no_transmit), MARE_NTP_UNFIT);
    assert_int_equal(spoilt(sent_before_received), MARE_NTP_ABSURD);
    assert_int_equal(spoilt(held_too_long), MARE_NTP_ABSURD);
}

static void kisses(void **state)
{
    (void)state;
    talk t;
    begin(&t, NULL);
    assert_int_equal(mare_ntp_client_wait_ns(&t.client), 16 * S);
    for (int64_t wait_s = 32; wait_s <= 1024; wait_s *= 2) {
        ask(&t, NOW, MS, MS);
        t.answer.stratum = 0;
        t.answer.reference_id = mare_ntp_letters("RATE");
        assert_int_equal(take(&t, NULL), MARE_NTP_KISS);
        assert_int_equal(mare_ntp_client_wait_ns(&t.client), wait_s * S);
    }
    ask(&t, NOW, MS, MS);
    t.answer.stratum = 0;
    t.answer.reference_id = mare_ntp_letters("RATE");
    take(&t, NULL);
    assert_int_equal(mare_ntp_client_wait_ns(&t.client), 1024 * S); /* poll_most */
    ask(&t, NOW, MS, MS);
    t.answer.stratum = 0;
    t.answer.reference_id = mare_ntp_letters("DENY");
    t.answer.origin--; /* anybody could send that */
    assert_int_equal(take(&t, NULL), MARE_NTP_BOGUS);
    assert_int_equal(t.client.refused, 0);
    t.answer.origin++;
    assert_int_equal(take(&t, NULL), MARE_NTP_KISS);
    assert_int_equal(mare_ntp_client_ask(&t.client, 0, 1, t.bytes), 0);
    assert_int_equal(t.client.count, 0);
}

static void keys(void **state)
{
    (void)state;
    mare_ntp_key other = friendly, foe = friendly;
    other.id++;
    foe.secret[15] ^= 1;
    talk t;
    begin(&t, &friendly);
    ask(&t, NOW, MS, MS);
    assert_int_equal(take(&t, NULL), MARE_NTP_FORGED);
    assert_int_equal(take(&t, &other), MARE_NTP_FORGED);
    assert_int_equal(take(&t, &foe), MARE_NTP_FORGED);
    mare_ntp_encode(&t.answer, &friendly, t.bytes);
    t.bytes[33] ^= 0x40; /* the receive stamp, in flight */
    assert_int_equal(mare_ntp_client_take(&t.client, t.local_ns, t.bytes, 68), MARE_NTP_FORGED);
    t.bytes[33] ^= 0x40;
    assert_int_equal(mare_ntp_client_take(&t.client, t.local_ns, t.bytes, 52), MARE_NTP_FORGED);
    assert_int_equal(take(&t, &friendly), MARE_NTP_TAKEN);
    assert_int_equal(mare_ntp_client_ask(&t.client, t.local_ns, 5, t.bytes), 68);
    mare_ntp_packet question;
    assert_true(mare_ntp_decode(t.bytes, 68, &question));
    assert_true(mare_ntp_authentic(t.bytes, &question, &friendly));
}

/* Eight pairs (θ, δ); θ of the smallest δ. Each way out takes `out`, each way back 1 ms, so that
 * the smaller δ the closer θ. */
static void the_filter_takes_the_smallest_delta(void **state)
{
    (void)state;
    static const int out_ms[] = {9, 5, 14, 3, 8, 21, 6, 11};
    talk t;
    mare_ntp_estimate estimate;
    begin(&t, NULL);
    for (int i = 0; i < 8; i++) {
        ask(&t, NOW, out_ms[i] * MS, MS);
        assert_int_equal(take(&t, NULL), MARE_NTP_TAKEN);
    }
    mare_ntp_client_best(&t.client, t.local_ns, &estimate);
    assert_int_equal(estimate.samples, 8);
    assert_int_equal(estimate.delay_ns, 2 * MS); /* (3 + 1) / 2 */
    assert_int_equal(estimate.time_ns - t.local_ns, NOW + (3 - 1) * MS / 2);
    for (int i = 0; i < 4; i++) { /* four more push it out */
        ask(&t, NOW, 20 * MS, MS);
        take(&t, NULL);
    }
    mare_ntp_client_best(&t.client, t.local_ns, &estimate);
    assert_int_equal(estimate.delay_ns, 7 * MS / 2); /* (6 + 1) / 2 */
    /* δ grows with age: 15 ppm over 1,000 s are 15 ms, and a fresh δ of 10.5 ms is better. */
    t.local_ns += 1000 * S;
    ask(&t, NOW, 20 * MS, MS);
    take(&t, NULL);
    mare_ntp_client_best(&t.client, t.local_ns, &estimate);
    assert_int_equal(estimate.delay_ns, 21 * MS / 2);
    assert_true(estimate.age_ns == 0);
}

/* The question leaves in era 0, the answer in era 1. */
static void the_night_in_2036(void **state)
{
    (void)state;
    int64_t end_ns = INT64_C(2085978496) * S; /* 7 February 2036, 06:28:16 */
    mare_ntp_client client;
    mare_ntp_estimate estimate;
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
    assert_true(mare_ntp_stamp(end_ns) == 0);
    assert_int_equal(mare_ntp_stamp(end_ns - S) >> 32, UINT32_MAX);
    for (int side = -1; side <= 1; side++) {
        mare_ntp_client_init(&client, &(mare_ntp_setup){.near_ns = end_ns + side * 1000000 * S});
        mare_ntp_client_ask(&client, 0, 77, bytes);
        mare_ntp_packet answer = {.version = 4,
                                  .mode = MARE_NTP_SERVER,
                                  .stratum = 1,
                                  .precision = -30,
                                  .origin = 77,
                                  .receive = mare_ntp_stamp(end_ns - MS),
                                  .transmit = mare_ntp_stamp(end_ns + MS)};
        mare_ntp_encode(&answer, NULL, bytes);
        assert_int_equal(mare_ntp_client_take(&client, 4 * MS, bytes, 48), MARE_NTP_TAKEN);
        assert_true(mare_ntp_client_best(&client, 4 * MS, &estimate));
        assert_int_equal(estimate.time_ns, end_ns + 2 * MS);
    }
}

/* With the table of leap seconds the estimate is TAI, and near a leap second nothing is taken. */
static void in_tai(void **state)
{
    (void)state;
    int64_t new_year_ns = INT64_C(1483228800) * S; /* 2017 */
    for (int64_t after_s = -3; after_s <= 3; after_s++) {
        mare_ntp_client client;
        mare_ntp_estimate estimate;
        uint8_t bytes[MARE_NTP_PACKET_BYTES];
        mare_ntp_client_init(
            &client, &(mare_ntp_setup){.near_ns = new_year_ns, .leaps = mare_time_leaps_known()});
        mare_ntp_client_ask(&client, 0, 77, bytes);
        uint64_t stamp = mare_ntp_stamp(new_year_ns + after_s * S);
        mare_ntp_packet answer = {.version = 4,
                                  .mode = MARE_NTP_SERVER,
                                  .stratum = 1,
                                  .precision = -30,
                                  .origin = 77,
                                  .receive = stamp,
                                  .transmit = stamp};
        mare_ntp_encode(&answer, NULL, bytes);
        mare_ntp_verdict verdict = mare_ntp_client_take(&client, 0, bytes, 48);
        if (after_s != -3 && after_s != 3) {
            assert_int_equal(verdict, MARE_NTP_AMBIGUOUS);
            continue;
        }
        assert_true(mare_ntp_client_best(&client, 0, &estimate));
        assert_int_equal(estimate.time_ns, new_year_ns + (after_s + (after_s < 0 ? 36 : 37)) * S);
    }
}

/* Counting in UTC through the night of a leap second, asking every 8 s; ways that get a little
 * longer, so that the old samples would be the best. The bound holds at each answer and between
 * them, announced or not. The second may be one that the table knows (2017), one at the end of a
 * month when the table has expired (March 2028, a year with a day more), or, announced, at the end
 * of any day. */
static void through_the_night(int64_t midnight_ns, int first, int64_t begin_s)
{
    for (int step = -1; step <= 1; step += 2) {
        for (int announced = first; announced <= 1; announced++) {
            mare_ntp_client client;
            mare_ntp_client_init(
                &client,
                &(mare_ntp_setup){.drift_ppb = 15000, .precision_ns = 100, .near_ns = midnight_ns});
            /* An inserted second begins at midnight, one left out is the last before it. */
            int64_t leap_ns = step > 0 ? midnight_ns : midnight_ns - S;
            for (int64_t t = midnight_ns - begin_s * S; t < midnight_ns + 60 * S; t += 8 * S) {
                int after = t >= leap_ns;
                int64_t utc_ns = after ? t - step * S : t, way_ns = after ? 12 * MS / 10 : MS;
                uint8_t bytes[MARE_NTP_PACKET_BYTES];
                mare_ntp_client_ask(&client, t, (uint64_t)t, bytes);
                mare_ntp_packet answer = {.version = 4,
                                          .mode = MARE_NTP_SERVER,
                                          .stratum = 1,
                                          .precision = -30,
                                          .root_dispersion = 1,
                                          .origin = (uint64_t)t,
                                          .receive = mare_ntp_stamp(utc_ns + way_ns),
                                          .transmit = mare_ntp_stamp(utc_ns + way_ns)};
                if (announced && !after)
                    answer.leap = step > 0 ? MARE_NTP_LEAP_INSERT : MARE_NTP_LEAP_DELETE;
                mare_ntp_encode(&answer, NULL, bytes);
                assert_int_equal(mare_ntp_client_take(&client, t + 2 * way_ns, bytes, 48),
                                 MARE_NTP_TAKEN);
                for (int64_t look = t + 2 * way_ns; look < t + 8 * S; look += S / 2) {
                    mare_ntp_estimate e;
                    assert_true(mare_ntp_client_best(&client, look, &e));
                    int64_t truth_ns = look >= leap_ns ? look - step * S : look;
                    assert_in_range(llabs(e.time_ns - truth_ns), 0, e.error_ns);
                    /* And it is no wider for long. */
                    if (after || look < leap_ns - S - MS * 10)
                        assert_in_range(e.error_ns, MS, 3 * MS);
                }
            }
        }
    }
}

static void the_bound_holds_across_a_leap_second(void **state)
{
    (void)state;
    /* Answers right before the leap, and some seconds before and after it. */
    for (int64_t begin_s = 33; begin_s <= 36; begin_s++) {
        through_the_night(INT64_C(1483228800) * S, 0, begin_s); /* 1 January 2017 */
        through_the_night(INT64_C(1835481600) * S, 0, begin_s); /* 1 March 2028 */
        through_the_night(INT64_C(1784160000) * S, 1, begin_s); /* 16 July 2026 */
    }
}

/* A night in which nothing can happen costs nothing, and months without an answer cost a second
 * each once the table has expired. */
static void leap_seconds_that_may_have_come(void **state)
{
    (void)state;
    const int64_t day = 86400 * S, june = INT64_C(1782864000) * S; /* 1 July 2026 */
    const int64_t expires = mare_time_leaps_known()->expires_s * S, july = expires + 3 * day;
    assert_int_equal(mare_ntp_leaps_since(june - S, MARE_NTP_LEAP_NONE, june + S), 0);
    assert_int_equal(mare_ntp_leaps_since(june - S, MARE_NTP_LEAP_INSERT, june - 1), 0);
    assert_int_equal(mare_ntp_leaps_since(june - S, MARE_NTP_LEAP_INSERT, june), 1);
    assert_int_equal(mare_ntp_leaps_since(june - S, MARE_NTP_LEAP_DELETE, june + 90 * day), 1);
    assert_int_equal(mare_ntp_leaps_since(june - S, MARE_NTP_LEAP_UNKNOWN, june), 0);
    assert_int_equal(mare_ntp_leaps_since(july - S, MARE_NTP_LEAP_NONE, july - 1), 0);
    assert_int_equal(mare_ntp_leaps_since(july - S, MARE_NTP_LEAP_NONE, july), 1);
    assert_int_equal(mare_ntp_leaps_since(july - S, MARE_NTP_LEAP_INSERT, july), 1);
    assert_int_equal(mare_ntp_leaps_since(july, MARE_NTP_LEAP_NONE, july + 30 * day), 0);
    assert_int_equal(mare_ntp_leaps_since(june, MARE_NTP_LEAP_NONE, july + 62 * day), 3);
    assert_int_equal(mare_ntp_leaps_since(-10 * day - 1, MARE_NTP_LEAP_INSERT, -9 * day), 1);
    assert_int_equal(mare_ntp_leaps_since(-10 * day - 1, MARE_NTP_LEAP_INSERT, -10 * day - 1), 0);
}

/* Who announces nothing, and is so unsure that nothing contradicts: the samples of the day before
 * are gone after an announced leap. */
static void old_samples_do_not_survive_an_announced_leap(void **state)
{
    (void)state;
    const int64_t midnight_ns = INT64_C(1483228800) * S;
    mare_ntp_client client;
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
    mare_ntp_client_init(&client, &(mare_ntp_setup){.near_ns = midnight_ns});
    for (int64_t i = 0; i < 2; i++) {
        mare_ntp_client_ask(&client, i * 20 * S, 7, bytes);
        uint64_t stamp = mare_ntp_stamp(midnight_ns + i * 19 * S - 10 * S);
        mare_ntp_packet answer = {.leap = i ? MARE_NTP_LEAP_NONE : MARE_NTP_LEAP_INSERT,
                                  .version = 4,
                                  .mode = MARE_NTP_SERVER,
                                  .stratum = 1,
                                  .precision = -30,
                                  .root_dispersion = 0x20000, /* 2 s */
                                  .origin = 7,
                                  .receive = stamp,
                                  .transmit = stamp};
        mare_ntp_encode(&answer, NULL, bytes);
        assert_int_equal(mare_ntp_client_take(&client, i * 20 * S + i * MS, bytes, 48),
                         MARE_NTP_TAKEN);
        assert_int_equal(client.count, 1);
    }
}

UNIT_TESTS(cmocka_unit_test(theta_and_delta), cmocka_unit_test(the_question),
           cmocka_unit_test(an_answer_is_taken), cmocka_unit_test(what_does_not_answer_is_dropped),
           cmocka_unit_test(servers_that_cannot_be_used), cmocka_unit_test(kisses),
           cmocka_unit_test(keys), cmocka_unit_test(the_filter_takes_the_smallest_delta),
           cmocka_unit_test(the_night_in_2036), cmocka_unit_test(in_tai),
           cmocka_unit_test(the_bound_holds_across_a_leap_second),
           cmocka_unit_test(leap_seconds_that_may_have_come),
           cmocka_unit_test(old_samples_do_not_survive_an_announced_leap))
