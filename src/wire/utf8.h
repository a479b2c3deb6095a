// SPDX-License-Identifier: MIT
// Whether bytes are UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above
// U+10FFFF. They may come in pieces that are cut anywhere.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where in a character the last piece ended. Zero everywhere is between two characters.
struct mare__utf8 {
    uint8_t missing;   // bytes until it is complete
    uint8_t low, high; // the bounds of the next byte
};

// Whether the bytes go on as UTF-8 from where the piece before ended. False at the first byte that
// cannot; then the state means nothing any more.
bool mare__utf8_check(struct mare__utf8 *state, const void *bytes, size_t size);

// How many bytes at the beginning of a string are whole characters, `most` of them at the most.
size_t mare__utf8_fit(const char *text, size_t most);

// Whether no character is left half way.
static inline bool mare__utf8_complete(const struct mare__utf8 *state)
{
    return state->missing == 0;
}
