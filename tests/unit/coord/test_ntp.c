/* SPDX-License-Identifier: MIT */

/* NTP without a network: bytes against RFC 5905, what a client believes and what it drops, what a
 * server answers, and what several servers agree on. */

#include "support/unit.h"

#include <mare/coord_ntp.h>

#include <stdlib.h>
#include <string.h>

#define S MARE_TIME_SECOND
#define MS (S / 1000)
#define US (S / 1000000)
#define NOW (INT64_C(1800000000) * S) /* in 2027 */

static const mare_ntp_key friendly = {.id = 7, .secret = "0123456789abcde"};

/* Stamps -------------------------------------------------------------------------------------- */

/* The dates of RFC 5905, figure 4, that fit into nanoseconds since 1970. */
static void dates_of_the_standard(void **state)
{
    (void)state;
    const struct {
        int64_t unix_s;
        uint64_t stamp_s;
    } dates[] = {{-2208988800 - 86400, 4294880896}, /* 31 December 1899, the end of era −1 */
                 {-2208988800, 0},                  /* 1 January 1900 */
                 {0, 2208988800},                   /* 1970 */
                 {63072000, 2272060800},            /* 1972 */
                 {946598400, 3155587200},           /* 31 December 1999 */
                 {2086041600, 63104}};              /* 8 February 2036, the first day of era 1 */
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        assert_int_equal(mare_ntp_stamp(dates[i].unix_s * S), dates[i].stamp_s << 32);
        for (int64_t years = -60; years <= 60; years += 30) {
            int64_t near_ns = dates[i].unix_s * S + years * 31557600 * S;
            assert_int_equal(mare_ntp_unstamp(dates[i].stamp_s << 32, near_ns),
                             dates[i].unix_s * S);
        }
    }
    assert_int_equal(mare_ntp_stamp(S / 2), UINT64_C(2208988800) << 32 | 0x80000000);
}

static void stamps_come_back_exactly(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int i = 0; i < 200000; i++) {
        int64_t utc_ns = (int64_t)(unit_random(&seed) >> 2) - INT64_MAX / 4; /* 1897 … 2043 */
        int64_t apart_ns = (int64_t)(unit_random(&seed) % (UINT64_C(2100000000) * S));
        assert_int_equal(mare_ntp_unstamp(mare_ntp_stamp(utc_ns), utc_ns + apart_ns), utc_ns);
        assert_int_equal(mare_ntp_unstamp(mare_ntp_stamp(utc_ns), utc_ns - apart_ns), utc_ns);
    }
}

static void short_spans_are_never_too_short(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    assert_int_equal(mare_ntp_short(0), 0);
    assert_int_equal(mare_ntp_short(1), 1);
    assert_int_equal(mare_ntp_short(S), 0x10000);
    assert_int_equal(mare_ntp_short(3 * S / 2), 0x18000);
    assert_int_equal(mare_ntp_short(MARE_TIME_UNKNOWN), UINT32_MAX);
    assert_int_equal(mare_ntp_unshort(0x18000), 3 * S / 2);
    for (int i = 0; i < 100000; i++) {
        uint64_t span_ns = unit_random(&seed) % (65536 * UINT64_C(999999999));
        uint64_t back_ns = mare_ntp_unshort(mare_ntp_short(span_ns));
        assert_in_range(back_ns, span_ns, span_ns + 15260); /* 2^-16 s */
    }
}

/* Packets ------------------------------------------------------------------------------------- */

/* Written out by hand from the figure of section 7.3. */
static const uint8_t by_hand[48] = {
    0x24,                                           /* no leap, version 4, mode 4 */
    0x02, 0x06, 0xe9,                               /* stratum 2, poll 6, precision −23 */
    0x00, 0x00, 0x80, 0x00,                         /* root delay 0.5 s */
    0x00, 0x01, 0x40, 0x00,                         /* root dispersion 1.25 s */
    0xc0, 0x00, 0x02, 0x01,                         /* 192.0.2.1 */
    0x83, 0xaa, 0x7e, 0x80, 0x40, 0x00, 0x00, 0x00, /* 1970 and a quarter of a second */
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* origin */
    0x83, 0xaa, 0x7e, 0x81, 0x00, 0x00, 0x00, 0x00, /* received a second after 1970 */
    0x83, 0xaa, 0x7e, 0x81, 0x80, 0x00, 0x00, 0x00, /* sent half a second later */
};

