// SPDX-License-Identifier: MIT
// The frames of WebSocket, read and written. The bytes and the codes are those of RFC 6455, whose
// sections are named where it is not obvious.
#include "wire/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "unit.h"

#define BYTES(text) text, sizeof(text) - 1
#define SPAN(text)                                                                                 \
    (struct mare__span)                                                                            \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};

// ---- Running a reader ---------------------------------------------------------------------------

// What a reader tells, as text:
//
//     TEXT hello        the whole of a message
//     BINARY ...
//     PING x
//     PONG x
//     CLOSE 1000 bye
//     ERROR 1002
struct transcript {
    struct mare__bytes text, message;
    bool over;
};

static void add(struct mare__bytes *bytes, const char *string)
{
    assert_int_equal(mare__bytes_add(bytes, string, strlen(string)), 0);
}

static void tell(struct transcript *transcript, const char *word, const char *data, size_t size)
{
    add(&transcript->text, word);
    assert_int_equal(mare__bytes_add(&transcript->text, data, size), 0);
    add(&transcript->text, "\n");
}

static void tell_event(struct transcript *transcript, const struct mare__ws_reader *reader,
                       enum mare__ws_event event)
{
    struct mare__bytes *message = &transcript->message;
    char word[32];
    switch (event) {
    case MARE__WS_DATA:
        assert_true(reader->data.size > 0 || reader->last);
        assert_int_equal(mare__bytes_add(message, reader->data.at, reader->data.size), 0);
        if (reader->last) {
            tell(transcript, reader->text ? "TEXT " : "BINARY ", message->at, message->size);
            message->size = 0;
        }
        break;
    case MARE__WS_PING:
        tell(transcript, "PING ", reader->data.at, reader->data.size);
        break;
    case MARE__WS_PONG:
        tell(transcript, "PONG ", reader->data.at, reader->data.size);
        break;
    case MARE__WS_CLOSE:
        snprintf(word, sizeof word, "CLOSE %d ", reader->code);
        tell(transcript, word, reader->data.at, reader->data.size);
        break;
    case MARE__WS_ERROR:
        snprintf(word, sizeof word, "ERROR %d", reader->code);
        tell(transcript, word, "", 0);
        transcript->over = true;
        assert_non_null(reader->reason);
        break;
    case MARE__WS_MORE:
        break;
    }
}

// Gives the reader one piece, in a block of exactly its size, so that a sanitizer sees the first
// byte touched too far.
static void read_piece(struct transcript *transcript, struct mare__ws_reader *reader,
                       const char *bytes, size_t size)
{
    char *copy = malloc(size ? size : 1);
    size_t at = 0, used;
    enum mare__ws_event event = MARE__WS_MORE;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    do {
        event = mare__ws_read(reader, copy + at, size - at, &used);
        assert_true(used <= size - at);
        at += used;
        tell_event(transcript, reader, event);
    } while (event != MARE__WS_MORE && event != MARE__WS_ERROR);
    assert_true(event == MARE__WS_ERROR || at == size);
    free(copy);
}

struct setup {
    enum mare__ws_role role;
    uint64_t frame_limit, message_limit; // 0: as they are
};

static char *transcript_of(const struct setup *setup, const char *bytes, size_t size, size_t first,
                           size_t others)
{
    struct mare__ws_reader reader;
    struct transcript transcript = {0};
    mare__ws_reader_init(&reader, setup->role);
    if (setup->frame_limit)
        reader.frame_limit = setup->frame_limit;
    if (setup->message_limit)
        reader.message_limit = setup->message_limit;
    size_t at = first < size ? first : size;
    read_piece(&transcript, &reader, bytes, at);
    while (at < size && !transcript.over) {
        size_t count = others < size - at ? others : size - at;
        read_piece(&transcript, &reader, bytes + at, count);
        at += count;
    }
    mare__bytes_fini(&transcript.message);
    assert_int_equal(mare__bytes_add(&transcript.text, "", 1), 0);
    return transcript.text.at;
}

static void check_cut(const struct setup *setup, const char *bytes, size_t size, size_t first,
                      size_t others, const char *expected)
{
    char *got = transcript_of(setup, bytes, size, first, others);
    assert_string_equal(got, expected);
    mare__free(got);
}

