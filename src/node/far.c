// SPDX-License-Identifier: MIT
// Channels of the peer, as they are seen here: the proxy side of inner.h.
//
// The face is what the program has: a channel of this runtime, which holds what was sent and has
// not left yet. While there is nothing in it, the pump waits there. `in` is where receivers stand
// in line: for as many as stand there, a message is asked for at home. What comes is given to one
// of them, or, if nobody stands there any more, goes back.
#include "base/alloc.h"
#include "node/inner.h"

struct far {
    struct mare__port port;
    struct mare__far far;
    uint64_t tag;
    uint64_t received; // how often a reference came
    struct mare__bell *pump;
    struct mare__parcel *waiting; // what could not be sent yet
    bool attached;                // home was asked to open the flow
    bool open;                    // and has
    bool taken;                   // `in` has its flow
    uint32_t asked;               // messages that are to come
    uint32_t unasked;             // of these, home was told that they are not wanted
    atomic_bool gone;             // nobody refers to the face any more
    atomic_bool dropped;          // and its hold was given back
    atomic_bool closing;          // the program has closed it
    bool told;                    // and home was told so
    bool pumped;                  // it is closed, and the pump has had all that was in it
    bool ended;                   // there is nothing more to be done
    mare_channel *in;
    mare_channel face; // the last, for its room
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
    return mare__node_check(message, MARE__ENTRY(far, struct far, far)->port.session->message_bytes,
                            why);
}

static void far_hold(struct mare__far *far)
{
    mare__port_hold(&MARE__ENTRY(far, struct far, far)->port);
}

static void far_release(struct mare__far *far)
{
    mare__port_unhold(&MARE__ENTRY(far, struct far, far)->port);
}

// What the face holds, once: the far, and `in`.
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
    mare__port_hold(&far->port); // once it is seen to be gone, the session may let go of it
    atomic_store(&far->gone, true);
    if (!mare__port_stir(&far->port))
        drop_face(far);
    mare__port_unhold(&far->port);
}

// Its memory is the far's: the face may have gone while somebody waits here.
static void in_destroy(struct mare__object *object)
{
    struct mare__far *far = ((mare_channel *)object)->far;
    far->release(far);
}

// ---- On the session's task ----------------------------------------------------------------------

// It has no more to do with the session. Those who wait are told why.
static void finish(struct far *far, mare_err why)
{
    if (far->ended)
        return;
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

// Nobody refers to the face, and all that was sent has left.
static void let_go(struct far *far)
{
    struct mare__session *session = far->port.session;
    if (far->port.lent > 0 || far->asked > 0)
        return; // it is stirred again, or served when what was asked for has come
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

// Home is to take messages.
static void attach(struct far *far)
{
    if (far->attached)
        return;
    far->attached = true;
    mare__control_send(
        far->port.session,
        &(struct mare__control){.kind = MARE__CONTROL_ATTACH, .a = far->port.id, .b = far->tag});
}

// Makes what the pump has received the last of those that wait.
static void take_over(struct far *far)
{
    if (!mare__bell_rang(far->pump))
        return;
    far->pumped = far->pump->result != MARE_OK; // closed, and nothing more in it
    if (far->pumped)
        return;
    struct mare__parcel **last = &far->waiting;
    while (*last)
        last = &(*last)->next;
    *last = mare__parcel_new(far->port.session, &far->pump->message, MARE__FLAG_PLAIN);
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
            return true; // empty, or closed and empty; or the pump waits there
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

// Asks for as many messages as are waited for.
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

// The program has closed it, and all that was sent has left: so does this.
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
    take_over(far);
    bool idle = drain(far);
    if (idle && far->pumped && atomic_load(&far->closing) && !far->told)
        idle = tell_closed(far);
    ask(far);
    if (atomic_load(&far->gone) && idle && far->pumped) {
        let_go(far);
        return;
    }
    if (atomic_load(&far->gone)) // then the pump comes to an end, with what was sent before
        mare__chan_close_for(&far->face, MARE_CLOSED);
    if (idle && !far->pumped && mare__bell_rests(far->pump))
        mare__bell_receive(far->pump, &far->face);
}

// The same for one that nobody holds meanwhile.
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

// What was asked for has come. Nobody stands in line any more: it goes back.
void mare__far_take(struct mare__port *port, const struct mare__link_event *event)
{
    struct far *far = far_of(port);
    struct mare__session *session = port->session;
    mare_message message;
    mare__link_consumed(session->link, event->flow, 1, event->size);
    if (event->size < 1 || far->ended)
        return;
    far->asked -= far->asked > 0;
    if (far->unasked > far->asked)
        far->unasked = far->asked;
    if (event->data[0] == MARE__FLAG_CLOSE) {
        mare__chan_close_for(far->in, MARE_CLOSED);
        serve_now(port);
        return;
    }
    mare_err err = mare__session_read(session, event->data + 1, event->size - 1, &message);
    if (err) {
        mare__session_blame(session, "a message that is none");
        return;
    }
    if (mare__chan_send(far->in, &message, NULL) != MARE_OK) {
        struct mare__parcel *back = mare__parcel_new(session, &message, MARE__FLAG_BACK);
        if (back) { // before what waits already
            back->next = far->waiting;
            far->waiting = back;
        }
    }
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

// Whether the pump has received something, and its task may not even have run.
static bool pump_holds(const struct mare__bell *pump)
{
    // Acquire: as in mare__bell_rang. While it is busy it waits, or its wait was ended and it is
    // about to stir the port: then the session runs again.
    if (atomic_load_explicit(&pump->busy, memory_order_acquire))
        return atomic_load(&pump->task.wait.word) != MARE__WAIT_WAITING;
    return pump->rang;
}

// Whether something that was sent has not left yet.
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
    in->far = &far->far;
    far->in = in;
    mare__port_hold(&far->port); // the face's
    mare__port_hold(&far->port); // that of `in`, which the face holds
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
    if (far) { // it is about to let go, and will be released for itself
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

struct mare__port *mare__far_channel_port(const mare_channel *channel)
{
    return channel->far && channel->far->ask == far_ask ? &of_face(channel)->port : NULL;
}
