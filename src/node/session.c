// SPDX-License-Identifier: MIT
// The task of a session. Each run carries out the orders that others left for it, reads what came,
// tells the program and the ports what it means, and writes what is to be sent. Then it waits for
// the transport, or for the link's next deadline.
//
//     orders, stirred ports --+                   +--> events to the program
//     transport --read--> link --next--> dispatch +--> ports
//                          |                      +--> control
//                          +--output--> transport

#include "base/alloc.h"
#include "loop/stream.h"
#include "node/inner.h"
#include "sched/runtime.h"

// ---- What others want of it ---------------------------------------------------------------------

struct mare__order {
    struct mare__order *next;
    enum { ACCEPT, REFUSE, DRAIN, BYE, QUIT, CLAIMED } kind;
    unsigned code;
    uint64_t stamp; // or the number of the claim
    enum mare__trust trust;
    struct mare__object *object; // the object that was claimed: a reference; or NULL
    char text[];
};

static void free_order(struct mare__order *order)
{
    if (order->object)
        mare__unref(order->object);
    mare__free(order);
}

static void leave_order(struct mare__session *session, const struct mare__order *like,
                        const char *text)
{
    struct mare__order *order = mare__alloc(sizeof *order + strlen(text) + 1);
    if (!order) { // no memory for it: deadlines of the link end this anyway
        if (like->object)
            mare__unref(like->object);
        mare__task_cancel(&session->task);
        return;
    }
    memcpy(order, like, sizeof *order);
    strcpy(order->text, text);
    mare__lock_acquire(&session->lock);
    bool lost = session->lost && !(session->lingers && order->kind == CLAIMED);
    if (!lost) {
        *session->orders_end = order;
        session->orders_end = &order->next;
    }
    mare__lock_release(&session->lock);
    if (lost)
        free_order(order);
    else
        mare__task_nudge(&session->task);
}

void mare__session_accept(struct mare__session *session, uint64_t stamp, enum mare__trust trust)
{
    leave_order(session, &(struct mare__order){.kind = ACCEPT, .stamp = stamp, .trust = trust}, "");
}

void mare__session_refuse(struct mare__session *session, unsigned code, const char *text)
{
    leave_order(session, &(struct mare__order){.kind = REFUSE, .code = code}, text);
}

void mare__session_drain(struct mare__session *session)
{
    leave_order(session, &(struct mare__order){.kind = DRAIN}, "");
}

void mare__session_bye(struct mare__session *session, unsigned code, const char *text)
{
    leave_order(session, &(struct mare__order){.kind = BYE, .code = code}, text);
}

void mare__session_quit(struct mare__session *session, unsigned code, const char *text)
{
    leave_order(session, &(struct mare__order){.kind = QUIT, .code = code}, text);
}

void mare__session_claimed(struct mare__session *session, uint64_t number,
                           struct mare__object *object)
{
    if (object)
        mare__ref(object);
    leave_order(session, &(struct mare__order){.kind = CLAIMED, .stamp = number, .object = object},
                "");
}

static enum mare__link_phase phase_of(const struct mare__session *session)
{
    struct mare__link_view view;
    mare__link_look(session->link, &view);
    return view.phase;
}

static void rise(struct mare__session *session);

static void obey(struct mare__session *session, const struct mare__order *order)
{
    const struct mare__platform *platform = &session->task.runtime->platform;
    struct mare__span text = mare__span_of(order->text);
    uint64_t secret[2];
    if (order->kind == CLAIMED)
        mare__claim_answered(session, order->stamp, order->object);
    if (session->over || order->kind == CLAIMED)
        return;
    bool asked = phase_of(session) == MARE__LINK_ASKED;
    switch (order->kind) {
    case ACCEPT:
        for (int i = 0; i < 2; i++)
            secret[i] = platform->random(platform->context);
        session->trust = order->trust;
        if (asked)
            mare__link_accept(session->link, (const uint8_t *)secret, order->stamp);
        else if (session->judging)
            rise(session);
        break;
    case REFUSE:
        if (asked)
            mare__link_refuse(session->link, order->code, text);
        else if (session->judging)
            mare__link_quit(session->link, order->code, text);
        break;
    case DRAIN:
        session->leaving = true;
        break;
    case BYE: // goodbye, once all that waited has left
        session->leaving = session->parting = true;
        session->bye = order->code;
        break;
    case QUIT:
        mare__link_quit(session->link, order->code, text);
        break;
    case CLAIMED:
        break;
    }
}

