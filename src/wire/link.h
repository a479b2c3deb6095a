// SPDX-License-Identifier: MIT
// The link between two nodes as a state machine: handshake, frames, flows with credit, heartbeats,
// resumption, orderly end. It reads no clock, opens no socket and starts no thread: the host tells
// it the time and the bytes that came, it tells what happened and which bytes are to be sent. The
// protocol is described byte by byte in docs/reference/wire.md.
//
// The whole driving loop, for a link that dials (for one that was accepted only the role differs):
//
//     link = mare__link_create(&settings, MARE__LINK_DIALS, ++stamp, clock_us());
//     for (;;) {
//         mare__link_tick(link, clock_us());                       // what time it is
//         if (readable) {
//             n = read(fd, buffer, sizeof buffer);
//             if (n > 0)
//                 mare__link_input(link, buffer, n);               // what came
//             else
//                 close(fd), mare__link_broken(link);
//         }
//         while (mare__link_next(link, &event))                    // what it means
//             switch (event.kind) {
//             case MARE__LINK_HELLO:     accept or refuse; see mare__link_judge
//             case MARE__LINK_UP:        the handshake is over: open flows, send
//             case MARE__LINK_MESSAGE:   event.flow, event.data; later mare__link_consumed
//             case MARE__LINK_ROOM:      what did not fit in event.flow fits now
//             case MARE__LINK_BROKEN:    if event.dial, dial again: mare__link_redial
//             case MARE__LINK_OVER:      the last: send the output that is left, close, destroy
//             ...
//             }
//         while ((count = mare__link_output(link, pieces, 16)) > 0) {
//             n = writev(fd, pieces, count);                       // what is to be sent
//             if (n <= 0)
//                 break;                                           // until it can be written to
//             mare__link_sent(link, n);
//         }
//         wait until fd can be read, or written to if output was left, or mare__link_deadline(link)
//     }
//
// The states, and the events that tell of them (in capitals):
//
//     DIALS    --HELLO sent--> greeting ----WELCOME----> up <------RESUMED------- resuming
//                                 |          UP          |  \                        ^ redial
//     ACCEPTS  ---> greeting --HELLO--> asked --accept---+   \ transport gone: BROKEN|
//                     |  \     HELLO      |      UP           +--------> broken -----+
//                     |   \--RESUME-->    | refuse                          |
//                   GUEST   RESUME        v                                 | too late
//                               over <----+---- bye, quit, broken rules <---+---- silence
//                               OVER, once
//
// Ownership. Bytes given to mare__link_input are read until mare__link_next has returned false.
// What an event points to is valid until the next call for the same link, but for `block`, which is
// the host's from then on. What is given to mare__link_send with an owner is kept until
// settings->release is called for it, once. The settings belong to the host and outlive its links.
//
// Memory. A link never holds more than mare__link_memory_most(settings), whatever the peer does:
// the host decides by its windows how much may be sent to it, and by settings->send how much waits
// to be sent.
//
// Threads. No function here blocks. One thread at a time may use a link; links are independent.
// The callbacks of the settings must not call back into the link.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/bytes.h"

enum {
    MARE__LINK_VERSION = 1,       // the newest version of the protocol that is spoken here
    MARE__LINK_FRAME = 65536,     // bytes of payload in a frame, unless settings say otherwise
    MARE__LINK_FRAME_LEAST = 256, // ... and what they can say
    MARE__LINK_FRAME_MOST = 8 << 20,
    MARE__LINK_HELLO_MOST = 4096,      // bytes of a frame that carries no payload
    MARE__LINK_BEAT_MOST = 1024,       // bytes that the host can put into a heartbeat
    MARE__LINK_TEXT_MOST = 255,        // bytes of a name, a group, an address, a reason
    MARE__LINK_ADDRESSES = 8,          // that a node can tell
    MARE__LINK_SESSION = 16,           // bytes that name a session
    MARE__LINK_SILENCE_LEAST = 200000, // microseconds
};

// What both ends can do beyond the protocol's version: both must offer it. From bit 32 on features
// are the host's own.
enum { MARE__LINK_FEATURE_RESUME = 1 }; // a session survives its transport

