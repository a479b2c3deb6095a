// SPDX-License-Identifier: MIT
// The frames of RFC 6455 section 5.
//
//      header                     length 0
//   HEADER ----> PAYLOAD ----+ (or so many bytes)
//     ^                      |                        from anywhere: FAILED
//     +----------------------+--> after a close: OVER
//
// A frame's payload is unmasked and handed out piece by piece, as it comes; only a control frame,
// which is small, is kept until it is whole. It may stand between two frames of a message, so what
// is known of the message (`text`, `utf8`, `message_size`) is apart from what is known of the
// frame.
#include "wire/websocket.h"

enum phase { HEADER, PAYLOAD, OVER, FAILED };

// The first two bytes of a frame, and what a length of 126 or 127 stands for.
enum {
    FINAL = 0x80,
    RESERVED = 0x70,
    COMPRESSED = MARE__WS_COMPRESSED,
    OPCODE = 0x0f,
    MASKED = 0x80,
    LENGTH = 0x7f,
    LENGTH_16 = 126,
    LENGTH_64 = 127,
};

enum { PROTOCOL_ERROR = 1002, NOT_UTF8 = 1007, TOO_BIG = 1009 };

static const uint64_t first_limit = 1048576;

void mare__ws_reader_init(struct mare__ws_reader *reader, enum mare__ws_role role)
{
    *reader = (struct mare__ws_reader){
        .frame_limit = first_limit, .message_limit = first_limit, .role = role};
}

static enum mare__ws_event fail(struct mare__ws_reader *reader, uint16_t code, const char *reason)
{
    reader->code = code;
    reader->reason = reason;
    reader->phase = FAILED;
    return MARE__WS_ERROR;
}

// RFC 6455 section 7.4 and the registry that it founded: what may stand in a close.
static bool code_valid(uint16_t code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static bool is_control(uint8_t opcode)
{
    return opcode & 0x8;
}

// A big-endian number.
static uint64_t get(const uint8_t *in, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | in[i];
    return value;
}

// ---- Masks --------------------------------------------------------------------------------------

// XORs the bytes with the mask, eight at a time. The mask's first byte is the next one to use.
static void apply_mask(uint8_t *bytes, size_t size, const uint8_t mask[4])
{
    uint64_t wide, word;
    size_t at = 0;
    memcpy(&wide, mask, 4);
    memcpy((uint8_t *)&wide + 4, mask, 4);
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        word ^= wide;
        memcpy(bytes + at, &word, sizeof word);
    }
    for (; at < size; at++)
        bytes[at] ^= mask[at % 4];
}

static void unmask(struct mare__ws_reader *reader, uint8_t *bytes, size_t size)
{
    if (reader->role == MARE__WS_CLIENT)
        return;
    uint8_t mask[4];
    for (unsigned i = 0; i < 4; i++)
        mask[i] = reader->mask[(reader->mask_at + i) % 4];
    apply_mask(bytes, size, mask);
    reader->mask_at = (uint8_t)((reader->mask_at + size) % 4);
}

// ---- Headers ------------------------------------------------------------------------------------

// The bytes of the header, as far as those that are here tell.
static unsigned header_needs(const struct mare__ws_reader *reader)
{
    if (reader->header_size < 2)
        return 2;
    uint8_t second = reader->header[1];
    unsigned length = (second & LENGTH) == LENGTH_16 ? 2 : (second & LENGTH) == LENGTH_64 ? 8 : 0;
    return 2 + length + (second & MASKED ? 4 : 0);
}

// The rules that the first two bytes alone can break. NULL: none is broken.
static const char *breach(const struct mare__ws_reader *reader)
{
    uint8_t first = reader->header[0], second = reader->header[1], opcode = first & OPCODE;
    bool continues = opcode == MARE__WS_OP_CONTINUATION;
    bool begins = opcode == MARE__WS_OP_TEXT || opcode == MARE__WS_OP_BINARY;
    if (first & RESERVED & ~(reader->may_compress && begins ? COMPRESSED : 0))
        return "a reserved bit is set";
    if ((opcode > MARE__WS_OP_BINARY && opcode < MARE__WS_OP_CLOSE) || opcode > MARE__WS_OP_PONG)
        return "an opcode that is not known";
    if (is_control(opcode) && !(first & FINAL))
        return "a control frame in fragments";
    if (is_control(opcode) && (second & LENGTH) > MARE__WS_CONTROL_MOST)
        return "a control frame that is too long";
    if (!is_control(opcode) && continues && !reader->in_message)
        return "a continuation of nothing";
    if (!is_control(opcode) && !continues && reader->in_message)
        return "a message inside another";
    if (!(second & MASKED) == (reader->role == MARE__WS_SERVER))
        return reader->role == MARE__WS_SERVER ? "a frame that is not masked"
                                               : "a frame that is masked";
    return NULL;
}

