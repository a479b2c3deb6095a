// SPDX-License-Identifier: MIT
// When a worker looks for events instead of sleeping (src/sched/vigil.h).
#include "sched/vigil.h"

#include "unit.h"

enum { SHORT_US = 100, MIDDLE_US = 400, LONG_US = 2000, IN_VAIN_US = 1000 };

static uint64_t us(uint64_t n)
{
    return n * 1000;
}

static bool keeps_one_after(struct mare__vigil *vigil, int rests, uint64_t rest_us)
{
    for (int i = 0; i < rests; i++)
        mare__vigil_rested(vigil, us(rest_us));
    return mare__vigil_begin(vigil, us(1));
}

// How many short rests until it keeps one.
static int rests_needed(struct mare__vigil *vigil)
{
    int rests = 0;
    for (; !keeps_one_after(vigil, 1, SHORT_US); rests++)
        assert_true(rests < 1 << 20);
    return rests + 1;
}

// Looks each microsecond; returns after how many it gave up.
static uint64_t lasts_us(struct mare__vigil *vigil)
{
    uint64_t now = 1;
    while (mare__vigil_goes_on(vigil, us(now)))
        now++;
    return now - 1;
}

static void only_after_short_rests(void **state)
{
    (void)state;
    struct mare__vigil vigil;
    mare__vigil_init(&vigil, true);
    assert_false(mare__vigil_begin(&vigil, us(1)));
    assert_false(keeps_one_after(&vigil, 100, LONG_US));
    assert_true(keeps_one_after(&vigil, 100, SHORT_US));
    assert_false(keeps_one_after(&vigil, 1, LONG_US)); // one long rest, and it sleeps again
}

static void never_if_it_may_not(void **state)
{
    (void)state;
    struct mare__vigil vigil;
    mare__vigil_init(&vigil, false);
    assert_false(keeps_one_after(&vigil, 1000, SHORT_US));
}

// So a worker whose events come too late for it looks for a small part of the time only.
static void one_in_vain_ends_them(void **state)
{
    (void)state;
    struct mare__vigil vigil;
    mare__vigil_init(&vigil, true);
    int needed = rests_needed(&vigil);
    assert_true(lasts_us(&vigil) <= IN_VAIN_US);
    assert_false(mare__vigil_begin(&vigil, us(1)));
    assert_int_equal(rests_needed(&vigil), needed);
}

// Peers that answer a little too late for it are waited for longer, as long as that pays.
static void a_little_longer_when_that_pays(void **state)
{
    (void)state;
    struct mare__vigil vigil;
    mare__vigil_init(&vigil, true);
    rests_needed(&vigil);
    uint64_t usual = lasts_us(&vigil);
    assert_true(keeps_one_after(&vigil, 100, MIDDLE_US));
    assert_int_equal(lasts_us(&vigil), usual); // it would have had to be far longer
    rests_needed(&vigil);                      // the first comes soon after
    uint64_t longer = lasts_us(&vigil);
    assert_true(longer > usual && longer <= IN_VAIN_US);
    rests_needed(&vigil);
    assert_int_equal(lasts_us(&vigil), usual);
}

static void goes_on_while_it_pays(void **state)
{
    (void)state;
    struct mare__vigil vigil;
    mare__vigil_init(&vigil, true);
    rests_needed(&vigil);
    for (int i = 0; i < 1000; i++) {
        assert_true(mare__vigil_begin(&vigil, us(1)));
        assert_true(mare__vigil_goes_on(&vigil, us(2)));
        mare__vigil_paid(&vigil);
    }
}

// Each time that somebody else had the processor, it takes four times as long until the next; what
// pays makes it shorter again.
static void whoever_else_computes_comes_first(void **state)
{
    (void)state;
    struct mare__vigil vigil;
    mare__vigil_init(&vigil, true);
    int first = rests_needed(&vigil);
    int needed = first;
    for (int i = 0; i < 20; i++) {
        assert_false(mare__vigil_goes_on(&vigil, us(3000)));
        int next = rests_needed(&vigil);
        assert_true(next == 4 * needed || (next == needed && next >= 1 << 16));
        needed = next;
    }
    for (int i = 0; i < 40; i++)
        mare__vigil_paid(&vigil);
    lasts_us(&vigil);
    assert_int_equal(rests_needed(&vigil), first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_after_short_rests),
        cmocka_unit_test(never_if_it_may_not),
        cmocka_unit_test(one_in_vain_ends_them),
        cmocka_unit_test(a_little_longer_when_that_pays),
        cmocka_unit_test(goes_on_while_it_pays),
        cmocka_unit_test(whoever_else_computes_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
