// SPDX-License-Identifier: MIT
// For unit tests that run Lua processes through the public interface: shorthands that fail the case
// when something unexpected happens, and deadlines so generous that to miss one is to hang.
#pragma once

#include <mare.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

// There when the program runs under ThreadSanitizer.
extern void __tsan_init(void) __attribute__((weak));
extern void __asan_init(void) __attribute__((weak));

// A loop without end that can be interrupted. ThreadSanitizer holds signals back until the program
// calls something it watches, so that there the loop must allocate.
static inline const char *run_spin(void)
{
    return __tsan_init ? "while true do local t = {} end" : "while true do end";
}

static inline mare_runtime *run_start(unsigned workers)
{
    mare_options options = {.workers = workers};
    mare_runtime *runtime = NULL;
    assert_int_equal(mare_start(&options, &runtime), MARE_OK);
    assert_non_null(runtime);
    return runtime;
}

// A deadline that only a hang misses.
static inline uint64_t run_soon(const mare_runtime *runtime)
{
    return mare_deadline_ms(runtime, 30000u * unit_slow());
}

static inline mare_process *run_spawn(mare_runtime *runtime, const char *code,
                                      const mare_message *arguments)
{
    mare_process *process = NULL;
    char *error = NULL;
    mare_err err = mare_spawn(runtime, code, strlen(code), "=test", arguments, &process, &error);
    if (err)
        fail_msg("spawn: %s (%s)", mare_strerror(err), error ? error : "");
    return process;
}

// Waits for the end and gives the process back. The result is the caller's.
static inline mare_err run_join(mare_runtime *runtime, mare_process *process, mare_message **result)
{
    mare_err err = mare_process_join_until(process, run_soon(runtime), result);
    assert_int_not_equal(err, MARE_TIMEOUT);
    mare_process_unref(process);
    return err;
}

// Runs code to its end; it must return true.
static inline void run_true(mare_runtime *runtime, const char *code, const mare_message *arguments)
{
    mare_message *result = NULL;
    mare_value value = {.type = MARE_NIL};
    mare_err err = run_join(runtime, run_spawn(runtime, code, arguments), &result);
    if (result)
        mare_message_get(result, 0, &value);
    if (err || value.type != MARE_BOOLEAN || !value.as.boolean)
        fail_msg("%s: %.*s", mare_strerror(err),
                 value.type == MARE_STRING ? (int)value.as.string.length : 8,
                 value.type == MARE_STRING ? value.as.string.bytes : "not true");
    mare_message_destroy(result);
}

static inline mare_message *run_message(void)
{
    mare_message *message = NULL;
    assert_int_equal(mare_message_create(&message), MARE_OK);
    return message;
}

static inline void run_add_channel(mare_message *message, mare_channel *channel)
{
    mare_value value = {.type = MARE_CHANNEL, .as.channel = channel};
    assert_int_equal(mare_message_add(message, &value), MARE_OK);
}

static inline mare_channel *run_channel(mare_runtime *runtime, size_t capacity)
{
    mare_channel *channel = NULL;
    assert_int_equal(mare_chan_create(runtime, capacity, NULL, &channel), MARE_OK);
    return channel;
}

static inline void run_send_integer(mare_runtime *runtime, mare_channel *channel, int64_t number)
{
    mare_message *message = run_message();
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
    assert_int_equal(mare_chan_send_until(channel, message, run_soon(runtime)), MARE_OK);
    assert_int_equal(mare_message_count(message), 0);
    mare_message_destroy(message);
}

static inline int64_t run_receive_integer(mare_runtime *runtime, mare_channel *channel)
{
    mare_message *message = NULL;
    mare_value value;
    assert_int_equal(mare_chan_receive_until(channel, &message, run_soon(runtime)), MARE_OK);
    assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
    assert_int_equal(value.type, MARE_INTEGER);
    mare_message_destroy(message);
    return value.as.integer;
}
