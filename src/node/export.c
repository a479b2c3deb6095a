// SPDX-License-Identifier: MIT
// Channels of this node that the peer may use: the home side of inner.h.
//
// From the peer: a message that comes is put into the channel. While the channel is full, messages
// wait here, and a bell stands in the channel's line with the first one.
//
// To the peer: when the peer asks for a message, it is received from the channel and sent. While
// the channel is empty, a bell waits for it. The peer returns a message that it asked for and no
// longer wants. That message becomes the next one to be received from the channel.
#include "base/alloc.h"
#include "node/inner.h"

struct export
{
    struct mare__port port;
    mare_channel *channel; // a reference
    uint64_t count;        // references given to the peer and not released yet
    // From the peer.
    struct mare__parcel *first, **end; // those that wait to be put into the channel
    struct mare__bell *sender;
    uint64_t sending_flow; // the flow of the message that the bell has
    uint32_t sending_size;
    unsigned inlets; // how many flows the peer sends in
    bool shut;       // the channel is closed: drop what comes
    // For the peer.
    uint64_t tag; // of the peer's proxy that asked last
    uint32_t wanted;
    uint64_t passed; // messages given to the peer and not returned
    bool open;       // the flow to the peer is open
    struct mare__parcel *waiting;
    struct mare__bell *receiver;
};

static struct export *export_of(struct mare__port *port)
{
    return MARE__ENTRY(port, struct export, port);
}

// ---- From the peer ------------------------------------------------------------------------------

static void consumed(struct export *export, uint64_t flow, uint32_t size)
{
    mare__link_consumed(export->port.session->link, flow, 1, size);
}

// The channel is closed: tells the proxy of the peer that sent in this flow.
static void shut(struct export *export, uint64_t flow)
{
    export->shut = true;
    if (flow == UINT64_MAX)
        return;
    mare__control_send(export->port.session,
                       &(struct mare__control){.kind = MARE__CONTROL_CLOSED, .a = flow / 2});
}

static void drop_all(struct export *export)
{
    while (export->first) {
        struct mare__parcel *parcel = export->first;
        export->first = parcel->next;
        consumed(export, parcel->flow, parcel->size);
        mare__parcel_free(parcel);
    }
    export->end = &export->first;
}

// If the channel is itself a proxy of another node's channel: whether the message can go on to that
// node. A message that cannot is dropped.
static bool passes_on(struct export *export, mare_message *message)
{
    const char *why = NULL;
    struct mare__far *far = export->channel->far;
    if (!far || far->check(far, message, &why) == MARE_OK)
        return true;
    mare__session_dropped(export->port.session, why);
    mare__message_clear(message);
    return false;
}

static void drop_first(struct export *export)
{
    struct mare__parcel *parcel = export->first;
    export->first = parcel->next;
    if (!export->first)
        export->end = &export->first;
    mare__parcel_free(parcel);
}

// Whether the first waiting message was returned by the peer. It belongs to the channel already,
// and needs no room there.
static bool is_back(const struct export *export)
{
    return export->first && export->first->flag == MARE__FLAG_BACK && export->passed > 0 &&
           !export->channel->far && mare__list_empty(&export->first->claims);
}

// The most bytes that may be under way to the channel, and the most that may have been returned.
static uint64_t window_bytes(const struct export *export)
{
    return 2 * export->port.session->takes + 64;
}

// Puts a returned message back into the channel. False: too many bytes have been returned. Then it
// waits for room like any other message.
static bool take_back(struct export *export)
{
    mare_err err =
        mare__chan_give_back(export->channel, &export->first->message, window_bytes(export));
    if (err == MARE_FULL) {
        export->first->flag = MARE__FLAG_PLAIN;
        return false;
    }
    export->passed--;
    consumed(export, export->first->flow, export->first->size);
    if (err)
        mare__session_blame(export->port.session, "no memory for a message");
    drop_first(export);
    return true;
}

