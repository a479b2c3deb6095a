// SPDX-License-Identifier: MIT
// What the files of this folder share.
//
//       proxy side                                            home
//     program --send--> [face] -pump-> far  == flow 2t ==>  export -> [the channel itself]
//     program <-receive- [in]  <------ far <== flow 2t+1 == export <-
//
// A far and an export are ports of the session. Only the session's task touches what is in them.
// Other threads stir a port (mare__port_stir), and the session serves it in its next run. A port
// waits for a channel by bells: tasks that wait like any other, and stir the port when the wait is
// over.
//
// t is the tag of a far: a number that its session has not used before.
#pragma once

#include "base/index.h"
#include "node/session.h"

enum {
    MARE__NODE_MESSAGES = 64,        // the most that may be under way to a channel
    MARE__NODE_MESSAGE = 4 << 20,    // the most bytes in one, unless options say otherwise
    MARE__NODE_FACE = 64,            // messages that wait on this side; fewer if together
    MARE__NODE_FACE_BYTES = 1 << 20, // they have more bytes than this, but at least one
    MARE__NODE_PROXIES = 1 << 16,    // the most objects of the peer at the same time
    // Objects of ours that the peer may refer to. A peer has at most MARE__NODE_PROXIES of them, or
    // it ends the link. The other half is for references and releases that are on their way.
    MARE__NODE_EXPORTS = 2 * MARE__NODE_PROXIES,
    MARE__NODE_INLETS = 16,         // proxies that the peer may have of one channel, in turn
    MARE__NODE_CONTROLS = 16 << 20, // the most bytes of control that may wait for the peer
    MARE__NODE_RESULT = 1 << 18,    // the most bytes of what a process returns
    MARE__NODE_READS = 16,          // reads from the transport before others have their turn
    MARE__NODE_INTRODUCED = 32,     // claimable references to other nodes' objects in a message
    MARE__NODE_CLAIMS = 256,        // introductions and claims that the program may have in hand
    MARE__NODE_SECRET = 16,         // bytes of the secret that proves the right to claim
    MARE__NODE_BEYOND = 4096, // bytes read beyond a large message's piece: the head of the next
};

// Features of the host, told in the handshake.
#define MARE__NODE_INTRODUCES (UINT64_C(1) << 32) // it understands introductions
#define MARE__NODE_TRACES (UINT64_C(1) << 33)     // it understands event numbers before messages
#define MARE__NODE_FEATURES (MARE__NODE_INTRODUCES | MARE__NODE_TRACES)
#define MARE__NODE_LINGER UINT64_C(10000000000)  // nanoseconds for the program to claim
#define MARE__NODE_FAREWELL UINT64_C(5000000000) // nanoseconds for the peer to hear why

// ---- Ports --------------------------------------------------------------------------------------
struct mare__port;
struct mare__port_ops {
    void (*serve)(struct mare__port *port);   // the port was stirred
    void (*lost)(struct mare__port *port);    // the session is over
    void (*destroy)(struct mare__port *port); // nobody holds the port any more
    bool (*is_busy)(struct mare__port *port); // something waits to be sent; NULL: never
};

struct mare__port {
    const struct mare__port_ops *ops;
    atomic_uint holds;
    struct mare__session *session; // a hold
    uint64_t id;                   // of the object, at its home
    struct mare__index_entry by_id, by_tag;
    bool has_id, has_tag; // it is in the session's index of ids; of tags
    unsigned lent;        // parcels on their way that refer to its object
    struct mare__list in_all;
    struct mare__list stirred; // guarded by the session's lock
    bool is_stirred;
};

void mare__port_init(struct mare__port *port, const struct mare__port_ops *ops,
                     struct mare__session *session, uint64_t id);
static inline void mare__port_hold(struct mare__port *port)
{
    atomic_fetch_add_explicit(&port->holds, 1, memory_order_relaxed); // relaxed, as in mare__ref
}
void mare__port_unhold(struct mare__port *port);

// Any thread. Makes the session's task serve the port soon. False: the session is over.
bool mare__port_stir(struct mare__port *port);

// Takes the port out of its session, which gives its hold back.
void mare__port_leave(struct mare__port *port);

// Takes a reference to a proxy, for a caller that has none. False: nobody refers to it any more.
bool mare__port_revive(struct mare__object *object);

// ---- Bells --------------------------------------------------------------------------------------
struct mare__bell {
    struct mare__task task;
    struct mare__port *port; // a hold
    atomic_bool busy;        // it waits, or is about to stir: what follows is its own
    mare_message message;    // what was received, or is to be sent
    mare_channel *from;      // what it receives from; the port keeps it. NULL: it sends
    mare_err result;         // how the last wait ended
    bool rang;               // there is a result that nobody has read
};

