/* SPDX-License-Identifier: MIT */

/* Agents over a network of arrays: packets, who is believed, who is forgotten. */

#include "coord/place/agent.h"

#include "support/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 6 };

#define MS UINT64_C(1000000)

struct net {
    struct mare__agent agent[MOST];
    uint8_t address[MOST][MARE__AGENT_ADDRESS];
    uint32_t count;
    int gone[MOST];
    double rtt[MOST][MOST]; /* milliseconds */
    uint64_t now_ns;
};

static void setup(struct net *net, uint32_t count)
{
    memset(net, 0, sizeof *net);
    net->count = count;
    net->now_ns = 1000 * MS;
    for (uint32_t i = 0; i < count; i++) {
        mare_coord_vivaldi_setup node;
        mare_coord_vivaldi_setup_init(&node);
        node.dimensions = 2;
        node.seed = i;
        size_t size = mare_coord_vivaldi_size(&node);
        mare__agent_init(&net->agent[i], mare_coord_vivaldi_init(malloc(size), size, &node), 2,
                         100 + i);
        net->address[i][0] = (uint8_t)(i + 1);
    }
}

static void teardown(struct net *net)
{
    for (uint32_t i = 0; i < net->count; i++)
        free(net->agent[i].node);
}

static uint64_t last_nonce;

static uint64_t next_nonce(void)
{
    return last_nonce += 12345;
}

static int who(const struct net *net, const uint8_t *address)
{
    return address[0] - 1 < (int)net->count ? address[0] - 1 : -1;
}

/* Agent i probes one peer; the answer arrives after the round trip. */
static void probe(struct net *net, uint32_t i)
{
    uint8_t address[MARE__AGENT_ADDRESS], there[MARE__AGENT_PACKET], back[MARE__AGENT_PACKET];
    uint32_t length = mare__agent_probe(&net->agent[i], net->now_ns, next_nonce(), address, there);
    int j = length ? who(net, address) : -1;
    if (j < 0 || net->gone[j] || net->gone[i])
        return;
    length = mare__agent_receive(&net->agent[j], net->now_ns, net->address[i], there, length, back);
    if (j == (int)i) {
        assert_int_equal(length, 0);
        return;
    }
    assert_int_not_equal(length, 0);
    mare__agent_receive(&net->agent[i], net->now_ns + (uint64_t)(net->rtt[i][j] * 1e6),
                        net->address[j], back, length, there);
}

static void cycles(struct net *net, int count)
{
    for (int t = 0; t < count; t++, net->now_ns += 2000 * MS) {
        for (uint32_t i = 0; i < net->count; i++)
            if (!net->gone[i])
                probe(net, i);
    }
}

static struct mare__agent_packet example(void)
{
    return (struct mare__agent_packet){.kind = MARE__AGENT_REPLY,
                                       .dimensions = 3,
                                       .nonce = 0x0123456789abcdef,
                                       .place = {.x = {1.5, -2, 1e-3}, .height = 4, .error = 0.25},
                                       .other = {9, 8, 7}};
}

static void packets_are_read_as_written(void **state)
{
    (void)state;
    struct mare__agent_packet wanted = example(), got;
    uint8_t bytes[MARE__AGENT_PACKET];
    uint32_t length = mare__agent_write(&wanted, bytes);
    const uint8_t head[] = {'M',  'P',  'L',  'C',  1,    2,    3,    0,
                            0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01};
    const uint8_t one_and_a_half[] = {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}; /* IEEE 754 */
    assert_int_equal(length, 16 + 5 * 8 + 18);
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + 16, one_and_a_half, 8);
    assert_true(mare__agent_read(&got, bytes, length));
    assert_int_equal(got.kind, wanted.kind);
    assert_int_equal(got.dimensions, 3);
    assert_true(got.nonce == wanted.nonce);
    assert_memory_equal(&got.place, &wanted.place, sizeof got.place);
    assert_memory_equal(got.other, wanted.other, sizeof got.other);
}

