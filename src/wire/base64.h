// SPDX-License-Identifier: MIT
// Base64, RFC 4648 section 4: with padding, in one piece, nothing between the digits.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Bytes of text for so many bytes, without the zero at its end.
static inline size_t mare__base64_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

/// Writes `size` bytes as text, and a zero: `mare__base64_size(size) + 1` bytes.
void mare__base64_encode(const void *data, size_t size, char *text);

/// Reads a text into `out`, which has room for 3 bytes of each 4. Returns how many bytes there
/// were, or -1: it is not Base64, or the unused bits of its last digit are not 0.
ptrdiff_t mare__base64_decode(const char *text, size_t size, uint8_t *out);