struct mare__bell *mare__bell_new(struct mare__port *port); // NULL: not enough memory
void mare__bell_receive(struct mare__bell *bell, mare_channel *channel);
void mare__bell_send(struct mare__bell *bell, mare_channel *channel);
void mare__bell_end(struct mare__bell *bell); // may be NULL

// Puts a message into a channel, or into its line of senders. The channel owns it from then on.
void mare__node_deliver(mare_channel *channel, mare_message *message);

// Whether a wait has ended since the last call of this: then the caller reads its result.
bool mare__bell_rang(struct mare__bell *bell);

// Whether it can be started: it does not wait, and its last result was read.
static inline bool mare__bell_rests(const struct mare__bell *bell)
{
    // Acquire: as in mare__bell_rang.
    return !bell || (!atomic_load_explicit(&bell->busy, memory_order_acquire) && !bell->rang);
}

// ---- Messages -----------------------------------------------------------------------------------
// How a message in a flow is meant.
enum mare__flag {
    MARE__FLAG_PLAIN,
    MARE__FLAG_BACK,  // the peer asked for it, and does not want it any more
    MARE__FLAG_CLOSE, // no message: the channel is closed
    MARE__FLAG_KIND = 3,
    MARE__FLAG_INTRODUCED = 4, // with this bit, introductions come first: see introduce.c
    MARE__FLAG_TRACED = 8,     // with this, before them, the event's number
};

enum { MARE__TRACED_SIZE = 8 }; // bytes of that number; 40 of its bits are used

// A message that waits, or is on its way.
struct mare__parcel {
    struct mare__parcel *next;
    mare_message message;
    uint64_t flow; // the flow that it came in
    uint32_t size; // its size in that flow
    uint8_t flag;
    uint8_t *head; // what is sent before the message: introductions; or NULL
    uint32_t head_size;
    struct mare__list claims; // a message that came is not passed on before these are answered
    unsigned lent_count;
    struct mare__port *lent[]; // ports of the peer's objects in it: a hold on each
};

void mare__parcel_free(struct mare__parcel *parcel);

// Makes a message ready to leave; `message` is empty then. NULL: no memory, and it was dropped.
struct mare__parcel *mare__parcel_new(struct mare__session *session, mare_message *message,
                                      enum mare__flag flag);

// Sends a message; `message` is empty then. What cannot be sent at once becomes *waiting. MARE_OK:
// it was sent; MARE_FULL: it waits; anything else: it was dropped.
mare_err mare__session_send(struct mare__session *session, uint64_t flow, mare_message *message,
                            enum mare__flag flag, struct mare__parcel **waiting);

// The number of the event that sent a message, if the peer wants such numbers; or 0.
uint64_t mare__session_number(const struct mare__session *session, const mare_message *message);

// Sends the first parcel that waits, and takes it out.
mare_err mare__session_send_again(struct mare__session *session, uint64_t flow,
                                  struct mare__parcel **waiting);

// The message that came for a port. With the first, the flow is the event's, and the parcel takes
// over the event's block if it can use it. NULL: the peer has broken a rule, and was blamed.
struct mare__parcel *mare__parcel_read(struct mare__port *port, unsigned flag, const uint8_t *bytes,
                                       size_t size);
struct mare__parcel *mare__parcel_take(struct mare__port *port, struct mare__link_event *event);

// Whether a message can leave this node: see struct mare__far.
mare_err mare__node_check(const mare_message *message, uint64_t most, const char **why);

// ---- Introductions ------------------------------------------------------------------------------
// The references in a message that belong to a third node, while it is written.
struct mare__introductions {
    unsigned count;
    struct mare__introduction {
        struct mare__object *object; // a reference
        struct mare__session *home;  // the session it belongs to
        uint64_t key;                // as in the index of exports
    } list[MARE__NODE_INTRODUCED];
};

// Notes a reference in the list, if the peer can claim the object at its home.
void mare__introductions_note(struct mare__introductions *list, struct mare__session *session,
                              struct mare__object *object, uint64_t id);

// Puts the introductions before a message, unless it is NULL, and has the program tell the homes.
void mare__introductions_give(struct mare__introductions *list, struct mare__session *session,
                              struct mare__parcel *parcel);

// Reads the introductions before a message that came for a port. Returns where the message begins,
// or NULL.
const uint8_t *mare__introductions_read(struct mare__port *port, struct mare__parcel *parcel,
                                        const uint8_t *at, const uint8_t *end);