static void obey_all(struct mare__session *session)
{
    mare__lock_acquire(&session->lock);
    struct mare__order *order = session->orders;
    session->orders = NULL;
    session->orders_end = &session->orders;
    mare__lock_release(&session->lock);
    while (order) {
        struct mare__order *next = order->next;
        obey(session, order);
        free_order(order);
        order = next;
    }
}

// The next port that was stirred, held; or NULL.
static struct mare__port *next_stirred(struct mare__session *session)
{
    mare__lock_acquire(&session->lock);
    struct mare__list *entry = mare__list_first(&session->stirred);
    struct mare__port *port = entry ? MARE__ENTRY(entry, struct mare__port, stirred) : NULL;
    if (port) {
        mare__list_remove(entry);
        port->is_stirred = false;
    }
    mare__lock_release(&session->lock);
    return port;
}

static void serve_all(struct mare__session *session)
{
    struct mare__port *port;
    while (!session->over && (port = next_stirred(session)) != NULL) {
        port->ops->serve(port);
        mare__port_unhold(port);
    }
}

// ---- What comes ---------------------------------------------------------------------------------

void mare__session_blame(struct mare__session *session, const char *what)
{
    mare__link_quit(session->link, MARE__LINK_CODE_PLACE, mare__span_of(what));
}

// Both links and both programs have agreed: the peer may send requests from now on.
static void rise(struct mare__session *session)
{
    session->judging = false;
    struct mare__span name = mare__link_peer(session->link)->name;
    struct mare__span extra = mare__link_peer(session->link)->extra;
    // The smaller of what the peer takes and what this node can hold.
    session->message_bytes = session->takes;
    if (extra.size >= sizeof session->extra &&
        mare__get64((const uint8_t *)extra.at) < session->takes)
        session->message_bytes = mare__get64((const uint8_t *)extra.at);
    session->peer = mare__alloc(name.size + 1);
    uint64_t id = session->peer ? mare__export_channel(session, session->service) : 0;
    if (id == 0) {
        mare__link_quit(session->link, MARE__LINK_CODE_NOMEM, mare__span_of("service"));
        return;
    }
    memcpy(session->peer, name.at, name.size);
    session->peer[name.size] = 0;
    struct mare__link_view view;
    mare__link_look(session->link, &view);
    const struct mare__link_hello *peer = mare__link_peer(session->link);
    if (peer->address_count > 0) // the address has at most MARE__LINK_TEXT_MOST bytes
        memcpy(session->address, peer->addresses[0].at, peer->addresses[0].size);
    session->incarnation = peer->incarnation;
    session->introduces = view.features & MARE__NODE_INTRODUCES;
    session->traces = view.features & MARE__NODE_TRACES;
    mare__control_send(session, &(struct mare__control){.kind = MARE__CONTROL_SERVICE, .a = id});
    if (session->offered)
        mare__session_met(session, session->offered);
}

// The port that sends in a flow which the peer has opened.
static struct mare__port *sender_in(struct mare__session *session, uint64_t flow)
{
    struct mare__index_entry *entry =
        mare__index_find(flow % 2 ? &session->wanters : &session->tags, flow / 2);
    return entry ? MARE__ENTRY(entry, struct mare__port, by_tag) : NULL;
}

static void on_message(struct mare__session *session, struct mare__link_event *event)
{
    if (event->flow == 0) {
        mare__control_read(session, event->data, event->size);
        mare__link_consumed(session->link, 0, 1, event->size);
    } else if (event->flow % 2) {
        mare__far_take(event->context, event);
    } else {
        mare__export_take(event->context, event);
    }
}

// The session is over: tells all that depended on it. Nothing more happens after this.
static void lose(struct mare__session *session)
{
    struct mare__port *port;
    struct mare__list *entry;
    session->over = true;
    mare__lock_acquire(&session->lock);
    session->lost = session->lingers = true;
    mare__lock_release(&session->lock);
    while ((port = next_stirred(session)) != NULL)
        mare__port_unhold(port);
    while ((entry = mare__list_first(&session->ports)) != NULL) {
        port = MARE__ENTRY(entry, struct mare__port, in_all);
        port->ops->lost(port);
        mare__port_leave(port);
    }
}

