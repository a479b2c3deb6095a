// SPDX-License-Identifier: MIT
// Messages: small and large, their references and the chain that finds them, copying, joining,
// parsing.
#include "chan/message.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "chan/channel.h"
#include "unit.h"

static int ended; // objects that came to their end

static void count_end(struct mare__object *object)
{
    (void)object;
    ended++;
}

// Objects whose references are looked at.
enum { OBJECTS = 5 };
static struct mare__object objects[OBJECTS];

static int make_objects(void **state)
{
    (void)state;
    ended = 0;
    for (int i = 0; i < OBJECTS; i++)
        mare__object_init(&objects[i], MARE__KIND_BUFFER, count_end);
    return 0;
}

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

static unsigned references(int i)
{
    return atomic_load(&objects[i].references);
}

static void append_string(mare_message *message, const char *bytes, size_t length)
{
    mare_value value = {.type = MARE_STRING, .as.string = {bytes, length}};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
}

// The objects in the chain, last first, end with -1.
static void assert_chain(const mare_message *message, const int *expected)
{
    uint32_t at = message->handles;
    for (; *expected >= 0; expected++) {
        assert_true(at > 0 && at - 1 + sizeof(struct mare__handle) <= message->length);
        struct mare__handle handle;
        memcpy(&handle, mare__message_data(message) + at - 1, sizeof handle);
        assert_ptr_equal(handle.object, &objects[*expected]);
        assert_ptr_equal(mare__handle_object(mare__message_data(message) + at - 1),
                         &objects[*expected]);
        assert_int_equal(mare__message_data(message)[at - 1 - MARE__PACK_EXT], 0xc9);
        at = handle.previous;
    }
    assert_int_equal(at, 0);
}

// ---- Small and large ----------------------------------------------------------------------------

static void a_new_message_is_empty(void **state)
{
    (void)state;
    mare_message *message;
    mare_value value;
    size_t length = 1;
    assert_int_equal(mare_message_create(&message), MARE_OK);
    assert_int_equal(mare_message_count(message), 0);
    assert_non_null(mare_message_bytes(message, &length));
    assert_int_equal(length, 0);
    assert_true(mare__message_empty(message));
    assert_int_equal(mare_message_get(message, 0, &value), MARE_INVALID);
    mare_message_destroy(message);
    mare_message_destroy(NULL);
}

static void small_ones_need_no_memory(void **state)
{
    (void)state;
    mare_message message;
    mare__message_init(&message);
    mare__alloc_fail_after(1);
    uint8_t bytes[MARE__MESSAGE_SMALL];
    memset(bytes, 7, sizeof bytes);
    assert_true(mare__message_append(&message, bytes, sizeof bytes));
    assert_false(mare__message_append(&message, bytes, 1)); // and no room is left
    assert_int_equal(message.length, sizeof bytes);
    assert_memory_equal(mare__message_data(&message), bytes, sizeof bytes);
    mare__alloc_fail_after(0);
    assert_true(mare__message_append(&message, bytes, 1)); // the failure did no harm
    assert_int_equal(message.length, sizeof bytes + 1);
    assert_memory_equal(mare__message_data(&message), bytes, sizeof bytes);
    mare__message_clear(&message);
}

static void growing_keeps_every_byte(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    mare_message message;
    mare__message_init(&message);
    uint8_t *model = malloc(1 << 20);
    size_t length = 0;
    while (length < (1 << 19)) {
        size_t size = unit_random(&random) % (length + 3);
        for (size_t i = 0; i < size; i++)
            model[length + i] = (uint8_t)unit_random(&random);
        assert_true(mare__message_append(&message, model + length, size));
        length += size;
        assert_int_equal(message.length, length);
        assert_memory_equal(mare__message_data(&message), model, length);
    }
    mare__message_clear(&message);
    assert_true(mare__message_empty(&message));
    assert_int_equal(message.capacity, 0);
    free(model);
}

