// SPDX-License-Identifier: MIT
// The log, where only C sees it: see tests/lua/test_log.lua for the rest.
#include "loop/log.h"
#include "runtime.h"
#include "sched/runtime.h"

// A process may die on one thread while another thread makes the log: the first can call it, but it
// is not there yet. Here the test is in the middle of that.
static void nothing_is_noted_before_the_log_is_there(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    assert_false(mare__log_try(runtime, false, "died", "where"));
    struct mare__log *log = mare__log_of(runtime);
    assert_non_null(log);
    atomic_store(&runtime->log, NULL);
    assert_false(mare__log_try(runtime, false, "died", "where"));
    atomic_store(&runtime->log, log);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(nothing_is_noted_before_the_log_is_there))