// A round trip was measured, and the answer carries bytes of the peer's program.
static void note_beat(struct mare__session *session, const struct mare__link_event *event)
{
    struct mare__session_view *view = &session->view;
    mare__lock_acquire(&session->lock);
    view->rtt_us = event->rtt_us;
    view->samples++;
    view->beat_size = event->size < sizeof view->beat ? event->size : sizeof view->beat;
    if (view->beat_size)
        memcpy(view->beat, event->data, view->beat_size);
    mare__lock_release(&session->lock);
}

// The peer is not a node: the program gets the stream, and the bytes that have come already.
static void pass_on(struct mare__session *session, const struct mare__link_event *event)
{
    struct mare__stream *stream =
        mare__stream_over(session->task.runtime, session->transport, MARE__KIND_STREAM);
    session->transport = NULL;
    bool kept = stream && mare__stream_keep(stream, (const char *)event->data, event->size);
    struct mare__letter *letter = kept ? mare__session_event(session, "guest") : NULL;
    if (letter) {
        mare_message *message = &letter->wait.message;
        atomic_store(&stream->object.taken, false); // its receiver becomes its owner
        message->count += mare__message_append_handle(message, &stream->object);
        mare__chan_post(session->events, letter);
    } else {
        mare__session_tell_over(session, &(struct mare__link_event){.code = MARE__LINK_CODE_NOMEM});
    }
    if (stream)
        mare__unref(&stream->object);
}

static void on_event(struct mare__session *session, struct mare__link_event *event)
{
    struct mare__port *port;
    switch (event->kind) {
    case MARE__LINK_HELLO:
        mare__session_tell_hello(session);
        break;
    case MARE__LINK_RESUME: // this side never offers to resume
        mare__link_refuse(session->link, MARE__LINK_CODE_SESSION, mare__span_of(""));
        break;
    case MARE__LINK_UP: // the side that dialled may learn the peer's name only now
        session->judging = session->dials;
        if (session->dials)
            mare__session_tell_hello(session);
        else
            rise(session);
        break;
    case MARE__LINK_OPENED:
    case MARE__LINK_ROOM:
        if (event->flow == 0)
            mare__control_flush(session);
        port = event->flow ? sender_in(session, event->flow) : NULL;
        if (port && event->flow % 2)
            mare__export_opened(port);
        else if (port)
            mare__far_opened(port);
        break;
    case MARE__LINK_CLOSED: // the peer closed a flow that it had asked for
        break;
    case MARE__LINK_MESSAGE:
        on_message(session, event);
        mare__free(event->block);
        break;
    case MARE__LINK_ENDED:
        if (event->flow % 2 == 0)
            mare__export_ended(event->context, event->flow);
        break;
    case MARE__LINK_BEAT:
        if (event->rtt_us > 0)
            note_beat(session, event);
        break;
    case MARE__LINK_SUSPECTED:
        mare__session_tell(session, "suspected");
        break;
    case MARE__LINK_TRUSTED:
        mare__session_tell(session, "trusted");
        break;
    case MARE__LINK_GUEST: // the link is over, and tells nothing more
        pass_on(session, event);
        lose(session);
        break;
    case MARE__LINK_BROKEN:
    case MARE__LINK_RESUMED:
        break;
    case MARE__LINK_OVER:
        mare__session_tell_over(session, event);
        lose(session);
        break;
    }
}

static void handle_events(struct mare__session *session)
{
    struct mare__link_event event = {0};
    while (mare__link_next(session->link, &event)) {
        on_event(session, &event);
        event = (struct mare__link_event){0};
    }
}

// ---- The transport ------------------------------------------------------------------------------