// The transcript is the expected one: of the bytes at once, cut once at every place, and in pieces
// of one to nine.
static void check_with(const struct setup *setup, const char *bytes, size_t size,
                       const char *expected)
{
    for (size_t first = 0; first <= size; first++)
        check_cut(setup, bytes, size, first, size ? size : 1, expected);
    for (size_t piece = 1; piece < 10; piece++)
        check_cut(setup, bytes, size, 0, piece, expected);
}

// What a client reads is not masked, and so can be written down as it is.
static void check_client(const char *bytes, size_t size, const char *expected)
{
    struct setup setup = {.role = MARE__WS_CLIENT};
    check_with(&setup, bytes, size, expected);
}

static void check_server(const char *bytes, size_t size, const char *expected)
{
    struct setup setup = {.role = MARE__WS_SERVER};
    check_with(&setup, bytes, size, expected);
}

// ---- Good frames --------------------------------------------------------------------------------

// The examples of section 5.7.
static void the_examples_of_the_rfc(void **state)
{
    (void)state;
    check_client(BYTES("\x81\x05Hello"), "TEXT Hello\n");
    check_server(BYTES("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "TEXT Hello\n");
    check_client(BYTES("\x01\x03Hel\x80\x02lo"), "TEXT Hello\n");
    check_client(BYTES("\x89\x05Hello"), "PING Hello\n");
    check_server(BYTES("\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"), "PONG Hello\n");
}

static void messages_in_fragments_with_control_frames_between(void **state)
{
    (void)state;
    check_client(BYTES("\x02\x02"
                       "ab\x89\x01x\x00\x00\x8a\x00\x00\x01"
                       "c\x89\x00\x80\x01"
                       "d\x82\x00\x81\x01z"),
                 "PING x\nPONG \nPING \nBINARY abcd\nBINARY \nTEXT z\n");
    check_client(BYTES("\x01\x00\x80\x00\x01\x01"
                       "a\x80\x00"),
                 "TEXT \nTEXT a\n");
}

static void a_character_may_be_cut_between_fragments(void **state)
{
    (void)state;
    check_client(BYTES("\x01\x01\xe2\x89\x01p\x00\x01\x82\x80\x01\xac"),
                 "PING p\nTEXT \xe2\x82\xac\n");
    check_client(BYTES("\x82\x02\xff\xfe"), "BINARY \xff\xfe\n"); // a binary need not be UTF-8
}

static void lengths_in_each_form(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        const char *header;
        size_t header_size;
    } cases[] = {
        {125, BYTES("\x82\x7d")},
        {126, BYTES("\x82\x7e\x00\x7e")},
        {65535, BYTES("\x82\x7e\xff\xff")},
        {65536, BYTES("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00")},
    };
    struct setup setup = {.role = MARE__WS_CLIENT};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__bytes bytes = {0}, expected = {0};
        assert_int_equal(mare__bytes_add(&bytes, cases[i].header, cases[i].header_size), 0);
        add(&expected, "BINARY ");
        for (size_t j = 0; j < cases[i].size; j++) {
            add(&bytes, j % 26 ? "x" : "\n");
            add(&expected, j % 26 ? "x" : "\n");
        }
        assert_int_equal(mare__bytes_add(&expected, "\n", 2), 0);
        for (size_t first = 0; first < 20; first++)
            check_cut(&setup, bytes.at, bytes.size, first, bytes.size, expected.at);
        // The writer makes the same.
        struct mare__bytes out = {0};
        assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_BINARY, true,
                                            bytes.at + cases[i].header_size, cases[i].size, NULL),
                         0);
        assert_int_equal(out.size, bytes.size);
        assert_memory_equal(out.at, bytes.at, out.size);
        mare__bytes_fini(&out);
        mare__bytes_fini(&bytes);
        mare__bytes_fini(&expected);
    }
}

static void a_control_frame_of_the_largest_size(void **state)
{
    (void)state;
    char bytes[2 + MARE__WS_CONTROL_MOST] = "\x89\x7d", expected[200];
    memset(bytes + 2, 'p', MARE__WS_CONTROL_MOST);
    snprintf(expected, sizeof expected, "PING %.*s\n", MARE__WS_CONTROL_MOST, bytes + 2);
    check_client(bytes, sizeof bytes, expected);
}

static void no_bytes_at_all(void **state)
{
    (void)state;
    struct mare__ws_reader reader;
    size_t used = 1;
    mare__ws_reader_init(&reader, MARE__WS_SERVER);
    assert_int_equal(mare__ws_read(&reader, NULL, 0, &used), MARE__WS_MORE);
    assert_int_equal(used, 0);
}

