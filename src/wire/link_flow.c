// SPDX-License-Identifier: MIT
// Flows. Each has one direction, a window that the receiver has granted, and two counts of what is
// under way, in messages and in bytes, that never exceed it:
//
//     sender    accepted - consumed <= window      `consumed` as the receiver has told it
//     receiver  received - reported <= window      `reported` is what it has told
//
// The receiver tells what its host has consumed once that makes half of the window. A message takes
// half of the window at most, and the part that was not told is less than half. So once everything
// was consumed the sender always finds room.
//
//     receiver:  open --OPEN--> ... --CLOSE--> closing --END--> forgotten
//     sender:           open ... --END-- (when told CLOSE, or its host has ended it) forgotten
//
// There is exactly one END for each OPEN, except for flows that end by themselves: both ends forget
// those with their last message. CLOSE and CREDIT may arrive when their flow is forgotten already.
#include <assert.h>

#include "base/alloc.h"
#include "wire/link_inner.h"

static const uint64_t window_most = (uint64_t)1 << 48; // so that sums do not overflow

// ---- By their numbers ---------------------------------------------------------------------------

struct mare__link_outflow *mare__link_outflow(const struct mare__link *link, uint64_t number)
{
    return (struct mare__link_outflow *)mare__link_table_find(link, &link->outflows, number);
}

struct mare__link_inflow *mare__link_inflow(const struct mare__link *link, uint64_t number)
{
    return (struct mare__link_inflow *)mare__link_table_find(link, &link->inflows, number);
}

// ---- Messages -----------------------------------------------------------------------------------

void mare__link_discharge(struct mare__link *link, uint64_t charge)
{
    link->held -= charge;
}

void mare__link_message_unref(struct mare__link *link, struct mare__link_message *message)
{
    const struct mare__link_settings *settings = link->settings;
    if (--message->references > 0)
        return;
    mare__link_discharge(link, message->charge);
    link->unacknowledged -= message->charge && !message->dropped;
    for (uint32_t i = 0; i < message->part_count; i++) {
        if (message->parts[i].owner)
            settings->release(settings->context, message->parts[i].owner);
    }
    if (message->allocated == MARE__LINK_NODE && link->node_count < MARE__LINK_NODES_KEPT) {
        message->next = link->nodes;
        link->nodes = message;
        link->node_count++;
    } else {
        mare__link_give(link, message, message->allocated);
    }
}

static struct mare__link_message *message_take(struct mare__link *link, size_t size)
{
    struct mare__link_message *message = link->nodes;
    if (size <= MARE__LINK_NODE && message) {
        link->nodes = message->next;
        link->node_count--;
        return message;
    }
    size = size < MARE__LINK_NODE ? MARE__LINK_NODE : size;
    message = mare__link_take(link, size);
    if (message)
        message->allocated = size;
    return message;
}

// What it costs to keep a message: its own bytes, and everything that is charged for it.
struct cost {
    uint64_t size, own, charge;
};

static bool cost_of(const struct mare__link_part *parts, unsigned count, struct cost *cost)
{
    *cost = (struct cost){.own = sizeof(struct mare__link_message) + count * sizeof *parts};
    uint64_t kept = 0;
    for (unsigned i = 0; i < count; i++) {
        if (parts[i].size > window_most)
            return false;
        cost->size += parts[i].size;
        *(parts[i].owner ? &kept : &cost->own) += parts[i].size;
    }
    cost->charge = kept + (cost->own < MARE__LINK_NODE ? MARE__LINK_NODE : cost->own);
    return cost->size <= window_most;
}

