// SPDX-License-Identifier: MIT
// Messages on their way between nodes. A message has the same bytes as inside a node, except for
// its references. Inside a node a reference is a pointer. Here it has the same size, and holds a
// kind, which side the object belongs to, and the object's number there.
//
//     u8 kind | u24 0: the sender's, 1: the receiver's | u64 id
//
// If both nodes are traced, the number of the event that sent a message goes before it. A trace
// then shows what that event caused on the other node (sched/trace.h).
//
// A reference to a third node's object counts as the sender's: the sender has a proxy of it, and
// passes on what is done to it. An introduction comes along, by which the receiver can get the
// object from its home: see introduce.c.
//
// A reference to the peer's object may go home to the peer only while this node has not released
// it. So a message that carries such a reference borrows its proxy. The proxy is not released
// before the link says that the message has arrived.
#include "base/alloc.h"
#include "node/inner.h"
#include "sched/trace.h"

enum { OWNED_FROM = 1024 }; // bytes: longer messages are not copied

struct loan {
    struct mare__list entry;
    struct mare__port *port;
};

void mare__parcel_free(struct mare__parcel *parcel)
{
    for (unsigned i = 0; i < parcel->lent_count; i++) {
        parcel->lent[i]->lent--;
        mare__port_stir(parcel->lent[i]); // its release may have waited for this message to arrive
        mare__port_unhold(parcel->lent[i]);
    }
    mare__claims_drop(parcel);
    mare__message_clear(&parcel->message);
    mare__free(parcel->head);
    mare__free(parcel);
}

// ---- Out ----------------------------------------------------------------------------------------

static bool can_leave(const struct mare__object *object)
{
    return object && (object->kind == MARE__KIND_CHANNEL || object->kind == MARE__KIND_PROCESS);
}

mare_err mare__node_check(const mare_message *message, uint64_t most, const char **why)
{
    if (message->length >= most) {
        *why = "the message is too large for the other node";
        return MARE_TOOBIG;
    }
    if (mare__message_check(message, can_leave))
        return MARE_OK;
    *why = "only plain values, functions, channels and processes can go to another node, not what "
           "belongs to this one (a buffer, a stream, a file, a timer)";
    return MARE_BADMSG;
}

struct writing {
    struct mare__session *session;
    unsigned lent;
    struct mare__introductions introductions;
};

// Writes a reference. Notes the ports that are lent in the session: their number is not known yet.
static bool write_reference(void *context, struct mare__object *object, uint8_t *payload)
{
    struct writing *writing = context;
    struct mare__session *session = writing->session;
    struct mare__port *port = mare__far_port(session, object);
    uint64_t id = 0;
    if (!can_leave(object))
        return false;
    if (port) {
        struct loan *loan = mare__alloc(sizeof *loan);
        if (!loan)
            return false;
        mare__port_hold(port);
        port->lent++;
        loan->port = port;
        mare__list_append(&session->lent, &loan->entry);
        writing->lent++;
        id = port->id;
    } else {
        id = object->kind == MARE__KIND_CHANNEL
                 ? mare__export_channel(session, (mare_channel *)object)
                 : mare__export_process(session, (mare_process *)object);
        mare__introductions_note(&writing->introductions, session, object, id);
    }
    mare__put32(payload, (uint32_t)object->kind << 24 | (port ? 1 : 0));
    mare__put64(payload + 4, id);
    return id != 0;
}

