// SPDX-License-Identifier: MIT
// A wait by itself: published, claimed once, ended, cancelled.
#include "fake.h"

static void a_published_wait_is_claimed_once(void **state)
{
    (void)state;
    struct fake f;
    fake_init(&f);
    assert_int_equal(word(&f), MARE__WAIT_IDLE);
    assert_false(mare__wait_claim(&f.wait)); // not before it is published
    assert_false(mare__wait_end(&f.wait, MARE_TIMEOUT));
    assert_true(mare__wait_publish(&f.wait));
    assert_int_equal(word(&f), MARE__WAIT_WAITING);
    assert_int_equal(f.wait.fired, MARE__FIRED_NONE);
    assert_int_equal(f.wait.result, MARE_OK);
    assert_true(mare__wait_claim(&f.wait));
    assert_int_equal(word(&f), MARE__WAIT_ENDED);
    assert_false(mare__wait_claim(&f.wait));
    assert_false(mare__wait_end(&f.wait, MARE_TIMEOUT));
    assert_int_equal(f.woken, 0); // that is the claimant's affair
    mare__wait_begin(&f.wait);
    assert_int_equal(word(&f), MARE__WAIT_IDLE);
    assert_true(mare__wait_publish(&f.wait)); // and again
    assert_true(mare__wait_end(&f.wait, MARE_TIMEOUT));
    assert_int_equal(f.woken, 1);
    assert_int_equal(f.wait.result, MARE_TIMEOUT);
    assert_int_equal(f.wait.fired, MARE__FIRED_NONE);
}

static void a_cancelled_owner_waits_no_more(void **state)
{
    (void)state;
    struct fake f;
    fake_init(&f);
    assert_true(mare__wait_publish(&f.wait));
    mare__wait_cancel(&f.wait);
    assert_int_equal(f.woken, 1);
    assert_int_equal(f.wait.result, MARE_KILLED);
    mare__wait_cancel(&f.wait); // once is enough
    assert_int_equal(f.woken, 1);
    fake_init(&f);
    mare__wait_cancel(&f.wait); // while it runs
    assert_int_equal(f.woken, 0);
    for (int i = 0; i < 2; i++) {
        mare__wait_begin(&f.wait);
        assert_false(mare__wait_publish(&f.wait));
        assert_int_equal(f.wait.result, MARE_KILLED);
        assert_int_equal(f.woken, 0); // it is awake
        assert_false(mare__wait_claim(&f.wait));
    }
}

static void an_interruption_ends_one_wait(void **state)
{
    (void)state;
    struct fake f;
    fake_init(&f);
    assert_true(mare__wait_publish(&f.wait));
    mare__wait_interrupt(&f.wait);
    assert_int_equal(f.woken, 1);
    assert_int_equal(f.wait.result, MARE_CANCELLED);
    mare__wait_begin(&f.wait);
    assert_true(mare__wait_publish(&f.wait)); // the next is a wait as any other
    assert_true(mare__wait_end(&f.wait, MARE_OK));
    mare__wait_begin(&f.wait);
    mare__wait_interrupt(&f.wait); // while it runs: the next one, and only that
    assert_false(mare__wait_publish(&f.wait));
    assert_int_equal(f.wait.result, MARE_CANCELLED);
    mare__wait_begin(&f.wait);
    assert_true(mare__wait_publish(&f.wait));
    assert_true(mare__wait_end(&f.wait, MARE_OK));
    mare__wait_interrupt(&f.wait);
    assert_true(mare__wait_heed(&f.wait)); // where it runs
    assert_false(mare__wait_heed(&f.wait));
    mare__wait_cancel(&f.wait);
    mare__wait_interrupt(&f.wait); // who was killed stays killed
    mare__wait_begin(&f.wait);
    assert_false(mare__wait_publish(&f.wait));
    assert_int_equal(f.wait.result, MARE_KILLED);
}

// ---- Two threads --------------------------------------------------------------------------------

// One that waits, and waits again, until it is killed; it counts what has interrupted it.
struct sleeper {
    struct mare__wait wait;
    atomic_bool woken;
    atomic_uint interrupted;
};

static void wake_sleeper(struct mare__wait *wait)
{
    atomic_store(&MARE__ENTRY(wait, struct sleeper, wait)->woken, true);
}

static void *sleep_again_and_again(void *argument)
{
    struct sleeper *sleeper = argument;
    do {
        mare__wait_begin(&sleeper->wait);
        if (mare__wait_publish(&sleeper->wait)) {
            while (!atomic_load(&sleeper->woken))
                mare__pause();
            atomic_store(&sleeper->woken, false);
        }
        if (sleeper->wait.result == MARE_CANCELLED)
            atomic_fetch_add(&sleeper->interrupted, 1);
    } while (sleeper->wait.result != MARE_KILLED);
    return NULL;
}

// Each comes while the sleeper begins its next wait: it is seen once, there or as it publishes.
static void an_interruption_has_one_effect(void **state)
{
    (void)state;
    enum { TIMES = 20000 };
    struct sleeper sleeper = {.wait.wake = wake_sleeper};
    pthread_t thread;
    mare__barrier_init();
    assert_int_equal(pthread_create(&thread, NULL, sleep_again_and_again, &sleeper), 0);
    for (unsigned i = 1; i <= TIMES; i++) {
        mare__wait_interrupt(&sleeper.wait);
        while (atomic_load(&sleeper.interrupted) < i)
            mare__pause();
    }
    mare__wait_cancel(&sleeper.wait);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&sleeper.interrupted), TIMES);
}

UNIT_TESTS(cmocka_unit_test(a_published_wait_is_claimed_once),
           cmocka_unit_test(a_cancelled_owner_waits_no_more),
           cmocka_unit_test(an_interruption_ends_one_wait),
           cmocka_unit_test(an_interruption_has_one_effect))
