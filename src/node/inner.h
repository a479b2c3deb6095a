// SPDX-License-Identifier: MIT
// What the files of this folder share.
//
//       proxy side                                            home
//     program --send--> [face] -pump-> far  == flow 2t ==>  export -> [the channel itself]
//     program <-receive- [in]  <------ far <== flow 2t+1 == export <-
//
// Far and export are ports of the session: everything in them is touched by the session's task
// alone. Others stir a port, and the session serves it in its next run. To wait for a channel a
// port has bells: tasks that wait as anybody does, and stir the port when the wait is over.
//
// t is the tag of a far: a number that its session has not used before.
#pragma once

#include "base/index.h"
#include "node/session.h"

enum {
    MARE__NODE_MESSAGES = 64,       // that may be under way to a channel
    MARE__NODE_MESSAGE = 4 << 20,   // bytes of one, unless options say otherwise
    MARE__NODE_FACE = 64,           // messages that wait on this side
    MARE__NODE_PROXIES = 1 << 16,   // of the peer's objects at the same time
    MARE__NODE_INLETS = 16,         // proxies that the peer has of one channel, one after the other
    MARE__NODE_CONTROLS = 16 << 20, // bytes of control that wait for the peer
    MARE__NODE_RESULT = 1 << 18,    // bytes of what a process returns
    MARE__NODE_READS = 16,          // from the transport, before others have their turn
};

// ---- Ports --------------------------------------------------------------------------------------
struct mare__port;
struct mare__port_ops {
    void (*serve)(struct mare__port *port);   // something has changed
    void (*lost)(struct mare__port *port);    // the session is over
    void (*destroy)(struct mare__port *port); // nobody holds it any more
    bool (*is_busy)(struct mare__port *port); // something waits to be sent; NULL: never
};

struct mare__port {
    const struct mare__port_ops *ops;
    atomic_uint holds;
    struct mare__session *session; // a hold
    uint64_t id;                   // of the object, where it is at home
    struct mare__index_entry by_id, by_tag;
    bool has_id, has_tag; // it is in the session's index of ids, of tags
    unsigned lent;        // parcels on their way that refer to it
    struct mare__list in_all;
    struct mare__list stirred; // under the session's lock
    bool is_stirred;
};

void mare__port_init(struct mare__port *port, const struct mare__port_ops *ops,
                     struct mare__session *session, uint64_t id);
static inline void mare__port_hold(struct mare__port *port)
{
    atomic_fetch_add_explicit(&port->holds, 1, memory_order_relaxed); // as mare__ref
}
void mare__port_unhold(struct mare__port *port);

// Any thread: the session shall serve it. False: the session is over.
bool mare__port_stir(struct mare__port *port);

// It is not the session's any more, which gives its hold back.
void mare__port_leave(struct mare__port *port);

// A reference more to a proxy, which holds none itself. False: nobody refers to it any more.
bool mare__port_revive(struct mare__object *object);

// ---- Bells --------------------------------------------------------------------------------------
struct mare__bell {
    struct mare__task task;
    struct mare__port *port; // a hold
    atomic_bool busy;        // it waits, or is about to stir: what follows is not the session's
    mare_message message;    // what was received, or is to be sent
    mare_channel *from;      // what it receives from, which the port keeps; NULL: it sends
    mare_err result;         // of the last wait
    bool rang;               // there is a result that nobody has looked at
};

struct mare__bell *mare__bell_new(struct mare__port *port); // NULL: not enough memory
void mare__bell_receive(struct mare__bell *bell, mare_channel *channel);
void mare__bell_send(struct mare__bell *bell, mare_channel *channel);
void mare__bell_end(struct mare__bell *bell); // may be NULL

// Puts a message into a channel, or lets it stand in line there: it is the channel's from then on.
void mare__node_deliver(mare_channel *channel, mare_message *message);

// Whether it has rung since this was asked last: then its result is to be looked at.
bool mare__bell_rang(struct mare__bell *bell);

