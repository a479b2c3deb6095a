// SPDX-License-Identifier: MIT
// Threads that are no workers: sending and receiving with deadlines, many at once, and messages
// from outside that reach Lua.
#include <pthread.h>
#include <stdatomic.h>

#include "chan/message.h"
#include "runtime.h"

static void try_never_waits(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *channel = run_channel(runtime, 1), *meeting = run_channel(runtime, 0);
    mare_message *message = run_message(), *got = (void *)1;
    assert_int_equal(mare_chan_try_receive(channel, &got), MARE_EMPTY);
    assert_null(got);
    mare_message_add_integer(message, 1);
    assert_int_equal(mare_chan_try_send(meeting, message), MARE_FULL);
    assert_int_equal(mare_chan_try_send(channel, message), MARE_OK);
    assert_int_equal(mare_message_count(message), 0); // it left, and can be used again
    mare_message_add_integer(message, 2);
    assert_int_equal(mare_chan_try_send(channel, message), MARE_FULL);
    assert_int_equal(mare_message_count(message), 1); // it is as it was
    assert_int_equal(mare_chan_try_receive(channel, &got), MARE_OK);
    mare_message_destroy(got);
    assert_true(mare_chan_close(channel));
    assert_false(mare_chan_close(channel));
    assert_int_equal(mare_chan_try_send(channel, message), MARE_CLOSED);
    assert_int_equal(mare_chan_try_receive(channel, &got), MARE_CLOSED);
    mare_message_destroy(message);
    mare_chan_unref(channel);
    mare_chan_unref(meeting);
    mare_stop(runtime);
}

