// SPDX-License-Identifier: MIT
// `mare clock query` and `watch`: sends questions, waits for answers, and says what came of them.
// What is believed and what is not is libmare-coord's to decide; here are sockets and words.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/clock.h"
#include "platform/platform.h"

enum { PRECISION_NS = 100, SLOWEST = 10, ROOM = 512, NAME_ROOM = 256, LINE_ROOM = 1024 };

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

// ---- Words -------------------------------------------------------------------------------------

const char *mare__clock_span(double ns, bool sign, char text[32])
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {0, "ns"}};
    int at = 0;
    while (units[at].ns > 0 && (ns < 0 ? -ns : ns) < units[at].ns)
        at++;
    double value = units[at].ns > 0 ? ns / units[at].ns : ns;
    snprintf(text, 32, sign ? "%+.3g %s" : "%.3g %s", value, units[at].name);
    return text;
}

const char *mare__clock_reference(uint32_t id, uint32_t stratum, char text[20])
{
    uint8_t b[4] = {(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};
    if (stratum > 1) {
        snprintf(text, 20, "%u.%u.%u.%u", b[0], b[1], b[2], b[3]);
        return text;
    }
    int length = 0;
    while (length < 4 && b[length] > ' ' && b[length] < 127 && b[length] != '"' &&
           b[length] != '\\')
        length++;
    snprintf(text, 20, "%.*s", length, (const char *)b);
    return text;
}

// ---- Exchanges ---------------------------------------------------------------------------------

static const mare_ntp_key *chosen_key(const struct clock_arguments *args)
{
    for (unsigned i = 0; i < args->key_count; i++)
        if (args->keys[i].id == args->key)
            return &args->keys[i];
    return NULL;
}

// "host" alone means the usual port.
static const char *resolve(const char *name, uint8_t *address)
{
    char full[NAME_ROOM];
    const char *colon = strrchr(name, ':');
    bool has_port = colon && (strchr(name, ':') == colon || colon[-1] == ']');
    snprintf(full, sizeof full, has_port ? "%s" : "%s:123", name);
    const char *wrong = mare__udp_wrong(full, true);
    return wrong ? wrong : mare__udp_resolve(full, address);
}

// Questions that are so many seconds apart are so by 2^poll, or less.
static int8_t poll_of(double interval_s)
{
    int8_t poll = 0;
    while (poll < SLOWEST && 1 << poll < interval_s)
        poll++;
    return poll;
}

void mare__clock_open(const struct clock_arguments *args, struct clock_server *server)
{
    struct mare__wall wall;
    mare__wall_read(&wall);
    mare_ntp_setup setup = {.drift_ppb = (uint64_t)(args->drift_ppm * 1000),
                            .precision_ns = PRECISION_NS,
                            .near_ns = wall.utc_ns,
                            .poll_least = poll_of(args->interval_s),
                            .poll_most = SLOWEST,
                            .key = chosen_key(args)};
    for (unsigned i = 0; i < args->servers; i++) {
        server[i] = (struct clock_server){.name = args->server[i], .socket = -1};
        server[i].wrong = resolve(server[i].name, server[i].address);
        if (!server[i].wrong) {
            server[i].socket = mare__udp_towards(server[i].address);
            if (server[i].socket < 0)
                server[i].wrong = strerror(-server[i].socket);
        }
        mare__arrivals_init(&server[i].arrivals);
        mare_ntp_client_init(&server[i].client, &setup);
    }
}

void mare__clock_close(struct clock_server *server, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!server[i].wrong)
            mare__udp_close(server[i].socket);
    }
}

uint32_t mare__clock_ask(struct clock_server *server, uint8_t bytes[MARE_NTP_PACKET_BYTES])
{
    uint64_t nonce = mare__platform_live.random(mare__platform_live.context);
    int64_t now_ns = mare__wall_local_ns();
    if (server->wrong || now_ns < server->rest_until_ns)
        return 0;
    // Who was once asked for patience has it from then on.
    if (server->client.poll > server->client.setup.poll_least)
        server->rest_until_ns = now_ns + (int64_t)mare_ntp_client_wait_ns(&server->client);
    return mare_ntp_client_ask(&server->client, now_ns, nonce, bytes);
}

mare_ntp_verdict mare__clock_take(struct clock_server *server, int64_t arrived_ns,
                                  const uint8_t *bytes, uint32_t length)
{
    mare_ntp_verdict verdict = mare_ntp_client_take(&server->client, arrived_ns, bytes, length);
    if (verdict == MARE_NTP_KISS)
        server->rest_until_ns = arrived_ns + (int64_t)mare_ntp_client_wait_ns(&server->client);
    return verdict;
}

