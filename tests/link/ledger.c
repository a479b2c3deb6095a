// SPDX-License-Identifier: MIT
#include "tests/link/ledger.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ledger_promises[] = {
    "ORDER",    // messages of a flow come in the order in which they were accepted
    "TWICE",    // and once
    "INVENTED", // and as they were given, whole
    "WINDOW",   // never more of them than the receiver has granted
    "MEMORY",   // a link holds no more than mare__link_memory_most
    "ONCE",     // OVER is the last event
    "HONEST",   // two machines that keep to the protocol do not accuse each other
    "RELEASE",  // every block is released, once
    "LOST",     // what has not arrived is reported
    "STUCK",    // what was accepted arrives, and who was refused is told of room
    "TOLD",     // when one end has lost a session, so has the other
    "LINKED",   // when all is calm, those that want a link have one, the same at both ends
    "TIMELY",   // silence and deafness are found in their time
    "NEEDLESS", // without a fault, no link is lost
    NULL,
};

void ledger_violate(struct ledger *ledger, const char *promise, const char *format, ...)
{
    va_list arguments;
    if (ledger->violation)
        return;
    ledger->violation = promise;
    va_start(arguments, format);
    vsnprintf(ledger->detail, sizeof ledger->detail, format, arguments);
    va_end(arguments);
}

void ledger_fini(struct ledger *ledger)
{
    while (ledger->sessions) {
        struct ledger_session *session = ledger->sessions;
        ledger->sessions = session->next;
        for (int sender = 0; sender < 2; sender++) {
            for (uint32_t i = 0; i < session->count[sender]; i++)
                free(session->tracks[sender][i].sizes);
        }
        free(session);
    }
}

struct ledger_session *ledger_session_add(struct ledger *ledger, const uint8_t *id)
{
    struct ledger_session *session = calloc(1, sizeof *session);
    memcpy(session->id, id, sizeof session->id);
    session->serial = ++ledger->serial;
    session->next = ledger->sessions;
    ledger->sessions = session;
    return session;
}

struct ledger_session *ledger_session_find(const struct ledger *ledger, const uint8_t *id)
{
    struct ledger_session *session = ledger->sessions;
    while (session && memcmp(session->id, id, sizeof session->id) != 0)
        session = session->next;
    return session;
}

struct ledger_track *ledger_open(struct ledger *ledger, struct ledger_session *session, int sender,
                                 uint64_t number, struct mare__link_window window, bool once)
{
    if (session->count[sender] == LEDGER_TRACKS)
        return NULL;
    struct ledger_track *track = &session->tracks[sender][session->count[sender]++];
    *track = (struct ledger_track){.number = number,
                                   .serial = ++ledger->serial,
                                   .window = window,
                                   .once = once,
                                   .taking = true};
    return track;
}

struct ledger_track *ledger_find(struct ledger_session *session, int sender, uint64_t number)
{
    for (uint32_t i = session->count[sender]; i-- > 0;) {
        if (session->tracks[sender][i].number == number)
            return &session->tracks[sender][i];
    }
    return NULL;
}

// ---- Messages -----------------------------------------------------------------------------------

// A message begins with whose it is and which, if it is long enough.
void ledger_fill(const struct ledger_track *track, uint32_t index, uint8_t *out, uint32_t size)
{
    uint32_t head[2] = {track->serial, index};
    uint32_t state = track->serial * 2654435761u + index * 40503u + size;
    for (uint32_t i = 0; i < size; i += sizeof state) {
        state = state * 1664525 + 1013904223;
        memcpy(out + i, &state, size - i < sizeof state ? size - i : sizeof state);
    }
    if (size >= sizeof head)
        memcpy(out, head, sizeof head);
}

void ledger_accepted(struct ledger *ledger, struct ledger_track *track, uint32_t size)
{
    if (track->accepted == track->room) {
        track->room = track->room ? 2 * track->room : 16;
        track->sizes = realloc(track->sizes, track->room * sizeof *track->sizes);
    }
    track->sizes[track->accepted++] = size;
    ledger->accepted++;
}