static void closes(void **state)
{
    (void)state;
    check_client(BYTES("\x88\x00"), "CLOSE 1005 \n");
    check_client(BYTES("\x88\x02\x03\xe8"), "CLOSE 1000 \n");
    check_client(BYTES("\x88\x05\x03\xe9"
                       "bye"),
                 "CLOSE 1001 bye\n");
    check_client(BYTES("\x88\x04\x0f\xa0\xc3\xa9"), "CLOSE 4000 \xc3\xa9\n");
    // What follows is forgotten, whatever it is; and a message may be left half way.
    check_client(BYTES("\x01\x01"
                       "a\x88\x00\xff\xff\xff\x81\x01x"),
                 "CLOSE 1005 \n");
}

static void codes_of_closes(void **state)
{
    (void)state;
    for (unsigned code = 0; code <= UINT16_MAX; code++) {
        // Section 7.4.1 and the registry of section 11.7; 1004, 1005, 1006 and 1015 are reserved.
        bool good =
            (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
            (code >= 3000 && code <= 4999);
        char bytes[] = {(char)0x88, 2, (char)(code >> 8), (char)code}, expected[32];
        struct setup setup = {.role = MARE__WS_CLIENT};
        struct mare__bytes out = {0};
        snprintf(expected, sizeof expected, good ? "CLOSE %u \n" : "ERROR 1002\n", code);
        check_cut(&setup, bytes, sizeof bytes, 0, 4, expected);
        mare_err err = mare__ws_put_close(&out, (uint16_t)code, SPAN(""), NULL);
        if (code == MARE__WS_NO_CODE) {
            assert_int_equal(err, 0);
            assert_int_equal(out.size, 2);
        } else {
            assert_int_equal(err, good ? MARE_OK : MARE_INVALID);
            assert_int_equal(out.size, good ? 4 : 0);
            if (good)
                assert_memory_equal(out.at, bytes, 4);
        }
        mare__bytes_fini(&out);
    }
}

// ---- Bad frames ---------------------------------------------------------------------------------

static void a_malformed_frame_is_told_with_its_code(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int code;
    } cases[] = {
        // Section 5.2: reserved bits, opcodes, masks (5.1) and lengths.
        {BYTES("\xc1\x00"), 1002},
        {BYTES("\xa1\x00"), 1002},
        {BYTES("\x91\x00"), 1002},
        {BYTES("\x83\x00"), 1002},
        {BYTES("\x87\x00"), 1002},
        {BYTES("\x8b\x00"), 1002},
        {BYTES("\x8f\x00"), 1002},
        {BYTES("\x81\x80\x01\x02\x03\x04"), 1002},
        {BYTES("\x82\x7e\x00\x7d"), 1002},
        {BYTES("\x82\x7e\x00\x00"), 1002},
        {BYTES("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff"), 1002},
        {BYTES("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00"), 1002},
        // Section 5.4 and 5.5: fragments, and control frames.
        {BYTES("\x80\x00"), 1002},
        {BYTES("\x00\x00"), 1002},
        {BYTES("\x01\x01x\x81\x01y"), 1002},
        {BYTES("\x01\x01x\x02\x01y"), 1002},
        {BYTES("\x09\x00"), 1002},
        {BYTES("\x08\x00"), 1002},
        {BYTES("\x0a\x00"), 1002},
        {BYTES("\x89\x7e\x00\x7e"), 1002},
        {BYTES("\x88\x7f\x00\x00\x00\x00\x00\x01\x00\x00"), 1002},
        {BYTES("\x88\x01\x03"), 1002},
        // Section 8.1: text, and the reason of a close (5.5.1).
        {BYTES("\x81\x01\xff"), 1007},
        {BYTES("\x81\x01\xc3"), 1007},
        {BYTES("\x81\x02\xc3\x28"), 1007},
        {BYTES("\x81\x03\xed\xa0\x80"), 1007},
        {BYTES("\x01\x01\xc3\x80\x00"), 1007},
        {BYTES("\x01\x01\xc3\x80\x01\x28"), 1007},
        {BYTES("\x01\x02\xc3\xa9\x80\x01\xa9"), 1007},
        {BYTES("\x88\x03\x03\xe8\xff"), 1007},
        {BYTES("\x88\x03\x03\xe8\xc3"), 1007},
        // Section 7.4.1: too big, told by the header alone.
        {BYTES("\x82\x7f\x00\x00\x00\x00\x00\x10\x00\x01"), 1009},
        {BYTES("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"), 1009},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "ERROR %d\n", cases[i].code);
        check_client(cases[i].bytes, cases[i].size, expected);
    }
    check_server(BYTES("\x81\x05Hello"), "ERROR 1002\n");
    check_server(BYTES("\x89\x00"), "ERROR 1002\n");
}

