// SPDX-License-Identifier: MIT
// Everything at once, for a few seconds (MARE_STRESS_SECONDS for longer), made for ThreadSanitizer.
// Threads and processes send, receive, select, run into deadlines, close channels under each
// other's feet, die and are killed.
//
// What must hold: every number that was sent is received once or found in the buffer of a closed
// channel.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "runtime.h"

enum { THREADS = 6, CHANNELS = 8 };

// A channel that threads share; now and then one of them closes it and puts a new one in its place.
struct slot {
    pthread_mutex_t mutex;
    mare_channel *channel;
};

static struct {
    mare_runtime *runtime;
    uint64_t seed, until;
    struct slot slots[CHANNELS];
    atomic_llong sent, received, sent_sum, received_sum, next;
    atomic_int failures;
    mare_err failure;
} stress;

static uint64_t stress_end(const mare_runtime *runtime)
{
    const char *seconds = getenv("MARE_STRESS_SECONDS");
    return mare_deadline_ms(runtime, seconds ? strtoull(seconds, NULL, 10) * 1000 / 2 : 1500);
}

static void failed(mare_err err)
{
    stress.failure = err;
    atomic_fetch_add(&stress.failures, 1);
}

static mare_channel *pick(uint64_t *random)
{
    struct slot *slot = &stress.slots[unit_random(random) % CHANNELS];
    pthread_mutex_lock(&slot->mutex);
    mare_channel *channel = mare_chan_ref(slot->channel);
    pthread_mutex_unlock(&slot->mutex);
    return channel;
}

// ---- Threads ------------------------------------------------------------------------------------

static void send_one(mare_channel *channel, uint64_t *random)
{
    mare_message *message;
    int64_t number = atomic_fetch_add(&stress.next, 1);
    uint64_t how = unit_random(random) % 8;
    mare_err err = mare_message_create(&message);
    if (!err)
        err = mare_message_add_integer(message, number);
    if (!err && how == 7) { // large now and then
        static const char text[3000];
        mare_value value = {.type = MARE_STRING, .as.string = {text, sizeof text}};
        err = mare_message_add(message, &value);
    }
    if (!err)
        err =
            how < 3
                ? mare_chan_try_send(channel, message)
                : mare_chan_send_until(channel, message,
                                       mare_now_ns(stress.runtime) + unit_random(random) % 300000);
    if (err == MARE_OK) {
        atomic_fetch_add(&stress.sent, 1);
        atomic_fetch_add(&stress.sent_sum, number);
        if (mare_message_count(message) != 0)
            failed(MARE_INVALID);
    } else if ((err != MARE_TIMEOUT && err != MARE_FULL && err != MARE_CLOSED) ||
               mare_message_count(message) == 0) { // it must be as it was
        failed(err);
    }
    mare_message_destroy(message);
}

static mare_err receive_one(mare_channel *channel, uint64_t *random, bool wait)
{
    mare_message *message = NULL;
    mare_value value;
    mare_err err =
        wait ? mare_chan_receive_until(channel, &message,
                                       mare_now_ns(stress.runtime) + unit_random(random) % 300000)
             : mare_chan_try_receive(channel, &message);
    if (err == MARE_OK) {
        if (mare_message_get(message, 0, &value) || value.type != MARE_INTEGER)
            failed(MARE_BADMSG);
        atomic_fetch_add(&stress.received, 1);
        atomic_fetch_add(&stress.received_sum, value.as.integer);
        mare_message_destroy(message);
    } else if (err != MARE_TIMEOUT && err != MARE_EMPTY && err != MARE_CLOSED) {
        failed(err);
    }
    return err;
}

static void close_and_drain(mare_channel *channel, uint64_t *random)
{
    mare_chan_close(channel);
    while (receive_one(channel, random, false) == MARE_OK)
        ;
    mare_chan_unref(channel);
}

static void replace(uint64_t *random)
{
    struct slot *slot = &stress.slots[unit_random(random) % CHANNELS];
    mare_channel *fresh;
    mare_err err = mare_chan_create(stress.runtime, unit_random(random) % 4, NULL, &fresh);
    if (err) {
        failed(err);
        return;
    }
    pthread_mutex_lock(&slot->mutex);
    mare_channel *old = slot->channel;
    slot->channel = fresh;
    pthread_mutex_unlock(&slot->mutex);
    close_and_drain(old, random);
}

