// SPDX-License-Identifier: MIT
// Any bytes at an agent, as packets from a few senders and as answers with the right nonce: it
// never reads beyond the end, and its place stays a place. Each input is a row of packets, each
// with its length before it; an odd first byte sends it with the nonce that is waited for.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "coord/place/agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SENDERS = 3 };

static void deliver(struct mare__agent *agent, uint64_t now_ns, const uint8_t *data, size_t length)
{
    uint8_t answer[MARE__AGENT_PACKET], address[MARE__AGENT_ADDRESS];
    uint8_t *exact = malloc(length + 1), *bytes = exact + 1; // AddressSanitizer watches the end
    memcpy(bytes, data, length);
    uint32_t sent = mare__agent_probe(agent, now_ns, now_ns * 7, address, answer);
    if (length && (data[0] & 1) && length >= 16) {
        memcpy(bytes, "MPLC\1\2", 6);
        memcpy(bytes + 8, answer + 8, 8);
    }
    if (!sent || (length && (data[0] & 2))) {
        memset(address, 0, sizeof address);
        address[0] = (uint8_t)(1 + (length ? data[0] : 0) % SENDERS);
    }
    uint32_t back = mare__agent_receive(agent, now_ns + 20000000, address, bytes, length, answer);
    struct mare__agent_packet packet;
    assert(back <= MARE__AGENT_PACKET);
    assert(back == 0 || mare__agent_read(&packet, answer, back));
    assert(back == 0 || packet.kind == MARE__AGENT_REPLY);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t memory[4096];
    static struct mare__agent agent;
    mare_coord_vivaldi_setup setup;
    mare_coord_vivaldi_setup_init(&setup);
    setup.dimensions = 3;
    mare_coord_vivaldi *node = mare_coord_vivaldi_init(memory, sizeof memory, &setup);
    assert(node);
    mare__agent_init(&agent, node, 3, 1);
    uint64_t now_ns = 1;
    for (size_t at = 0; at < size; now_ns += 1000000000) {
        size_t length = data[at++];
        length = length < size - at ? length : size - at;
        deliver(&agent, now_ns, data + at, length);
        assert(mare_coord_place_valid(mare_coord_vivaldi_here(node)));
        assert(agent.count <= MARE__AGENT_PEERS);
        at += length;
    }
    return 0;
}