// Makes a message. Bytes without an owner are copied, behind the parts.
static struct mare__link_message *message_make(struct mare__link *link,
                                               const struct mare__link_part *parts, unsigned count,
                                               const struct cost *cost)
{
    struct mare__link_message *message = message_take(link, cost->own);
    if (!message)
        return NULL;
    *message = (struct mare__link_message){.size = cost->size,
                                           .charge = cost->charge,
                                           .references = 1,
                                           .part_count = count,
                                           .allocated = message->allocated};
    uint8_t *copy = (uint8_t *)(message->parts + count);
    for (unsigned i = 0; i < count; i++) {
        message->parts[i] = parts[i];
        if (parts[i].owner)
            continue;
        if (parts[i].size)
            memcpy(copy, parts[i].bytes, parts[i].size);
        message->parts[i].bytes = copy;
        copy += parts[i].size;
    }
    return message;
}

// ---- Sending ------------------------------------------------------------------------------------

// A broken link that may resume counts as up: what it accepts will be sent.
static bool is_up(const struct mare__link *link)
{
    return link->phase >= MARE__LINK_LIVE && link->phase <= MARE__LINK_RESUMING;
}

static bool has_credit(const struct mare__link_outflow *flow, uint64_t size)
{
    return flow->accepted_messages - flow->consumed_messages < flow->window.messages &&
           flow->accepted_bytes - flow->consumed_bytes + size <= flow->window.bytes;
}

static bool is_used_up(const struct mare__link_outflow *flow)
{
    return flow->once && flow->accepted_messages == flow->window.messages;
}

// Whether a flow takes a message now. If not, notes when to tell the host that it does.
static mare_err admit(struct mare__link *link, struct mare__link_outflow *flow,
                      const struct cost *cost)
{
    if (cost->size > flow->window.bytes / 2 || cost->charge > link->settings->send)
        return MARE_TOOBIG;
    if (!has_credit(flow, cost->size)) {
        if (flow->once)
            return MARE_TOOBIG; // no more credit will come
        flow->wants = true;
        flow->wanted = cost->size;
        return MARE_FULL;
    }
    if (cost->charge > link->settings->send - link->held) {
        flow->starved_for = cost->charge;
        if (mare__list_empty(&flow->starved))
            mare__list_append(&link->starved, &flow->starved);
        return MARE_FULL;
    }
    return MARE_OK;
}

mare_err mare__link_send(struct mare__link *link, uint64_t number,
                         const struct mare__link_part *parts, unsigned count)
{
    struct cost cost;
    if (!is_up(link))
        return MARE_NONODE;
    struct mare__link_outflow *flow = mare__link_outflow(link, number);
    if (link->leaving || !flow || flow->ending || is_used_up(flow))
        return MARE_CLOSED;
    if (!cost_of(parts, count, &cost))
        return MARE_TOOBIG;
    mare_err err = admit(link, flow, &cost);
    if (err)
        return err;
    struct mare__link_message *message = message_make(link, parts, count, &cost);
    if (!message)
        return MARE_NOMEM;
    if (flow->first)
        flow->last->next = message;
    else
        flow->first = message;
    flow->last = message;
    if (flow != link->control_out && mare__list_empty(&flow->ready))
        mare__list_append(&link->ready, &flow->ready);
    flow->accepted_messages++;
    flow->accepted_bytes += cost.size;
    link->held += cost.charge;
    link->unacknowledged++;
    link->messages_out++;
    return MARE_OK;
}

static void room_of(const struct mare__link *link, const struct mare__link_outflow *flow,
                    struct mare__link_window *room)
{
    uint64_t send = link->settings->send - link->held;
    room->messages =
        flow->window.messages - (uint32_t)(flow->accepted_messages - flow->consumed_messages);
    room->bytes = flow->window.bytes - (flow->accepted_bytes - flow->consumed_bytes);
    room->bytes = room->bytes < send ? room->bytes : send;
}

void mare__link_room(const struct mare__link *link, uint64_t number, struct mare__link_window *room)
{
    const struct mare__link_outflow *flow = mare__link_outflow(link, number);
    *room = (struct mare__link_window){0};
    if (is_up(link) && !link->leaving && flow && !flow->ending && !is_used_up(flow))
        room_of(link, flow, room);
}

