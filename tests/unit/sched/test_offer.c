// SPDX-License-Identifier: MIT
// What a C program gives its processes: functions of its own as a module, and the options of spawn.
#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "runtime.h"

static mare_runtime *runtime;
static atomic_int calls;

static int start(void **state)
{
    (void)state;
    atomic_store(&calls, 0);
    runtime = run_start(2);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    mare_stop(runtime);
    return 0;
}

// ---- Functions ----------------------------------------------------------------------------------

static mare_err total(void *user, const mare_message *arguments, mare_message *results)
{
    mare_value list, key, value;
    uint64_t position = 0;
    int64_t sum = 0;
    atomic_fetch_add((atomic_int *)user, 1);
    if (mare_message_get(arguments, 0, &list) != MARE_OK || list.type != MARE_TABLE) {
        mare_message_add_string(results, "a list is wanted");
        return MARE_INVALID;
    }
    while (mare_table_next(&list.as.table, &position, &key, &value) == MARE_OK)
        sum += value.as.integer;
    return mare_message_add_integer(results, sum);
}

static mare_err pair(void *user, const mare_message *arguments, mare_message *results)
{
    (void)user;
    mare_table table;
    mare_message_open_array(results, &table);
    mare_message_add_integer(results, (int64_t)mare_message_count(arguments));
    mare_message_close_table(&table);
    return mare_message_add_string(results, "second");
}

static mare_err broken(void *user, const mare_message *arguments, mare_message *results)
{
    (void)user, (void)arguments;
    mare_table table;
    return mare_message_open_array(results, &table); // and never closes it
}

static mare_err full(void *user, const mare_message *arguments, mare_message *results)
{
    (void)user, (void)arguments;
    mare_message_add_integer(results, 1); // no string: it is not the message
    return MARE_FULL;
}

static const mare_named_function functions[] = {
    {"total", total}, {"pair", pair}, {"broken", broken}, {"full", full}, {NULL, NULL}};

static void processes_call_the_host(void **state)
{
    (void)state;
    assert_int_equal(mare_offer(runtime, "app", functions, &calls), MARE_OK);
    run_true(runtime,
             "local app = require 'app' assert(app == require 'app') "
             "assert(app.total {1, 2, 39} == 42) "
             "local list, second = app.pair(nil, {}, 'x', nil) "
             "return list[1] == 4 and second == 'second'",
             NULL);
    assert_int_equal(atomic_load(&calls), 1);
}

static void failures_are_told(void **state)
{
    (void)state;
    assert_int_equal(mare_offer(runtime, "app", functions, &calls), MARE_OK);
    run_true(runtime,
             "local app = require 'app' "
             "local ok, why, code = app.total('x') "
             "assert(ok == nil and why == 'a list is wanted' and code == 'invalid') "
             "ok, why, code = app.full() "
             "assert(ok == nil and why:find 'no room' and code == 'full') "
             "ok, why, code = app.broken() assert(ok == nil and code == 'invalid') "
             "ok, why = pcall(app.total, coroutine.create(print)) "
             "return not ok and why:find('arg 1', 1, true) ~= nil",
             NULL);
}

static void its_functions_travel(void **state)
{
    (void)state;
    assert_int_equal(mare_offer(runtime, "app", functions, &calls), MARE_OK);
    run_true(runtime,
             "local mare, app = require 'mare', require 'app' local total = app.total "
             "local p = mare.spawn(function(f) return f {1, 2} + app.total {3} + total {4} end, "
             "app.total) "
             "local ok, sum = p:join() return ok and sum == 10",
             NULL);
}

static void a_name_is_offered_once(void **state)
{
    (void)state;
    assert_int_equal(mare_offer(runtime, "app", functions, NULL), MARE_OK);
    assert_int_equal(mare_offer(runtime, "app", functions, NULL), MARE_EXISTS);
    assert_int_equal(mare_offer(runtime, "string", functions, NULL), MARE_EXISTS);
    assert_int_equal(mare_offer(runtime, "mare.net", functions, NULL), MARE_EXISTS);
    run_true(runtime, "return not pcall(require, 'other')", NULL);
}