static void text_is_refused_at_its_first_bad_byte(void **state)
{
    (void)state;
    struct mare__ws_reader reader;
    char bytes[] = "\x81\x05\xf4\x90";
    size_t used;
    mare__ws_reader_init(&reader, MARE__WS_CLIENT);
    assert_int_equal(mare__ws_read(&reader, bytes, 4, &used), MARE__WS_ERROR);
    assert_int_equal(reader.code, 1007);
    assert_int_equal(mare__ws_read(&reader, bytes, 4, &used), MARE__WS_ERROR); // it stays
    assert_int_equal(used, 0);
}

static void an_error_has_a_reason(void **state)
{
    (void)state;
    static const struct {
        enum mare__ws_role role;
        char bytes[4];
        const char *reason;
    } cases[] = {
        {MARE__WS_SERVER, "\x81\x01", "a frame that is not masked"},
        {MARE__WS_CLIENT, "\x81\x81", "a frame that is masked"},
        {MARE__WS_CLIENT, "\xc1\x01", "a reserved bit is set"},
        {MARE__WS_CLIENT, "\x80\x01", "a continuation of nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__ws_reader reader;
        char bytes[2];
        size_t used;
        memcpy(bytes, cases[i].bytes, 2);
        mare__ws_reader_init(&reader, cases[i].role);
        assert_int_equal(mare__ws_read(&reader, bytes, 2, &used), MARE__WS_ERROR);
        assert_string_equal(reader.reason, cases[i].reason);
    }
}

static void limits(void **state)
{
    (void)state;
    struct setup setup = {.role = MARE__WS_CLIENT, .frame_limit = 3, .message_limit = 5};
    check_with(&setup,
               BYTES("\x82\x03"
                     "abc"),
               "BINARY abc\n");
    check_with(&setup,
               BYTES("\x82\x04"
                     "abcd"),
               "ERROR 1009\n");
    check_with(&setup,
               BYTES("\x02\x03"
                     "abc\x89\x04ping\x80\x02"
                     "de"),
               "PING ping\nBINARY abcde\n");
    check_with(&setup,
               BYTES("\x02\x03"
                     "abc\x80\x03"
                     "def"),
               "ERROR 1009\n");
    check_with(&setup, // each message counts anew
               BYTES("\x02\x03"
                     "abc\x80\x02"
                     "de\x82\x03"
                     "fgh"),
               "BINARY abcde\nBINARY fgh\n");
    check_with(&setup, // the largest, and then nothing more
               BYTES("\x02\x03"
                     "abc\x00\x02"
                     "de\x80\x00"),
               "BINARY abcde\n");
    // A limit that was lowered in the middle of a message.
    struct mare__ws_reader reader;
    char bytes[] = "\x02\x03"
                   "abc\x80\x00";
    size_t used;
    mare__ws_reader_init(&reader, MARE__WS_CLIENT);
    assert_int_equal(mare__ws_read(&reader, bytes, 5, &used), MARE__WS_DATA);
    reader.message_limit = 2;
    assert_int_equal(mare__ws_read(&reader, bytes + 5, 2, &used), MARE__WS_ERROR);
    assert_int_equal(reader.code, 1009);
}

// ---- Writers ------------------------------------------------------------------------------------

static void frames_are_written(void **state)
{
    (void)state;
    struct mare__bytes out = {0};
    assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_TEXT, true, "Hello", 5, mask), 0);
    assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_TEXT, false, "Hel", 3, NULL), 0);
    assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_CONTINUATION, true, "lo", 2, NULL), 0);
    assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_PING, true, NULL, 0, mask), 0);
    assert_int_equal(mare__ws_put_close(&out, 1000, SPAN("ok"), NULL), 0);
    assert_int_equal(mare__ws_put_close(&out, MARE__WS_NO_CODE, SPAN(""), mask), 0);
    static const char expected[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"
                                   "\x01\x03Hel\x80\x02lo"
                                   "\x89\x80\x37\xfa\x21\x3d"
                                   "\x88\x04\x03\xe8ok"
                                   "\x88\x80\x37\xfa\x21\x3d";
    assert_int_equal(out.size, sizeof expected - 1);
    assert_memory_equal(out.at, expected, out.size);
    mare__bytes_fini(&out);
}

