// SPDX-License-Identifier: MIT
// What the files of the link share, and nobody else includes (but for tests that break a rule):
//
//     link.c        start and end, time, what the host is told
//     link_hello.c  the handshake and the resumption
//     link_in.c     bytes into frames, frames into messages
//     link_flow.c   flows: windows, credits, queues
//     link_table.c  flows by their numbers
//     link_out.c    what goes out: the log of counted frames, and what passes before them
//     link_frame.c  writing and reading the frames themselves
//
// A message goes  send -> queue of its flow -> log -> transport;  the log keeps what was sent until
// the peer has acknowledged it, so that it can be sent again over another transport:
//
//        first (acknowledged)      cursor (sent)             next
//   ......|████████████████████████|░░░░░░░░░░░░░░░░░░░░░░░░░|  <- committed one frame at a time,
//          kept to be sent again     to be sent                   each flow in its turn
#pragma once

#include "base/list.h"
#include "mare_limits.h"
#include "wire/link.h"

// Bit 5: the frame is counted, and kept until it is acknowledged. Bit 6: a peer that does not know
// the kind skips the frame.
enum mare__link_kind {
    MARE__FRAME_HELLO = 0x01,
    MARE__FRAME_WELCOME,
    MARE__FRAME_REFUSE,
    MARE__FRAME_RESUME,
    MARE__FRAME_RESUMED,
    MARE__FRAME_ACK,
    MARE__FRAME_PING,
    MARE__FRAME_PONG,
    MARE__FRAME_QUIT,
    MARE__FRAME_DATA = 0x20, // a whole message
    MARE__FRAME_FIRST,       // the first piece of a larger one, and its size
    MARE__FRAME_REST,        // another piece
    MARE__FRAME_OPEN,
    MARE__FRAME_CREDIT,
    MARE__FRAME_CLOSE,
    MARE__FRAME_END,
    MARE__FRAME_BYE,
    MARE__FRAME_COUNTED = 0x20,
    MARE__FRAME_SKIPPED = 0x40,
    MARE__FRAME_KINDS = 0x80,
};

enum {
    MARE__LINK_PREFIX = 4,        // bytes of a frame's length
    MARE__LINK_HEAD = 32,         // the most bytes of its array around the payload
    MARE__LINK_CONTROL_HEAD = 48, // the most bytes of a counted frame without payload
    MARE__LINK_NODE = 256,        // bytes of a queued message that is small
    MARE__LINK_NODES_KEPT = 64,
    MARE__LINK_RING_LEAST = 16384,    // the least bytes of the ring, whatever the settings say
    MARE__LINK_ACK_FRAMES = 32,       // after so many frames received, acknowledge
    MARE__LINK_ACK_BYTES = 256 << 10, // or after so many bytes
    MARE__LINK_ACK_US = 25000,        // or after this time
    MARE__LINK_RETRY_US = 10000,      // when to try again, if there was no memory for a frame
    MARE__LINK_BURST = 64 << 10,      // bytes in the log that are not sent; beyond these no frame
                                      // joins
    MARE__LINK_URGENT = 96,           // bytes of uncounted frames that need no allocation
};

// ---- Flows --------------------------------------------------------------------------------------

struct mare__link_entry {
    struct mare__link_entry *next;
    uint64_t number;
};

// Flows by their numbers: a hash table with about as many buckets as flows. The multiplier is
// secret: otherwise a peer could choose numbers that all fall into one bucket.
struct mare__link_table {
    struct mare__link_entry **buckets;
    uint32_t count, bits; // 2^bits buckets; none when `buckets` is NULL
};

// A message that waits for its turn, or for the acknowledgement of its pieces.
struct mare__link_message {
    struct mare__link_message *next;
    uint64_t size, committed; // its bytes; how many of them are in the log
    uint64_t charge;          // bytes that it counts against settings->send
    uint32_t references;      // held by its flow's queue, and by each of its frames in the log
    uint32_t part_count;
    size_t allocated;
    bool dropped; // the peer closed the flow, and the host was told
    struct mare__link_part parts[];
};