static void there_is_a_largest_message(void **state)
{
    (void)state;
    mare_message message;
    mare__message_init(&message);
    mare_value huge = {.type = MARE_STRING, .as.string = {"", (size_t)MARE__MESSAGE_MAX}};
    assert_int_equal(mare_message_add(&message, &huge), MARE_TOOBIG);
    huge.as.string.length = SIZE_MAX;
    assert_int_equal(mare_message_add(&message, &huge), MARE_TOOBIG);
    assert_null(mare__message_room(&message, (size_t)MARE__MESSAGE_MAX + 1));
    assert_null(mare__message_room(&message, SIZE_MAX));
    assert_true(mare__message_empty(&message));
}

static void moving_leaves_nothing(void **state)
{
    (void)state;
    for (size_t length = 0; length < 400; length += 13) {
        mare_message from, to;
        mare__message_init(&from);
        mare__message_init(&to);
        char bytes[400];
        memset(bytes, 'm', sizeof bytes);
        append_string(&from, bytes, length);
        assert_true(mare__message_append_handle(&from, &objects[0]));
        from.count++;
        size_t size = from.length;
        mare__message_move(&to, &from);
        assert_true(mare__message_empty(&from));
        assert_int_equal(from.handles, 0);
        assert_int_equal(from.count, 0);
        assert_int_equal(from.capacity, 0);
        assert_int_equal(to.length, size);
        assert_int_equal(to.count, 2);
        assert_chain(&to, (int[]){0, -1});
        assert_int_equal(references(0), 2); // moved, not copied
        mare__message_clear(&from);
        mare__message_clear(&to);
        assert_int_equal(references(0), 1);
    }
}

// ---- References ---------------------------------------------------------------------------------

static void a_message_holds_what_it_refers_to(void **state)
{
    (void)state;
    mare_message message;
    mare__message_init(&message);
    for (int i = 0; i < OBJECTS; i++) {
        assert_true(mare__message_append_handle(&message, &objects[i]));
        assert_true(mare__message_append_handle(&message, &objects[0]));
    }
    assert_int_equal(references(0), 2 + OBJECTS);
    assert_int_equal(references(1), 2);
    assert_chain(&message, (int[]){0, 4, 0, 3, 0, 2, 0, 1, 0, 0, -1});
    for (int i = 0; i < OBJECTS; i++)
        mare__unref(&objects[i]); // now only the message has them
    assert_int_equal(ended, 0);
    mare__message_clear(&message);
    assert_int_equal(ended, OBJECTS);
}

static void a_reference_that_finds_no_memory_is_not_taken(void **state)
{
    (void)state;
    mare_message message;
    mare__message_init(&message);
    mare__alloc_fail_after(1);
    while (mare__message_append_handle(&message, &objects[0]))
        ;
    unsigned held = references(0) - 1;
    assert_int_equal(message.length, held * (MARE__PACK_EXT + sizeof(struct mare__handle)));
    mare__message_clear(&message);
    assert_int_equal(references(0), 1);
}

// Bytes are moved up to make room for a header in front of them: walk.c does that for tables
// with both parts.
static void shifting_moves_only_what_lies_behind(void **state)
{
    (void)state;
    static const int last_to_first[] = {4, 3, 2, 1, 0, -1};
    enum { GAP = 6 };
    for (int first = 0; first <= OBJECTS; first++) { // the first one that moves; at OBJECTS none
        mare_message message;
        uint32_t starts[OBJECTS + 1];
        mare__message_init(&message);
        for (int i = 0; i < OBJECTS; i++) {
            append_string(&message, "between", 7);
            starts[i] = message.length;
            assert_true(mare__message_append_handle(&message, &objects[i]));
        }
        starts[OBJECTS] = message.length;
        uint32_t length = message.length - starts[first];
        assert_true(mare__message_append(&message, "123456", GAP));
        uint8_t *start = (uint8_t *)mare__message_data(&message) + starts[first];
        memmove(start + GAP, start, length);
        mare__message_shift_handles(&message, starts[first], GAP);
        assert_chain(&message, last_to_first);
        mare__message_clear(&message);
        for (int i = 0; i < OBJECTS; i++)
            assert_int_equal(references(i), 1);
    }
}

