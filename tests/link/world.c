// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/link/world_inner.h"

enum fault {
    CUT = 1,      // a connection breaks
    SILENCE = 2,  // it falls silent, both ways, for ever
    ONE_WAY = 4,  // one way, for a while or for ever
    FREEZE = 8,   // a node stands still
    RESTART = 16, // a node dies, and comes back with a new incarnation
};

enum { STEPS_MOST = 400000 };

void world_options_init(struct world_options *options, uint64_t seed)
{
    *options = (struct world_options){.seed = seed};
    for (int i = 0; i < WORLD_NODES; i++)
        options->machines[i] = &link_real;
}

void world_trace(const struct world *world, const struct party *party, const char *format, ...)
{
    FILE *out = world->options->trace;
    va_list arguments;
    if (!out)
        return;
    fprintf(out, "%9.3f ms  ", (double)world->now_us / 1000);
    if (party)
        fprintf(out, "%s-%c[%d] ", party->node->name, party->peer < 0 ? '?' : 'a' + party->peer,
                (int)(party - world->parties));
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fputc('\n', out);
}

// ---- Settings -----------------------------------------------------------------------------------

static uint64_t between(mare_sim_random *random, uint64_t low, uint64_t high)
{
    return low + mare_sim_below(random, high - low + 1);
}

static void make_nodes(struct world *world, mare_sim_random *random)
{
    static const uint64_t silences[] = {200000, 400000, 1000000, 3000000};
    uint64_t silence = silences[mare_sim_below(random, 4)];
    // Frames of more than 4 KiB are read in another way than small ones.
    uint64_t frame_most = mare_sim_below(random, 2) ? 600 : 16000;
    for (int i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        struct mare__link_settings *settings = &node->settings;
        *node = (struct node){.world = world, .number = i, .name = {(char)('a' + i)}};
        node->machine = world->options->machines[i];
        mare__link_settings_init(settings);
        settings->self.name = mare__span_of(node->name);
        settings->self.incarnation = 1;
        settings->self.silence_us = silence << mare_sim_below(random, 2);
        settings->self.frame = (uint32_t)between(random, 256, frame_most);
        settings->self.flows = (uint32_t)between(random, 4, 20);
        settings->self.control = (struct mare__link_window){(uint32_t)between(random, 2, 40),
                                                            between(random, 100, 20000)};
        settings->receive = between(random, 30000, 300000);
        settings->send = between(random, 3000, 200000);
        settings->unacknowledged = (uint32_t)between(random, 64, 200);
        settings->handshake_us = 2 * settings->self.silence_us;
        settings->secret = mare_sim_draw(random);
        settings->context = node;
        settings->release = work_release;
        for (int j = 0; j < world->node_count; j++)
            node->dial_at[j] = mare_sim_below(random, 2) ? 0 : between(random, 0, 100000);
    }
    world->latency_us = between(random, 20, silence / 40);
    world->capacity = (uint32_t)between(random, 2000, NET_PIPE);
    world->message_most = (uint32_t)between(random, 300, 12000);
}

static void make_world(struct world *world, const struct world_options *options)
{
    mare_sim_random random = mare_sim_stream(options->seed, 0);
    memset(world, 0, sizeof *world);
    world->options = options;
    world->net_random = mare_sim_stream(options->seed, 1);
    world->fault_random = mare_sim_stream(options->seed, 2);
    world->work_random = mare_sim_stream(options->seed, 3);
    world->host_random = mare_sim_stream(options->seed, 4);
    world->node_count = mare_sim_below(&random, 4) ? 2 : 3;
    make_nodes(world, &random);
    uint64_t silence = world->nodes[0].settings.self.silence_us;
    world->work_us = between(&random, silence / 200, silence / 20);
    // One run in eight has no fault at all.
    world->faults = mare_sim_below(&random, 8) ? (unsigned)between(&random, 1, 31) : 0;
    world->fault_us = between(&random, silence / 8, 2 * silence);
    world->fault_at = world->faults ? world->fault_us : UINT64_MAX;
    world->calm_at = between(&random, 2, 8) * silence;
    world->end_at = world->calm_at + 16 * silence + 3000000;
}

// ---- Faults -------------------------------------------------------------------------------------

static struct net_connection *any_net(struct world *world)
{
    int open[NETS], count = 0;
    for (int i = 0; i < NETS; i++) {
        if (world->nets[i] && world->nets[i]->open[0] && world->nets[i]->open[1])
            open[count++] = i;
    }
    return count ? world->nets[open[mare_sim_below(&world->fault_random, (uint64_t)count)]] : NULL;
}

