// SPDX-License-Identifier: MIT
// A program's hook sees the same events whether the worker is taken from its process or not. Here
// the tick is a function that programs call, in the middle of their hooks too: so it comes at every
// event that there is, and what is seen is compared with what is seen without it.
#include "runtime.h"
#include "sched/libraries.h"
#include "sched/preempt.h"

static int tick(lua_State *L)
{
    lua_State *of = lua_tothread(L, 1);
    mare__hook_arm(mare__self(L), of ? of : L);
    return 0;
}

// A coroutine as a library in C makes it: Lua gives it the hook of who made it, and nobody knows.
static int made_in_c(lua_State *L)
{
    lua_State *made = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, made, 1);
    return 1;
}

// A clock of the thread on which each look takes so long.
static uint64_t thread_ns, look_ns;

static uint64_t slow_clock(void *context)
{
    (void)context;
    return thread_ns += look_ns;
}

// ticks(number, ms): so many come, each of which takes so long. Returns how many set a hook.
static int ticks(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    int count = 0;
    process->shared.runtime->platform.thread_time_ns = slow_clock;
    look_ns = (uint64_t)lua_tointeger(L, 2) * 1000000;
    for (lua_Integer i = 0; i < lua_tointeger(L, 1); i++) {
        lua_sethook(L, NULL, 0, 0);
        mare__on_tick(process->worker);
        count += lua_gethook(L) != NULL;
    }
    lua_sethook(L, NULL, 0, 0);
    lua_pushinteger(L, count);
    return 1;
}

static int open_tick(lua_State *L)
{
    lua_pushcfunction(L, ticks);
    lua_setglobal(L, "ticks");
    lua_pushcfunction(L, made_in_c);
    lua_setglobal(L, "made_in_c");
    lua_pushcfunction(L, tick);
    return 1;
}

static lua_CFunction (*others)(const char *name);

static lua_CFunction module(const char *name)
{
    return strcmp(name, "tick") == 0 ? open_tick : others(name);
}

static void run(const char *code)
{
    mare_runtime *runtime = run_start(1);
    others = runtime->module;
    runtime->module = module;
    run_true(runtime, code, NULL);
    runtime->module = others;
    mare_stop(runtime);
}

// What is traced has every kind of call and return, and lines with one and with several functions.
#define SAMPLE                                                                                     \
    "local tick = require 'tick'\n"                                                                \
    "local function nothing() end\n"                                                               \
    "local function one(x) return x end\n"                                                         \
    "local function several(...) return select('#', ...), ... end\n"                               \
    "local function down(n) if n > 0 then return down(n - 1) end return n end\n"                   \
    "local function tail(n) if n == 0 then return one(n) end return tail(n - 1) end\n"             \
    "local function fails() error('x', 0) end\n"                                                   \
    "local meta = setmetatable({}, {__index = function(_, k) return k end, __call = one,\n"        \
    "    __add = function(a, b) return one(b) end, __close = function() nothing() end})\n"         \
    "local function sample()\n"                                                                    \
    "    local sum = 0\n"                                                                          \
    "    for i = 1, 3 do sum = sum + one(i) nothing() end\n"                                       \
    "    while sum > 0 do sum = sum - 1 end\n"                                                     \
    "    local a, b = several(1, nil, down(3))\n"                                                  \
    "    tail(4)\n"                                                                                \
    "    local c <close> = meta\n"                                                                 \
    "    sum = meta.x .. tostring(meta + 1) .. (meta(5) and '' or '')\n"                           \
    "    pcall(fails) pcall(error)\n"                                                              \
    "    table.sort({3, 1, 2}, function(x, y) return x < y end)\n"                                 \
    "    for _, v in ipairs {1, 2} do one(v) end\n"                                                \
    "    for v in coroutine.wrap(function() one(1) coroutine.yield(1) nothing() end) do\n"         \
    "        one(v)\n"                                                                             \
    "    end\n"                                                                                    \
    "    for v in function(_, k) return one(not k or nil) end do one(v) end\n"                     \
    "    string.gsub('abc', '.', one)\n"                                                           \
    "    return several(table.unpack({1, 2, 3}))\n"                                                \
    "end\n"                                                                                        \
    "local function log_of(mask, count, ticks, there)\n"                                           \
    "    local log, now = {}, ticks and tick or type\n"                                            \
    "    local function hook(event, line)\n"                                                       \
    "        local info = debug.getinfo(2, 'nSlt')\n"                                              \
    "        log[#log + 1] = table.concat({event, tostring(line), tostring(info.name),\n"          \
    "            info.what, info.currentline, tostring(info.istailcall)}, ' ')\n"                  \
    "        now(1)\n"                                                                             \
    "    end\n"                                                                                    \
    "    there(function() debug.sethook(hook, mask, count) sample() debug.sethook() end)\n"        \
    "    return table.concat(log, '\\n'), #log\n"                                                  \
    "end\n"

