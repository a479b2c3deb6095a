/* SPDX-License-Identifier: MIT */

/* An agent: probes a peer at a time, moves by what comes back, and learns of others by the way.
 *
 *     probe (nonce) ------------>  whoever asks is a new peer
 *                                  reply (nonce, place, another peer)
 *     matching nonce, from the one it was sent to: a round trip
 *
 * A reply counts once, only for the probe that is under way, and only from the address that was
 * probed: nobody else can move the node. An answer that comes too late, when the next probe has
 * gone, is ignored. A peer that is silent MARE__AGENT_SILENT times in a row is forgotten, unless
 * the user named it. Vivaldi deals with peers that lie about their place. */

#include "coord/place/agent.h"
#include "coord/place/fit.h"

#include <string.h>

#define HEAD 16u
#define NS_PER_MS 1e6
#define PATIENCE_MS 1000.0 /* for an answer, and ten times the last round trip */
#define PATIENCE_FIRST_MS 3000.0

static const uint8_t magic[5] = {'M', 'P', 'L', 'C', 1};
static const uint8_t nobody[MARE__AGENT_ADDRESS];

/* Packets -------------------------------------------------------------------------------------- */

static void write_u64(uint8_t *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t read_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void write_double(uint8_t *bytes, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    write_u64(bytes, bits);
}

static double read_double(const uint8_t *bytes)
{
    uint64_t bits = read_u64(bytes);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t mare__agent_write(const struct mare__agent_packet *packet, uint8_t *bytes)
{
    uint32_t at = HEAD;
    memcpy(bytes, magic, sizeof magic);
    bytes[5] = (uint8_t)packet->kind;
    bytes[6] = (uint8_t)packet->dimensions;
    bytes[7] = 0;
    write_u64(bytes + 8, packet->nonce);
    for (uint32_t i = 0; i < packet->dimensions; i++, at += 8)
        write_double(bytes + at, packet->place.x[i]);
    write_double(bytes + at, packet->place.height);
    write_double(bytes + at + 8, packet->place.error);
    memcpy(bytes + at + 16, packet->other, MARE__AGENT_ADDRESS);
    return at + 16 + MARE__AGENT_ADDRESS;
}

int mare__agent_read(struct mare__agent_packet *packet, const uint8_t *data, size_t length)
{
    if (length < HEAD || memcmp(data, magic, sizeof magic) != 0 || data[7] != 0 ||
        data[5] < MARE__AGENT_PROBE || data[5] > MARE__AGENT_QUESTION || data[6] < 1 ||
        data[6] > MARE_COORD_DIMENSIONS)
        return 0;
    uint32_t dimensions = data[6], at = HEAD;
    if (length != HEAD + 8 * (dimensions + 2) + MARE__AGENT_ADDRESS)
        return 0;
    *packet = (struct mare__agent_packet){.kind = (enum mare__agent_kind)data[5],
                                          .dimensions = dimensions,
                                          .nonce = read_u64(data + 8)};
    for (uint32_t i = 0; i < dimensions; i++, at += 8)
        packet->place.x[i] = read_double(data + at);
    packet->place.height = read_double(data + at);
    packet->place.error = read_double(data + at + 8);
    memcpy(packet->other, data + at + 16, MARE__AGENT_ADDRESS);
    return mare_coord_place_valid(&packet->place);
}

/* Peers ---------------------------------------------------------------------------------------- */

void mare__agent_init(struct mare__agent *agent, mare_coord_vivaldi *node, uint32_t dimensions,
                      uint64_t seed)
{
    memset(agent, 0, sizeof *agent);
    agent->node = node;
    agent->dimensions = dimensions;
    agent->random = seed;
}

static struct mare__agent_peer *find(struct mare__agent *agent, const uint8_t *address)
{
    for (uint32_t i = 0; i < agent->count; i++) {
        if (memcmp(agent->peer[i].address, address, MARE__AGENT_ADDRESS) == 0)
            return &agent->peer[i];
    }
    return NULL;
}

static void remove_peer(struct mare__agent *agent, struct mare__agent_peer *peer)
{
    mare_coord_vivaldi_forget(agent->node, peer->id);
    *peer = agent->peer[--agent->count];
}

/* Makes room where all is taken: any peer that has never answered, for its address may have been
 * forged. Returns whether there is room. */
static int make_room(struct mare__agent *agent)
{
    uint32_t from = (uint32_t)(mare__place_random(&agent->random) % MARE__AGENT_PEERS);
    for (uint32_t i = 0; i < agent->count && agent->count == MARE__AGENT_PEERS; i++) {
        struct mare__agent_peer *peer = &agent->peer[(from + i) % MARE__AGENT_PEERS];
        if (!peer->fixed && !peer->answers)
            remove_peer(agent, peer);
    }
    return agent->count < MARE__AGENT_PEERS;
}

void mare__agent_add(struct mare__agent *agent, const uint8_t *address, int fixed)
{
    if (memcmp(address, nobody, sizeof nobody) == 0 || find(agent, address) || !make_room(agent))
        return;
    struct mare__agent_peer *peer = &agent->peer[agent->count++];
    *peer = (struct mare__agent_peer){.fixed = fixed, .id = mare__place_random(&agent->random)};
    memcpy(peer->address, address, MARE__AGENT_ADDRESS);
}

/* The peers that have been asked and have not answered since. Forgets those who are silent for too
 * long. */
static void count_silence(struct mare__agent *agent, struct mare__agent_peer *peer)
{
    peer->silent += peer->sent_ns != 0;
    peer->sent_ns = 0;
    if (peer->silent < MARE__AGENT_SILENT)
        return;
    if (peer->fixed)
        mare_coord_vivaldi_forget(agent->node, peer->id);
    else
        remove_peer(agent, peer);
}

/* An address to pass on: any peer that answers, but not the one it is told to. */
static void pick_other(struct mare__agent *agent, const uint8_t *to, uint8_t *other)
{
    memset(other, 0, MARE__AGENT_ADDRESS);
    for (int draw = 0; draw < 4 && agent->count; draw++) {
        const struct mare__agent_peer *peer =
            &agent->peer[mare__place_random(&agent->random) % agent->count];
        if (peer->answers && peer->silent == 0 &&
            memcmp(peer->address, to, MARE__AGENT_ADDRESS) != 0) {
            memcpy(other, peer->address, MARE__AGENT_ADDRESS);
            return;
        }
    }
}

static uint32_t write_packet(struct mare__agent *agent, enum mare__agent_kind kind, uint64_t nonce,
                             const uint8_t *to, uint8_t *bytes)
{
    struct mare__agent_packet packet = {.kind = kind,
                                        .dimensions = agent->dimensions,
                                        .nonce = nonce,
                                        .place = *mare_coord_vivaldi_here(agent->node)};
    pick_other(agent, to, packet.other);
    return mare__agent_write(&packet, bytes);
}

/* Whether the answer to the probe under way may still come. */
static int may_answer(const struct mare__agent_peer *peer, uint64_t now_ns)
{
    double patience_ms = peer->answers ? PATIENCE_MS + 10 * peer->rtt : PATIENCE_FIRST_MS;
    return peer->sent_ns && (double)(now_ns - peer->sent_ns) < patience_ms * NS_PER_MS;
}

/* A peer with no probe under way, or NULL. */
static struct mare__agent_peer *choose(struct mare__agent *agent, uint64_t now_ns)
{
    uint64_t ids[MARE__AGENT_PEERS];
    for (int draw = 0; draw < 8; draw++) {
        for (uint32_t i = 0; i < agent->count; i++)
            ids[i] = agent->peer[i].id;
        uint32_t chosen = mare_coord_vivaldi_choose(agent->node, ids, agent->count);
        if (chosen == MARE_COORD_NOBODY)
            return NULL;
        struct mare__agent_peer *peer = &agent->peer[chosen];
        uint32_t before = agent->count;
        if (may_answer(peer, now_ns))
            continue;
        count_silence(agent, peer);
        if (agent->count == before)
            return peer;
    }
    return NULL;
}

uint32_t mare__agent_probe(struct mare__agent *agent, uint64_t now_ns, uint64_t nonce,
                           uint8_t *address, uint8_t *bytes)
{
    struct mare__agent_peer *peer = choose(agent, now_ns);
    if (!peer)
        return 0;
    peer->nonce = nonce;
    peer->sent_ns = now_ns ? now_ns : 1;
    agent->probes++;
    memcpy(address, peer->address, MARE__AGENT_ADDRESS);
    return write_packet(agent, MARE__AGENT_PROBE, peer->nonce, address, bytes);
}

void mare__agent_wake(struct mare__agent *agent)
{
    for (uint32_t i = 0; i < agent->count; i++)
        agent->peer[i].sent_ns = 0;
}

static void take_reply(struct mare__agent *agent, uint64_t now_ns, const uint8_t *address,
                       const struct mare__agent_packet *packet)
{
    struct mare__agent_peer *peer = find(agent, address);
    double rtt = peer && now_ns >= peer->sent_ns ? (double)(now_ns - peer->sent_ns) / NS_PER_MS : 0;
    if (!peer || peer->sent_ns == 0 || peer->nonce != packet->nonce ||
        packet->dimensions != agent->dimensions ||
        mare_coord_vivaldi_update(agent->node, peer->id, &packet->place, rtt) != MARE_COORD_OK) {
        agent->ignored++;
        return;
    }
    peer->sent_ns = 0;
    peer->silent = 0;
    peer->answers++;
    peer->rtt = rtt;
    peer->place = packet->place;
    agent->answers++;
    mare__agent_add(agent, packet->other, 0);
}

/* Whether a probe is one of our own: then whom it went to is ourselves, as where all nodes are
 * given the same list of peers, or somebody passed our address on to us. To be so near would say
 * nothing of the net, and that peer is dropped. */
static int is_own(struct mare__agent *agent, uint64_t nonce)
{
    for (uint32_t i = 0; i < agent->count; i++) {
        if (agent->peer[i].sent_ns && agent->peer[i].nonce == nonce) {
            remove_peer(agent, &agent->peer[i]);
            return 1;
        }
    }
    return 0;
}

uint32_t mare__agent_receive(struct mare__agent *agent, uint64_t now_ns, const uint8_t *address,
                             const uint8_t *data, size_t length, uint8_t *bytes)
{
    struct mare__agent_packet packet;
    if (!mare__agent_read(&packet, data, length)) {
        agent->ignored++;
        return 0;
    }
    if (packet.kind == MARE__AGENT_REPLY) {
        take_reply(agent, now_ns, address, &packet);
        return 0;
    }
    if (packet.kind == MARE__AGENT_PROBE ? packet.dimensions != agent->dimensions
                                         : packet.dimensions < agent->dimensions) {
        agent->ignored++; /* of another network, or the answer would be longer */
        return 0;
    }
    if (packet.kind == MARE__AGENT_PROBE && is_own(agent, packet.nonce))
        return 0;
    if (packet.kind == MARE__AGENT_PROBE)
        mare__agent_add(agent, address, 0);
    return write_packet(agent, MARE__AGENT_REPLY, packet.nonce, address, bytes);
}