static void deadlines_are_kept(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    mare_channel *channel = run_channel(runtime, 0);
    mare_message *message = run_message(), *got;
    mare_message_add_integer(message, 5);
    for (int i = 0; i < 3; i++) {
        uint64_t deadline = i == 0 ? 0 : mare_deadline_ms(runtime, (uint64_t)i * 3);
        assert_int_equal(mare_chan_send_until(channel, message, deadline), MARE_TIMEOUT);
        assert_true(mare_now_ns(runtime) >= deadline);
        assert_int_equal(mare_message_count(message), 1);
        assert_int_equal(mare_chan_receive_until(channel, &got, deadline), MARE_TIMEOUT);
        assert_null(got);
    }
    // Nothing of those who gave up is left behind.
    assert_int_equal(mare_chan_try_receive(channel, &got), MARE_EMPTY);
    assert_int_equal(mare_chan_try_send(channel, message), MARE_FULL);
    mare_message_destroy(message);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

static void lua_answers_a_thread(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *ask = run_channel(runtime, 0), *answer = run_channel(runtime, 0);
    mare_message *arguments = run_message();
    run_add_channel(arguments, ask);
    run_add_channel(arguments, answer);
    mare_process *process =
        run_spawn(runtime,
                  "local ask, answer = ...\n"
                  "for n in ask:messages() do answer:send(n * 2) end return 'done'",
                  arguments);
    for (int i = 0; i < 2000; i++) {
        run_send_integer(runtime, ask, i);
        assert_int_equal(run_receive_integer(runtime, answer), 2 * i);
    }
    assert_true(mare_chan_close(ask));
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_message_destroy(arguments);
    mare_chan_unref(ask);
    mare_chan_unref(answer);
    mare_stop(runtime);
}

// References travel both ways, and live as long as somebody has them.
static void references_travel(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *channel = run_channel(runtime, 1);
    mare_message *arguments = run_message(), *got = NULL;
    run_add_channel(arguments, channel);
    mare_process *process = run_spawn(runtime,
                                      "local m, c = require 'mare', ...\n"
                                      "local own = m.channel(1) own:send('inside')\n"
                                      "c:send(own, m.self(), c, {1, own})",
                                      arguments);
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    assert_int_equal(mare_chan_receive_until(channel, &got, run_soon(runtime)), MARE_OK);
    mare_value own, self, same, table;
    assert_int_equal(mare_message_get(got, 0, &own), MARE_OK);
    assert_int_equal(mare_message_get(got, 1, &self), MARE_OK);
    assert_int_equal(mare_message_get(got, 2, &same), MARE_OK);
    assert_int_equal(mare_message_get(got, 3, &table), MARE_OK);
    assert_int_equal(own.type, MARE_CHANNEL);
    assert_int_equal(self.type, MARE_PROCESS);
    assert_ptr_equal(same.as.channel, channel);
    assert_int_equal(table.type, MARE_TABLE);
    mare_process *kept = mare_process_ref(self.as.process);
    mare_channel *own_channel = mare_chan_ref(own.as.channel);
    mare_message_destroy(got);
    assert_int_equal(mare_process_join_until(kept, 0, NULL), MARE_OK);
    mare_process_unref(kept);
    assert_int_equal(mare_chan_receive_until(own_channel, &got, run_soon(runtime)), MARE_OK);
    mare_message_destroy(got);
    mare_chan_unref(own_channel);
    mare_message_destroy(arguments);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

// A message with everything, received by C and passed on unread.
static void a_thread_may_pass_on_what_it_cannot_read(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *in = run_channel(runtime, 0), *out = run_channel(runtime, 0);
    mare_message *arguments = run_message(), *message = NULL;
    run_add_channel(arguments, in);
    run_add_channel(arguments, out);
    mare_process *process = run_spawn(
        runtime,
        "local into, out = ...\n"
        "local t = {1, 2, x = {y = 'z'}} t.t = t\n"
        "into:send(t, t, function(a) return t, a end, into, string.rep('s', 1000), print)\n"
        "local a, b, f, c, s, p = out:receive(30)\n"
        "assert(a == b and a.t == a and a.x.y == 'z' and c == into and #s == 1000 and p == print)\n"
        "assert(select(2, f(9)) == 9 and f() == a) return true",
        arguments);
    assert_int_equal(mare_chan_receive_until(in, &message, run_soon(runtime)), MARE_OK);
    assert_int_equal(mare_message_count(message), 6);
    assert_int_equal(mare_chan_send_until(out, message, run_soon(runtime)), MARE_OK);
    mare_message_destroy(message);
    assert_int_equal(run_join(runtime, process, &message), MARE_OK);
    mare_message_destroy(message);
    mare_message_destroy(arguments);
    mare_chan_unref(in);
    mare_chan_unref(out);
    mare_stop(runtime);
}

// ---- Many threads -------------------------------------------------------------------------------

enum { THREADS = 4, MESSAGES = 1500 };

struct crowd {
    mare_runtime *runtime;
    mare_channel *to_lua, *from_lua;
    atomic_llong received, failures;
};

static void *send_many(void *argument)
{
    struct crowd *crowd = argument;
    mare_message *message;
    if (mare_message_create(&message) != MARE_OK)
        atomic_fetch_add(&crowd->failures, 1);
    for (int i = 1; i <= MESSAGES; i++) {
        mare_message_add_integer(message, i);
        while (mare_chan_send_until(crowd->to_lua, message,
                                    mare_deadline_ms(crowd->runtime, i % 3)) == MARE_TIMEOUT)
            ; // again: the message is as it was
    }
    mare_message_destroy(message);
    return NULL;
}

static void *receive_many(void *argument)
{
    struct crowd *crowd = argument;
    mare_message *message;
    mare_value value;
    mare_err err;
    while ((err = mare_chan_receive_until(crowd->from_lua, &message,
                                          mare_deadline_ms(crowd->runtime, 2))) != MARE_CLOSED) {
        if (err == MARE_TIMEOUT)
            continue;
        if (err || mare_message_get(message, 0, &value) || value.type != MARE_INTEGER)
            atomic_fetch_add(&crowd->failures, 1);
        else
            atomic_fetch_add(&crowd->received, value.as.integer);
        if (!err)
            mare_message_destroy(message);
    }
    return NULL;
}

// Numbers from several threads through several processes to several threads: none is lost, none
// comes twice.
static void many_threads_talk_to_many_processes(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity < 8; capacity += 7) {
        struct crowd crowd = {.runtime = run_start(2)};
        crowd.to_lua = run_channel(crowd.runtime, capacity);
        crowd.from_lua = run_channel(crowd.runtime, capacity);
        mare_message *arguments = run_message();
        run_add_channel(arguments, crowd.to_lua);
        run_add_channel(arguments, crowd.from_lua);
        for (int i = 0; i < 3; i++)
            mare_process_unref(run_spawn(crowd.runtime,
                                         "local a, b = ... for n in a:messages() do b:send(n) end",
                                         arguments));
        mare_message_destroy(arguments);
        pthread_t senders[THREADS], receivers[THREADS];
        for (int i = 0; i < THREADS; i++) {
            pthread_create(&senders[i], NULL, send_many, &crowd);
            pthread_create(&receivers[i], NULL, receive_many, &crowd);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(senders[i], NULL);
        mare_chan_close(crowd.to_lua); // the processes take what is left, then end
        assert_int_equal(mare_wait_until(crowd.runtime, run_soon(crowd.runtime)), MARE_OK);
        mare_chan_close(crowd.from_lua);
        for (int i = 0; i < THREADS; i++)
            pthread_join(receivers[i], NULL);
        assert_int_equal(crowd.failures, 0);
        assert_int_equal(crowd.received, (int64_t)THREADS * MESSAGES * (MESSAGES + 1) / 2);
        mare_chan_unref(crowd.to_lua);
        mare_chan_unref(crowd.from_lua);
        mare_stop(crowd.runtime);
    }
}

struct waiter {
    mare_runtime *runtime;
    mare_process *process;
    mare_err err;
};

static void *join_it(void *argument)
{
    struct waiter *waiter = argument;
    waiter->err = mare_process_join_until(waiter->process, run_soon(waiter->runtime), NULL);
    return NULL;
}

static void many_threads_join_one_process(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int round = 0; round < 20; round++) {
        mare_process *process = run_spawn(runtime, "require 'mare'.sleep(0.001) return 1", NULL);
        struct waiter waiters[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            waiters[i] = (struct waiter){runtime, process, MARE_TIMEOUT};
            pthread_create(&threads[i], NULL, join_it, &waiters[i]);
        }
        if (round % 2)
            mare_process_kill(process);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(waiters[i].err, waiters[0].err);
            assert_true(waiters[i].err == MARE_OK || (round % 2 && waiters[i].err == MARE_KILLED));
        }
        mare_process_unref(process);
    }
    mare_stop(runtime);
}