// Has the program claim what was introduced, once the whole message is here.
void mare__claims_make(struct mare__port *port, struct mare__parcel *parcel);
void mare__claims_drop(struct mare__parcel *parcel);

// The program's answer to a claim: the object, or NULL. If it is the parcel's turn, the port is
// served.
void mare__claim_answered(struct mare__session *session, uint64_t number,
                          struct mare__object *object);

// The session is lost, and these parcels still wait for answers to claims: they are put into the
// channel later, in order. Takes the parcels.
void mare__stranded_add(struct mare__session *session, mare_channel *channel,
                        struct mare__parcel *first);
void mare__stranded_deliver(struct mare__session *session, bool all);

// ---- Control ------------------------------------------------------------------------------------
// What two sessions have to say to each other: an array of five, operation, two numbers and two
// strings of bytes.
enum mare__control_kind {
    MARE__CONTROL_SERVICE = 1, // a: id of the channel that is offered to the peer
    MARE__CONTROL_ATTACH,      // a: id, b: tag. Open flow 2b: messages will come
    MARE__CONTROL_WANT,        // a: id, b: tag. Send one message more in flow 2b+1
    MARE__CONTROL_UNWANT,      // a: id, b: tag. Send one less
    MARE__CONTROL_UNWANTED,    // a: tag, b: how many of the requested will not come
    MARE__CONTROL_CLOSED,      // a: tag. The channel is closed, and drops messages
    MARE__CONTROL_RELEASE,     // a: id * 2, plus 1 for a process; b: references released
    MARE__CONTROL_WATCH,       // a: id of a process. Tell how it ends
    MARE__CONTROL_ENDED,       // a: id, b: how, plus MARE__ENDED_INTRODUCED; reason, result
    MARE__CONTROL_KILL,        // a: id; the reason
    MARE__CONTROL_TIE,         // a: id. Kill it when the session is lost
    MARE__CONTROL_UNTIE,       // a: id. Do not
};

// The result of a process begins with introductions, or with the number of its end, as a message
// with MARE__FLAG_INTRODUCED or MARE__FLAG_TRACED.
enum { MARE__ENDED_INTRODUCED = 1 << 16, MARE__ENDED_TRACED = 1 << 17 };

struct mare__control {
    uint64_t kind, a, b;
    struct mare__span text, body;
};

void mare__control_send(struct mare__session *session, const struct mare__control *control);
void mare__control_flush(struct mare__session *session);
void mare__control_read(struct mare__session *session, const uint8_t *bytes, size_t size);

// Reads the next number, or bytes, of an order from the peer. False: something else is there.
bool mare__control_number(const uint8_t **at, const uint8_t *end, uint64_t *number);
bool mare__control_bytes(const uint8_t **at, const uint8_t *end, struct mare__span *bytes);

// ---- The session --------------------------------------------------------------------------------
struct mare__order; // what the functions of session.h ask of the session's task

struct mare__session {
    struct mare__task task;
    struct mare__link_settings settings;
    char *texts; // those of the settings
    // The peer's name, its address and incarnation, and whether both ends understand introductions
    // and traces. Set once the peer is known, before any proxy is made; constant after that.
    char *peer;
    char address[MARE__LINK_TEXT_MOST + 1]; // or ""
    uint64_t incarnation;
    bool introduces, traces;
    struct mare__link *link;
    struct mare__transport *transport;
    const struct mare__tls_error *refusal; // TLS has failed for this reason; of the transport
    mare_channel *events, *service;        // references
    enum mare__trust trust;
    uint64_t takes, message_bytes; // the largest message that this node takes; that it may send
    uint32_t proxies, exported;    // proxies here of the peer's objects; exports of ours to it
    char facts[512];
    uint8_t extra[8];                 // `takes`, for the peer: the link's handshake lacks it
    struct mare__index fars, exports; // by id * 2, plus 1 for processes
    struct mare__index tags, wanters; // fars by their tags; exports by the peer's tags
    struct mare__list ports;          // all of them
    uint64_t last_tag, last_claim;
    struct mare__list claims; // those that the program has not answered
    unsigned claim_count;
    atomic_uint introducing;    // introductions that the program has not passed on yet
    struct mare__list stranded; // messages that wait for claims after the end,
    uint64_t until;             // and until when
    struct mare__parcel *controls, **controls_end; // orders that found no room in the link
    size_t controls_bytes;
    struct mare__choice choice; // what the task waits for
    struct mare__case cases[MARE__WAYS];
    mare_channel *order[MARE__WAYS];
    bool dials, judging; // the program has not said yet whether to talk to the peer
    uint64_t offered;    // the peer's service channel, until the program has said so
    bool met;            // the peer has offered its service channel
    bool leaving;        // send all that waits, and fetch nothing more
    bool drained;        // the program was told that nothing waits
    bool parting;        // then say goodbye, with this code
    unsigned bye;
    bool reads_wait, writes_wait, over;
    bool moved; // a write may have read from the transport, so try to read
    // After the end, see farewell.c: what the link still had to say, and by when; whether it was
    // said, and whether the peer was read to its end; whether the transport is open for that.
    uint8_t *words;
    size_t words_size, words_sent;
    uint64_t farewell;
    bool said, heard, parts;
    struct mare__list lent; // used while a message is written: see message.c