// A flow in which this end sends.
struct mare__link_outflow {
    struct mare__link_entry entry;
    struct mare__list ready;   // in link->ready, while there are messages
    struct mare__list due;     // in link->due_out, while END is to be sent
    struct mare__list starved; // in link->starved, while settings->send holds a message back
    struct mare__link_window window;
    uint64_t accepted_messages, accepted_bytes;
    uint64_t consumed_messages, consumed_bytes; // as the peer has told us
    struct mare__link_message *first, *last;
    uint64_t wanted;      // bytes of the last message refused for want of credit
    uint64_t starved_for; // the charge of the last message that settings->send held back
    bool wants, once, ending;
};

// A flow in which this end receives.
struct mare__link_inflow {
    struct mare__link_entry entry;
    struct mare__list due; // in link->due_in, while one of the flags below is set
    void *context;
    struct mare__link_window window;
    uint64_t received_messages, received_bytes; // a message counts whole when it begins
    uint64_t consumed_messages, consumed_bytes;
    uint64_t reported_messages, reported_bytes; // what the sender was told
    uint8_t *block; // of a message that has begun; NULL while its bytes are dropped
    uint64_t total, have;
    bool once, closing, open_due, credit_due, close_due;
};

// ---- The log ------------------------------------------------------------------------------------

// A frame in the log: `size` bytes in the ring, then `length` bytes of a message from `offset` on.
struct mare__link_record {
    uint32_t at, size; // place in the ring: at % capacity
    uint32_t length;
    uint32_t charge; // of a message that is in the ring as a whole; else 0
    uint64_t offset;
    struct mare__link_message *message;
};

struct mare__link_log {
    uint8_t *ring;
    uint32_t capacity, tail;
    struct mare__link_record *records;
    uint32_t record_capacity;
    uint64_t first, cursor, next; // numbers of frames: acknowledged up to here; sent; committed
    uint64_t part;                // bytes sent of the frame at the cursor
    uint64_t unsent;              // bytes from the cursor on that are not sent
};

static inline struct mare__link_record *mare__link_record(const struct mare__link_log *log,
                                                          uint64_t number)
{
    return &log->records[number & (log->record_capacity - 1)];
}

// ---- Input --------------------------------------------------------------------------------------

enum mare__link_mode {
    MARE__IN_HEAD,   // before a frame, or in its first bytes
    MARE__IN_GATHER, // a small frame that came in pieces
    MARE__IN_BODY,   // in the payload of a large one
    MARE__IN_SKIP,   // in bytes that are thrown away
};

// The head of a frame with payload: DATA, FIRST, REST.
struct mare__link_data {
    unsigned kind;
    uint64_t flow, total; // total: bytes of the message
    uint32_t size;        // of the payload in this frame
};

struct mare__link_in {
    const uint8_t *at, *end; // given by the host, not read yet
    enum mare__link_mode mode;
    uint8_t head[MARE__LINK_PREFIX + MARE__LINK_HEAD];
    uint32_t head_size;
    uint8_t *gathered; // a whole small frame; kept for the event until the next call
    uint32_t gather_size, gather_have;
    bool gather_told;
    struct mare__link_data data; // of the frame whose body is being read
    struct mare__link_inflow *flow;
    uint8_t *body, *block; // where it goes; the block, while the flow does not have it yet
    uint64_t body_have;
    uint64_t skip;
    bool skip_counted;
};

// ---- The link -----------------------------------------------------------------------------------

// Events to tell before more input is read, in the order of the bits.
enum {
    MARE__NEWS_UP = 1,
    MARE__NEWS_RESUMED = 2,
    MARE__NEWS_BROKEN = 4,
    MARE__NEWS_OVER = 8,
};

struct mare__link {
    const struct mare__link_settings *settings;
    enum mare__link_phase phase;
    enum mare__link_role role;
    unsigned news;
    bool attached; // it has a transport
    size_t memory;

    uint64_t now_us;
    uint64_t born_us;
    uint64_t heard_us;     // when the last byte came
    uint64_t confirmed_us; // when the last sign came that the peer hears us
    bool suspected, suspicion_told;

