// SPDX-License-Identifier: MIT
// Any bytes at an NTP client and at a server: nothing is read beyond the end, what was decoded is
// written again as it was, and whatever a client makes of answers that bring its nonce back, its
// bound is never smaller than the way that the answer took. Each input is a row of packets, each
// with its length and a byte of what to do with it before it.
#include <assert.h>
#include <mare/coord_ntp.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FITTING = 1, WITH_KEY = 2, IN_TAI = 4 };

#define NOW (INT64_C(1800000000) * MARE_TIME_SECOND)

static const mare_ntp_key key = {.id = 1, .secret = "not much secret"};

static void serve(const uint8_t *bytes, uint32_t length)
{
    uint8_t out[MARE_NTP_PACKET_BYTES], again[MARE_NTP_PACKET_BYTES];
    mare_ntp_server server = {.stratum = 2, .precision = -20, .keys = &key, .key_count = 1};
    mare_time_reading now = {.time_ns = NOW, .error_ns = 1000};
    mare_ntp_packet packet;
    if (mare_ntp_decode(bytes, length, &packet)) {
        assert(packet.mac_at + packet.mac_bytes == length);
        mare_ntp_encode(&packet, NULL, again);
        assert(memcmp(again, bytes, MARE_NTP_HEADER_BYTES) == 0);
    }
    uint32_t answer = mare_ntp_serve(&server, bytes, length, now, now, out);
    assert(answer == 0 || answer == MARE_NTP_HEADER_BYTES || answer == MARE_NTP_PACKET_BYTES);
    assert(answer == 0 || memcmp(out + 24, bytes + 40, 8) == 0); // the origin is the question's
}

static void answer(mare_ntp_client *client, int64_t local_ns, uint8_t *bytes, uint32_t length,
                   unsigned how)
{
    uint8_t question[MARE_NTP_PACKET_BYTES];
    mare_ntp_estimate estimate;
    mare_ntp_client_ask(client, local_ns, (uint64_t)local_ns * 31, question);
    if (how & FITTING && length >= MARE_NTP_HEADER_BYTES) {
        bytes[0] = (uint8_t)((bytes[0] & 0xc0) | 0x24);
        memcpy(bytes + 24, question + 40, 8);
        if (how & WITH_KEY && length == MARE_NTP_PACKET_BYTES) {
            memcpy(bytes + 48, (const uint8_t[]){0, 0, 0, 1}, 4);
            mare_ntp_cmac(key.secret, bytes, MARE_NTP_HEADER_BYTES, bytes + 52);
        }
    }
    mare_ntp_client_take(client, local_ns + 5000000, bytes, length);
    if (mare_ntp_client_best(client, local_ns + 5000000, &estimate)) {
        assert(estimate.error_ns >= (uint64_t)estimate.delay_ns);
        assert(estimate.stratum > 0 && estimate.stratum < MARE_NTP_UNSYNCHRONISED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned how = size ? data[0] : 0;
    mare_ntp_client client;
    mare_ntp_client_init(&client,
                         &(mare_ntp_setup){.drift_ppb = 15000,
                                           .near_ns = NOW,
                                           .poll_most = 17,
                                           .leaps = how & IN_TAI ? mare_time_leaps_known() : NULL,
                                           .key = how & WITH_KEY ? &key : NULL});
    int64_t local_ns = 1;
    for (size_t at = 0; at + 2 <= size; local_ns += MARE_TIME_SECOND) {
        size_t length = data[at + 1];
        at += 2;
        length = length < size - at ? length : size - at;
        uint8_t *exact = malloc(length ? length : 1); // AddressSanitizer watches the end
        memcpy(exact, data + at, length);
        serve(exact, (uint32_t)length);
        answer(&client, local_ns, exact, (uint32_t)length, how);
        free(exact);
        at += length;
    }
    return 0;
}
