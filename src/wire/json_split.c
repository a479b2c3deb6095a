// SPDX-License-Identifier: MIT
// Finds where a JSON value ends, in bytes that come in parts: each byte is looked at once. It
// counts brackets outside of strings, without regard to their kind; reading the value finds out
// whether they match.
//
//     BEFORE ── '"' ──▶ TEXT ◀──▶ ESCAPE          over at the closing quote, if no bracket is open
//            ── '[' '{' ──▶ INSIDE ── '"' ──▶ TEXT   over when the last bracket is closed
//            ── else ──▶ WORD                     over before the next byte that cannot belong to
//            it
#include "wire/json.h"

enum { BEFORE, WORD, INSIDE, TEXT, ESCAPE };

static bool ends_word(char byte)
{
    return mare__json_blank(byte) || (byte && strchr(",:]}[{\"", byte));
}

static uint8_t begin(char byte)
{
    return byte == '"' ? TEXT : byte == '[' || byte == '{' ? INSIDE : WORD;
}

size_t mare__json_split(struct mare__json_split *split, const char *bytes, size_t size, bool *over)
{
    *over = false;
    for (size_t at = 0; at < size; at++) {
        char byte = bytes[at];
        switch (split->state) {
        case BEFORE:
            split->state = begin(byte);
            split->depth = split->state == INSIDE;
            continue;
        case WORD:
            *over = ends_word(byte);
            if (*over)
                return at;
            continue;
        case TEXT:
            if (byte == '\\')
                split->state = ESCAPE;
            else if (byte == '"' && split->depth > 0)
                split->state = INSIDE;
            else if (byte == '"')
                *over = true;
            break;
        case ESCAPE:
            split->state = TEXT;
            continue;
        default:
            if (byte == '"')
                split->state = TEXT;
            else if (byte == '[' || byte == '{')
                split->depth++;
            else if (byte == ']' || byte == '}')
                *over = --split->depth == 0;
        }
        if (*over)
            return at + 1;
    }
    return size;
}

bool mare__json_split_end(const struct mare__json_split *split)
{
    return split->state == WORD;
}