    // What both ends have agreed on.
    uint64_t stamp;
    uint8_t session[MARE__LINK_SESSION];
    uint32_t attempt; // the number of the last attempt to resume
    struct mare__link_hello peer;
    uint8_t *peer_text; // the spans of `peer` point into it
    uint32_t peer_text_size;
    uint32_t version, frame;
    uint64_t features, silence_us;
    bool resume_asked; // in ASKED: the peer sent RESUME
    uint64_t resume_frames;

    // The end.
    bool leaving, bye_committed, peer_left, by_peer;
    unsigned code;
    uint8_t text_size;
    char text[MARE__LINK_TEXT_MOST];

    struct mare__link_in in;
    uint64_t frames_in, frames_acked; // counted frames received; those that we have acknowledged
    uint64_t ack_bytes, ack_due_us;   // bytes since then; when to acknowledge, 0: nothing to do
    uint64_t transport_in;            // bytes received over this transport
    uint64_t transport_heard;         // bytes of it that the peer says it has received

    struct mare__link_log log;
    uint8_t *urgent; // uncounted frames that are being sent
    uint32_t urgent_size, urgent_sent, urgent_allocated;
    uint8_t urgent_small[MARE__LINK_URGENT];
    uint64_t ping_id, ping_us; // the last ping; 0: none on this transport
    bool ping_due, ping_sampled, pong_due;
    uint64_t pong_id;
    bool starving; // no memory for a frame: try again soon

    struct mare__link_table outflows, inflows;
    struct mare__link_outflow *control_out; // flow 0
    struct mare__list ready, due_out, due_in, starved;
    uint64_t reserved;                // of settings->receive
    uint64_t held;                    // of settings->send
    uint64_t unacknowledged;          // messages
    struct mare__link_message *nodes; // small messages that are free for reuse
    uint32_t node_count;

    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    uint32_t resumptions;
};

// ---- link_frame.c -------------------------------------------------------------------------------

// Writes a frame: begin, elements, end. The buffer has room for the largest. The kind is one of the
// elements, of which there are 15 at most.
struct mare__link_writer {
    uint8_t *start, *at;
};
void mare__link_put_begin(struct mare__link_writer *writer, uint8_t *out, unsigned kind,
                          unsigned elements);
void mare__link_put_array(struct mare__link_writer *writer, unsigned elements);
void mare__link_put_number(struct mare__link_writer *writer, uint64_t number);
void mare__link_put_text(struct mare__link_writer *writer, struct mare__span text);
void mare__link_put_bytes(struct mare__link_writer *writer, const void *bytes, size_t size);
// Returns the bytes written. `payload` more bytes belong to the frame; they are somewhere else.
size_t mare__link_put_end(struct mare__link_writer *writer, uint32_t payload);

// Reads the elements of an array. Errors are noted, and told by mare__link_get_end.
struct mare__link_reader {
    const uint8_t *at, *end;
    uint32_t left; // elements
    bool bad;
};
// Reads the header of a frame's array, and the kind. False: there is none.
bool mare__link_get_begin(struct mare__link_reader *reader, const uint8_t *at, const uint8_t *end,
                          unsigned *kind);
uint64_t mare__link_get_number(struct mare__link_reader *reader);
// Text or bytes, in place: the span points into the frame.
struct mare__span mare__link_get_text(struct mare__link_reader *reader, size_t most);
struct mare__link_reader mare__link_get_array(struct mare__link_reader *reader);
void mare__link_get_array_end(struct mare__link_reader *reader, struct mare__link_reader *inner);
// Whether everything was there and well formed, up to the end of the frame.
bool mare__link_get_end(struct mare__link_reader *reader);

// ---- link.c -------------------------------------------------------------------------------------

// Memory that is counted. NULL when there is none.
void *mare__link_take(struct mare__link *link, size_t size);
void mare__link_give(struct mare__link *link, void *block, size_t size);

// The handshake is over; session and peer are known.
mare_err mare__link_begin(struct mare__link *link);

// Ends the link, once. fail: the fault was found here, and the peer is told.
void mare__link_over(struct mare__link *link, unsigned code, struct mare__span text, bool by_peer);
void mare__link_fail(struct mare__link *link, unsigned code);

// A frame about the life of the link: ACK, PING, PONG, QUIT, BYE. True: `event` is to be told.
bool mare__link_life_frame(struct mare__link *link, unsigned kind, struct mare__link_reader *reader,
                           struct mare__link_event *event);

