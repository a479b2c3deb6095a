// SPDX-License-Identifier: MIT
// The countdown that makes allocations fail.
#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "unit.h"

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

static void memory_is_usable(void **state)
{
    (void)state;
    char *block = mare__alloc(100), *zeros = mare__alloc_zero(100), none[100] = {0};
    assert_non_null(block);
    assert_memory_equal(zeros, none, sizeof none);
    memset(block, 'x', 100);
    block = mare__realloc(block, 100000);
    for (int i = 0; i < 100; i++)
        assert_int_equal(block[i], 'x');
    mare__free(block);
    mare__free(zeros);
    mare__free(NULL);
}

static void the_nth_fails_and_every_later_one(void **state)
{
    (void)state;
    for (long n = 1; n < 20; n++) {
        mare__alloc_fail_after(n);
        for (long i = 1; i < n; i++) {
            void *block = i % 2 ? mare__alloc(10) : mare__alloc_zero(10);
            assert_non_null(block);
            mare__free(block);
        }
        assert_null(mare__alloc(1));
        assert_null(mare__alloc_zero(1));
        assert_null(mare__realloc(NULL, 1));
        assert_true(mare__alloc_must_fail());
    }
    mare__alloc_fail_after(0);
    assert_false(mare__alloc_must_fail());
    void *block = mare__alloc(1);
    assert_non_null(block);
    mare__free(block);
}

static void the_nth_fails_alone(void **state)
{
    (void)state;
    for (long n = 1; n < 20; n++) {
        mare__alloc_fail_once(n);
        for (long i = 1; i < 2 * n; i++) {
            void *block = mare__alloc(10);
            assert_int_equal(block == NULL, i == n);
            assert_int_equal(mare__alloc_has_failed(), i >= n);
            mare__free(block);
        }
    }
}

static void a_failed_realloc_keeps_the_block(void **state)
{
    (void)state;
    char *block = mare__alloc(4);
    memcpy(block, "abc", 4);
    mare__alloc_fail_after(1);
    assert_null(mare__realloc(block, 1 << 20));
    mare__alloc_fail_after(0);
    assert_string_equal(block, "abc");
    mare__free(block);
}

enum { EACH = 50, THREADS = 2, SUCCEED = 50, ROUNDS = 50000 };

static pthread_barrier_t barrier;
static atomic_int successes;

static void *count_down(void *argument)
{
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier); // the countdown is set
        for (int i = 0; i < EACH; i++)
            if (!mare__alloc_must_fail())
                atomic_fetch_add(&successes, 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

// Several threads share the countdown; none gets an allocation beyond it, not even when two reach
// its end at once.
static void threads_count_down_together(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int wrong = 0;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_down, NULL), 0);
    for (int round = 0; round < ROUNDS; round++) {
        atomic_store(&successes, 0);
        mare__alloc_fail_after(SUCCEED + 1);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        wrong += atomic_load(&successes) != SUCCEED || !mare__alloc_must_fail();
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(wrong, 0);
}

UNIT_TESTS(cmocka_unit_test(memory_is_usable),
           cmocka_unit_test_teardown(the_nth_fails_and_every_later_one, end_countdown),
           cmocka_unit_test_teardown(the_nth_fails_alone, end_countdown),
           cmocka_unit_test_teardown(a_failed_realloc_keeps_the_block, end_countdown),
           cmocka_unit_test_teardown(threads_count_down_together, end_countdown))
