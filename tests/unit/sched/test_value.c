// SPDX-License-Identifier: MIT
// Tables of messages, seen from C: built here and read by Lua, made by Lua and read here, with what
// is shared, what refers to itself, what is malformed, and no memory at every point.
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "chan/message.h"
#include "runtime.h"

static mare_runtime *runtime;

static int start(void **state)
{
    (void)state;
    runtime = run_start(1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    mare_stop(runtime);
    return 0;
}

static void add_number(mare_message *message, double number)
{
    mare_value value = {.type = MARE_FLOAT, .as.number = number};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
}

static void add_nil(mare_message *message)
{
    mare_value value = {.type = MARE_NIL};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
}

// What a piece of Lua returns; the caller destroys it.
static mare_message *returned(const char *code)
{
    mare_message *result = NULL;
    assert_int_equal(run_join(runtime, run_spawn(runtime, code, NULL), &result), MARE_OK);
    return result;
}

static mare_table table_at(const mare_message *message, size_t index)
{
    mare_value value;
    assert_int_equal(mare_message_get(message, index, &value), MARE_OK);
    assert_int_equal(value.type, MARE_TABLE);
    return value.as.table;
}

static mare_value field(const mare_table *table, const char *name)
{
    mare_value value;
    assert_int_equal(mare_table_get_field(table, name, &value), MARE_OK);
    return value;
}

static mare_value element(const mare_table *table, int64_t index)
{
    mare_value value;
    assert_int_equal(mare_table_get_element(table, index, &value), MARE_OK);
    return value;
}

static void assert_integer(mare_value value, int64_t expected)
{
    assert_int_equal(value.type, MARE_INTEGER);
    assert_int_equal(value.as.integer, expected);
}

static void assert_string(mare_value value, const char *expected)
{
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(value.as.string.length, strlen(expected));
    assert_memory_equal(value.as.string.bytes, expected, strlen(expected));
}

// ---- Building -----------------------------------------------------------------------------------

// {name = "ana", marks = {7, 8.5, {}}, [2] = true}, between two other values.
static mare_err build(mare_message *message)
{
    mare_table pupil, marks, empty;
    mare_value yes = {.type = MARE_BOOLEAN, .as.boolean = true};
    mare_value half = {.type = MARE_FLOAT, .as.number = 8.5};
    mare_err err = mare_message_add_integer(message, 1);
    err = err ? err : mare_message_open_table(message, &pupil);
    err = err ? err : mare_message_add_string(message, "name");
    err = err ? err : mare_message_add_string(message, "ana");
    err = err ? err : mare_message_add_string(message, "marks");
    err = err ? err : mare_message_open_array(message, &marks);
    err = err ? err : mare_message_add_integer(message, 7);
    err = err ? err : mare_message_add(message, &half);
    err = err ? err : mare_message_open_table(message, &empty);
    err = err ? err : mare_message_close_table(&empty);
    err = err ? err : mare_message_close_table(&marks);
    err = err ? err : mare_message_add_integer(message, 2);
    err = err ? err : mare_message_add(message, &yes);
    err = err ? err : mare_message_close_table(&pupil);
    return err ? err : mare_message_add_string(message, "end");
}

static void lua_reads_what_c_builds(void **state)
{
    (void)state;
    mare_message *message = run_message();
    assert_int_equal(build(message), MARE_OK);
    assert_int_equal(mare_message_count(message), 3);
    run_true(runtime,
             "local one, pupil, last = ... "
             "assert(one == 1 and last == 'end') "
             "assert(pupil.name == 'ana' and pupil[2] == true) "
             "assert(#pupil.marks == 3 and pupil.marks[1] == 7 and pupil.marks[2] == 8.5) "
             "assert(next(pupil.marks[3]) == nil) "
             "local n = 0 for _ in pairs(pupil) do n = n + 1 end "
             "return n == 3",
             message);
    mare_message_destroy(message);
}

static void c_reads_what_c_builds(void **state)
{
    (void)state;
    mare_message *message = run_message();
    assert_int_equal(build(message), MARE_OK);
    mare_table pupil = table_at(message, 1);
    assert_string(field(&pupil, "name"), "ana");
    mare_value marks = field(&pupil, "marks");
    assert_int_equal(marks.type, MARE_TABLE);
    assert_int_equal(mare_table_length(&marks.as.table), 3);
    assert_integer(element(&marks.as.table, 1), 7);
    mare_value third = element(&marks.as.table, 3);
    uint64_t position = 0;
    mare_value key, value;
    assert_int_equal(third.type, MARE_TABLE);
    assert_int_equal(mare_table_next(&third.as.table, &position, &key, &value), MARE_EMPTY);
    mare_message_destroy(message);
}

static void references_in_tables_are_counted(void **state)
{
    (void)state;
    mare_channel *channel;
    mare_table box, bad;
    assert_int_equal(mare_chan_create(runtime, 1, NULL, &channel), MARE_OK);
    mare_message *message = run_message();
    assert_int_equal(mare_message_open_table(message, &box), MARE_OK);
    mare_message_add_string(message, "to");
    run_add_channel(message, channel);
    assert_int_equal(mare_message_open_table(message, &bad), MARE_OK);
    run_add_channel(message, channel); // a key without a value
    assert_int_equal(mare_message_close_table(&bad), MARE_INVALID);
    assert_int_equal(mare_message_close_table(&box), MARE_OK);
    mare_table read = table_at(message, 0);
    assert_ptr_equal(field(&read, "to").as.channel, channel);
    run_true(runtime, "local box = ... box.to:send('here') return true", message);
    mare_message_destroy(message);
    assert_int_equal(mare_chan_receive_until(channel, &message, run_soon(runtime)), MARE_OK);
    mare_message_destroy(message);
    mare_chan_unref(channel);
}

static void what_is_no_table_is_refused_and_taken_back(void **state)
{
    (void)state;
    mare_message *message = run_message();
    mare_table table;
    mare_message_add_integer(message, 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mare_message_open_table(message, &table), MARE_OK);
        if (i == 0)
            mare_message_add_string(message, "a key without a value");
        else if (i == 1)
            add_nil(message);
        else
            add_number(message, NAN);
        if (i > 0)
            mare_message_add_integer(message, 1);
        assert_int_equal(mare_message_close_table(&table), MARE_INVALID);
        assert_int_equal(mare_message_count(message), 1);
    }
    mare_value value;
    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    assert_integer(value, 5);
    value.type = MARE_TABLE; // there is nothing to copy from
    assert_int_equal(mare_message_add(message, &value), MARE_INVALID);
    mare_message_destroy(message);
}

