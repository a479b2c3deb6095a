// SPDX-License-Identifier: MIT
// The MessagePack tokens at every boundary, against msgpack-c as an oracle in both directions, and
// against malformed input.
#include "wire/pack.h"

#include <math.h>
#include <msgpack.h>
#include <stdlib.h>

#include "unit.h"

// A copy in a block of exactly its size, so that a sanitizer sees the first byte read too far.
static uint8_t *copy_of(const void *bytes, size_t size)
{
    uint8_t *copy = calloc(1, size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, size);
    return copy;
}

// What is read with the cursor at the start; `used` is how far it went.
static bool read_exact(const void *bytes, size_t size, struct mare__token *token, size_t *used)
{
    uint8_t *copy = copy_of(bytes, size);
    const uint8_t *cursor = copy;
    bool done = mare__unpack(&cursor, copy + size, token);
    *used = (size_t)(cursor - copy);
    free(copy);
    return done;
}

static bool skip_exact(const void *bytes, size_t size, size_t *used)
{
    uint8_t *copy = copy_of(bytes, size);
    const uint8_t *cursor = copy;
    bool done = mare__unpack_skip(&cursor, copy + size, true);
    *used = (size_t)(cursor - copy);
    free(copy);
    assert_true(*used <= size);
    return done;
}

// ---- Integers -----------------------------------------------------------------------------------

static void check_integer(int64_t value)
{
    uint8_t ours[MARE__PACK_MAX];
    size_t size = mare__pack_integer(ours, value), used;
    struct mare__token token;
    assert_true(read_exact(ours, size, &token, &used));
    assert_int_equal(used, size);
    assert_int_equal(token.kind, MARE__TOKEN_INTEGER);
    assert_true(token.as.integer == value);
    for (size_t cut = 0; cut < size; cut++)
        assert_false(read_exact(ours, cut, &token, &used));

    msgpack_unpacked oracle; // it reads what we write
    msgpack_unpacked_init(&oracle);
    size_t offset = 0;
    assert_int_equal(msgpack_unpack_next(&oracle, (char *)ours, size, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    assert_int_equal(offset, size);
    assert_true(oracle.data.type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
                oracle.data.type == MSGPACK_OBJECT_NEGATIVE_INTEGER);
    assert_true(oracle.data.via.i64 == value);
    msgpack_unpacked_destroy(&oracle);

    msgpack_sbuffer theirs; // and we read what it writes, in each of its forms
    msgpack_sbuffer_init(&theirs);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
    msgpack_pack_int64(&packer, value);
    msgpack_pack_fix_int64(&packer, value);
    if (value >= 0)
        msgpack_pack_uint64(&packer, (uint64_t)value);
    const uint8_t *cursor = (uint8_t *)theirs.data, *end = cursor + theirs.size;
    for (int form = 0; form < (value >= 0 ? 3 : 2); form++) {
        assert_true(mare__unpack(&cursor, end, &token));
        assert_int_equal(token.kind, MARE__TOKEN_INTEGER);
        assert_true(token.as.integer == value);
    }
    assert_ptr_equal(cursor, end);
    msgpack_sbuffer_destroy(&theirs);
}

static void integers_at_every_boundary(void **state)
{
    (void)state;
    for (int64_t value = -70000; value <= 70000; value++)
        check_integer(value);
    for (int bit = 0; bit < 63; bit++)
        for (int64_t near = -2; near <= 2; near++) {
            check_integer((INT64_C(1) << bit) + near);
            check_integer(-(INT64_C(1) << bit) + near);
        }
    for (int64_t near = 0; near < 3; near++) {
        check_integer(INT64_MAX - near);
        check_integer(INT64_MIN + near);
    }
}

static void integers_take_their_shortest_form(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        size_t size;
    } cases[] = {{0, 1},
                 {127, 1},
                 {128, 3},
                 {-1, 1},
                 {-32, 1},
                 {-33, 2},
                 {-128, 2},
                 {-129, 3},
                 {32767, 3},
                 {32768, 5},
                 {-32768, 3},
                 {-32769, 5},
                 {65536, 5},
                 {INT32_MAX, 5},
                 {INT32_MIN, 5},
                 {INT64_C(2147483648), 9},
                 {INT64_C(-2147483649), 9},
                 {INT64_MAX, 9},
                 {INT64_MIN, 9}};
    uint8_t out[MARE__PACK_MAX];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mare__pack_integer(out, cases[i].value), cases[i].size);
}

