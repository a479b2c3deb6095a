// SPDX-License-Identifier: MIT
// Reads JSON (RFC 8259) strictly: nothing but the four blanks between tokens, no leading zeros, no
// lone surrogates, UTF-8 only. The state says what may come next:
//
//        '['                  value                    ','
//     VALUE ──▶ FIRST_VALUE ──────────▶ AFTER ───────────────▶ a value (array) or a key (object)
//        '{' ──▶ FIRST_KEY ── key ':' ──▶ VALUE     ']' '}' ──▶ AFTER, or DONE at the outermost
//
// Numbers without a fraction or an exponent are integers if 64 bits can hold them, and floats
// otherwise, as Lua reads its own. "-0" is the float, for no integer is that.
#include "wire/json.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/utf8.h"

enum { VALUE, FIRST_VALUE, FIRST_KEY, AFTER, DONE, FAILED };

void mare__json_init(struct mare__json *json, const void *bytes, size_t size, uint32_t depth_most)
{
    json->at = bytes;
    json->end = json->at + size;
    json->wrong = NULL;
    json->depth = 0;
    json->depth_most = depth_most;
    json->expects = VALUE;
}

static enum mare__json_event fail(struct mare__json *json, const char *wrong)
{
    json->expects = FAILED;
    json->wrong = wrong;
    return MARE__JSON_ERROR;
}

// Skips blanks. False: nothing follows.
static inline bool skip_blanks(struct mare__json *json)
{
    const char *at = json->at, *end = json->end;
    while (at < end && mare__json_blank(*at))
        at++;
    json->at = at;
    return at < end;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

// ---- Numbers ------------------------------------------------------------------------------------

// The powers of ten that 64 bits of mantissa hold exactly; of the first 23, 53 do.
static const long double powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                     1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                     1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L,
                                     1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

enum { POWERS = sizeof powers / sizeof *powers, EXACT_POWERS = 23, EXACT_BITS = 53 };

// A number that has been looked at: its digits, as far as 64 bits hold them, and where the point
// is.
struct numeral {
    const char *digits, *digits_end; // with a point among them, maybe
    uint64_t mantissa;
    int64_t exponent; // of ten, that the digits as one integer are multiplied with
    bool negative, whole, too_long;
};

// Writes the digits again as an integer with an exponent, for strtod: it expects the decimal point
// of the program's locale, and there is none in such a text. 767 digits decide any double; of
// further digits only matters whether they are all 0.
static double convert(const struct numeral *numeral)
{
    enum { DIGITS = 800 };
    char text[DIGITS + 32];
    int count = 0;
    int64_t exponent = numeral->exponent;
    bool more = false;
    for (const char *at = numeral->digits; at < numeral->digits_end; at++) {
        if (*at == '.' || (count == 0 && *at == '0'))
            continue;
        if (count < DIGITS) {
            text[count++] = *at;
        } else {
            exponent++;
            more |= *at != '0';
        }
    }
    if (count == 0)
        return 0;
    if (more) {
        text[count++] = '1';
        exponent--;
    }
    exponent = exponent > 99999 ? 99999 : exponent < -99999 ? -99999 : exponent;
    snprintf(text + count, sizeof text - (size_t)count, "e%d", (int)exponent);
    return strtod(text, NULL);
}

// Divides or multiplies once, with more bits than a float has. The result is rounded right, unless
// it lies so near to the middle between two floats that the lost bits decide. Then it returns -1,
// and strtod is used.
static double scale(uint64_t mantissa, int64_t exponent)
{
    if (!(mantissa >> EXACT_BITS) && exponent > -EXACT_POWERS && exponent < EXACT_POWERS) {
        double power = (double)powers[exponent < 0 ? -exponent : exponent];
        return exponent < 0 ? (double)mantissa / power : (double)mantissa * power;
    }
    if (LDBL_MANT_DIG < 64 || exponent <= -POWERS || exponent >= POWERS)
        return -1;
    long double exact = exponent < 0 ? mantissa / powers[-exponent] : mantissa * powers[exponent];
    double near = (double)exact;
    double other = nextafter(near, exact > near ? INFINITY : 0);
    long double middle = near + ((long double)other - near) / 2;
    return fabsl(exact - middle) > exact * 0x1p-62L ? near : -1;
}

static inline const char *read_digits(struct numeral *numeral, const char *at, const char *end)
{
    for (; at < end && is_digit(*at); at++) {
        if (numeral->mantissa > (UINT64_MAX - 9) / 10)
            numeral->too_long = true;
        else if (!numeral->too_long)
            numeral->mantissa = numeral->mantissa * 10 + (uint64_t)(*at - '0');
    }
    return at;
}

// The exponent, after its letter; NULL: there is no digit.
static const char *read_exponent(struct numeral *numeral, const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int64_t value = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end || !is_digit(*at))
        return NULL;
    for (; at < end && is_digit(*at); at++)
        if (value < INT32_MAX)
            value = value * 10 + (*at - '0');
    numeral->exponent += negative ? -value : value;
    return at;
}

