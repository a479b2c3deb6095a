// SPDX-License-Identifier: MIT
// Files of keys that two sides share: lines with an identity, a colon, and the key in hexadecimal,
// as GnuTLS's psktool writes them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MARE__PSK_IDENTITY_MAX = 255, MARE__PSK_KEY_MIN = 16, MARE__PSK_KEY_MAX = 256 };

struct mare__psk {
    const char *identity, *digits; // in the text
    size_t identity_size, size;    // size: of the key, of which there are twice as many digits
};

// The line that begins at or after `*at`; empty ones are skipped. 1: `*at` is behind it; 0: the
// text is over; -1: it is no such line.
int mare__psk_next(const char *text, size_t size, size_t *at, struct mare__psk *line);

// The key itself, `line->size` bytes of it.
void mare__psk_key(const struct mare__psk *line, void *key);

// Writes such a line, without its end: strlen(identity) + 1 + 2 * size bytes.
void mare__psk_write(char *text, const char *identity, const void *key, size_t size);
