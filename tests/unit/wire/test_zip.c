// SPDX-License-Identifier: MIT
// zlib behind our layer: in parts, within limits, without memory.
#include "wire/zip.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "unit.h"

enum { SIZE = 100000 };

static char *make_text(void)
{
    char *text = malloc(SIZE);
    assert_non_null(text);
    for (int i = 0; i < SIZE; i++)
        text[i] = (char)('a' + (i % 1000) * (i % 997) / 7 % 13);
    return text;
}

// Compresses and undoes a text, both in pieces of a size; an error is the result.
static mare_err there_and_back(enum mare__zip_form form, int window, const char *text, size_t piece,
                               struct mare__bytes *out)
{
    struct mare__zip *deflater = mare__zip_deflater(form, 6, window);
    struct mare__zip *inflater = deflater ? mare__zip_inflater(form, 15) : NULL;
    struct mare__bytes small = {0};
    mare_err err = inflater ? MARE_OK : MARE_NOMEM;
    for (size_t at = 0; !err && at < SIZE; at += piece) {
        size_t count = SIZE - at < piece ? SIZE - at : piece;
        err = mare__zip_write(deflater, text + at, count, MARE__ZIP_SYNC, SIZE_MAX, &small);
    }
    if (!err)
        err = mare__zip_write(deflater, "", 0, MARE__ZIP_END, SIZE_MAX, &small);
    for (size_t at = 0; !err && at < small.size; at += piece) {
        size_t count = small.size - at < piece ? small.size - at : piece;
        err = mare__zip_write(inflater, small.at + at, count, MARE__ZIP_MORE, SIZE, out);
    }
    if (!err)
        assert_true(mare__zip_ended(inflater));
    mare__zip_destroy(deflater);
    mare__zip_destroy(inflater);
    mare__bytes_fini(&small);
    return err;
}

static void comes_back_in_all_forms(void **state)
{
    (void)state;
    static const enum mare__zip_form forms[] = {MARE__ZIP_GZIP, MARE__ZIP_RAW, MARE__ZIP_ZLIB};
    static const size_t pieces[] = {997, 65536, SIZE};
    char *text = make_text();
    for (int form = 0; form < 3; form++)
        for (int i = 0; i < 3; i++)
            for (int window = 9; window <= 15; window += 3) {
                struct mare__bytes out = {0};
                assert_int_equal(there_and_back(forms[form], window, text, pieces[i], &out), 0);
                assert_int_equal(out.size, SIZE);
                assert_memory_equal(out.at, text, SIZE);
                mare__bytes_fini(&out);
            }
    free(text);
}

static void stops_at_the_limit(void **state)
{
    (void)state;
    static const char zeros[SIZE];
    struct mare__bytes small = {0}, out = {0};
    struct mare__zip *zip = mare__zip_deflater(MARE__ZIP_ZLIB, 9, 15);
    assert_int_equal(mare__zip_write(zip, zeros, SIZE, MARE__ZIP_END, SIZE_MAX, &small), 0);
    mare__zip_destroy(zip);
    assert_true(small.size < 1000);
    zip = mare__zip_inflater(MARE__ZIP_ZLIB, 15);
    assert_int_equal(mare__zip_write(zip, small.at, small.size, MARE__ZIP_MORE, SIZE - 1, &out),
                     MARE_TOOBIG);
    assert_true(out.capacity <= 2 * SIZE);
    mare__zip_reset(zip);
    out.size = 0;
    assert_int_equal(mare__zip_write(zip, small.at, small.size, MARE__ZIP_MORE, SIZE, &out), 0);
    assert_true(mare__zip_ended(zip));
    assert_int_equal(mare__zip_write(zip, "x", 1, MARE__ZIP_MORE, SIZE, &out), MARE_BADMSG);
    mare__zip_destroy(zip);
    mare__bytes_fini(&small);
    mare__bytes_fini(&out);
}

static void wants_of_memory_are_told(void **state)
{
    (void)state;
    char *text = make_text();
    mare_err err;
    long n = 0;
    do {
        struct mare__bytes out = {0};
        mare__alloc_fail_after(++n);
        err = there_and_back(MARE__ZIP_GZIP, 15, text, 20000, &out);
        mare__alloc_fail_after(0);
        assert_true(err == MARE_NOMEM || (err == MARE_OK && out.size == SIZE));
        mare__bytes_fini(&out);
    } while (err);
    assert_true(n > 5);
    free(text);
}

UNIT_TESTS(cmocka_unit_test(comes_back_in_all_forms), cmocka_unit_test(stops_at_the_limit),
           cmocka_unit_test(wants_of_memory_are_told))