// Why a link ended or was refused: symbol, the number on the wire, a word and a sentence. Numbers
// are never given a second meaning. From 1 on they refuse, from 32 on they end a link, from 64 on
// they tell of a peer that is lost, from 100 on they are the host's own.
#define MARE__LINK_CODES(X)                                                                        \
    X(BYE, 0, "bye", "the link was ended in good order")                                           \
    X(MAGIC, 1, "magic", "this is no link of Maré")                                                \
    X(VERSION, 2, "version", "there is no version of the protocol that both speak")                \
    X(NAME, 3, "name", "the name is taken by another node")                                        \
    X(GROUP, 4, "group", "the node belongs to another group")                                      \
    X(DENIED, 5, "denied", "the policy does not allow it")                                         \
    X(DUPLICATE, 6, "duplicate", "the other connection between the two is used")                   \
    X(SESSION, 7, "session", "there is no such session, or no longer")                             \
    X(STALE, 8, "stale", "an earlier attempt, or an earlier life of the node")                     \
    X(BUSY, 9, "busy", "the node has as many links as it can have")                                \
    X(FRAME, 32, "frame", "bytes that are no frame")                                               \
    X(KIND, 33, "kind", "a kind of frame that is not known and may not be skipped")                \
    X(PLACE, 34, "place", "a frame that is out of place")                                          \
    X(CREDIT, 35, "credit", "more was sent than had been granted")                                 \
    X(TOOBIG, 36, "toobig", "a frame, or a message, that is too large")                            \
    X(COUNT, 37, "count", "the two ends disagree on what was received")                            \
    X(NOMEM, 38, "nomem", "not enough memory")                                                     \
    X(LEAVING, 39, "leaving", "the node ends")                                                     \
    X(REPLACED, 40, "replaced", "a newer link to the same node took its place")                    \
    X(SILENT, 64, "silent", "nothing was heard for too long")                                      \
    X(UNHEARD, 65, "unheard", "the peer has not heard us for too long")                            \
    X(BROKEN, 66, "broken", "the connection broke and was not resumed in time")                    \
    X(HANDSHAKE, 67, "handshake", "the handshake was not completed in time")

enum mare__link_code {
#define MARE__LINK_CODE_ENUM(symbol, number, word, sentence) MARE__LINK_CODE_##symbol = (number),
    MARE__LINK_CODES(MARE__LINK_CODE_ENUM)
#undef MARE__LINK_CODE_ENUM
};

// The word and the sentence of a code, both static; "unknown" for one that is not in the list.
const char *mare__link_code_word(unsigned code);
const char *mare__link_code_text(unsigned code);

// How much may be under way in a flow. The receiver grants it, and the sender keeps to it. A
// message counts from when the sender has accepted it until the receiver's host has consumed it. A
// message may have half of `bytes` at most. So credit can be given back in halves, and no sender
// gets stuck.
struct mare__link_window {
    uint32_t messages;
    uint64_t bytes;
};

// What a node says of itself in the handshake. The text is at most MARE__LINK_TEXT_MOST bytes each.
struct mare__link_hello {
    struct mare__span name, group;
    uint64_t incarnation; // which life of the node: larger at each start
    // Counts this node's handshakes, in both roles, in this life: tells which of two came first.
    uint64_t stamp;
    uint32_t version_min, version_max;
    uint64_t features;
    struct mare__span addresses[MARE__LINK_ADDRESSES]; // where it can be reached
    uint32_t address_count;
    uint32_t frame;                   // bytes of payload in a frame; the smaller of both ends'
                                      // counts
    uint32_t flows;                   // the most flows that it sends in
    uint64_t silence_us;              // the smaller of both ends' counts
    struct mare__link_window control; // of flow 0, in its direction
    struct mare__span extra;          // the host's own, up to 1 KiB
};

struct mare__link;