    mare__lock lock; // guards all that follows
    struct mare__list stirred;
    struct mare__order *orders, **orders_end;
    bool lost, lingers; // the session is over; but answers to claims are still taken
    struct mare__session_view view;
    uint8_t beat[MARE__SESSION_BEAT]; // what goes to the peer in heartbeats
    size_t beat_size;
};

// The peer has broken a rule: the session ends.
void mare__session_blame(struct mare__session *session, const char *what);

// A message could not cross: tells the program why.
void mare__session_dropped(struct mare__session *session, const char *why);

// The other events: a bare word; the peer that came, for the program to judge; the end.
void mare__session_tell(struct mare__session *session, const char *word);
void mare__session_tell_hello(struct mare__session *session);
void mare__session_tell_over(struct mare__session *session, const struct mare__link_event *event);

// A letter to the channel of events, with the session and a word. The caller adds the rest, and
// posts it. NULL: no memory.
struct mare__letter *mare__session_event(struct mare__session *session, const char *word);

// The link is over and about to be destroyed: keeps what it still has to say, or closes the
// transport. The second goes on with that, and returns whether it is still under way. `end`: there
// is no time.
void mare__farewell_begin(struct mare__session *session);
bool mare__farewell_goes_on(struct mare__session *session, bool end);

// The peer offers its service channel: both programs have agreed.
void mare__session_met(struct mare__session *session, uint64_t id);

// ---- Channels and processes ---------------------------------------------------------------------
// A new reference to the proxy of an object of the peer; NULL: not enough memory.
struct mare__object *mare__far_channel(struct mare__session *session, uint64_t id);
struct mare__object *mare__far_process(struct mare__session *session, uint64_t id);

// The port of an object that is a proxy of this session; or NULL.
struct mare__port *mare__far_port(const struct mare__session *session,
                                  const struct mare__object *object);
struct mare__port *mare__far_channel_port(const mare_channel *channel);
struct mare__port *mare__far_process_port(const mare_process *process);

// The object that the program has of a proxy.
struct mare__object *mare__far_channel_face(struct mare__port *port);
struct mare__object *mare__far_process_face(struct mare__port *port);

// Counts one more reference to an object of this node, and returns the id that the peer uses for
// it. 0: no memory, or the peer never releases any, and was blamed.
uint64_t mare__export_channel(struct mare__session *session, mare_channel *channel);
uint64_t mare__export_process(struct mare__session *session, mare_process *process);

// Whether the peer may refer to one more object. If not, it was blamed.
bool mare__export_room(struct mare__session *session);

// A new reference to an object that the peer was given. NULL: it was not given it.
struct mare__object *mare__export_channel_find(struct mare__session *session, uint64_t id);
struct mare__object *mare__export_process_find(struct mare__session *session, uint64_t id);

// Events of the link in the flow of a port.
void mare__far_opened(struct mare__port *port);
void mare__far_take(struct mare__port *port, struct mare__link_event *event);
void mare__far_unwanted(struct mare__port *port, uint64_t count);
void mare__far_closed(struct mare__port *port);
void mare__far_ended(struct mare__port *port, const struct mare__control *control);
void mare__export_opened(struct mare__port *port);
void mare__export_take(struct mare__port *port, struct mare__link_event *event);
void mare__export_ended(struct mare__port *port, uint64_t flow);

// Orders of the peer about an export.
void mare__export_attach(struct mare__session *session, uint64_t id, uint64_t tag);
void mare__export_want(struct mare__session *session, uint64_t id, uint64_t tag);
void mare__export_unwant(struct mare__session *session, uint64_t id, uint64_t tag);
void mare__export_channel_release(struct mare__session *session, uint64_t id, uint64_t count);
void mare__export_process_release(struct mare__session *session, uint64_t id, uint64_t count);
void mare__export_watch(struct mare__session *session, uint64_t id);
void mare__export_kill(struct mare__session *session, uint64_t id, struct mare__span reason);
void mare__export_tie(struct mare__session *session, uint64_t id, bool tied);
