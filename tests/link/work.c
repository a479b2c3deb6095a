// SPDX-License-Identifier: MIT
// The applications at both ends of a link: they open flows, send messages of all sizes, use what
// they get after a while, close and end flows, and say goodbye now and then.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/link/world_inner.h"

// A block that is lent to a machine.
struct block {
    struct world *world;
    bool released;
    uint8_t bytes[];
};

void work_release(void *context, void *owner)
{
    struct world *world = ((struct node *)context)->world;
    struct block *block = owner;
    if (block->released)
        ledger_violate(&world->ledger, "RELEASE", "a block was released twice");
    block->released = true;
    world->ledger.blocks--;
}

static uint64_t draw(struct party *party, uint64_t below)
{
    return mare_sim_below(&party->world->work_random, below);
}

void work_begin(struct party *party)
{
    struct world *world = party->world;
    struct ledger_session *session = party->session;
    session->up[party->role] = true;
    struct ledger_track *control = ledger_open(&world->ledger, session, 1 - party->role, 0,
                                               party->node->settings.self.control, false);
    control->known = control->sending = true;
    party->work_at = world->now_us + draw(party, world->work_us);
}

// ---- Receiving ----------------------------------------------------------------------------------

static uint64_t draw_number(struct party *party)
{
    uint64_t number = 1 + draw(party, 8);
    return draw(party, 4) ? number : UINT64_MAX - number * draw(party, 3);
}

static void open_flow(struct party *party)
{
    struct world *world = party->world;
    uint64_t number = draw_number(party);
    bool once = draw(party, 6) == 0;
    struct mare__link_window window = {1 + (uint32_t)draw(party, draw(party, 2) ? 4 : 40),
                                       1 + draw(party, 4 * world->message_most)};
    if (party->session->count[1 - party->role] == LEDGER_TRACKS)
        return;
    if (party->node->machine->open(party->link, number, window, once, party))
        return;
    world_trace(world, party, "opens %" PRIu64 ": %u, %" PRIu64 "%s", number, window.messages,
                window.bytes, once ? ", once" : "");
    ledger_open(&world->ledger, party->session, 1 - party->role, number, window, once);
}

// Some of the messages of a flow are used; when all is calm, all of them.
static void consume(struct party *party, struct ledger_track *track)
{
    uint32_t held = track->delivered - track->consumed;
    uint32_t count = party->world->calm ? held : (uint32_t)draw(party, held + 1);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += track->sizes[track->consumed + i];
    track->consumed += count;
    track->held_bytes -= bytes;
    if (count && track->taking)
        party->node->machine->consumed(party->link, track->number, count, bytes);
}

static struct ledger_track *any_track(struct party *party, int sender)
{
    uint32_t count = party->session->count[sender];
    return count ? &party->session->tracks[sender][draw(party, count)] : NULL;
}

static void close_flow(struct party *party)
{
    struct ledger_track *track = any_track(party, 1 - party->role);
    if (!track || track->number == 0 || !track->taking)
        return;
    world_trace(party->world, party, "closes %" PRIu64, track->number);
    party->node->machine->close(party->link, track->number);
    track->taking = false;
    track->closed = true;
}

// ---- Sending ------------------------------------------------------------------------------------

static uint32_t draw_size(struct party *party)
{
    uint32_t most = party->world->message_most;
    switch (draw(party, 8)) {
    case 0:
        return 0;
    case 1:
        return (uint32_t)draw(party, 2 * most);
    case 2:
        return (uint32_t)draw(party, most);
    default:
        return (uint32_t)draw(party, 100);
    }
}

static struct block *lend(struct party *party, uint32_t size)
{
    struct block *block = malloc(sizeof *block + size + 1);
    block->world = party->world;
    block->released = false;
    party->world->ledger.blocks++;
    return block;
}

static void take_back(struct party *party, struct block *block)
{
    party->world->ledger.blocks--;
    free(block);
}

// Blocks stay until the end of the world, so that a second release is seen.
static void note_block(struct party *party, struct block *block)
{
    struct world *world = party->world;
    if (world->block_count == world->block_room) {
        world->block_room = world->block_room ? 2 * world->block_room : 256;
        world->blocks = realloc(world->blocks, world->block_room * sizeof *world->blocks);
    }
    world->blocks[world->block_count++] = block;
}

