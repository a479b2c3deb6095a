// SPDX-License-Identifier: MIT
// Files of keys that two sides share. Nothing of a key is copied but to where the caller wants it,
// because the caller wipes it there. Digits are read without a table: what a table has in the cache
// would tell of them.
#include "wire/psk.h"

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t find_identity(const char *line, size_t size)
{
    size_t length = 0;
    while (length < size && line[length] != ':' && !is_space(line[length]))
        length++;
    return length < size && line[length] == ':' && line[0] != '#' ? length : 0;
}

enum { NO_DIGIT = 16 };

// The value of a hexadecimal digit, or NO_DIGIT.
static unsigned value_of(char c)
{
    unsigned digit = (unsigned char)c - (unsigned)'0';
    unsigned letter = ((unsigned char)c | 0x20u) - (unsigned)'a';
    return digit < 10 ? digit : letter < 6 ? letter + 10 : NO_DIGIT;
}

static bool read_line(const char *line, size_t size, struct mare__psk *psk)
{
    size_t length = find_identity(line, size);
    if (length == 0 || length > MARE__PSK_IDENTITY_MAX)
        return false;
    size_t digits = size - length - 1;
    *psk = (struct mare__psk){line, line + length + 1, length, digits / 2};
    if (digits % 2 != 0 || psk->size < MARE__PSK_KEY_MIN || psk->size > MARE__PSK_KEY_MAX)
        return false;
    for (size_t i = 0; i < digits; i++)
        if (value_of(psk->digits[i]) == NO_DIGIT)
            return false;
    return true;
}

int mare__psk_next(const char *text, size_t size, size_t *at, struct mare__psk *line)
{
    size_t begin = *at;
    while (begin < size && (text[begin] == '\n' || text[begin] == '\r'))
        begin++;
    size_t end = begin;
    while (end < size && text[end] != '\n' && text[end] != '\r')
        end++;
    *at = end;
    if (begin == end)
        return 0;
    return read_line(text + begin, end - begin, line) ? 1 : -1;
}

void mare__psk_key(const struct mare__psk *line, void *key)
{
    unsigned char *bytes = key;
    for (size_t i = 0; i < line->size; i++)
        bytes[i] =
            (unsigned char)(value_of(line->digits[2 * i]) << 4 | value_of(line->digits[2 * i + 1]));
}

static char digit_of(unsigned value)
{
    return (char)(value < 10 ? '0' + value : 'a' + value - 10);
}

void mare__psk_write(char *text, const char *identity, const void *key, size_t size)
{
    const unsigned char *bytes = key;
    size_t length = 0;
    while (identity[length]) {
        text[length] = identity[length];
        length++;
    }
    text[length++] = ':';
    for (size_t i = 0; i < size; i++) {
        text[length++] = digit_of(bytes[i] >> 4);
        text[length++] = digit_of(bytes[i] & 15u);
    }
}