static enum mare__json_event give_number(struct mare__json *json, const struct numeral *numeral)
{
    uint64_t mantissa = numeral->mantissa;
    bool negative = numeral->negative;
    if (numeral->whole && !numeral->too_long && mantissa <= (uint64_t)INT64_MAX + negative &&
        (mantissa > 0 || !negative)) {
        json->integer = (int64_t)(negative ? 0 - mantissa : mantissa);
        return MARE__JSON_INTEGER;
    }
    double value = numeral->too_long ? -1 : scale(mantissa, numeral->exponent);
    if (value < 0)
        value = convert(numeral);
    if (isinf(value))
        return fail(json, "a number beyond what a float can be");
    json->number = negative ? -value : value;
    return MARE__JSON_FLOAT;
}

static enum mare__json_event read_number(struct mare__json *json)
{
    const char *at = json->at, *end = json->end;
    struct numeral numeral = {.negative = *at == '-', .whole = true};
    at += numeral.negative;
    numeral.digits = at;
    if (at == end || !is_digit(*at)) {
        json->at = at;
        return fail(json, "a digit expected");
    }
    if (*at == '0' && at + 1 < end && is_digit(at[1]))
        return fail(json, "a number with a zero in front");
    at = read_digits(&numeral, at, end);
    if (at < end && *at == '.') {
        const char *point = at;
        at = read_digits(&numeral, at + 1, end);
        numeral.exponent = point + 1 - at;
        numeral.whole = false;
        if (at == point + 1) {
            json->at = at;
            return fail(json, "a digit expected");
        }
    }
    numeral.digits_end = at;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *after = read_exponent(&numeral, at + 1, end);
        numeral.whole = false;
        if (!after) {
            json->at = at + 1;
            return fail(json, "a digit expected");
        }
        at = after;
    }
    enum mare__json_event event = give_number(json, &numeral);
    if (event != MARE__JSON_ERROR)
        json->at = at;
    return event;
}

// ---- Strings ------------------------------------------------------------------------------------

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

// How many bytes from here are neither a quote, a backslash nor a control character. Eight at a
// time: in the high bits of `found` are those that are less than 0x20, or become 0 when what is
// looked for is taken away (the lowest of them is right, and the others do not matter).
size_t mare__json_plain(const char *bytes, size_t size, bool *beyond)
{
    size_t at = 0;
    uint64_t seen = 0, word;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        uint64_t quote = word ^ EACH_BYTE('"'), backslash = word ^ EACH_BYTE('\\');
        uint64_t found = ((word - EACH_BYTE(0x20)) & ~word) | ((quote - EACH_BYTE(1)) & ~quote) |
                         ((backslash - EACH_BYTE(1)) & ~backslash);
        if (found & EACH_BYTE(0x80))
            break;
        seen |= word;
    }
    for (; at < size; at++) {
        uint8_t byte = (uint8_t)bytes[at];
        if (byte < 0x20 || byte == '"' || byte == '\\')
            break;
        seen |= byte;
    }
    *beyond |= (seen & EACH_BYTE(0x80)) != 0;
    return at;
}

// Four hexadecimal digits, or -1.
static int read_hex(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char byte = at[i];
        int digit = is_digit(byte)                 ? byte - '0'
                    : (byte >= 'a' && byte <= 'f') ? byte - 'a' + 10
                    : (byte >= 'A' && byte <= 'F') ? byte - 'A' + 10
                                                   : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

// Skips an escape, at its backslash: how many bytes it has; 0: it is none.
static size_t skip_escape(const char *at, const char *end)
{
    if (end - at < 2)
        return 0;
    if (at[1] != 'u')
        return at[1] && strchr("\"\\/bfnrt", at[1]) ? 2 : 0;
    int unit = read_hex(at + 2, end);
    if (unit < 0 || is_low(unit))
        return 0;
    if (!is_high(unit))
        return 6;
    bool pair = end - at >= 12 && at[6] == '\\' && at[7] == 'u' && is_low(read_hex(at + 8, end));
    return pair ? 12 : 0;
}

// A string, at its opening quote.
static bool read_string(struct mare__json *json)
{
    const char *first = json->at + 1, *at = first, *end = json->end;
    bool beyond = false;
    json->escaped = false;
    for (;;) {
        at += mare__json_plain(at, (size_t)(end - at), &beyond);
        if (at < end && *at == '\\') {
            size_t skipped = skip_escape(at, end);
            json->escaped = true;
            if (skipped) {
                at += skipped;
                continue;
            }
        }
        break;
    }
    json->at = at;
    if (at == end || *at != '"') {
        fail(json, at == end     ? "the end of a string expected"
                   : *at == '\\' ? "an escape that is none"
                                 : "a control character in a string");
        return false;
    }
    struct mare__utf8 state = {0};
    json->text = (struct mare__span){first, (size_t)(at - first)};
    if (beyond &&
        (!mare__utf8_check(&state, first, json->text.size) || !mare__utf8_complete(&state))) {
        json->at = first - 1;
        fail(json, "a string that is not UTF-8");
        return false;
    }
    json->at = at + 1;
    return true;
}

static size_t put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        to[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3f));
        to[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | point >> 18);
    to[1] = (char)(0x80 | (point >> 12 & 0x3f));
    to[2] = (char)(0x80 | (point >> 6 & 0x3f));
    to[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

size_t mare__json_unescape(char *to, struct mare__span text)
{
    static const char from[] = "bfnrt", means[] = "\b\f\n\r\t";
    const char *at = text.at, *end = at + text.size;
    char *out = to;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((escape ? escape : end) - at);
        memmove(out, at, plain);
        out += plain;
        if (!escape)
            break;
        at = escape + 2;
        if (escape[1] != 'u') {
            const char *found = strchr(from, escape[1]);
            *out++ = found ? means[found - from] : escape[1];
            continue;
        }
        uint32_t point = (uint32_t)read_hex(at, end);
        at += 4;
        if (is_high((int)point)) {
            point = 0x10000 + ((point - 0xd800) << 10) + (uint32_t)read_hex(at + 2, end) - 0xdc00;
            at += 6;
        }
        out += put_utf8(out, point);
    }
    return (size_t)(out - to);
}