// Reads the length from the header. False: it is not in its shortest form.
static bool read_length(struct mare__ws_reader *reader)
{
    uint8_t length = reader->header[1] & LENGTH;
    reader->left = length;
    if (length == LENGTH_16)
        reader->left = get(reader->header + 2, 2);
    else if (length == LENGTH_64)
        reader->left = get(reader->header + 2, 8);
    return (length != LENGTH_16 || reader->left >= LENGTH_16) &&
           (length != LENGTH_64 || (reader->left > UINT16_MAX && reader->left <= INT64_MAX));
}

static void begin_message(struct mare__ws_reader *reader)
{
    reader->in_message = true;
    reader->text = reader->opcode == MARE__WS_OP_TEXT;
    reader->compressed = reader->header[0] & COMPRESSED;
    reader->message_size = 0;
    reader->utf8 = (struct mare__utf8){0};
}

// The header is whole: checks that what it announces is not too large.
static enum mare__ws_event begin_frame(struct mare__ws_reader *reader)
{
    if (!read_length(reader))
        return fail(reader, PROTOCOL_ERROR, "a length that is not in its shortest form");
    reader->opcode = reader->header[0] & OPCODE;
    reader->final = reader->header[0] & FINAL;
    if (reader->header[1] & MASKED)
        memcpy(reader->mask, reader->header + reader->header_size - 4, 4);
    reader->mask_at = 0;
    reader->control_size = 0;
    reader->phase = PAYLOAD;
    if (is_control(reader->opcode))
        return MARE__WS_MORE;
    if (reader->opcode != MARE__WS_OP_CONTINUATION)
        begin_message(reader);
    if (reader->left > reader->frame_limit)
        return fail(reader, TOO_BIG, "the frame is too large");
    if (reader->message_size > reader->message_limit ||
        reader->left > reader->message_limit - reader->message_size)
        return fail(reader, TOO_BIG, "the message is too large");
    reader->message_size += reader->left;
    return MARE__WS_MORE;
}

static enum mare__ws_event read_header(struct mare__ws_reader *reader, const uint8_t *in,
                                       size_t size, size_t *used)
{
    while (*used < size) {
        reader->header[reader->header_size++] = in[(*used)++];
        if (reader->header_size == 2) {
            const char *broken = breach(reader);
            if (broken)
                return fail(reader, PROTOCOL_ERROR, broken);
        }
        if (reader->header_size == header_needs(reader) && reader->header_size >= 2)
            return begin_frame(reader);
    }
    return MARE__WS_MORE;
}

// ---- Payloads -----------------------------------------------------------------------------------

static void end_frame(struct mare__ws_reader *reader)
{
    reader->phase = HEADER;
    reader->header_size = 0;
}

static enum mare__ws_event end_close(struct mare__ws_reader *reader)
{
    struct mare__utf8 utf8 = {0};
    reader->code = MARE__WS_NO_CODE;
    if (reader->control_size == 1)
        return fail(reader, PROTOCOL_ERROR, "a close with half a code");
    if (reader->control_size > 0) {
        uint16_t code = (uint16_t)get(reader->control, 2);
        if (!code_valid(code))
            return fail(reader, PROTOCOL_ERROR, "a close with a code that may not be sent");
        reader->code = code;
        reader->data.at += 2;
        reader->data.size -= 2;
    }
    if (!mare__utf8_check(&utf8, reader->data.at, reader->data.size) || !mare__utf8_complete(&utf8))
        return fail(reader, NOT_UTF8, "a close with a reason that is not UTF-8");
    reader->phase = OVER;
    return MARE__WS_CLOSE;
}

static enum mare__ws_event end_control(struct mare__ws_reader *reader)
{
    end_frame(reader);
    reader->data = (struct mare__span){(const char *)reader->control, reader->control_size};
    if (reader->opcode == MARE__WS_OP_CLOSE)
        return end_close(reader);
    return reader->opcode == MARE__WS_OP_PING ? MARE__WS_PING : MARE__WS_PONG;
}

static enum mare__ws_event read_control(struct mare__ws_reader *reader, uint8_t *in, size_t size,
                                        size_t *used)
{
    *used = size < reader->left ? size : (size_t)reader->left;
    unmask(reader, in, *used);
    memcpy(reader->control + reader->control_size, in, *used);
    reader->control_size = (uint8_t)(reader->control_size + *used);
    reader->left -= *used;
    return reader->left ? MARE__WS_MORE : end_control(reader);
}