static void integers_above_the_signed_range_are_told_apart(void **state)
{
    (void)state;
    struct mare__token token;
    size_t used;
    static const uint8_t largest[] = {0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t first[] = {0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t last_signed[] = {0xcf, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    assert_true(read_exact(largest, sizeof largest, &token, &used));
    assert_int_equal(token.kind, MARE__TOKEN_UNSIGNED);
    assert_true((uint64_t)token.as.integer == UINT64_MAX);
    assert_true(read_exact(first, sizeof first, &token, &used));
    assert_int_equal(token.kind, MARE__TOKEN_UNSIGNED);
    assert_true(read_exact(last_signed, sizeof last_signed, &token, &used));
    assert_int_equal(token.kind, MARE__TOKEN_INTEGER);
    assert_true(token.as.integer == INT64_MAX);
}

// ---- Floats, nil, booleans ----------------------------------------------------------------------

static void floats_keep_every_bit(void **state)
{
    (void)state;
    const double values[] = {0.0,    -0.0,     1.0,       -1.5, 0.1, 1e308, -1e308,
                             5e-324, INFINITY, -INFINITY, NAN,  3.0, 0x1p53};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t out[MARE__PACK_MAX];
        struct mare__token token;
        size_t used;
        assert_int_equal(mare__pack_float(out, values[i]), 9);
        assert_true(read_exact(out, 9, &token, &used));
        assert_int_equal(token.kind, MARE__TOKEN_FLOAT); // 3.0 too: a float stays one
        assert_memory_equal(&token.as.number, &values[i], sizeof(double));
        assert_false(read_exact(out, 8, &token, &used));
        msgpack_unpacked oracle;
        msgpack_unpacked_init(&oracle);
        size_t offset = 0;
        assert_int_equal(msgpack_unpack_next(&oracle, (char *)out, 9, &offset),
                         MSGPACK_UNPACK_SUCCESS);
        assert_memory_equal(&oracle.data.via.f64, &values[i], sizeof(double));
        msgpack_unpacked_destroy(&oracle);
    }
}

static void floats_of_four_bytes_are_read(void **state)
{
    (void)state;
    msgpack_sbuffer theirs;
    msgpack_sbuffer_init(&theirs);
    msgpack_packer packer;
    msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
    msgpack_pack_float(&packer, 1.5f);
    msgpack_pack_double(&packer, -2.25);
    const uint8_t *cursor = (uint8_t *)theirs.data, *end = cursor + theirs.size;
    struct mare__token token;
    assert_true(mare__unpack(&cursor, end, &token));
    assert_int_equal(token.kind, MARE__TOKEN_FLOAT);
    assert_true(token.as.number == 1.5);
    assert_true(mare__unpack(&cursor, end, &token));
    assert_true(token.as.number == -2.25);
    msgpack_sbuffer_destroy(&theirs);
}

static void nil_and_booleans(void **state)
{
    (void)state;
    uint8_t out[1];
    struct mare__token token;
    size_t used;
    assert_int_equal(mare__pack_nil(out), 1);
    assert_true(read_exact(out, 1, &token, &used));
    assert_int_equal(token.kind, MARE__TOKEN_NIL);
    for (int value = 0; value < 2; value++) {
        assert_int_equal(mare__pack_boolean(out, value), 1);
        assert_int_equal(out[0], value ? 0xc3 : 0xc2);
        assert_true(read_exact(out, 1, &token, &used));
        assert_int_equal(token.kind, MARE__TOKEN_BOOLEAN);
        assert_int_equal(token.as.boolean, value);
    }
}

// ---- Strings, arrays, maps, ext -----------------------------------------------------------------

static const uint32_t lengths[] = {0,   1,   15,  16,    31,    32,    33,   254,
                                   255, 256, 257, 65534, 65535, 65536, 65537};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

// Both families, each length: ours read by the oracle, the oracle's by us, and one byte too few
// refused.
static void strings_of_every_header(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTHS * 2; i++) {
        uint32_t length = lengths[i % LENGTHS];
        bool binary = i >= LENGTHS;
        uint8_t *bytes = malloc(length + MARE__PACK_MAX);
        size_t header = binary ? mare__pack_binary_header(bytes, length)
                               : mare__pack_string_header(bytes, length);
        assert_true(header <= MARE__PACK_MAX);
        memset(bytes + header, 's', length);
        size_t size = header + length, used, offset = 0;
        struct mare__token token;
        assert_true(read_exact(bytes, size, &token, &used));
        assert_int_equal(token.kind, MARE__TOKEN_STRING);
        assert_int_equal(token.size, length);
        assert_int_equal(used, header);
        assert_false(read_exact(bytes, size - 1, &token, &used));
        assert_true(skip_exact(bytes, size, &used));
        assert_int_equal(used, size);
        assert_false(skip_exact(bytes, size - 1, &used));

        msgpack_unpacked oracle;
        msgpack_unpacked_init(&oracle);
        assert_int_equal(msgpack_unpack_next(&oracle, (char *)bytes, size, &offset),
                         MSGPACK_UNPACK_SUCCESS);
        assert_int_equal(offset, size);
        assert_int_equal(oracle.data.type, binary ? MSGPACK_OBJECT_BIN : MSGPACK_OBJECT_STR);
        assert_int_equal(oracle.data.via.str.size, length);
        msgpack_unpacked_destroy(&oracle);

        msgpack_sbuffer theirs;
        msgpack_sbuffer_init(&theirs);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        if (binary)
            msgpack_pack_bin_with_body(&packer, bytes + header, length);
        else
            msgpack_pack_str_with_body(&packer, (char *)bytes + header, length);
        assert_int_equal(theirs.size, size); // the shortest header is the one header
        assert_memory_equal(theirs.data, bytes, size);
        msgpack_sbuffer_destroy(&theirs);
        free(bytes);
    }
}

static void arrays_and_maps_of_the_oracle_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTHS * 2; i++) {
        uint32_t count = lengths[i % LENGTHS];
        bool map = i >= LENGTHS;
        msgpack_sbuffer theirs;
        msgpack_sbuffer_init(&theirs);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        if (map)
            msgpack_pack_map(&packer, count);
        else
            msgpack_pack_array(&packer, count);
        for (uint32_t k = 0; k < (map ? 2 * count : count); k++)
            msgpack_pack_nil(&packer);
        struct mare__token token;
        size_t used;
        assert_true(read_exact(theirs.data, theirs.size, &token, &used));
        assert_int_equal(token.kind, map ? MARE__TOKEN_MAP : MARE__TOKEN_ARRAY);
        assert_int_equal(token.size, count);
        assert_true(skip_exact(theirs.data, theirs.size, &used));
        assert_int_equal(used, theirs.size);
        if (count > 0) {
            assert_false(read_exact(theirs.data, theirs.size - 1, &token, &used));
            assert_false(skip_exact(theirs.data, theirs.size - 1, &used));
        }
        msgpack_sbuffer_destroy(&theirs);
    }
}

