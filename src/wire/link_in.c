// SPDX-License-Identifier: MIT
// What comes in: bytes into frames, frames into messages.
//
//           length                    4096 bytes or less, all there: at once, where they lie
//   HEAD ---------> the whole frame?  not all there: GATHER --> at once, from there
//     ^                               larger, not all there: its head says where the payload
//     |                                  goes: BODY --> into the block of the message
//     +----------------------------------------- or nowhere: SKIP
//
// So a frame that came in one piece is never copied, unless it is a piece of a larger message.
// Memory is allocated only after the frame's head was checked against the window of its flow. A
// frame takes effect when all of it is here: half a frame of a broken transport is forgotten, and
// will be sent again.
#include <assert.h>

#include "base/alloc.h"
#include "wire/link_inner.h"
#include "wire/pack.h"

static bool is_data(unsigned kind)
{
    return kind >= MARE__FRAME_DATA && kind <= MARE__FRAME_REST;
}

// Counts a counted frame of so many bytes as received.
static void count_frame(struct mare__link *link, size_t size)
{
    link->frames_in++;
    link->ack_bytes += size;
    if (link->frames_in - link->frames_acked >= MARE__LINK_ACK_FRAMES ||
        link->ack_bytes >= MARE__LINK_ACK_BYTES)
        link->ack_due_us = link->now_us;
    else if (link->ack_due_us == UINT64_MAX)
        link->ack_due_us = link->now_us + MARE__LINK_ACK_US;
}

// ---- Messages -----------------------------------------------------------------------------------

// Reads the head of a frame with payload, up to the payload. False: it is not one.
static bool read_data_head(const uint8_t **at, const uint8_t *end, struct mare__link_data *data)
{
    struct mare__token token;
    uint64_t number[2] = {0};
    uint32_t numbers = data->kind == MARE__FRAME_FIRST ? 2 : 1;
    if (**at != (0x90 | (numbers + 2)))
        return false;
    *at += 2; // the kind is known
    for (uint32_t i = 0; i < numbers; i++) {
        if (mare__unpack_head(at, end, &token))
            return false;
        if (token.kind != MARE__TOKEN_UNSIGNED &&
            (token.kind != MARE__TOKEN_INTEGER || token.as.integer < 0))
            return false;
        number[i] = (uint64_t)token.as.integer;
    }
    if (mare__unpack_head(at, end, &token) || token.kind != MARE__TOKEN_STRING)
        return false;
    data->flow = number[0];
    data->size = token.size;
    data->total = numbers == 2 ? number[1] : token.size;
    return true;
}

// Whether a message of this size may begin in a flow: 0, or what is wrong.
static unsigned check_window(const struct mare__link_inflow *flow, uint64_t total)
{
    if (total > flow->window.bytes / 2)
        return MARE__LINK_CODE_TOOBIG;
    if (flow->received_messages - flow->reported_messages >= flow->window.messages ||
        flow->received_bytes - flow->reported_bytes + total > flow->window.bytes)
        return MARE__LINK_CODE_CREDIT;
    return 0;
}

// Whether the frame is allowed at this point: 0, or what is wrong.
static unsigned check_data(const struct mare__link *link, const struct mare__link_data *data,
                           const struct mare__link_inflow *flow)
{
    if (!flow || flow->open_due)
        return MARE__LINK_CODE_PLACE;
    if (data->size > link->frame)
        return MARE__LINK_CODE_TOOBIG;
    if ((data->kind == MARE__FRAME_REST) != (flow->total > 0))
        return MARE__LINK_CODE_PLACE;
    if (data->kind == MARE__FRAME_REST)
        return data->size == 0 || data->size > flow->total - flow->have ? MARE__LINK_CODE_FRAME : 0;
    if (data->kind == MARE__FRAME_FIRST && (data->size == 0 || data->total <= data->size))
        return MARE__LINK_CODE_FRAME;
    return check_window(flow, data->total);
}

// A message is complete. True: `event` is to be told.
static bool complete(struct mare__link *link, struct mare__link_inflow *flow, const uint8_t *data,
                     uint64_t size, uint8_t *block, struct mare__link_event *event)
{
    bool wanted = !flow->closing;
    event->kind = MARE__LINK_MESSAGE;
    event->flow = flow->entry.number;
    event->context = flow->context;
    event->data = data;
    event->size = size;
    event->block = block;
    if (wanted && block)
        link->memory -= mare__link_block_size(link, size); // the host owns it now
    else if (block)
        mare__link_give(link, block, mare__link_block_size(link, size));
    link->messages_in += wanted;
    if (flow->once && flow->received_messages == flow->window.messages)
        mare__link_inflow_remove(link, flow);
    return wanted;
}

