// SPDX-License-Identifier: MIT
// Messages on their way between nodes. A message is the same bytes as inside a node, but for its
// references, which are pointers there. Here each is, in as many bytes: a kind, whose it is, and
// the number that it has there.
//
//     u8 kind | u24 0: the sender's, 1: the receiver's | u64 id
//
// A reference of the peer's goes back to it only as long as this node has not released it. So the
// proxy of one that is on its way home is lent to the message, and is not released before the link
// says that the message has arrived.
#include "base/alloc.h"
#include "node/inner.h"

enum { OWNED_FROM = 1024 }; // bytes: a longer message is not copied

struct loan {
    struct mare__list entry;
    struct mare__port *port;
};

void mare__parcel_free(struct mare__parcel *parcel)
{
    for (unsigned i = 0; i < parcel->lent_count; i++) {
        parcel->lent[i]->lent--;
        mare__port_stir(parcel->lent[i]); // it may have waited for this
        mare__port_unhold(parcel->lent[i]);
    }
    mare__message_clear(&parcel->message);
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
};

// Writes a reference. The lent ones are noted in the session, for their number is not known yet.
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
    }
    mare__put32(payload, (uint32_t)object->kind << 24 | (port ? 1 : 0));
    mare__put64(payload + 4, id);
    return id != 0;
}

struct mare__parcel *mare__parcel_new(struct mare__session *session, mare_message *message,
                                      enum mare__flag flag)
{
    struct writing writing = {session, 0};
    mare_err err = mare__message_dissolve(message, write_reference, &writing);
    struct mare__parcel *parcel =
        mare__alloc_zero(sizeof *parcel + writing.lent * sizeof parcel->lent[0]);
    struct mare__list *entry;
    if (parcel) {
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
    if (parcel && err) {
        mare__parcel_free(parcel);
        parcel = NULL;
    }
    if (!parcel) // or the peer would wait for it
        mare__link_quit(session->link, MARE__LINK_CODE_NOMEM, mare__span_of("a message"));
    return parcel;
}

mare_err mare__session_send_again(struct mare__session *session, uint64_t flow,
                                  struct mare__parcel **waiting)
{
    struct mare__parcel *parcel = *waiting;
    bool owned = parcel->lent_count > 0 || parcel->message.length >= OWNED_FROM;
    const struct mare__link_part parts[2] = {
        {&parcel->flag, 1, NULL},
        {mare__message_data(&parcel->message), parcel->message.length, owned ? parcel : NULL}};
    mare_err err = mare__link_send(session->link, flow, parts, parcel->message.length ? 2 : 1);
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
        uint8_t first = (uint8_t)flag;
        const struct mare__link_part parts[2] = {
            {&first, 1, NULL}, {mare__message_data(message), message->length, NULL}};
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

mare_err mare__session_read(struct mare__session *session, const uint8_t *bytes, size_t size,
                            mare_message *message)
{
    mare__message_init(message);
    return mare__message_accept_with(message, bytes, size, session->trust, read_reference, session);
}