// What all links of a host have in common.
struct mare__link_settings {
    struct mare__link_hello self; // `stamp` is given for each link instead
    uint64_t receive; // bytes: the sum of the windows that can be open at once, control's included
    uint64_t send;    // bytes of messages that are accepted and not acknowledged, 64 more for each
    uint32_t unacknowledged; // frames that may be sent beyond what was acknowledged
    uint64_t handshake_us;   // until the link must be up
    uint32_t reserve;        // bytes in a `block` before its `data`, for the host
    uint64_t secret;         // any number that peers cannot guess: they cannot make tables slow

    void *context; // for the callbacks
    // The block of this owner, given to mare__link_send, is not needed any more.
    void (*release)(void *context, void *owner);
    // What goes along in the next heartbeat to this peer: writes at most MARE__LINK_BEAT_MOST bytes
    // and returns how many. NULL: nothing.
    size_t (*beat)(void *context, const struct mare__link *link, uint8_t *out);
};

// Defaults: version 1, resumption, frames of 64 KiB, 4,096 flows, 16 MiB to receive and 8 MiB to
// send, 4,096 frames unacknowledged, 3 s of silence, 5 s for the handshake, 256 messages and 1 MiB
// of control. The name, the incarnation and the secret are left to the host.
void mare__link_settings_init(struct mare__link_settings *settings);

// The most memory that a link with these settings holds of its own, at any time.
size_t mare__link_memory_most(const struct mare__link_settings *settings);

// ---- Life ---------------------------------------------------------------------------------------

enum mare__link_role {
    MARE__LINK_DIALS,   // made the connection: says HELLO
    MARE__LINK_ACCEPTS, // accepted it: waits for a HELLO, a RESUME, or a guest
};

// A link over a transport that has just been connected. `stamp`: see mare__link_hello; of a link
// that accepts it is given by mare__link_accept. NULL: not enough memory, or settings that make no
// sense.
struct mare__link *mare__link_create(const struct mare__link_settings *settings,
                                     enum mare__link_role role, uint64_t stamp, uint64_t now_us);

// At any time. Releases every block that is still held.
void mare__link_destroy(struct mare__link *link);

// ---- A round ------------------------------------------------------------------------------------

// Tells the link the time, from a clock that never goes back; only differences are used. The link
// takes this for the time until the next call. If a call comes later than mare__link_deadline, the
// delay does not count as the peer's silence: this side was asleep, and could not hear.
void mare__link_tick(struct mare__link *link, uint64_t now_us);

// Bytes that the transport has received. They are taken in by mare__link_next, and must stay where
// they are until that has returned false.
void mare__link_input(struct mare__link *link, const void *bytes, size_t size);

// In the middle of a large message, the host can read the next bytes directly into their place.
// Returns how many, and where. 0: there is no such place now. mare__link_filled then tells how many
// were written there. Call it instead of mare__link_input; or before that, if the whole place was
// filled and more bytes were read. Ask before every read.
size_t mare__link_target(struct mare__link *link, void **at);
void mare__link_filled(struct mare__link *link, size_t size);

enum mare__link_event_kind {
    // The handshake.
    MARE__LINK_HELLO,  // a node wants in, see mare__link_peer: answer by accept or refuse
    MARE__LINK_RESUME, // wants to go on with the session `data`: mare__link_resume, or refuse
    MARE__LINK_GUEST,  // the peer speaks MessagePack-RPC. `data` is what it said so far: give that
                       // and all that follows to wire/rpc.h, and destroy the link
    MARE__LINK_UP,     // both ends have agreed; see mare__link_peer and mare__link_look

    // Flows in which this end sends.
    MARE__LINK_OPENED, // the peer has opened `flow`: it takes `messages` and `bytes`
    MARE__LINK_ROOM,   // a message that was refused with MARE_FULL fits now, into `flow`
    MARE__LINK_CLOSED, // the peer takes no more of `flow`; `messages` that waited were dropped

    // Flows in which this end receives. `context` is what was given to mare__link_open.
    // `data`. If `block` is set it is the host's, to be freed by mare__free: it has
    // settings->reserve bytes, and then the data.
    MARE__LINK_MESSAGE,
    MARE__LINK_ENDED, // no more will come in `flow`, which is forgotten; not told of `once`