// A whole frame with payload is here. `block` was made for it, or is NULL.
static bool take_data(struct mare__link *link, struct mare__link_inflow *flow,
                      const struct mare__link_data *data, const uint8_t *payload, uint8_t *block,
                      struct mare__link_event *event)
{
    if (data->kind != MARE__FRAME_REST) {
        flow->received_messages++;
        flow->received_bytes += data->total;
    }
    if (data->kind == MARE__FRAME_DATA)
        return complete(link, flow, payload, data->size, block, event);
    if (data->kind == MARE__FRAME_FIRST) {
        flow->block = block;
        flow->total = data->total;
        flow->have = data->size;
        return false;
    }
    flow->have += data->size;
    if (flow->have < flow->total)
        return false;
    uint8_t *whole = flow->block;
    uint64_t size = flow->total;
    flow->block = NULL;
    flow->total = flow->have = 0;
    uint8_t *data_of =
        whole ? whole + link->settings->reserve : NULL; // NULL: the flow was closed meanwhile
    return complete(link, flow, data_of, size, whole, event);
}

// The place for the payload of a frame; makes a block for a message that begins. NULL: if
// flow->closing, the payload is skipped; otherwise there is no memory.
static uint8_t *place_of(struct mare__link *link, struct mare__link_inflow *flow,
                         const struct mare__link_data *data, uint8_t **block)
{
    uint32_t reserve = link->settings->reserve;
    *block = NULL;
    if (data->kind == MARE__FRAME_REST)
        return flow->block ? flow->block + reserve + flow->have : NULL;
    if (!flow->closing)
        *block = mare__link_take(link, mare__link_block_size(link, data->total));
    return *block ? *block + reserve : NULL;
}