bool mare__clock_exchange(const struct clock_arguments *args, struct clock_server *server)
{
    uint8_t bytes[ROOM], from[MARE__UDP_ADDRESS];
    struct mare__wall wall;
    int64_t begin_ns = mare__wall_local_ns();
    int64_t deadline_ns = begin_ns + (int64_t)(args->timeout_s * 1e9);
    uint32_t asked = mare__clock_ask(server, bytes);
    if (asked == 0)
        return false;
    mare__udp_send(server->socket, server->address, bytes, asked);
    for (int64_t now_ns = begin_ns; now_ns < deadline_ns && !stopped;
         now_ns = mare__wall_local_ns()) {
        mare__udp_wait(server->socket, (uint64_t)(deadline_ns - now_ns), &stopped);
        int64_t stamp_ns;
        long length = mare__udp_receive(server->socket, from, bytes, sizeof bytes, &stamp_ns);
        mare__wall_read(&wall);
        int64_t arrived_ns = wall.local_ns - mare__wall_age_ns(&server->arrivals, &wall, stamp_ns);
        if (length < 0 || length > (long)sizeof bytes ||
            memcmp(from, server->address, sizeof from) != 0)
            continue;
        mare_ntp_verdict verdict = mare__clock_take(server, arrived_ns, bytes, (uint32_t)length);
        if (!server->client.pending)
            return verdict == MARE_NTP_TAKEN;
    }
    return false;
}

bool mare__clock_wake(const struct clock_arguments *args, struct clock_server *server,
                      int64_t *suspended_ns)
{
    if (!mare__wall_woke(suspended_ns))
        return false;
    for (unsigned i = 0; i < args->servers; i++)
        mare_ntp_client_forget(&server[i].client);
    return true;
}

static void rest(double seconds)
{
    mare__udp_wait(-1, (uint64_t)(seconds * 1e9), &stopped);
}

void mare__clock_look(const struct clock_arguments *args, const struct clock_server *server,
                      struct clock_view *view)
{
    struct mare__wall wall;
    mare_ntp_estimate known[MARE_NTP_SERVERS_MAX];
    unsigned index[MARE_NTP_SERVERS_MAX] = {0}, count = 0;
    mare__wall_read(&wall);
    *view = (struct clock_view){
        .error_ns = MARE_TIME_UNKNOWN, .width_ns = wall.width_ns, .local_ns = wall.local_ns};
    for (unsigned i = 0; i < args->servers; i++) {
        // Old samples of one that no longer answers are still true, but nobody to follow.
        view->has[i] = server[i].client.reach &&
                       mare_ntp_client_best(&server[i].client, wall.local_ns, &view->estimate[i]);
        if (view->has[i]) {
            view->ahead_ns[i] = view->estimate[i].time_ns - wall.utc_ns;
            index[count] = i;
            known[count++] = view->estimate[i];
        }
    }
    view->agreed = mare_ntp_select(known, count, (args->servers - 1) / 2, &view->choice);
    if (!view->agreed)
        return;
    view->peer = index[view->choice.peer];
    for (unsigned i = 0; i < count; i++) {
        view->outliers |= (uint64_t)(view->choice.outliers >> i & 1) << index[i];
        view->survivors |= (uint64_t)(view->choice.survivors >> i & 1) << index[i];
    }
    view->utc_ns = view->choice.estimate.time_ns;
    view->offset_ns = view->utc_ns - wall.utc_ns;
    view->error_ns = view->choice.estimate.error_ns + wall.width_ns;
}

// ---- Reports -----------------------------------------------------------------------------------

// Why a server gave no sample: the verdict on most of what came from it.
static const char *excuse(const struct clock_server *server, char text[40])
{
    const mare_ntp_client *client = &server->client;
    int most = -1;
    if (server->wrong)
        return server->wrong;
    for (int v = 1; v < MARE_NTP_VERDICTS; v++)
        if (client->verdicts[v] && (most < 0 || client->verdicts[v] > client->verdicts[most]))
            most = v;
    if (most < 0)
        return "no answer";
    char code[20] = "";
    if (most == MARE_NTP_KISS)
        mare__clock_reference(client->kiss, 0, code);
    snprintf(text, 40, "%s%s%s", mare_ntp_verdict_name((mare_ntp_verdict)most), *code ? " " : "",
             code);
    return text;
}