static bool tell_room(struct mare__link *link, struct mare__link_outflow *flow,
                      struct mare__link_event *event, enum mare__link_event_kind kind)
{
    struct mare__link_window room;
    room_of(link, flow, &room);
    event->kind = kind;
    event->flow = flow->entry.number;
    event->messages = room.messages;
    event->bytes = room.bytes;
    return true;
}

bool mare__link_fed(struct mare__link *link, struct mare__link_event *event)
{
    struct mare__list *entry;
    while ((entry = mare__list_first(&link->starved))) {
        struct mare__link_outflow *flow = MARE__ENTRY(entry, struct mare__link_outflow, starved);
        if (flow->starved_for > link->settings->send - link->held)
            return false;
        mare__list_remove(entry);
        if (!flow->ending)
            return tell_room(link, flow, event, MARE__LINK_ROOM);
    }
    return false;
}

void mare__link_end(struct mare__link *link, uint64_t number)
{
    struct mare__link_outflow *flow = mare__link_outflow(link, number);
    if (number == 0 || !flow || flow->ending || is_used_up(flow))
        return;
    flow->ending = true;
    if (!flow->first)
        mare__list_append(&link->due_out, &flow->due);
}

void mare__link_outflow_remove(struct mare__link *link, struct mare__link_outflow *flow)
{
    mare__list_remove(&flow->ready);
    mare__list_remove(&flow->due);
    mare__list_remove(&flow->starved);
    mare__link_table_remove(link, &link->outflows, &flow->entry);
    mare__link_give(link, flow, sizeof *flow);
}

static struct mare__link_outflow *outflow_add(struct mare__link *link, uint64_t number,
                                              struct mare__link_window window, bool once)
{
    struct mare__link_outflow *flow = mare__link_take(link, sizeof *flow);
    if (!flow)
        return NULL;
    *flow = (struct mare__link_outflow){.entry.number = number, .window = window, .once = once};
    mare__list_init(&flow->ready);
    mare__list_init(&flow->due);
    mare__list_init(&flow->starved);
    if (!mare__link_table_add(link, &link->outflows, &flow->entry)) {
        mare__link_give(link, flow, sizeof *flow);
        return NULL;
    }
    return flow;
}

// Drops what waits in a flow. Returns how many messages.
static uint64_t drop_queue(struct mare__link *link, struct mare__link_outflow *flow)
{
    uint64_t count = 0;
    for (struct mare__link_message *message = flow->first, *next; message; message = next) {
        next = message->next;
        message->dropped = true; // the log may have some of its pieces
        link->unacknowledged--;
        mare__link_message_unref(link, message);
        count++;
    }
    flow->first = NULL;
    mare__list_remove(&flow->ready);
    return count;
}

// ---- Receiving ----------------------------------------------------------------------------------

static void make_due(struct mare__link *link, struct mare__link_inflow *flow)
{
    if (mare__list_empty(&flow->due))
        mare__list_append(&link->due_in, &flow->due);
}

static struct mare__link_inflow *inflow_add(struct mare__link *link, uint64_t number,
                                            struct mare__link_window window)
{
    struct mare__link_inflow *flow = mare__link_take(link, sizeof *flow);
    if (!flow)
        return NULL;
    *flow = (struct mare__link_inflow){.entry.number = number, .window = window};
    mare__list_init(&flow->due);
    if (!mare__link_table_add(link, &link->inflows, &flow->entry)) {
        mare__link_give(link, flow, sizeof *flow);
        return NULL;
    }
    link->reserved += window.bytes;
    return flow;
}