static int twice(lua_State *L)
{
    lua_pushinteger(L, 2 * luaL_checkinteger(L, 1));
    return 1;
}

static int open_twice(lua_State *L)
{
    static const luaL_Reg list[] = {{"twice", twice}, {NULL, NULL}};
    luaL_newlib(L, list);
    return 1;
}

static void a_module_for_lua_is_offered(void **state)
{
    (void)state;
    assert_int_equal(mare_offer_lua(runtime, "numbers", open_twice), MARE_OK);
    run_true(runtime, "return require('numbers').twice(21) == 42", NULL);
    run_true(runtime,
             "local p = require('mare').spawn(function() return require('numbers').twice(4) end) "
             "return select(2, p:join()) == 8",
             NULL);
}

static void without_memory_nothing_is_offered(void **state)
{
    (void)state;
    mare__alloc_fail_after(1);
    assert_int_equal(mare_offer(runtime, "app", functions, NULL), MARE_NOMEM);
    mare__alloc_fail_after(0);
    assert_int_equal(mare_offer(runtime, "app", functions, NULL), MARE_OK);
}

// ---- The options of spawn -----------------------------------------------------------------------

static mare_err spawn_with(const char *code, const mare_spawn_options *options, mare_process **out)
{
    return mare_spawn_with(runtime, code, strlen(code), "=test", NULL, options, out, NULL);
}

static void a_name_is_registered_and_can_be_taken(void **state)
{
    (void)state;
    mare_process *first, *second;
    mare_spawn_options options = {.name = "clerk"};
    assert_int_equal(spawn_with("require('mare').sleep(1e6)", &options, &first), MARE_OK);
    assert_int_equal(spawn_with("return 1", &options, &second), MARE_EXISTS);
    run_true(runtime, "return require('mare').find('clerk'):name() == 'clerk'", NULL);
    mare_process_kill(first);
    assert_int_equal(run_join(runtime, first, NULL), MARE_KILLED);
    assert_int_equal(spawn_with("return 1", &options, &second), MARE_OK);
    assert_int_equal(run_join(runtime, second, NULL), MARE_OK);
}

static void memory_is_limited(void **state)
{
    (void)state;
    mare_process *process;
    mare_message *result = NULL;
    mare_spawn_options options = {.memory = 200000};
    assert_int_equal(spawn_with("return #('x'):rep(1000000)", &options, &process), MARE_OK);
    assert_int_equal(run_join(runtime, process, &result), MARE_DIED);
    mare_message_destroy(result);
}

static void a_monitor_is_told(void **state)
{
    (void)state;
    mare_process *process;
    mare_message *news;
    mare_value who, how;
    mare_spawn_options options = {.thread = true};
    assert_int_equal(mare_chan_create(runtime, 1, NULL, &options.monitor), MARE_OK);
    assert_int_equal(spawn_with("error('no')", &options, &process), MARE_OK);
    assert_int_equal(mare_chan_receive_until(options.monitor, &news, run_soon(runtime)), MARE_OK);
    assert_int_equal(mare_message_get(news, 0, &who), MARE_OK);
    assert_ptr_equal(who.as.process, process);
    assert_int_equal(mare_message_get(news, 1, &how), MARE_OK);
    assert_memory_equal(how.as.string.bytes, "died", 4);
    mare_message_destroy(news);
    mare_chan_unref(options.monitor);
    mare_process_unref(process);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

UNIT_TESTS(CASE(processes_call_the_host), CASE(failures_are_told), CASE(its_functions_travel),
           CASE(a_name_is_offered_once), CASE(a_module_for_lua_is_offered),
           CASE(without_memory_nothing_is_offered), CASE(a_name_is_registered_and_can_be_taken),
           CASE(memory_is_limited), CASE(a_monitor_is_told))
