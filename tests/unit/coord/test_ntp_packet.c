/* SPDX-License-Identifier: MIT */

/* NTP: stamps and packets, byte by byte against RFC 5905, and their authentication against RFC
 * 4493. */

#include "support/unit.h"

#include "ntp.h"

#include <string.h>

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

UNIT_TESTS(cmocka_unit_test(dates_of_the_standard), cmocka_unit_test(stamps_come_back_exactly),
           cmocka_unit_test(short_spans_are_never_too_short),
           cmocka_unit_test(a_packet_byte_by_byte), cmocka_unit_test(what_may_follow_the_header),
           cmocka_unit_test(arbitrary_bytes_are_survived),
           cmocka_unit_test(cmac_as_in_the_standard))
