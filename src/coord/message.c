/* SPDX-License-Identifier: MIT */

/* Messages as bytes, and as text for people.
 *
 *     ┌─────┬──────┬─────────┬─────────┬── ─ ─┬───────────┐
 *     │ tag │ kind │ field 0 │ field 1 │  …   │ tail …    │
 *     └─────┴──────┴─────────┴─────────┴── ─ ─┴───────────┘
 *        1      1       8         8                any       (little endian)
 *
 * An algorithm gives the form of each kind; nobody else reads or writes the head of a message, and
 * what is in a tail is the algorithm's own. Decoding accepts exactly what encoding makes: a message
 * one byte short, one byte long, of another algorithm or of an unknown kind is MALFORMED. */

#include "coord/bytes.h"
#include "coord/machine.h"

#include <string.h>

static const mare_coord_form *form_of(const mare_coord_algorithm *algorithm, uint32_t kind)
{
    for (uint32_t i = 0; algorithm->forms[i].name; i++) {
        if (i == kind)
            return &algorithm->forms[i];
    }
    return NULL;
}

static uint32_t field_count(const mare_coord_form *form)
{
    uint32_t count = 0;
    while (count < MARE_COORD_FIELDS && form->field[count])
        count++;
    return count;
}

uint32_t mare_coord_encode(const mare_coord_algorithm *algorithm, const mare_coord_message *message,
                           uint8_t *out, uint32_t room)
{
    const mare_coord_form *form = form_of(algorithm, message->kind);
    if (!form)
        return 0;
    uint32_t fields = field_count(form);
    uint32_t tail = form->has_tail ? message->tail_length : 0;
    uint32_t head = MARE__MESSAGE_BYTES(fields);
    if (room < head || room - head < tail)
        return 0;
    out[0] = algorithm->tag;
    out[1] = (uint8_t)message->kind;
    mare__put_numbers(out + 2, message->field, fields);
    if (tail)
        memcpy(out + head, message->tail, tail);
    return head + tail;
}

mare_coord_status mare_coord_decode(const mare_coord_algorithm *algorithm, const uint8_t *bytes,
                                    uint32_t length, mare_coord_message *message)
{
    memset(message, 0, sizeof *message);
    if (!bytes || length < 2 || bytes[0] != algorithm->tag)
        return MARE_COORD_MALFORMED;
    const mare_coord_form *form = form_of(algorithm, bytes[1]);
    if (!form)
        return MARE_COORD_MALFORMED;
    uint32_t fields = field_count(form);
    uint32_t head = MARE__MESSAGE_BYTES(fields);
    if (length < head || (length > head && !form->has_tail))
        return MARE_COORD_MALFORMED;
    message->kind = bytes[1];
    mare__get_numbers(message->field, bytes + 2, fields);
    message->tail = bytes + head;
    message->tail_length = length - head;
    return MARE_COORD_OK;
}

/* A text that grows until its room is used up, and always ends in a zero. */
typedef struct text {
    char *out;
    size_t room, used;
} text;

static void put_word(text *t, const char *word)
{
    for (; *word && t->used + 1 < t->room; word++)
        t->out[t->used++] = *word;
    t->out[t->used] = '\0';
}

static void put_number(text *t, uint64_t number)
{
    char digits[21];
    int i = 20;
    digits[i] = '\0';
    do
        digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    put_word(t, digits + i);
}

void mare_coord_describe(const mare_coord_algorithm *algorithm, const uint8_t *bytes,
                         uint32_t length, char *out, size_t room)
{
    mare_coord_message message;
    text t = {.out = out, .room = room};
    if (room == 0)
        return;
    if (mare_coord_decode(algorithm, bytes, length, &message) != MARE_COORD_OK) {
        put_word(&t, "malformed");
        return;
    }
    const mare_coord_form *form = form_of(algorithm, message.kind);
    put_word(&t, form->name);
    for (uint32_t i = 0; i < field_count(form); i++) {
        put_word(&t, " ");
        put_word(&t, form->field[i]);
        put_word(&t, "=");
        put_number(&t, message.field[i]);
    }
    if (form->has_tail) {
        put_word(&t, " +");
        put_number(&t, message.tail_length);
    }
}

static const char *const status_names[] = {"ok",       "noroom",  "malformed",
                                           "stranger", "refused", "unknown"};
static const char *const event_names[] = {"start",     "message", "timer", "enter",
                                          "exit",      "abandon", "elect", "multicast",
                                          "peer-down", "peer-up", "join",  "leave"};
static const char *const effect_names[] = {
    "save",    "send",     "broadcast", "set-timer", "cancel-timer", "granted",
    "revoked", "deliver",  "elected",   "view",      "outside",      "no-group",
    "leased",  "unleased", "down",      "up",        "suspect",      "mark"};

_Static_assert(sizeof status_names / sizeof *status_names == MARE_COORD_UNKNOWN + 1, "a name each");
_Static_assert(sizeof event_names / sizeof *event_names == MARE_COORD_EVENT_KINDS, "a name each");
_Static_assert(sizeof effect_names / sizeof *effect_names == MARE_COORD_EFFECT_KINDS,
               "a name each");

const char *mare_coord_status_name(mare_coord_status status)
{
    return (unsigned)status <= MARE_COORD_UNKNOWN ? status_names[status] : "?";
}

const char *mare_coord_event_name(mare_coord_event_kind kind)
{
    return (unsigned)kind < MARE_COORD_EVENT_KINDS ? event_names[kind] : "?";
}

const char *mare_coord_effect_name(mare_coord_effect_kind kind)
{
    return (unsigned)kind < MARE_COORD_EFFECT_KINDS ? effect_names[kind] : "?";
}