static void fault_net(struct world *world, enum fault fault)
{
    struct net_connection *net = any_net(world);
    if (!net)
        return;
    int end = (int)mare_sim_below(&world->fault_random, 2);
    if (fault == CUT)
        net_cut(net, world->now_us, &world->fault_random);
    else
        net_stop(net, end);
    if (fault == SILENCE)
        net_stop(net, 1 - end);
    world_trace(world, NULL, "*** %s",
                fault == CUT       ? "cut"
                : fault == SILENCE ? "silence"
                                   : "one way");
}

static void heal_nets(struct world *world)
{
    for (int i = 0; i < NETS; i++) {
        struct net_connection *net = world->nets[i];
        for (int end = 0; net && end < 2; end++) {
            if (net->pipe[end].stopped && !net->pipe[1 - end].stopped &&
                mare_sim_below(&world->fault_random, 2))
                net_heal(net, end, world->now_us);
        }
    }
}

// The end of a life: its links are gone without a word, and with them what they had lent.
static void kill_node(struct world *world, struct node *node)
{
    bool power = mare_sim_below(&world->fault_random, 2); // gone: nobody closes the connections
    for (int i = 0; i < PARTIES; i++) {
        struct party *party = &world->parties[i];
        if (party->stage == FREE || party->node != node)
            continue;
        if (party->net && power)
            net_stop(party->net, party->end);
        if (party->session)
            party->session->over[party->role] = true;
        host_drop(party);
    }
    node->dead = true;
    node->stamp = 0;
    node->settings.self.incarnation++;
}

static void fault_node(struct world *world, enum fault fault)
{
    struct node *node =
        &world->nodes[mare_sim_below(&world->fault_random, (uint64_t)world->node_count)];
    uint64_t silence = node->settings.self.silence_us;
    if (node->frozen_until > world->now_us)
        return;
    node->frozen_until = world->now_us + between(&world->fault_random, silence / 10, 2 * silence);
    world_trace(world, NULL, "*** %s %s for %" PRIu64 " ms", node->name,
                fault == FREEZE ? "freezes" : "dies", (node->frozen_until - world->now_us) / 1000);
    if (fault == RESTART)
        kill_node(world, node);
}

static void make_fault(struct world *world)
{
    unsigned fault = 1u << mare_sim_below(&world->fault_random, 5);
    world->fault_at =
        world->now_us + 1 + mare_sim_exponential(&world->fault_random, world->fault_us);
    heal_nets(world);
    if (!(world->faults & fault))
        return;
    world->faulted = true;
    if (fault <= ONE_WAY)
        fault_net(world, fault);
    else
        fault_node(world, fault);
}

// ---- Time ---------------------------------------------------------------------------------------

static bool is_away(const struct node *node, uint64_t now_us)
{
    return node->frozen_until > now_us;
}

static void wake_nodes(struct world *world)
{
    for (int i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        if (node->frozen_until == 0 || is_away(node, world->now_us))
            continue;
        node->frozen_until = 0;
        node->woke_at = world->now_us;
        node->dead = false;
    }
}

static void dial_wanted(struct world *world)
{
    for (int i = 0; i < world->node_count; i++) {
        struct node *node = &world->nodes[i];
        for (int j = 0; j < world->node_count && !is_away(node, world->now_us); j++) {
            if (i != j && !node->current[j] && world->now_us >= node->dial_at[j])
                host_dial(node, j);
        }
    }
}

// When something is to be done next, and by which party; NULL: by the world itself.
static uint64_t next_time(const struct world *world, struct party **next)
{
    uint64_t at = world->calm ? world->end_at : world->calm_at;
    *next = NULL;
    at = !world->calm && world->fault_at < at ? world->fault_at : at;
    for (int i = 0; i < world->node_count; i++) {
        const struct node *node = &world->nodes[i];
        if (node->frozen_until && node->frozen_until < at)
            at = node->frozen_until;
        for (int j = 0; j < world->node_count && !is_away(node, world->now_us); j++) {
            if (i != j && !node->current[j] && node->dial_at[j] < at)
                at = node->dial_at[j];
        }
    }
    for (int i = 0; i < PARTIES; i++) {
        const struct party *party = &world->parties[i];
        if (party->stage == FREE || is_away(party->node, world->now_us))
            continue;
        uint64_t due = host_due(party);
        if (due < at || (due == at && !*next)) {
            at = due;
            *next = (struct party *)party;
        }
    }
    return at > world->now_us ? at : world->now_us;
}