static void a_packet_byte_by_byte(void **state)
{
    (void)state;
    mare_ntp_packet packet;
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
    assert_true(mare_ntp_decode(by_hand, sizeof by_hand, &packet));
    assert_int_equal(packet.leap, 0);
    assert_int_equal(packet.version, 4);
    assert_int_equal(packet.mode, MARE_NTP_SERVER);
    assert_int_equal(packet.stratum, 2);
    assert_int_equal(packet.poll, 6);
    assert_int_equal(packet.precision, -23);
    assert_int_equal(mare_ntp_unshort(packet.root_delay), S / 2);
    assert_int_equal(mare_ntp_unshort(packet.root_dispersion), 5 * S / 4);
    assert_int_equal(packet.reference_id, 0xc0000201);
    assert_int_equal(mare_ntp_unstamp(packet.reference, 0), S / 4);
    assert_true(packet.origin == UINT64_C(0x0102030405060708));
    assert_int_equal(mare_ntp_unstamp(packet.receive, 0), S);
    assert_int_equal(mare_ntp_unstamp(packet.transmit, 0), 3 * S / 2);
    assert_int_equal(packet.mac_bytes, 0);
    assert_int_equal(mare_ntp_encode(&packet, NULL, bytes), 48);
    assert_memory_equal(bytes, by_hand, 48);
}

static void what_may_follow_the_header(void **state)
{
    (void)state;
    mare_ntp_packet packet;
    uint8_t bytes[200] = {0};
    const int macs[] = {0, 4, 20, 24};
    for (size_t i = 0; i < 4; i++) {
        uint32_t mac = (uint32_t)macs[i];
        assert_true(mare_ntp_decode(bytes, 48 + mac, &packet));
        assert_int_equal(packet.mac_bytes, mac);
        bytes[48 + 3] = 28; /* an extension field of 28 bytes goes before it */
        assert_true(mare_ntp_decode(bytes, 48 + 28 + mac, &packet));
        assert_int_equal(packet.mac_at, 76);
        assert_int_equal(packet.mac_bytes, mac);
        bytes[48 + 3] = 0;
    }
    assert_false(mare_ntp_decode(bytes, 47, &packet));
    assert_false(mare_ntp_decode(bytes, 48 + 28, &packet)); /* a field of length 0 */
    bytes[48 + 3] = 32;
    assert_false(mare_ntp_decode(bytes, 48 + 28, &packet)); /* longer than what is there */
    bytes[48 + 3] = 18;
    assert_false(mare_ntp_decode(bytes, 48 + 18, &packet)); /* not a multiple of four */
}

static void arbitrary_bytes_are_survived(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    mare_ntp_server server = {.stratum = 1, .keys = &friendly, .key_count = 1};
    mare_ntp_client client;
    mare_ntp_client_init(&client, &(mare_ntp_setup){.near_ns = NOW, .key = &friendly});
    for (int i = 0; i < 300000; i++) {
        uint8_t bytes[128], out[MARE_NTP_PACKET_BYTES];
        uint32_t length = (uint32_t)(unit_random(&seed) % sizeof bytes);
        for (uint32_t k = 0; k < length; k++)
            bytes[k] = (uint8_t)(unit_random(&seed) % 3 ? unit_random(&seed) : 0);
        mare_time_reading now = {.time_ns = (int64_t)unit_random(&seed),
                                 .error_ns = unit_random(&seed)};
        mare_ntp_serve(&server, bytes, length, now, now, out);
        mare_ntp_client_ask(&client, i, unit_random(&seed), out);
        assert_int_not_equal(mare_ntp_client_take(&client, i, bytes, length), MARE_NTP_TAKEN);
    }
}