// ---- Values -------------------------------------------------------------------------------------

static bool in_object(const struct mare__json *json)
{
    uint32_t inner = json->depth - 1;
    return json->objects[inner / 8] >> inner % 8 & 1;
}

static enum mare__json_event begin(struct mare__json *json, bool object)
{
    if (json->depth == json->depth_most)
        return fail(json, "too many arrays and objects in each other");
    uint32_t inner = json->depth++;
    uint8_t bit = (uint8_t)(1U << inner % 8);
    if (object)
        json->objects[inner / 8] |= bit;
    else
        json->objects[inner / 8] &= (uint8_t)~bit;
    json->at++;
    json->expects = object ? FIRST_KEY : FIRST_VALUE;
    return object ? MARE__JSON_OBJECT : MARE__JSON_ARRAY;
}

static enum mare__json_event end(struct mare__json *json, bool object)
{
    json->at++;
    json->depth--;
    json->expects = json->depth ? AFTER : DONE;
    return object ? MARE__JSON_OBJECT_END : MARE__JSON_ARRAY_END;
}

static enum mare__json_event read_word(struct mare__json *json, const char *word, size_t size,
                                       enum mare__json_event event)
{
    if ((size_t)(json->end - json->at) < size || memcmp(json->at, word, size) != 0)
        return fail(json, "a value expected");
    json->at += size;
    return event;
}

static enum mare__json_event read_value(struct mare__json *json)
{
    enum mare__json_event event;
    char byte = *json->at;
    if (byte == '"')
        event = read_string(json) ? MARE__JSON_STRING : MARE__JSON_ERROR;
    else if (byte == '-' || is_digit(byte))
        event = read_number(json);
    else if (byte == '{' || byte == '[')
        return begin(json, byte == '{');
    else if (byte == 't')
        event = read_word(json, "true", 4, MARE__JSON_TRUE);
    else if (byte == 'f')
        event = read_word(json, "false", 5, MARE__JSON_FALSE);
    else if (byte == 'n')
        event = read_word(json, "null", 4, MARE__JSON_NULL);
    else
        return fail(json, "a value expected");
    if (event != MARE__JSON_ERROR)
        json->expects = json->depth ? AFTER : DONE;
    return event;
}

static enum mare__json_event read_key(struct mare__json *json)
{
    if (*json->at != '"')
        return fail(json, "a key in quotes expected");
    if (!read_string(json))
        return MARE__JSON_ERROR;
    if (!skip_blanks(json) || *json->at != ':')
        return fail(json, "':' expected");
    json->at++;
    json->expects = VALUE;
    return MARE__JSON_KEY;
}

enum mare__json_event mare__json_next(struct mare__json *json)
{
    if (json->expects == FAILED)
        return MARE__JSON_ERROR;
    if (!skip_blanks(json))
        return json->expects == DONE ? MARE__JSON_DONE
                                     : fail(json, "it ends before it is complete");
    char byte = *json->at;
    switch (json->expects) {
    case AFTER: {
        bool object = in_object(json);
        if (byte == (object ? '}' : ']'))
            return end(json, object);
        if (byte != ',')
            return fail(json, object ? "',' or '}' expected" : "',' or ']' expected");
        json->at++;
        if (!skip_blanks(json))
            return fail(json, "it ends before it is complete");
        return object ? read_key(json) : read_value(json);
    }
    case FIRST_VALUE:
        return byte == ']' ? end(json, false) : read_value(json);
    case FIRST_KEY:
        return byte == '}' ? end(json, true) : read_key(json);
    case VALUE:
        return read_value(json);
    default:
        return fail(json, "the end expected");
    }
}