// Reads once. The bytes of a large message go directly to their place. The head of the next piece
// comes with them, so that the next read can do the same. `*drained`: there is no more to read.
static ssize_t read_once(struct mare__session *session, bool *drained)
{
    uint8_t
        buffer[65536]; // not thread-local: lua5.4 leaves little room for a module's thread-locals
    struct mare__transport *transport = session->transport;
    void *at = NULL;
    size_t direct = mare__link_target(session->link, &at);
    size_t beyond = direct == 0 ? sizeof buffer : transport->ops->read_into ? MARE__NODE_BEYOND : 0;
    struct iovec pieces[2] = {{at, direct}, {buffer, beyond}};
    ssize_t size = direct == 0  ? mare__transport_read(transport, buffer, beyond)
                   : beyond > 0 ? transport->ops->read_into(transport, pieces, 2)
                                : mare__transport_read(transport, at, direct);
    if (size <= 0)
        return size;
    size_t got = (size_t)size, placed = got < direct ? got : direct;
    *drained = transport->ops->plain ? got < direct + beyond : transport->dry;
    if (placed > 0)
        mare__link_filled(session->link, placed);
    if (got > placed)
        mare__link_input(session->link, buffer, got - placed);
    handle_events(session); // now, while the buffer is valid: events may point into it
    return size;
}

// The transport has failed, or the peer sends no more (0).
static void fail(struct mare__session *session, ssize_t why)
{
    if (why == -EPROTO)
        session->refusal = session->transport->ops->failure(session->transport);
    mare__link_broken(session->link);
    handle_events(session);
}

// Reads what came. False: there may be more, but other tasks have their turn first.
static bool read_all(struct mare__session *session)
{
    session->moved = false;
    for (int i = 0; i < MARE__NODE_READS; i++) {
        bool drained = false;
        ssize_t size = read_once(session, &drained);
        session->reads_wait = size == -EAGAIN || drained;
        if (size <= 0 && size != -EAGAIN) {
            fail(session, size);
            return true;
        }
        if (session->reads_wait || session->over)
            return true;
    }
    return false;
}

static void write_all(struct mare__session *session)
{
    enum { PIECES = 64 };
    struct iovec pieces[PIECES];
    int count;
    ssize_t size = 0;
    session->writes_wait = false;
    while (size >= 0 && (count = mare__link_output(session->link, pieces, PIECES)) > 0) {
        size = mare__transport_write(session->transport, pieces, count);
        session->moved |= session->transport->moved;
        if (size >= 0)
            mare__link_sent(session->link, (size_t)size);
    }
    if (size >= 0)
        size = mare__transport_flush(session->transport);
    session->moved |= session->transport->moved;
    session->writes_wait = size == -EAGAIN;
    if (size < 0 && size != -EAGAIN && !session->over)
        fail(session, size);
}

// Adds what to wait for: the way (reading or writing) that a call answered with "not now".
static bool add_way(struct mare__session *session, int way, uint64_t *deadline, int *ways)
{
    mare__transport_waits(session->transport, &way, deadline);
    if (*ways & 1 << way)
        return true;
    mare_channel *channel = mare__transport_await(session->transport, way);
    if (!channel)
        return false;
    *ways |= 1 << way;
    session->cases[session->choice.count] = (struct mare__case){.channel = channel};
    mare__list_init(&session->cases[session->choice.count].spot.entry);
    session->choice.count++;
    return true;
}

// Waits for the ways of the transport that answered "not now".
static bool wait(struct mare__session *session, uint64_t deadline)
{
    mare_runtime *runtime = session->task.runtime;
    int ways = 0;
    session->choice.count = 0;
    bool whole = (!session->reads_wait || add_way(session, MARE__TO_READ, &deadline, &ways)) &&
                 (!session->writes_wait || add_way(session, MARE__TO_WRITE, &deadline, &ways));
    if (!whole) // no memory: try again in a millisecond
        return mare__task_sleep(&session->task, mare__now(runtime) + 1000000);
    if (session->choice.count == 0)
        return mare__task_sleep(&session->task, deadline);
    mare__choice_init(&session->choice, session->cases, session->choice.count, session->order);
    return mare__task_select(&session->task, &session->choice, deadline);
}

// ---- The task -----------------------------------------------------------------------------------

static void look(struct mare__session *session)
{
    struct mare__link_view view;
    mare__link_look(session->link, &view);
    mare__lock_acquire(&session->lock);
    session->view.bytes_in = view.bytes_in;
    session->view.bytes_out = view.bytes_out;
    session->view.messages_in = view.messages_in;
    session->view.messages_out = view.messages_out;
    mare__lock_release(&session->lock);
}