/* RFC 4493, section 4. */
static void cmac_as_in_the_standard(void **state)
{
    (void)state;
    static const uint8_t key[16] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                                    0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
    static const uint8_t message[64] = {
        0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e, 0x11, 0x73,
        0x93, 0x17, 0x2a, 0xae, 0x2d, 0x8a, 0x57, 0x1e, 0x03, 0xac, 0x9c, 0x9e, 0xb7,
        0x6f, 0xac, 0x45, 0xaf, 0x8e, 0x51, 0x30, 0xc8, 0x1c, 0x46, 0xa3, 0x5c, 0xe4,
        0x11, 0xe5, 0xfb, 0xc1, 0x19, 0x1a, 0x0a, 0x52, 0xef, 0xf6, 0x9f, 0x24, 0x45,
        0xdf, 0x4f, 0x9b, 0x17, 0xad, 0x2b, 0x41, 0x7b, 0xe6, 0x6c, 0x37, 0x10};
    static const struct {
        uint32_t length;
        uint8_t mac[16];
    } cases[] = {{0,
                  {0xbb, 0x1d, 0x69, 0x29, 0xe9, 0x59, 0x37, 0x28, 0x7f, 0xa3, 0x7d, 0x12, 0x9b,
                   0x75, 0x67, 0x46}},
                 {16,
                  {0x07, 0x0a, 0x16, 0xb4, 0x6b, 0x4d, 0x41, 0x44, 0xf7, 0x9b, 0xdd, 0x9d, 0xd0,
                   0x4a, 0x28, 0x7c}},
                 {40,
                  {0xdf, 0xa6, 0x67, 0x47, 0xde, 0x9a, 0xe6, 0x30, 0x30, 0xca, 0x32, 0x61, 0x14,
                   0x97, 0xc8, 0x27}},
                 {64,
                  {0x51, 0xf0, 0xbe, 0xbf, 0x7e, 0x3b, 0x9d, 0x92, 0xfc, 0x49, 0x74, 0x17, 0x79,
                   0x36, 0x3c, 0xfe}}};
    for (size_t i = 0; i < 4; i++) {
        uint8_t mac[16];
        mare_ntp_cmac(key, message, cases[i].length, mac);
        assert_memory_equal(mac, cases[i].mac, 16);
    }
}

/* The client ---------------------------------------------------------------------------------- */

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
 * them, announced or not: without an announcement, from the first answer after the leap on. */
static void the_bound_holds_across_a_leap_second(void **state)
{
    (void)state;
    const int64_t midnight_ns = INT64_C(1483228800) * S;
    for (int step = -1; step <= 1; step += 2) {
        for (int announced = 0; announced <= 1; announced++) {
            mare_ntp_client client;
            mare_ntp_client_init(
                &client,
                &(mare_ntp_setup){.drift_ppb = 15000, .precision_ns = 100, .near_ns = midnight_ns});
            /* An inserted second begins at midnight, one left out is the last before it. */
            int64_t leap_ns = step > 0 ? midnight_ns : midnight_ns - S;
            for (int64_t t = midnight_ns - 33 * S; t < midnight_ns + 60 * S; t += 8 * S) {
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
                    if (announced || after || look < leap_ns)
                        assert_in_range(llabs(e.time_ns - truth_ns), 0, e.error_ns);
                    /* And it is no wider for long. */
                    if (after || look < leap_ns - S - MS * 10)
                        assert_in_range(e.error_ns, MS, 3 * MS);
                }
            }
        }
    }
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

/* Several servers ----------------------------------------------------------------------------- */

static mare_ntp_estimate says(int64_t ms, int64_t error_ms, uint32_t stratum)
{
    return (mare_ntp_estimate){
        .time_ns = NOW + ms * MS, .error_ns = (uint64_t)(error_ms * MS), .stratum = stratum};
}

static void an_outlier_is_left_out(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 10, 2), says(5000, 1, 1), says(4, 10, 3)};
    assert_true(mare_ntp_select(e, 3, 1, &choice));
    assert_int_equal(choice.outliers, 2);
    assert_int_equal(choice.survivors, 5);
    assert_int_equal(choice.peer, 0);
    /* [−10, 10] and [−6, 14] overlap in [−6, 10]: their mean is 2, and 8 to either side. */
    assert_int_equal(choice.estimate.time_ns, NOW + 2 * MS);
    assert_int_equal(choice.estimate.error_ns, 8 * MS);
    assert_int_equal(choice.estimate.stratum, 2);
}