static enum mare__ws_event read_data(struct mare__ws_reader *reader, uint8_t *in, size_t size,
                                     size_t *used)
{
    *used = size < reader->left ? size : (size_t)reader->left;
    reader->left -= *used;
    unmask(reader, in, *used);
    reader->data = (struct mare__span){(const char *)in, *used};
    reader->last = reader->left == 0 && reader->final;
    if (reader->text && !reader->compressed &&
        (!mare__utf8_check(&reader->utf8, in, *used) ||
         (reader->last && !mare__utf8_complete(&reader->utf8))))
        return fail(reader, NOT_UTF8, "a text that is not UTF-8");
    if (reader->left == 0)
        end_frame(reader);
    if (reader->last)
        reader->in_message = false;
    return *used || reader->last ? MARE__WS_DATA : MARE__WS_MORE;
}

static enum mare__ws_event read_phase(struct mare__ws_reader *reader, uint8_t *in, size_t size,
                                      size_t *used)
{
    switch ((enum phase)reader->phase) {
    case HEADER:
        return read_header(reader, in, size, used);
    case PAYLOAD:
        return is_control(reader->opcode) ? read_control(reader, in, size, used)
                                          : read_data(reader, in, size, used);
    case OVER:
        *used = size;
        return MARE__WS_MORE;
    case FAILED:
        break;
    }
    return MARE__WS_ERROR;
}

enum mare__ws_event mare__ws_read(struct mare__ws_reader *reader, void *bytes, size_t size,
                                  size_t *used)
{
    uint8_t *in = bytes, nothing = 0;
    enum mare__ws_event event;
    uint8_t phase;
    if (!in)
        in = &nothing;
    *used = 0;
    do { // a frame without payload ends with its header, and another may follow
        size_t count = 0;
        phase = reader->phase;
        event = read_phase(reader, in + *used, size - *used, &count);
        *used += count;
    } while (event == MARE__WS_MORE && (reader->phase != phase || *used < size));
    return event;
}

// ---- Writers ------------------------------------------------------------------------------------

static size_t make_header(uint8_t header[MARE__WS_HEADER_MOST], uint8_t first, uint64_t size,
                          const uint8_t mask[4])
{
    unsigned width = size < LENGTH_16 ? 0 : size <= UINT16_MAX ? 2 : 8;
    size_t at = 2;
    header[0] = first;
    header[1] = width == 0 ? (uint8_t)size : width == 2 ? LENGTH_16 : LENGTH_64;
    while (width-- > 0)
        header[at++] = (uint8_t)(size >> 8 * width);
    if (mask) {
        header[1] |= MASKED;
        memcpy(header + at, mask, 4);
        at += 4;
    }
    return at;
}

size_t mare__ws_header(uint8_t header[MARE__WS_HEADER_MOST], enum mare__ws_opcode opcode,
                       uint64_t size)
{
    return make_header(header, (uint8_t)(opcode | FINAL), size, NULL);
}

mare_err mare__ws_put_frame(struct mare__bytes *out, enum mare__ws_opcode opcode, bool final,
                            const void *data, size_t size, const uint8_t mask[4])
{
    uint8_t compressed = opcode & MARE__WS_COMPRESSED;
    opcode &= ~(unsigned)MARE__WS_COMPRESSED;
    if (compressed && opcode != MARE__WS_OP_TEXT && opcode != MARE__WS_OP_BINARY)
        return MARE_INVALID;
    bool known =
        opcode <= MARE__WS_OP_BINARY || (opcode >= MARE__WS_OP_CLOSE && opcode <= MARE__WS_OP_PONG);
    if (!known || (is_control((uint8_t)opcode) && (!final || size > MARE__WS_CONTROL_MOST)))
        return MARE_INVALID;
    uint8_t header[MARE__WS_HEADER_MOST];
    size_t length =
        make_header(header, (uint8_t)(opcode | compressed | (final ? FINAL : 0)), size, mask);
    if (size > SIZE_MAX - length)
        return MARE_NOMEM;
    mare_err err = mare__bytes_reserve(out, length + size);
    if (err)
        return err;
    mare__bytes_add(out, header, length);
    mare__bytes_add(out, data, size);
    if (mask && size)
        apply_mask((uint8_t *)out->at + out->size - size, size, mask);
    return MARE_OK;
}

mare_err mare__ws_put_close(struct mare__bytes *out, uint16_t code, struct mare__span reason,
                            const uint8_t mask[4])
{
    uint8_t payload[MARE__WS_CONTROL_MOST] = {(uint8_t)(code >> 8), (uint8_t)code};
    struct mare__utf8 utf8 = {0};
    if (code == MARE__WS_NO_CODE && reason.size == 0)
        return mare__ws_put_frame(out, MARE__WS_OP_CLOSE, true, NULL, 0, mask);
    if (!code_valid(code) || reason.size > MARE__WS_REASON_MOST ||
        !mare__utf8_check(&utf8, reason.at, reason.size) || !mare__utf8_complete(&utf8))
        return MARE_INVALID;
    if (reason.size)
        memcpy(payload + 2, reason.at, reason.size);
    return mare__ws_put_frame(out, MARE__WS_OP_CLOSE, true, payload, 2 + reason.size, mask);
}
