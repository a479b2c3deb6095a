// SPDX-License-Identifier: MIT
// Channels of the peer, as this node sees them: the proxy side of inner.h.
//
// The program has the face: a channel of this runtime that holds what was sent and has not left
// yet. A bell, the pump, receives from the face, and waits there while the face is empty. Receivers
// stand in line at `in`. For each of them, one message is requested from the channel's home. A
// message that comes goes to the first receiver in line. If the line is empty by then, the message
// is returned.
#include "base/alloc.h"
#include "node/inner.h"

struct far {
    struct mare__port port;
    struct mare__far far;
    uint64_t tag;
    uint64_t received; // how many references to it came from the peer
    struct mare__bell *pump;
    struct mare__parcel *waiting; // messages that could not be sent yet
    bool attached;                // home was asked to open the flow
    bool open;                    // home has opened it
    bool taken;                   // the flow of `in` is open
    uint32_t asked;               // messages requested and not here yet
    uint32_t unasked;             // of these, withdrawn: home was told that nobody wants them
    struct mare__parcel *arrived; // messages that came and wait for answers to claims
    atomic_bool narrow;           // large messages were sent: the face's limit is lower
    atomic_bool gone;             // the program holds no reference to the face any more
    atomic_bool dropped;          // and the face's holds were given back
    atomic_bool closing;          // the program has closed it
    bool told;                    // and home knows
    bool pumped;                  // it is closed, and the pump has received all of it
    bool ended;                   // nothing more will be done
    mare_channel *in;
    mare_channel face; // comes last: the room of its ring follows it
};

static struct far *far_of(struct mare__port *port)
{
    return MARE__ENTRY(port, struct far, port);
}

static struct far *of_face(const mare_channel *face)
{
    return MARE__ENTRY((mare_channel *)face, struct far, face);
}

// ---- From any thread ----------------------------------------------------------------------------

static void far_ask(struct mare__far *far)
{
    mare__port_stir(&MARE__ENTRY(far, struct far, far)->port);
}

static void far_close(struct mare__far *far)
{
    struct far *channel = MARE__ENTRY(far, struct far, far);
    atomic_store(&channel->closing, true);
    mare__port_stir(&channel->port);
}

static mare_err far_check(const struct mare__far *far, const mare_message *message,
                          const char **why)
{
    struct far *channel = MARE__ENTRY((struct mare__far *)far, struct far, far);
    mare_err err = mare__node_check(message, channel->port.session->message_bytes, why);
    size_t fit = message->length > 0 ? MARE__NODE_FACE_BYTES / message->length : MARE__NODE_FACE;
    if (!err && fit < MARE__NODE_FACE) {
        mare__chan_limit(&channel->face, fit > 0 ? fit : 1);
        atomic_store(&channel->narrow, true); // last, for `widen` undoes the above
    }
    return err;
}

static void far_hold(struct mare__far *far)
{
    mare__port_hold(&MARE__ENTRY(far, struct far, far)->port);
}

static void far_release(struct mare__far *far)
{
    mare__port_unhold(&MARE__ENTRY(far, struct far, far)->port);
}

// Gives back what the face holds, the far and `in`; a second call does nothing.
static void drop_face(struct far *far)
{
    if (atomic_exchange(&far->dropped, true))
        return;
    mare_chan_unref(far->in);
    mare__port_unhold(&far->port);
}

static void face_destroy(struct mare__object *object)
{
    struct far *far = of_face((mare_channel *)object);
    mare__port_hold(&far->port); // the session may release the port as soon as it sees `gone`
    atomic_store(&far->gone, true);
    if (!mare__port_stir(&far->port))
        drop_face(far);
    mare__port_unhold(&far->port);
}

// The face may be destroyed while somebody still waits at `in`. So the memory of `in` belongs to
// the far, and this gives back the hold of `in` on it.
static void in_destroy(struct mare__object *object)
{
    struct mare__far *far = ((mare_channel *)object)->far;
    far->release(far);
}

// ---- On the session's task ----------------------------------------------------------------------