static void no_majority_no_time(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate two[] = {says(0, 10, 2), says(100, 10, 2)};
    mare_ntp_estimate four[] = {says(0, 10, 2), says(1, 10, 2), says(100, 10, 2), says(101, 9, 2)};
    assert_false(mare_ntp_select(two, 2, 0, &choice));
    assert_false(mare_ntp_select(four, 4, 1, &choice));
    assert_false(mare_ntp_select(two, 0, 0, &choice));
    assert_true(mare_ntp_select(two, 1, 0, &choice)); /* one alone is believed */
    assert_int_equal(choice.estimate.error_ns, 10 * MS);
    assert_false(mare_ntp_select(two, 1, 1, &choice)); /* but not if it may lie */
    two[1] = says(20, 10, 2);                          /* they touch in a point */
    assert_true(mare_ntp_select(two, 2, 0, &choice));
    assert_int_equal(choice.estimate.time_ns, NOW + 10 * MS);
    assert_int_equal(choice.estimate.error_ns, 0);
}

/* The truth is 0. Two are right, and a liar overlaps one edge of both: the region of all three does
 * not contain the truth, the bound must. */
static void a_liar_at_the_edge(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(9, 10, 2), says(8, 10, 2), says(17, 1, 2)};
    assert_true(mare_ntp_select(e, 3, 1, &choice));
    assert_true(choice.estimate.time_ns - (int64_t)choice.estimate.error_ns <= NOW);
}

/* Two pairs of the three agree: the narrower agreement is believed. */
static void the_narrowest_of_equal_agreements(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 10, 2), says(17, 12, 2), says(-11, 2, 2)};
    assert_true(mare_ntp_select(e, 3, 1, &choice)); /* [5, 10] and [−10, −9] */
    assert_int_equal(choice.outliers, 2);
    /* The bound reaches over both. */
    assert_true(choice.estimate.time_ns - (int64_t)choice.estimate.error_ns <= NOW - 10 * MS);
    assert_true(choice.estimate.time_ns + (int64_t)choice.estimate.error_ns >= NOW + 10 * MS);
}

/* Any intervals, fewer than half of them wrong: the truth is within the bound. */
static void the_truth_is_within_the_bound(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    for (int run = 0; run < 100000; run++) {
        mare_ntp_estimate e[MARE_NTP_SERVERS_MAX];
        mare_ntp_choice choice;
        uint32_t count = 1 + (uint32_t)(unit_random(&seed) % MARE_NTP_SERVERS_MAX);
        uint32_t most = (count - 1) / 2, liars = (uint32_t)(unit_random(&seed) % (most + 1));
        for (uint32_t i = 0; i < count; i++) {
            int64_t error = 1 + (int64_t)(unit_random(&seed) % 1000);
            int64_t off = (int64_t)(unit_random(&seed) % (uint64_t)(2 * error + 1)) - error;
            if (i < liars)
                off = (int64_t)(unit_random(&seed) % 4001) - 2000;
            e[i] = (mare_ntp_estimate){.time_ns = NOW + off,
                                       .error_ns = (uint64_t)error,
                                       .jitter_ns = unit_random(&seed) % 100,
                                       .stratum = 1 + (uint32_t)(unit_random(&seed) % 15)};
        }
        assert_true(mare_ntp_select(e, count, most, &choice));
        if (count > 2 * most + 1 && unit_random(&seed) % 2) /* an honest one has not answered */
            assert_true(mare_ntp_select(e, count - 1, most, &choice));
        int64_t wrong = choice.estimate.time_ns - NOW;
        assert_true((uint64_t)(wrong < 0 ? -wrong : wrong) <= choice.estimate.error_ns);
        assert_true(choice.survivors >> choice.peer & 1);
        assert_int_equal(choice.survivors & choice.outliers, 0);
    }
}

/* Five agree, but one of them is at the far end of its wide interval: it is put aside, and the mean
 * is that of those close together. */
static void the_cluster_puts_aside_who_scatters(void **state)
{
    (void)state;
    mare_ntp_choice choice;
    mare_ntp_estimate e[] = {says(0, 20, 2), says(1, 20, 2), says(-1, 20, 2), says(2, 20, 2),
                             says(19, 20, 1)};
    assert_true(mare_ntp_select(e, 5, 2, &choice));
    assert_int_equal(choice.outliers, 0);
    assert_int_equal(choice.survivors & 16, 0);
    assert_in_range(choice.estimate.time_ns, NOW - MS, NOW + 2 * MS);
    for (int i = 0; i < 5; i++)
        e[i].jitter_ns = 50 * MS; /* nobody is steadier than that: all are kept */
    assert_true(mare_ntp_select(e, 5, 2, &choice));
    assert_int_equal(choice.survivors, 31);
    assert_int_equal(choice.peer, 4);
}

