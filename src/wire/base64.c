// SPDX-License-Identifier: MIT
// Base64, RFC 4648 section 4.
#include "wire/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void mare__base64_encode(const void *data, size_t size, char *text)
{
    const uint8_t *in = data;
    for (; size > 0; in += 3, text += 4) {
        size_t count = size < 3 ? size : 3;
        uint32_t group = (uint32_t)in[0] << 16 | (count > 1 ? (uint32_t)in[1] << 8 : 0) |
                         (count > 2 ? in[2] : 0);
        for (unsigned i = 0; i < 4; i++)
            text[i] = i <= count ? digits[group >> (18 - 6 * i) & 63] : '=';
        size -= count;
    }
    *text = 0;
}

// The value of a digit; -1: it is not one.
static int value_of(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? digit - 'A'
           : digit >= 'a' && digit <= 'z' ? digit - 'a' + 26
           : digit >= '0' && digit <= '9' ? digit - '0' + 52
           : digit == '+'                 ? 62
           : digit == '/'                 ? 63
                                          : -1;
}

ptrdiff_t mare__base64_decode(const char *text, size_t size, uint8_t *out)
{
    uint8_t *next = out;
    if (size % 4 != 0)
        return -1;
    for (size_t at = 0; at < size; at += 4) {
        uint32_t group = 0;
        unsigned count = 4; // digits without the padding, which may only stand at the end
        while (at + 4 == size && count > 2 && text[at + count - 1] == '=')
            count--;
        for (unsigned i = 0; i < count; i++) {
            int value = value_of(text[at + i]);
            if (value < 0)
                return -1;
            group |= (uint32_t)value << (18 - 6 * i);
        }
        if (group & (count == 2 ? 0xffffU : count == 3 ? 0xffU : 0U))
            return -1;
        for (unsigned i = 0; i + 1 < count; i++)
            *next++ = (uint8_t)(group >> (16 - 8 * i));
    }
    return next - out;
}