static void a_copy_has_references_of_its_own(void **state)
{
    (void)state;
    for (size_t length = 0; length < 400; length += 57) {
        mare_message from, to;
        char bytes[400];
        memset(bytes, 'c', sizeof bytes);
        mare__message_init(&from);
        append_string(&from, bytes, length);
        for (int i = 0; i < 3; i++)
            assert_true(mare__message_append_handle(&from, &objects[i]));
        from.count += 3;
        from.rich = from.repeats = true;
        assert_true(mare__message_copy(&to, &from));
        assert_int_equal(to.length, from.length);
        assert_memory_equal(mare__message_data(&to), mare__message_data(&from), from.length);
        assert_int_equal(to.count, 4);
        assert_true(to.rich && to.repeats && to.trust == MARE__TRUST_OWN);
        assert_int_equal(references(2), 3);
        mare__message_clear(&from);
        assert_int_equal(references(2), 2);
        assert_chain(&to, (int[]){2, 1, 0, -1});
        mare__message_clear(&to);
        assert_int_equal(references(2), 1);
    }
}

static void a_copy_that_finds_no_memory_takes_nothing(void **state)
{
    (void)state;
    mare_message from, to;
    mare__message_init(&from);
    for (int i = 0; i < OBJECTS; i++)
        assert_true(mare__message_append_handle(&from, &objects[i]));
    mare__alloc_fail_after(1);
    assert_false(mare__message_copy(&to, &from));
    assert_int_equal(references(0), 2);
    mare__message_clear(&to);
    assert_int_equal(references(0), 2);
    mare__message_clear(&from);
}

static void what_was_appended_is_taken_back(void **state)
{
    (void)state;
    mare_message message;
    mare__message_init(&message);
    assert_true(mare__message_append_handle(&message, &objects[0]));
    message.count++;
    uint32_t length = message.length;
    for (int i = 0; i < 3; i++, message.count++)
        assert_true(mare__message_append_handle(&message, &objects[i]));
    assert_int_equal(references(0), 3);
    mare__message_truncate(&message, length, 1);
    assert_int_equal(message.count, 1);
    assert_int_equal(references(0), 2);
    assert_int_equal(references(1), 1);
    assert_chain(&message, (int[]){0, -1});
    mare__message_clear(&message);
    assert_int_equal(references(0), 1);
}

// Kind, and what is inside: MIXED (5) and others are looked into, whatever the depth.
static void a_peer_cannot_make_references(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        mare_err err;
    } cases[] = {
        {"\x01\xa1x", 3, MARE_OK},
        {"\xc7\x04\x01\0\0\0\0", 7, MARE_OK},                 // a repetition
        {"\xc7\x03\x05\x91\x01\x80", 6, MARE_OK},             // a mixed table
        {"\xd4\x09\x01", 3, MARE_BADMSG},                     // a reference
        {"\xc7\x05\x05\x91\xd4\x09\x01\x80", 8, MARE_BADMSG}, // inside a table
        {"\xd4\x7f\x01", 3, MARE_BADMSG},                     // no kind of ours
        {"\xd4\xff\x01", 3, MARE_BADMSG},
        {"\xc7\x03\x05\x91\xa5\x80", 6, MARE_BADMSG}, // a string beyond the end
        {"\x92\x01", 2, MARE_BADMSG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mare_message message;
        mare__message_init(&message);
        mare_err err =
            mare__message_accept(&message, cases[i].bytes, cases[i].length, MARE__TRUST_PEER);
        assert_int_equal(err, cases[i].err);
        assert_int_equal(message.length, err ? 0 : cases[i].length);
        if (!err)
            assert_int_equal(message.trust, MARE__TRUST_PEER);
        mare__message_clear(&message);
    }
}

static struct mare__object *resolve_last(void *context, const uint8_t *payload)
{
    (void)payload;
    return context ? mare__ref(context) : NULL;
}