// Whether it does not wait, and has no result that nobody has looked at: it can be started.
static inline bool mare__bell_rests(const struct mare__bell *bell)
{
    // Acquire: as in mare__bell_rang.
    return !bell || (!atomic_load_explicit(&bell->busy, memory_order_acquire) && !bell->rang);
}

// ---- Messages -----------------------------------------------------------------------------------
// How a message in a flow is meant.
enum mare__flag {
    MARE__FLAG_PLAIN,
    MARE__FLAG_BACK,  // it was asked for, and nobody wants it any more
    MARE__FLAG_CLOSE, // no message: the channel is closed
};

// A message that waits, or is on its way.
struct mare__parcel {
    struct mare__parcel *next;
    mare_message message;
    uint64_t flow; // that it came in
    uint32_t size; // there
    uint8_t flag;
    unsigned lent_count;
    struct mare__port *lent[]; // those it refers to, of the peer's: a hold each
};

void mare__parcel_free(struct mare__parcel *parcel);

// Makes a message ready to leave, which is empty then. NULL: it was dropped, for want of memory.
struct mare__parcel *mare__parcel_new(struct mare__session *session, mare_message *message,
                                      enum mare__flag flag);

// Sends a message, which is empty then; or what could not be sent at once is *waiting. MARE_OK,
// MARE_FULL: it waits; anything else: it was dropped.
mare_err mare__session_send(struct mare__session *session, uint64_t flow, mare_message *message,
                            enum mare__flag flag, struct mare__parcel **waiting);

// Sends the first of those that wait, and takes it out.
mare_err mare__session_send_again(struct mare__session *session, uint64_t flow,
                                  struct mare__parcel **waiting);

// What came as a message. MARE_BADMSG: the peer has broken a rule.
mare_err mare__session_read(struct mare__session *session, const uint8_t *bytes, size_t size,
                            mare_message *message);

// Whether a message can leave this node: see struct mare__far.
mare_err mare__node_check(const mare_message *message, uint64_t most, const char **why);

// ---- Control ------------------------------------------------------------------------------------
// What two sessions have to say to each other: an array of five, operation, two numbers and two
// strings of bytes.
enum mare__control_kind {
    MARE__CONTROL_SERVICE = 1, // a: id of the channel that is offered to the peer
    MARE__CONTROL_ATTACH,      // a: id, b: tag. Messages will be sent to it: open flow 2b
    MARE__CONTROL_WANT,        // a: id, b: tag. One more message is wanted, in flow 2b+1
    MARE__CONTROL_UNWANT,      // a: id, b: tag. One less
    MARE__CONTROL_UNWANTED,    // a: tag, b: so many will not come
    MARE__CONTROL_CLOSED,      // a: tag. Messages to it are dropped: the channel is closed
    MARE__CONTROL_RELEASE,     // a: id * 2, plus 1 for a process; b: how often it had come
    MARE__CONTROL_WATCH,       // a: id of a process
    MARE__CONTROL_ENDED,       // a: id, b: how; the reason, the result
    MARE__CONTROL_KILL,        // a: id; the reason
    MARE__CONTROL_TIE,         // a: id. It is killed when the session is lost
};

struct mare__control {
    uint64_t kind, a, b;
    struct mare__span text, body;
};

void mare__control_send(struct mare__session *session, const struct mare__control *control);
void mare__control_flush(struct mare__session *session);
void mare__control_read(struct mare__session *session, const uint8_t *bytes, size_t size);

// ---- The session --------------------------------------------------------------------------------
struct mare__order; // what the functions of session.h have left for it

