// SPDX-License-Identifier: MIT
// `mare clock serve`: an NTP server on one socket. Its time is the system's clock, with the stratum
// and the error that its owner gives it, or a disciplined clock that follows other servers, which
// are asked through the same socket: answers and questions are told apart by their mode and sender.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "platform/platform.h"

enum { ROOM = 512, PRECISION = -23 };

#define SECOND_NS UINT64_C(1000000000)
#define LOCAL_CLOCK 0x7f7f0101u // 127.127.1.1, which everybody takes for an undisciplined clock

struct service {
    const struct clock_arguments *args;
    int socket;
    struct clock_server upstream[MARE_NTP_SERVERS_MAX];
    struct mare__arrivals arrivals;
    mare_time_clock clock;
    mare_ntp_server self;
    unsigned peer;      // the one that is followed
    mare_ntp_leap leap; // … and what it announced when the clock was set, at self.reference_ns
    int64_t next_poll_ns, suspended_ns;
    uint64_t answered, unsaid; // unsaid: of which nothing was written
};

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

// A disciplined clock does not know of the leap seconds that may have come since it was set.
static mare_time_reading with_leaps(const struct service *s, mare_time_reading reading)
{
    if (reading.error_ns >= SECOND_NS * 86400)
        return reading; // nobody knows, or it does not matter
    int64_t latest_ns = reading.time_ns + (int64_t)(reading.error_ns + SECOND_NS);
    reading.error_ns += mare_ntp_leaps_since(s->self.reference_ns, s->leap, latest_ns) * SECOND_NS;
    return reading;
}

static mare_time_reading now(struct service *s)
{
    struct mare__wall wall;
    mare__wall_read(&wall);
    if (s->args->servers)
        return with_leaps(s, mare_time_clock_read(&s->clock, wall.local_ns));
    return (mare_time_reading){.time_ns = wall.utc_ns,
                               .error_ns = (uint64_t)(s->args->error_ms * 1e6) + wall.width_ns};
}

// What the clock showed a while ago. A disciplined one that was set since says what it shows at
// that corner: a question that seems to have come late makes nobody's bound wrong.
static mare_time_reading before(const struct service *s, const struct mare__wall *wall,
                                int64_t age_ns)
{
    if (!s->args->servers)
        return (mare_time_reading){.time_ns = wall->utc_ns - age_ns,
                                   .error_ns =
                                       (uint64_t)(s->args->error_ms * 1e6) + wall->width_ns};
    int64_t local_ns = wall->local_ns - age_ns;
    int64_t gap_ns = mare_time_clock_gap(&s->clock, local_ns);
    mare_time_reading shown = mare_time_clock_target(&s->clock, local_ns);
    shown.time_ns -= gap_ns;
    if (shown.error_ns != MARE_TIME_UNKNOWN)
        shown.error_ns += (uint64_t)(gap_ns < 0 ? -gap_ns : gap_ns);
    return with_leaps(s, shown);
}

// ---- Following ---------------------------------------------------------------------------------

static void ask_upstream(struct service *s)
{
    uint8_t bytes[MARE_NTP_PACKET_BYTES];
    for (unsigned i = 0; i < s->args->servers; i++) {
        uint32_t length = mare__clock_ask(&s->upstream[i], bytes);
        if (length)
            mare__udp_send(s->socket, s->upstream[i].address, bytes, length);
    }
    s->next_poll_ns = mare__wall_local_ns() + (int64_t)(s->args->interval_s * 1e9);
}

// The one that is followed has been silent for long: its stratum no longer holds others off.
static void forget_lost_peer(struct service *s)
{
    if (!s->upstream[s->peer].client.reach)
        s->self.stratum = MARE_NTP_UNSYNCHRONISED;
}

// Our stratum by what the followed server says of its own now, which may have risen. One that no
// longer counts among those who agree holds nobody off.
static uint32_t stratum_now(const struct service *s, const struct clock_view *view)
{
    bool follows = s->self.stratum < MARE_NTP_UNSYNCHRONISED && view->survivors >> s->peer & 1;
    return follows ? view->estimate[s->peer].stratum + 1 : MARE_NTP_UNSYNCHRONISED;
}

