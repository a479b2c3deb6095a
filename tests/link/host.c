// SPDX-License-Identifier: MIT
// The host of a node, as small as it can be: it dials those it wants to be linked with, judges who
// calls, goes on with sessions over new connections, and serves each link in rounds, reading and
// writing as many bytes at a time as the seed says.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/link/world_inner.h"

static uint64_t draw(struct world *world, uint64_t below)
{
    return mare_sim_below(&world->host_random, below);
}

// ---- Connections and parties --------------------------------------------------------------------

static struct net_connection *make_net(struct world *world)
{
    for (int i = 0; i < NETS; i++) {
        struct net_connection *net = world->nets[i];
        if (net && (net->open[0] || net->open[1]))
            continue;
        if (!net)
            net = world->nets[i] = calloc(1, sizeof *net);
        net_connect(net, world->capacity, world->latency_us, world->now_us);
        return net;
    }
    return NULL;
}

static void close_net(struct party *party)
{
    if (party->net)
        net_close(party->net, party->end, party->world->now_us);
    party->net = NULL;
}

static struct party *make_party(struct node *node, enum mare__link_role role,
                                struct net_connection *net, int peer)
{
    struct world *world = node->world;
    for (int i = 0; i < PARTIES; i++) {
        struct party *party = &world->parties[i];
        if (party->stage != FREE)
            continue;
        *party = (struct party){.world = world,
                                .node = node,
                                .stage = FRESH,
                                .peer = peer,
                                .net = net,
                                .end = role == MARE__LINK_ACCEPTS,
                                .role = role == MARE__LINK_ACCEPTS,
                                .write_at = world->now_us, // there is something to be sent
                                .redial_at = UINT64_MAX,
                                .up_at = world->now_us};
        uint64_t stamp = role == MARE__LINK_DIALS ? ++node->stamp : 0;
        party->link = node->machine->create(&node->settings, role, stamp, world->now_us);
        return party;
    }
    return NULL;
}

void host_drop(struct party *party)
{
    struct node *node = party->node;
    if (party->peer >= 0 && node->current[party->peer] == party)
        node->current[party->peer] = NULL;
    node->machine->destroy(party->link);
    close_net(party);
    party->stage = FREE;
}

// The other end of the connection finds it open.
static void connect_to(struct node *from, struct net_connection *net, int peer)
{
    struct node *to = &from->world->nodes[peer];
    if (to->dead || !make_party(to, MARE__LINK_ACCEPTS, net, -1))
        net_close(net, 1, from->world->now_us);
}

void host_dial(struct node *node, int peer)
{
    struct world *world = node->world;
    struct net_connection *net = make_net(world);
    struct party *party = net ? make_party(node, MARE__LINK_DIALS, net, peer) : NULL;
    node->dial_at[peer] = world->now_us + 20000 + draw(world, 200000);
    if (!party) {
        if (net)
            net->open[0] = net->open[1] = false;
        return;
    }
    party->stage = CURRENT;
    node->current[peer] = party;
    world_trace(world, party, "dials");
    connect_to(node, net, peer);
}

static void redial(struct party *party)
{
    struct net_connection *net = make_net(party->world);
    party->redial_at = UINT64_MAX;
    if (!net)
        return;
    if (party->node->machine->redial(party->link)) {
        net->open[0] = net->open[1] = false;
        return;
    }
    world_trace(party->world, party, "dials again");
    party->net = net;
    party->end = 0;
    party->write_at = party->world->now_us;
    party->up_at = party->world->now_us;
    connect_to(party->node, net, party->peer);
}

// ---- Events -------------------------------------------------------------------------------------

static void make_session(struct world *world, uint8_t *id)
{
    for (int i = 0; i < MARE__LINK_SESSION; i++)
        id[i] = (uint8_t)draw(world, 256);
}

static void on_hello(struct party *party)
{
    struct node *node = party->node;
    const struct link_machine *machine = node->machine;
    const struct mare__link_hello *hello = machine->peer(party->link);
    int peer = hello->name.at[0] - 'a';
    struct party *other = node->current[peer];
    unsigned code = machine->judge(&node->settings, hello, other ? other->link : NULL);
    party->peer = peer;
    world_trace(node->world, party, "judges: %s", mare__link_code_word(code));
    if (code) {
        machine->refuse(party->link, code, (struct mare__span){0});
        return;
    }
    if (other)
        machine->quit(other->link, MARE__LINK_CODE_REPLACED, (struct mare__span){0});
    uint8_t id[MARE__LINK_SESSION];
    make_session(node->world, id);
    party->session = ledger_session_add(&node->world->ledger, id);
    party->stage = CURRENT;
    node->current[peer] = party;
    machine->accept(party->link, id, ++node->stamp);
}