static bool is_message(const struct ledger_track *track, uint32_t index, const uint8_t *data,
                       size_t size)
{
    if (index >= track->accepted || track->sizes[index] != size)
        return false;
    uint8_t *expected = malloc(size + 1);
    ledger_fill(track, index, expected, (uint32_t)size);
    bool same = size == 0 || memcmp(expected, data, size) == 0;
    free(expected);
    return same;
}

void ledger_delivered(struct ledger *ledger, struct ledger_track *track, const uint8_t *data,
                      size_t size)
{
    uint32_t index = track->delivered;
    if (!track->taking)
        ledger_violate(ledger, "INVENTED", "a message in flow %" PRIu64 ", which is closed",
                       track->number);
    if (!is_message(track, index, data, size)) {
        uint32_t head[2] = {0, 0};
        if (size >= sizeof head)
            memcpy(head, data, sizeof head);
        bool ours = head[0] == track->serial && is_message(track, head[1], data, size);
        ledger_violate(ledger,
                       !ours             ? "INVENTED"
                       : head[1] < index ? "TWICE"
                                         : "ORDER",
                       "flow %" PRIu64 ": message %u of %u has %zu bytes and is %u", track->number,
                       index, track->accepted, size, ours ? head[1] : UINT32_MAX);
        return;
    }
    track->delivered++;
    track->held_bytes += size;
    ledger->delivered++;
    if (track->delivered - track->consumed > track->window.messages ||
        track->held_bytes > track->window.bytes)
        ledger_violate(ledger, "WINDOW", "flow %" PRIu64 ": %u messages, %" PRIu64 " bytes at once",
                       track->number, track->delivered - track->consumed, track->held_bytes);
}

// ---- The end ------------------------------------------------------------------------------------

static bool is_accusation(unsigned code)
{
    return code == MARE__LINK_CODE_MAGIC || code == MARE__LINK_CODE_VERSION ||
           (code >= MARE__LINK_CODE_FRAME && code <= MARE__LINK_CODE_NOMEM);
}

void ledger_over(struct ledger *ledger, struct ledger_session *session, int end, unsigned code,
                 bool by_peer, uint64_t messages)
{
    uint64_t known = 0, arrived = 0; // known to have arrived; which can have
    if (is_accusation(code))
        ledger_violate(ledger, "HONEST", "%s%s", mare__link_code_word(code),
                       by_peer ? ", says the peer" : "");
    if (!session)
        return;
    if (session->over[end])
        ledger_violate(ledger, "ONCE", "a session is over twice");
    session->over[end] = true;
    ledger->lost += code >= MARE__LINK_CODE_SILENT;
    for (uint32_t i = 0; i < session->count[end]; i++) {
        const struct ledger_track *track = &session->tracks[end][i];
        known += track->accepted - track->dropped;
        arrived += track->closed ? track->accepted : track->delivered;
    }
    if (known > arrived + messages)
        ledger_violate(ledger, "LOST",
                       "%s: %" PRIu64 " messages were accepted, %" PRIu64
                       " can have arrived, and %" PRIu64 " are said to be lost",
                       mare__link_code_word(code), known, arrived, messages);
}

static void settle_track(struct ledger *ledger, const struct ledger_track *track)
{
    if (track->closed)
        return;
    if (track->delivered + track->dropped < track->accepted)
        ledger_violate(ledger, "STUCK", "flow %" PRIu64 ": %u of %u messages are delivered",
                       track->number, track->delivered, track->accepted);
    if (track->wanting && track->sending)
        ledger_violate(ledger, "STUCK", "flow %" PRIu64 ": a sender was refused and not told",
                       track->number);
}

void ledger_settle(struct ledger *ledger)
{
    for (struct ledger_session *session = ledger->sessions; session; session = session->next) {
        bool alive = session->up[0] && !session->over[0];
        if (alive != (session->up[1] && !session->over[1]))
            ledger_violate(ledger, "TOLD", "session %u is over at one end alone", session->serial);
        for (int sender = 0; sender < 2 && alive; sender++) {
            for (uint32_t i = 0; i < session->count[sender]; i++)
                settle_track(ledger, &session->tracks[sender][i]);
        }
    }
}
