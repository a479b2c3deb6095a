// SPDX-License-Identifier: MIT
// What goes out. There are two kinds of frames:
//
// - *Urgent* ones are not counted: handshake, acknowledgements, heartbeats, QUIT. They are written
//   when they are due, pass before everything else, and are forgotten with their transport.
// - *Counted* ones go through the log, where they stay until the peer has acknowledged them. They
//   join it only when there is nothing much left to send, one at a time: first what flows have to
//   tell (OPEN, CREDIT, CLOSE, END), then messages of flow 0, then a frame of each flow that has
//   messages, in turn. So a small message waits for one frame of each other flow, not for the large
//   messages that these are the pieces of.
//
// A small frame lies in the ring whole, next to its neighbours, and many of them make one piece of
// output. For a larger one only the head lies there; its payload stays where the host has it. The
// ring grows by doubling up to a bound; then frames wait for an acknowledgement.
#include "base/alloc.h"
#include "wire/link_inner.h"
#include "wire/pack.h"

// ---- The log ------------------------------------------------------------------------------------

static bool log_grow_records(struct mare__link *link)
{
    struct mare__link_log *log = &link->log, old = *log;
    uint32_t capacity = old.record_capacity ? 2 * old.record_capacity : 16;
    log->records = mare__link_take(link, capacity * sizeof *log->records);
    if (!log->records) {
        log->records = old.records;
        return false;
    }
    log->record_capacity = capacity;
    for (uint64_t n = log->first; n < log->next; n++)
        *mare__link_record(log, n) = *mare__link_record(&old, n);
    mare__link_give(link, old.records, old.record_capacity * sizeof *old.records);
    return true;
}

// A link that may hold little to send gets a small ring.
static uint32_t ring_most(const struct mare__link_settings *settings)
{
    uint32_t most = MARE__LINK_RING_MOST;
    while (most > MARE__LINK_RING_LEAST && most > settings->send)
        most /= 2;
    return most;
}

// Moves what is in the ring into a larger one, with room for `size` more.
static bool log_grow_ring(struct mare__link *link, uint32_t size)
{
    struct mare__link_log *log = &link->log;
    uint32_t live = size, capacity = log->capacity ? 2 * log->capacity : MARE__LINK_RING_FIRST;
    for (uint64_t n = log->first; n < log->next; n++)
        live += mare__link_record(log, n)->size;
    while (capacity < live)
        capacity *= 2;
    bool allowed = capacity <= ring_most(link->settings);
    uint8_t *ring = allowed ? mare__link_take(link, capacity) : NULL;
    if (!ring) {
        link->starving |= allowed;
        return false;
    }
    uint32_t tail = 0;
    for (uint64_t n = log->first; n < log->next; n++) {
        struct mare__link_record *record = mare__link_record(log, n);
        memcpy(ring + tail, log->ring + (record->at & (log->capacity - 1)), record->size);
        record->at = tail;
        tail += record->size;
    }
    mare__link_give(link, log->ring, log->capacity);
    log->ring = ring;
    log->capacity = capacity;
    log->tail = tail;
    return true;
}

// Room for a frame with up to `size` bytes in the ring. NULL: there is none now.
static uint8_t *log_reserve(struct mare__link *link, uint32_t size)
{
    struct mare__link_log *log = &link->log;
    uint64_t used = log->next - log->first;
    if (used >= link->settings->unacknowledged)
        return NULL;
    if (used == log->record_capacity && !log_grow_records(link)) {
        link->starving = true;
        return NULL;
    }
    if (used == 0)
        log->tail = 0;
    uint32_t head = used ? mare__link_record(log, log->first)->at : log->tail;
    uint32_t at = log->tail & (log->capacity - 1);
    uint32_t pad = at + size > log->capacity ? log->capacity - at : 0; // a frame must not wrap
                                                                       // around
    if (log->capacity < size || log->tail + pad + size - head > log->capacity) {
        if (!log_grow_ring(link, size))
            return NULL;
        pad = 0;
    }
    log->tail += pad;
    return log->ring + (log->tail & (log->capacity - 1));
}