struct mare__session {
    struct mare__task task;
    struct mare__link_settings settings;
    char *texts; // those of the settings
    char *peer;  // the peer's name, once it is known: set before any proxy is made
    struct mare__link *link;
    struct mare__transport *transport;
    mare_channel *events, *service; // references
    enum mare__trust trust;
    uint64_t takes, message_bytes; // bytes of a message that this node takes; that it may send
    uint32_t proxies;
    char facts[512];
    uint8_t extra[8];                 // what it says of itself beyond the link's: `takes`
    struct mare__index fars, exports; // by id * 2, plus 1 for processes
    struct mare__index tags, wanters; // fars by their tags; exports by those of the peer
    struct mare__list ports;          // all
    uint64_t last_tag;
    struct mare__parcel *controls, **controls_end; // that did not fit
    size_t controls_bytes;
    struct mare__choice choice; // what it waits for
    struct mare__case cases[MARE__WAYS];
    mare_channel *order[MARE__WAYS];
    bool dials, judging; // the program has not said yet whether it wants to talk to the peer
    uint64_t offered;    // the peer's service channel, meanwhile
    bool met;            // the peer has offered its service
    bool leaving;        // goodbye is to be said, with this code
    unsigned bye;
    bool reads_wait, writes_wait, over;
    struct mare__list lent; // see message.c: while a message is written

    mare__lock lock; // guards all below
    struct mare__list stirred;
    struct mare__order *orders, **orders_end;
    bool lost;
    struct mare__session_view view;
    uint8_t beat[MARE__SESSION_BEAT]; // for the peer
    size_t beat_size;
};

// The peer has broken a rule: the session ends.
void mare__session_blame(struct mare__session *session, const char *what);

// A message could not cross: the program is told why.
void mare__session_dropped(struct mare__session *session, const char *why);

// The others that there are: a bare word; who has come, to be judged; the end.
void mare__session_tell(struct mare__session *session, const char *word);
void mare__session_tell_hello(struct mare__session *session);
void mare__session_tell_over(struct mare__session *session, const struct mare__link_event *event);

// A letter to the events, with the session and a word; more is added before it is posted. NULL: no
// memory.
struct mare__letter *mare__session_event(struct mare__session *session, const char *word);

// The peer offers its service channel: the two have met.
void mare__session_met(struct mare__session *session, uint64_t id);

// ---- Channels and processes ---------------------------------------------------------------------
// A new reference to the proxy of an object of the peer; NULL: not enough memory.
struct mare__object *mare__far_channel(struct mare__session *session, uint64_t id);
struct mare__object *mare__far_process(struct mare__session *session, uint64_t id);

// If the object is a proxy of this session, its port.
struct mare__port *mare__far_port(const struct mare__session *session,
                                  const struct mare__object *object);
struct mare__port *mare__far_channel_port(const mare_channel *channel);
struct mare__port *mare__far_process_port(const mare_process *process);

// The id under which the peer may use an object of this node once more; 0: not enough memory.
uint64_t mare__export_channel(struct mare__session *session, mare_channel *channel);
uint64_t mare__export_process(struct mare__session *session, mare_process *process);

// A new reference to an object that the peer was given; NULL: it was not.
struct mare__object *mare__export_channel_find(struct mare__session *session, uint64_t id);
struct mare__object *mare__export_process_find(struct mare__session *session, uint64_t id);

// What came or happened in the flow of a port.
void mare__far_opened(struct mare__port *port);
void mare__far_take(struct mare__port *port, const struct mare__link_event *event);
void mare__far_unwanted(struct mare__port *port, uint64_t count);
void mare__far_closed(struct mare__port *port);
void mare__far_ended(struct mare__port *port, const struct mare__control *control);
void mare__export_opened(struct mare__port *port);
void mare__export_take(struct mare__port *port, const struct mare__link_event *event);
void mare__export_ended(struct mare__port *port, uint64_t flow);

// The peer's requests about an export.
void mare__export_attach(struct mare__session *session, uint64_t id, uint64_t tag);
void mare__export_want(struct mare__session *session, uint64_t id, uint64_t tag);
void mare__export_unwant(struct mare__session *session, uint64_t id, uint64_t tag);
void mare__export_channel_release(struct mare__session *session, uint64_t id, uint64_t count);
void mare__export_process_release(struct mare__session *session, uint64_t id, uint64_t count);
void mare__export_watch(struct mare__session *session, uint64_t id);
void mare__export_kill(struct mare__session *session, uint64_t id, struct mare__span reason);
void mare__export_tie(struct mare__session *session, uint64_t id);