static void print_server(const struct clock_server *server, const struct clock_view *view,
                         unsigned i)
{
    const mare_ntp_estimate *e = &view->estimate[i];
    char offset[32], error[32], delay[32], jitter[32], reference[20], text[40];
    if (!view->has[i]) {
        printf("%-24s %s\n", server->name, excuse(server, text));
        return;
    }
    printf("%-24s %7" PRIu32 " %-15s %12s %12s %10s %10s%s\n", server->name, e->stratum,
           mare__clock_reference(e->reference_id, e->stratum, reference),
           mare__clock_span((double)view->ahead_ns[i], true, offset),
           mare__clock_span((double)(e->error_ns + view->width_ns), false, error),
           mare__clock_span((double)e->delay_ns, false, delay),
           mare__clock_span((double)e->jitter_ns, false, jitter),
           view->outliers >> i & 1 ? "  outlier" : "");
}

static const char *leap_name(mare_ntp_leap leap)
{
    static const char *const names[] = {"none", "insert", "delete", "unknown"};
    return names[leap & 3];
}

// Names come from the command line, and may have anything in them.
static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void print_json_server(const struct clock_server *server, const struct clock_view *view,
                              unsigned i)
{
    const mare_ntp_estimate *e = &view->estimate[i];
    char reference[20], text[40];
    printf("%s{\"server\":", i ? "," : "");
    print_json_text(server->name);
    if (!view->has[i]) {
        fputs(",\"why\":", stdout);
        print_json_text(excuse(server, text));
    } else
        printf(",\"stratum\":%" PRIu32 ",\"reference\":\"%s\",\"offset_ns\":%" PRId64
               ",\"delay_ns\":%" PRId64 ",\"round_trip_ns\":%" PRId64 ",\"error_ns\":%" PRIu64
               ",\"jitter_ns\":%" PRIu64 ",\"root_delay_ns\":%" PRIu64 ",\"samples\":%" PRIu32
               ",\"leap\":\"%s\",\"outlier\":%s",
               e->stratum, mare__clock_reference(e->reference_id, e->stratum, reference),
               view->ahead_ns[i], e->delay_ns, 2 * e->delay_ns, e->error_ns, e->jitter_ns,
               e->root_delay_ns, e->samples, leap_name(e->leap),
               view->outliers >> i & 1 ? "true" : "false");
    fputs(",\"packets\":{", stdout);
    const char *between = "";
    for (int v = 0; v < MARE_NTP_VERDICTS; v++) {
        if (server->client.verdicts[v]) {
            printf("%s\"%s\":%" PRIu64, between, mare_ntp_verdict_name((mare_ntp_verdict)v),
                   server->client.verdicts[v]);
            between = ",";
        }
    }
    fputs("}", stdout);
    if (server->client.kiss)
        printf(",\"kiss\":\"%s\"", mare__clock_reference(server->client.kiss, 0, reference));
    fputs("}", stdout);
}

static void print_json(const struct clock_arguments *args, const struct clock_server *server,
                       const struct clock_view *view)
{
    const mare_time_leaps *leaps = mare_time_leaps_known();
    printf("{\"agreed\":%s,", view->agreed ? "true" : "false");
    if (view->agreed) {
        printf("\"offset_ns\":%" PRId64 ",\"error_ns\":%" PRIu64 ",\"delay_ns\":%" PRId64
               ",\"stratum\":%" PRIu32 ",\"server\":",
               view->offset_ns, view->error_ns, view->choice.estimate.delay_ns,
               view->choice.estimate.stratum);
        print_json_text(server[view->peer].name);
        printf(",\"utc_ns\":%" PRId64 ",\"tai_ns\":%" PRId64 ",\"tai_certain\":%s,", view->utc_ns,
               mare_time_tai_from_utc(leaps, view->utc_ns),
               mare_time_leaps_expired(leaps, view->utc_ns) ? "false" : "true");
    }
    fputs("\"servers\":[", stdout);
    for (unsigned i = 0; i < args->servers; i++)
        print_json_server(&server[i], view, i);
    puts("]}");
    fflush(stdout);
}

static void print_report(const struct clock_arguments *args, const struct clock_server *server,
                         const struct clock_view *view)
{
    char offset[32], error[32];
    if (args->json) {
        print_json(args, server, view);
        return;
    }
    printf("%-24s %7s %-15s %12s %12s %10s %10s\n", "server", "stratum", "reference", "offset",
           "error bound", "delay", "jitter");
    for (unsigned i = 0; i < args->servers; i++)
        print_server(&server[i], view, i);
    if (view->agreed)
        printf("\nThis clock is %s %s, give or take %s; stratum %" PRIu32 ", after %s.\n",
               mare__clock_span(fabs((double)view->offset_ns), false, offset),
               view->offset_ns < 0 ? "ahead" : "behind",
               mare__clock_span((double)view->error_ns, false, error),
               view->choice.estimate.stratum + 1, server[view->peer].name);
    else
        puts("\nThere is no time to be had: too few servers answered, or they do not agree.");
}

