// SPDX-License-Identifier: MIT
// Numbers and escapes of JSON, as they are written. A float is written with the fewest digits that
// are read again as the same float, or nearly the fewest, in no locale but JSON's own.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/json.h"

size_t mare__json_put_escape(char to[MARE__JSON_ESCAPE], char byte)
{
    static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt",
                      hex[] = "0123456789abcdef";
    const char *found = byte ? strchr(bytes, byte) : NULL;
    to[0] = '\\';
    if (found) {
        to[1] = letters[found - bytes];
        return 2;
    }
    to[1] = 'u';
    to[2] = to[3] = '0';
    to[4] = hex[(uint8_t)byte >> 4];
    to[5] = hex[byte & 15];
    return MARE__JSON_ESCAPE;
}

// Writes digits that end before `end`; returns where they begin.
static char *put_digits(char *end, uint64_t value)
{
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return end;
}

size_t mare__json_put_integer(char to[MARE__JSON_NUMBER], int64_t value)
{
    char digits[24], *end = digits + sizeof digits;
    char *first = put_digits(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    if (value < 0)
        *--first = '-';
    memcpy(to, first, (size_t)(end - first));
    return (size_t)(end - first);
}

// The powers of ten that 64 bits of mantissa hold exactly.
static const long double powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                     1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                     1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                     1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

enum { POWERS = sizeof powers / sizeof *powers, DIGITS_MOST = 17 };

// Whether `whole / 10^places` is read as that float. If floats hold both numbers exactly, one
// division decides. Else the quotient must be nearer to `value` than half the way to the float
// below, which is at least as near as the one above. The quotient is off by one part in 2^64 at the
// most, and the margin allows for that.
static bool reads_as(long double whole, int places, double value)
{
    if (whole <= 0x1p53L && places <= 22)
        return (double)whole / (double)powers[places] == value;
    long double distance = fabsl(whole / powers[places] - value);
    return distance < (value - nextafter(value, 0)) * 0.499L;
}

// A whole number with that many decimal places, without zeros at its end.
static size_t put_places(char *to, uint64_t whole, int places)
{
    for (; places > 1 && whole % 10 == 0; places--)
        whole /= 10;
    char digits[DIGITS_MOST + POWERS + 8], *end = digits + sizeof digits;
    char *first = put_digits(end, whole);
    while (end - first <= places)
        *--first = '0';
    size_t before = (size_t)(end - first) - (size_t)places;
    memcpy(to, first, before);
    to[before] = '.';
    memcpy(to + before + 1, first + before, (size_t)places);
    return before + 1 + (size_t)places;
}

// A float that is neither very large nor very small: with 15 digits, 16 or 17, whichever is read
// again as the same first. 0: it is another, or this machine has no longer floats to try with.
static size_t put_decimal(char *to, double value)
{
    int places = 14;
    if (LDBL_MANT_DIG < 64 || value >= 1e15 || value < 1e-8)
        return 0;
    for (int i = 1; value >= powers[i]; i++)
        places--;
    for (int i = 0; value * powers[i] < 1; i++)
        places++;
    for (int digits = 15; digits <= DIGITS_MOST; digits++, places++) {
        long double whole = rintl(value * powers[places < 1 ? 1 : places]);
        if (reads_as(whole, places < 1 ? 1 : places, value))
            return put_places(to, (uint64_t)whole, places < 1 ? 1 : places);
    }
    return 0;
}

// Any float, by trying. printf writes the locale's decimal point: remove it, whatever it is.
static size_t put_scientific(char *to, double value)
{
    char text[64];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        if (strtod(text, NULL) == value)
            break;
    }
    size_t size = 0;
    const char *exponent = strchr(text, 'e'), *last = exponent;
    const char *second = text + 1;
    while (*second < '0' || *second > '9') // the decimal point, which may be several bytes in this
                                           // locale
        second++;
    while (last > second && last[-1] == '0')
        last--;
    to[size++] = text[0];
    if (last > second) {
        to[size++] = '.';
        memcpy(to + size, second, (size_t)(last - second));
        size += (size_t)(last - second);
    }
    while (*exponent)
        to[size++] = *exponent++;
    return size;
}

size_t mare__json_put_float(char to[MARE__JSON_NUMBER], double value)
{
    size_t sign = signbit(value) ? 1 : 0, size;
    value = fabs(value);
    to[0] = '-';
    if (value == 0) {
        to[sign] = to[sign + 2] = '0';
        to[sign + 1] = '.';
        return sign + 3;
    }
    size = put_decimal(to + sign, value);
    return sign + (size ? size : put_scientific(to + sign, value));
}