static void ticks_in_hooks_change_nothing(void **state)
{
    (void)state;
    run(SAMPLE
        "local mare = require 'mare'\n"
        "local ways = {function(f) f() end, function(f) coroutine.wrap(f)() end}\n"
        "for _, mask in ipairs {'', 'c', 'r', 'l', 'cr', 'cl', 'rl', 'crl'} do\n"
        "    for _, count in ipairs {0, 1, 2, 3, 7, 501, 100000} do\n"
        "        for _, way in ipairs(ways) do\n"
        "            local expected, length = log_of(mask, count, false, way)\n"
        "            local before = mare.stats().preemptions\n"
        "            local got = log_of(mask, count, true, way)\n"
        "            local times = mare.stats().preemptions - before\n"
        "            if got ~= expected then\n"
        "                local n = 1\n"
        "                while got:sub(n, n) == expected:sub(n, n) do n = n + 1 end\n"
        "                local m = math.max(1, n - 200)\n"
        "                error(mask .. ' ' .. count .. ': ' .. got:sub(m, n + 80) .. '\\n--\\n'\n"
        "                    .. expected:sub(m, n + 80), 0)\n"
        "            end\n"
        "            if length > 10 and count < 10 and times < length // 10 then\n"
        "                error(mask .. ' ' .. count .. ': given way ' .. times, 0)\n"
        "            end\n"
        "        end\n"
        "    end\n"
        "end\n"
        "return true");
}

// The tick came, and only then the program sets a hook: in the function that was interrupted, and
// in one that it calls.
static void a_tick_before_a_hook_changes_nothing(void **state)
{
    (void)state;
    run("local tick = require 'tick'\n"
        "local function log_of(mask, count, now)\n"
        "    local log = {}\n"
        "    local function hook(event, line) log[#log + 1] = event .. tostring(line) end\n"
        "    local function inner()\n"
        "        debug.sethook(hook, mask, count)\n"
        "        local a = 1\n"
        "        debug.sethook()\n"
        "    end\n"
        "    for _ = 1, 3 do\n"
        "        now(1) debug.sethook(hook, mask, count) local a = 1\n"
        "        local b = 2\n"
        "        debug.sethook()\n"
        "        now(1) local c = 3 debug.sethook(hook, mask, count)\n"
        "        local d = 4\n"
        "        debug.sethook()\n"
        "        now(1) inner()\n"
        "    end\n"
        "    return table.concat(log, ' ')\n"
        "end\n"
        "for _, mask in ipairs {'', 'c', 'r', 'l', 'crl'} do\n"
        "    for _, count in ipairs {0, 1, 2, 3} do\n"
        "        local expected = log_of(mask, count, type)\n"
        "        local got = log_of(mask, count, tick)\n"
        "        if got ~= expected then\n"
        "            error(mask .. count .. ':\\n' .. got .. '\\n' .. expected, 0)\n"
        "        end\n"
        "    end\n"
        "end\n"
        "return true");
}

