// SPDX-License-Identifier: MIT
// What the parts of `mare clock` share.
#pragma once

#include <mare/coord_ntp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/udp.h"
#include "platform/wall.h"

enum { CLOCK_KEYS_MAX = 16 };

// The command line, read.
struct clock_arguments {
    const char *command;                      // "query", …
    const char *server[MARE_NTP_SERVERS_MAX]; // as written; for serve: whom to follow
    unsigned servers;
    const char *listen;    // serve: the address to be at; beacon, hear: the group
    const char *interface; // beacon, hear: by its address
    const char *name;      // hear: ours
    double jitter_us, wander_ppm, ahead_s;
    unsigned samples;
    double interval_s, timeout_s;
    double drift_ppm, slew_ppm;
    double error_ms;  // serve: what the system's clock is believed to be wrong by
    unsigned stratum; // serve, without anybody to follow
    unsigned key;     // which to use; 0: none
    mare_ntp_key keys[CLOCK_KEYS_MAX];
    unsigned key_count;
    bool authenticated_only, json;
    bool readings;          // simulate: all of them
    unsigned bound_percent; // … and how much of its bound each is held against
    uint64_t count;         // stop after so many; 0: go on
    uint64_t seed, seeds;
};

// One server that is asked.
struct clock_server {
    const char *name;
    const char *wrong; // why it cannot be asked at all, a constant string; or NULL
    uint8_t address[MARE__UDP_ADDRESS];
    int socket;
    struct mare__arrivals arrivals;
    int64_t rest_until_ns; // it asked for patience (a RATE kiss)
    mare_ntp_client client;
};

// Prepares the servers: resolves, opens sockets. One for which that fails is noted as `wrong`; it
// does not keep the others from being asked.
void mare__clock_open(const struct clock_arguments *args, struct clock_server *server);
void mare__clock_close(struct clock_server *server, unsigned count);

// Asks once, and waits for the answer until the timeout. Returns whether a sample came of it.
bool mare__clock_exchange(const struct clock_arguments *args, struct clock_server *server);

// Writes a question that is sent now; 0 when the server wants none, or none yet.
uint32_t mare__clock_ask(struct clock_server *server, uint8_t bytes[MARE_NTP_PACKET_BYTES]);

// A packet has come from the server.
mare_ntp_verdict mare__clock_take(struct clock_server *server, int64_t arrived_ns,
                                  const uint8_t *bytes, uint32_t length);

// Drops what was measured before the machine was suspended. Returns whether it was.
bool mare__clock_wake(const struct clock_arguments *args, struct clock_server *server,
                      int64_t *suspended_ns);

// What is known now of the system's clock.
struct clock_view {
    mare_ntp_estimate estimate[MARE_NTP_SERVERS_MAX];
    bool has[MARE_NTP_SERVERS_MAX];
    int64_t ahead_ns[MARE_NTP_SERVERS_MAX]; // of the system's clock
    uint64_t width_ns;                      // the system's clock was read with this uncertainty
    mare_ntp_choice choice;
    bool agreed;
    unsigned peer;                // index of the server that is followed
    uint64_t outliers, survivors; // bit i: server i
    int64_t offset_ns;            // the system's clock must go forward by this much
    uint64_t error_ns;
    int64_t local_ns; // when this was, by the oscillator
    int64_t utc_ns;   // … and the time then, by the servers
};

void mare__clock_look(const struct clock_arguments *args, const struct clock_server *server,
                      struct clock_view *view);

// A span for people: "+12.3 us".
const char *mare__clock_span(double ns, bool sign, char text[32]);

// "PPS", "192.0.2.1": a reference identifier as its stratum has it.
const char *mare__clock_reference(uint32_t id, uint32_t stratum, char text[20]);

// The subcommands.
int mare__clock_query(const struct clock_arguments *args);
int mare__clock_watch(const struct clock_arguments *args);
int mare__clock_serve(const struct clock_arguments *args);
int mare__clock_beacon(const struct clock_arguments *args);
int mare__clock_hear(const struct clock_arguments *args);
int mare__clock_simulate(const struct clock_arguments *args);

// A chart in the terminal: the last offsets with their bounds, a column each.
enum { CHART_COLUMNS = 200 };
struct clock_chart {
    int64_t offset_ns[CHART_COLUMNS];
    uint64_t error_ns[CHART_COLUMNS]; // MARE_TIME_UNKNOWN: nothing was known
    unsigned count, next;
    unsigned drawn; // lines on the screen
};
void mare__clock_chart_add(struct clock_chart *chart, int64_t offset_ns, uint64_t error_ns);
void mare__clock_chart_draw(struct clock_chart *chart, unsigned width, unsigned height);
