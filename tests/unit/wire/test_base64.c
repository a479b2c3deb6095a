// SPDX-License-Identifier: MIT
// Base64 against the vectors of RFC 4648 section 10, every byte and length there and back, and what
// is not Base64.
#include "wire/base64.h"

#include <string.h>

#include "unit.h"

static void the_vectors_of_the_standard(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[16];
        uint8_t bytes[16];
        size_t size = strlen(pairs[i][0]);
        mare__base64_encode(pairs[i][0], size, text);
        assert_string_equal(text, pairs[i][1]);
        assert_int_equal(strlen(text), mare__base64_size(size));
        assert_int_equal(mare__base64_decode(text, strlen(text), bytes), size);
        assert_memory_equal(bytes, pairs[i][0], size);
    }
}

static void every_byte_at_every_place(void **state)
{
    (void)state;
    uint8_t in[256 + 3], out[sizeof in + 2];
    char text[2 * sizeof in];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * 7);
    for (size_t from = 0; from < 3; from++)
        for (size_t size = 0; size <= sizeof in - from; size++) {
            mare__base64_encode(in + from, size, text);
            assert_int_equal(mare__base64_decode(text, mare__base64_size(size), out), size);
            assert_memory_equal(out, in + from, size);
        }
}

static void what_is_not_base64_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"Z",    "Zg",   "Zg=",      "Zg=a",   "====",
                                        "=AAA", "Zm=v", "Zg==Zg==", "Zm9v\n", "Zm-v",
                                        "Zm_v", "Zm 9", "Zh==",     "Zm9=",   "\xc3\xa9gg"};
    uint8_t bytes[16];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mare__base64_decode(wrong[i], strlen(wrong[i]), bytes), -1);
}

UNIT_TESTS(cmocka_unit_test(the_vectors_of_the_standard),
           cmocka_unit_test(every_byte_at_every_place),
           cmocka_unit_test(what_is_not_base64_is_refused))
