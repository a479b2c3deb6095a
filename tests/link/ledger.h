// SPDX-License-Identifier: MIT
// What was promised and what has happened: every message of every flow of every session is written
// down when it is accepted, and struck out when it is delivered. A violation is a promise and a
// sentence about it; the first one is kept.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/link.h"

// What a run can be reported for.
extern const char *const ledger_promises[];

enum { LEDGER_TRACKS = 48 };

// A flow from its OPEN to its end, as both hosts see it.
struct ledger_track {
    uint64_t number;
    uint32_t serial;
    struct mare__link_window window;
    bool once;
    bool known;           // the sender was told
    bool sending, taking; // it may send; the receiver has not closed it, nor was told its end
    bool closed;          // the receiver has closed it: what is under way is dropped
    bool wanting;         // the sender was refused, and waits for ROOM
    uint32_t accepted, delivered, consumed, dropped;
    uint64_t held_bytes; // delivered and not consumed
    uint32_t *sizes;     // of what was accepted
    uint32_t room;
};

// One session: end 0 has dialled, end 1 accepted.
struct ledger_session {
    struct ledger_session *next;
    uint8_t id[MARE__LINK_SESSION];
    uint32_t serial;
    bool up[2], over[2];
    bool bye;                                     // one of the hosts has said goodbye
    struct ledger_track tracks[2][LEDGER_TRACKS]; // in which end 0 sends; end 1
    uint32_t count[2];
};

struct ledger {
    struct ledger_session *sessions;
    uint32_t serial, blocks; // blocks: lent to machines, not released
    const char *violation;
    char detail[240];
    uint64_t accepted, delivered, resumed, lost; // figures
};

void ledger_violate(struct ledger *ledger, const char *promise, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ledger_fini(struct ledger *ledger);

struct ledger_session *ledger_session_add(struct ledger *ledger, const uint8_t *id);
struct ledger_session *ledger_session_find(const struct ledger *ledger, const uint8_t *id);

// The receiver has opened a flow; NULL: there are too many in this run.
struct ledger_track *ledger_open(struct ledger *ledger, struct ledger_session *session, int sender,
                                 uint64_t number, struct mare__link_window window, bool once);
// The latest flow of this number in which `sender` sends.
struct ledger_track *ledger_find(struct ledger_session *session, int sender, uint64_t number);

// The bytes of the index-th message of a track.
void ledger_fill(const struct ledger_track *track, uint32_t index, uint8_t *out, uint32_t size);
void ledger_accepted(struct ledger *ledger, struct ledger_track *track, uint32_t size);
void ledger_delivered(struct ledger *ledger, struct ledger_track *track, const uint8_t *data,
                      size_t size);
void ledger_over(struct ledger *ledger, struct ledger_session *session, int end, unsigned code,
                 bool by_peer, uint64_t messages);

// Everything that was accepted in sessions that are up was delivered; who has lost a session, its
// peer has too.
void ledger_settle(struct ledger *ledger);
