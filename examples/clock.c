// SPDX-License-Identifier: MIT
// A client and a server of NTP in one program, without a network: what libmare-coord asks of its
// host is to carry bytes and to say what the oscillator shows. The server's clock is right. The
// client's oscillator began at 0, runs 80 parts in a million fast, and knows only that it is within
// 100. The way to the server takes 1 ms, the way back 9.
#include <inttypes.h>
#include <mare/coord_ntp.h>
#include <stdio.h>

#define MS (MARE_TIME_SECOND / 1000)
#define BEGINNING (INT64_C(1700000000) * MARE_TIME_SECOND)

static int64_t true_ns; // since the beginning

static int64_t oscillator(void)
{
    mare_time_model model = {.skew_ppb = 80000};
    return mare_time_model_read(&model, true_ns);
}

static mare_time_reading reference_clock(void)
{
    return (mare_time_reading){.time_ns = BEGINNING + true_ns, .error_ns = 1000};
}

static void ask(mare_ntp_client *client, uint64_t nonce)
{
    static const mare_ntp_server server = {.stratum = 1, .precision = -30};
    uint8_t question[MARE_NTP_PACKET_BYTES], answer[MARE_NTP_PACKET_BYTES];
    uint32_t length = mare_ntp_client_ask(client, oscillator(), nonce, question);
    true_ns += 1 * MS;
    length =
        mare_ntp_serve(&server, question, length, reference_clock(), reference_clock(), answer);
    true_ns += 9 * MS;
    mare_ntp_client_take(client, oscillator(), answer, length);
}

static void show(mare_time_clock *clock)
{
    mare_time_reading reading = mare_time_clock_read(clock, oscillator());
    printf("%6.1f s  wrong by %7.3f ms, says at most %7.3f ms\n", (double)true_ns / 1e9,
           (double)(reading.time_ns - BEGINNING - true_ns) / 1e6, (double)reading.error_ns / 1e6);
}

int main(void)
{
    mare_ntp_client client;
    mare_ntp_estimate estimate;
    mare_time_clock clock;
    mare_ntp_client_init(&client, &(mare_ntp_setup){.drift_ppb = 100000, .near_ns = BEGINNING});
    mare_time_clock_init(&clock, 100000, 500000);
    for (uint64_t nonce = 1; nonce <= 3; nonce++) {
        ask(&client, nonce * 7919);
        if (mare_ntp_client_best(&client, oscillator(), &estimate))
            mare_time_clock_set(&clock, oscillator(), estimate.time_ns, estimate.error_ns);
        show(&clock);
        true_ns += 60 * MARE_TIME_SECOND;
        show(&clock);
    }
    return 0;
}
