/* SPDX-License-Identifier: MIT */

/* NTP: what a server answers, and to whom. */

#include "support/unit.h"

#include "ntp.h"

#include <string.h>

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
    mare_ntp_client client;
    uint8_t bytes[MARE_NTP_PACKET_BYTES], out[MARE_NTP_PACKET_BYTES];
    mare_ntp_client_init(&client, &(mare_ntp_setup){.drift_ppb = 15000, .near_ns = NOW});
    mare_ntp_client_ask(&client, 0, 1, bytes);
    assert_int_equal(mare_ntp_serve(&server, bytes, 48, known, known, out), 48);
    assert_int_equal(mare_ntp_client_take(&client, 0, out, 48), MARE_NTP_UNFIT);
    server.stratum = 1;
    mare_ntp_client_ask(&client, 0, 2, bytes);
    mare_ntp_serve(&server, bytes, 48, unknown, unknown, out);
    assert_int_equal(mare_ntp_client_take(&client, 0, out, 48), MARE_NTP_UNFIT);
    mare_ntp_client_ask(&client, 0, 3, bytes);
    assert_int_equal(mare_ntp_refuse(&server, bytes, 48, "RSTR", out), 48);
    assert_int_equal(mare_ntp_client_take(&client, 0, out, 48), MARE_NTP_KISS);
    assert_int_equal(client.refused, 1);
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
    mare_ntp_server in_utc = {.stratum = 1, .leap = MARE_NTP_LEAP_DELETE}; /* as it was told */
    mare_ntp_serve(&in_utc, question, 48, morning, morning, out);
    assert_int_equal(out[0] >> 6, MARE_NTP_LEAP_DELETE);
    in_utc.stratum = MARE_NTP_UNSYNCHRONISED; /* who has no time has nothing to announce */
    mare_ntp_serve(&in_utc, question, 48, morning, morning, out);
    assert_int_equal(out[0] >> 6, MARE_NTP_LEAP_UNKNOWN);
}

UNIT_TESTS(cmocka_unit_test(the_answer), cmocka_unit_test(what_gets_no_answer),
           cmocka_unit_test(a_server_without_time), cmocka_unit_test(a_server_that_is_too_unsure),
           cmocka_unit_test(the_day_before_a_leap_second))
