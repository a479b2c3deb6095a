/* SPDX-License-Identifier: MIT */
#pragma once

/* An agent that keeps a place by probing others: what to send, and what comes of what arrives. The
 * host supplies the time, the sockets and the pace. Addresses are bytes that only the host
 * understands. */

#include <mare/coord_place.h>

enum {
    MARE__AGENT_PEERS = 256,
    MARE__AGENT_ADDRESS = 18, /* an IPv6 (or mapped IPv4) address and a port */
    MARE__AGENT_PACKET = 16 + 8 * (MARE_COORD_DIMENSIONS + 2) + MARE__AGENT_ADDRESS, /* at most */
    MARE__AGENT_SILENT = 5, /* probes without an answer until a peer is forgotten */
};

/* A packet, all numbers little-endian:
 *
 *     0  "MPLC"          8  nonce, 8 bytes            16+8(d+2)  address of another peer,
 *     4  version 1      16  d coordinates, height,               or zeroes
 *     5  kind               error: doubles
 *     6  dimensions d
 *     7  0
 *
 * A reply is never longer than what it answers, so that nobody gains by forging a sender: a probe
 * has as many dimensions as its receiver, or is ignored, and a question at least as many. */
enum mare__agent_kind {
    MARE__AGENT_PROBE = 1,
    MARE__AGENT_REPLY,
    MARE__AGENT_QUESTION, /* a probe by somebody who is no peer, and wants only the answer */
};

struct mare__agent_packet {
    enum mare__agent_kind kind;
    uint32_t dimensions;
    uint64_t nonce;
    mare_coord_place place;
    uint8_t other[MARE__AGENT_ADDRESS];
};

/* Somebody to probe. */
struct mare__agent_peer {
    uint8_t address[MARE__AGENT_ADDRESS];
    int fixed;        /* never forgotten: the user named it */
    uint64_t id;      /* for the memory of Vivaldi */
    uint64_t nonce;   /* of the probe under way */
    uint64_t sent_ns; /* 0: none is */
    uint32_t silent;  /* probes in a row that were not answered */
    uint32_t answers;
    double rtt; /* the last one, milliseconds */
    mare_coord_place place;
};

struct mare__agent {
    mare_coord_vivaldi *node;
    uint32_t dimensions;
    uint64_t random;
    uint32_t count;
    struct mare__agent_peer peer[MARE__AGENT_PEERS];
    uint64_t probes, answers, ignored;
};

/* Makes an agent around a node of so many dimensions, which stays the caller's. */
void mare__agent_init(struct mare__agent *agent, mare_coord_vivaldi *node, uint32_t dimensions,
                      uint64_t seed);

/* Adds a peer if it is new and there is room. */
void mare__agent_add(struct mare__agent *agent, const uint8_t *address, int fixed);

/* Time for a probe with `nonce`, which nobody may be able to guess: writes it to `bytes` (room for
 * MARE__AGENT_PACKET) and whom it goes to to `address`. Returns its length, 0 when there is nobody
 * to probe, or answers to all those drawn may still come. */
uint32_t mare__agent_probe(struct mare__agent *agent, uint64_t now_ns, uint64_t nonce,
                           uint8_t *address, uint8_t *bytes);

/* The machine was suspended, and the clock of the instants given here stood still: the answers to
 * probes under way would seem faster than they are, so they are not waited for. */
void mare__agent_wake(struct mare__agent *agent);

/* `data` has arrived from `address`. Returns the length of the answer in `bytes`, 0 for none. What
 * makes no sense, or answers nothing that was asked, is counted and ignored. */
uint32_t mare__agent_receive(struct mare__agent *agent, uint64_t now_ns, const uint8_t *address,
                             const uint8_t *data, size_t length, uint8_t *bytes);

/* Returns the length. */
uint32_t mare__agent_write(const struct mare__agent_packet *packet, uint8_t *bytes);

/* Returns whether the bytes are a packet. */
int mare__agent_read(struct mare__agent_packet *packet, const uint8_t *data, size_t length);
