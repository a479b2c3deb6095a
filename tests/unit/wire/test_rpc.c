// SPDX-License-Identifier: MIT
// MessagePack-RPC from a guest: vectors written by hand from the specification of MessagePack.
#include "wire/rpc.h"

#include <string.h>

#include "unit.h"

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

// [0, 7, "sum", [1, 2]], then [2, "log", ["hi", {1: nil}]].
static const uint8_t two[] = {0x94, 0x00, 0x07, 0xa3, 's',  'u',  'm', 0x92, 0x01, 0x02, 0x93, 0x02,
                              0xa3, 'l',  'o',  'g',  0x92, 0xa2, 'h', 'i',  0x81, 0x01, 0xc0};
enum { FIRST_SIZE = 10 };

static void is_span(struct mare__span span, const char *text)
{
    assert_int_equal(span.size, strlen(text));
    assert_memory_equal(span.at, text, span.size);
}

static void check_sum(const struct mare__rpc_reader *reader)
{
    assert_int_equal(reader->id, 7);
    is_span(reader->method, "sum");
    is_span(reader->params, "\x92\x01\x02");
}

static void check_log(const struct mare__rpc_reader *reader)
{
    is_span(reader->method, "log");
    is_span(reader->params, "\x92\xa2hi\x81\x01\xc0");
}

static void reads_requests_and_notifications(void **state)
{
    struct mare__rpc_reader reader;
    size_t used;
    (void)state;
    mare__rpc_reader_init(&reader);
    assert_int_equal(mare__rpc_read(&reader, two, sizeof two, &used), MARE__RPC_REQUEST);
    assert_int_equal(used, FIRST_SIZE);
    check_sum(&reader);
    assert_ptr_equal(reader.method.at, two + 4); // not copied
    assert_int_equal(mare__rpc_read(&reader, two + used, sizeof two - used, &used),
                     MARE__RPC_NOTIFICATION);
    assert_int_equal(used, sizeof two - FIRST_SIZE);
    check_log(&reader);
    assert_int_equal(mare__rpc_read(&reader, two, 0, &used), MARE__RPC_MORE);
    mare__rpc_reader_fini(&reader);
}

// However the bytes are cut in two or three, the events are the same.
static void pieces_make_no_difference(void **state)
{
    (void)state;
    for (size_t a = 0; a <= sizeof two; a++) {
        for (size_t b = a; b <= sizeof two; b++) {
            const size_t cuts[] = {a, b, sizeof two};
            struct mare__rpc_reader reader;
            size_t at = 0, used;
            unsigned events = 0;
            mare__rpc_reader_init(&reader);
            for (int i = 0; i < 3; i++) {
                enum mare__rpc_event event;
                while ((event = mare__rpc_read(&reader, two + at, cuts[i] - at, &used))) {
                    assert_int_equal(event, events ? MARE__RPC_NOTIFICATION : MARE__RPC_REQUEST);
                    (events++ ? check_log : check_sum)(&reader);
                    at += used;
                }
                at += used;
                assert_int_equal(at, cuts[i]);
            }
            assert_int_equal(events, 2);
            mare__rpc_reader_fini(&reader);
        }
    }
}

// As a whole, and byte by byte.
static void fails(const uint8_t *bytes, size_t size, uint32_t limit, mare_err error)
{
    for (size_t step = 1; step <= size; step += size > 1 ? size - 1 : 1) {
        struct mare__rpc_reader reader;
        enum mare__rpc_event event = MARE__RPC_MORE;
        size_t used;
        mare__rpc_reader_init(&reader);
        reader.limit = limit;
        for (size_t at = 0; at < size && !event; at += step)
            event = mare__rpc_read(&reader, bytes + at, size - at < step ? size - at : step, &used);
        assert_int_equal(event, MARE__RPC_ERROR);
        assert_int_equal(reader.error, error);
        assert_non_null(reader.reason);
        // There is nothing more to read.
        assert_int_equal(mare__rpc_read(&reader, two, sizeof two, &used), MARE__RPC_ERROR);
        mare__rpc_reader_fini(&reader);
    }
}