/* The rule of the source: who is at k + 1 or above adjusts to one at k, and is then at k + 1. */
static void strata(void **state)
{
    (void)state;
    uint32_t own = MARE_NTP_UNSYNCHRONISED;
    static const uint32_t met[] = {16, 4, 5, 2, 3, 1}, becomes[] = {16, 5, 5, 3, 3, 2};
    for (int i = 0; i < 6; i++) {
        if (mare_ntp_follows(own, met[i]))
            own = met[i] + 1;
        assert_int_equal(own, becomes[i]);
    }
    assert_true(mare_ntp_follows(2, 1)); /* still the same server */
    assert_false(mare_ntp_follows(2, 2));
}

/* The server ---------------------------------------------------------------------------------- */

static void the_answer(void **state)
{
    (void)state;
    mare_ntp_server server = {.stratum = 2,
                              .reference_id = 0xc0000201,
                              .precision = -23,
                              .reference_ns = S / 4,
                              .root_delay_ns = S / 2};
    uint8_t question[48] = {0x23, 0, 6}, out[MARE_NTP_PACKET_BYTES];
    memcpy(question + 40, by_hand + 24, 8);
    mare_time_reading received = {S, 3 * S / 2}, leaves = {3 * S / 2, S};
    assert_int_equal(mare_ntp_serve(&server, question, 48, received, leaves, out), 48);
    assert_memory_equal(out, by_hand, 48); /* 0.5 / 2 + 1.25 = 1.5, the worse of the errors */
    question[0] = 0x1b;                    /* version 3 */
    assert_int_equal(mare_ntp_serve(&server, question, 48, received, leaves, out), 48);
    assert_int_equal(out[0], 0x1c);
}

static void what_gets_no_answer(void **state)
{
    (void)state;
    mare_ntp_server server = {.stratum = 1, .keys = &friendly, .key_count = 1};
    mare_time_reading now = {NOW, MS};
    mare_ntp_packet packet = {.version = 4, .mode = MARE_NTP_CLIENT, .transmit = 5};
    uint8_t bytes[MARE_NTP_PACKET_BYTES], out[MARE_NTP_PACKET_BYTES];
    for (uint8_t mode = 0; mode < 8; mode++) {
        packet.mode = mode;
        mare_ntp_encode(&packet, NULL, bytes);
        assert_int_equal(mare_ntp_serve(&server, bytes, 48, now, now, out), mode == 3 ? 48 : 0);
    }
    packet.mode = MARE_NTP_CLIENT;
    assert_int_equal(mare_ntp_encode(&packet, &friendly, bytes), 68);
    assert_int_equal(mare_ntp_serve(&server, bytes, 68, now, now, out), 68);
    mare_ntp_packet answer;
    assert_true(mare_ntp_decode(out, 68, &answer));
    assert_true(mare_ntp_authentic(out, &answer, &friendly));
    bytes[60] ^= 1;
    assert_int_equal(mare_ntp_serve(&server, bytes, 68, now, now, out), 0);
    assert_int_equal(mare_ntp_serve(&server, bytes, 48, now, now, out), 48);
    server.authenticated_only = 1;
    assert_int_equal(mare_ntp_serve(&server, bytes, 48, now, now, out), 0);
}

/* What a client makes of a server that has no time, or does not want to give it. */
static void a_server_without_time(void **state)
{
    (void)state;
    mare_ntp_server server = {.stratum = MARE_NTP_UNSYNCHRONISED, .precision = -23};
    mare_time_reading unknown = {NOW, MARE_TIME_UNKNOWN}, known = {NOW, MS};
    talk t;
    uint8_t out[MARE_NTP_PACKET_BYTES];
    begin(&t, NULL);
    mare_ntp_client_ask(&t.client, 0, 1, t.bytes);
    assert_int_equal(mare_ntp_serve(&server, t.bytes, 48, known, known, out), 48);
    assert_int_equal(mare_ntp_client_take(&t.client, 0, out, 48), MARE_NTP_UNFIT);
    server.stratum = 1;
    mare_ntp_client_ask(&t.client, 0, 2, t.bytes);
    mare_ntp_serve(&server, t.bytes, 48, unknown, unknown, out);
    assert_int_equal(mare_ntp_client_take(&t.client, 0, out, 48), MARE_NTP_UNFIT);
    mare_ntp_client_ask(&t.client, 0, 3, t.bytes);
    assert_int_equal(mare_ntp_refuse(&server, t.bytes, 48, "RSTR", out), 48);
    assert_int_equal(mare_ntp_client_take(&t.client, 0, out, 48), MARE_NTP_KISS);
    assert_int_equal(t.client.refused, 1);
}

