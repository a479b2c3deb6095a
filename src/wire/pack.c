// SPDX-License-Identifier: MIT
// The MessagePack tokens. The reader is driven by one table: for each leading byte, the kind, how
// many bytes of value or length follow, and what is carried in the byte itself.
#include "wire/pack.h"

size_t mare__pack_integer(uint8_t *out, int64_t value)
{
    if (value >= -32 && value <= 127) {
        out[0] = (uint8_t)value;
        return 1;
    }
    if (value >= INT8_MIN && value <= INT8_MAX) {
        out[0] = 0xd0;
        out[1] = (uint8_t)value;
        return 2;
    }
    if (value >= INT16_MIN && value <= INT16_MAX) {
        out[0] = 0xd1;
        out[1] = (uint8_t)((uint64_t)value >> 8);
        out[2] = (uint8_t)value;
        return 3;
    }
    if (value >= INT32_MIN && value <= INT32_MAX) {
        out[0] = 0xd2;
        mare__put32(out + 1, (uint32_t)value);
        return 5;
    }
    out[0] = 0xd3;
    mare__put64(out + 1, (uint64_t)value);
    return 9;
}

size_t mare__pack_unsigned(uint8_t *out, uint64_t value)
{
    if (value <= 127) {
        out[0] = (uint8_t)value;
        return 1;
    }
    unsigned width = value <= UINT8_MAX ? 1 : value <= UINT16_MAX ? 2 : value <= UINT32_MAX ? 4 : 8;
    out[0] = (uint8_t)(0xcc + (unsigned)__builtin_ctz(width)); // uint 8, 16, 32, 64
    for (unsigned i = 0; i < width; i++)
        out[1 + i] = (uint8_t)(value >> 8 * (width - 1 - i));
    return 1 + width;
}

size_t mare__pack_float(uint8_t *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    out[0] = 0xcb;
    mare__put64(out + 1, bits);
    return 9;
}

static size_t put_length(uint8_t *out, uint8_t code8, uint32_t length)
{
    if (length <= UINT8_MAX) {
        out[0] = code8;
        out[1] = (uint8_t)length;
        return 2;
    }
    if (length <= UINT16_MAX) {
        out[0] = code8 + 1;
        out[1] = (uint8_t)(length >> 8);
        out[2] = (uint8_t)length;
        return 3;
    }
    out[0] = code8 + 2;
    mare__put32(out + 1, length);
    return 5;
}

size_t mare__pack_string_header(uint8_t *out, uint32_t length)
{
    if (length < 32) {
        out[0] = (uint8_t)(0xa0 | length);
        return 1;
    }
    return put_length(out, 0xd9, length);
}

size_t mare__pack_binary_header(uint8_t *out, uint32_t length)
{
    return put_length(out, 0xc4, length);
}

void mare__pack_array_header(uint8_t *out, uint32_t count)
{
    out[0] = 0xdd;
    mare__put32(out + 1, count);
}

void mare__pack_map_header(uint8_t *out, uint32_t count)
{
    out[0] = 0xdf;
    mare__put32(out + 1, count);
}

void mare__pack_ext_header(uint8_t *out, int8_t kind, uint32_t length)
{
    out[0] = 0xc9;
    mare__put32(out + 1, length);
    out[5] = (uint8_t)kind;
}

// A big-endian number of 1, 2, 4 or 8 bytes.
static uint64_t get(const uint8_t *in, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | in[i];
    return value;
}

static void read_number(struct mare__token *token, uint8_t code, uint64_t raw)
{
    token->kind = MARE__TOKEN_INTEGER;
    switch (code) {
    case 0xca: {
        uint32_t bits = (uint32_t)raw;
        float single;
        memcpy(&single, &bits, sizeof single);
        token->kind = MARE__TOKEN_FLOAT;
        token->as.number = single;
        break;
    }
    case 0xcb:
        token->kind = MARE__TOKEN_FLOAT;
        memcpy(&token->as.number, &raw, sizeof raw);
        break;
    case 0xcf:
        if (raw > INT64_MAX)
            token->kind = MARE__TOKEN_UNSIGNED;
        token->as.integer = (int64_t)raw;
        break;
    case 0xd0:
        token->as.integer = (int8_t)raw;
        break;
    case 0xd1:
        token->as.integer = (int16_t)raw;
        break;
    case 0xd2:
        token->as.integer = (int32_t)raw;
        break;
    default: // unsigned 8 to 32, signed 64
        token->as.integer = (int64_t)raw;
    }
}