// Until the time is up, and long enough for something to have happened.
static bool goes_on(void)
{
    return mare_now_ns(stress.runtime) < stress.until ||
           (stress.received < 100 && stress.failures == 0);
}

static void *thread_main(void *argument)
{
    uint64_t random = stress.seed + (uintptr_t)argument;
    while (goes_on()) {
        uint64_t what = unit_random(&random) % 100;
        if (what < 3) {
            replace(&random);
            continue;
        }
        mare_channel *channel = pick(&random);
        if (what < 50)
            send_one(channel, &random);
        else
            receive_one(channel, &random, what < 80);
        mare_chan_unref(channel);
    }
    return NULL;
}

static void begin(unsigned workers)
{
    stress.seed = unit_seed();
    stress.runtime = run_start(workers);
    stress.until = stress_end(stress.runtime);
    stress.sent = stress.received = stress.sent_sum = stress.received_sum = 0;
    stress.failures = 0;
    stress.next = 1;
    for (int i = 0; i < CHANNELS; i++) {
        pthread_mutex_init(&stress.slots[i].mutex, NULL);
        stress.slots[i].channel = run_channel(stress.runtime, (size_t)i % 4);
    }
}

static void run_threads(void *(*main)(void *))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, main, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void drain_all(void)
{
    uint64_t random = 1;
    for (int i = 0; i < CHANNELS; i++) {
        close_and_drain(stress.slots[i].channel, &random);
        pthread_mutex_destroy(&stress.slots[i].mutex);
    }
}

static void conclude(void)
{
    printf("# %lld messages\n", (long long)stress.received);
    if (stress.failures)
        fail_msg("%d failures, the last: %s", stress.failures, mare_strerror(stress.failure));
    assert_int_equal(stress.sent, stress.received);
    assert_int_equal(stress.sent_sum, stress.received_sum);
    mare_stop(stress.runtime);
}

static void threads_alone(void **state)
{
    (void)state;
    begin(1);
    run_threads(thread_main);
    drain_all();
    conclude();
}

// ---- Threads and processes ----------------------------------------------------------------------

// Numbers go from the threads through processes, which select, and back. The first half of the
// channels leads to Lua, the second back; nobody closes them before the end.
static void *feed(void *argument)
{
    uint64_t random = stress.seed + 100 + (uintptr_t)argument;
    while (goes_on()) {
        size_t which = unit_random(&random) % (CHANNELS / 2);
        if (unit_random(&random) % 2)
            send_one(stress.slots[which].channel, &random);
        else
            receive_one(stress.slots[CHANNELS / 2 + which].channel, &random,
                        unit_random(&random) % 2);
    }
    return NULL;
}

static void *receive_the_rest(void *argument)
{
    uint64_t random = 7;
    atomic_bool *over = argument;
    while (!atomic_load(over))
        for (int i = CHANNELS / 2; i < CHANNELS; i++)
            receive_one(stress.slots[i].channel, &random, true);
    return NULL;
}

static const char forwarder[] =
    "local m = require 'mare'\n"
    "local ins, outs = {}, {}\n"
    "for i, c in ipairs{...} do\n"
    "  local to = i <= select('#', ...) / 2 and ins or outs to[#to + 1] = c\n"
    "end\n"
    "local turn = 0\n"
    "while #ins > 0 do\n"
    "  turn = turn + 1\n"
    "  local which, n, rest, code = m.select(ins, turn % 3 == 0 and 0.0001 or nil)\n"
    "  if not which then assert(rest == 'timeout', rest)\n"
    "  elseif n == nil then assert(code == 'closed', code) table.remove(ins, which)\n"
    "  elseif turn % 2 == 0 then assert(outs[turn % #outs + 1]:send(n, rest))\n"
    "  else\n"
    "    local cases = {} for i = 1, #outs do cases[i] = {outs[i], n, rest} end\n"
    "    local done = m.select(cases) assert(done)\n"
    "  end\n"
    "  if turn % 50 == 0 then m.spawn(function(a) return a end, turn):join() end\n"
    "end return true";