// Adds a message that is returned: before those that were sent here, behind others that are
// returned.
static void add_back(struct far *far, struct mare__parcel *back)
{
    struct mare__parcel **at = &far->waiting;
    while (*at && (*at)->flag == MARE__FLAG_BACK)
        at = &(*at)->next;
    back->next = *at;
    *at = back;
}

// Gives the first message that came to the first receiver in line. If the line is empty, returns
// it.
static void hand_over(struct far *far)
{
    struct mare__session *session = far->port.session;
    struct mare__parcel *parcel = far->arrived;
    far->arrived = parcel->next;
    if (!session->over)
        mare__link_consumed(session->link, parcel->flow, 1, parcel->size);
    far->asked -= far->asked > 0;
    if (far->unasked > far->asked)
        far->unasked = far->asked;
    if (parcel->flag == MARE__FLAG_CLOSE) {
        mare__chan_close_for(far->in, MARE_CLOSED);
    } else if (mare__chan_send(far->in, &parcel->message, NULL) != MARE_OK && !session->over) {
        struct mare__parcel *back = mare__parcel_new(session, &parcel->message, MARE__FLAG_BACK);
        if (back)
            add_back(far, back);
    }
    mare__parcel_free(parcel);
}

// Ends the part of the session in it. Those who wait are told why.
static void finish(struct far *far, mare_err why)
{
    if (far->ended)
        return;
    while (far->arrived) // claims unanswered: their references lead through this node
        hand_over(far);
    far->ended = true;
    mare__chan_close_for(&far->face, why);
    mare__chan_close_for(far->in, why);
    mare__bell_end(far->pump);
    while (far->waiting) {
        struct mare__parcel *parcel = far->waiting;
        far->waiting = parcel->next;
        mare__parcel_free(parcel);
    }
}

static void lost(struct mare__port *port)
{
    struct far *far = far_of(port);
    finish(far, MARE_NONODE);
    if (atomic_load(&far->gone))
        drop_face(far);
}

static void destroy(struct mare__port *port)
{
    struct far *far = far_of(port);
    mare__chan_fini(&far->face);
    mare__chan_fini(far->in);
    mare__free(far->in);
    mare__free(far);
}

// Releases the channel: nobody refers to the face, and all that was sent has left.
static void let_go(struct far *far)
{
    struct mare__session *session = far->port.session;
    if (far->port.lent > 0 || far->asked > 0)
        return; // this runs again when a parcel arrives or a message comes
    if (far->open)
        mare__link_end(session->link, 2 * far->tag);
    if (far->taken)
        mare__link_close(session->link, 2 * far->tag + 1);
    mare__control_send(session, &(struct mare__control){.kind = MARE__CONTROL_RELEASE,
                                                        .a = far->port.id * 2,
                                                        .b = far->received});
    session->proxies--;
    finish(far, MARE_CLOSED);
    mare__port_leave(&far->port);
    drop_face(far);
}

// Asks home to take messages.
static void attach(struct far *far)
{
    if (far->attached)
        return;
    far->attached = true;
    mare__control_send(
        far->port.session,
        &(struct mare__control){.kind = MARE__CONTROL_ATTACH, .a = far->port.id, .b = far->tag});
}

// Appends what the pump has received to the messages that wait.
static void take_over(struct far *far)
{
    if (!mare__bell_rang(far->pump))
        return;
    far->pumped = far->pump->result != MARE_OK; // the face is closed and empty
    if (far->pumped)
        return;
    struct mare__parcel **last = &far->waiting;
    while (*last)
        last = &(*last)->next;
    *last = mare__parcel_new(far->port.session, &far->pump->message, MARE__FLAG_PLAIN);
}

// All large messages have left: the face takes as many messages as before.
static void widen(struct far *far)
{
    if (atomic_exchange(&far->narrow, false) && !mare__chan_limit(&far->face, MARE__NODE_FACE))
        atomic_store(&far->narrow, true); // try again when it is empty
}

