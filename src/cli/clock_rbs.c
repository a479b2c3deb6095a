// SPDX-License-Identifier: MIT
// `mare clock beacon` and `hear`: reference broadcasts over UDP multicast. The beacon sends
// numbers; who hears one notes the instant and tells the others, over the same group. Nobody's
// clock is changed, and the beacon's is not even asked.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "platform/multicast.h"
#include "platform/platform.h"

enum { PEERS_MAX = 32, ROOM = 128 };

#define SILENT_NS INT64_C(2000000000)

struct peer {
    uint64_t who, last; // last: the comparison that it had a part in
    mare_rbs rbs;
};

struct receiver {
    const struct clock_arguments *args;
    int socket;
    uint8_t group[MARE__UDP_ADDRESS];
    struct mare__arrivals arrivals;
    int64_t suspended_ns;
    uint64_t who, series;
    int64_t last_ns, gap_ns; // when the beacon of this series was heard last, and how long after
    mare_rbs heard;          // what was heard here: how the record of a new peer begins
    struct peer peer[PEERS_MAX];
    unsigned peers;
    uint64_t compared;
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

// Joins the group. Says what is wrong and returns an exit code, or 0.
static int join(const struct clock_arguments *args, uint8_t *group, int *socket)
{
    uint8_t interface[MARE__UDP_ADDRESS];
    char at[MARE__UDP_TEXT];
    snprintf(at, sizeof at, "%s:0", args->interface);
    const char *wrong = mare__udp_resolve(args->listen, group);
    if (!wrong && !mare__multicast_is_group(group))
        wrong = "a group is an IPv4 address from 224.0.0.0 to 239.255.255.255";
    if (!wrong)
        wrong = mare__udp_resolve(at, interface);
    *socket = wrong ? -1 : mare__multicast_join(group, interface);
    if (!wrong && *socket >= 0)
        return 0;
    fprintf(stderr, "mare clock: %s on %s: %s\n", args->listen, args->interface,
            wrong ? wrong : strerror(-*socket));
    return EXIT_USAGE;
}

static uint64_t draw(void)
{
    return mare__platform_live.random(mare__platform_live.context);
}

int mare__clock_beacon(const struct clock_arguments *args)
{
    uint8_t group[MARE__UDP_ADDRESS], bytes[MARE_RBS_PACKET_BYTES];
    int socket, code = join(args, group, &socket);
    if (code)
        return code;
    mare_rbs_packet packet = {.kind = MARE_RBS_BEACON, .series = draw()};
    mare__signals_take(stop);
    while (!stopped && (!args->count || packet.number < args->count)) {
        packet.number++;
        mare_rbs_encode(&packet, bytes);
        mare__udp_send(socket, group, bytes, sizeof bytes);
        mare__udp_wait(-1, (uint64_t)(args->interval_s * 1e9), &stopped);
    }
    mare__udp_close(socket);
    return 0;
}

// ---- Hearing -----------------------------------------------------------------------------------

static int64_t our_clock(const struct receiver *r)
{
    return mare__wall_local_ns() + (int64_t)(r->args->ahead_s * 1e9);
}

// The kernel's stamp by our clock.
static int64_t when_heard(struct receiver *r, int64_t stamp_ns)
{
    struct mare__wall wall;
    mare__wall_read(&wall);
    return wall.local_ns - mare__wall_age_ns(&r->arrivals, &wall, stamp_ns) +
           (int64_t)(r->args->ahead_s * 1e9);
}

static void begin_series(struct receiver *r, uint64_t series)
{
    r->series = series;
    r->peers = 0;
    r->last_ns = r->gap_ns = 0;
    mare_rbs_init(&r->heard, (uint64_t)(r->args->jitter_us * 1e3),
                  (uint64_t)(r->args->drift_ppm * 1e3), (uint64_t)(r->args->wander_ppm * 1e3));
}

// Of several beacons all receivers must go by the same: that of the lowest series. Another one is
// listened to when that has left out three broadcasts.
static bool is_ours(const struct receiver *r, uint64_t series, int64_t heard_ns)
{
    int64_t silent_ns = 3 * r->gap_ns > SILENT_NS ? 3 * r->gap_ns : SILENT_NS;
    return r->series == 0 || series <= r->series || heard_ns - r->last_ns > silent_ns;
}

static void on_beacon(struct receiver *r, const mare_rbs_packet *beacon, int64_t heard_ns)
{
    uint8_t bytes[MARE_RBS_PACKET_BYTES];
    if (!is_ours(r, beacon->series, heard_ns))
        return;
    if (beacon->series != r->series)
        begin_series(r, beacon->series);
    else if (r->last_ns)
        r->gap_ns = heard_ns - r->last_ns;
    r->last_ns = heard_ns;
    mare_rbs_hear(&r->heard, beacon->number, heard_ns);
    for (unsigned i = 0; i < r->peers; i++)
        mare_rbs_hear(&r->peer[i].rbs, beacon->number, heard_ns);
    mare_rbs_packet report = {.kind = MARE_RBS_REPORT,
                              .series = r->series,
                              .number = beacon->number,
                              .who = r->who,
                              .when_ns = heard_ns};
    snprintf(report.name, sizeof report.name, "%s", r->args->name);
    mare_rbs_encode(&report, bytes);
    mare__udp_send(r->socket, r->group, bytes, sizeof bytes);
}

static struct peer *find_peer(struct receiver *r, uint64_t who)
{
    for (unsigned i = 0; i < r->peers; i++)
        if (r->peer[i].who == who)
            return &r->peer[i];
    struct peer *fresh = r->peer;
    if (r->peers < PEERS_MAX)
        fresh = &r->peer[r->peers++];
    else // in the place of who has been silent for longest
        for (unsigned i = 1; i < PEERS_MAX; i++)
            fresh = r->peer[i].last < fresh->last ? &r->peer[i] : fresh;
    *fresh = (struct peer){.who = who, .rbs = r->heard};
    return fresh;
}

static void print_comparison(const struct receiver *r, const char *name, const mare_rbs *rbs)
{
    mare_rbs_offset mean, line;
    char a[32], b[32], c[32], d[32];
    int64_t now_ns = our_clock(r);
    bool has_line = mare_rbs_line(rbs, now_ns, &line);
    if (!mare_rbs_mean(rbs, now_ns, &mean))
        return;
    if (r->args->json) {
        printf("{\"peer\":\"%s\",\"pairs\":%" PRIu32 ",\"mean_ns\":%" PRId64
               ",\"mean_error_ns\":%" PRIu64,
               name, mean.pairs, mean.offset_ns, mean.error_ns);
        if (has_line)
            printf(",\"line_ns\":%" PRId64 ",\"line_error_ns\":%" PRIu64 ",\"alpha_ppb\":%" PRId64,
                   line.offset_ns, line.error_ns, line.alpha_ppb);
        puts("}");
    } else {
        printf("ahead of %-8s by %s ± %s on average of %" PRIu32, name,
               mare__clock_span((double)mean.offset_ns, true, a),
               mare__clock_span((double)mean.error_ns, false, b), mean.pairs);
        if (has_line)
            printf(", by the line %s ± %s, %+.1f ppm",
                   mare__clock_span((double)line.offset_ns, true, c),
                   mare__clock_span((double)line.error_ns, false, d), (double)line.alpha_ppb / 1e3);
        putchar('\n');
    }
    fflush(stdout);
}

static void on_report(struct receiver *r, const mare_rbs_packet *report)
{
    if (report->who == r->who || report->series != r->series)
        return;
    struct peer *peer = find_peer(r, report->who);
    if (!mare_rbs_match(&peer->rbs, report->number, report->when_ns))
        return;
    peer->last = ++r->compared;
    print_comparison(r, report->name, &peer->rbs);
}

// While the machine was suspended the oscillator stood still: what it counted before says nothing
// of now. To the others this is a new receiver, with a clock of which they know nothing yet.
static void wake(struct receiver *r)
{
    if (!mare__wall_woke(&r->suspended_ns))
        return;
    r->who = draw();
    begin_series(r, r->series);
}

int mare__clock_hear(const struct clock_arguments *args)
{
    static struct receiver r;
    uint8_t bytes[ROOM], from[MARE__UDP_ADDRESS];
    mare_rbs_packet packet;
    r = (struct receiver){.args = args, .who = draw()};
    int code = join(args, r.group, &r.socket);
    if (code)
        return code;
    begin_series(&r, 0);
    mare__arrivals_init(&r.arrivals);
    r.suspended_ns = mare__wall_suspended_ns();
    mare__signals_take(stop);
    printf(args->json ? "{\"hearing\":\"%s\"}\n" : "hearing %s\n", args->listen);
    fflush(stdout);
    while (!stopped && (!args->count || r.compared < args->count)) {
        mare__udp_wait(r.socket, UINT64_C(3600000000000), &stopped);
        int64_t stamp_ns;
        long length = mare__udp_receive(r.socket, from, bytes, sizeof bytes, &stamp_ns);
        wake(&r);
        int64_t heard_ns = when_heard(&r, stamp_ns);
        if (length < 0 || length > (long)sizeof bytes ||
            !mare_rbs_decode(bytes, (uint32_t)length, &packet))
            continue;
        if (packet.kind == MARE_RBS_BEACON)
            on_beacon(&r, &packet, heard_ns);
        else
            on_report(&r, &packet);
    }
    mare__udp_close(r.socket);
    return 0;
}
