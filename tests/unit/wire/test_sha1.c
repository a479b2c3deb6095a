// SPDX-License-Identifier: MIT
// SHA-1 against the vectors of RFC 3174 section 7.3 and of FIPS 180, and at every length around the
// end of a block.
#include "wire/sha1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static void check(const void *data, size_t size, const char *expected)
{
    uint8_t digest[MARE__SHA1_DIGEST];
    char text[2 * MARE__SHA1_DIGEST + 1];
    mare__sha1(data, size, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

static void the_vectors_of_the_standard(void **state)
{
    (void)state;
    static char repeated[1000000];
    check("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
          "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(repeated, 'a', sizeof repeated);
    check(repeated, sizeof repeated, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    for (size_t at = 0; at < 640; at++)
        repeated[at] = (char)('0' + at % 8);
    check(repeated, 640, "dea356a2cddd90c7a7ecedc5ebb563934f460452");
    check(NULL, 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

// One digest over those of all lengths from 0 to 200, of the bytes 0, 1, 2 ...: computed with
// another implementation (Python's hashlib).
static void every_length_around_a_block(void **state)
{
    (void)state;
    uint8_t bytes[200], all[201 * MARE__SHA1_DIGEST];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t size = 0; size <= sizeof bytes; size++)
        mare__sha1(bytes, size, all + size * MARE__SHA1_DIGEST);
    check(all, sizeof all, "30f906e3c78b841ee4b73d0cb2850660435758b3");
}

UNIT_TESTS(cmocka_unit_test(the_vectors_of_the_standard),
           cmocka_unit_test(every_length_around_a_block))
