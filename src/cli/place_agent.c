// SPDX-License-Identifier: MIT
// `mare place agent` and `ask`: the loop around the agent of src/coord/place. All that is decided
// is decided there; here are the socket, the clock and what is printed.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/place.h"
#include "coord/place/agent.h"
#include "platform/platform.h"
#include "platform/udp.h"
#include "platform/wall.h"

enum { HELD = 256, DATAGRAM = 2048, ASKED_TIMES = 3 };

#define NS_PER_S 1000000000u
#define ASK_NS NS_PER_S

// A packet that leaves later, with --hold.
struct held {
    uint64_t at_ns;
    uint8_t address[MARE__UDP_ADDRESS], data[MARE__AGENT_PACKET];
    uint32_t length;
};

struct session {
    int socket;
    uint8_t here[MARE__UDP_ADDRESS];
    struct mare__arrivals arrivals;
    int64_t suspended_ns;
    uint64_t hold_ns;
    struct held held[HELD]; // a ring in the order of sending: all are held equally long
    unsigned first, count;
    struct mare__agent agent;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static uint64_t now_ns(void)
{
    return mare__platform_live.now_ns(mare__platform_live.context);
}

static uint64_t secret(void)
{
    return mare__platform_live.random(mare__platform_live.context);
}

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "mare place: %s: %s\n", what, why);
    return EXIT_DIED;
}

// Where to be, or (`target`) where somebody is. What is no address at all is wrong usage.
static int resolve(const char *text, bool target, uint8_t *address)
{
    const char *wrong = mare__udp_wrong(text, target);
    if (wrong) {
        fail(text, wrong);
        return EXIT_USAGE;
    }
    wrong = mare__udp_resolve(text, address);
    return wrong ? fail(text, wrong) : 0;
}

// ---- The loop ----------------------------------------------------------------------------------

static void send_packet(struct session *session, const uint8_t *address, const uint8_t *data,
                        uint32_t length)
{
    if (session->hold_ns == 0) {
        mare__udp_send(session->socket, address, data, length);
    } else if (session->count < HELD) { // else lost, as on a line whose queue is full
        struct held *held = &session->held[(session->first + session->count++) % HELD];
        held->at_ns = now_ns() + session->hold_ns;
        held->length = length;
        memcpy(held->address, address, sizeof held->address);
        memcpy(held->data, data, length);
    }
}

static void release(struct session *session)
{
    while (session->count && session->held[session->first].at_ns <= now_ns()) {
        struct held *held = &session->held[session->first];
        mare__udp_send(session->socket, held->address, held->data, held->length);
        session->first = (session->first + 1) % HELD;
        session->count--;
    }
}

static void receive(struct session *session)
{
    uint8_t from[MARE__UDP_ADDRESS], data[DATAGRAM], answer[MARE__AGENT_PACKET];
    struct mare__wall wall;
    int64_t stamp_ns;
    long length;
    while ((length = mare__udp_receive(session->socket, from, data, sizeof data, &stamp_ns)) >= 0) {
        size_t size = (size_t)length <= sizeof data ? (size_t)length : 0; // cut off: no packet
        if (mare__wall_woke(&session->suspended_ns))
            mare__agent_wake(&session->agent);
        mare__wall_read(&wall);
        uint64_t came_ns =
            now_ns() - (uint64_t)mare__wall_age_ns(&session->arrivals, &wall, stamp_ns);
        uint32_t wanted = mare__agent_receive(&session->agent, came_ns, from, data, size, answer);
        if (wanted)
            send_packet(session, from, answer, wanted);
    }
}

