// SPDX-License-Identifier: MIT
// A session: what two nodes have with each other, from their handshake until one of them ends or is
// lost. It drives the link between them (wire/link.h) over a transport, and makes channels and
// processes of one node usable on the other.
//
// One task per session does all the work; the functions here only leave orders for it.
// lua/mare/node.lua, above this, decides which nodes connect, who may come in and what peers may
// do.
#pragma once

#include "platform/transport.h"
#include "sched/task.h"
#include "wire/link.h"

struct mare__session;

// What all sessions of a node have in common. Texts are copied.
struct mare__session_options {
    const char *name, *group;
    uint64_t incarnation, stamp;
    const char *const *addresses;
    uint32_t address_count;
    uint64_t silence_us;    // 0: the default
    uint64_t message_bytes; // the largest message that is taken; 0: the default
    bool dials;
    char facts[512]; // what TLS knows of the peer, for "hello"; or ""
};

// Begins a session over a transport. The session owns the transport from then on, even if this
// fails. `events` is the channel that hears what happens. `service` is the channel that the peer
// gets a reference to. The session holds both. The caller gets a hold, and gives it back by
// mare__unref(mare__session_object()). NULL: not enough memory.
//
// Events are messages: the session, a word, and what belongs to it.
//     "hello", name, group, incarnation, stamp, facts     answer by accept or refuse, on both sides
//     "up", name, incarnation, stamp, facts, channel, address ...      the peer's service channel
//     "suspected" | "trusted"
//     "drained": after mare__session_drain
//     "dropped", why: a message of a channel here could not cross
//     "introduce", name of the peer, object, number, secret: the object's home shall let the peer
//         have it; answer by introduced
//     "claim", number, name of the peer, home, its incarnation and address, number of the peer,
//         secret: answer by claimed, and soon, for messages wait
//     "over", word of the code, text, whether the peer said so     the last
//     "guest", stream: instead of all these. The peer speaks MessagePack-RPC
struct mare__session *mare__session_new(mare_runtime *runtime, struct mare__transport *transport,
                                        const struct mare__session_options *options,
                                        mare_channel *events, mare_channel *service);

struct mare__object *mare__session_object(struct mare__session *session);

// Answers to "hello".
void mare__session_accept(struct mare__session *session, uint64_t stamp, enum mare__trust trust);
void mare__session_refuse(struct mare__session *session, unsigned code, const char *text);

// Sends what waits, and fetches nothing more; then it reports "drained".
void mare__session_drain(struct mare__session *session);

// Ends the session: the first after all that waits was sent, the second at once.
void mare__session_bye(struct mare__session *session, unsigned code, const char *text);
void mare__session_quit(struct mare__session *session, unsigned code, const char *text);

// The answer to "introduce"; to "claim": the object at its home, or NULL.
void mare__session_introduced(struct mare__session *session);
void mare__session_claimed(struct mare__session *session, uint64_t number,
                           struct mare__object *object);

// Bytes that go along in heartbeats from now on, cut to this size. The peer reads them in its view.
enum { MARE__SESSION_BEAT = 64 };
void mare__session_set_beat(struct mare__session *session, const void *bytes, size_t size);

// What may be seen of a session from outside.
struct mare__session_view {
    uint64_t rtt_us;  // the last round trip, or 0
    uint64_t samples; // how many round trips were measured
    uint8_t beat[MARE__SESSION_BEAT];
    size_t beat_size; // of what the peer put into that last heartbeat
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint32_t proxies, exports;
};
void mare__session_look(struct mare__session *session, struct mare__session_view *view);

// The name of the node where a channel or a process is at home, and its number there. NULL: it
// belongs to this node. The name never changes.
const char *mare__channel_node(const mare_channel *channel, uint64_t *id);
const char *mare__process_node(const mare_process *process, uint64_t *id);