// A message in up to three parts, some of which are copied and some kept.
static bool send_message(struct party *party, struct ledger_track *track)
{
    uint32_t size = draw_size(party), at = 0;
    struct mare__link_part parts[3] = {0};
    struct block *blocks[3] = {NULL};
    uint8_t *bytes = malloc(size + 1);
    unsigned count = 1 + (unsigned)draw(party, 3);
    ledger_fill(track, track->accepted, bytes, size);
    for (unsigned i = 0; i < count; i++) {
        uint32_t some = i == count - 1 ? size - at : (uint32_t)draw(party, size - at + 1);
        parts[i] = (struct mare__link_part){bytes + at, some, NULL};
        if (draw(party, 2)) {
            blocks[i] = lend(party, some);
            memcpy(blocks[i]->bytes, bytes + at, some);
            parts[i] = (struct mare__link_part){blocks[i]->bytes, some, blocks[i]};
        }
        at += some;
    }
    mare_err err = party->node->machine->send(party->link, track->number, parts, count);
    for (unsigned i = 0; i < count; i++) {
        if (blocks[i] && err)
            take_back(party, blocks[i]);
        else if (blocks[i])
            note_block(party, blocks[i]);
    }
    free(bytes);
    if (err)
        world_trace(party->world, party, "%u bytes in %" PRIu64 ": %s", size, track->number,
                    mare_strerror(err));
    if (err == MARE_OK)
        ledger_accepted(&party->world->ledger, track, size);
    track->wanting |= err == MARE_FULL;
    return err == MARE_OK;
}

static void send_some(struct party *party)
{
    struct ledger_track *track = any_track(party, party->role);
    if (!track || !track->known || !track->sending)
        return;
    uint32_t before = track->accepted;
    for (uint64_t n = 1 + draw(party, 8); n > 0 && send_message(party, track); n--)
        continue;
    world_trace(party->world, party, "sends %u in %" PRIu64, track->accepted - before,
                track->number);
}

static void end_flow(struct party *party)
{
    struct ledger_track *track = any_track(party, party->role);
    if (!track || track->number == 0 || !track->known || !track->sending)
        return;
    world_trace(party->world, party, "ends %" PRIu64, track->number);
    party->node->machine->end(party->link, track->number);
    track->sending = false;
}

static void part(struct party *party, bool orderly)
{
    const struct link_machine *machine = party->node->machine;
    world_trace(party->world, party, orderly ? "says goodbye" : "quits");
    party->session->bye = true;
    if (orderly)
        machine->bye(party->link, MARE__LINK_CODE_BYE, (struct mare__span){0});
    else
        machine->quit(party->link, MARE__LINK_CODE_LEAVING, (struct mare__span){0});
}

void work_act(struct party *party)
{
    struct world *world = party->world;
    party->work_at = world->now_us + 1 + draw(party, world->work_us);
    if (world->calm) {
        for (uint32_t i = 0; i < party->session->count[1 - party->role]; i++)
            consume(party, &party->session->tracks[1 - party->role][i]);
        return;
    }
    uint64_t what = draw(party, 1000);
    struct ledger_track *track;
    if (what < 100)
        open_flow(party);
    else if (what < 600)
        send_some(party);
    else if (what < 960 && (track = any_track(party, 1 - party->role)))
        consume(party, track);
    else if (what < 980)
        close_flow(party);
    else if (what < 997)
        end_flow(party);
    else
        part(party, what < 999);
}

// ---- What the application is told ---------------------------------------------------------------

void work_told(struct party *party, const struct mare__link_event *event)
{
    struct ledger *ledger = &party->world->ledger;
    bool receives = event->kind == MARE__LINK_MESSAGE || event->kind == MARE__LINK_ENDED;
    int sender = receives ? 1 - party->role : party->role;
    struct ledger_track *track = ledger_find(party->session, sender, event->flow);
    if (!track) {
        ledger_violate(ledger, "INVENTED", "%s of flow %" PRIu64 ", which was never opened",
                       mare__link_event_name(event->kind), event->flow);
        return;
    }
    if (event->kind != MARE__LINK_MESSAGE)
        world_trace(party->world, party, "%s %" PRIu64, mare__link_event_name(event->kind),
                    event->flow);
    switch (event->kind) {
    case MARE__LINK_OPENED:
        for (uint32_t i = 0; i < party->session->count[sender]; i++) {
            if (party->session->tracks[sender][i].number == event->flow)
                party->session->tracks[sender][i].sending = false; // that one has ended by itself
        }
        track->known = track->sending = true;
        break;
    case MARE__LINK_ROOM:
        track->wanting = false;
        break;
    case MARE__LINK_CLOSED:
        track->sending = false;
        track->dropped += (uint32_t)event->messages;
        break;
    case MARE__LINK_ENDED:
        track->taking = false;
        break;
    default:
        ledger_delivered(ledger, track, event->data, event->size);
        if (track->once && track->delivered == track->window.messages)
            track->taking = track->sending = false;
        mare__free(event->block);
    }
}