// Sends what waits. Returns whether nothing is left.
static bool drain(struct far *far)
{
    struct mare__session *session = far->port.session;
    mare_message message;
    while (far->open || !far->waiting) {
        mare_err err;
        if (far->waiting) {
            err = mare__session_send_again(session, 2 * far->tag, &far->waiting);
        } else if (!far->open || !mare__bell_rests(far->pump) ||
                   mare__chan_receive(&far->face, &message, NULL)) {
            widen(far);
            return true; // the face is empty, or closed and empty, or the pump waits there
        } else {
            err = mare__session_send(session, 2 * far->tag, &message, MARE__FLAG_PLAIN,
                                     &far->waiting);
        }
        if (err == MARE_FULL)
            return false;
    }
    attach(far);
    return false;
}

// Requests one message for each receiver in line, and withdraws requests that are too many.
static void ask(struct far *far)
{
    struct mare__session *session = far->port.session;
    size_t waiting = mare__chan_receivers(far->in);
    struct mare__control control = {.kind = MARE__CONTROL_WANT, .a = far->port.id, .b = far->tag};
    if (waiting > 0 && !far->taken) {
        const struct mare__link_window window = {MARE__NODE_MESSAGES, 2 * session->takes + 64};
        if (mare__link_open(session->link, 2 * far->tag + 1, window, false, &far->port)) {
            mare__link_quit(session->link, MARE__LINK_CODE_NOMEM, mare__span_of("too many flows"));
            return;
        }
        far->taken = true;
    }
    for (; far->asked < waiting; far->asked++)
        mare__control_send(session, &control);
    control.kind = MARE__CONTROL_UNWANT;
    for (; far->asked - far->unasked > waiting; far->unasked++)
        mare__control_send(session, &control);
}

// The program has closed the channel, and all that was sent before has left: sends the close.
static bool tell_closed(struct far *far)
{
    mare_message none;
    mare__message_init(&none);
    far->told = true;
    attach(far);
    far->waiting = mare__parcel_new(far->port.session, &none, MARE__FLAG_CLOSE);
    return drain(far);
}

static void serve(struct mare__port *port)
{
    struct far *far = far_of(port);
    if (far->ended)
        return;
    while (far->arrived && mare__list_empty(&far->arrived->claims))
        hand_over(far);
    take_over(far);
    bool idle = drain(far);
    if (idle && far->pumped && atomic_load(&far->closing) && !far->told)
        idle = tell_closed(far);
    ask(far);
    if (atomic_load(&far->gone) && idle && far->pumped) {
        let_go(far);
        return;
    }
    if (atomic_load(&far->gone)) // makes the pump end, after what was sent before
        mare__chan_close_for(&far->face, MARE_CLOSED);
    if (idle && !far->pumped && mare__bell_rests(far->pump))
        mare__bell_receive(far->pump, &far->face);
}

// Like serve, for a caller that has no hold on the port: serving may release it.
static void serve_now(struct mare__port *port)
{
    mare__port_hold(port);
    serve(port);
    mare__port_unhold(port);
}

void mare__far_opened(struct mare__port *port)
{
    far_of(port)->open = true;
    serve_now(port);
}

// A requested message has come. If no receiver stands in line any more, it is returned.
void mare__far_take(struct mare__port *port, struct mare__link_event *event)
{
    struct far *far = far_of(port);
    if (far->ended) {
        mare__link_consumed(port->session->link, event->flow, 1, event->size);
        return;
    }
    // Count those that wait for claims: each takes room until it is handed over, and a peer could
    // delay that for ever. Only as many may come as were requested.
    struct mare__parcel **last = &far->arrived;
    uint32_t arrived = 0;
    for (; *last; last = &(*last)->next)
        arrived++;
    if (arrived >= far->asked) {
        mare__session_blame(port->session, "a message that was not wanted");
        return;
    }
    struct mare__parcel *parcel = mare__parcel_take(port, event);
    if (!parcel)
        return;
    *last = parcel;
    serve_now(port);
}