// The codes 0xc0 to 0xdf: kind, and the bytes that follow the code (the number, or the length).
static const struct {
    uint8_t kind, width;
} codes[32] = {
    [0x00] = {MARE__TOKEN_NIL, 0},     [0x01] = {0xff, 0}, // 0xc1 is never used
    [0x02] = {MARE__TOKEN_BOOLEAN, 0}, [0x03] = {MARE__TOKEN_BOOLEAN, 0},
    [0x04] = {MARE__TOKEN_STRING, 1},  [0x05] = {MARE__TOKEN_STRING, 2},
    [0x06] = {MARE__TOKEN_STRING, 4},  [0x07] = {MARE__TOKEN_EXT, 1},
    [0x08] = {MARE__TOKEN_EXT, 2},     [0x09] = {MARE__TOKEN_EXT, 4},
    [0x0a] = {MARE__TOKEN_FLOAT, 4},   [0x0b] = {MARE__TOKEN_FLOAT, 8},
    [0x0c] = {MARE__TOKEN_INTEGER, 1}, [0x0d] = {MARE__TOKEN_INTEGER, 2},
    [0x0e] = {MARE__TOKEN_INTEGER, 4}, [0x0f] = {MARE__TOKEN_INTEGER, 8},
    [0x10] = {MARE__TOKEN_INTEGER, 1}, [0x11] = {MARE__TOKEN_INTEGER, 2},
    [0x12] = {MARE__TOKEN_INTEGER, 4}, [0x13] = {MARE__TOKEN_INTEGER, 8},
    [0x14] = {MARE__TOKEN_EXT, 0},     [0x15] = {MARE__TOKEN_EXT, 0}, // fixext 1, 2, 4, 8, 16
    [0x16] = {MARE__TOKEN_EXT, 0},     [0x17] = {MARE__TOKEN_EXT, 0},
    [0x18] = {MARE__TOKEN_EXT, 0},     [0x19] = {MARE__TOKEN_STRING, 1},
    [0x1a] = {MARE__TOKEN_STRING, 2},  [0x1b] = {MARE__TOKEN_STRING, 4},
    [0x1c] = {MARE__TOKEN_ARRAY, 2},   [0x1d] = {MARE__TOKEN_ARRAY, 4},
    [0x1e] = {MARE__TOKEN_MAP, 2},     [0x1f] = {MARE__TOKEN_MAP, 4},
};

// The codes whose value or length is in the byte itself.
static void read_fixed(struct mare__token *token, uint8_t code)
{
    if (code <= 0x7f || code >= 0xe0) {
        token->kind = MARE__TOKEN_INTEGER;
        token->as.integer = (int8_t)code;
    } else if (code >= 0xa0) {
        token->kind = MARE__TOKEN_STRING;
        token->size = code & 0x1f;
    } else {
        token->kind = code >= 0x90 ? MARE__TOKEN_ARRAY : MARE__TOKEN_MAP;
        token->size = code & 0x0f;
    }
}

// Inline, because every token of every message goes through it. Does not check that the bytes or
// objects that a token announces are there.
static inline enum mare__head read_head(const uint8_t **cursor, const uint8_t *end,
                                        struct mare__token *token)
{
    const uint8_t *in = *cursor;
    if (in == end)
        return MARE__HEAD_SHORT;
    uint8_t code = *in++;
    if (code < 0xc0 || code >= 0xe0) {
        read_fixed(token, code);
    } else {
        uint8_t kind = codes[code - 0xc0].kind;
        unsigned width = codes[code - 0xc0].width;
        if (kind == 0xff)
            return MARE__HEAD_BAD;
        if ((size_t)(end - in) < width)
            return MARE__HEAD_SHORT;
        uint64_t raw = get(in, width);
        in += width;
        token->kind = kind;
        token->size = (uint32_t)raw;
        if (kind == MARE__TOKEN_BOOLEAN)
            token->as.boolean = code & 1;
        else if (kind == MARE__TOKEN_INTEGER || kind == MARE__TOKEN_FLOAT)
            read_number(token, code, raw);
        else if (kind == MARE__TOKEN_EXT) {
            if (width == 0)
                token->size = 1u << (code - 0xd4);
            if (in == end)
                return MARE__HEAD_SHORT;
            token->ext = (int8_t)*in++;
        }
    }
    *cursor = in;
    return MARE__HEAD_READ;
}

enum mare__head mare__unpack_head(const uint8_t **cursor, const uint8_t *end,
                                  struct mare__token *token)
{
    return read_head(cursor, end, token);
}

bool mare__unpack(const uint8_t **cursor, const uint8_t *end, struct mare__token *token)
{
    if (read_head(cursor, end, token) != MARE__HEAD_READ)
        return false;
    // An object takes at least one byte. So a token that announces more objects than there are
    // bytes left is a lie.
    size_t left = (size_t)(end - *cursor), need = 0;
    if (token->kind >= MARE__TOKEN_STRING)
        need = token->kind == MARE__TOKEN_MAP ? 2 * (size_t)token->size : token->size;
    return need <= left;
}

bool mare__unpack_skip(const uint8_t **cursor, const uint8_t *end, bool ext)
{
    for (uint64_t objects = 1; objects > 0; objects--) {
        struct mare__token token;
        if (!mare__unpack(cursor, end, &token) || (token.kind == MARE__TOKEN_EXT && !ext))
            return false;
        if (token.kind == MARE__TOKEN_ARRAY)
            objects += token.size;
        else if (token.kind == MARE__TOKEN_MAP)
            objects += 2 * (uint64_t)token.size;
        else if (token.kind >= MARE__TOKEN_STRING)
            *cursor += token.size;
        if (objects > (uint64_t)(end - *cursor) + 1)
            return false;
    }
    return true;
}