// A block with these bytes behind the room that a message needs before them.
static void *block_of(const char *bytes, size_t length)
{
    uint8_t *block = mare__alloc(MARE__MESSAGE_RESERVE + length);
    assert_non_null(block);
    memcpy(block + MARE__MESSAGE_RESERVE, bytes, length);
    return block;
}

static void an_adopted_block_is_not_copied(void **state)
{
    (void)state;
    const char bytes[] = "\xa3one\xc9\0\0\0\x0c\x09????????????\x02"; // with a reference
    size_t length = sizeof bytes - 1;
    mare_message message;
    mare__message_init(&message);
    void *block = block_of(bytes, length), *own = block;
    assert_int_equal(mare__message_adopt_with(&message, &block, length, MARE__TRUST_PEER,
                                              resolve_last, &objects[0]),
                     MARE_OK);
    assert_null(block);
    assert_ptr_equal(mare__message_data(&message), (uint8_t *)own + MARE__MESSAGE_RESERVE);
    assert_int_equal(message.length, length);
    assert_int_equal(message.count, 3);
    assert_int_equal(message.trust, MARE__TRUST_PEER);
    assert_chain(&message, (int[]){0, -1});
    assert_int_equal(references(0), 2);
    for (int i = 0; i < 100; i++) // it grows as others do
        append_string(&message, "another", 7);
    assert_memory_equal(mare__message_data(&message), "\xa3one", 4);
    assert_chain(&message, (int[]){0, -1});
    mare__message_clear(&message);
    assert_int_equal(references(0), 1);
}

static void what_cannot_be_adopted_stays_the_callers(void **state)
{
    (void)state;
    static const char *const bad[] = {"\xd4\x7f\x01", "\x92\x01", "\xa5x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mare_message message;
        mare__message_init(&message);
        void *block = block_of(bad[i], strlen(bad[i]));
        assert_int_equal(mare__message_adopt_with(&message, &block, strlen(bad[i]),
                                                  MARE__TRUST_PEER, NULL, NULL),
                         MARE_BADMSG);
        assert_non_null(block);
        assert_true(mare__message_empty(&message));
        mare__free(block);
    }
    // A reference to nothing is found too late for that: all of it is given back.
    mare_message message;
    mare__message_init(&message);
    void *block = block_of("\xc7\x0c\x09????????????", 15);
    assert_int_equal(
        mare__message_adopt_with(&message, &block, 15, MARE__TRUST_PEER, resolve_last, NULL),
        MARE_BADMSG);
    assert_null(block);
    assert_true(mare__message_empty(&message));
}

static void joining_ties_both_chains(void **state)
{
    (void)state;
    for (int left = 0; left <= 2; left++)
        for (int right = 0; right <= 3; right++) {
            mare_message a, b;
            mare__message_init(&a);
            mare__message_init(&b);
            assert_int_equal(mare_message_add_integer(&a, 1), MARE_OK);
            assert_int_equal(mare_message_add_integer(&b, 2), MARE_OK);
            for (int i = 0; i < left; i++, a.count++)
                assert_true(mare__message_append_handle(&a, &objects[i]));
            for (int i = 0; i < right; i++, b.count++)
                assert_true(mare__message_append_handle(&b, &objects[2 + i]));
            assert_true(mare__message_join(&a, &b));
            assert_int_equal(mare_message_count(&a), 2 + left + right);
            int expected[6], n = 0;
            for (int i = right; i > 0; i--)
                expected[n++] = 1 + i;
            for (int i = left; i > 0; i--)
                expected[n++] = i - 1;
            expected[n] = -1;
            assert_chain(&a, expected);
            mare_value value;
            assert_int_equal(mare_message_get(&a, (size_t)left + 1, &value), MARE_OK);
            assert_int_equal(value.as.integer, 2);
            assert_int_equal(references(2), right > 0 ? 3 : 1);
            mare__message_clear(&b);
            mare__message_clear(&a);
            for (int i = 0; i < OBJECTS; i++)
                assert_int_equal(references(i), 1);
        }
}

// ---- Values seen from C -------------------------------------------------------------------------