// Puts waiting messages into the channel, as far as there is room.
static void put(struct export *export)
{
    if (mare__bell_rang(export->sender)) {
        consumed(export, export->sending_flow, export->sending_size);
        mare__message_clear(&export->sender->message);
        if (export->sender->result != MARE_OK)
            shut(export, export->sending_flow);
    }
    while (is_back(export) && take_back(export))
        continue;
    if (!mare__bell_rests(export->sender))
        return;
    while (export->first && !export->shut && mare__list_empty(&export->first->claims)) {
        struct mare__parcel *parcel = export->first;
        mare_err err = MARE_OK;
        if (parcel->flag == MARE__FLAG_CLOSE && export->channel->box)
            ; // do not close: other nodes use this box too
        else if (parcel->flag == MARE__FLAG_CLOSE)
            mare_chan_close(export->channel);
        else if (passes_on(export, &parcel->message))
            err = mare__chan_send(export->channel, &parcel->message, NULL);
        if (err == MARE_FULL && !export->sender)
            export->sender = mare__bell_new(&export->port);
        bool waits = err == MARE_FULL && export->sender;
        if (waits) {
            export->sending_flow = parcel->flow;
            export->sending_size = parcel->size;
            mare__message_move(&export->sender->message, &parcel->message);
        } else {
            consumed(export, parcel->flow, parcel->size);
            if (err == MARE_FULL || err == MARE_NOMEM)
                mare__session_blame(export->port.session, "no memory for a message");
            else if (err)
                shut(export, parcel->flow);
        }
        drop_first(export);
        if (waits) {
            mare__bell_send(export->sender, export->channel);
            return;
        }
    }
    if (export->shut)
        drop_all(export);
}

// Adds a message to those that wait: a returned one behind other returned ones, any other at the
// end.
static void add(struct export *export, struct mare__parcel *parcel)
{
    struct mare__parcel **at = export->end;
    if (parcel->flag == MARE__FLAG_BACK)
        for (at = &export->first; *at && (*at)->flag == MARE__FLAG_BACK;)
            at = &(*at)->next;
    parcel->next = *at;
    *at = parcel;
    if (!parcel->next)
        export->end = &parcel->next;
    put(export);
}

void mare__export_take(struct mare__port *port, struct mare__link_event *event)
{
    struct mare__parcel *parcel = mare__parcel_take(port, event);
    struct export *export = export_of(port);
    if (!parcel)
        return;
    if (export->channel->box && !mare__message_head(&parcel->message, port->session->peer)) {
        mare__session_blame(port->session, "no memory for a message");
        mare__parcel_free(parcel);
        return;
    }
    add(export, parcel);
}

// ---- For the peer -------------------------------------------------------------------------------

// The bell received a message that the peer does not want any more: puts it back into the channel.
static void keep(struct export *export, mare_message *message)
{
    struct mare__parcel *parcel = mare__alloc_zero(sizeof *parcel);
    if (!parcel) {
        mare__message_clear(message);
        mare__session_blame(export->port.session, "no memory for a message");
        return;
    }
    mare__list_init(&parcel->claims);
    mare__message_move(&parcel->message, message);
    parcel->flag = MARE__FLAG_BACK;
    export->passed++;
    parcel->flow = UINT64_MAX; // no flow carried it; `consumed` ignores this number
    add(export, parcel);
}

// Sends a message to the peer. False: the peer cannot take more now.
static bool pass(struct export *export, mare_message *message, enum mare__flag flag)
{
    export->wanted -= export->wanted > 0;
    export->passed += flag == MARE__FLAG_PLAIN;
    return mare__session_send(export->port.session, 2 * export->tag + 1, message, flag,
                              &export->waiting) != MARE_FULL;
}