static void on_resume(struct party *fresh, const uint8_t *id)
{
    struct node *node = fresh->node;
    const struct link_machine *machine = node->machine;
    struct party *found = NULL;
    for (int i = 0; i < PARTIES; i++) {
        struct party *party = &node->world->parties[i];
        if (party->stage == CURRENT && party->node == node && party->session && party->role == 1 &&
            memcmp(party->session->id, id, MARE__LINK_SESSION) == 0)
            found = party;
    }
    if (!found) {
        machine->refuse(fresh->link, MARE__LINK_CODE_SESSION, (struct mare__span){0});
        return;
    }
    machine->tick(found->link, node->world->now_us);
    if (machine->resume(found->link, fresh->link) == MARE_OK) {
        close_net(found);
        found->net = fresh->net;
        found->end = fresh->end;
        found->up_at = node->world->now_us;
        fresh->net = NULL;
        host_drop(fresh);
    }
    found->write_at = node->world->now_us; // there is something to be sent
}

static void on_over(struct party *party, const struct mare__link_event *event)
{
    struct node *node = party->node;
    struct world *world = party->world;
    world_trace(world, party, "over: %s%s, %" PRIu64 " messages", mare__link_code_word(event->code),
                event->by_peer ? " (peer)" : "", event->messages);
    ledger_over(&world->ledger, party->session, party->role, event->code, event->by_peer,
                event->messages);
    if (event->code >= MARE__LINK_CODE_SILENT && !world->faulted)
        ledger_violate(&world->ledger, "NEEDLESS", "%s, without a fault",
                       mare__link_code_word(event->code));
    party->over = true;
    party->stage = LEAVING;
    party->leave_at = world->now_us + 1000000;
    if (party->peer >= 0 && node->current[party->peer] == party) {
        node->current[party->peer] = NULL;
        node->dial_at[party->peer] = world->now_us + 10000 + draw(world, 300000);
    }
}

static void on_broken(struct party *party, bool dial)
{
    struct world *world = party->world;
    world_trace(world, party, "broken");
    close_net(party);
    if (dial)
        party->redial_at =
            world->now_us + draw(world, 1 + party->node->settings.self.silence_us / 8);
}

static void on_up(struct party *party)
{
    if (!party->session) { // it has dialled: the other end knows
        const struct world *world = party->world;
        struct mare__link_view view;
        party->node->machine->look(party->link, &view);
        for (struct ledger_session *s = world->ledger.sessions; s && !party->session; s = s->next) {
            if (memcmp(s->id, view.session, MARE__LINK_SESSION) == 0)
                party->session = s;
        }
    }
    party->up = true;
    party->up_at = party->world->now_us;
    world_trace(party->world, party, "up");
    work_begin(party);
}

static void on_event(struct party *party, struct mare__link_event *event)
{
    struct world *world = party->world;
    if (party->over)
        ledger_violate(&world->ledger, "ONCE", "%s after the end",
                       mare__link_event_name(event->kind));
    switch (event->kind) {
    case MARE__LINK_HELLO:
        on_hello(party);
        break;
    case MARE__LINK_RESUME:
        on_resume(party, event->data);
        break;
    case MARE__LINK_UP:
        on_up(party);
        break;
    case MARE__LINK_SUSPECTED:
    case MARE__LINK_TRUSTED:
        party->suspected = event->kind == MARE__LINK_SUSPECTED;
        world_trace(world, party, "%s", mare__link_event_name(event->kind));
        if (party->suspected && !world->faulted)
            ledger_violate(&world->ledger, "NEEDLESS", "suspected without a fault");
        if (party->suspected && party->role == 0 && draw(world, 3) == 0)
            party->node->machine->broken(party->link); // another connection may be better
        break;
    case MARE__LINK_BROKEN:
        on_broken(party, event->dial);
        break;
    case MARE__LINK_RESUMED:
        world_trace(world, party, "resumed");
        world->ledger.resumed++;
        party->suspected = false;
        party->up_at = world->now_us;
        break;
    case MARE__LINK_OVER:
        on_over(party, event);
        break;
    case MARE__LINK_BEAT:
        break;
    default:
        work_told(party, event);
    }
}

// ---- A round ------------------------------------------------------------------------------------

static void drain(struct party *party)
{
    struct mare__link_event event;
    while (party->stage != FREE && party->node->machine->next(party->link, &event))
        on_event(party, &event);
}