// ---- The commands ------------------------------------------------------------------------------

int mare__clock_query(const struct clock_arguments *args)
{
    struct clock_server server[MARE_NTP_SERVERS_MAX];
    struct clock_view view;
    int64_t suspended_ns = mare__wall_suspended_ns();
    mare__clock_open(args, server);
    for (unsigned s = 0; s < args->samples && !stopped; s++) {
        if (s)
            rest(args->interval_s);
        for (unsigned i = 0; i < args->servers; i++) {
            // One that was silent twice is not worth the wait.
            if (s < 2 || server[i].client.reach)
                mare__clock_exchange(args, &server[i]);
        }
        mare__clock_wake(args, server, &suspended_ns);
    }
    mare__clock_look(args, server, &view);
    print_report(args, server, &view);
    mare__clock_close(server, args->servers);
    return view.agreed ? 0 : EXIT_DIED;
}

// A chart needs a terminal that can move its cursor.
static bool draws(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(kind && strcmp(kind, "dumb") == 0);
}

// Adds to a line of `room` bytes, as far as there is room.
static void add(char *line, size_t room, const char *a, const char *b, const char *c)
{
    size_t length = strlen(line);
    snprintf(line + length, room - length, "%s%s%s", a, b, c);
}

// What was found in this round, in one line.
static void describe(const struct clock_arguments *args, const struct clock_server *server,
                     const struct clock_view *view, char *line, size_t room)
{
    char offset[32], error[32], delay[32], text[40];
    if (view->agreed) {
        snprintf(line, room, "%s ± %s  delay %s  stratum %" PRIu32 "  %s",
                 mare__clock_span((double)view->offset_ns, true, offset),
                 mare__clock_span((double)view->error_ns, false, error),
                 mare__clock_span((double)view->choice.estimate.delay_ns, false, delay),
                 view->choice.estimate.stratum, server[view->peer].name);
        return;
    }
    snprintf(line, room, "no time");
    bool silent = false;
    for (unsigned i = 0; i < args->servers; i++) {
        if (!view->has[i]) {
            add(line, room, silent ? "; " : ": ", server[i].name, ": ");
            add(line, room, excuse(&server[i], text), "", "");
            silent = true;
        }
    }
    if (!silent)
        add(line, room, ": they do not agree", "", "");
}

// Cuts a line to a terminal's width: one that goes on below would spoil the chart.
static void cut_line(char *line, unsigned columns)
{
    unsigned at = 0;
    for (char *c = line; *c; c++) {
        bool continues = ((unsigned char)*c & 0xc0) == 0x80; // of a letter of several bytes
        if (!continues && ++at >= columns) {
            *c = '\0';
            return;
        }
    }
}

static void show(const struct clock_arguments *args, const struct clock_server *server,
                 const struct clock_view *view, struct clock_chart *chart)
{
    char line[LINE_ROOM];
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    if (args->json) {
        print_json(args, server, view);
        return;
    }
    describe(args, server, view, line, sizeof line);
    if (draws()) {
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        if (size.ws_row == 0 || size.ws_col == 0) // a terminal that does not know its size
            size = (struct winsize){.ws_row = 24, .ws_col = 80};
        mare__clock_chart_draw(chart, size.ws_col, size.ws_row);
        cut_line(line, size.ws_col);
    }
    puts(line);
    fflush(stdout);
}

int mare__clock_watch(const struct clock_arguments *args)
{
    struct clock_server server[MARE_NTP_SERVERS_MAX];
    static struct clock_chart chart;
    struct clock_view view = {0};
    int64_t suspended_ns = mare__wall_suspended_ns();
    mare__clock_open(args, server);
    mare__signals_take(stop);
    for (uint64_t round = 0; !stopped && (!args->count || round < args->count); round++) {
        if (round)
            rest(args->interval_s);
        mare__clock_wake(args, server, &suspended_ns); // before this round's answers
        for (unsigned i = 0; i < args->servers && !stopped; i++)
            mare__clock_exchange(args, &server[i]);
        if (stopped)
            break;
        mare__clock_wake(args, server, &suspended_ns);
        mare__clock_look(args, server, &view);
        mare__clock_chart_add(&chart, view.offset_ns, view.error_ns);
        show(args, server, &view, &chart);
    }
    mare__clock_close(server, args->servers);
    return view.agreed ? 0 : EXIT_DIED;
}