static void what_is_no_packet_is_not_read(void **state)
{
    (void)state;
    struct mare__agent_packet packet = example(), got;
    uint8_t good[MARE__AGENT_PACKET + 1] = {0}, bad[sizeof good];
    uint32_t length = mare__agent_write(&packet, good);
    for (uint32_t cut = 0; cut < length; cut++)
        assert_false(mare__agent_read(&got, good, cut));
    assert_false(mare__agent_read(&got, good, length + 1));
    const struct {
        int at, value;
    } wrong[] = {{0, 'X'}, {4, 2}, {5, 0}, {5, 4}, {6, 0}, {6, 9}, {6, 2}, {7, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bad, good, sizeof bad);
        bad[wrong[i].at] = (uint8_t)wrong[i].value;
        assert_false(mare__agent_read(&got, bad, length));
    }
    packet.place.x[1] = NAN;
    mare__agent_write(&packet, bad);
    assert_false(mare__agent_read(&got, bad, length));
    packet = example(), packet.place.error = -1;
    mare__agent_write(&packet, bad);
    assert_false(mare__agent_read(&got, bad, length));
}

/* Only the answer to the probe under way moves the agent, once, and from whom it was asked. */
static void only_answers_that_were_asked_for_count(void **state)
{
    (void)state;
    struct net net;
    uint8_t to[MARE__AGENT_ADDRESS], probe_bytes[MARE__AGENT_PACKET], bytes[MARE__AGENT_PACKET],
        none[MARE__AGENT_PACKET];
    struct mare__agent_packet packet;
    setup(&net, 3);
    struct mare__agent *agent = &net.agent[0];
    mare_coord_place before = *mare_coord_vivaldi_here(agent->node);
    mare__agent_add(agent, net.address[1], 1);
    uint32_t length = mare__agent_probe(agent, net.now_ns, next_nonce(), to, probe_bytes);
    assert_memory_equal(to, net.address[1], sizeof to);
    assert_true(mare__agent_read(&packet, probe_bytes, length));
    assert_true(packet.nonce == last_nonce); /* the host's, not one that can be guessed */
    packet.kind = MARE__AGENT_REPLY;
    packet.place.x[0] = 50;
    mare__agent_write(&packet, bytes);
    uint64_t later = net.now_ns + 30 * MS;
    mare__agent_receive(agent, later, net.address[2], bytes, length, none); /* another sender */
    packet.nonce++;
    mare__agent_write(&packet, bytes);
    mare__agent_receive(agent, later, net.address[1], bytes, length, none); /* another nonce */
    packet.nonce--;
    packet.dimensions = 3; /* another network's space, though the place would fit into ours */
    mare__agent_receive(agent, later, net.address[1], bytes, mare__agent_write(&packet, bytes),
                        none);
    assert_memory_equal(&before, mare_coord_vivaldi_here(agent->node), sizeof before);
    assert_int_equal(agent->ignored, 3);
    packet.dimensions = 2;
    mare__agent_write(&packet, bytes);
    mare__agent_receive(agent, later, net.address[1], bytes, length, none);
    assert_int_equal(agent->answers, 1);
    assert_true(agent->peer[0].rtt == 30);
    before = *mare_coord_vivaldi_here(agent->node);
    mare__agent_receive(agent, later, net.address[1], bytes, length, none); /* the same again */
    assert_int_equal(agent->ignored, 4);
    assert_memory_equal(&before, mare_coord_vivaldi_here(agent->node), sizeof before);
    teardown(&net);
}

/* The clock stood still while the machine slept: the answer to a probe from before says nothing of
 * the way. It is nobody's fault either. */
static void a_probe_from_before_a_suspend_is_given_up(void **state)
{
    (void)state;
    struct net net;
    uint8_t to[MARE__AGENT_ADDRESS], bytes[MARE__AGENT_PACKET], none[MARE__AGENT_PACKET];
    setup(&net, 2);
    struct mare__agent *agent = &net.agent[0];
    mare__agent_add(agent, net.address[1], 1);
    uint32_t length = mare__agent_probe(agent, net.now_ns, next_nonce(), to, bytes);
    bytes[5] = MARE__AGENT_REPLY;
    mare__agent_wake(agent);
    mare__agent_receive(agent, net.now_ns + MS, net.address[1], bytes, length, none);
    assert_true(agent->answers == 0 && agent->ignored == 1 && agent->peer[0].silent == 0);
    length = mare__agent_probe(agent, net.now_ns + 2 * MS, next_nonce(), to, bytes);
    assert_true(length > 0); /* at once: the old one is not waited for */
    bytes[5] = MARE__AGENT_REPLY;
    mare__agent_receive(agent, net.now_ns + 3 * MS, net.address[1], bytes, length, none);
    assert_true(agent->answers == 1);
    teardown(&net);
}

