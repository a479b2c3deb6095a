// SPDX-License-Identifier: MIT
// The tick of a worker while it rests (src/sched/worker.c): long rests stop it, short ones do not,
// and one that turns out to be long lets it stop itself.
#include <sched.h>

#include "lua/binding.h"
#include "runtime.h"
#include "sched/runtime.h"

static atomic_uint sets;       // how often a tick was stopped, or started
static atomic_ullong set_last; // to this period

static void note_and_set(void *context, struct mare__tick *tick, uint64_t period_ns)
{
    mare__platform_live.tick_set(context, tick, period_ns);
    atomic_fetch_add(&sets, 1);
    atomic_store(&set_last, period_ns);
}

// A process that answers, on the only worker of its runtime.
struct echo {
    struct mare__platform platform;
    mare_runtime *runtime;
    mare_channel *to, *from;
};

static void start(struct echo *echo)
{
    mare_options options = {.workers = 1};
    echo->platform = mare__platform_live;
    echo->platform.tick_set = note_and_set;
    assert_int_equal(mare__start_on(&echo->platform, &options, &echo->runtime), MARE_OK);
    echo->to = run_channel(echo->runtime, 1);
    echo->from = run_channel(echo->runtime, 1);
    mare_message *arguments = run_message();
    run_add_channel(arguments, echo->to);
    run_add_channel(arguments, echo->from);
    mare_process *process =
        run_spawn(echo->runtime, "local to, from = ... for n in to:messages() do from:send(n) end",
                  arguments);
    mare_message_destroy(arguments);
    mare_process_unref(process);
}

static void stop(struct echo *echo)
{
    mare_chan_unref(echo->to);
    mare_chan_unref(echo->from);
    mare_stop(echo->runtime);
}

// Waits until the worker rests, and ends its rest with a message.
static void wake(struct echo *echo)
{
    while (atomic_load(&echo->runtime->idle_count) == 0)
        sched_yield();
    run_send_integer(echo->runtime, echo->to, 1);
    assert_int_equal(run_receive_integer(echo->runtime, echo->from), 1);
}

// Until most of a row of rests were short: the machine may have other things to do. A tick that is
// stopped in each of them, and started again, is set twice as often as there are rests.
static void rest_briefly(struct echo *echo)
{
    enum { RESTS = 30, ROWS = 2000 };
    unsigned most = RESTS;
    for (int row = 0; row < ROWS && most >= RESTS; row++) {
        unsigned before = atomic_load(&sets);
        for (int i = 0; i < RESTS; i++)
            wake(echo);
        most = atomic_load(&sets) - before;
    }
    assert_true(most < RESTS);
}

static void short_rests_do_not_touch_it(void **state)
{
    (void)state;
    struct echo echo;
    start(&echo);
    rest_briefly(&echo);
    stop(&echo);
}

static void it_stops_itself_in_one_that_is_long(void **state)
{
    (void)state;
    struct echo echo;
    start(&echo);
    for (int i = 0; i < 5; i++) {
        rest_briefly(&echo);
        uint64_t soon = run_soon(echo.runtime);
        while (atomic_load(&set_last) != 0 && mare__now(echo.runtime) < soon)
            sched_yield();
        assert_int_equal(atomic_load(&set_last), 0);
        unsigned before = atomic_load(&sets);
        wake(&echo);
        assert_true(atomic_load(&sets) > before); // it goes on
    }
    stop(&echo);
}

UNIT_TESTS(cmocka_unit_test(short_rests_do_not_touch_it),
           cmocka_unit_test(it_stops_itself_in_one_that_is_long))
