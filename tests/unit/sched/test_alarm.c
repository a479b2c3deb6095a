// SPDX-License-Identifier: MIT
// Timers that programs hold, cancelled and dropped by threads that do not run them, in the moments
// in which they come.
#include <pthread.h>

#include "platform/platform.h"
#include "runtime.h"
#include "sched/alarm.h"
#include "sched/sched.h"

enum { THREADS = 3, ROUNDS = 400, AT_ONCE = 8 };

struct dropper {
    mare_runtime *runtime;
    uint64_t seed;
    bool periodic;
};

static void *make_and_drop(void *argument)
{
    struct dropper *dropper = argument;
    for (int round = 0; round < ROUNDS; round++) {
        struct mare__object *alarms[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            uint64_t period = dropper->periodic ? 1000 + unit_random(&dropper->seed) % 20000 : 0;
            alarms[i] = mare__alarm_new(
                dropper->runtime,
                mare_now_ns(dropper->runtime) + unit_random(&dropper->seed) % 50000, period);
            assert_non_null(alarms[i]);
            if (i % 2)
                assert_non_null(mare__alarm_channel(alarms[i]));
        }
        for (int i = 0; i < AT_ONCE; i++) {
            for (uint64_t spin = unit_random(&dropper->seed) % 500; spin > 0; spin--)
                mare__pause();
            if (i % 3)
                mare__alarm_cancel(alarms[i]);
            mare__unref(alarms[i]); // the only one: it and its channel are freed
        }
    }
    return NULL;
}

static void drop_all(bool periodic)
{
    uint64_t seed = unit_seed();
    mare_runtime *runtime = run_start(2);
    struct dropper droppers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        droppers[i] = (struct dropper){runtime, unit_random(&seed), periodic};
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_drop, &droppers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mare_stop(runtime); // its tasks have run: what is still in the heap would come for ever
}

static void periodic_ones_are_dropped_while_they_come(void **state)
{
    (void)state;
    drop_all(true);
}

static void those_that_come_once_too(void **state)
{
    (void)state;
    drop_all(false);
}

// Cancelled by another thread, it comes no more: not even one that was about to.
static void who_has_cancelled_hears_no_more(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(2);
    for (int i = 0; i < ROUNDS; i++) {
        struct mare__object *alarm = mare__alarm_new(runtime, mare_now_ns(runtime), 1000);
        assert_non_null(alarm);
        mare_channel *channel = mare_chan_ref(mare__alarm_channel(alarm));
        mare_message *message = NULL;
        assert_int_equal(mare_chan_receive_until(channel, &message, run_soon(runtime)), MARE_OK);
        mare_message_destroy(message);
        assert_true(mare__alarm_cancel(alarm));
        assert_false(mare__alarm_cancel(alarm));
        assert_true(mare__alarm_over(alarm));
        mare_err err;
        int left = 0; // one that came before the cancel may stand there
        while ((err = mare_chan_try_receive(channel, &message)) == MARE_OK) {
            mare_message_destroy(message);
            left++;
        }
        assert_int_equal(err, MARE_CLOSED);
        assert_in_range(left, 0, 1);
        mare__unref(alarm);
        mare_chan_unref(channel);
    }
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(periodic_ones_are_dropped_while_they_come),
           cmocka_unit_test(those_that_come_once_too),
           cmocka_unit_test(who_has_cancelled_hears_no_more))
