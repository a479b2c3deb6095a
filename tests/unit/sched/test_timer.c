// SPDX-License-Identifier: MIT
// Deadlines with a runtime that has no workers and a clock that the test turns.
#include <stdlib.h>
#include <string.h>

#include "sched/timer.h"
#include "unit.h"

enum { TIMERS = 200 };

struct fake {
    struct mare__wait wait;
    int woken;
};

static mare_runtime *runtime;

static void wake(struct mare__wait *wait)
{
    MARE__ENTRY(wait, struct fake, wait)->woken++;
}

static void begin(struct fake *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->wait.wake = wake;
    mare__wait_begin(&fake->wait);
    mare__wait_publish(&fake->wait);
}

static void start(struct mare__wait *wait, uint64_t deadline)
{
    mare__lock_acquire(&runtime->timer_lock);
    mare__timer_start(runtime, wait, deadline);
    mare__lock_release(&runtime->timer_lock);
}

static int make_runtime(void **state)
{
    (void)state;
    runtime = calloc(1, sizeof *runtime);
    atomic_init(&runtime->next_deadline, MARE_FOREVER);
    return runtime == NULL;
}

static int free_runtime(void **state)
{
    (void)state;
    free(runtime);
    return 0;
}

static void they_end_in_order(void **state)
{
    (void)state;
    struct fake fakes[TIMERS];
    for (uint64_t i = 0; i < TIMERS; i++) {
        begin(&fakes[i]);
        start(&fakes[i].wait, 1000 + i * 7919 % TIMERS);
    }
    assert_int_equal(runtime->timer_count, TIMERS);
    assert_int_equal(runtime->next_deadline, 1000);
    mare__timer_expire(runtime, 999);
    assert_int_equal(runtime->timer_count, TIMERS);
    for (uint64_t now = 1000; now < 1000 + TIMERS; now++) {
        mare__timer_expire(runtime, now);
        for (uint64_t i = 0; i < TIMERS; i++)
            assert_int_equal(fakes[i].woken, 1000 + i * 7919 % TIMERS <= now);
        assert_int_equal(runtime->timer_count, 1000 + TIMERS - 1 - now);
        assert_true(runtime->next_deadline == (runtime->timer_count ? now + 1 : MARE_FOREVER));
    }
    for (int i = 0; i < TIMERS; i++) {
        assert_int_equal(fakes[i].wait.result, MARE_TIMEOUT);
        assert_int_equal(fakes[i].wait.fired, MARE__FIRED_NONE);
        assert_false(mare__heap_holds(&fakes[i].wait.timer));
    }
}

static void a_stopped_one_does_not_end(void **state)
{
    (void)state;
    struct fake a, b;
    begin(&a);
    begin(&b);
    start(&a.wait, 10);
    start(&b.wait, 20);
    mare__timer_stop(runtime, &a.wait);
    mare__timer_stop(runtime, &a.wait); // twice is nothing
    assert_int_equal(runtime->next_deadline, 20);
    assert_int_equal(runtime->timer_count, 1);
    mare__timer_expire(runtime, 15);
    mare__timer_expire(runtime, 20);
    assert_int_equal(a.woken, 0);
    assert_int_equal(b.woken, 1);
    mare__timer_stop(runtime, &b.wait); // after its end
    assert_int_equal(runtime->timer_count, 0);
}

static void a_wait_that_has_ended_is_not_ended_again(void **state)
{
    (void)state;
    struct fake f;
    begin(&f);
    start(&f.wait, 10);
    assert_true(mare__wait_end(&f.wait, MARE_KILLED));
    mare__timer_expire(runtime, 10);
    assert_int_equal(f.woken, 1);
    assert_int_equal(f.wait.result, MARE_KILLED);
    assert_int_equal(runtime->timer_count, 0);
}

static void the_end_of_the_runtime_ends_them_all(void **state)
{
    (void)state;
    struct fake fakes[3];
    for (uint64_t i = 0; i < 3; i++) {
        begin(&fakes[i]);
        start(&fakes[i].wait, MARE_FOREVER - 2 + i);
    }
    mare__timer_expire(runtime, MARE_FOREVER);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fakes[i].woken, 1);
        assert_int_equal(fakes[i].wait.result, MARE_STOPPED);
    }
    mare__timer_expire(runtime, MARE_FOREVER); // and none is left
}

static void random_operations_agree_with_an_array(void **state)
{
    (void)state;
    uint64_t random = unit_seed(), now = 0, deadline[TIMERS] = {0}; // 0: none
    struct fake *fakes = calloc(TIMERS, sizeof *fakes);
    for (int step = 0; step < 20000; step++) {
        size_t i = unit_random(&random) % TIMERS;
        if (unit_random(&random) % 8 == 0) {
            now += unit_random(&random) % 50;
            mare__timer_expire(runtime, now);
            for (size_t k = 0; k < TIMERS; k++) {
                bool due = deadline[k] && deadline[k] <= now;
                if (due != (deadline[k] && fakes[k].woken))
                    fail_msg("timer %zu of %zu at %zu", k, (size_t)deadline[k], (size_t)now);
                if (due)
                    deadline[k] = 0;
            }
        } else if (deadline[i]) {
            mare__timer_stop(runtime, &fakes[i].wait);
            deadline[i] = 0;
        } else {
            begin(&fakes[i]);
            deadline[i] = now + 1 + unit_random(&random) % 300;
            start(&fakes[i].wait, deadline[i]);
        }
    }
    free(fakes);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_runtime, free_runtime)

UNIT_TESTS(CASE(they_end_in_order), CASE(a_stopped_one_does_not_end),
           CASE(a_wait_that_has_ended_is_not_ended_again),
           CASE(the_end_of_the_runtime_ends_them_all), CASE(random_operations_agree_with_an_array))