// Reads what has arrived, in one piece or several.
static void read_some(struct party *party)
{
    struct world *world = party->world;
    const struct link_machine *machine = party->node->machine;
    static uint8_t buffer[NET_PIPE];
    while (party->stage != FREE && party->net) {
        uint32_t size = net_readable(party->net, party->end, world->now_us);
        void *at;
        size_t target = draw(world, 2) ? machine->target(party->link, &at) : 0;
        if (size == 0)
            break;
        if (draw(world, 3) == 0) // often it is all there is
            size = 1 + (uint32_t)draw(world, size);
        if (target) {
            size = size < target ? size : (uint32_t)target;
            net_read(party->net, party->end, at, size, world->now_us);
            machine->filled(party->link, size);
        } else {
            net_read(party->net, party->end, buffer, size, world->now_us);
            machine->input(party->link, buffer, size);
        }
        drain(party);
    }
    if (party->stage != FREE && party->net && net_at_end(party->net, party->end, world->now_us)) {
        close_net(party);
        machine->broken(party->link);
        drain(party);
    }
}

static void write_some(struct party *party)
{
    struct world *world = party->world;
    const struct link_machine *machine = party->node->machine;
    struct iovec pieces[PIECES];
    int count = 0;
    while (party->net && (count = machine->output(party->link, pieces, PIECES)) > 0) {
        if (draw(world, 4) == 0) { // a system that takes what it likes
            count = 1;
            pieces[0].iov_len = 1 + draw(world, pieces[0].iov_len);
        }
        size_t sent =
            net_write(party->net, party->end, pieces, count, world->now_us, &world->net_random);
        if (sent == 0)
            break;
        machine->sent(party->link, sent);
    }
    party->write_at = party->net && count > 0 ? world->now_us + 1000 : UINT64_MAX;
}

// Silence is noticed in its time, in both directions. News of what the peer has heard can be as old
// as what held them up: a host that was away, or a direction that was stopped.
static void check_silence(struct party *party)
{
    struct world *world = party->world;
    struct mare__link_view view;
    party->node->machine->look(party->link, &view);
    if (view.memory > party->node->machine->memory_most(&party->node->settings))
        ledger_violate(&world->ledger, "MEMORY", "%zu bytes", view.memory);
    if (view.held > party->node->settings.send)
        ledger_violate(&world->ledger, "MEMORY", "%" PRIu64 " bytes to be sent", view.held);
    if (view.phase != MARE__LINK_LIVE || !party->net)
        return;
    uint64_t since = party->up_at, now = world->now_us;
    uint64_t heard = party->net->pipe[1 - party->end].read_at;
    uint64_t reached = party->net->pipe[party->end].read_at;
    uint64_t slack = view.silence_us / 4 + 8 * world->latency_us + 50000;
    heard = heard > since ? heard : since;
    reached = reached > since ? reached : since;
    uint64_t oldest = heard < reached ? heard : reached;
    if (party->node->woke_at > oldest || world->nodes[party->peer].woke_at > oldest ||
        party->net->pipe[1 - party->end].healed_at > oldest || now <= oldest)
        return;
    if (now - oldest > view.silence_us + slack)
        ledger_violate(&world->ledger, "TIMELY", "%s for %" PRIu64 " ms",
                       oldest == heard ? "silent" : "unheard", (now - oldest) / 1000);
    else if (!view.suspected && now - oldest > view.silence_us / 2 + slack)
        ledger_violate(&world->ledger, "TIMELY", "not suspected, but %s for %" PRIu64 " ms",
                       oldest == heard ? "silent" : "unheard", (now - oldest) / 1000);
}

void host_serve(struct party *party)
{
    struct world *world = party->world;
    const struct link_machine *machine = party->node->machine;
    machine->tick(party->link, world->now_us);
    read_some(party);
    if (party->stage == FREE)
        return;
    if (!party->over && party->up && world->now_us >= party->work_at) {
        work_act(party);
    }
    drain(party);
    if (party->stage == FREE)
        return;
    if (party->stage == CURRENT && world->now_us >= party->redial_at)
        redial(party);
    write_some(party);
    drain(party);
    if (party->stage != LEAVING)
        check_silence(party);
    else if (!party->net || party->write_at == UINT64_MAX || world->now_us >= party->leave_at)
        host_drop(party);
}

uint64_t host_due(const struct party *party)
{
    uint64_t at = party->node->machine->deadline(party->link), next;
    if (party->net && (next = net_next(party->net, party->end)) < at)
        at = next;
    if (party->write_at < at)
        at = party->write_at;
    if (party->up && !party->over && party->work_at < at)
        at = party->work_at;
    if (party->redial_at < at)
        at = party->redial_at;
    if (party->stage == LEAVING && party->leave_at < at)
        at = party->leave_at;
    return at;
}