/* What does not fit into the fields, or into what a client accepts, is no time. */
static void a_server_that_is_too_unsure(void **state)
{
    (void)state;
    mare_ntp_server server = {.stratum = 1, .precision = -23, .root_delay_ns = 200000 * S};
    static const int64_t unsure_ns[] = {16 * S - 1, 16 * S, 70000 * S, INT64_MAX};
    uint8_t question[48] = {0x23}, out[MARE_NTP_PACKET_BYTES];
    for (int i = 0; i < 4; i++) {
        mare_time_reading now = {NOW, (uint64_t)unsure_ns[i]};
        mare_ntp_packet answer;
        mare_ntp_serve(&server, question, 48, now, now, out);
        assert_true(mare_ntp_decode(out, 48, &answer));
        assert_int_equal(answer.leap, i ? MARE_NTP_LEAP_UNKNOWN : MARE_NTP_LEAP_NONE);
        assert_int_equal(answer.stratum, i ? 0 : 1);
    }
}

static void the_day_before_a_leap_second(void **state)
{
    (void)state;
    int64_t new_year_ns = INT64_C(1483228800) * S;
    mare_ntp_server server = {.stratum = 1, .leaps = mare_time_leaps_known()};
    uint8_t question[48] = {0x23}, out[MARE_NTP_PACKET_BYTES];
    mare_time_reading evening = {new_year_ns + 36 * S - 3600 * S, MS};
    mare_time_reading morning = {new_year_ns + 37 * S + 3600 * S, MS};
    mare_ntp_packet answer;
    mare_ntp_serve(&server, question, 48, evening, evening, out);
    mare_ntp_decode(out, 48, &answer);
    assert_int_equal(answer.leap, MARE_NTP_LEAP_INSERT);
    assert_true(answer.transmit == mare_ntp_stamp(new_year_ns - 3600 * S));
    mare_ntp_serve(&server, question, 48, morning, morning, out);
    mare_ntp_decode(out, 48, &answer);
    assert_int_equal(answer.leap, MARE_NTP_LEAP_NONE);
    assert_true(answer.transmit == mare_ntp_stamp(new_year_ns + 3600 * S));
}

UNIT_TESTS(cmocka_unit_test(dates_of_the_standard), cmocka_unit_test(stamps_come_back_exactly),
           cmocka_unit_test(short_spans_are_never_too_short),
           cmocka_unit_test(a_packet_byte_by_byte), cmocka_unit_test(what_may_follow_the_header),
           cmocka_unit_test(arbitrary_bytes_are_survived),
           cmocka_unit_test(cmac_as_in_the_standard), cmocka_unit_test(theta_and_delta),
           cmocka_unit_test(the_question), cmocka_unit_test(an_answer_is_taken),
           cmocka_unit_test(what_does_not_answer_is_dropped),
           cmocka_unit_test(servers_that_cannot_be_used), cmocka_unit_test(kisses),
           cmocka_unit_test(keys), cmocka_unit_test(the_filter_takes_the_smallest_delta),
           cmocka_unit_test(the_night_in_2036), cmocka_unit_test(in_tai),
           cmocka_unit_test(the_bound_holds_across_a_leap_second),
           cmocka_unit_test(old_samples_do_not_survive_an_announced_leap),
           cmocka_unit_test(an_outlier_is_left_out), cmocka_unit_test(no_majority_no_time),
           cmocka_unit_test(a_liar_at_the_edge),
           cmocka_unit_test(the_narrowest_of_equal_agreements),
           cmocka_unit_test(the_truth_is_within_the_bound),
           cmocka_unit_test(the_cluster_puts_aside_who_scatters), cmocka_unit_test(strata),
           cmocka_unit_test(the_answer), cmocka_unit_test(what_gets_no_answer),
           cmocka_unit_test(a_server_without_time), cmocka_unit_test(a_server_that_is_too_unsure),
           cmocka_unit_test(the_day_before_a_leap_second))