// The last four bytes of an address: of IPv4 all of it.
static uint32_t reference_of(const uint8_t *address)
{
    return (uint32_t)address[12] << 24 | (uint32_t)address[13] << 16 | (uint32_t)address[14] << 8 |
           address[15];
}

static void follow(struct service *s)
{
    struct clock_view view;
    mare__clock_look(s->args, s->upstream, &view);
    if (!view.agreed)
        return;
    const mare_ntp_estimate *e = &view.choice.estimate;
    if (!mare_ntp_follows(stratum_now(s, &view), e->stratum))
        return;
    mare_time_clock_set(&s->clock, view.local_ns, view.utc_ns, e->error_ns);
    s->peer = view.peer;
    s->self.stratum = e->stratum + 1;
    s->self.root_delay_ns = e->root_delay_ns;
    s->self.reference_ns = view.utc_ns;
    s->leap = e->leap;
    s->self.reference_id = reference_of(s->upstream[view.peer].address);
}

static bool is_answer(struct service *s, const uint8_t *from, const uint8_t *bytes, uint32_t length,
                      int64_t arrived_ns)
{
    for (unsigned i = 0; i < s->args->servers; i++) {
        struct clock_server *up = &s->upstream[i];
        if (memcmp(up->address, from, sizeof up->address) != 0 || (bytes[0] & 7) != MARE_NTP_SERVER)
            continue;
        if (mare__clock_take(up, arrived_ns, bytes, length) == MARE_NTP_TAKEN)
            follow(s);
        return true;
    }
    return false;
}

// What to announce: what the table knows, or what the followed server said, for as long as its day
// lasts.
static mare_ntp_leap announce(const struct service *s, int64_t utc_ns)
{
    int64_t day_ns = (int64_t)SECOND_NS * 86400;
    int change = mare_time_leap_today(mare_time_leaps_known(), utc_ns);
    if (change)
        return change > 0 ? MARE_NTP_LEAP_INSERT : MARE_NTP_LEAP_DELETE;
    bool same_day = utc_ns / day_ns == s->self.reference_ns / day_ns;
    return s->args->servers && same_day ? s->leap : MARE_NTP_LEAP_NONE;
}

// ---- Serving -----------------------------------------------------------------------------------

// Nobody may read what is written here, and the time must be served all the same.
static void report(struct service *s, const uint8_t *from, const uint8_t *answer)
{
    char who[MARE__UDP_TEXT], error[32];
    mare_ntp_packet packet;
    if (!mare_ntp_decode(answer, MARE_NTP_HEADER_BYTES, &packet))
        return;
    if (!mare__udp_may_write(STDOUT_FILENO)) {
        s->unsaid++;
        return;
    }
    if (s->unsaid)
        printf(s->args->json ? "{\"unsaid\":%" PRIu64 "}\n" : "%" PRIu64 " more answered\n",
               s->unsaid);
    s->unsaid = 0;
    mare__udp_text(from, who);
    uint64_t bound_ns =
        mare_ntp_unshort(packet.root_delay) / 2 + mare_ntp_unshort(packet.root_dispersion);
    if (s->args->json)
        printf("{\"client\":\"%s\",\"stratum\":%u,\"error_ns\":%" PRIu64 "}\n", who, packet.stratum,
               bound_ns);
    else
        printf("%-24s answered, stratum %u, within %s\n", who, packet.stratum,
               mare__clock_span((double)bound_ns, false, error));
    fflush(stdout);
}

// A disciplined clock that nobody has set.
static void begin_clock(struct service *s)
{
    mare_time_clock_init(&s->clock, (uint64_t)(s->args->drift_ppm * 1000),
                         (uint64_t)(s->args->slew_ppm * 1000));
}