static void every_type_comes_back(void **state)
{
    (void)state;
    mare_channel *channel = mare__chan_new(NULL, 0);
    mare_message *message;
    mare_value value = {.type = MARE_NIL};
    assert_int_equal(mare_message_create(&message), MARE_OK);
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
    value = (mare_value){.type = MARE_BOOLEAN, .as.boolean = true};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
    assert_int_equal(mare_message_add_integer(message, INT64_MIN), MARE_OK);
    value = (mare_value){.type = MARE_FLOAT, .as.number = 3.0};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
    assert_int_equal(mare_message_add_string(message, "text"), MARE_OK);
    append_string(message, "a\0b", 3);
    value = (mare_value){.type = MARE_CHANNEL, .as.channel = channel};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
    value.type = MARE_OTHER;
    assert_int_equal(mare_message_add(message, &value), MARE_INVALID);
    assert_int_equal(mare_message_count(message), 7);

    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    assert_int_equal(value.type, MARE_NIL);
    assert_int_equal(mare_message_get(message, 1, &value), MARE_OK);
    assert_int_equal(value.type, MARE_BOOLEAN);
    assert_true(value.as.boolean);
    assert_int_equal(mare_message_get(message, 2, &value), MARE_OK);
    assert_int_equal(value.type, MARE_INTEGER);
    assert_true(value.as.integer == INT64_MIN);
    assert_int_equal(mare_message_get(message, 3, &value), MARE_OK);
    assert_int_equal(value.type, MARE_FLOAT);
    assert_true(value.as.number == 3.0);
    assert_int_equal(mare_message_get(message, 4, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(value.as.string.length, 4);
    assert_memory_equal(value.as.string.bytes, "text", 4);
    assert_int_equal(mare_message_get(message, 5, &value), MARE_OK);
    assert_int_equal(value.as.string.length, 3);
    assert_memory_equal(value.as.string.bytes, "a\0b", 3);
    assert_int_equal(mare_message_get(message, 6, &value), MARE_OK);
    assert_int_equal(value.type, MARE_CHANNEL);
    assert_ptr_equal(value.as.channel, channel);
    assert_int_equal(mare_message_get(message, 7, &value), MARE_INVALID);
    assert_int_equal(mare_message_get(message, SIZE_MAX, &value), MARE_INVALID);
    mare_message_destroy(message);
    mare_chan_unref(channel);
}

static void adding_without_memory_changes_nothing(void **state)
{
    (void)state;
    mare_message *message, *none = (void *)1;
    char text[2 * MARE__MESSAGE_FIRST];
    memset(text, 't', sizeof text);
    mare_value value = {.type = MARE_STRING, .as.string = {text, sizeof text}};
    mare_message_create(&message);
    mare_message_add_integer(message, 5);
    mare__alloc_fail_after(1);
    assert_int_equal(mare_message_add(message, &value), MARE_NOMEM);
    assert_int_equal(mare_message_create(&none), MARE_NOMEM);
    assert_int_equal(mare_message_count(message), 1);
    mare__alloc_fail_after(0);
    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    assert_int_equal(value.as.integer, 5);
    mare_message_destroy(message);
}

// ---- Bytes from elsewhere -----------------------------------------------------------------------

static void bytes_are_parsed_and_given_back(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x01, 0xa2, 'h',  'i',  0x92, 0x01, 0x02, 0xcf,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                    0x81, 0xa1, 'k',  0xc3, 0xc4, 1,    0};
    mare_message *message;
    mare_value value;
    size_t length;
    assert_int_equal(mare_message_parse(bytes, sizeof bytes, &message), MARE_OK);
    assert_int_equal(mare_message_count(message), 6);
    assert_memory_equal(mare_message_bytes(message, &length), bytes, sizeof bytes);
    assert_int_equal(length, sizeof bytes);
    assert_int_equal(mare_message_get(message, 1, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(mare_message_get(message, 2, &value), MARE_OK);
    assert_int_equal(value.type, MARE_TABLE);
    assert_int_equal(mare_message_get(message, 3, &value), MARE_OK);
    assert_int_equal(value.type, MARE_FLOAT); // too large for an integer: as Lua reads it
    assert_int_equal(mare_message_get(message, 5, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(value.as.string.length, 1);
    mare_message_destroy(message);
}

static void no_bytes_are_an_empty_message(void **state)
{
    (void)state;
    mare_message *message;
    assert_int_equal(mare_message_parse("", 0, &message), MARE_OK);
    assert_int_equal(mare_message_count(message), 0);
    mare_message_destroy(message);
}

static void malformed_bytes_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        uint8_t bytes[8];
    } cases[] = {{1, {0xc1}},
                 {1, {0x91}},
                 {2, {0x01, 0xa1}},
                 {2, {0x81, 0x01}},
                 {1, {0xcb}},
                 {2, {0xd9, 1}},
                 {3, {0xc7, 1, 9}},
                 {2, {0x01, 0xc1}},
                 {2, {0xd4, 9}},
                 {3, {0x92, 1, 0xc1}},
                 {5, {0xdd, 0, 0, 0, 1}},
                 {5, {0xdd, 255, 255, 255, 255}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mare_message *message = NULL;
        uint8_t *exact = malloc(cases[i].size);
        memcpy(exact, cases[i].bytes, cases[i].size);
        assert_int_equal(mare_message_parse(exact, cases[i].size, &message), MARE_BADMSG);
        free(exact);
    }
}

// A stranger may write an ext that looks like our references, code or tables. It must never be
// taken for one.
static void an_ext_from_outside_is_refused(void **state)
{
    (void)state;
    for (int kind = -128; kind < 128; kind++) {
        uint8_t bytes[MARE__PACK_EXT + sizeof(struct mare__handle)],
            inside[2 + sizeof bytes] = {0x92, 0x01};
        mare__pack_ext_header(bytes, (int8_t)kind, sizeof(struct mare__handle));
        memset(bytes + MARE__PACK_EXT, 0x41, sizeof(struct mare__handle));
        memcpy(inside + 2, bytes, sizeof bytes);
        mare_message *message = NULL;
        assert_int_equal(mare_message_parse(bytes, sizeof bytes, &message), MARE_BADMSG);
        assert_int_equal(mare_message_parse(inside, sizeof inside, &message), MARE_BADMSG);
    }
}

static void parsing_without_memory_leaves_nothing(void **state)
{
    (void)state;
    static uint8_t bytes[MARE__MESSAGE_FIRST];
    mare_message *message;
    memset(bytes, 0xc0, sizeof bytes);
    for (long n = 1; n <= 2; n++) {
        mare__alloc_fail_after(n);
        assert_int_equal(mare_message_parse(bytes, sizeof bytes, &message), MARE_NOMEM);
    }
    mare__alloc_fail_after(0);
    assert_int_equal(mare_message_parse(bytes, sizeof bytes, &message), MARE_OK);
    mare_message_destroy(message);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_objects, end_countdown)

UNIT_TESTS(CASE(a_new_message_is_empty), CASE(small_ones_need_no_memory),
           CASE(growing_keeps_every_byte), CASE(there_is_a_largest_message),
           CASE(moving_leaves_nothing), CASE(a_message_holds_what_it_refers_to),
           CASE(a_reference_that_finds_no_memory_is_not_taken),
           CASE(shifting_moves_only_what_lies_behind), CASE(a_copy_has_references_of_its_own),
           CASE(a_copy_that_finds_no_memory_takes_nothing), CASE(what_was_appended_is_taken_back),
           CASE(a_peer_cannot_make_references), CASE(an_adopted_block_is_not_copied),
           CASE(what_cannot_be_adopted_stays_the_callers), CASE(joining_ties_both_chains),
           CASE(every_type_comes_back), CASE(adding_without_memory_changes_nothing),
           CASE(bytes_are_parsed_and_given_back), CASE(no_bytes_are_an_empty_message),
           CASE(malformed_bytes_are_refused), CASE(an_ext_from_outside_is_refused),
           CASE(parsing_without_memory_leaves_nothing))