static void an_open_table_is_not_sent(void **state)
{
    (void)state;
    mare_channel *channel;
    mare_process *process;
    mare_table outer, inner;
    mare_message *message = run_message();
    assert_int_equal(mare_chan_create(runtime, 1, NULL, &channel), MARE_OK);
    for (int i = 0; i < 9; i++) // more than are counted
        assert_int_equal(mare_message_open_array(message, i == 0 ? &outer : &inner), MARE_OK);
    assert_int_equal(mare_message_close_table(&outer), MARE_INVALID);
    assert_int_equal(mare_chan_try_send(channel, message), MARE_INVALID);
    assert_int_equal(mare_chan_send(channel, message), MARE_INVALID);
    assert_int_equal(mare_spawn(runtime, "", 0, NULL, message, &process, NULL), MARE_INVALID);
    mare_message_destroy(message);
    mare_chan_unref(channel);
}

static void a_lack_of_memory_leaves_a_message_that_can_be_freed(void **state)
{
    (void)state;
    mare_err err = MARE_NOMEM;
    for (int n = 1; err == MARE_NOMEM; n++) {
        mare_message message;
        mare__message_init(&message);
        mare__alloc_fail_after(n);
        err = build(&message);
        mare__alloc_fail_after(0);
        mare__message_clear(&message);
    }
    assert_int_equal(err, MARE_OK);
}

// ---- Reading ------------------------------------------------------------------------------------