static void our_headers_are_read_by_the_oracle(void **state)
{
    (void)state;
    static const uint8_t inside[] = {1, 2, 3, 4};
    for (int kind = 0; kind < 3; kind++) {
        uint8_t bytes[MARE__PACK_EXT + sizeof inside];
        size_t header = kind == 2 ? MARE__PACK_EXT : MARE__PACK_TABLE, offset = 0, used;
        if (kind == 0)
            mare__pack_array_header(bytes, sizeof inside);
        else if (kind == 1)
            mare__pack_map_header(bytes, sizeof inside / 2);
        else
            mare__pack_ext_header(bytes, -7, sizeof inside);
        memcpy(bytes + header, inside, sizeof inside);
        msgpack_unpacked oracle;
        msgpack_unpacked_init(&oracle);
        assert_int_equal(
            msgpack_unpack_next(&oracle, (char *)bytes, header + sizeof inside, &offset),
            MSGPACK_UNPACK_SUCCESS);
        assert_int_equal(offset, header + sizeof inside);
        if (kind == 0)
            assert_int_equal(oracle.data.via.array.size, 4);
        else if (kind == 1)
            assert_int_equal(oracle.data.via.map.size, 2);
        else
            assert_int_equal(oracle.data.via.ext.type, -7);
        msgpack_unpacked_destroy(&oracle);
        struct mare__token token;
        assert_true(read_exact(bytes, header + sizeof inside, &token, &used));
        assert_int_equal(used, header);
        if (kind == 2)
            assert_int_equal(token.ext, -7);
    }
}

static void ext_of_every_size_is_read(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 255, 256, 65535, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int kind = -128; kind < 128; kind += 85) {
            msgpack_sbuffer theirs;
            msgpack_sbuffer_init(&theirs);
            msgpack_packer packer;
            msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
            char *body = calloc(1, sizes[i] + 1);
            msgpack_pack_ext(&packer, sizes[i], (int8_t)kind);
            if (sizes[i])
                msgpack_pack_ext_body(&packer, body, sizes[i]);
            free(body);
            struct mare__token token;
            size_t used;
            assert_true(read_exact(theirs.data, theirs.size, &token, &used));
            assert_int_equal(token.kind, MARE__TOKEN_EXT);
            assert_int_equal(token.ext, kind);
            assert_int_equal(token.size, sizes[i]);
            assert_int_equal(theirs.size - used, sizes[i]);
            assert_false(read_exact(theirs.data, theirs.size - 1, &token, &used));
            assert_true(skip_exact(theirs.data, theirs.size, &used));
            assert_int_equal(used, theirs.size);
            msgpack_sbuffer_destroy(&theirs);
        }
}

