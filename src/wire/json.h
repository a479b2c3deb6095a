// SPDX-License-Identifier: MIT
// JSON as RFC 8259 has it, read event by event from bytes that are all there, and written piece by
// piece. Nothing here allocates. What comes in parts is first cut into values (mare__json_split).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"

enum { MARE__JSON_DEPTH_MOST = 1000 };

// ---- Reading ------------------------------------------------------------------------------------

enum mare__json_event {
    MARE__JSON_ERROR, // `wrong` says what, `at` where
    MARE__JSON_DONE,  // the value is over, and nothing follows it
    MARE__JSON_NULL,
    MARE__JSON_FALSE,
    MARE__JSON_TRUE,
    MARE__JSON_INTEGER, // `integer`
    MARE__JSON_FLOAT,   // `number`
    MARE__JSON_STRING,  // `text`, to be unescaped if it is `escaped`
    MARE__JSON_KEY,     // the same; its value follows
    MARE__JSON_ARRAY,
    MARE__JSON_ARRAY_END,
    MARE__JSON_OBJECT,
    MARE__JSON_OBJECT_END
};

struct mare__json {
    const char *at, *end; // what is still to be read
    const char *wrong;    // what is wrong there, once something is
    struct mare__span text;
    int64_t integer;
    double number;
    uint32_t depth, depth_most; // containers that are open, and how many may be
    uint8_t expects;            // what may come next: see json.c
    bool escaped;
    uint8_t
        objects[MARE__JSON_DEPTH_MOST / 8 + 1]; // one bit for each open container: it is an object
};

// Begins to read one value, with up to `depth_most` containers in each other
// (MARE__JSON_DEPTH_MOST at the most). The bytes stay the caller's, and in place.
void mare__json_init(struct mare__json *json, const void *bytes, size_t size, uint32_t depth_most);

// The next event. After MARE__JSON_DONE and MARE__JSON_ERROR it is the same again.
enum mare__json_event mare__json_next(struct mare__json *json);

// Writes the text without its escapes, and returns its size: never more than before.
size_t mare__json_unescape(char *to, struct mare__span text);

// ---- Cutting into values ------------------------------------------------------------------------

// How much of a value that arrives in parts was read. All zeros: nothing yet.
struct mare__json_split {
    uint32_t depth;
    uint8_t state; // see json_split.c
};

// Goes over bytes up to the end of a value, and returns how many they are; `*over` tells whether
// the value is over then. This only looks for the end of the value. Whether it is valid JSON is
// found out by reading it. It must not begin with a blank.
size_t mare__json_split(struct mare__json_split *split, const char *bytes, size_t size, bool *over);

// Whether the value is over if nothing follows: the end of a number, say, is known only then.
bool mare__json_split_end(const struct mare__json_split *split);

static inline bool mare__json_blank(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// ---- Writing ------------------------------------------------------------------------------------

// How many bytes at the start of a text can stand in a JSON string unchanged. Sets `*beyond` if
// some of them are not ASCII; the caller must know that they are UTF-8.
size_t mare__json_plain(const char *bytes, size_t size, bool *beyond);

enum { MARE__JSON_ESCAPE = 6, MARE__JSON_NUMBER = 40 };

// Writes a byte that cannot stand as it is; returns the size.
size_t mare__json_put_escape(char to[MARE__JSON_ESCAPE], char byte);

// Writes a number; returns the size. A float (which must be finite) is read again as exactly that
// float: it has a point or an exponent.
size_t mare__json_put_integer(char to[MARE__JSON_NUMBER], int64_t value);
size_t mare__json_put_float(char to[MARE__JSON_NUMBER], double value);