    // The peer's life.
    MARE__LINK_BEAT,      // a heartbeat with `data` of the peer's host; `rtt_us` is 0, or a sample
    MARE__LINK_SUSPECTED, // `code`: for half of the silence nothing was heard, or we were not
    MARE__LINK_TRUSTED,   // and that was wrong: all is well again
    MARE__LINK_BROKEN,    // the transport is gone, but there is time to find another. `dial`: this
                          // end must dial; otherwise the peer comes with a RESUME
    MARE__LINK_RESUMED,   // ... and it was found: nothing was lost

    // The end: once, and nothing after it. `code` and `text` say why, `by_peer` who said so.
    // `messages` that were accepted are not known to have arrived.
    MARE__LINK_OVER,
};

// Fields that are not named with a kind are not set.
struct mare__link_event {
    enum mare__link_event_kind kind;
    bool dial, by_peer;
    unsigned code; // enum mare__link_code, or the host's own
    uint64_t flow, messages, bytes, rtt_us;
    void *context, *block;
    const uint8_t *data;
    size_t size;
    struct mare__span text;
};

// The name of a kind, a constant string.
const char *mare__link_event_name(enum mare__link_event_kind kind);

// The next thing that has happened. False: nothing more, and all input was used.
bool mare__link_next(struct mare__link *link, struct mare__link_event *event);

// The bytes to be sent next, as up to `room` pieces (4 at least): 0 when there is nothing. They are
// valid until the next call; mare__link_sent tells how many of them, from the first, are on their
// way.
int mare__link_output(struct mare__link *link, struct iovec *pieces, int room);
void mare__link_sent(struct mare__link *link, size_t size);

// When to call mare__link_tick at the latest, with mare__link_next and mare__link_output behind it;
// UINT64_MAX: never. It moves with most calls, mostly into the future: a host that has a timer
// pending for an earlier time can leave it, and ask again when it runs out.
uint64_t mare__link_deadline(const struct mare__link *link);

// ---- Handshake ----------------------------------------------------------------------------------

// After HELLO: lets the node in. `session` is random, and secret between the two.
void mare__link_accept(struct mare__link *link, const uint8_t session[MARE__LINK_SESSION],
                       uint64_t stamp);

// After HELLO or RESUME: the peer is told the code, and a text that is cut if it is long. OVER.
void mare__link_refuse(struct mare__link *link, unsigned code, struct mare__span text);

// Whether to let in a node whose name we know already. `other` is our link with it, in any state,
// or the link that dials it, or NULL. MARE__LINK_CODE_BYE: accept, and end `other` by
// mare__link_quit with MARE__LINK_CODE_REPLACED. Any other code: refuse with that. When both nodes
// dial at once, both keep the connection made by the node whose name comes first.
unsigned mare__link_judge(const struct mare__link_settings *settings,
                          const struct mare__link_hello *hello, const struct mare__link *other);

// What the peer has said of itself; from HELLO or UP on. It belongs to the link.
const struct mare__link_hello *mare__link_peer(const struct mare__link *link);

// ---- Transports ---------------------------------------------------------------------------------

// The transport has ended or failed, or is given up by the host. What was under way will be sent
// again over the next one.
void mare__link_broken(struct mare__link *link);

// A link that dialled was broken, and the host has dialled again: the link asks the peer to go on.
// MARE_INVALID: it is not broken, or not for this end to dial.
mare_err mare__link_redial(struct mare__link *link);

// `fresh` has accepted a transport and told RESUME, with the session of `link`. From now on `link`
// uses that transport. The host closes the old transport of `link`, if there still is one, and
// destroys `fresh`. MARE_REFUSED: `fresh` has refused, and told the peer why; `link` may be OVER.
mare_err mare__link_resume(struct mare__link *link, struct mare__link *fresh);

// ---- Flows --------------------------------------------------------------------------------------
// A flow has one direction. The receiver opens it, under a number of its choice that is not in use,
// and the sender is told. Flow 0 is open from the beginning, both ways, and stays so: it is for
// what the hosts have to say to each other, and passes before all others. What is opened, closed or
// ended before a message is sent is known to the peer when that message arrives.

