// SPDX-License-Identifier: MIT
// Any bytes at an NTP client and at a server: nothing is read beyond the end, what was decoded is
// written again as it was, and whatever a client makes of answers that bring its nonce back, all
// instants at which the answer can have been true are within its bound. Each input is a row of
// packets, each with its length and a byte of what to do with it before it.
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

// Counting in UTC: the truth was not before T3 less the server's own error, and not after T2 plus
// it plus all the time that passed. Both ends are within the bound of the sample, computed here
// from the bytes without the library's δ and θ.
static void check_sample(const mare_ntp_client *client, int64_t asked_ns, int64_t arrived_ns,
                         const uint8_t *bytes)
{
    mare_ntp_packet packet;
    uint32_t last = (client->next + MARE_NTP_FILTER - 1) % MARE_NTP_FILTER;
    const mare_ntp_sample *sample = &client->sample[last];
    assert(mare_ntp_decode(bytes, MARE_NTP_HEADER_BYTES, &packet));
    if (client->setup.leaps)
        return;
    int64_t own_ns = (int64_t)(mare_ntp_unshort(packet.root_delay) / 2 +
                               mare_ntp_unshort(packet.root_dispersion));
    int64_t earliest_ns = mare_ntp_unstamp(packet.transmit, NOW) - own_ns;
    int64_t latest_ns = mare_ntp_unstamp(packet.receive, NOW) + own_ns + (arrived_ns - asked_ns);
    int64_t middle_ns = arrived_ns + sample->offset_ns;
    assert(middle_ns - earliest_ns <= (int64_t)sample->error_ns);
    assert(latest_ns - middle_ns <= (int64_t)sample->error_ns);
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
    int64_t arrived_ns = local_ns + 5000000;
    if (mare_ntp_client_take(client, arrived_ns, bytes, length) == MARE_NTP_TAKEN)
        check_sample(client, local_ns, arrived_ns, bytes);
    if (mare_ntp_client_best(client, arrived_ns, &estimate))
        assert(estimate.stratum > 0 && estimate.stratum < MARE_NTP_UNSYNCHRONISED);
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