struct mare__parcel *mare__parcel_new(struct mare__session *session, mare_message *message,
                                      enum mare__flag flag)
{
    struct writing writing;
    writing.session = session;
    writing.lent = writing.introductions.count = 0;
    mare_err err = mare__message_dissolve(message, write_reference, &writing);
    struct mare__parcel *parcel =
        mare__alloc_zero(sizeof *parcel + writing.lent * sizeof parcel->lent[0]);
    struct mare__list *entry;
    if (parcel) {
        mare__list_init(&parcel->claims);
        mare__message_init(&parcel->message);
        mare__message_move(&parcel->message, message);
        parcel->flag = (uint8_t)flag;
    }
    while ((entry = mare__list_first(&session->lent)) != NULL) {
        struct loan *loan = MARE__ENTRY(entry, struct loan, entry);
        mare__list_remove(entry);
        if (parcel)
            parcel->lent[parcel->lent_count++] = loan->port;
        else
            loan->port->lent--, mare__port_unhold(loan->port);
        mare__free(loan);
    }
    mare__message_clear(message);
    mare__introductions_give(&writing.introductions, session, err ? NULL : parcel);
    if (parcel && err) {
        mare__parcel_free(parcel);
        parcel = NULL;
    }
    if (!parcel) // the peer must not wait for it
        mare__link_quit(session->link, MARE__LINK_CODE_NOMEM, mare__span_of("a message"));
    return parcel;
}

uint64_t mare__session_number(const struct mare__session *session, const mare_message *message)
{
    return session->traces ? mare__trace_number(session->task.runtime, message) : 0;
}

// Writes the first bytes of a message: its flag, and the number of its event if it has one. Returns
// how many bytes.
static size_t write_flag(uint8_t *out, const struct mare__session *session,
                         const mare_message *message, unsigned flag)
{
    uint64_t number = mare__session_number(session, message);
    out[0] = (uint8_t)(flag | (number ? MARE__FLAG_TRACED : 0));
    if (number)
        mare__put64(out + 1, number);
    return number ? 1 + MARE__TRACED_SIZE : 1;
}

mare_err mare__session_send_again(struct mare__session *session, uint64_t flow,
                                  struct mare__parcel **waiting)
{
    struct mare__parcel *parcel = *waiting;
    uint8_t first[1 + MARE__TRACED_SIZE];
    bool owned = parcel->lent_count > 0 || parcel->message.length >= OWNED_FROM;
    const struct mare__link_part parts[3] = {
        {first, write_flag(first, session, &parcel->message, parcel->flag), NULL},
        {parcel->head, parcel->head_size, NULL},
        {mare__message_data(&parcel->message), parcel->message.length, owned ? parcel : NULL}};
    mare_err err = mare__link_send(session->link, flow, parts, parcel->message.length ? 3 : 1);
    if (err == MARE_FULL)
        return err;
    *waiting = parcel->next;
    if (err || !owned)
        mare__parcel_free(parcel);
    return err;
}

mare_err mare__session_send(struct mare__session *session, uint64_t flow, mare_message *message,
                            enum mare__flag flag, struct mare__parcel **waiting)
{
    if (!message->handles && message->length < OWNED_FROM) {
        uint8_t first[1 + MARE__TRACED_SIZE];
        const struct mare__link_part parts[2] = {
            {first, write_flag(first, session, message, flag), NULL},
            {mare__message_data(message), message->length, NULL}};
        mare_err err = mare__link_send(session->link, flow, parts, message->length ? 2 : 1);
        if (err != MARE_FULL) {
            mare__message_clear(message);
            return err;
        }
    }
    *waiting = mare__parcel_new(session, message, flag);
    return *waiting ? mare__session_send_again(session, flow, waiting) : MARE_NOMEM;
}

struct mare__port *mare__far_port(const struct mare__session *session,
                                  const struct mare__object *object)
{
    struct mare__port *port = NULL;
    if (object->kind == MARE__KIND_CHANNEL)
        port = mare__far_channel_port((const mare_channel *)object);
    else if (object->kind == MARE__KIND_PROCESS)
        port = mare__far_process_port((const mare_process *)object);
    return port && port->session == session ? port : NULL;
}

const char *mare__channel_node(const mare_channel *channel, uint64_t *id)
{
    const struct mare__port *port = mare__far_channel_port(channel);
    *id = port ? port->id : channel->id;
    return port ? port->session->peer : NULL;
}

const char *mare__process_node(const mare_process *process, uint64_t *id)
{
    const struct mare__port *port = mare__far_process_port(process);
    *id = port ? port->id : process->id;
    return port ? port->session->peer : NULL;
}

