// SPDX-License-Identifier: MIT
// References to objects of a third node. Node b has a reference to an object of node a, and sends
// it to node c. Without more, c could reach the object only through b. So b introduces c to a, and
// c gets the object from a itself.
//
//     b                                 a                              c
//     | the message, with home, number, secret ----------------------> | the message waits
//     | introduce object, number, secret, c -> | keeps the object      |
//     |                                        | <- claim b, number, secret
//     |                                        | the object ---------> | and goes on, with it
//
// The message carries a reference to b's proxy, as it would without introductions. Before the
// program sees the message, the reference that c got from a takes its place. If a does not answer
// in time, the reference to b's proxy stays, and b passes on what is done to it. The messages
// behind this one wait too, so that their order is kept. The Lua program makes the two requests to
// a, dials, and waits: see lua/mare/_keeper_introductions.lua.
#include "base/alloc.h"
#include "node/inner.h"
#include "sched/runtime.h"

// ---- Out ----------------------------------------------------------------------------------------

void mare__introductions_note(struct mare__introductions *list, struct mare__session *session,
                              struct mare__object *object, uint64_t id)
{
    bool process = object->kind == MARE__KIND_PROCESS;
    const struct mare__port *port = process ? mare__far_process_port((mare_process *)object)
                                            : mare__far_channel_port((mare_channel *)object);
    if (!port || id == 0 || list->count == MARE__NODE_INTRODUCED || !session->introduces ||
        !port->session->introduces)
        return;
    for (unsigned i = 0; i < list->count; i++)
        if (list->list[i].object == object)
            return;
    list->list[list->count++] = (struct mare__introduction){
        .object = mare__ref(object), .home = port->session, .key = id * 2 + process};
}

static void add_span(mare_message *message, struct mare__span span)
{
    mare_value value = {.type = MARE_STRING, .as.string = {span.at, span.size}};
    mare_message_add(message, &value);
}

// Tells the program, which tells the object's home.
static void introduce(struct mare__session *session, struct mare__object *object, uint64_t number,
                      const uint8_t *secret)
{
    struct mare__letter *letter = mare__session_event(session, "introduce");
    if (!letter)
        return;
    mare_message *message = &letter->wait.message;
    mare_message_add_string(message, session->peer);
    message->count += mare__message_append_handle(message, object);
    mare_message_add_integer(message, (int64_t)number);
    add_span(message, (struct mare__span){(const char *)secret, MARE__NODE_SECRET});
    atomic_fetch_add(&session->introducing, 1);
    mare__chan_post(session->events, letter);
}

static uint8_t *write_bytes(uint8_t *at, const void *bytes, size_t size)
{
    at += mare__pack_binary_header(at, (uint32_t)size);
    memcpy(at, bytes, size);
    return at + size;
}

void mare__introductions_give(struct mare__introductions *list, struct mare__session *session,
                              struct mare__parcel *parcel)
{
    const struct mare__platform *platform = &session->task.runtime->platform;
    size_t most = MARE__PACK_MAX; // bytes
    for (unsigned i = 0; i < list->count; i++)
        most += 7 * MARE__PACK_MAX + strlen(list->list[i].home->peer) +
                strlen(list->list[i].home->address) + MARE__NODE_SECRET;
    bool fits = parcel && list->count > 0 &&
                parcel->message.length + most < session->message_bytes &&
                atomic_load(&session->introducing) < MARE__NODE_CLAIMS;
    uint8_t *at = fits ? mare__alloc(most) : NULL;
    if (at) {
        parcel->head = at;
        parcel->flag |= MARE__FLAG_INTRODUCED;
        mare__pack_array_header(at, list->count);
        at += MARE__PACK_TABLE;
    }
    for (unsigned i = 0; i < list->count; i++) {
        const struct mare__introduction *one = &list->list[i];
        if (at) {
            uint64_t number = platform->random(platform->context) >> 4, secret[2];
            for (int j = 0; j < 2; j++)
                secret[j] = platform->random(platform->context);
            *at++ = 0x96; // an array of six
            at += mare__pack_unsigned(at, one->key);
            at = write_bytes(at, one->home->peer, strlen(one->home->peer));
            at += mare__pack_unsigned(at, one->home->incarnation);
            at = write_bytes(at, one->home->address, strlen(one->home->address));
            at += mare__pack_unsigned(at, number);
            at = write_bytes(at, secret, sizeof secret);
            introduce(session, one->object, number, (const uint8_t *)secret);
        }
        mare__unref(one->object);
    }
    if (at)
        parcel->head_size = (uint32_t)(at - parcel->head);
}

void mare__session_introduced(struct mare__session *session)
{
    atomic_fetch_sub(&session->introducing, 1);
}

// ---- In -----------------------------------------------------------------------------------------

struct claim {
    struct mare__list of_session, of_parcel;
    struct mare__parcel *parcel;
    struct mare__port *owner; // the port that the parcel is for: a hold
    struct mare__port *proxy; // what the claimed object replaces: a hold, once it is known
    uint64_t key, number, incarnation, theirs;
    struct mare__span home, address, secret; // valid only while the message is read
};

static bool read_claim(struct claim *claim, const uint8_t **at, const uint8_t *end)
{
    struct mare__token token;
    return mare__unpack(at, end, &token) && token.kind == MARE__TOKEN_ARRAY && token.size == 6 &&
           mare__control_number(at, end, &claim->key) &&
           mare__control_bytes(at, end, &claim->home) &&
           mare__control_number(at, end, &claim->incarnation) &&
           mare__control_bytes(at, end, &claim->address) &&
           mare__control_number(at, end, &claim->theirs) &&
           mare__control_bytes(at, end, &claim->secret) &&
           claim->home.size <= MARE__LINK_TEXT_MOST &&
           claim->address.size <= MARE__LINK_TEXT_MOST && claim->secret.size == MARE__NODE_SECRET;
}

