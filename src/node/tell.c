// SPDX-License-Identifier: MIT
// What a session tells the program: letters to the channel of events. _keeper.lua reads them.
#include <stdio.h>

#include "base/alloc.h"
#include "node/inner.h"
#include "platform/tls.h"

struct mare__letter *mare__session_event(struct mare__session *session, const char *word)
{
    struct mare__letter *letter = mare__alloc_zero(sizeof *letter);
    if (!letter)
        return NULL;
    mare__letter_init(letter);
    mare_message *message = &letter->wait.message;
    message->count += mare__message_append_handle(message, &session->task.object);
    mare_message_add_string(message, word);
    return letter;
}

static void add_span(struct mare__letter *letter, struct mare__span span)
{
    mare_value value = {.type = MARE_STRING, .as.string = {span.at, span.size}};
    mare_message_add(&letter->wait.message, &value);
}

void mare__session_tell(struct mare__session *session, const char *word)
{
    struct mare__letter *letter = mare__session_event(session, word);
    if (letter)
        mare__chan_post(session->events, letter);
}

void mare__session_dropped(struct mare__session *session, const char *why)
{
    struct mare__letter *letter = mare__session_event(session, "dropped");
    if (!letter)
        return;
    add_span(letter, mare__span_of(why ? why : ""));
    mare__chan_post(session->events, letter);
}

void mare__session_tell_hello(struct mare__session *session)
{
    const struct mare__link_hello *peer = mare__link_peer(session->link);
    struct mare__letter *letter = mare__session_event(session, "hello");
    if (!letter)
        return;
    add_span(letter, peer->name);
    add_span(letter, peer->group);
    mare_message_add_integer(&letter->wait.message, (int64_t)peer->incarnation);
    mare_message_add_integer(&letter->wait.message, (int64_t)peer->stamp);
    add_span(letter, mare__span_of(session->facts));
    mare__chan_post(session->events, letter);
}

void mare__session_met(struct mare__session *session, uint64_t id)
{
    if (session->judging) { // only once this side has agreed to talk
        session->offered = id;
        return;
    }
    if (session->met) {
        mare__session_blame(session, "a second service");
        return;
    }
    session->met = true;
    const struct mare__link_hello *peer = mare__link_peer(session->link);
    struct mare__object *service = id ? mare__far_channel(session, id) : NULL;
    struct mare__letter *letter = service ? mare__session_event(session, "up") : NULL;
    if (letter) {
        mare_message *message = &letter->wait.message;
        add_span(letter, peer->name);
        mare_message_add_integer(message, (int64_t)peer->incarnation);
        mare_message_add_integer(message, (int64_t)peer->stamp);
        add_span(letter, mare__span_of(session->facts));
        message->count += mare__message_append_handle(message, service);
        for (uint32_t i = 0; i < peer->address_count; i++)
            add_span(letter, peer->addresses[i]);
        mare__chan_post(session->events, letter);
    }
    if (service)
        mare__unref(service);
}

void mare__session_tell_over(struct mare__session *session, const struct mare__link_event *event)
{
    struct mare__letter *letter = mare__session_event(session, "over");
    if (!letter)
        return;
    mare_value by_peer = {.type = MARE_BOOLEAN, .as.boolean = event->by_peer};
    // In TLS 1.3 a peer refuses a certificate when the handshake is over for this side.
    bool unknown = mare__link_peer(session->link)->name.size == 0;
    bool denied = unknown && session->refusal && session->refusal->code == MARE_DENIED;
    unsigned code = denied ? MARE__LINK_CODE_DENIED : event->code;
    mare_message_add_string(&letter->wait.message, mare__link_code_word(code));
    char versions[200];
    struct mare__span text = denied ? mare__span_of(session->refusal->text) : event->text;
    if (event->code == MARE__LINK_CODE_VERSION) {
        const struct mare__link_hello *peer = mare__link_peer(session->link);
        const struct mare__link_hello *self = &session->settings.self;
        snprintf(versions, sizeof versions, "%s: this node speaks %u to %u, the other %u to %u",
                 mare__link_code_text(event->code), self->version_min, self->version_max,
                 peer->version_min, peer->version_max);
        text = mare__span_of(versions);
    }
    add_span(letter, text.size ? text : mare__span_of(mare__link_code_text(event->code)));
    mare_message_add(&letter->wait.message, &by_peer);
    mare__chan_post(session->events, letter);
}