static void threads_and_processes(void **state)
{
    (void)state;
    enum { FORWARDERS = 5 };
    begin(3);
    mare_message *arguments = run_message();
    for (int i = 0; i < CHANNELS; i++)
        run_add_channel(arguments, stress.slots[i].channel);
    mare_process *processes[FORWARDERS];
    for (int i = 0; i < FORWARDERS; i++)
        processes[i] = run_spawn(stress.runtime, forwarder, arguments);
    mare_message_destroy(arguments);
    run_threads(feed);
    atomic_bool over = false;
    pthread_t rest;
    assert_int_equal(pthread_create(&rest, NULL, receive_the_rest, &over), 0);
    for (int i = 0; i < CHANNELS / 2; i++)
        mare_chan_close(stress.slots[i].channel);
    for (int i = 0; i < FORWARDERS; i++) {
        mare_message *result = NULL;
        mare_value value = {.type = MARE_NIL};
        mare_err err = run_join(stress.runtime, processes[i], &result);
        if (result)
            mare_message_get(result, 0, &value);
        if (err)
            fail_msg("a process: %s: %.*s", mare_strerror(err),
                     value.type == MARE_STRING ? (int)value.as.string.length : 0,
                     value.as.string.bytes);
        mare_message_destroy(result);
    }
    atomic_store(&over, true);
    pthread_join(rest, NULL);
    drain_all();
    conclude();
}

// ---- Births and deaths --------------------------------------------------------------------------

static const char *const lives[] = {
    "return 1",
    "local c = ... c:sendwithin(0.001, 1)",
    "local c = ... c:receive(0.001)",
    NULL, // a loop without end
    "require 'mare'.sleep(10)",
    "error 'on purpose'",
    "local m, c = require 'mare', ... m.select({c, {c, 1}, m.spawn('return 2')}, 0.002)",
    ("local c = ...\n"
     "local x <close> = setmetatable({}, {__close = function() c:trysend(0) end}) c:receive()"),
    ("local m, c = require 'mare', ...\n"
     "m.spawn({entry = true}, function() m.self():kill() end) c:receive(1)"),
    "coroutine.wrap(function(c) for n in c:messages() do end end)(...)",
};

static void *live_and_let_die(void *argument)
{
    uint64_t random = stress.seed + 200 + (uintptr_t)argument;
    while (mare_now_ns(stress.runtime) < stress.until) {
        const char *code = lives[unit_random(&random) % (sizeof lives / sizeof *lives)];
        code = code ? code : run_spin();
        mare_message *arguments = NULL;
        mare_process *process;
        mare_channel *channel = pick(&random);
        mare_value value = {.type = MARE_CHANNEL, .as.channel = channel};
        mare_err err = mare_message_create(&arguments);
        if (!err)
            err = mare_message_add(arguments, &value);
        if (!err)
            err =
                mare_spawn(stress.runtime, code, strlen(code), "=life", arguments, &process, NULL);
        mare_message_destroy(arguments);
        if (err) {
            failed(err);
            mare_chan_unref(channel);
            break;
        }
        uint64_t r = unit_random(&random);
        if (r % 3 == 0)
            mare_process_kill(process);
        mare_process_join_until(process, mare_now_ns(stress.runtime) + (r >> 8) % 2000000, NULL);
        mare_process_kill(process);
        err = mare_process_join_until(process, run_soon(stress.runtime), NULL);
        if (err != MARE_OK && err != MARE_DIED && err != MARE_KILLED)
            failed(err);
        mare_process_unref(process);
        mare_chan_unref(channel);
        if (r % 16 == 0)
            replace(&random);
        if (r % 32 == 1 && mare_set_workers(stress.runtime, 1 + (unsigned)(r >> 40) % 4))
            failed(MARE_INVALID);
        if (r % 32 == 2)
            mare_set_recycle(stress.runtime, (unsigned)(r >> 40) % 8);
        atomic_fetch_add(&stress.next, 1);
    }
    return NULL;
}

static void births_and_deaths(void **state)
{
    (void)state;
    begin(2);
    run_threads(live_and_let_die);
    printf("# %lld processes\n", (long long)stress.next);
    assert_int_equal(stress.failures, 0);
    drain_all();
    mare_stop(stress.runtime);
}

UNIT_TESTS(cmocka_unit_test(threads_alone), cmocka_unit_test(threads_and_processes),
           cmocka_unit_test(births_and_deaths))