// Whether a message that was received here can leave this node. If not, it is dropped.
static bool can_leave(struct export *export, mare_message *message)
{
    const char *why = NULL;
    if (mare__node_check(message, export->port.session->message_bytes, &why) == MARE_OK)
        return true;
    mare__session_dropped(export->port.session, why);
    mare__message_clear(message);
    return false;
}

static void fetch(struct export *export)
{
    mare_message message;
    mare__message_init(&message);
    if (mare__bell_rang(export->receiver)) {
        if (export->receiver->result == MARE_OK && !can_leave(export, &export->receiver->message))
            ; // dropped; the loop below may fetch the next one
        else if (export->receiver->result == MARE_OK && export->wanted > 0 && !export->waiting)
            pass(export, &export->receiver->message, MARE__FLAG_PLAIN);
        else if (export->receiver->result == MARE_OK)
            keep(export, &export->receiver->message);
        else if (export->receiver->result == MARE_CLOSED && export->wanted > 0)
            pass(export, &message, MARE__FLAG_CLOSE);
    }
    while (export->waiting)
        if (mare__session_send_again(export->port.session, 2 * export->tag + 1, &export->waiting) ==
            MARE_FULL)
            return;
    if (!mare__bell_rests(export->receiver)) {
        if (export->wanted == 0)
            mare__task_nudge(&export->receiver->task);
        return;
    }
    while (export->wanted > 0 && !export->port.session->leaving) {
        mare_err err = export->channel->box
                           ? MARE_CLOSED // the peer cannot receive from a box
                           : mare__chan_receive(mare__chan_in(export->channel), &message, NULL);
        if (err == MARE_EMPTY) {
            if (!export->receiver)
                export->receiver = mare__bell_new(&export->port);
            if (export->receiver)
                mare__bell_receive(export->receiver, mare__chan_in(export->channel));
            return;
        }
        if (err)
            mare__message_init(&message);
        else if (!can_leave(export, &message))
            continue;
        if (!pass(export, &message, err ? MARE__FLAG_CLOSE : MARE__FLAG_PLAIN))
            return;
    }
}

// ---- Life ---------------------------------------------------------------------------------------

static bool is_busy(const struct mare__bell *bell)
{
    return bell && (atomic_load(&bell->busy) || bell->rang);
}

static void lost(struct mare__port *port)
{
    struct export *export = export_of(port);
    // The bell may still hold a message that found no room, and the node that sent it may be gone.
    // Post the message, so that it waits in the channel's line without a bell. (If the peer closed
    // the channel after it, that close is not carried out.)
    if (export->sender && mare__task_withdraw(&export->sender->task))
        mare__node_deliver(export->channel, &export->sender->message);
    mare__stranded_add(port->session, export->channel, export->first);
    export->first = NULL;
    export->end = &export->first;
    mare__bell_end(export->sender);
    mare__bell_end(export->receiver);
    export->sender = export->receiver = NULL;
    while (export->waiting) {
        struct mare__parcel *parcel = export->waiting;
        export->waiting = parcel->next;
        mare__parcel_free(parcel);
    }
}

static void serve(struct mare__port *port)
{
    struct export *export = export_of(port);
    put(export);
    fetch(export);
    // Messages that the peer sent before it released the channel are still put into it: wait for
    // them.
    bool over = export->count == 0 && export->inlets == 0 && !export->first && !export->waiting &&
                !is_busy(export->sender) && !is_busy(export->receiver);
    if (over && port->has_id) {
        port->session->exported--;
        lost(port);
        mare__port_leave(port);
    }
}

static void destroy(struct mare__port *port)
{
    struct export *export = export_of(port);
    mare_chan_unref(export->channel);
    mare__free(export);
}

static const struct mare__port_ops ops = {serve, lost, destroy, NULL};

static struct export *find(struct mare__session *session, uint64_t id)
{
    struct mare__index_entry *entry = mare__index_find(&session->exports, id * 2);
    return entry ? export_of(MARE__ENTRY(entry, struct mare__port, by_id)) : NULL;
}