// The peer says that it has received so many counted frames, and so many bytes of this transport or
// 0. False: it cannot have.
bool mare__link_confirm(struct mare__link *link, uint64_t frames, uint64_t bytes);

// Forgets what belonged to the transport.
void mare__link_detach(struct mare__link *link);

// ---- link_hello.c -------------------------------------------------------------------------------

// A frame before the link is up, or up again. True: `event` is to be told.
bool mare__link_greeted(struct mare__link *link, const uint8_t *at, const uint8_t *end,
                        struct mare__link_event *event);
void mare__link_say_hello(struct mare__link *link);
void mare__link_say_refuse(struct mare__link *link, unsigned code, struct mare__span text);
// There is a transport again, and the peer has received so many frames. False: that is impossible.
bool mare__link_go_on(struct mare__link *link, uint64_t frames);

// ---- link_in.c ----------------------------------------------------------------------------------

// Takes input until there is something to tell, or none is left: false.
bool mare__link_take_in(struct mare__link *link, struct mare__link_event *event);

// Bytes of the block of a message, with what the host wants before it.
static inline size_t mare__link_block_size(const struct mare__link *link, uint64_t total)
{
    return link->settings->reserve + total;
}

// The flow is about to go: what is being read for it is dropped.
void mare__link_forsake(struct mare__link *link, struct mare__link_inflow *flow);
void mare__link_in_reset(struct mare__link *link);

// ---- link_table.c -------------------------------------------------------------------------------
struct mare__link_entry *mare__link_table_find(const struct mare__link *link,
                                               const struct mare__link_table *table,
                                               uint64_t number);

// False: there is no memory.
bool mare__link_table_add(struct mare__link *link, struct mare__link_table *table,
                          struct mare__link_entry *entry);
void mare__link_table_remove(struct mare__link *link, struct mare__link_table *table,
                             struct mare__link_entry *entry);
void mare__link_table_fini(struct mare__link *link, struct mare__link_table *table);

// The most bytes that the table of so many flows takes, while it grows.
size_t mare__link_table_most(uint32_t flows);

// ---- link_flow.c --------------------------------------------------------------------------------

struct mare__link_outflow *mare__link_outflow(const struct mare__link *link, uint64_t number);
struct mare__link_inflow *mare__link_inflow(const struct mare__link *link, uint64_t number);
mare_err mare__link_open_control(struct mare__link *link);
void mare__link_flows_fini(struct mare__link *link);

size_t mare__link_flows_most(const struct mare__link_settings *settings);

// What the peer says about flows: OPEN, CREDIT, CLOSE, END. True: `event` is to be told.
bool mare__link_flow_frame(struct mare__link *link, unsigned kind, struct mare__link_reader *reader,
                           struct mare__link_event *event);

// Removes a flow that has ended by itself, or by END.
void mare__link_inflow_remove(struct mare__link *link, struct mare__link_inflow *flow);
void mare__link_outflow_remove(struct mare__link *link, struct mare__link_outflow *flow);

// Gives back a reference to a message; the last one releases it.
void mare__link_message_unref(struct mare__link *link, struct mare__link_message *message);
// These bytes do not count against settings->send any more.
void mare__link_discharge(struct mare__link *link, uint64_t charge);
// Whether a flow that settings->send held back has room now. Tells it once.
bool mare__link_fed(struct mare__link *link, struct mare__link_event *event);

// ---- link_out.c ---------------------------------------------------------------------------------

// The peer has received the frames up to this number. False: that is impossible.
bool mare__link_acknowledged(struct mare__link *link, uint64_t frames);
// Everything that was not acknowledged will be sent again.
void mare__link_rewind(struct mare__link *link);
void mare__link_log_fini(struct mare__link *link);
// Adds a frame that is not counted. False: no memory.
bool mare__link_urge(struct mare__link *link, const uint8_t *frame, size_t size);
void mare__link_say_ack(struct mare__link *link);
void mare__link_urgent_fini(struct mare__link *link);
// Gives back memory that an idle link does not need.
void mare__link_trim(struct mare__link *link);
// The most memory that the code of this file uses.
size_t mare__link_log_most(const struct mare__link_settings *settings);