// ---- Bytes from outside, into Lua ---------------------------------------------------------------

// Gives Lua a parsed message, which the check receives.
static void send_bytes(mare_runtime *runtime, const void *bytes, size_t size, const char *check)
{
    mare_channel *channel = run_channel(runtime, 1);
    mare_message *message = NULL, *arguments = run_message();
    assert_int_equal(mare_message_parse(bytes, size, &message), MARE_OK);
    assert_int_equal(mare_chan_send_until(channel, message, run_soon(runtime)), MARE_OK);
    run_add_channel(arguments, channel);
    run_true(runtime, check, arguments);
    mare_message_destroy(message);
    mare_message_destroy(arguments);
    mare_chan_unref(channel);
}

static void plain_messagepack_arrives(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x01, 0xa2, 'h',  'i',  0x93, 0x01, 0xc0, 0x03, 0x81, 0xa1,
                                    'k',  0xc3, 0xca, 0x3f, 0xc0, 0,    0,    0xcf, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc4, 1,    7};
    mare_runtime *runtime = run_start(1);
    send_bytes(
        runtime, bytes, sizeof bytes,
        "local a, s, t, m, f, u, b = (...):receive()\n"
        "assert(a == 1 and s == 'hi' and t[1] == 1 and t[2] == nil and t[3] == 3 and m.k == true)\n"
        "assert(f == 1.5 and u == 2^64 and math.type(u) == 'float' and b == '\\7') return true");
    send_bytes(runtime, "", 0, "return select('#', (...):receive()) == 0");
    mare_stop(runtime);
}

// What is MessagePack but no message: refused by C already, or `badmsg` in Lua.
static void refused(mare_runtime *runtime, const void *bytes, size_t size)
{
    mare_message *message = NULL;
    mare_err err = mare_message_parse(bytes, size, &message);
    if (err) {
        assert_int_equal(err, MARE_BADMSG);
        return;
    }
    mare_message_destroy(message);
    send_bytes(runtime, bytes, size,
               "local value, err, code = (...):receive()\n"
               "assert(value == nil and code == 'badmsg' and err:find('malformed'), err)\n"
               "return true");
}

#define REFUSED(...)                                                                               \
    refused(runtime, (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})

static void what_only_we_may_write_is_malformed(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    for (int kind = -128; kind < 128; kind++)
        REFUSED(0xc7, 12, (uint8_t)kind, 0, 0, 0, 1, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41,
                0x41);
    REFUSED(0x81, 0xc0, 0x01);                            // a nil key
    REFUSED(0x81, 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0, 1); // a NaN as key
    REFUSED(0xc7, 0, 5);                                  // tables with both parts that are not
    REFUSED(0xd4, 5, 0x01);
    REFUSED(0xd5, 5, 0x90, 0x01);
    REFUSED(0xd5, 5, 0x93, 0x01);
    REFUSED(0xd5, 5, 0x92, 0x01, 0x02, 0x80);    // it claims more than its ext holds
    REFUSED(0xc7, 3, 5, 0x90, 0x80, 0x07, 0x08); // it ends before its ext does
    // After all that the receiver still works.
    send_bytes(runtime, "\x91\x07", 2, "return (...):receive()[1] == 7");
    mare_stop(runtime);
}