static void set_rtt(struct net *net, uint32_t i, uint32_t j, double rtt)
{
    net->rtt[i][j] = net->rtt[j][i] = rtt;
}

/* All know one: through it they find each other, and their distances. */
static void one_acquaintance_is_enough(void **state)
{
    (void)state;
    struct net net;
    setup(&net, 4);
    set_rtt(&net, 0, 1, 30), set_rtt(&net, 0, 2, 40), set_rtt(&net, 1, 2, 50);
    set_rtt(&net, 0, 3, 60), set_rtt(&net, 1, 3, 67), set_rtt(&net, 2, 3, 72);
    for (uint32_t i = 1; i < 4; i++)
        mare__agent_add(&net.agent[i], net.address[0], 1);
    cycles(&net, 400);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(net.agent[i].count, 3);
        for (uint32_t j = 0; j < i; j++) {
            double guess = mare_coord_place_distance(mare_coord_vivaldi_here(net.agent[i].node),
                                                     mare_coord_vivaldi_here(net.agent[j].node));
            assert_true(fabs(guess / net.rtt[i][j] - 1) < 0.1);
        }
    }
    teardown(&net);
}

/* Two of six go. The others forget them, and still know their own distances. */
static void who_is_silent_is_forgotten(void **state)
{
    (void)state;
    struct net net;
    setup(&net, 6);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < i; j++)
            set_rtt(&net, i, j, 10 + 8 * (double)(i - j));
        mare__agent_add(&net.agent[i], net.address[(i + 1) % 6], 0);
    }
    cycles(&net, 300);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(net.agent[i].count, 5);
    net.gone[4] = net.gone[5] = 1;
    cycles(&net, 300);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(net.agent[i].count, 3);
        for (uint32_t j = 0; j < i; j++) {
            double guess = mare_coord_place_distance(mare_coord_vivaldi_here(net.agent[i].node),
                                                     mare_coord_vivaldi_here(net.agent[j].node));
            assert_true(fabs(guess / net.rtt[i][j] - 1) < 0.1);
        }
    }
    net.gone[4] = 0; /* and back */
    mare__agent_add(&net.agent[4], net.address[0], 1);
    cycles(&net, 100);
    assert_int_equal(net.agent[0].count, 4);
    teardown(&net);
}

/* An answer that takes longer than the pace of probes still counts; nobody is probed twice at
 * once. */
/* All three are given the same list. */
static void nobody_measures_itself(void **state)
{
    struct net net;
    (void)state;
    setup(&net, 3);
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t j = 0; j < 3; j++)
            mare__agent_add(&net.agent[i], net.address[j], 1);
        set_rtt(&net, i, (i + 1) % 3, 40);
    }
    cycles(&net, 50);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mare__agent *agent = &net.agent[i];
        assert_int_equal(agent->count, 2);
        for (uint32_t k = 0; k < agent->count; k++) {
            assert_int_not_equal(agent->peer[k].address[0], net.address[i][0]);
            assert_true(agent->peer[k].answers > 10);
        }
        assert_int_equal(agent->probes, agent->answers + 1); /* but for that to itself */
    }
    teardown(&net);
}

static void patience(void **state)
{
    (void)state;
    struct net net;
    uint8_t to[MARE__AGENT_ADDRESS], bytes[MARE__AGENT_PACKET], back[MARE__AGENT_PACKET];
    setup(&net, 2);
    mare__agent_add(&net.agent[0], net.address[1], 0);
    uint32_t length = mare__agent_probe(&net.agent[0], net.now_ns, next_nonce(), to, bytes);
    assert_int_not_equal(length, 0);
    assert_int_equal(mare__agent_probe(&net.agent[0], net.now_ns + 10 * MS, next_nonce(), to, back),
                     0);
    length = mare__agent_receive(&net.agent[1], net.now_ns, net.address[0], bytes, length, back);
    mare__agent_receive(&net.agent[0], net.now_ns + 900 * MS, net.address[1], back, length, bytes);
    assert_int_equal(net.agent[0].answers, 1);
    for (int t = 0; t < MARE__AGENT_SILENT; t++) {
        net.now_ns += 60000 * MS;
        assert_int_not_equal(mare__agent_probe(&net.agent[0], net.now_ns, next_nonce(), to, bytes),
                             0);
    }
    net.now_ns += 60000 * MS;
    assert_int_equal(mare__agent_probe(&net.agent[0], net.now_ns, next_nonce(), to, bytes), 0);
    assert_int_equal(net.agent[0].count, 0);
    teardown(&net);
}

