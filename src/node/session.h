// SPDX-License-Identifier: MIT
// A session: what two nodes have with each other, from when they agree to talk until one of them
// ends, or is lost. It drives the link between them (wire/link.h) over a transport, and makes
// channels and processes of one node usable on the other.
//
// One task per session does all the work; the functions here only leave word for it. Who connects,
// who may come in and what peers may do is decided above, in Lua: lua/mare/node.lua.
#pragma once

#include "platform/transport.h"
#include "sched/task.h"
#include "wire/link.h"

struct mare__session;

// What the sessions of a node have in common. Texts are copied.
struct mare__session_options {
    const char *name, *group;
    uint64_t incarnation, stamp;
    const char *const *addresses;
    uint32_t address_count;
    uint64_t silence_us;    // 0: the default
    uint64_t message_bytes; // the largest message that is taken; 0: the default
    bool dials;
    char facts[512]; // what TLS knows of the peer, for the events; or ""
};

// Begins a session over a transport, which is its own from then on, in any case. `events` is told
// what happens, `service` is the channel that the peer gets a reference to; both are held. A hold
// for the caller, given back by mare__unref(mare__session_object()); NULL: not enough memory.
//
// Events are messages: the session, a word, and what belongs to it.
//     "hello", name, group, incarnation, stamp, facts     answer by accept or refuse, on both sides
//     "up", name, incarnation, stamp, facts, channel, address ...      the peer's service channel
//     "suspected" | "trusted"
//     "dropped", why: a message of a channel here could not cross
//     "over", word of the code, text, whether the peer said so     the last
//     "guest", stream: instead of all these. The peer speaks MessagePack-RPC
struct mare__session *mare__session_new(mare_runtime *runtime, struct mare__transport *transport,
                                        const struct mare__session_options *options,
                                        mare_channel *events, mare_channel *service);

struct mare__object *mare__session_object(struct mare__session *session);

// After "hello".
void mare__session_accept(struct mare__session *session, uint64_t stamp, enum mare__trust trust);
void mare__session_refuse(struct mare__session *session, unsigned code, const char *text);

// Ends it: in good order, or at once.
void mare__session_bye(struct mare__session *session, unsigned code, const char *text);
void mare__session_quit(struct mare__session *session, unsigned code, const char *text);

// What goes along in heartbeats from now on, cut to so many bytes; the peer finds it in its view.
enum { MARE__SESSION_BEAT = 64 };
void mare__session_set_beat(struct mare__session *session, const void *bytes, size_t size);

// What an onlooker may know.
struct mare__session_view {
    uint64_t rtt_us;  // the last round trip, or 0
    uint64_t samples; // how many were measured
    uint8_t beat[MARE__SESSION_BEAT];
    size_t beat_size; // of what the peer put into the heartbeat that measured it
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint32_t proxies, exports;
};
void mare__session_look(struct mare__session *session, struct mare__session_view *view);

// The name of the node that a channel or a process is at home in, or NULL: this one; and the number
// that it has there. Constant.
const char *mare__channel_node(const mare_channel *channel, uint64_t *id);
const char *mare__process_node(const mare_process *process, uint64_t *id);