// A peer may say more than a stranger. Each of its words is checked all the same.
static void what_a_peer_writes_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        bool arrives;
    } cases[] = {
        {"\x92\x90\xd6\x01\0\0\0\x01", 8, true},  // {t, t}
        {"\x92\x90\xd6\x01\0\0\0\x02", 8, false}, // no table has that number
        {"\x92\x90\xd6\x01\xff\xff\xff\xff", 8, false},
        {"\xd6\x01\0\0\0\0", 6, false},            // nor has any other
        {"\x92\x90\xd5\x01\0\x01", 6, false},      // a number of two bytes
        {"\xd4\x02\0", 3, false},                  // globals with something in it
        {"\xd5\x06\xc4\0", 4, false},              // bytecode
        {"\x91\xc7\x05\x07\0\0\0\0\0", 9, false},  // an upvalue without a function
        {"\xc7\x08\x04\xa6string\x01", 11, false}, // a member whose name is a number
    };
    mare_runtime *runtime = run_start(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mare_channel *channel = run_channel(runtime, 1);
        mare_message *message = run_message(), *arguments = run_message();
        assert_int_equal(
            mare__message_accept(message, cases[i].bytes, cases[i].length, MARE__TRUST_PEER),
            MARE_OK);
        assert_int_equal(mare_chan_send_until(channel, message, run_soon(runtime)), MARE_OK);
        run_add_channel(arguments, channel);
        run_true(runtime,
                 cases[i].arrives ? "local list = (...):receive() return list[1] == list[2]"
                                  : "local value, err, code = (...):receive()\n"
                                    "assert(value == nil and code == 'badmsg', code)\n"
                                    "assert(err:find 'malformed' or err:find 'not trusted', err)\n"
                                    "return true",
                 arguments);
        mare_message_destroy(message);
        mare_message_destroy(arguments);
        mare_chan_unref(channel);
    }
    mare_stop(runtime);
}

static void deep_nesting_is_bounded_by_memory(void **state)
{
    (void)state;
    enum { DEPTH = 10000 };
    mare_runtime *runtime = run_start(1);
    uint8_t *bytes = malloc(200 * DEPTH + 1);
    memset(bytes, 0x91, 200 * DEPTH);
    bytes[DEPTH] = 0x07;
    send_bytes(
        runtime, bytes, DEPTH + 1,
        "local t = (...):receive() local n = 0 while type(t) == 'table' do t, n = t[1], n + 1 end\n"
        "return n == 10000 and t == 7");
    // Beyond Lua's own stack: an error, not a crash.
    bytes[DEPTH] = 0x91;
    bytes[200 * DEPTH] = 0x07;
    send_bytes(runtime, bytes, 200 * DEPTH + 1,
               "local value, err, code = (...):receive()\n"
               "return value == nil and type(err) == 'string' and code == 'badmsg'");
    free(bytes);
    mare_stop(runtime);
}

// Lengths are promises: memory is set aside for what is there, not for what is claimed, also inside
// an ext.
static void claims_do_not_cost_memory(void **state)
{
    (void)state;
    enum { SIZE = 20000 };
    mare_runtime *runtime = run_start(1);
    uint8_t *bytes = malloc(SIZE);
    memset(bytes, 0xc0, SIZE);
    memcpy(bytes, (uint8_t[]){0xc8, (SIZE - 4) >> 8, (SIZE - 4) & 255, 5}, 4);
    for (size_t at = 4; at + 5 <= SIZE - 8; at += 5) { // each claims almost all that follows
        uint32_t claim = (uint32_t)(SIZE - at - 5);
        memcpy(bytes + at, (uint8_t[]){0xdd, 0, 0, (uint8_t)(claim >> 8), (uint8_t)claim}, 5);
    }
    mare_message *message = run_message(), *arguments = run_message();
    mare_channel *channel = run_channel(runtime, 1);
    assert_int_equal(mare__message_accept(message, bytes, SIZE, MARE__TRUST_PEER), MARE_OK);
    assert_int_equal(mare_chan_send_until(channel, message, run_soon(runtime)), MARE_OK);
    run_add_channel(arguments, channel);
    // 64 bytes for each byte of the message is generous; what the claims add up to is 600 MB.
    run_true(runtime,
             "local m, c = require 'mare', ...\n"
             "local p = m.spawn({memory = 64 * 20000 + 100000}, function()\n"
             "  local value, err, code = c:receive() return value, err, code end)\n"
             "local ok, value, err, code = p:join(60)\n"
             "assert(ok and value == nil and code == 'badmsg', tostring(value))\n"
             "assert(err:find 'malformed', err) return true",
             arguments);
    mare_message_destroy(message);
    mare_message_destroy(arguments);
    mare_chan_unref(channel);
    free(bytes);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(try_never_waits), cmocka_unit_test(deadlines_are_kept),
           cmocka_unit_test(lua_answers_a_thread), cmocka_unit_test(references_travel),
           cmocka_unit_test(a_thread_may_pass_on_what_it_cannot_read),
           cmocka_unit_test(many_threads_talk_to_many_processes),
           cmocka_unit_test(many_threads_join_one_process),
           cmocka_unit_test(plain_messagepack_arrives),
           cmocka_unit_test(what_only_we_may_write_is_malformed),
           cmocka_unit_test(what_a_peer_writes_is_checked),
           cmocka_unit_test(deep_nesting_is_bounded_by_memory),
           cmocka_unit_test(claims_do_not_cost_memory))