/* Who only asks does not become a peer; and there is no end of peers' room to fill. */
static void questions_and_crowds(void **state)
{
    (void)state;
    struct net net;
    uint8_t bytes[MARE__AGENT_PACKET], back[MARE__AGENT_PACKET], address[MARE__AGENT_ADDRESS] = {0};
    struct mare__agent_packet packet = example();
    setup(&net, 1);
    packet.kind = MARE__AGENT_QUESTION;
    uint32_t length = mare__agent_write(&packet, bytes);
    assert_int_not_equal(
        mare__agent_receive(&net.agent[0], net.now_ns, net.address[0], bytes, length, back), 0);
    assert_int_equal(net.agent[0].count, 0);
    packet.dimensions = 1, packet.place = (mare_coord_place){.error = 1}; /* shorter */
    length = mare__agent_write(&packet, bytes);
    assert_int_equal(
        mare__agent_receive(&net.agent[0], net.now_ns, net.address[0], bytes, length, back), 0);
    packet.kind = MARE__AGENT_PROBE;
    for (packet.dimensions = 1; packet.dimensions <= 3; packet.dimensions += 2) {
        length = mare__agent_write(&packet, bytes);
        assert_int_equal(
            mare__agent_receive(&net.agent[0], net.now_ns, net.address[0], bytes, length, back), 0);
        assert_int_equal(net.agent[0].count, 0);
    }
    packet.dimensions = 2;
    length = mare__agent_write(&packet, bytes);
    for (uint32_t i = 0; i < 2 * MARE__AGENT_PEERS; i++) {
        address[0] = (uint8_t)i, address[1] = (uint8_t)(i >> 8), address[2] = 1;
        assert_int_equal(
            mare__agent_receive(&net.agent[0], net.now_ns, address, bytes, length, back), length);
    }
    assert_int_equal(net.agent[0].count, MARE__AGENT_PEERS);
    /* Senders that never answered give way to who comes, those that did and those named stay. */
    memcpy(net.agent[0].peer[7].address, (uint8_t[MARE__AGENT_ADDRESS]){7, 7, 7}, 18);
    net.agent[0].peer[7].answers = 1;
    memcpy(net.agent[0].peer[8].address, (uint8_t[MARE__AGENT_ADDRESS]){8, 8, 8}, 18);
    net.agent[0].peer[8].fixed = 1;
    for (uint32_t i = 0; i < 4 * MARE__AGENT_PEERS; i++) {
        int kept = 0, came = 0;
        address[0] = (uint8_t)i, address[1] = (uint8_t)(i >> 8), address[2] = 2;
        mare__agent_receive(&net.agent[0], net.now_ns, address, bytes, length, back);
        for (uint32_t k = 0; k < MARE__AGENT_PEERS; k++) {
            kept += net.agent[0].peer[k].answers || net.agent[0].peer[k].fixed;
            came += memcmp(net.agent[0].peer[k].address, address, sizeof address) == 0;
        }
        assert_true(kept == 2 && came == 1);
    }
    assert_int_equal(net.agent[0].count, MARE__AGENT_PEERS);
    teardown(&net);
}

UNIT_TESTS(cmocka_unit_test(packets_are_read_as_written),
           cmocka_unit_test(what_is_no_packet_is_not_read),
           cmocka_unit_test(only_answers_that_were_asked_for_count),
           cmocka_unit_test(a_probe_from_before_a_suspend_is_given_up),
           cmocka_unit_test(one_acquaintance_is_enough),
           cmocka_unit_test(who_is_silent_is_forgotten), cmocka_unit_test(patience),
           cmocka_unit_test(nobody_measures_itself), cmocka_unit_test(questions_and_crowds))