static void step(struct world *world)
{
    struct party *party;
    world->now_us = next_time(world, &party);
    world->steps++;
    wake_nodes(world);
    if (party) {
        host_serve(party);
        return;
    }
    if (!world->calm && world->now_us >= world->calm_at) {
        world_trace(world, NULL, "*** calm");
        world->calm = true;
    } else if (!world->calm && world->now_us >= world->fault_at) {
        make_fault(world);
    }
    dial_wanted(world);
}

// ---- The end ------------------------------------------------------------------------------------

static void check_linked(struct world *world)
{
    for (int i = 0; i < world->node_count; i++) {
        for (int j = 0; j < i; j++) {
            const struct party *a = world->nodes[i].current[j], *b = world->nodes[j].current[i];
            if (!a || !b || !a->up || !b->up || a->session != b->session)
                ledger_violate(&world->ledger, "LINKED", "%s and %s have %s", world->nodes[j].name,
                               world->nodes[i].name, a && b ? "two links" : "no link");
        }
    }
}

// Nothing is under way any more: all that was lent is back, and there is room for half a window.
static void check_party(struct world *world, struct party *party)
{
    const struct link_machine *machine = party->node->machine;
    struct mare__link_view view;
    machine->look(party->link, &view);
    if (view.phase != MARE__LINK_LIVE)
        return;
    if (view.held || view.frames_out != view.frames_acknowledged)
        ledger_violate(&world->ledger, "STUCK", "%" PRIu64 " of %" PRIu64 " frames acknowledged",
                       view.frames_acknowledged, view.frames_out);
    for (uint32_t i = 0; i < party->session->count[party->role]; i++) {
        const struct ledger_track *track = &party->session->tracks[party->role][i];
        struct mare__link_window room;
        if (!track->known || !track->sending || track->closed || track->once)
            continue;
        machine->room(party->link, track->number, &room);
        uint64_t half = track->window.bytes / 2, send = party->node->settings.send;
        if (2 * room.messages < track->window.messages || room.bytes < (half < send ? half : send))
            ledger_violate(&world->ledger, "STUCK",
                           "flow %" PRIu64 " takes %u, %" PRIu64 " when all was consumed",
                           track->number, room.messages, room.bytes);
    }
}

static void settle(struct world *world)
{
    ledger_settle(&world->ledger);
    check_linked(world);
    for (int i = 0; i < PARTIES; i++) {
        struct party *party = &world->parties[i];
        if (party->stage == CURRENT && party->up)
            check_party(world, party);
    }
}

static void end_world(struct world *world)
{
    for (int i = 0; i < PARTIES; i++) {
        if (world->parties[i].stage != FREE)
            host_drop(&world->parties[i]);
    }
    if (world->ledger.blocks)
        ledger_violate(&world->ledger, "RELEASE", "%u blocks were not released",
                       world->ledger.blocks);
    for (size_t i = 0; i < world->block_count; i++)
        free(world->blocks[i]);
    free(world->blocks);
    for (int i = 0; i < NETS; i++)
        free(world->nets[i]);
    ledger_fini(&world->ledger);
}

bool world_run(const struct world_options *options, struct world_outcome *outcome)
{
    struct world *world = calloc(1, sizeof *world);
    make_world(world, options);
    while (world->now_us < world->end_at && !world->ledger.violation) {
        step(world);
        if (world->steps > STEPS_MOST)
            ledger_violate(&world->ledger, "STUCK", "no end after %d steps", STEPS_MOST);
    }
    if (!world->ledger.violation)
        settle(world);
    end_world(world);
    const struct ledger *ledger = &world->ledger;
    *outcome = (struct world_outcome){.violation = ledger->violation,
                                      .accepted = ledger->accepted,
                                      .delivered = ledger->delivered,
                                      .resumed = ledger->resumed,
                                      .lost = ledger->lost,
                                      .steps = world->steps};
    memcpy(outcome->detail, ledger->detail, sizeof outcome->detail);
    if (outcome->violation && options->trace)
        fprintf(options->trace, "%s: %s\n", outcome->violation, outcome->detail);
    free(world);
    return !outcome->violation;
}