// Opens a flow to receive in. `once`: it ends by itself when `messages` have come, which have
// `bytes` in all, for no credit is given back. MARE_EXISTS: the number is in use. MARE_FULL:
// settings->receive does not allow it, or the peer is in too many flows. MARE_NONODE: the link is
// not up. MARE_NOMEM, MARE_INVALID.
mare_err mare__link_open(struct mare__link *link, uint64_t flow, struct mare__link_window window,
                         bool once, void *context);

// The host is done with some messages of a flow, with so many bytes in all: the sender may send
// more. The sender is told when half of a window was consumed. A flow that does not exist is
// ignored.
void mare__link_consumed(struct mare__link *link, uint64_t flow, uint32_t messages, uint64_t bytes);

// The host wants nothing more in a flow that was opened here. Messages that are under way are
// dropped when they come.
void mare__link_close(struct mare__link *link, uint64_t flow);

// A part of a message. With an owner, the bytes stay where they are until settings->release is
// called for it; without, they are copied.
struct mare__link_part {
    const void *bytes;
    size_t size;
    void *owner;
};

// Sends a message, made of parts that follow each other. A small message is sent in one frame, a
// large one in pieces, and other messages may pass between the pieces. Messages of one flow arrive
// in the order in which they were accepted. On MARE_OK the link owns the parts that have owners,
// until it releases them. On any error the caller still owns them, and nothing has changed.
// MARE_FULL: no room now; ROOM will be told. MARE_TOOBIG: there will never be room. MARE_CLOSED:
// the flow is not open, or this end has ended it, or says goodbye. MARE_NONODE: the link is not up,
// nor broken for a while only. MARE_NOMEM.
mare_err mare__link_send(struct mare__link *link, uint64_t flow,
                         const struct mare__link_part *parts, unsigned count);

// What a flow takes now: messages, and bytes in all. Both 0 when it is not open.
void mare__link_room(const struct mare__link *link, uint64_t flow, struct mare__link_window *room);

// This end has nothing more to send in a flow that the peer has opened: the peer is told so, after
// what was sent.
void mare__link_end(struct mare__link *link, uint64_t flow);

// ---- The end ------------------------------------------------------------------------------------

// Ends the link in good order. Everything that was accepted is sent and acknowledged first. Then
// both ends tell OVER with this code (MARE__LINK_CODE_BYE, or another). Until then messages of the
// peer still come, but nothing more can be sent or opened here.
void mare__link_bye(struct mare__link *link, unsigned code, struct mare__span text);

// Ends the link at once: the host gets OVER now, and the peer hears of it as soon as possible.
void mare__link_quit(struct mare__link *link, unsigned code, struct mare__span text);

// ---- Looking in ---------------------------------------------------------------------------------

enum mare__link_phase {
    MARE__LINK_GREETING,
    MARE__LINK_ASKED,  // the host owes an answer to HELLO or RESUME
    MARE__LINK_LIVE,   // up
    MARE__LINK_PARTED, // broken
    MARE__LINK_RESUMING,
    MARE__LINK_DONE, // over, or handed over to a guest
};

struct mare__link_view {
    enum mare__link_phase phase;
    enum mare__link_role role;
    bool suspected, leaving; // leaving: bye was said
    uint8_t session[MARE__LINK_SESSION];
    uint32_t version, frame; // as agreed
    uint64_t features, silence_us;
    uint64_t heard_us;                                   // when the last byte came
    uint64_t bytes_in, bytes_out;                        // of all its transports
    uint64_t messages_in, messages_out;                  // delivered; accepted
    uint64_t frames_in, frames_out, frames_acknowledged; // those that are counted
    uint32_t resumptions;
    uint32_t flows_in, flows_out;
    uint64_t held; // of settings->send
    size_t memory; // what it holds now
};

// Fills in what may be seen of a link from outside.
void mare__link_look(const struct mare__link *link, struct mare__link_view *view);