mare_err mare__link_open(struct mare__link *link, uint64_t number, struct mare__link_window window,
                         bool once, void *context)
{
    uint32_t mine = link->settings->self.flows, most = link->peer.flows;
    if (!is_up(link) || link->leaving)
        return MARE_NONODE;
    if (window.messages == 0 || window.bytes == 0 || window.bytes > window_most)
        return MARE_INVALID;
    if (mare__link_inflow(link, number))
        return MARE_EXISTS;
    if (link->inflows.count > (mine < most ? mine : most) ||
        window.bytes > link->settings->receive - link->reserved)
        return MARE_FULL;
    struct mare__link_inflow *flow = inflow_add(link, number, window);
    if (!flow)
        return MARE_NOMEM;
    flow->once = once;
    flow->context = context;
    flow->open_due = true;
    make_due(link, flow);
    return MARE_OK;
}

void mare__link_consumed(struct mare__link *link, uint64_t number, uint32_t messages,
                         uint64_t bytes)
{
    struct mare__link_inflow *flow = mare__link_inflow(link, number);
    if (!flow || flow->closing || flow->once)
        return;
    flow->consumed_messages += messages;
    flow->consumed_bytes += bytes;
    assert(flow->consumed_messages <= flow->received_messages &&
           flow->consumed_bytes <= flow->received_bytes);
    if (2 * (flow->consumed_messages - flow->reported_messages) >= flow->window.messages ||
        2 * (flow->consumed_bytes - flow->reported_bytes) >= flow->window.bytes) {
        flow->credit_due = true;
        make_due(link, flow);
    }
}

static void drop_partial(struct mare__link *link, struct mare__link_inflow *flow)
{
    mare__link_forsake(link, flow);
    if (flow->block)
        mare__link_give(link, flow->block, mare__link_block_size(link, flow->total));
    flow->block = NULL;
}

void mare__link_close(struct mare__link *link, uint64_t number)
{
    struct mare__link_inflow *flow = mare__link_inflow(link, number);
    if (number == 0 || !flow || flow->closing)
        return;
    drop_partial(link, flow);
    flow->closing = true;
    link->reserved -= flow->window.bytes;
    if (flow->open_due) { // the peer has not heard of it
        mare__link_inflow_remove(link, flow);
        return;
    }
    flow->credit_due = false;
    flow->close_due = true;
    make_due(link, flow);
}

void mare__link_inflow_remove(struct mare__link *link, struct mare__link_inflow *flow)
{
    drop_partial(link, flow);
    if (!flow->closing)
        link->reserved -= flow->window.bytes;
    mare__list_remove(&flow->due);
    mare__link_table_remove(link, &link->inflows, &flow->entry);
    mare__link_give(link, flow, sizeof *flow);
}

// ---- What the peer says -------------------------------------------------------------------------

static bool take_open(struct mare__link *link, struct mare__link_reader *reader,
                      struct mare__link_event *event)
{
    uint64_t number = mare__link_get_number(reader), messages = mare__link_get_number(reader);
    uint64_t bytes = mare__link_get_number(reader), once = mare__link_get_number(reader);
    struct mare__link_window window = {(uint32_t)messages, bytes};
    if (!mare__link_get_end(reader) || messages == 0 || messages > UINT32_MAX || bytes == 0 ||
        bytes > window_most || once > 1) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
    } else if (mare__link_outflow(link, number)) {
        mare__link_fail(link, MARE__LINK_CODE_PLACE);
    } else if (link->outflows.count > link->settings->self.flows) { // minus flow 0
        mare__link_fail(link, MARE__LINK_CODE_CREDIT);
    } else {
        struct mare__link_outflow *flow = outflow_add(link, number, window, once);
        if (flow)
            return tell_room(link, flow, event, MARE__LINK_OPENED);
        mare__link_fail(link, MARE__LINK_CODE_NOMEM);
    }
    return false;
}

