// SPDX-License-Identifier: MIT
// MessagePack, token by token: what Maré's messages are made of, in memory and between nodes.
// Writers fill a caller's buffer and return the bytes used; the reader hands out one token at a
// time and never allocates. The format is that of the MessagePack specification; integers take
// their shortest form, floats always eight bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MARE__PACK_MAX = 9 }; // the most bytes that a scalar or a header takes

enum mare__token_kind {
    MARE__TOKEN_NIL,
    MARE__TOKEN_BOOLEAN,
    MARE__TOKEN_INTEGER,
    MARE__TOKEN_UNSIGNED, // an integer above INT64_MAX; only other programs write it
    MARE__TOKEN_FLOAT,
    MARE__TOKEN_STRING, // `size` bytes follow; also the bin family
    MARE__TOKEN_ARRAY,  // `size` objects follow
    MARE__TOKEN_MAP,    // `size` pairs follow
    MARE__TOKEN_EXT,    // `size` bytes follow, of the kind `ext`
};

struct mare__token {
    enum mare__token_kind kind;
    int8_t ext;
    uint32_t size;
    union {
        bool boolean;
        int64_t integer;
        double number;
    } as;
};

// Reads the token at *cursor and moves the cursor past it; a string's or ext's bytes are left to be
// read, but are known to be there. Returns false when the bytes end too soon or are not
// MessagePack.
bool mare__unpack(const uint8_t **cursor, const uint8_t *end, struct mare__token *token);

// The same, but does not check that the announced bytes or objects are there: for readers that get
// a stream in pieces. SHORT: with more bytes it may become a token.
enum mare__head { MARE__HEAD_READ, MARE__HEAD_SHORT, MARE__HEAD_BAD };
enum mare__head mare__unpack_head(const uint8_t **cursor, const uint8_t *end,
                                  struct mare__token *token);

// Moves the cursor past one whole object, however deep, without recursion. False when it is
// malformed, or has an ext in it and `ext` is false.
bool mare__unpack_skip(const uint8_t **cursor, const uint8_t *end, bool ext);

size_t mare__pack_integer(uint8_t *out, int64_t value);
size_t mare__pack_unsigned(uint8_t *out, uint64_t value); // in the unsigned forms
size_t mare__pack_float(uint8_t *out, double value);
size_t mare__pack_string_header(uint8_t *out, uint32_t length);
size_t mare__pack_binary_header(uint8_t *out, uint32_t length);

// Headers of a fixed length of five bytes (an array or map) and six (an ext), to be filled in when
// the size is known.
enum { MARE__PACK_TABLE = 5, MARE__PACK_EXT = 6, MARE__PACK_ARRAY_BYTE = 0xdd };
void mare__pack_array_header(uint8_t *out, uint32_t count);
void mare__pack_map_header(uint8_t *out, uint32_t count);
void mare__pack_ext_header(uint8_t *out, int8_t kind, uint32_t length);

static inline size_t mare__pack_nil(uint8_t *out)
{
    *out = 0xc0;
    return 1;
}

static inline size_t mare__pack_boolean(uint8_t *out, bool value)
{
    *out = value ? 0xc3 : 0xc2;
    return 1;
}

// Big-endian stores and loads, the byte order of the format.
static inline void mare__put32(uint8_t *out, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(out, &value, sizeof value);
}

static inline void mare__put64(uint8_t *out, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(out, &value, sizeof value);
}

static inline uint32_t mare__get32(const uint8_t *in)
{
    uint32_t value;
    memcpy(&value, in, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t mare__get64(const uint8_t *in)
{
    uint64_t value;
    memcpy(&value, in, sizeof value);
    return __builtin_bswap64(value);
}

// An integer in its widest form: written and read without a look at its size. Inline, because most
// messages are one integer.
enum { MARE__PACK_WIDE = 9 };

static inline void mare__pack_wide(uint8_t *out, int64_t value)
{
    out[0] = 0xd3;
    mare__put64(out + 1, (uint64_t)value);
}

static inline bool mare__is_wide(const uint8_t *in, size_t length)
{
    return length == MARE__PACK_WIDE && in[0] == 0xd3;
}

static inline int64_t mare__unpack_wide(const uint8_t *in)
{
    return (int64_t)mare__get64(in + 1);
}
