// SPDX-License-Identifier: MIT
// What every unit test includes: cmocka with the headers it forgets, one group for a program, and
// seeds that can be replayed.
//
//     static void counts_from_zero(void **state) { ... assert_int_equal(n, 0); ... }
//
//     UNIT_TESTS(cmocka_unit_test(counts_from_zero))
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// The main function. The exit code is 0 or 1, never a count of failures, which could be 77.
#define UNIT_TESTS(...) UNIT_TESTS_WITH(NULL, NULL, __VA_ARGS__)

// The same with functions that run before and after the whole group.
#define UNIT_TESTS_WITH(setup, teardown, ...)                                                      \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest unit_tests[] = {__VA_ARGS__};                                      \
        return cmocka_run_group_tests(unit_tests, setup, teardown) ? 1 : 0;                        \
    }

// Leaves the whole program out, from main or a group's setup: the suite counts one skip. A single
// case is left out by cmocka's skip().
_Noreturn void unit_skip_all(const char *reason);

// A seed for a randomised case: MARE_SEED when that is set, else a new one. Prints the line that
// runs this program with the same seed.
uint64_t unit_seed(void);

// The next number of a stream that depends on *state alone (splitmix64). Start with unit_seed().
uint64_t unit_random(uint64_t *state);

// How many times slower than usual this run is (MARE_TEST_SLOW): multiply generous deadlines by it.
unsigned unit_slow(void);
