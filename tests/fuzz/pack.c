// SPDX-License-Identifier: MIT
// Any bytes through the MessagePack reader: it never reads beyond the end (AddressSanitizer
// watches: the bytes lie in a block of exactly their size), never moves backwards, and what it
// reads it can write again.
#include <assert.h>
#include <stdlib.h>

#include "wire/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Writes a token as our writers would, and reads it back.
static void write_again(const struct mare__token *token)
{
    uint8_t out[MARE__PACK_MAX];
    size_t used = 0;
    struct mare__token again;
    switch (token->kind) {
    case MARE__TOKEN_NIL:
        used = mare__pack_nil(out);
        break;
    case MARE__TOKEN_BOOLEAN:
        used = mare__pack_boolean(out, token->as.boolean);
        break;
    case MARE__TOKEN_INTEGER:
        used = mare__pack_integer(out, token->as.integer);
        break;
    case MARE__TOKEN_FLOAT:
        used = mare__pack_float(out, token->as.number);
        break;
    default: // the others have bodies
        return;
    }
    const uint8_t *cursor = out;
    assert(used > 0 && used <= MARE__PACK_MAX);
    assert(mare__unpack(&cursor, out + used, &again) && cursor == out + used);
    assert(again.kind == token->kind);
    if (token->kind == MARE__TOKEN_INTEGER)
        assert(again.as.integer == token->as.integer);
    if (token->kind == MARE__TOKEN_FLOAT)
        assert(again.as.integer == token->as.integer || // the same bits
               token->as.number != token->as.number);
    if (token->kind == MARE__TOKEN_BOOLEAN)
        assert(again.as.boolean == token->as.boolean);
}

// Reads every token, passing over the bodies of strings and exts. True when it got to the end.
static bool read_tokens(const uint8_t *cursor, const uint8_t *end)
{
    volatile uint8_t last = 0;
    while (cursor < end) {
        const uint8_t *before = cursor;
        struct mare__token token;
        if (!mare__unpack(&cursor, end, &token))
            return false;
        assert(cursor > before && cursor <= end);
        write_again(&token);
        if (token.kind == MARE__TOKEN_STRING || token.kind == MARE__TOKEN_EXT) {
            assert(token.size <= (size_t)(end - cursor));
            for (uint32_t i = 0; i < token.size; i++)
                last = cursor[i]; // the body is there
            cursor += token.size;
            (void)last;
        } else if (token.kind == MARE__TOKEN_ARRAY || token.kind == MARE__TOKEN_MAP) {
            assert(token.size <= (size_t)(end - cursor));
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    const uint8_t *end = copy + size, *cursor = copy, *strict = copy;
    bool tokens = read_tokens(copy, end);
    // Whole objects are tokens, too; and where no ext is allowed, what is skipped is skipped the
    // same way.
    bool whole = true;
    while (cursor < end && whole) {
        whole = mare__unpack_skip(&cursor, end, true);
        assert(cursor <= end);
    }
    assert(!whole || tokens);
    if (mare__unpack_skip(&strict, end, false)) {
        const uint8_t *loose = copy;
        assert(mare__unpack_skip(&loose, end, true) && loose == strict);
    }
    free(copy);
    return 0;
}