void mare__far_unwanted(struct mare__port *port, uint64_t count)
{
    struct far *far = far_of(port);
    uint32_t less = count < far->unasked ? (uint32_t)count : far->unasked;
    far->unasked -= less;
    far->asked -= less;
    serve_now(port);
}

void mare__far_closed(struct mare__port *port)
{
    struct far *far = far_of(port);
    if (!far->ended)
        mare__chan_close_for(&far->face, MARE_CLOSED);
}

// Whether the pump has received a message, even if its task has not run since.
static bool pump_holds(const struct mare__bell *pump)
{
    // Acquire: as in mare__bell_rang. A busy pump is in one of two states: it waits, or its wait is
    // over and it is about to stir the port, so that the session runs again.
    if (atomic_load_explicit(&pump->busy, memory_order_acquire))
        return atomic_load(&pump->task.wait.word) != MARE__WAIT_WAITING;
    return pump->rang;
}

// Whether something that the program sent has not left yet.
static bool is_busy(struct mare__port *port)
{
    struct far *far = far_of(port);
    if (far->ended)
        return false;
    mare__lock_acquire(&far->face.lock);
    bool empty = far->face.count == 0 && mare__list_empty(&far->face.senders);
    mare__lock_release(&far->face.lock);
    return far->waiting || !empty || pump_holds(far->pump);
}

static const struct mare__port_ops ops = {serve, lost, destroy, is_busy};

static struct far *create(struct mare__session *session, uint64_t id)
{
    mare_runtime *runtime = session->task.runtime;
    struct far *far = mare__alloc_zero(sizeof *far);
    mare_channel *in = mare__alloc_zero(sizeof *in);
    if (far && in) {
        mare__port_init(&far->port, &ops, session, id);
        far->pump = mare__bell_new(&far->port);
    }
    if (!far || !in || !far->pump) {
        if (far && in) {
            mare__list_remove(&far->port.in_all);
            mare__task_release(&session->task);
        }
        mare__free(far);
        mare__free(in);
        return NULL;
    }
    session->proxies++;
    far->far = (struct mare__far){in, far_ask, far_close, far_check, far_hold, far_release};
    mare__chan_init(&far->face, runtime, MARE__NODE_FACE, face_destroy);
    far->face.id = atomic_fetch_add(&runtime->next_channel, 1) + 1;
    far->face.far = &far->far;
    mare__chan_init(in, runtime, 0, in_destroy);
    in->event = (struct mare__event){.tells = MARE__TELLS_FAR};
    in->far = &far->far;
    far->in = in;
    mare__port_hold(&far->port); // the face's hold
    mare__port_hold(&far->port); // the hold of `in`; `in` itself is held by the face
    far->tag = ++session->last_tag;
    mare__index_add(&session->fars, &far->port.by_id, id * 2);
    mare__index_add(&session->tags, &far->port.by_tag, far->tag);
    far->port.has_id = far->port.has_tag = true;
    return far;
}

struct mare__object *mare__far_channel(struct mare__session *session, uint64_t id)
{
    struct mare__index_entry *entry = mare__index_find(&session->fars, id * 2);
    struct far *far = entry ? far_of(MARE__ENTRY(entry, struct mare__port, by_id)) : NULL;
    if (far && mare__port_revive(&far->face.object)) {
        far->received++;
        return &far->face.object;
    }
    if (far) { // the program let go of it: it is released by itself, and a new one made
        mare__index_remove(&far->port.by_id);
        far->port.has_id = false;
    }
    far = session->proxies < MARE__NODE_PROXIES ? create(session, id) : NULL;
    if (!far)
        return NULL;
    far->received = 1;
    mare__bell_receive(far->pump, &far->face);
    return &far->face.object;
}

struct mare__object *mare__far_channel_face(struct mare__port *port)
{
    return &far_of(port)->face.object;
}

struct mare__port *mare__far_channel_port(const mare_channel *channel)
{
    return channel->far && channel->far->ask == far_ask ? &of_face(channel)->port : NULL;
}