static bool take_credit(struct mare__link *link, struct mare__link_reader *reader,
                        struct mare__link_event *event)
{
    uint64_t number = mare__link_get_number(reader), messages = mare__link_get_number(reader);
    uint64_t bytes = mare__link_get_number(reader);
    struct mare__link_outflow *flow = mare__link_outflow(link, number);
    if (!mare__link_get_end(reader)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    if (!flow)
        return false;
    if (flow->once || messages < flow->consumed_messages || messages > flow->accepted_messages ||
        bytes < flow->consumed_bytes || bytes > flow->accepted_bytes) {
        mare__link_fail(link, MARE__LINK_CODE_CREDIT);
        return false;
    }
    flow->consumed_messages = messages;
    flow->consumed_bytes = bytes;
    if (!flow->wants || flow->ending || !has_credit(flow, flow->wanted))
        return false;
    flow->wants = false;
    return tell_room(link, flow, event, MARE__LINK_ROOM);
}

static bool take_close(struct mare__link *link, struct mare__link_reader *reader,
                       struct mare__link_event *event)
{
    uint64_t number = mare__link_get_number(reader);
    struct mare__link_outflow *flow = mare__link_outflow(link, number);
    if (!mare__link_get_end(reader) || number == 0) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    if (!flow)
        return false;
    event->kind = MARE__LINK_CLOSED;
    event->flow = number;
    event->messages = drop_queue(link, flow);
    bool tell = !flow->ending || event->messages > 0;
    flow->ending = true;
    if (mare__list_empty(&flow->due))
        mare__list_append(&link->due_out, &flow->due);
    return tell;
}

static bool take_end(struct mare__link *link, struct mare__link_reader *reader,
                     struct mare__link_event *event)
{
    uint64_t number = mare__link_get_number(reader);
    struct mare__link_inflow *flow = mare__link_inflow(link, number);
    if (!mare__link_get_end(reader) || number == 0) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    if (!flow || flow->open_due || (flow->total && !flow->closing)) {
        mare__link_fail(link, MARE__LINK_CODE_PLACE);
        return false;
    }
    event->kind = MARE__LINK_ENDED;
    event->flow = number;
    event->context = flow->context;
    bool tell = !flow->closing;
    mare__link_inflow_remove(link, flow);
    return tell;
}

bool mare__link_flow_frame(struct mare__link *link, unsigned kind, struct mare__link_reader *reader,
                           struct mare__link_event *event)
{
    switch (kind) {
    case MARE__FRAME_OPEN:
        return take_open(link, reader, event);
    case MARE__FRAME_CREDIT:
        return take_credit(link, reader, event);
    case MARE__FRAME_CLOSE:
        return take_close(link, reader, event);
    default:
        return take_end(link, reader, event);
    }
}

// ---- Life ---------------------------------------------------------------------------------------

mare_err mare__link_open_control(struct mare__link *link)
{
    link->control_out = outflow_add(link, 0, link->peer.control, false);
    bool opened = link->control_out && inflow_add(link, 0, link->settings->self.control);
    return opened ? MARE_OK : MARE_NOMEM;
}

void mare__link_flows_fini(struct mare__link *link)
{
    struct mare__link_table *out = &link->outflows, *in = &link->inflows;
    for (uint32_t i = 0; out->buckets && i < 1u << out->bits; i++) {
        while (out->buckets[i]) {
            struct mare__link_outflow *flow = (struct mare__link_outflow *)out->buckets[i];
            drop_queue(link, flow);
            mare__link_outflow_remove(link, flow);
        }
    }
    for (uint32_t i = 0; in->buckets && i < 1u << in->bits; i++) {
        while (in->buckets[i])
            mare__link_inflow_remove(link, (struct mare__link_inflow *)in->buckets[i]);
    }
    mare__link_table_fini(link, &link->outflows);
    mare__link_table_fini(link, &link->inflows);
}

size_t mare__link_flows_most(const struct mare__link_settings *settings)
{
    uint32_t flows = settings->self.flows + 1;
    size_t each = sizeof(struct mare__link_outflow) + sizeof(struct mare__link_inflow);
    each += settings->reserve; // for the block of a message that has begun
    return flows * each + 2 * mare__link_table_most(flows);
}