// Once nothing waits to be sent: tells the program so, and says goodbye if that is wanted.
static void part(struct mare__session *session)
{
    if (!session->leaving || session->over)
        return;
    for (struct mare__list *at = session->ports.next; at != &session->ports; at = at->next) {
        struct mare__port *port = MARE__ENTRY(at, struct mare__port, in_all);
        if (port->ops->is_busy && port->ops->is_busy(port))
            return;
    }
    if (!session->drained)
        mare__session_tell(session, "drained");
    session->drained = true;
    if (session->parting)
        mare__link_bye(session->link, session->bye, mare__span_of(""));
}

static uint64_t deadline_of(const struct mare__session *session)
{
    uint64_t until = mare__link_deadline(session->link);
    return until > MARE_FOREVER / 1000 ? MARE_FOREVER : until * 1000;
}

static bool is_to_end(const struct mare__task *task)
{
    return task->wait.result == MARE_KILLED || task->wait.result == MARE_STOPPED ||
           atomic_load(&task->runtime->stopping);
}

// The session is over. Messages that came before still wait for answers to their claims, and the
// peer still has to hear why. Both have a deadline.
static bool linger(struct mare__session *session)
{
    struct mare__task *task = &session->task;
    obey_all(session);
    bool end = is_to_end(task), parts = mare__farewell_goes_on(session, end);
    mare__stranded_deliver(session, end || mare__now(task->runtime) >= session->until);
    bool waits = !mare__list_empty(&session->stranded);
    if (parts && !session->reads_wait && !session->heard)
        return mare__task_yield(task); // there is more to read
    if (parts)
        return wait(session, waits && session->until < session->farewell ? session->until
                                                                         : session->farewell);
    if (waits)
        return mare__task_sleep(task, session->until);
    mare__lock_acquire(&session->lock);
    session->lingers = false;
    mare__lock_release(&session->lock);
    obey_all(session); // frees the last orders
    return false;
}

static bool run(struct mare__task *task)
{
    struct mare__session *session = MARE__ENTRY(task, struct mare__session, task);
    mare_runtime *runtime = task->runtime;
    mare__message_clear(&task->wait.message);
    if (session->over)
        return linger(session);
    mare__link_tick(session->link, mare__now(runtime) / 1000);
    if (is_to_end(task))
        mare__link_quit(session->link, MARE__LINK_CODE_LEAVING, mare__span_of(""));
    // A nudge says nothing of the transport: if that was empty, do not read before it says
    // "readable".
    bool nudged = task->wait.result == MARE_CANCELLED && session->reads_wait && !session->moved;
    obey_all(session);
    handle_events(session);
    serve_all(session);
    bool all = session->over || nudged || read_all(session);
    serve_all(session);
    part(session);
    if (!session->over)
        handle_events(session);
    if (session->transport)
        write_all(session);
    look(session);
    // TLS may have to read while it writes. What it has read makes no descriptor readable: do not
    // wait for that, run again.
    if (!session->over)
        return all && !session->moved ? wait(session, deadline_of(session))
                                      : mare__task_yield(task);
    mare__farewell_begin(session);
    mare__link_destroy(session->link); // its messages hold ports, which hold the session
    session->link = NULL;
    session->until =
        mare__now(runtime) + MARE__NODE_LINGER + session->settings.self.silence_us * 1000;
    return linger(session);
}

static void destroy(struct mare__object *object)
{
    struct mare__session *session = MARE__ENTRY(object, struct mare__session, task.object);
    if (session->link)
        mare__link_destroy(session->link);
    while (session->controls) {
        struct mare__parcel *parcel = session->controls;
        session->controls = parcel->next;
        mare__parcel_free(parcel);
    }
    if (session->transport)
        mare__transport_release(session->transport);
    mare_chan_unref(session->events);
    mare_chan_unref(session->service);
    mare__free(session->texts);
    mare__free(session->peer);
    mare__free(session->words);
    mare__free(session);
}

// ---- The beginning ------------------------------------------------------------------------------

static void release(void *context, void *owner)
{
    (void)context;
    mare__parcel_free(owner);
}

