// SPDX-License-Identifier: MIT
// UTF-8 against a decoder that is written another way: first the number, then whether it may be.
#include "wire/utf8.h"

#include <string.h>

#include "unit.h"

// Whether the bytes are UTF-8, by taking each character apart and writing it again.
static bool reference(const uint8_t *in, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint32_t first = in[at++], more, number;
        if (first < 0x80)
            continue;
        if ((first & 0xe0) == 0xc0)
            more = 1, number = first & 0x1f;
        else if ((first & 0xf0) == 0xe0)
            more = 2, number = first & 0x0f;
        else if ((first & 0xf8) == 0xf0)
            more = 3, number = first & 0x07;
        else
            return false;
        for (uint32_t i = 0; i < more; i++) {
            if (at == size || (in[at] & 0xc0) != 0x80)
                return false;
            number = number << 6 | (in[at++] & 0x3f);
        }
        static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
        if (number < smallest[more] || number > 0x10ffff || (number >= 0xd800 && number <= 0xdfff))
            return false;
    }
    return true;
}

static bool ours(const uint8_t *in, size_t size)
{
    struct mare__utf8 state = {0};
    return mare__utf8_check(&state, in, size) && mare__utf8_complete(&state);
}

static void every_text_of_three_bytes(void **state)
{
    (void)state;
    uint8_t in[3] = {0};
    assert_true(ours(in, 0));
    for (uint32_t all = 0; all < 1 << 24; all++) {
        in[0] = (uint8_t)(all >> 16);
        in[1] = (uint8_t)(all >> 8);
        in[2] = (uint8_t)all;
        if (ours(in, 3) != reference(in, 3))
            fail_msg("%02x %02x %02x", in[0], in[1], in[2]);
        if (in[2] == 0 && ours(in, 2) != reference(in, 2))
            fail_msg("%02x %02x", in[0], in[1]);
        if (in[1] == 0 && in[2] == 0 && ours(in, 1) != reference(in, 1))
            fail_msg("%02x", in[0]);
    }
}

static void every_character_of_four_bytes(void **state)
{
    (void)state;
    static const uint8_t last[] = {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff};
    uint8_t in[4];
    for (uint32_t all = 0xe00000; all <= 0xffffff; all++)
        for (size_t i = 0; i < sizeof last; i++) {
            in[0] = (uint8_t)(all >> 16);
            in[1] = (uint8_t)(all >> 8);
            in[2] = (uint8_t)all;
            in[3] = last[i];
            if (ours(in, 4) != reference(in, 4))
                fail_msg("%02x %02x %02x %02x", in[0], in[1], in[2], in[3]);
        }
}

// Long enough for the quick way over ASCII, with something else at every place, cut at every place.
static void a_text_cut_anywhere(void **state)
{
    (void)state;
    static const char *const inside[] = {
        "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8c\x99", "\xed\xa0\x80", "\xff", "\x80", "\xc3", ""};
    for (size_t which = 0; which < sizeof inside / sizeof *inside; which++)
        for (size_t place = 0; place <= 40; place++) {
            uint8_t text[48];
            size_t length = strlen(inside[which]), size = 40 + length;
            memset(text, 'a', sizeof text);
            memcpy(text + place, inside[which], length);
            for (size_t cut = 0; cut <= size; cut++) {
                struct mare__utf8 utf8 = {0};
                bool good = mare__utf8_check(&utf8, text, cut) &&
                            mare__utf8_check(&utf8, text + cut, size - cut) &&
                            mare__utf8_complete(&utf8);
                assert_int_equal(good, reference(text, size));
            }
        }
}

static void a_character_that_cannot_be_is_told_at_its_first_bad_byte(void **state)
{
    (void)state;
    static const char *const bad[] = {"\xc0",     "\xc1", "\xe0\x9f", "\xed\xa0",    "\xf0\x8f",
                                      "\xf4\x90", "\xf5", "\x80",     "\xe2\x82\x28"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mare__utf8 utf8 = {0};
        size_t size = strlen(bad[i]);
        assert_true(mare__utf8_check(&utf8, bad[i], size - 1));
        assert_false(mare__utf8_check(&utf8, bad[i] + size - 1, 1));
    }
}

static void as_much_as_fits_is_cut_between_two_characters(void **state)
{
    (void)state;
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\x8a"; // of 1, 2, 3 and 4 bytes
    static const size_t fit[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
    for (size_t most = 0; most < sizeof fit / sizeof *fit; most++)
        assert_int_equal(mare__utf8_fit(text, most), fit[most]);
    assert_int_equal(mare__utf8_fit("\x80\x80\x80", 2), 0); // the beginning is missing
}

UNIT_TESTS(cmocka_unit_test(every_text_of_three_bytes),
           cmocka_unit_test(every_character_of_four_bytes), cmocka_unit_test(a_text_cut_anywhere),
           cmocka_unit_test(a_character_that_cannot_be_is_told_at_its_first_bad_byte),
           cmocka_unit_test(as_much_as_fits_is_cut_between_two_characters))