static void free_claim(struct mare__session *session, struct claim *claim)
{
    session->claim_count--;
    mare__list_remove(&claim->of_session);
    mare__list_remove(&claim->of_parcel);
    if (claim->proxy)
        mare__port_unhold(claim->proxy);
    mare__port_unhold(claim->owner);
    mare__free(claim);
}

const uint8_t *mare__introductions_read(struct mare__port *port, struct mare__parcel *parcel,
                                        const uint8_t *at, const uint8_t *end)
{
    struct mare__session *session = port->session;
    struct mare__token token;
    if (!session->introduces || !mare__unpack(&at, end, &token) ||
        token.kind != MARE__TOKEN_ARRAY || token.size > MARE__NODE_INTRODUCED)
        return NULL;
    for (uint32_t i = 0; i < token.size; i++) {
        struct claim one = {.parcel = parcel, .owner = port};
        if (!read_claim(&one, &at, end))
            return NULL;
        // If there are too many claims, or no memory: the message keeps the reference through the
        // peer.
        struct claim *claim =
            session->claim_count < MARE__NODE_CLAIMS ? mare__alloc(sizeof *claim) : NULL;
        if (!claim)
            continue;
        *claim = one;
        claim->number = ++session->last_claim;
        mare__port_hold(port);
        mare__list_append(&session->claims, &claim->of_session);
        mare__list_append(&parcel->claims, &claim->of_parcel);
        session->claim_count++;
    }
    return at;
}

// Asks the program to claim. False: there is nothing to claim, or no memory.
static bool make(struct mare__session *session, struct claim *claim)
{
    struct mare__index_entry *entry = mare__index_find(&session->fars, claim->key);
    struct mare__letter *letter = entry ? mare__session_event(session, "claim") : NULL;
    if (!letter)
        return false;
    claim->proxy = MARE__ENTRY(entry, struct mare__port, by_id);
    mare__port_hold(claim->proxy);
    mare_message *message = &letter->wait.message;
    mare_message_add_integer(message, (int64_t)claim->number);
    mare_message_add_string(message, session->peer);
    add_span(message, claim->home);
    mare_message_add_integer(message, (int64_t)claim->incarnation);
    add_span(message, claim->address);
    mare_message_add_integer(message, (int64_t)claim->theirs);
    add_span(message, claim->secret);
    mare__chan_post(session->events, letter);
    return true;
}

void mare__claims_make(struct mare__port *port, struct mare__parcel *parcel)
{
    for (struct mare__list *at = parcel->claims.next, *next; at != &parcel->claims; at = next) {
        struct claim *claim = MARE__ENTRY(at, struct claim, of_parcel);
        next = at->next;
        if (!make(port->session, claim))
            free_claim(port->session, claim);
    }
}

void mare__claims_drop(struct mare__parcel *parcel)
{
    struct mare__list *entry;
    while ((entry = mare__list_first(&parcel->claims)) != NULL) {
        struct claim *claim = MARE__ENTRY(entry, struct claim, of_parcel);
        free_claim(claim->owner->session, claim);
    }
}

void mare__claim_answered(struct mare__session *session, uint64_t number,
                          struct mare__object *object)
{
    struct claim *claim = NULL;
    for (struct mare__list *at = session->claims.next; at != &session->claims; at = at->next)
        if (MARE__ENTRY(at, struct claim, of_session)->number == number)
            claim = MARE__ENTRY(at, struct claim, of_session);
    if (!claim) // the parcel of this claim is gone
        return;
    struct mare__object *old = claim->key % 2 ? mare__far_process_face(claim->proxy)
                                              : mare__far_channel_face(claim->proxy);
    struct mare__port *owner = claim->owner;
    if (object && object->kind == old->kind)
        mare__message_replace(&claim->parcel->message, old, object);
    mare__port_hold(owner);
    free_claim(session, claim);
    if (!session->over)
        owner->ops->serve(owner);
    mare__port_unhold(owner);
}

// ---- When the peer is lost meanwhile ------------------------------------------------------------

struct stranded {
    struct mare__list entry;
    mare_channel *channel; // a reference
    struct mare__parcel *first;
};

// Puts parcels into the channel up to the first that must wait, or all of them. Returns the rest.
static struct mare__parcel *deliver(mare_channel *channel, struct mare__parcel *first, bool all)
{
    while (first && (all || mare__list_empty(&first->claims))) {
        struct mare__parcel *parcel = first;
        first = parcel->next;
        if (parcel->flag != MARE__FLAG_CLOSE)
            mare__node_deliver(channel, &parcel->message);
        mare__parcel_free(parcel);
    }
    return first;
}

void mare__stranded_add(struct mare__session *session, mare_channel *channel,
                        struct mare__parcel *first)
{
    first = deliver(channel, first, false);
    struct stranded *rest = first ? mare__alloc(sizeof *rest) : NULL;
    if (!rest) {
        deliver(channel, first, true);
        return;
    }
    rest->channel = mare_chan_ref(channel);
    rest->first = first;
    mare__list_append(&session->stranded, &rest->entry);
}

void mare__stranded_deliver(struct mare__session *session, bool all)
{
    for (struct mare__list *at = session->stranded.next, *next; at != &session->stranded;
         at = next) {
        struct stranded *rest = MARE__ENTRY(at, struct stranded, entry);
        next = at->next;
        rest->first = deliver(rest->channel, rest->first, all);
        if (rest->first)
            continue;
        mare__list_remove(at);
        mare_chan_unref(rest->channel);
        mare__free(rest);
    }
}