static size_t beat(void *context, const struct mare__link *link, uint8_t *out)
{
    (void)link;
    struct mare__session *session = context;
    mare__lock_acquire(&session->lock);
    size_t size = session->beat_size;
    memcpy(out, session->beat, size);
    mare__lock_release(&session->lock);
    return size;
}

void mare__session_set_beat(struct mare__session *session, const void *bytes, size_t size)
{
    mare__lock_acquire(&session->lock);
    session->beat_size = size < sizeof session->beat ? size : sizeof session->beat;
    memcpy(session->beat, bytes, session->beat_size);
    mare__lock_release(&session->lock);
}

static struct mare__span copy_text(char **at, const char *text)
{
    size_t size = strlen(text);
    memcpy(*at, text, size);
    struct mare__span copy = {*at, size};
    *at += size;
    return copy;
}

static bool settle(struct mare__session *session, const struct mare__session_options *options)
{
    const struct mare__platform *platform = &session->task.runtime->platform;
    struct mare__link_settings *settings = &session->settings;
    struct mare__link_hello *self = &settings->self;
    size_t size = strlen(options->name) + strlen(options->group) + 1;
    for (uint32_t i = 0; i < options->address_count; i++)
        size += strlen(options->addresses[i]);
    char *at = session->texts = mare__alloc(size);
    if (!at)
        return false;
    mare__link_settings_init(settings);
    self->name = copy_text(&at, options->name);
    self->group = copy_text(&at, options->group);
    self->incarnation = options->incarnation;
    self->flows = 2 * MARE__NODE_PROXIES;
    // A session ends with its transport: those who wait are told at once.
    self->features = MARE__NODE_FEATURES;
    for (uint32_t i = 0; i < options->address_count && i < MARE__LINK_ADDRESSES; i++)
        self->addresses[self->address_count++] = copy_text(&at, options->addresses[i]);
    if (options->silence_us)
        self->silence_us = options->silence_us;
    session->takes = options->message_bytes ? options->message_bytes : MARE__NODE_MESSAGE;
    mare__put64(session->extra, session->takes);
    self->extra = (struct mare__span){(const char *)session->extra, sizeof session->extra};
    // Each flow may have one large message under way. Memory is used only for flows that are open.
    settings->receive = (uint64_t)self->flows * (2 * session->takes + 64);
    if (settings->send < 4 * session->takes)
        settings->send = 4 * session->takes;
    // A large message is adopted in the block where it was read. One byte, its flag, lies before it
    // there.
    settings->reserve = MARE__MESSAGE_RESERVE - 1;
    settings->secret = platform->random(platform->context);
    settings->context = session;
    settings->release = release;
    settings->beat = beat;
    session->dials = options->dials;
    strcpy(session->facts, options->facts);
    session->link =
        mare__link_create(settings, options->dials ? MARE__LINK_DIALS : MARE__LINK_ACCEPTS,
                          options->stamp, mare__now(session->task.runtime) / 1000);
    return session->link != NULL;
}

struct mare__session *mare__session_new(mare_runtime *runtime, struct mare__transport *transport,
                                        const struct mare__session_options *options,
                                        mare_channel *events, mare_channel *service)
{
    struct mare__session *session = mare__alloc_zero(sizeof *session);
    if (!session) {
        mare__transport_release(transport);
        return NULL;
    }
    mare__task_init(&session->task, runtime, run, destroy);
    session->task.object.kind = MARE__KIND_SESSION;
    session->transport = transport;
    session->events = mare_chan_ref(events);
    session->service = mare_chan_ref(service);
    mare__list_init(&session->ports);
    mare__list_init(&session->stirred);
    mare__list_init(&session->lent);
    mare__list_init(&session->claims);
    mare__list_init(&session->stranded);
    session->controls_end = &session->controls;
    session->orders_end = &session->orders;
    if (!settle(session, options)) {
        mare__task_release(&session->task);
        return NULL;
    }
    mare__task_yield(&session->task);
    mare__task_start(&session->task);
    return session;
}

struct mare__object *mare__session_object(struct mare__session *session)
{
    return &session->task.object;
}

void mare__session_look(struct mare__session *session, struct mare__session_view *view)
{
    mare__lock_acquire(&session->lock);
    *view = session->view;
    mare__lock_release(&session->lock);
}