static void c_reads_what_lua_makes(void **state)
{
    (void)state;
    mare_message *message = returned("return {10, 20, name = 'x', [1.5] = false, deep = {{42}}}");
    mare_table table = table_at(message, 0);
    assert_int_equal(mare_table_length(&table), 2);
    assert_integer(element(&table, 2), 20);
    assert_int_equal(element(&table, 3).type, MARE_NIL);
    assert_int_equal(element(&table, 0).type, MARE_NIL);
    assert_string(field(&table, "name"), "x");
    assert_int_equal(field(&table, "nam").type, MARE_NIL);
    mare_value half = {.type = MARE_FLOAT, .as.number = 1.5}, value;
    assert_int_equal(mare_table_get(&table, &half, &value), MARE_OK);
    assert_int_equal(value.type, MARE_BOOLEAN);
    assert_false(value.as.boolean);
    half.as.number = 2.0; // as in Lua, the same key as 2
    assert_int_equal(mare_table_get(&table, &half, &value), MARE_OK);
    assert_integer(value, 20);
    mare_value deep = field(&table, "deep");
    deep = element(&deep.as.table, 1);
    assert_integer(element(&deep.as.table, 1), 42);
    mare_message_destroy(message);
}

static void all_pairs_come_once(void **state)
{
    (void)state;
    mare_message *message = returned("local t = {} for i = 1, 50 do t[i] = i * i end "
                                     "for i = 1, 50 do t['k' .. i] = i end return t");
    mare_table table = table_at(message, 0);
    uint64_t position = 0;
    mare_value key, value;
    int64_t elements = 0, sum = 0, pairs = 0;
    while (mare_table_next(&table, &position, &key, &value) == MARE_OK) {
        if (key.type == MARE_INTEGER) {
            assert_integer(key, ++elements); // in order, and first
            assert_int_equal(pairs, 0);
            assert_integer(value, elements * elements);
        } else {
            assert_int_equal(key.type, MARE_STRING);
            sum += value.as.integer;
            pairs++;
        }
    }
    assert_int_equal(elements, 50);
    assert_int_equal(pairs, 50);
    assert_int_equal(sum, 50 * 51 / 2);
    mare_message_destroy(message);
}

static void what_is_shared_is_the_same(void **state)
{
    (void)state;
    // Mixed tables and functions stand before it, so that numbers must be counted out.
    mare_message *message =
        returned("local s = {5, x = {1, 2, y = 3}, f = function() return {} end} "
                 "local me = {s, {a = s.x, 1}, f = s.f} me.me = me return me, s.x, me");
    mare_table me = table_at(message, 0), again = table_at(message, 2);
    mare_value myself = field(&me, "me"), shared = element(&me, 1);
    mare_value other = element(&me, 2), x = field(&shared.as.table, "x");
    mare_value a = field(&other.as.table, "a");
    mare_table third = table_at(message, 1);
    assert_true(mare_table_same(&me, &again));
    assert_int_equal(myself.type, MARE_TABLE);
    assert_true(mare_table_same(&me, &myself.as.table));
    assert_true(mare_table_same(&x.as.table, &a.as.table));
    assert_true(mare_table_same(&x.as.table, &third));
    assert_false(mare_table_same(&x.as.table, &me));
    assert_integer(field(&third, "y"), 3);
    assert_int_equal(field(&me, "f").type, MARE_OTHER); // a function, also the second time
    assert_int_equal(field(&shared.as.table, "f").type, MARE_OTHER);
    mare_message_destroy(message);
}

static void deep_ones_need_no_stack(void **state)
{
    (void)state;
    mare_message *message = returned("local first = {1, k = 2} local t = first "
                                     "for i = 1, 3000 do t = {t, k = i} end return t, first");
    mare_table t = table_at(message, 0), first = table_at(message, 1);
    int depth = 0;
    for (mare_value value = element(&t, 1); value.type == MARE_TABLE; depth++) {
        t = value.as.table;
        value = element(&t, 1);
    }
    assert_int_equal(depth, 3000);
    assert_true(mare_table_same(&t, &first));
    mare_message_destroy(message);
}

static void an_object_is_read_as_its_table(void **state)
{
    (void)state;
    mare_message *message =
        returned("package.preload.shape = function() local M = {} M.__index = M return M end "
                 "local shape = require 'shape' "
                 "local o = setmetatable({side = 3}, shape) return o, o");
    mare_table object = table_at(message, 0), again = table_at(message, 1);
    assert_integer(field(&object, "side"), 3);
    assert_true(mare_table_same(&object, &again));
    mare_message_destroy(message);
}