// Makes the frame that was written at log_reserve's place the next of the log.
static struct mare__link_record *log_commit(struct mare__link *link, size_t size, uint32_t length)
{
    struct mare__link_log *log = &link->log;
    struct mare__link_record *record = mare__link_record(log, log->next++);
    *record = (struct mare__link_record){
        .at = log->tail, .size = (uint32_t)size, .length = length, .message = NULL};
    log->tail += (uint32_t)size;
    log->unsent += size + length;
    return record;
}

bool mare__link_acknowledged(struct mare__link *link, uint64_t frames)
{
    struct mare__link_log *log = &link->log;
    if (frames < log->first || frames > log->cursor)
        return false;
    for (; log->first < frames; log->first++) {
        struct mare__link_record *record = mare__link_record(log, log->first);
        if (record->message) {
            mare__link_message_unref(link, record->message);
        } else if (record->charge) {
            mare__link_discharge(link, record->charge);
            link->unacknowledged--;
        }
    }
    return true;
}

void mare__link_rewind(struct mare__link *link)
{
    struct mare__link_log *log = &link->log;
    log->cursor = log->first;
    log->part = log->unsent = 0;
    for (uint64_t n = log->first; n < log->next; n++) {
        struct mare__link_record *record = mare__link_record(log, n);
        log->unsent += record->size + (uint64_t)record->length;
    }
}

void mare__link_trim(struct mare__link *link)
{
    struct mare__link_log *log = &link->log;
    if (log->first != log->next)
        return;
    mare__link_give(link, log->ring, log->capacity);
    mare__link_give(link, log->records, log->record_capacity * sizeof *log->records);
    log->ring = NULL;
    log->records = NULL;
    log->capacity = log->record_capacity = 0;
    while (link->nodes) {
        struct mare__link_message *node = link->nodes;
        link->nodes = node->next;
        mare__link_give(link, node, node->allocated);
    }
    link->node_count = 0;
}

void mare__link_log_fini(struct mare__link *link)
{
    struct mare__link_log *log = &link->log;
    log->cursor = log->next;
    mare__link_acknowledged(link, log->next);
    mare__link_trim(link);
}

size_t mare__link_log_most(const struct mare__link_settings *settings)
{
    size_t records = 16;
    while (records < settings->unacknowledged)
        records *= 2;
    // Half as much again, because both exist twice while they grow.
    return (records * sizeof(struct mare__link_record) + ring_most(settings)) / 2 * 3 +
           (size_t)MARE__LINK_NODES_KEPT * MARE__LINK_NODE;
}

// ---- Frames that join the log -------------------------------------------------------------------

static bool commit_numbers(struct mare__link *link, unsigned kind, const uint64_t *numbers,
                           unsigned count)
{
    struct mare__link_writer writer;
    uint8_t *out = log_reserve(link, MARE__LINK_CONTROL_HEAD);
    if (!out)
        return false;
    mare__link_put_begin(&writer, out, kind, count + 1);
    for (unsigned i = 0; i < count; i++)
        mare__link_put_number(&writer, numbers[i]);
    log_commit(link, mare__link_put_end(&writer, 0), 0);
    return true;
}

// Commits one frame of what a receiving flow has to tell.
static bool commit_inflow(struct mare__link *link, struct mare__link_inflow *flow)
{
    const struct mare__link_window *window = &flow->window;
    uint64_t open[] = {flow->entry.number, window->messages, window->bytes, flow->once};
    uint64_t credit[] = {flow->entry.number, flow->consumed_messages, flow->consumed_bytes};
    if (flow->open_due) {
        if (!commit_numbers(link, MARE__FRAME_OPEN, open, 4))
            return false;
        flow->open_due = false;
    } else if (flow->credit_due) {
        if (!commit_numbers(link, MARE__FRAME_CREDIT, credit, 3))
            return false;
        flow->credit_due = false;
        flow->reported_messages = flow->consumed_messages;
        flow->reported_bytes = flow->consumed_bytes;
    } else if (flow->close_due) {
        if (!commit_numbers(link, MARE__FRAME_CLOSE, &flow->entry.number, 1))
            return false;
        flow->close_due = false;
    }
    if (!flow->open_due && !flow->credit_due && !flow->close_due)
        mare__list_remove(&flow->due);
    return true;
}