bool mare__export_room(struct mare__session *session)
{
    bool room = session->exported < MARE__NODE_EXPORTS;
    if (!room)
        mare__session_blame(session, "more references than it can have, and none released");
    return room;
}

uint64_t mare__export_channel(struct mare__session *session, mare_channel *channel)
{
    struct export *export = find(session, channel->id);
    if (!export) {
        export = mare__export_room(session) ? mare__alloc_zero(sizeof *export) : NULL;
        if (!export)
            return 0;
        session->exported++;
        mare__port_init(&export->port, &ops, session, channel->id);
        export->channel = mare_chan_ref(channel);
        export->end = &export->first;
        mare__index_add(&session->exports, &export->port.by_id, channel->id * 2);
        export->port.has_id = true;
    }
    export->count++;
    return channel->id;
}

struct mare__object *mare__export_channel_find(struct mare__session *session, uint64_t id)
{
    struct export *export = find(session, id);
    return export ? mare__ref(&export->channel->object) : NULL;
}

void mare__export_opened(struct mare__port *port)
{
    export_of(port)->open = true;
    fetch(export_of(port));
}

void mare__export_attach(struct mare__session *session, uint64_t id, uint64_t tag)
{
    struct export *export = find(session, id);
    mare_err err = MARE_INVALID;
    if (export) {
        const struct mare__link_window window = {MARE__NODE_MESSAGES, window_bytes(export)};
        err = mare__link_open(session->link, 2 * tag, window, false, &export->port);
    }
    if (!err && export->shut)
        shut(export, 2 * tag);
    if (!err && export->inlets < MARE__NODE_INLETS)
        export->inlets++;
    else if (err != MARE_NONODE) // not while this node says goodbye: then it takes no more
        mare__session_blame(session, "messages to a channel that it was not given");
}

void mare__export_want(struct mare__session *session, uint64_t id, uint64_t tag)
{
    struct export *export = find(session, id);
    if (!export) {
        mare__session_blame(session, "a message wanted of a channel that it was not given");
        return;
    }
    bool answered = false;
    if (export->tag != tag) { // the old proxy is gone, and the peer has made a new one
        if (export->port.has_tag)
            mare__index_remove(&export->port.by_tag);
        answered = export->waiting != NULL; // the new proxy gets what was meant for the old one
        if (answered)
            mare__control_send(
                session,
                &(struct mare__control){.kind = MARE__CONTROL_UNWANTED, .a = export->tag, .b = 1});
        export->tag = tag;
        export->wanted = 0;
        mare__index_add(&session->wanters, &export->port.by_tag, tag);
        export->port.has_tag = true;
    }
    export->wanted += !answered;
    fetch(export);
}

void mare__export_unwant(struct mare__session *session, uint64_t id, uint64_t tag)
{
    struct export *export = find(session, id);
    if (!export || (export->tag == tag && export->wanted == 0))
        return; // the message is on its way
    if (export->tag == tag)
        export->wanted--;
    mare__control_send(session,
                       &(struct mare__control){.kind = MARE__CONTROL_UNWANTED, .a = tag, .b = 1});
    fetch(export);
}

void mare__export_channel_release(struct mare__session *session, uint64_t id, uint64_t count)
{
    struct export *export = find(session, id);
    if (!export || export->count < count) {
        mare__session_blame(session, "a release of what it was not given");
        return;
    }
    export->count -= count;
    if (export->count == 0)
        export->wanted = 0;
    serve(&export->port);
}

void mare__export_ended(struct mare__port *port, uint64_t flow)
{
    struct export *export = export_of(port);
    export->inlets--;
    for (struct mare__parcel *parcel = export->first; parcel; parcel = parcel->next)
        if (parcel->flow == flow) // the number of this flow may be used again
            parcel->flow = UINT64_MAX;
    if (export->sending_flow == flow)
        export->sending_flow = UINT64_MAX;
    serve(port);
}