static void no_memory_for_what_is_shared_is_told(void **state)
{
    (void)state;
    mare_message *message = returned("local s = {1, k = 2} return {s, k = 1}, s");
    mare_value value;
    mare__alloc_fail_after(1);
    assert_int_equal(mare_message_get(message, 1, &value), MARE_NOMEM);
    mare__alloc_fail_after(0);
    assert_int_equal(mare_message_get(message, 1, &value), MARE_OK);
    assert_int_equal(value.type, MARE_TABLE);
    mare_message_destroy(message);
}

// ---- Bytes of others ----------------------------------------------------------------------------

static void a_strangers_tables_are_read(void **state)
{
    (void)state;
    // [1, {"a": 2, "a": 3, 1.0: 4}], 2^64 - 1
    static const uint8_t bytes[] = "\x92\x01\x83\xa1"
                                   "a\x02\xa1"
                                   "a\x03\xcb\x3f\xf0\0\0\0\0\0\0\x04"
                                   "\xcf\xff\xff\xff\xff\xff\xff\xff\xff";
    mare_message *message;
    assert_int_equal(mare_message_parse(bytes, sizeof bytes - 1, &message), MARE_OK);
    mare_table list = table_at(message, 0);
    mare_value map = element(&list, 2), large;
    assert_int_equal(map.type, MARE_TABLE);
    assert_integer(field(&map.as.table, "a"), 3); // as Lua has it: the last
    assert_integer(element(&map.as.table, 1), 4); // and 1.0 is 1
    assert_int_equal(mare_message_get(message, 1, &large), MARE_OK);
    assert_int_equal(large.type, MARE_FLOAT);
    assert_true(large.as.number == 0x1p64);
    mare_message_destroy(message);
}

// Looks at everything, so far down.
static void read_all(const mare_table *table, int depth)
{
    mare_value key, value;
    uint64_t position = 0;
    while (depth > 0 && mare_table_next(table, &position, &key, &value) == MARE_OK) {
        mare_value again;
        mare_table_get(table, &key, &again);
        if (value.type == MARE_TABLE)
            read_all(&value.as.table, depth - 1);
    }
}

static void a_peers_bytes_are_not_trusted(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    mare_message *good = returned("local s = {1, k = {2, 3, x = 'y'}} s.s = s "
                                  "return {s, {s.k, k = s}}, s.k");
    size_t length;
    const uint8_t *bytes = mare_message_bytes(good, &length);
    uint8_t *bad = malloc(length);
    for (int i = 0; i < 3000; i++) {
        mare_message message;
        mare_value value;
        memcpy(bad, bytes, length);
        for (unsigned n = unit_random(&random) % 4 + 1; n > 0; n--)
            bad[unit_random(&random) % length] = (uint8_t)unit_random(&random);
        mare__message_init(&message);
        if (mare__message_accept(&message, bad, length, MARE__TRUST_PEER) != MARE_OK)
            continue;
        for (size_t v = 0; v < mare_message_count(&message); v++)
            if (mare_message_get(&message, v, &value) == MARE_OK && value.type == MARE_TABLE)
                read_all(&value.as.table, 4);
        mare__message_clear(&message);
    }
    free(bad);
    mare_message_destroy(good);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

UNIT_TESTS(CASE(lua_reads_what_c_builds), CASE(c_reads_what_c_builds),
           CASE(references_in_tables_are_counted), CASE(what_is_no_table_is_refused_and_taken_back),
           CASE(an_open_table_is_not_sent),
           CASE(a_lack_of_memory_leaves_a_message_that_can_be_freed), CASE(c_reads_what_lua_makes),
           CASE(all_pairs_come_once), CASE(what_is_shared_is_the_same),
           CASE(deep_ones_need_no_stack), CASE(an_object_is_read_as_its_table),
           CASE(no_memory_for_what_is_shared_is_told), CASE(a_strangers_tables_are_read),
           CASE(a_peers_bytes_are_not_trusted))