// A coroutine that was made while there was a hook gives way where it can: between instructions.
static void a_hook_that_is_nobodys_gives_way(void **state)
{
    (void)state;
    run("local mare, tick = require 'mare', require 'tick'\n"
        "local function sum(n) local s = 0 for i = 1, n do s = s + math.abs(i) end return s end\n"
        "for _, mask in ipairs {'', 'c', 'r', 'l', 'crl'} do\n"
        "    for _, make in ipairs {made_in_c, coroutine.create} do\n"
        "        debug.sethook(function() end, mask, 100)\n"
        "        local co = make(function(...) return pcall(sum, 100, ...) end)\n"
        "        debug.sethook()\n"
        "        local before = mare.stats().preemptions\n"
        "        tick(co)\n"
        "        local ok, inner, s = coroutine.resume(co)\n"
        "        assert(ok and inner and s == 5050, mask)\n"
        "        assert(mare.stats().preemptions == before + 1, mask)\n"
        "    end\n"
        "end\n"
        "return true");
}

// A routine has what a coroutine has of the hook of who made it: the mask, and no function.
static void routines_inherit_as_coroutines_do(void **state)
{
    (void)state;
    run("local mare = require 'mare'\n"
        "local function look() return select('#', debug.gethook()), debug.gethook() end\n"
        "local told = 0\n"
        "debug.sethook(function() told = told + 1 end, 'cr', 100000)\n"
        "local co, routine = coroutine.create(look), mare.go(look)\n"
        "debug.sethook()\n"
        "local before = told\n"
        "local _, n, f, mask, count = coroutine.resume(co)\n"
        "local m, g, letters, number = select(2, routine:join())\n"
        "assert(n == m and f == g and mask == letters and count == number, letters)\n"
        "assert(mask == 'cr' and count == 100000 and told == before)\n"
        "return true");
}

// Lua takes long to set a hook where many calls are active: then most ticks leave that alone, and
// the process gets on. Else each asks again.
static void a_tick_that_takes_long_is_rare(void **state)
{
    (void)state;
    run("local mare = require 'mare'\n"
        "mare.spawn(function() end)\n" // so that another waits
        "require 'tick'\n"
        "local often, rare = ticks(1000, 0), ticks(1000, 10)\n"
        "assert(often == 1000, often)\n"
        "assert(rare > 0 and rare * 10 < 1000, rare)\n"
        "return true");
}

// A process with a hook gives way to others also where it is always at the start of a function, and
// where its count comes round at the same place.
static void no_hook_keeps_the_worker(void **state)
{
    (void)state;
    if (__tsan_init)
        skip(); // it lets no signal into such a loop
    static const char *const loops[] = {
        "local function f() return f() end f()",
        "local function f() end while true do f() end",
    };
    mare_runtime *runtime = run_start(1);
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        for (int mask = 0; mask < 8; mask++)
            for (int count = 0; count <= 500; count += 500) {
                char code[300];
                snprintf(code, sizeof code, "debug.sethook(function() end, '%s%s%s', %d) %s",
                         mask & 1 ? "c" : "", mask & 2 ? "r" : "", mask & 4 ? "l" : "", count,
                         loops[i]);
                mare_process *process = run_spawn(runtime, code, NULL);
                for (int turn = 0; turn < 2; turn++) // there is one worker: it must have been given
                    run_true(runtime, "return true", NULL);
                assert_true(mare_process_kill(process));
                assert_int_equal(run_join(runtime, process, NULL), MARE_KILLED);
            }
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(ticks_in_hooks_change_nothing),
           cmocka_unit_test(a_tick_before_a_hook_changes_nothing),
           cmocka_unit_test(a_hook_that_is_nobodys_gives_way),
           cmocka_unit_test(routines_inherit_as_coroutines_do),
           cmocka_unit_test(a_tick_that_takes_long_is_rare),
           cmocka_unit_test(no_hook_keeps_the_worker))
