/* SPDX-License-Identifier: MIT */

/* The server's side of NTP: one question in, one answer out, no state between them. RFC 5905, 9.2
 * (fast_xmit). */

#include "coord/time/fixed.h"

#include <mare/coord_ntp.h>

#include <string.h>

#define OLDEST_VERSION 1
#define VERSION 4
#define UNSURE_NS (16 * MARE__PPB) /* MAXDISP: who is further off has no time */

/* Finds out whether the bytes deserve an answer, and with which key; NULL in `key` for none. */
static int accept(const mare_ntp_server *server, const uint8_t *bytes, uint32_t length,
                  mare_ntp_packet *question, const mare_ntp_key **key)
{
    *key = NULL;
    if (!mare_ntp_decode(bytes, length, question) || question->mode != MARE_NTP_CLIENT ||
        question->version < OLDEST_VERSION || question->version > VERSION)
        return 0;
    if (question->mac_bytes == 0)
        return !server->authenticated_only;
    for (uint32_t i = 0; i < server->key_count; i++) {
        if (mare_ntp_authentic(bytes, question, &server->keys[i])) {
            *key = &server->keys[i];
            return 1;
        }
    }
    return 0;
}

static int64_t utc_of(const mare_ntp_server *server, int64_t time_ns)
{
    return server->leaps ? mare_time_utc_from_tai(server->leaps, time_ns, NULL) : time_ns;
}

static uint8_t leap_of(const mare_ntp_server *server, int64_t utc_ns)
{
    if (!server->leaps)
        return (uint8_t)server->leap;
    int change = mare_time_leap_today(server->leaps, utc_ns);
    return change > 0   ? MARE_NTP_LEAP_INSERT
           : change < 0 ? MARE_NTP_LEAP_DELETE
                        : MARE_NTP_LEAP_NONE;
}

/* What makes an answer of a question: everything but who and when we are. */
static mare_ntp_packet answer_to(const mare_ntp_server *server, const mare_ntp_packet *question)
{
    return (mare_ntp_packet){.leap = MARE_NTP_LEAP_UNKNOWN,
                             .version = question->version,
                             .mode = MARE_NTP_SERVER,
                             .poll = question->poll,
                             .precision = server->precision,
                             .origin = question->transmit};
}

uint32_t mare_ntp_serve(const mare_ntp_server *server, const uint8_t *bytes, uint32_t length,
                        mare_time_reading received, mare_time_reading leaves,
                        uint8_t out[MARE_NTP_PACKET_BYTES])
{
    mare_ntp_packet question;
    const mare_ntp_key *key;
    if (!accept(server, bytes, length, &question, &key))
        return 0;
    mare_ntp_packet answer = answer_to(server, &question);
    /* While a correction is slewed in the first reading is the worse one. */
    uint64_t error_ns = received.error_ns > leaves.error_ns ? received.error_ns : leaves.error_ns;
    answer.receive = mare_ntp_stamp(utc_of(server, received.time_ns));
    answer.transmit = mare_ntp_stamp(utc_of(server, leaves.time_ns));
    answer.reference =
        server->reference_ns ? mare_ntp_stamp(utc_of(server, server->reference_ns)) : 0;
    if (error_ns < UNSURE_NS && server->stratum < MARE_NTP_UNSYNCHRONISED) {
        uint64_t way = server->root_delay_ns / 2 < error_ns ? server->root_delay_ns / 2 : error_ns;
        answer.leap = leap_of(server, utc_of(server, leaves.time_ns));
        answer.stratum = (uint8_t)server->stratum;
        answer.reference_id = server->reference_id;
        answer.root_delay = mare_ntp_short(2 * way);
        answer.root_dispersion = mare_ntp_short(error_ns - way);
    }
    return mare_ntp_encode(&answer, key, out);
}

uint32_t mare_ntp_refuse(const mare_ntp_server *server, const uint8_t *bytes, uint32_t length,
                         const char code[4], uint8_t out[MARE_NTP_PACKET_BYTES])
{
    mare_ntp_packet question;
    const mare_ntp_key *key;
    if (!accept(server, bytes, length, &question, &key))
        return 0;
    mare_ntp_packet answer = answer_to(server, &question);
    answer.reference_id = mare_ntp_letters(code);
    answer.receive = answer.transmit = question.transmit;
    return mare_ntp_encode(&answer, key, out);
}