static bool commit_end(struct mare__link *link, struct mare__link_outflow *flow)
{
    if (!commit_numbers(link, MARE__FRAME_END, &flow->entry.number, 1))
        return false;
    mare__link_outflow_remove(link, flow);
    return true;
}

static void copy_parts(uint8_t *out, const struct mare__link_message *message)
{
    for (uint32_t i = 0; i < message->part_count; i++) {
        if (message->parts[i].size)
            memcpy(out, message->parts[i].bytes, message->parts[i].size);
        out += message->parts[i].size;
    }
}

// The first message of a flow is in the log as a whole: takes it out of the queue.
static void leave_queue(struct mare__link *link, struct mare__link_outflow *flow)
{
    struct mare__link_message *message = flow->first;
    flow->first = message->next;
    if (!flow->first)
        mare__list_remove(&flow->ready);
    mare__link_message_unref(link, message);
    if (flow->first)
        return;
    if (flow->once && flow->accepted_messages == flow->window.messages)
        mare__link_outflow_remove(link, flow);
    else if (flow->ending)
        mare__list_append(&link->due_out, &flow->due);
}

// Puts a small message into the ring as a frame, and releases its blocks.
static bool commit_small(struct mare__link *link, struct mare__link_outflow *flow)
{
    struct mare__link_message *message = flow->first;
    struct mare__link_writer writer;
    uint32_t size = (uint32_t)message->size;
    uint8_t *out = log_reserve(link, MARE__LINK_PREFIX + MARE__LINK_HEAD + size);
    if (!out)
        return false;
    mare__link_put_begin(&writer, out, MARE__FRAME_DATA, 3);
    mare__link_put_number(&writer, flow->entry.number);
    writer.at += mare__pack_binary_header(writer.at, size);
    copy_parts(writer.at, message);
    writer.at += size;
    log_commit(link, mare__link_put_end(&writer, 0), 0)->charge = (uint32_t)message->charge;
    message->charge = 0; // it counts for the frame now
    leave_queue(link, flow);
    return true;
}

// One frame of a larger message: its head, and a reference to the rest.
static bool commit_piece(struct mare__link *link, struct mare__link_outflow *flow)
{
    struct mare__link_message *message = flow->first;
    struct mare__link_writer writer;
    uint64_t left = message->size - message->committed;
    uint32_t length = left < link->frame ? (uint32_t)left : link->frame;
    uint8_t *out = log_reserve(link, MARE__LINK_PREFIX + MARE__LINK_HEAD);
    if (!out)
        return false;
    bool first = message->committed == 0, whole = message->size <= link->frame;
    unsigned kind = whole ? MARE__FRAME_DATA : first ? MARE__FRAME_FIRST : MARE__FRAME_REST;
    mare__link_put_begin(&writer, out, kind, kind == MARE__FRAME_FIRST ? 4 : 3);
    mare__link_put_number(&writer, flow->entry.number);
    if (kind == MARE__FRAME_FIRST)
        mare__link_put_number(&writer, message->size);
    writer.at += mare__pack_binary_header(writer.at, length);
    struct mare__link_record *record =
        log_commit(link, mare__link_put_end(&writer, length), length);
    record->message = message;
    record->offset = message->committed;
    message->references++;
    message->committed += length;
    if (message->committed == message->size)
        leave_queue(link, flow);
    return true;
}

static bool commit_message(struct mare__link *link, struct mare__link_outflow *flow)
{
    return flow->first->size <= MARE__LINK_SMALL && flow->first->size <= link->frame
               ? commit_small(link, flow)
               : commit_piece(link, flow);
}

static bool commit_bye(struct mare__link *link)
{
    struct mare__link_writer writer;
    uint8_t *out = log_reserve(link, MARE__LINK_CONTROL_HEAD + MARE__LINK_TEXT_MOST);
    if (!out)
        return false;
    mare__link_put_begin(&writer, out, MARE__FRAME_BYE, 3);
    mare__link_put_number(&writer, link->code);
    mare__link_put_text(&writer, (struct mare__span){link->text, link->text_size});
    log_commit(link, mare__link_put_end(&writer, 0), 0);
    link->bye_committed = true;
    return true;
}

