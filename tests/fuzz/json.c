// SPDX-License-Identifier: MIT
// Any bytes through the reader of JSON. Where it takes a value, the splitter finds the same end,
// however the bytes are cut; what the writers make of its numbers is read again as the same; and
// strtod agrees about them.
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "wire/json.h"
#include "wire/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_again(const char *text, size_t size, enum mare__json_event expected,
                       const struct mare__json *before)
{
    struct mare__json json;
    mare__json_init(&json, text, size, 1);
    enum mare__json_event event = mare__json_next(&json);
    assert(event == expected && mare__json_next(&json) == MARE__JSON_DONE);
    if (event == MARE__JSON_INTEGER)
        assert(json.integer == before->integer);
    else
        assert(json.number == before->number && !signbit(json.number) == !signbit(before->number));
}

static void check_number(const struct mare__json *json, enum mare__json_event event,
                         const char *first)
{
    char text[MARE__JSON_NUMBER];
    size_t size = event == MARE__JSON_INTEGER ? mare__json_put_integer(text, json->integer)
                                              : mare__json_put_float(text, json->number);
    assert(size <= sizeof text);
    read_again(text, size, event, json);
    size_t length = (size_t)(json->at - first);
    char *copy = malloc(length + 1);
    if (!copy)
        abort();
    memcpy(copy, first, length);
    copy[length] = 0;
    if (event == MARE__JSON_FLOAT)
        assert(strtod(copy, NULL) == json->number);
    else
        assert(strtoll(copy, NULL, 10) == json->integer);
    free(copy);
}

static void check_string(const struct mare__json *json)
{
    struct mare__utf8 state = {0};
    char *copy = malloc(json->text.size + 1);
    if (!copy)
        abort();
    size_t size = mare__json_unescape(copy, json->text);
    assert(size <= json->text.size && json->escaped == (size != json->text.size));
    assert(mare__utf8_check(&state, copy, size) && mare__utf8_complete(&state));
    free(copy);
}

// Where the first value begins, past blanks.
static const char *first_of(const char *bytes, size_t size)
{
    const char *at = bytes;
    while (at < bytes + size && mare__json_blank(*at))
        at++;
    return at;
}

// How many bytes the splitter takes for a value, cut into pieces of `piece`.
static size_t split(const char *bytes, size_t size, size_t piece, bool *over)
{
    struct mare__json_split split = {0};
    size_t at = 0;
    *over = false;
    while (at < size && !*over) {
        size_t count = size - at < piece ? size - at : piece;
        at += mare__json_split(&split, bytes + at, count, over);
    }
    if (!*over)
        *over = mare__json_split_end(&split);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mare__json json;
    enum mare__json_event event;
    int open = 0;
    if (size > 1 << 16)
        return 0;
    char *bytes = malloc(size ? size : 1); // of this size, for AddressSanitizer
    if (!bytes)
        abort();
    memcpy(bytes, data, size);
    mare__json_init(&json, bytes, size, 20);
    const char *first = first_of(bytes, size);
    do {
        const char *before = json.at;
        event = mare__json_next(&json);
        assert(json.at >= before && json.at <= json.end && json.depth <= 20);
        if (event == MARE__JSON_INTEGER || event == MARE__JSON_FLOAT) {
            while (mare__json_blank(*before) || *before == ',')
                before++;
            check_number(&json, event, before);
        } else if (event == MARE__JSON_STRING || event == MARE__JSON_KEY) {
            check_string(&json);
        }
        open += (event == MARE__JSON_ARRAY || event == MARE__JSON_OBJECT) -
                (event == MARE__JSON_ARRAY_END || event == MARE__JSON_OBJECT_END);
    } while (event != MARE__JSON_DONE && event != MARE__JSON_ERROR);
    assert(event == MARE__JSON_ERROR ? json.wrong != NULL : open == 0);
    bool whole, cut;
    size_t left = (size_t)(bytes + size - first);
    size_t end = split(first, left, SIZE_MAX, &whole);
    assert(split(first, left, 1, &cut) == end && whole == cut);
    assert(split(first, left, 7, &cut) == end && whole == cut);
    if (event == MARE__JSON_DONE)
        assert(whole && first_of(first + end, left - end) == bytes + size);
    assert(mare__json_next(&json) == event);
    free(bytes);
    return 0;
}
