// SPDX-License-Identifier: MIT
// What counts against the limit of a process's memory, to the byte where that can be said, and that
// all of it is given back, whichever way things go.
#include "chan/directory.h"
#include "runtime.h"
#include "sched/process.h"
#include "sched/runtime.h"

// A process with a limit waits for a channel; then it does what the code says: `m`, `c` and `n` are
// the module, the channel "mail" with room for many messages, and a number.
static const char *const frame =
    "local m = require 'mare'\n"
    "local c, code, n = m.find 'mail', ...\n"
    "local gate = m.channel(0, 'gate')\n"
    "local p = m.spawn({memory = 2 << 20, name = 'limited'}, function(text)\n"
    "  gate:receive()\n"
    "  return load(text)(m, c, n)\n"
    "end, code)\n"
    "m.channel(0, 'ready'):receive()\n"
    "return p:join()";

static mare_message *strings_and(const char *text, int64_t number)
{
    mare_message *message = NULL;
    assert_int_equal(mare_message_create(&message), MARE_OK);
    assert_int_equal(mare_message_add_string(message, text), MARE_OK);
    mare_value value = {.type = MARE_INTEGER, .as.integer = number};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
    return message;
}

static mare_channel *find(mare_runtime *runtime, const char *name)
{
    mare_channel *channel = NULL;
    uint64_t deadline = run_soon(runtime);
    while (mare_chan_find(runtime, name, &channel) != MARE_OK)
        assert_true(mare_now_ns(runtime) < deadline);
    return channel;
}

// Sends an empty message.
static void tell(mare_runtime *runtime, const char *name)
{
    mare_message *message = NULL;
    mare_channel *channel = find(runtime, name);
    assert_int_equal(mare_message_create(&message), MARE_OK);
    assert_int_equal(mare_chan_send_until(channel, message, run_soon(runtime)), MARE_OK);
    mare_message_destroy(message);
    mare_chan_unref(channel);
}

// Runs a limited process to its end, and gives its account and the channel, with what still waits.
static struct mare__account *play(mare_runtime *runtime, const char *code, int64_t number,
                                  mare_channel **mail)
{
    mare_message *arguments = strings_and(code, number), *result = NULL;
    assert_int_equal(mare_chan_create(runtime, 1 << 20, "mail", mail), MARE_OK);
    mare_process *outer = run_spawn(runtime, frame, arguments);
    mare_message_destroy(arguments);
    mare_chan_unref(find(runtime, "ready"));
    mare_process *limited = (mare_process *)mare__directory_find(runtime->names, "limited");
    assert_non_null(limited);
    struct mare__account *account = mare__account_ref(mare__local_of(limited)->account);
    mare_process_unref(limited);
    tell(runtime, "gate");
    tell(runtime, "ready");
    assert_int_equal(run_join(runtime, outer, &result), MARE_OK);
    mare_message_destroy(result);
    return account;
}

// After the end: neither its state nor what it held.
static void only_what_is_on_its_way_counts_after_the_end(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    mare_channel *mail;
    struct mare__account *account = play(runtime, "", 0, &mail);
    assert_int_equal(mare__account_used(account), 0);
    mare_chan_unref(mail);
    mare__account_unref(account);
    mare_stop(runtime);
}

static void everything_is_given_back(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "local m, c, n = ... for i = 1, n do c:send(('x'):rep(1000)) end",
        "local m, c, n = ... for i = 1, n do c:send(m.buffer(1000), {m.buffer(10)}) end",
        "local m, c, n = ... while true do c:send(('x'):rep(1000)) end", // until it dies
        "local m, c, n = ... while true do c:send(m.buffer(1000)) end",
        "local m, c, n = ... local t = {} while true do t[#t + 1] = m.buffer(5000) end",
        "local m, c, n = ... local d = m.channel(1 << 30) c:send(d) while true do d:send(1) end",
        "local m, c, n = ... for i = 1, n do c:send(m.spawn('return ...', ('a'):rep(500))) end",
        "local m, c, n = ... c:send(m.buffer(500), m.buffer(500)) c:receive() c:close()",
        "local m, c, n = ... setmetatable({}, {__gc = function() c:send(('g'):rep(999)) end})",
        "local m, c, n = ... return ('r'):rep(100000), m.buffer(100000)",
        "local m, c, n = ... local t = {} for i = 1, 999 do t[i] = ('r'):rep(9999) end return t",
        "error(('e'):rep(100000))",
        "local m, c = ... local p = m.spawn(m.sleep, 9) p:link() for _ = 1, 99 do p:monitor(c) end",
        "local m, c, n = ... local p = m.spawn(m.sleep, 3600) while true do p:monitor(c) end",
        "local m, c, n = ... for i = 1, n do m.spawn({monitor = c, link = true}, 'return 1') end",
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        mare_runtime *runtime = run_start(1 + (unsigned)i % 2);
        mare_channel *mail;
        struct mare__account *account = play(runtime, codes[i], 100, &mail);
        mare_chan_unref(mail);
        mare_stop(runtime); // with what still waits
        if (mare__account_used(account) != 0)
            fail_msg("%s: %zu bytes", codes[i], mare__account_used(account));
        mare__account_unref(account);
    }
}

// What waits counts by its size, and is given back when it is received, after the sender's end too.
static void mail_counts_until_it_is_received(void **state)
{
    (void)state;
    enum { COUNT = 50, SIZE = 10000 };
    static const char *const codes[] = {
        "local m, c, n = ... for i = 1, n do c:send(('x'):rep(10000)) end",
        "local m, c, n = ... for i = 1, n do c:send(m.buffer(10000)) end"};
    for (int i = 0; i < 2; i++) {
        mare_runtime *runtime = run_start(2);
        mare_channel *mail;
        struct mare__account *account = play(runtime, codes[i], COUNT, &mail);
        for (int left = COUNT; left > 0; left--) {
            assert_in_range(mare__account_used(account), (size_t)left * SIZE,
                            (size_t)left * SIZE * 2);
            mare_message *message = NULL;
            assert_int_equal(mare_chan_try_receive(mail, &message), MARE_OK);
            mare_message_destroy(message);
        }
        assert_int_equal(mare__account_used(account), 0);
        mare_chan_unref(mail);
        mare__account_unref(account);
        mare_stop(runtime);
    }
}

UNIT_TESTS(cmocka_unit_test(only_what_is_on_its_way_counts_after_the_end),
           cmocka_unit_test(everything_is_given_back),
           cmocka_unit_test(mail_counts_until_it_is_received))