static void refuses_what_is_no_message(void **state)
{
    (void)state;
    fails(BYTES(0xc0), 100, MARE_BADMSG);                              // nil
    fails(BYTES(0x92, 0x00, 0x01), 100, MARE_BADMSG);                  // too short
    fails(BYTES(0xc1), 100, MARE_BADMSG);                              // a byte of no meaning
    fails(BYTES(0x93, 0x03, 0xa0, 0x90), 100, MARE_BADMSG);            // type 3
    fails(BYTES(0x94, 0x01, 0x01, 0xc0, 0xc0), 100, MARE_BADMSG);      // an answer
    fails(BYTES(0x93, 0x00, 0x01, 0xa0), 100, MARE_BADMSG);            // no parameters
    fails(BYTES(0x94, 0x02, 0xa0, 0x90, 0xc0), 100, MARE_BADMSG);      // one element more
    fails(BYTES(0x94, 0x00, 0xff, 0xa1, 'f', 0x90), 100, MARE_BADMSG); // number -1
    fails(BYTES(0x94, 0x00, 0x01, 0x05, 0x90), 100, MARE_BADMSG);      // method 5
    fails(BYTES(0x94, 0x00, 0x01, 0xa1, 'f', 0x80), 100, MARE_BADMSG); // a map for parameters
    fails(BYTES(0x94, 0x00, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0, 0xa1, 'f', 0x90), 100,
          MARE_BADMSG); // 2^32
}

// The limit is looked at when something is promised, long before it has come.
static void refuses_what_is_too_large(void **state)
{
    (void)state;
    fails(BYTES(0x94, 0x00, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff), 1000, MARE_TOOBIG);
    fails(BYTES(0x94, 0x00, 0x01, 0xa1, 'f', 0xdd, 0xff, 0xff, 0xff, 0xff), 1000, MARE_TOOBIG);
    fails(BYTES(0x94, 0x00, 0x01, 0xa1, 'f', 0xdf, 0xff, 0xff, 0xff, 0xff), 1000, MARE_TOOBIG);
    fails(two, FIRST_SIZE, FIRST_SIZE - 1, MARE_TOOBIG);
    struct mare__rpc_reader reader;
    size_t used;
    mare__rpc_reader_init(&reader);
    reader.limit = FIRST_SIZE;
    assert_int_equal(mare__rpc_read(&reader, two, FIRST_SIZE, &used), MARE__RPC_REQUEST);
    mare__rpc_reader_fini(&reader);
}

static void writes_answers(void **state)
{
    struct mare__bytes out = {0};
    (void)state;
    assert_int_equal(
        mare__rpc_put_answer(&out, 7, (struct mare__span){0}, (struct mare__span){"\x03", 1}),
        MARE_OK);
    assert_int_equal(
        mare__rpc_put_answer(&out, 300, (struct mare__span){0}, (struct mare__span){0}), MARE_OK);
    assert_int_equal(mare__rpc_put_failure(&out, 8, mare__span_of("no sum")), MARE_OK);
    static const uint8_t expected[] = {
        0x94, 0x01, 0x07, 0xc0, 0x03,                                  // [1, 7, nil, 3]
        0x94, 0x01, 0xcd, 0x01, 0x2c, 0xc0, 0xc0,                      // [1, 300, nil, nil]
        0x94, 0x01, 0x08, 0xa6, 'n',  'o',  ' ',  's', 'u', 'm', 0xc0, // [1, 8, "no sum", nil]
    };
    assert_int_equal(out.size, sizeof expected);
    assert_memory_equal(out.at, expected, sizeof expected);
    mare__bytes_fini(&out);
}

UNIT_TESTS(cmocka_unit_test(reads_requests_and_notifications),
           cmocka_unit_test(pieces_make_no_difference),
           cmocka_unit_test(refuses_what_is_no_message),
           cmocka_unit_test(refuses_what_is_too_large), cmocka_unit_test(writes_answers))
