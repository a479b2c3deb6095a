// SPDX-License-Identifier: MIT
// Lines of keys that two sides share: what is one, what is none, and what is written can be read.
#include "wire/psk.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

#define DIGITS "00112233445566778899aAbBcCdDeEfF"

static int count(const char *text)
{
    struct mare__psk line;
    size_t at = 0;
    int lines = 0, found;
    while ((found = mare__psk_next(text, strlen(text), &at, &line)) > 0)
        lines++;
    return found < 0 ? -lines - 1 : lines; // the number of the line that is none, negative
}

static void reads_lines(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                          0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    const char *text = "\r\n\nebb:" DIGITS "\r\n\nflow#1:" DIGITS DIGITS;
    struct mare__psk line;
    unsigned char key[32];
    size_t at = 0;
    assert_int_equal(mare__psk_next(text, strlen(text), &at, &line), 1);
    assert_int_equal(line.identity_size, 3);
    assert_memory_equal(line.identity, "ebb", 3);
    assert_int_equal(line.size, 16);
    mare__psk_key(&line, key);
    assert_memory_equal(key, bytes, 16);
    assert_int_equal(mare__psk_next(text, strlen(text), &at, &line), 1);
    assert_memory_equal(line.identity, "flow#1", 6);
    assert_int_equal(line.size, 32);
    mare__psk_key(&line, key);
    assert_memory_equal(key, bytes, 16);
    assert_memory_equal(key + 16, bytes, 16);
    assert_int_equal(mare__psk_next(text, strlen(text), &at, &line), 0);
    assert_int_equal(mare__psk_next(text, strlen(text), &at, &line), 0);
}

static void knows_what_is_none(void **state)
{
    (void)state;
    static const char *const none[] = {"ebb",
                                       "ebb:",
                                       ":" DIGITS,
                                       "#ebb:" DIGITS,
                                       "e bb:" DIGITS,
                                       "ebb: " DIGITS,
                                       "ebb:" DIGITS " ",
                                       "ebb:" DIGITS "0",
                                       "ebb:0011",
                                       " ebb:" DIGITS,
                                       "ebb:" DIGITS ":00",
                                       "ebb:" DIGITS "0g",
                                       "e\tb:" DIGITS,
                                       "ebb:" DIGITS "\tg"};
    char text[1024];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(count(none[i]), -1);
        snprintf(text, sizeof text, "flow:" DIGITS "\n%s\n", none[i]);
        assert_int_equal(count(text), -2);
    }
    assert_int_equal(count(""), 0);
    assert_int_equal(count("\n\r\n"), 0);
}

static void knows_its_bounds(void **state)
{
    (void)state;
    enum { ROOM = 1024 };
    char text[ROOM];
    for (int longer = 0; longer < 2; longer++) {
        memset(text, 'a', ROOM);
        text[MARE__PSK_IDENTITY_MAX + longer] = ':';
        text[MARE__PSK_IDENTITY_MAX + longer + 1 + 32] = '\0';
        assert_int_equal(count(text), longer ? -1 : 1);
        memset(text, 'a', ROOM);
        text[1] = ':';
        text[2 + 2 * (MARE__PSK_KEY_MAX + longer)] = '\0';
        assert_int_equal(count(text), longer ? -1 : 1);
        memset(text, 'a', ROOM);
        text[1] = ':';
        text[2 + 2 * (MARE__PSK_KEY_MIN - longer)] = '\0';
        assert_int_equal(count(text), longer ? -1 : 1);
    }
}

static void reads_what_it_writes(void **state)
{
    (void)state;
    unsigned char key[256], again[256];
    char text[4 + 512];
    struct mare__psk line;
    size_t at = 0;
    for (int i = 0; i < 256; i++)
        key[i] = (unsigned char)i;
    mare__psk_write(text, "ebb", key, sizeof key);
    assert_memory_equal(text, "ebb:000102", 10);
    assert_memory_equal(text + sizeof text - 6, "fdfeff", 6);
    assert_int_equal(mare__psk_next(text, sizeof text, &at, &line), 1);
    assert_int_equal(line.size, sizeof key);
    mare__psk_key(&line, again);
    assert_memory_equal(again, key, sizeof key);
}

UNIT_TESTS(cmocka_unit_test(reads_lines), cmocka_unit_test(knows_what_is_none),
           cmocka_unit_test(knows_its_bounds), cmocka_unit_test(reads_what_it_writes))