static void what_may_not_be_sent_is_refused(void **state)
{
    (void)state;
    static char data[200];
    struct mare__bytes out = {0};
    memset(data, 'a', sizeof data);
    for (int opcode = 0; opcode < 16; opcode++) {
        bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
        bool control = opcode >= 8;
        static const size_t sizes[] = {0, 125, 126};
        for (size_t i = 0; i < 3; i++)
            for (int final = 0; final < 2; final++) {
                bool good = known && (!control || (final && sizes[i] <= 125));
                out.size = 0;
                assert_int_equal(mare__ws_put_frame(&out, (enum mare__ws_opcode)opcode, final, data,
                                                    sizes[i], NULL),
                                 good ? MARE_OK : MARE_INVALID);
                assert_int_equal(out.size > 0, good);
            }
    }
    out.size = 0;
    assert_int_equal(mare__ws_put_close(&out, 1000, (struct mare__span){data, 123}, NULL), 0);
    assert_int_equal(out.size, 127);
    out.size = 0;
    assert_int_equal(mare__ws_put_close(&out, 1000, (struct mare__span){data, 124}, NULL),
                     MARE_INVALID);
    assert_int_equal(mare__ws_put_close(&out, 1000, SPAN("\xff"), NULL), MARE_INVALID);
    assert_int_equal(mare__ws_put_close(&out, 1000, SPAN("\xc3"), NULL), MARE_INVALID);
    assert_int_equal(mare__ws_put_close(&out, MARE__WS_NO_CODE, SPAN("a"), NULL), MARE_INVALID);
    assert_int_equal(out.size, 0);
    mare__bytes_fini(&out);
}

static void masked_frames_of_every_length_are_read_back(void **state)
{
    (void)state;
    for (size_t size = 0; size < 140; size++) {
        char data[140] = {0}, expected[160];
        for (size_t i = 0; i < size; i++)
            data[i] = (char)('a' + i % 26);
        struct mare__bytes out = {0};
        assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_TEXT, true, data, size, mask), 0);
        // Each byte is the text's, combined with its byte of the mask: section 5.3.
        for (size_t i = 0; i < size; i++)
            assert_int_equal((uint8_t)out.at[out.size - size + i], (uint8_t)data[i] ^ mask[i % 4]);
        snprintf(expected, sizeof expected, "TEXT %.*s\n", (int)size, data);
        check_server(out.at, out.size, expected);
        mare__bytes_fini(&out);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct mare__bytes out = {0};
    mare__alloc_fail_after(1);
    assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_TEXT, true, "a", 1, mask), MARE_NOMEM);
    assert_int_equal(mare__ws_put_close(&out, 1000, SPAN("a"), mask), MARE_NOMEM);
    mare__alloc_fail_after(0);
    assert_int_equal(out.size, 0);
    assert_int_equal(mare__ws_put_frame(&out, MARE__WS_OP_TEXT, true, "a", SIZE_MAX - 1, NULL),
                     MARE_NOMEM);
    assert_int_equal(out.size, 0);
}

UNIT_TESTS(cmocka_unit_test(the_examples_of_the_rfc),
           cmocka_unit_test(messages_in_fragments_with_control_frames_between),
           cmocka_unit_test(a_character_may_be_cut_between_fragments),
           cmocka_unit_test(lengths_in_each_form),
           cmocka_unit_test(a_control_frame_of_the_largest_size), cmocka_unit_test(no_bytes_at_all),
           cmocka_unit_test(closes), cmocka_unit_test(codes_of_closes),
           cmocka_unit_test(a_malformed_frame_is_told_with_its_code),
           cmocka_unit_test(text_is_refused_at_its_first_bad_byte),
           cmocka_unit_test(an_error_has_a_reason), cmocka_unit_test(limits),
           cmocka_unit_test(frames_are_written), cmocka_unit_test(what_may_not_be_sent_is_refused),
           cmocka_unit_test(masked_frames_of_every_length_are_read_back),
           cmocka_unit_test(every_allocation_may_fail))