static void probe(struct session *session)
{
    uint8_t address[MARE__UDP_ADDRESS], data[MARE__AGENT_PACKET];
    uint32_t length = mare__agent_probe(&session->agent, now_ns(), secret(), address, data);
    if (length)
        send_packet(session, address, data, length);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void run(struct session *session, uint64_t interval_ns, uint64_t end_ns)
{
    uint64_t next_ns = now_ns();
    while (!interrupted && now_ns() < end_ns) {
        uint64_t wake_ns = earlier(next_ns, end_ns);
        if (session->count)
            wake_ns = earlier(wake_ns, session->held[session->first].at_ns);
        uint64_t now = now_ns();
        if (wake_ns > now)
            mare__udp_wait(session->socket, wake_ns - now, &interrupted);
        receive(session);
        release(session);
        if (now_ns() >= next_ns) {
            probe(session);
            next_ns = now_ns() + interval_ns;
        }
    }
}

// ---- What is printed ---------------------------------------------------------------------------

static void print_place(const mare_coord_place *place, uint32_t dimensions, bool json)
{
    fputs(json ? "{\"x\":[" : "(", stdout);
    for (uint32_t k = 0; k < dimensions; k++)
        printf(json ? "%s%.6f" : "%s%.3f", k ? (json ? "," : ", ") : "", place->x[k]);
    printf(json ? "],\"height\":%.6f,\"error\":%.4f}" : ") ms, height %.3f ms, error %.3f",
           place->height, place->error);
}

static void print_peer(const struct session *session, const struct mare__agent_peer *peer,
                       bool json, bool first)
{
    char text[MARE__UDP_TEXT];
    double guess =
        mare_coord_place_distance(mare_coord_vivaldi_here(session->agent.node), &peer->place);
    mare__udp_text(peer->address, text);
    if (json)
        printf(
            "%s{\"address\":\"%s\",\"measured_ms\":%.4f,\"estimated_ms\":%.4f,\"answers\":%" PRIu32
            ",\"silent\":%" PRIu32 "}",
            first ? "" : ",", text, peer->rtt, guess, peer->answers, peer->silent);
    else
        printf("  %-24s %9.3f %10.3f %8" PRIu32 "\n", text, peer->rtt, guess, peer->answers);
}

static void print_session(const struct session *session, bool json)
{
    const struct mare__agent *agent = &session->agent;
    char text[MARE__UDP_TEXT];
    mare__udp_text(session->here, text);
    printf(json ? "{\"address\":\"%s\",\"probes\":%" PRIu64 ",\"answers\":%" PRIu64
                  ",\"ignored\":%" PRIu64 ",\"place\":"
                : "%s: %" PRIu64 " probes, %" PRIu64 " answers, %" PRIu64 " packets ignored\n",
           text, agent->probes, agent->answers, agent->ignored);
    print_place(mare_coord_vivaldi_here(agent->node), agent->dimensions, json);
    fputs(json ? ",\"peers\":[" : "\n\n  peer                      measured  estimated  answers\n",
          stdout);
    bool first = true;
    for (uint32_t i = 0; i < agent->count; i++) {
        if (!agent->peer[i].answers)
            continue;
        print_peer(session, &agent->peer[i], json, first);
        first = false;
    }
    fputs(json ? "]}\n" : "", stdout);
    fflush(stdout);
}

// ---- Commands ----------------------------------------------------------------------------------

static int add_peers(struct session *session, const struct place_arguments *args)
{
    for (int i = 0; i < args->peers; i++) {
        uint8_t address[MARE__UDP_ADDRESS];
        int code = resolve(args->peer[i], true, address);
        if (code)
            return code;
        mare__agent_add(&session->agent, address, 1);
    }
    return 0;
}

static int listen_at(struct session *session, const char *where)
{
    uint8_t address[MARE__UDP_ADDRESS];
    char text[MARE__UDP_TEXT];
    int code = resolve(where, false, address);
    if (code)
        return code;
    session->socket = mare__udp_listen(address, session->here);
    if (session->socket < 0)
        return fail(where, strerror(-session->socket));
    mare__arrivals_init(&session->arrivals);
    session->suspended_ns = mare__wall_suspended_ns();
    mare__udp_text(session->here, text);
    fprintf(stderr, "listening at %s\n", text);
    return 0;
}

int mare__place_agent(const struct place_arguments *args)
{
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    setup.dimensions = args->dimensions ? (uint32_t)args->dimensions : 3;
    setup.seed = mare__platform_live.random(mare__platform_live.context);
    size_t size = mare_coord_vivaldi_size(&setup);
    struct session *session = calloc(1, sizeof *session);
    void *memory = malloc(size);
    int code = session && memory ? 0 : fail("agent", "not enough memory");
    if (code == 0) {
        session->hold_ns = (uint64_t)(args->hold_ms * 1e6);
        mare__agent_init(&session->agent, mare_coord_vivaldi_init(memory, size, &setup),
                         setup.dimensions, setup.seed + 1);
        code = add_peers(session, args);
    }
    mare__signals_take(on_signal); // before anybody is told that it listens
    code = code ? code : listen_at(session, args->word[0]);
    if (code == 0) {
        run(session, (uint64_t)(args->interval_ms * 1e6),
            args->seconds > 0 ? now_ns() + (uint64_t)(args->seconds * 1e9) : UINT64_MAX);
        print_session(session, args->json);
        mare__udp_close(session->socket);
    }
    free(memory);
    free(session);
    return code;
}

// Asks an agent, up to three times. Returns whether it answered.
static bool question(int socket, const uint8_t *address, struct mare__agent_packet *reply)
{
    struct mare__agent_packet packet = {.kind = MARE__AGENT_QUESTION,
                                        .dimensions = MARE_COORD_DIMENSIONS};
    uint8_t data[DATAGRAM], from[MARE__UDP_ADDRESS];
    packet.nonce = secret();
    for (int turn = 0; turn < ASKED_TIMES; turn++) {
        uint64_t end_ns = now_ns() + ASK_NS;
        mare__udp_send(socket, address, data, mare__agent_write(&packet, data));
        while (now_ns() < end_ns) {
            mare__udp_wait(socket, end_ns - now_ns(), &interrupted);
            int64_t stamp_ns; // of no interest here
            long length = mare__udp_receive(socket, from, data, sizeof data, &stamp_ns);
            if (length >= 0 && (size_t)length <= sizeof data &&
                memcmp(from, address, sizeof from) == 0 &&
                mare__agent_read(reply, data, (size_t)length) && reply->kind == MARE__AGENT_REPLY &&
                reply->nonce == packet.nonce)
                return true;
        }
    }
    return false;
}

static int ask_one(const char *text, struct mare__agent_packet *reply)
{
    uint8_t address[MARE__UDP_ADDRESS];
    int code = resolve(text, true, address);
    if (code)
        return code;
    int socket = mare__udp_towards(address);
    if (socket < 0)
        return fail(text, strerror(-socket));
    bool answered = question(socket, address, reply);
    mare__udp_close(socket);
    return answered ? 0 : fail(text, "no answer");
}

int mare__place_ask(const struct place_arguments *args)
{
    struct mare__agent_packet reply[2] = {{.dimensions = 0}};
    for (int i = 0; i < args->words; i++) {
        int code = ask_one(args->word[i], &reply[i]);
        if (code)
            return code;
    }
    if (args->words == 1) {
        print_place(&reply[0].place, reply[0].dimensions, args->json);
        putchar('\n');
        return 0;
    }
    if (reply[0].dimensions != reply[1].dimensions)
        return fail(args->word[1], "has a place in another number of dimensions");
    double guess = mare_coord_place_distance(&reply[0].place, &reply[1].place);
    printf(args->json ? "{\"estimated_ms\":%.4f}\n" : "estimated %.3f ms\n", guess);
    return 0;
}
