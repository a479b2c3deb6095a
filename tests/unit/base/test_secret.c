// SPDX-License-Identifier: MIT
// Secrets are compared to the end, wherever they differ.
#include "base/secret.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

static void tells_what_is_the_same(void **state)
{
    (void)state;
    char a[40], b[40];
    memset(a, 'x', sizeof a);
    memset(b, 'x', sizeof b);
    for (size_t size = 0; size < sizeof a; size++) {
        assert_true(mare__secret_equal(a, size, b, size));
        assert_false(mare__secret_equal(a, size, b, size + 1));
        for (size_t at = 0; at < size; at++) {
            b[at] ^= (char)0x80;
            assert_false(mare__secret_equal(a, size, b, size));
            b[at] = a[at];
        }
    }
}

static bool is_touched(void *page, size_t size)
{
    unsigned char resident = 0;
    assert_int_equal(mincore(page, size, &resident), 0);
    return resident & 1;
}

// The last byte is in a page of its own, that nobody has ever looked at: the system knows who does.
static void looks_at_all_though_the_first_byte_differs(void **state)
{
    (void)state;
    enum { SIZE = 32 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    madvise(pages, 2 * page, MADV_NOHUGEPAGE);
    char a[SIZE] = {1}, *b = pages + page - SIZE + 1;
    memset(b, 2, SIZE - 1);
    if (is_touched(pages + page, page))
        skip(); // the system tells of more than was touched
    assert_false(mare__secret_equal(a, SIZE, b, SIZE));
    assert_true(is_touched(pages + page, page));
    munmap(pages, 2 * page);
}

static void copies_are_whole(void **state)
{
    (void)state;
    char copy[8] = "aaaaaaa";
    assert_ptr_equal(mare__secret_copy(copy, "secret", 6), copy + 6);
    assert_string_equal(copy, "secreta");
    struct mare__secret *secret = mare__secret_new(6);
    assert_non_null(secret);
    mare__secret_copy(secret->bytes, "secret", 6);
    assert_string_equal(secret->bytes, "secret");
    assert_int_equal(secret->size, 6);
    mare__unref(&secret->object);
}

UNIT_TESTS(cmocka_unit_test(tells_what_is_the_same),
           cmocka_unit_test(looks_at_all_though_the_first_byte_differs),
           cmocka_unit_test(copies_are_whole))