// After a suspend there is no time but the system's, until somebody is asked again.
static void wake(struct service *s)
{
    if (s->args->servers && mare__clock_wake(s->args, s->upstream, &s->suspended_ns)) {
        begin_clock(s);
        s->self.stratum = MARE_NTP_UNSYNCHRONISED;
    }
}

static void take(struct service *s)
{
    uint8_t bytes[ROOM], out[MARE_NTP_PACKET_BYTES], from[MARE__UDP_ADDRESS];
    struct mare__wall wall;
    int64_t stamp_ns;
    long length = mare__udp_receive(s->socket, from, bytes, sizeof bytes, &stamp_ns);
    wake(s);
    mare__wall_read(&wall);
    int64_t age_ns = mare__wall_age_ns(&s->arrivals, &wall, stamp_ns);
    if (length <= 0 || length > (long)sizeof bytes ||
        is_answer(s, from, bytes, (uint32_t)length, wall.local_ns - age_ns))
        return;
    mare_time_reading received = before(s, &wall, age_ns), leaves = now(s);
    s->self.leap = announce(s, leaves.time_ns);
    uint32_t answer = mare_ntp_serve(&s->self, bytes, (uint32_t)length, received, leaves, out);
    if (answer == 0)
        return;
    mare__udp_send(s->socket, from, out, answer);
    s->answered++;
    report(s, from, out);
}

// Names those that cannot be followed. True: somebody can, or nobody was to be.
static bool has_upstream(const struct service *s)
{
    bool some = s->args->servers == 0;
    for (unsigned i = 0; i < s->args->servers; i++) {
        const struct clock_server *up = &s->upstream[i];
        some = some || !up->wrong;
        if (up->wrong)
            fprintf(stderr, "mare clock: %s: %s\n", up->name, up->wrong);
    }
    return some;
}

static int open_service(struct service *s, const struct clock_arguments *args)
{
    uint8_t address[MARE__UDP_ADDRESS], here[MARE__UDP_ADDRESS];
    char text[MARE__UDP_TEXT];
    const char *wrong = mare__udp_resolve(args->listen, address);
    s->socket = wrong ? -1 : mare__udp_listen(address, here);
    if (wrong || s->socket < 0) {
        fprintf(stderr, "mare clock: %s: %s\n", args->listen, wrong ? wrong : strerror(-s->socket));
        return wrong ? EXIT_USAGE : EXIT_DIED;
    }
    mare__clock_open(args, s->upstream);
    if (!has_upstream(s)) {
        mare__udp_close(s->socket);
        return EXIT_DIED;
    }
    mare__clock_close(s->upstream, args->servers); // they are asked through the one socket
    mare__udp_text(here, text);
    printf(args->json ? "{\"serving\":\"%s\"}\n" : "serving on %s\n", text);
    fflush(stdout);
    return 0;
}

int mare__clock_serve(const struct clock_arguments *args)
{
    static struct service s;
    s = (struct service){
        .args = args,
        .self = {.stratum = args->servers ? MARE_NTP_UNSYNCHRONISED : args->stratum,
                 .reference_id = args->stratum == 1 ? mare_ntp_letters("LOCL") : LOCAL_CLOCK,
                 .precision = PRECISION,
                 .keys = args->keys,
                 .key_count = args->key_count,
                 .authenticated_only = args->authenticated_only}};
    mare__signals_take(stop);
    int code = open_service(&s, args);
    if (code)
        return code;
    begin_clock(&s);
    mare__arrivals_init(&s.arrivals);
    s.suspended_ns = mare__wall_suspended_ns();
    while (!stopped && (!args->count || s.answered < args->count)) {
        int64_t left_ns = INT64_C(3600000000000);
        if (args->servers) {
            if (mare__wall_local_ns() >= s.next_poll_ns) {
                forget_lost_peer(&s);
                ask_upstream(&s);
            }
            left_ns = s.next_poll_ns - mare__wall_local_ns();
        }
        mare__udp_wait(s.socket, left_ns > 0 ? (uint64_t)left_ns : 0, &stopped);
        take(&s);
    }
    mare__udp_close(s.socket);
    return 0;
}
