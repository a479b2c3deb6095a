// SPDX-License-Identifier: MIT
// Accounts: limits that are kept by many threads at once, and objects that somebody pays for.
#include "base/account.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/object.h"
#include "unit.h"

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    return 0;
}

static void a_limit_is_kept(void **state)
{
    (void)state;
    struct mare__account *account = mare__account_new(1000);
    assert_true(mare__account_take(account, 600));
    assert_false(mare__account_take(account, 401));
    assert_false(mare__account_take(account, SIZE_MAX));
    assert_int_equal(mare__account_left(account), 400); // a refusal takes nothing
    assert_true(mare__account_take(account, 400));
    assert_true(mare__account_take(account, 0));
    assert_false(mare__account_take(account, 1));
    mare__account_owe(account, 500); // beyond the limit
    assert_int_equal(mare__account_left(account), 0);
    assert_false(mare__account_take(account, 0));
    mare__account_give(account, 1499);
    assert_int_equal(mare__account_used(account), 1);
    assert_int_equal(mare__account_left(account), 999);
    mare__account_unref(account);
    mare__account_unref(NULL);
    mare__alloc_fail_after(1);
    assert_null(mare__account_new(1));
}

enum { THREADS = 4, ROUNDS = 20000, LIMIT = 100 };

static void *take_and_give(void *shared)
{
    struct mare__account *account = shared;
    uintptr_t taken = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t bytes = 1 + i % LIMIT;
        if (!mare__account_take(account, bytes))
            continue;
        taken++;
        assert_true(mare__account_used(account) <= LIMIT);
        mare__account_give(account, bytes);
    }
    mare__account_unref(account);
    return (void *)taken;
}

static void threads_never_pass_the_limit_together(void **state)
{
    (void)state;
    struct mare__account *account = mare__account_new(LIMIT);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_and_give, mare__account_ref(account));
    for (int i = 0; i < THREADS; i++) {
        void *taken;
        pthread_join(threads[i], &taken);
        assert_true(taken != NULL);
    }
    assert_int_equal(mare__account_used(account), 0);
    mare__account_unref(account);
}

static int destroyed;

static void destroy(struct mare__object *object)
{
    (void)object;
    destroyed++;
}

static void an_object_is_paid_for_until_it_is_destroyed(void **state)
{
    (void)state;
    destroyed = 0;
    struct mare__account *first = mare__account_new(100), *second = mare__account_new(100);
    struct mare__object object;
    mare__object_init(&object, MARE__KIND_BUFFER, destroy);
    mare__object_gains(&object, 60);
    assert_true(mare__object_charge(&object, first));
    assert_true(mare__object_charge(&object, first)); // once
    assert_int_equal(mare__account_used(first), 60);
    mare__object_gains(&object, 30);
    assert_int_equal(mare__account_used(first), 90);
    assert_true(mare__account_take(second, 20));
    assert_false(mare__object_charge(&object, second)); // the first one goes on paying
    assert_int_equal(mare__account_used(first), 90);
    assert_int_equal(mare__account_used(second), 20);
    mare__account_give(second, 20);
    assert_true(mare__object_charge(&object, second));
    assert_int_equal(mare__account_used(first), 0);
    mare__account_unref(first);
    mare__ref(&object);
    mare__unref(&object);
    assert_int_equal(destroyed, 0);
    assert_int_equal(mare__account_used(second), 90);
    mare__unref(&object);
    assert_int_equal(destroyed, 1);
    assert_int_equal(mare__account_used(second), 0);
    mare__account_unref(second);
}

static void nobody_need_pay(void **state)
{
    (void)state;
    destroyed = 0;
    struct mare__account *account = mare__account_new(100);
    struct mare__object object;
    mare__object_init(&object, MARE__KIND_BUFFER, destroy);
    mare__object_gains(&object, SIZE_MAX); // no more than it can say
    assert_true(object.weight == UINT32_MAX);
    assert_false(mare__object_charge(&object, account));
    object.weight = 100;
    assert_true(mare__object_charge(&object, account));
    assert_true(mare__object_charge(&object, NULL));
    assert_int_equal(mare__account_used(account), 0);
    mare__account_unref(account);
    mare__unref(&object);
    assert_int_equal(destroyed, 1);
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(a_limit_is_kept), CASE(threads_never_pass_the_limit_together),
           CASE(an_object_is_paid_for_until_it_is_destroyed), CASE(nobody_need_pay))