// A frame with payload that lies in one piece.
static bool data_frame(struct mare__link *link, unsigned kind, const uint8_t *at,
                       const uint8_t *end, struct mare__link_event *event)
{
    struct mare__link_data data = {.kind = kind};
    size_t length = (size_t)(end - at);
    if (!read_data_head(&at, end, &data) || data.size != (size_t)(end - at)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    struct mare__link_inflow *flow = mare__link_inflow(link, data.flow);
    unsigned wrong = check_data(link, &data, flow);
    uint8_t *block = NULL;
    if (!wrong && kind != MARE__FRAME_DATA) {
        uint8_t *place = place_of(link, flow, &data, &block);
        if (place)
            memcpy(place, at, data.size);
        else if (!flow->closing)
            wrong = MARE__LINK_CODE_NOMEM;
    }
    if (wrong) {
        mare__link_fail(link, wrong);
        return false;
    }
    count_frame(link, length);
    return take_data(link, flow, &data, at, block, event);
}

// ---- Frames -------------------------------------------------------------------------------------

// Whether a frame of this kind and length is allowed here: 0, or what is wrong. `known`: false if
// the frame is to be skipped.
static unsigned check_kind(unsigned kind, size_t length, bool *known)
{
    *known = (kind >= MARE__FRAME_HELLO && kind <= MARE__FRAME_QUIT) ||
             (kind >= MARE__FRAME_DATA && kind <= MARE__FRAME_BYE);
    if (!*known)
        return kind & MARE__FRAME_SKIPPED ? 0 : MARE__LINK_CODE_KIND;
    if (kind < MARE__FRAME_ACK)
        return MARE__LINK_CODE_PLACE;
    return length > MARE__LINK_HELLO_MOST && !is_data(kind) ? MARE__LINK_CODE_TOOBIG : 0;
}

// A frame that lies in one piece. True: `event` is to be told.
static bool take_frame(struct mare__link *link, const uint8_t *at, const uint8_t *end,
                       struct mare__link_event *event)
{
    struct mare__link_reader reader;
    unsigned kind;
    bool known;
    if (link->phase != MARE__LINK_LIVE)
        return mare__link_greeted(link, at, end, event);
    if (!mare__link_get_begin(&reader, at, end, &kind)) {
        mare__link_fail(link, MARE__LINK_CODE_FRAME);
        return false;
    }
    if (kind == MARE__FRAME_DATA) // most frames are of this kind
        return data_frame(link, kind, at, end, event);
    unsigned wrong = check_kind(kind, (size_t)(end - at), &known);
    if (wrong) {
        mare__link_fail(link, wrong);
        return false;
    }
    if (is_data(kind))
        return data_frame(link, kind, at, end, event);
    if (kind & MARE__FRAME_COUNTED)
        count_frame(link, (size_t)(end - at));
    if (!known)
        return false;
    if (kind >= MARE__FRAME_OPEN && kind <= MARE__FRAME_END)
        return mare__link_flow_frame(link, kind, &reader, event);
    return mare__link_life_frame(link, kind, &reader, event);
}

// ---- Frames that come in pieces -----------------------------------------------------------------

void mare__link_in_reset(struct mare__link *link)
{
    struct mare__link_in *in = &link->in;
    if (in->block)
        mare__link_give(link, in->block, mare__link_block_size(link, in->data.total));
    if (in->gathered)
        mare__link_give(link, in->gathered, in->gather_size);
    *in = (struct mare__link_in){.mode = MARE__IN_HEAD};
}

void mare__link_forsake(struct mare__link *link, struct mare__link_inflow *flow)
{
    struct mare__link_in *in = &link->in;
    if (in->mode != MARE__IN_BODY || in->flow != flow)
        return;
    if (in->block)
        mare__link_give(link, in->block, mare__link_block_size(link, in->data.total));
    in->block = in->body = NULL;
}

// The head of a frame with payload is here: finds the place of the payload. 0, or what is wrong.
static unsigned begin_body(struct mare__link *link, const uint8_t *at, const uint8_t *end,
                           uint32_t length)
{
    struct mare__link_in *in = &link->in;
    const uint8_t *start = at;
    if (!read_data_head(&at, end, &in->data) || in->data.size != length - (size_t)(at - start))
        return MARE__LINK_CODE_FRAME;
    in->flow = mare__link_inflow(link, in->data.flow);
    unsigned wrong = check_data(link, &in->data, in->flow);
    if (wrong)
        return wrong;
    in->body = place_of(link, in->flow, &in->data, &in->block);
    if (!in->body && !in->flow->closing)
        return MARE__LINK_CODE_NOMEM;
    in->mode = MARE__IN_BODY;
    in->body_have = (uint64_t)(end - at);
    if (in->body)
        memcpy(in->body, at, in->body_have);
    return 0;
}

// The head of a large frame is here: decides what to do with the rest.
static void begin_large(struct mare__link *link)
{
    struct mare__link_in *in = &link->in;
    const uint8_t *at = in->head + MARE__LINK_PREFIX, *end = at + MARE__LINK_HEAD;
    uint32_t length = mare__get32(in->head);
    struct mare__link_reader reader;
    unsigned kind, wrong = MARE__LINK_CODE_FRAME;
    bool known;
    if (mare__link_get_begin(&reader, at, end, &kind))
        wrong = check_kind(kind, length, &known);
    if (!wrong && is_data(kind)) {
        in->data = (struct mare__link_data){.kind = kind};
        wrong = begin_body(link, at, end, length);
    } else if (!wrong) {
        in->mode = MARE__IN_SKIP;
        in->skip = length - MARE__LINK_HEAD;
        in->skip_counted = kind & MARE__FRAME_COUNTED;
    }
    if (wrong)
        mare__link_fail(link, wrong);
}

// Whether the first byte of an accepted connection says that it is a link. If not, and it is an
// array of MessagePack, a client of another language wants to call functions.
static bool first_byte(struct mare__link *link, struct mare__link_event *event, bool *guest)
{
    uint8_t byte = *link->in.at;
    *guest = (byte & 0xf0) == 0x90 || byte == 0xdc || byte == 0xdd;
    if (*guest) {
        event->kind = MARE__LINK_GUEST;
        event->data = link->in.at;
        event->size = (size_t)(link->in.end - link->in.at);
        link->phase = MARE__LINK_DONE;
        link->attached = false;
    } else if (byte != 0) {
        mare__link_fail(link, MARE__LINK_CODE_MAGIC);
    }
    return byte == 0;
}

static bool length_allowed(const struct mare__link *link, uint32_t length)
{
    uint32_t most = MARE__LINK_HELLO_MOST;
    if (link->phase == MARE__LINK_LIVE && link->frame + MARE__LINK_HEAD > most)
        most = link->frame + MARE__LINK_HEAD;
    return length > 0 && length <= most;
}

static size_t take_bytes(struct mare__link_in *in, uint8_t *to, size_t want)
{
    size_t left = (size_t)(in->end - in->at), size = want < left ? want : left;
    if (to)
        memcpy(to, in->at, size);
    in->at += size;
    return size;
}

// Collects the first bytes of a frame, until they tell how to go on.
static void collect_head(struct mare__link *link)
{
    struct mare__link_in *in = &link->in;
    uint32_t want = in->head_size < MARE__LINK_PREFIX ? MARE__LINK_PREFIX : sizeof in->head;
    in->head_size += (uint32_t)take_bytes(in, in->head + in->head_size, want - in->head_size);
    if (in->head_size < want)
        return;
    uint32_t length = mare__get32(in->head);
    if (want == sizeof in->head) {
        in->head_size = 0;
        begin_large(link);
    } else if (!length_allowed(link, length)) {
        mare__link_fail(link, MARE__LINK_CODE_TOOBIG);
    } else if (length <= MARE__LINK_HELLO_MOST) {
        in->gathered = mare__link_take(link, length);
        in->gather_size = length;
        in->gather_have = 0;
        in->head_size = 0;
        in->mode = MARE__IN_GATHER;
        if (!in->gathered)
            mare__link_fail(link, MARE__LINK_CODE_NOMEM);
    }
}

static bool read_head(struct mare__link *link, struct mare__link_event *event)
{
    struct mare__link_in *in = &link->in;
    size_t left = (size_t)(in->end - in->at);
    bool guest = false;
    if (link->phase == MARE__LINK_GREETING && link->role == MARE__LINK_ACCEPTS &&
        in->head_size == 0 && !first_byte(link, event, &guest))
        return guest;
    if (in->head_size == 0 && left >= MARE__LINK_PREFIX) {
        uint32_t length = mare__get32(in->at);
        if (!length_allowed(link, length)) {
            mare__link_fail(link, MARE__LINK_CODE_TOOBIG);
            return false;
        }
        if (left - MARE__LINK_PREFIX >= length) {
            const uint8_t *frame = in->at + MARE__LINK_PREFIX;
            in->at = frame + length;
            return take_frame(link, frame, frame + length, event);
        }
    }
    collect_head(link);
    return false;
}

static void drop_gathered(struct mare__link *link)
{
    mare__link_give(link, link->in.gathered, link->in.gather_size);
    link->in.gathered = NULL;
    link->in.gather_told = false;
}

static bool read_gather(struct mare__link *link, struct mare__link_event *event)
{
    struct mare__link_in *in = &link->in;
    assert(in->gathered); // without it the link would be over
    in->gather_have +=
        (uint32_t)take_bytes(in, in->gathered + in->gather_have, in->gather_size - in->gather_have);
    if (in->gather_have < in->gather_size)
        return false;
    in->mode = MARE__IN_HEAD;
    in->gather_told = take_frame(link, in->gathered, in->gathered + in->gather_size, event);
    if (!in->gather_told)
        drop_gathered(link); // else the event points into it, until the next call
    return in->gather_told;
}

static bool read_body(struct mare__link *link, struct mare__link_event *event)
{
    struct mare__link_in *in = &link->in;
    struct mare__link_data data = in->data;
    in->body_have +=
        take_bytes(in, in->body ? in->body + in->body_have : NULL, data.size - in->body_have);
    if (in->body_have < data.size)
        return false;
    uint8_t *block = in->block;
    in->block = NULL;
    in->mode = MARE__IN_HEAD;
    count_frame(link, data.size);
    return take_data(link, in->flow, &data, in->body, block, event);
}

static bool read_skip(struct mare__link *link)
{
    struct mare__link_in *in = &link->in;
    in->skip -= take_bytes(in, NULL, in->skip);
    if (in->skip > 0)
        return false;
    in->mode = MARE__IN_HEAD;
    if (in->skip_counted)
        count_frame(link, MARE__LINK_HELLO_MOST);
    return false;
}

bool mare__link_take_in(struct mare__link *link, struct mare__link_event *event)
{
    struct mare__link_in *in = &link->in;
    bool told = false, filled = in->mode == MARE__IN_BODY && in->body_have == in->data.size;
    if (in->gather_told)
        drop_gathered(link);
    while (!told && (filled || in->at < in->end) && link->attached) {
        filled = false;
        if (link->phase == MARE__LINK_ASKED)
            mare__link_fail(link, MARE__LINK_CODE_PLACE); // the peer had to wait for the answer
                                                          // first
        if (link->phase == MARE__LINK_DONE)
            in->at = in->end;
        else if (in->mode == MARE__IN_HEAD)
            told = read_head(link, event);
        else if (in->mode == MARE__IN_GATHER)
            told = read_gather(link, event);
        else if (in->mode == MARE__IN_BODY)
            told = read_body(link, event);
        else
            told = read_skip(link);
    }
    return told;
}

// ---- For the host -------------------------------------------------------------------------------

static void hear(struct mare__link *link, size_t size)
{
    link->bytes_in += size;
    link->transport_in += size;
    if (link->phase == MARE__LINK_LIVE)
        link->heard_us = link->now_us;
}

void mare__link_input(struct mare__link *link, const void *bytes, size_t size)
{
    if (!link->attached || size == 0)
        return;
    link->in.at = bytes;
    link->in.end = link->in.at + size;
    hear(link, size);
}

size_t mare__link_target(struct mare__link *link, void **at)
{
    struct mare__link_in *in = &link->in;
    if (!link->attached || in->mode != MARE__IN_BODY || !in->body || in->at < in->end)
        return 0;
    *at = in->body + in->body_have;
    return in->data.size - in->body_have;
}

void mare__link_filled(struct mare__link *link, size_t size)
{
    link->in.body_have += size;
    hear(link, size);
}
