// SPDX-License-Identifier: MIT
// Channels of this node that the peer may use: the home side of inner.h.
//
// What comes from the peer is put into the channel; while that is full, it waits here, and a bell
// stands in line with the first. What the peer asks for is received from the channel, by a bell
// while there is nothing, and sent to it. What was asked for, received, and not wanted any more
// comes back, and is the next to be put into the channel.
#include "base/alloc.h"
#include "node/inner.h"

struct export
{
    struct mare__port port;
    mare_channel *channel; // a reference
    uint64_t count;        // how often the peer was given it, and has not released it
    // From the peer.
    struct mare__parcel *first, **end; // that wait to be put into it
    struct mare__bell *sender;
    uint64_t sending_flow; // of what the sender has
    uint32_t sending_size;
    unsigned inlets; // flows in which it sends
    bool shut;       // the channel is closed, and what comes is dropped
    // For the peer.
    uint64_t tag; // of the proxy that asked last
    uint32_t wanted;
    bool open; // its flow
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

// The channel is closed: the peer is told, whoever sent.
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

// Whether what came can be passed on, if the channel is itself another node's; else it is dropped.
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

// Puts what came into the channel, as far as there is room.
static void put(struct export *export)
{
    if (mare__bell_rang(export->sender)) {
        consumed(export, export->sending_flow, export->sending_size);
        mare__message_clear(&export->sender->message);
        if (export->sender->result != MARE_OK)
            shut(export, export->sending_flow);
    }
    if (!mare__bell_rests(export->sender))
        return;
    while (export->first && !export->shut) {
        struct mare__parcel *parcel = export->first;
        mare_err err = MARE_OK;
        if (parcel->flag == MARE__FLAG_CLOSE)
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
        export->first = parcel->next;
        if (!export->first)
            export->end = &export->first;
        mare__parcel_free(parcel);
        if (waits) {
            mare__bell_send(export->sender, export->channel);
            return;
        }
    }
    if (export->shut)
        drop_all(export);
}

void mare__export_take(struct mare__port *port, const struct mare__link_event *event)
{
    struct export *export = export_of(port);
    struct mare__session *session = port->session;
    struct mare__parcel *parcel = mare__alloc_zero(sizeof *parcel);
    if (!parcel || event->size < 1 || event->data[0] > MARE__FLAG_CLOSE) {
        mare__free(parcel);
        mare__session_blame(session, "a message that is none");
        return;
    }
    parcel->flow = event->flow;
    parcel->size = (uint32_t)event->size;
    parcel->flag = event->data[0];
    if (mare__session_read(session, event->data + 1, event->size - 1, &parcel->message)) {
        mare__parcel_free(parcel);
        mare__session_blame(session, "a message that is none");
        return;
    }
    if (parcel->flag == MARE__FLAG_BACK && export->first) {
        parcel->next = export->first;
        export->first = parcel;
    } else {
        *export->end = parcel;
        export->end = &parcel->next;
    }
    put(export);
}

// ---- For the peer -------------------------------------------------------------------------------

// It was received, and nobody wants it any more.
static void keep(struct export *export, mare_message *message)
{
    struct mare__parcel *parcel = mare__alloc_zero(sizeof *parcel);
    if (!parcel) {
        mare__message_clear(message);
        mare__session_blame(export->port.session, "no memory for a message");
        return;
    }
    mare__message_move(&parcel->message, message);
    parcel->flow = UINT64_MAX; // it came in none, and that is let pass
    parcel->next = export->first;
    export->first = parcel;
    if (!parcel->next)
        export->end = &parcel->next;
    put(export);
}

// Sends one to the peer. False: it cannot take more now.
static bool pass(struct export *export, mare_message *message, enum mare__flag flag)
{
    export->wanted -= export->wanted > 0;
    return mare__session_send(export->port.session, 2 * export->tag + 1, message, flag,
                              &export->waiting) != MARE_FULL;
}

// Whether what was received here can leave this node; else it is dropped.
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
            ; // the next one, perhaps
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
        mare_err err = mare__chan_receive(mare__chan_in(export->channel), &message, NULL);
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
    // What has come, and found no room yet, was sent by somebody who may be gone: it stands in line
    // by itself from now on. (If the peer has closed the channel after it, that is not done.)
    if (export->sender && mare__task_withdraw(&export->sender->task))
        mare__node_deliver(export->channel, &export->sender->message);
    while (export->first) {
        struct mare__parcel *parcel = export->first;
        export->first = parcel->next;
        if (parcel->flag != MARE__FLAG_CLOSE)
            mare__node_deliver(export->channel, &parcel->message);
        mare__parcel_free(parcel);
    }
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
    // What the peer has sent before it released the channel is still put into it.
    bool over = export->count == 0 && export->inlets == 0 && !export->first && !export->waiting &&
                !is_busy(export->sender) && !is_busy(export->receiver);
    if (over && port->has_id) {
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

uint64_t mare__export_channel(struct mare__session *session, mare_channel *channel)
{
    struct export *export = find(session, channel->id);
    if (!export) {
        export = mare__alloc_zero(sizeof *export);
        if (!export)
            return 0;
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
    const struct mare__link_window window = {MARE__NODE_MESSAGES, 2 * session->takes + 64};
    mare_err err = export ? mare__link_open(session->link, 2 * tag, window, false, &export->port)
                          : MARE_INVALID;
    if (!err && export->shut)
        shut(export, 2 * tag);
    if (!err && export->inlets < MARE__NODE_INLETS)
        export->inlets++;
    else if (err != MARE_NONODE) // this node says goodbye, and takes no more
        mare__session_blame(session, "messages to a channel that it was not given");
}

void mare__export_want(struct mare__session *session, uint64_t id, uint64_t tag)
{
    struct export *export = find(session, id);
    if (!export) {
        mare__session_blame(session, "a message wanted of a channel that it was not given");
        return;
    }
    if (export->tag != tag) { // a new proxy in the place of one that has gone
        if (export->port.has_tag)
            mare__index_remove(&export->port.by_tag);
        export->tag = tag;
        export->wanted = 0;
        mare__index_add(&session->wanters, &export->port.by_tag, tag);
        export->port.has_tag = true;
    }
    export->wanted++;
    fetch(export);
}

void mare__export_unwant(struct mare__session *session, uint64_t id, uint64_t tag)
{
    struct export *export = find(session, id);
    if (!export || (export->tag == tag && export->wanted == 0))
        return; // it is on its way
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
        if (parcel->flow == flow) // the number may be used again
            parcel->flow = UINT64_MAX;
    if (export->sending_flow == flow)
        export->sending_flow = UINT64_MAX;
    serve(port);
}