// The next frame joins the log. False: there is none, or it must wait.
static bool commit_next(struct mare__link *link)
{
    struct mare__list *entry;
    if (link->bye_committed)
        return false;
    if ((entry = mare__list_first(&link->due_in)))
        return commit_inflow(link, MARE__ENTRY(entry, struct mare__link_inflow, due));
    if ((entry = mare__list_first(&link->due_out)))
        return commit_end(link, MARE__ENTRY(entry, struct mare__link_outflow, due));
    if (link->control_out->first)
        return commit_message(link, link->control_out);
    if ((entry = mare__list_first(&link->ready))) {
        struct mare__link_outflow *flow = MARE__ENTRY(entry, struct mare__link_outflow, ready);
        bool more = flow->first->next || flow->first->size - flow->first->committed > link->frame;
        if (!commit_message(link, flow))
            return false;
        if (more) { // else commit_piece has taken it off the list, and it may be gone
            mare__list_remove(entry);
            mare__list_append(&link->ready, entry);
        }
        return true;
    }
    return link->leaving && commit_bye(link);
}

// ---- Frames that are not counted ----------------------------------------------------------------

void mare__link_urgent_fini(struct mare__link *link)
{
    mare__link_give(link, link->urgent, link->urgent_allocated);
    link->urgent = NULL;
    link->urgent_size = link->urgent_sent = link->urgent_allocated = 0;
}

static const uint8_t *urgent_bytes(const struct mare__link *link)
{
    return (link->urgent ? link->urgent : link->urgent_small) + link->urgent_sent;
}

bool mare__link_urge(struct mare__link *link, const uint8_t *frame, size_t size)
{
    uint32_t left = link->urgent_size - link->urgent_sent;
    if (left == 0 && size <= sizeof link->urgent_small) {
        mare__link_urgent_fini(link);
        memcpy(link->urgent_small, frame, size);
        link->urgent_size = (uint32_t)size;
        return true;
    }
    uint8_t *grown = mare__link_take(link, left + size);
    if (!grown)
        return false;
    memcpy(grown, urgent_bytes(link), left);
    memcpy(grown + left, frame, size);
    mare__link_urgent_fini(link);
    link->urgent = grown;
    link->urgent_size = link->urgent_allocated = left + (uint32_t)size;
    return true;
}

static size_t write_beat(struct mare__link *link, uint8_t *out, unsigned kind, uint64_t id)
{
    const struct mare__link_settings *settings = link->settings;
    uint8_t payload[MARE__LINK_BEAT_MOST];
    size_t size = settings->beat ? settings->beat(settings->context, link, payload) : 0;
    struct mare__link_writer writer;
    mare__link_put_begin(&writer, out, kind, 5);
    mare__link_put_number(&writer, id);
    mare__link_put_number(&writer, link->frames_in);
    mare__link_put_number(&writer, link->transport_in);
    mare__link_put_bytes(&writer, payload, size);
    return mare__link_put_end(&writer, 0);
}

static void note_acked(struct mare__link *link)
{
    link->frames_acked = link->frames_in;
    link->ack_bytes = 0;
    link->ack_due_us = UINT64_MAX;
}

static size_t write_ack(const struct mare__link *link, uint8_t *out)
{
    struct mare__link_writer writer;
    mare__link_put_begin(&writer, out, MARE__FRAME_ACK, 2);
    mare__link_put_number(&writer, link->frames_in);
    return mare__link_put_end(&writer, 0);
}

void mare__link_say_ack(struct mare__link *link)
{
    uint8_t frame[MARE__LINK_CONTROL_HEAD];
    if (mare__link_urge(link, frame, write_ack(link, frame)))
        note_acked(link);
}

// Writes what is due, once all that was written before is on its way. A heartbeat acknowledges,
// too.
static void write_due(struct mare__link *link)
{
    uint8_t frames[2 * (MARE__LINK_BEAT_MOST + 2 * MARE__LINK_CONTROL_HEAD)];
    size_t size = 0;
    bool acks = link->now_us >= link->ack_due_us;
    if (link->urgent_sent < link->urgent_size || (!acks && !link->ping_due && !link->pong_due))
        return;
    if (link->pong_due)
        size += write_beat(link, frames, MARE__FRAME_PONG, link->pong_id);
    if (link->ping_due)
        size += write_beat(link, frames + size, MARE__FRAME_PING, link->ping_id + 1);
    if (size == 0)
        size = write_ack(link, frames);
    if (!mare__link_urge(link, frames, size)) {
        link->starving = true;
        return;
    }
    if (link->ping_due) {
        link->ping_id++;
        link->ping_us = link->now_us;
        link->ping_sampled = false;
    }
    link->ping_due = link->pong_due = false;
    note_acked(link);
}

