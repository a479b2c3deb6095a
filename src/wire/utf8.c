// SPDX-License-Identifier: MIT
// UTF-8, after the table of RFC 3629 section 4: only the second byte of a character has bounds that
// depend on the first, every later one is 80 to BF.
#include "wire/utf8.h"

#include <string.h>

// How many bytes from here on are ASCII, eight at a time; the last few are left to the caller.
static size_t ascii_run(const uint8_t *in, size_t size)
{
    size_t at = 0;
    for (uint64_t word; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, in + at, sizeof word);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    return at;
}

// Begins a character of more than one byte.
static bool begin(struct mare__utf8 *state, uint8_t first)
{
    if (first < 0xc2 || first > 0xf4)
        return false;
    state->missing = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    state->low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    state->high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return true;
}

bool mare__utf8_check(struct mare__utf8 *state, const void *bytes, size_t size)
{
    const uint8_t *in = bytes;
    for (size_t at = 0; at < size; at++) {
        if (state->missing) {
            if (in[at] < state->low || in[at] > state->high)
                return false;
            state->missing--;
            state->low = 0x80;
            state->high = 0xbf;
            continue;
        }
        at += ascii_run(in + at, size - at);
        if (at == size)
            break;
        if (in[at] >= 0x80 && !begin(state, in[at]))
            return false;
    }
    return true;
}

size_t mare__utf8_fit(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1);
    if (length <= most)
        return length;
    for (length = most; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
        length--;
    return length;
}