// ---- In -----------------------------------------------------------------------------------------

static struct mare__object *read_reference(void *context, const uint8_t *payload)
{
    struct mare__session *session = context;
    uint32_t head = mare__get32(payload);
    uint64_t id = mare__get64(payload + 4);
    bool process = head >> 24 == MARE__KIND_PROCESS, ours = (head & 0xffffff) == 1;
    if ((!process && head >> 24 != MARE__KIND_CHANNEL) || (head & 0xffffff) > 1 || id == 0 ||
        id > UINT64_MAX / 4)
        return NULL;
    if (ours)
        return process ? mare__export_process_find(session, id)
                       : mare__export_channel_find(session, id);
    return process ? mare__far_process(session, id) : mare__far_channel(session, id);
}

// Reads the number of the event that sent a message into *number. Returns where the message goes
// on. NULL: there is no valid number.
static const uint8_t *read_number(const struct mare__session *session, const uint8_t *at,
                                  const uint8_t *end, uint64_t *number)
{
    if (!session->traces || end - at < MARE__TRACED_SIZE)
        return NULL;
    *number = mare__get64(at);
    return *number > 0 && *number >> 40 == 0 ? at + MARE__TRACED_SIZE : NULL;
}

// Tells the trace what caused this message, if that is known.
static void note_arrival(const struct mare__port *port, struct mare__parcel *parcel,
                         uint64_t number)
{
    const struct mare__session *session = port->session;
    if (number)
        number = mare__trace_arrive(session->task.runtime, session->peer, session->incarnation,
                                    port->id, number);
    mare__message_stamp(&parcel->message, number);
}

// `block` holds the bytes that follow the introductions, and the message may adopt it. NULL: it may
// not.
static struct mare__parcel *read_parcel(struct mare__port *port, unsigned flag,
                                        const uint8_t *bytes, size_t size, void **block)
{
    struct mare__session *session = port->session;
    const uint8_t *at = bytes, *end = bytes + size;
    struct mare__parcel *parcel = mare__alloc_zero(sizeof *parcel);
    if (parcel) {
        mare__list_init(&parcel->claims);
        parcel->flag = flag & MARE__FLAG_KIND;
    }
    uint64_t number = 0;
    if (flag & MARE__FLAG_TRACED)
        at = read_number(session, at, end, &number);
    if (parcel && at && flag & MARE__FLAG_INTRODUCED)
        at = mare__introductions_read(port, parcel, at, end);
    bool good = parcel && at && flag < 2 * MARE__FLAG_TRACED && parcel->flag <= MARE__FLAG_CLOSE;
    mare_err err = MARE_BADMSG;
    if (good && block && *block && at == bytes && at < end)
        err = mare__message_adopt_with(&parcel->message, block, size, session->trust,
                                       read_reference, session);
    else if (good)
        err = mare__message_accept_with(&parcel->message, at, (size_t)(end - at), session->trust,
                                        read_reference, session);
    if (err == MARE_OK) {
        note_arrival(port, parcel, number);
        mare__claims_make(port, parcel);
        return parcel;
    }
    if (parcel)
        mare__parcel_free(parcel);
    mare__session_blame(session, "a message that is none");
    return NULL;
}

struct mare__parcel *mare__parcel_read(struct mare__port *port, unsigned flag, const uint8_t *bytes,
                                       size_t size)
{
    return read_parcel(port, flag, bytes, size, NULL);
}

struct mare__parcel *mare__parcel_take(struct mare__port *port, struct mare__link_event *event)
{
    size_t rest = event->size > 0 ? event->size - 1 : 0;
    unsigned flag = event->size > 0 ? event->data[0] : UINT8_MAX; // no flag has this value
    struct mare__parcel *parcel = read_parcel(port, flag, event->data + 1, rest, &event->block);
    if (parcel) {
        parcel->flow = event->flow;
        parcel->size = (uint32_t)event->size;
    }
    return parcel;
}