// ---- Output -------------------------------------------------------------------------------------

// A list of pieces that is being filled.
struct offer {
    struct iovec *pieces;
    int count, room;
};

static bool offer_bytes(struct offer *offer, const uint8_t *bytes, size_t size)
{
    struct iovec *last = offer->count ? &offer->pieces[offer->count - 1] : NULL;
    if (size == 0)
        return true;
    if (last && (uint8_t *)last->iov_base + last->iov_len == bytes) {
        last->iov_len += size;
        return true;
    }
    if (offer->count == offer->room)
        return false;
    offer->pieces[offer->count++] = (struct iovec){(void *)bytes, size};
    return true;
}

// The bytes of a message from `offset` on, `length` of them.
static bool offer_message(struct offer *offer, const struct mare__link_message *message,
                          uint64_t offset, uint64_t length)
{
    for (uint32_t i = 0; i < message->part_count && length > 0; i++) {
        const struct mare__link_part *part = &message->parts[i];
        if (offset >= part->size) {
            offset -= part->size;
            continue;
        }
        uint64_t size = part->size - offset < length ? part->size - offset : length;
        if (!offer_bytes(offer, (const uint8_t *)part->bytes + offset, size))
            return false;
        length -= size;
        offset = 0;
    }
    return true;
}

// Offers a frame of the log, of which `sent` bytes are on their way. False: no room for all of it.
static bool offer_frame(struct offer *offer, const struct mare__link_log *log, uint64_t number,
                        uint64_t sent)
{
    const struct mare__link_record *record = mare__link_record(log, number);
    const uint8_t *head = log->ring + (record->at & (log->capacity - 1));
    if (sent < record->size) {
        if (!offer_bytes(offer, head + sent, record->size - sent))
            return false;
        sent = record->size;
    }
    sent -= record->size;
    return !record->message ||
           offer_message(offer, record->message, record->offset + sent, record->length - sent);
}

int mare__link_output(struct mare__link *link, struct iovec *pieces, int room)
{
    struct offer offer = {pieces, 0, room};
    const struct mare__link_log *log = &link->log;
    if (!link->attached)
        return 0;
    link->starving = false;
    if (link->phase == MARE__LINK_LIVE)
        write_due(link);
    // A frame that has begun must be finished first. Urgent frames pass between two frames.
    uint64_t number = log->cursor;
    if (log->part && !offer_frame(&offer, log, number++, log->part))
        return offer.count;
    if (!offer_bytes(&offer, urgent_bytes(link), link->urgent_size - link->urgent_sent) ||
        link->phase != MARE__LINK_LIVE)
        return offer.count;
    while (log->unsent < MARE__LINK_BURST && commit_next(link))
        continue;
    while (number < log->next && offer_frame(&offer, log, number, 0))
        number++;
    return offer.count;
}

// `size` more bytes were sent, from the frame at the cursor on. Returns how many belong to later
// frames.
static size_t sent_of_frame(struct mare__link_log *log, size_t size)
{
    const struct mare__link_record *record = mare__link_record(log, log->cursor);
    uint64_t left = record->size + (uint64_t)record->length - log->part;
    uint64_t own = left < size ? left : size;
    log->part += own;
    log->unsent -= own;
    if (own == left) {
        log->cursor++;
        log->part = 0;
    }
    return size - own;
}

void mare__link_sent(struct mare__link *link, size_t size)
{
    struct mare__link_log *log = &link->log;
    link->bytes_out += size;
    if (log->part && size)
        size = sent_of_frame(log, size);
    uint32_t left = link->urgent_size - link->urgent_sent;
    uint32_t urgent = left < size ? left : (uint32_t)size;
    link->urgent_sent += urgent;
    size -= urgent;
    if (link->urgent_sent == link->urgent_size)
        mare__link_urgent_fini(link);
    while (size > 0)
        size = sent_of_frame(log, size);
}