// ---- What is not MessagePack --------------------------------------------------------------------

static void what_ends_too_soon_is_refused(void **state)
{
    (void)state;
    struct mare__token token;
    size_t used;
    assert_false(read_exact("", 0, &token, &used));
    assert_false(skip_exact("", 0, &used));
    for (int code = 0; code < 256; code++) {
        uint8_t alone = (uint8_t)code;
        bool whole = code <= 0x80 || code == 0x90 || code == 0xa0 || code == 0xc0 || code == 0xc2 ||
                     code == 0xc3 || code >= 0xe0; // what needs no more bytes
        assert_int_equal(read_exact(&alone, 1, &token, &used), whole);
        assert_int_equal(skip_exact(&alone, 1, &used), whole);
    }
}

static void the_unused_code_is_refused(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0xc1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, inside[] = {0x92, 0x01, 0xc1};
    struct mare__token token;
    size_t used;
    assert_false(read_exact(bytes, sizeof bytes, &token, &used));
    assert_false(skip_exact(inside, sizeof inside, &used));
}

// A few bytes that promise much more: refused at once, whatever the reader would have to set aside
// for them.
static void promises_that_the_bytes_cannot_keep_are_refused(void **state)
{
    (void)state;
    static const uint8_t array[] = {0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0},
                         map[] = {0xdf, 0xff, 0xff, 0xff, 0xff, 0xc0},
                         string[] = {0xdb, 0xff, 0xff, 0xff, 0xff, 'x'},
                         ext[] = {0xc9, 0xff, 0xff, 0xff, 0xff, 1, 0}, pair[] = {0x81, 0xc0},
                         half[] = {0x82, 0xc0, 0xc0, 0xc0};
    struct mare__token token;
    size_t used;
    assert_false(read_exact(array, sizeof array, &token, &used));
    assert_false(read_exact(map, sizeof map, &token, &used));
    assert_false(read_exact(string, sizeof string, &token, &used));
    assert_false(read_exact(ext, sizeof ext, &token, &used));
    assert_false(read_exact(pair, sizeof pair, &token, &used));
    assert_false(read_exact(half, sizeof half, &token, &used));
    // Each header alone could be true; both cannot.
    static const uint8_t nested[] = {0x93, 0x93, 0xc0, 0xc0, 0xc0};
    assert_true(read_exact(nested, sizeof nested, &token, &used));
    assert_false(skip_exact(nested, sizeof nested, &used));
}

static void an_ext_is_refused_where_none_is_allowed(void **state)
{
    (void)state;
    static const uint8_t alone[] = {0xd4, 1, 0},
                         inside[] = {0x92, 0x01, 0x81, 0xa1, 'k', 0xc7, 0, 5},
                         none[] = {0x91, 0x01};
    const uint8_t *cursor = alone;
    assert_false(mare__unpack_skip(&cursor, alone + sizeof alone, false));
    cursor = inside;
    assert_false(mare__unpack_skip(&cursor, inside + sizeof inside, false));
    cursor = inside;
    assert_true(mare__unpack_skip(&cursor, inside + sizeof inside, true));
    cursor = none;
    assert_true(mare__unpack_skip(&cursor, none + sizeof none, false));
    assert_ptr_equal(cursor, none + sizeof none);
}

static void a_deep_object_is_skipped_without_recursion(void **state)
{
    (void)state;
    enum { DEPTH = 4000000 };
    uint8_t *bytes = malloc(DEPTH + 1);
    size_t used;
    memset(bytes, 0x91, DEPTH);
    bytes[DEPTH] = 0xc0;
    assert_true(skip_exact(bytes, DEPTH + 1, &used));
    assert_int_equal(used, DEPTH + 1);
    assert_false(skip_exact(bytes, DEPTH, &used));
    free(bytes);
}

// ---- Random objects -----------------------------------------------------------------------------

