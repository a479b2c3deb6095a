// SPDX-License-Identifier: MIT
// What two sessions tell each other besides messages, in flow 0 of their link.
#include "base/alloc.h"
#include "node/inner.h"

enum { HEAD = 5 * MARE__PACK_MAX };

// Writes everything but the bytes of the last string.
static size_t write_head(uint8_t *out, const struct mare__control *control)
{
    uint8_t *at = out;
    *at++ = 0x95; // an array of five
    at += mare__pack_unsigned(at, control->kind);
    at += mare__pack_unsigned(at, control->a);
    at += mare__pack_unsigned(at, control->b);
    at += mare__pack_binary_header(at, (uint32_t)control->text.size);
    return (size_t)(at - out);
}

void mare__control_send(struct mare__session *session, const struct mare__control *control)
{
    if (session->over)
        return;
    uint8_t head[HEAD], second[MARE__PACK_MAX];
    size_t size = write_head(head, control);
    size_t more = mare__pack_binary_header(second, (uint32_t)control->body.size);
    const struct mare__link_part parts[] = {{head, size, NULL},
                                            {control->text.at, control->text.size, NULL},
                                            {second, more, NULL},
                                            {control->body.at, control->body.size, NULL}};
    mare_err err = MARE_FULL;
    if (!session->controls)
        err = mare__link_send(session->link, 0, parts, 4);
    if (err != MARE_FULL) {
        if (err == MARE_TOOBIG || err == MARE_NOMEM)
            mare__link_quit(session->link, MARE__LINK_CODE_NOMEM, mare__span_of("control"));
        return;
    }
    session->controls_bytes += size + control->text.size + more + control->body.size;
    bool bounded = session->controls_bytes <= MARE__NODE_CONTROLS;
    struct mare__parcel *parcel = bounded ? mare__alloc_zero(sizeof *parcel) : NULL;
    if (parcel)
        mare__list_init(&parcel->claims);
    bool whole = parcel != NULL;
    for (unsigned i = 0; whole && i < 4; i++)
        whole = parts[i].size == 0 ||
                mare__message_append(&parcel->message, parts[i].bytes, parts[i].size);
    if (!whole) { // a lost order would leave the two sides in disagreement
        if (parcel)
            mare__parcel_free(parcel);
        mare__link_quit(session->link, MARE__LINK_CODE_NOMEM, mare__span_of("control"));
        return;
    }
    *session->controls_end = parcel;
    session->controls_end = &parcel->next;
}

void mare__control_flush(struct mare__session *session)
{
    while (session->controls) {
        struct mare__parcel *parcel = session->controls;
        const struct mare__link_part part = {mare__message_data(&parcel->message),
                                             parcel->message.length, NULL};
        if (mare__link_send(session->link, 0, &part, 1) == MARE_FULL)
            return;
        session->controls = parcel->next;
        session->controls_bytes -= parcel->message.length;
        mare__parcel_free(parcel);
    }
    session->controls_end = &session->controls;
}

bool mare__control_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    struct mare__token token;
    if (!mare__unpack(at, end, &token) || token.kind != MARE__TOKEN_INTEGER || token.as.integer < 0)
        return false;
    *number = (uint64_t)token.as.integer;
    return true;
}

bool mare__control_bytes(const uint8_t **at, const uint8_t *end, struct mare__span *bytes)
{
    struct mare__token token;
    if (!mare__unpack(at, end, &token) || token.kind != MARE__TOKEN_STRING)
        return false;
    *bytes = (struct mare__span){(const char *)*at, token.size};
    *at += token.size;
    return true;
}

static struct mare__port *far_of(struct mare__session *session, uint64_t tag)
{
    struct mare__index_entry *entry = mare__index_find(&session->tags, tag);
    return entry ? MARE__ENTRY(entry, struct mare__port, by_tag) : NULL;
}

static void obey(struct mare__session *session, const struct mare__control *control)
{
    struct mare__port *far;
    struct mare__index_entry *entry;
    switch (control->kind) {
    case MARE__CONTROL_SERVICE:
        mare__session_met(session, control->a);
        break;
    case MARE__CONTROL_ATTACH:
        mare__export_attach(session, control->a, control->b);
        break;
    case MARE__CONTROL_WANT:
        mare__export_want(session, control->a, control->b);
        break;
    case MARE__CONTROL_UNWANT:
        mare__export_unwant(session, control->a, control->b);
        break;
    case MARE__CONTROL_UNWANTED:
        far = far_of(session, control->a);
        if (far)
            mare__far_unwanted(far, control->b);
        break;
    case MARE__CONTROL_CLOSED:
        far = far_of(session, control->a);
        if (far)
            mare__far_closed(far);
        break;
    case MARE__CONTROL_RELEASE:
        if (control->a % 2)
            mare__export_process_release(session, control->a / 2, control->b);
        else
            mare__export_channel_release(session, control->a / 2, control->b);
        break;
    case MARE__CONTROL_WATCH:
        mare__export_watch(session, control->a);
        break;
    case MARE__CONTROL_ENDED:
        entry = mare__index_find(&session->fars, control->a * 2 + 1);
        if (entry)
            mare__far_ended(MARE__ENTRY(entry, struct mare__port, by_id), control);
        break;
    case MARE__CONTROL_KILL:
        mare__export_kill(session, control->a, control->text);
        break;
    case MARE__CONTROL_TIE:
    case MARE__CONTROL_UNTIE:
        mare__export_tie(session, control->a, control->kind == MARE__CONTROL_TIE);
        break;
    default: // sent by a newer version, which knows that older ones skip it
        break;
    }
}

void mare__control_read(struct mare__session *session, const uint8_t *bytes, size_t size)
{
    struct mare__control control;
    const uint8_t *at = bytes, *end = bytes + size;
    struct mare__token token;
    bool read = mare__unpack(&at, end, &token) && token.kind == MARE__TOKEN_ARRAY &&
                token.size == 5 && mare__control_number(&at, end, &control.kind) &&
                mare__control_number(&at, end, &control.a) &&
                mare__control_number(&at, end, &control.b) &&
                mare__control_bytes(&at, end, &control.text) &&
                mare__control_bytes(&at, end, &control.body);
    if (!read || at != end || control.a > UINT64_MAX / 8 || control.b > UINT64_MAX / 8)
        mare__session_blame(session, "a control message that is none");
    else
        obey(session, &control);
}