static void pack_random(msgpack_packer *packer, uint64_t *random, int depth)
{
    uint64_t r = unit_random(random);
    char body[300] = {0};
    size_t size = unit_random(random) % (r % 16 ? 40 : sizeof body);
    switch (r % (depth > 0 ? 9 : 7)) {
    case 0:
        msgpack_pack_nil(packer);
        break;
    case 1:
        if (r & 256)
            msgpack_pack_true(packer);
        else
            msgpack_pack_false(packer);
        break;
    case 2:
        msgpack_pack_int64(packer, (int64_t)(unit_random(random) >> (r >> 8) % 64));
        break;
    case 3:
        msgpack_pack_double(packer, (double)r);
        break;
    case 4:
        msgpack_pack_str_with_body(packer, body, size);
        break;
    case 5:
        msgpack_pack_bin_with_body(packer, body, size);
        break;
    case 6:
        msgpack_pack_ext(packer, size, (int8_t)r);
        if (size)
            msgpack_pack_ext_body(packer, body, size);
        break;
    default: {
        size_t count = unit_random(random) % 20;
        bool map = r % 9 == 8;
        if (map)
            msgpack_pack_map(packer, count);
        else
            msgpack_pack_array(packer, count);
        for (size_t i = 0; i < (map ? count * 2 : count); i++)
            pack_random(packer, random, depth - 1);
    }
    }
}

// Both find the same ends; cut anywhere, neither finds one.
static void random_objects_are_skipped_as_the_oracle_does(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 400; round++) {
        msgpack_sbuffer theirs;
        msgpack_sbuffer_init(&theirs);
        msgpack_packer packer;
        msgpack_packer_init(&packer, &theirs, msgpack_sbuffer_write);
        pack_random(&packer, &random, 4);
        size_t used;
        assert_true(skip_exact(theirs.data, theirs.size, &used));
        assert_int_equal(used, theirs.size);
        for (int cuts = 0; cuts < 20; cuts++)
            assert_false(skip_exact(theirs.data, unit_random(&random) % theirs.size, &used));
        // Changed anywhere: whole for one is whole for the other, and they end at the same byte.
        for (int changes = 0; changes < 20; changes++) {
            size_t at = unit_random(&random) % theirs.size, offset = 0;
            char was = theirs.data[at];
            theirs.data[at] = (char)unit_random(&random);
            // The oracle believes four bytes of count at once, and asks for all that memory.
            if (memchr(theirs.data, 0xdd, theirs.size) || memchr(theirs.data, 0xdf, theirs.size)) {
                skip_exact(theirs.data, theirs.size, &used);
                theirs.data[at] = was;
                continue;
            }
            msgpack_unpacked oracle;
            msgpack_unpacked_init(&oracle);
            int result = msgpack_unpack_next(&oracle, theirs.data, theirs.size, &offset);
            msgpack_unpacked_destroy(&oracle);
            bool whole = skip_exact(theirs.data, theirs.size, &used);
            assert_int_equal(whole, result == MSGPACK_UNPACK_SUCCESS ||
                                        result == MSGPACK_UNPACK_EXTRA_BYTES);
            if (whole)
                assert_int_equal(used, offset);
            theirs.data[at] = was;
        }
        msgpack_sbuffer_destroy(&theirs);
    }
}

static void numbers_have_the_order_of_the_network(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t out[8];
    assert_int_equal(mare__get32(bytes), 0x01020304);
    assert_true(mare__get64(bytes) == 0x0102030405060708);
    mare__put64(out, 0x0102030405060708);
    assert_memory_equal(out, bytes, 8);
    mare__put32(out, 0x01020304);
    assert_memory_equal(out, bytes, 4);
}

UNIT_TESTS(cmocka_unit_test(integers_at_every_boundary),
           cmocka_unit_test(integers_take_their_shortest_form),
           cmocka_unit_test(integers_above_the_signed_range_are_told_apart),
           cmocka_unit_test(floats_keep_every_bit), cmocka_unit_test(floats_of_four_bytes_are_read),
           cmocka_unit_test(nil_and_booleans), cmocka_unit_test(strings_of_every_header),
           cmocka_unit_test(arrays_and_maps_of_the_oracle_are_read),
           cmocka_unit_test(our_headers_are_read_by_the_oracle),
           cmocka_unit_test(ext_of_every_size_is_read),
           cmocka_unit_test(what_ends_too_soon_is_refused),
           cmocka_unit_test(the_unused_code_is_refused),
           cmocka_unit_test(promises_that_the_bytes_cannot_keep_are_refused),
           cmocka_unit_test(an_ext_is_refused_where_none_is_allowed),
           cmocka_unit_test(a_deep_object_is_skipped_without_recursion),
           cmocka_unit_test(random_objects_are_skipped_as_the_oracle_does),
           cmocka_unit_test(numbers_have_the_order_of_the_network))
