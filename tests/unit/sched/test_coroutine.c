// SPDX-License-Identifier: MIT
// Coroutines that a library in C resumes, of which the scheduler knows nothing: what runs in them
// cannot wait, and nothing of them is left behind.
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>

#include "runtime.h"

// resume(co, ...) -> how it went, and what it yielded, returned or failed with. As a library does
// it that has its own loop.
static int resume(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    int arguments = lua_gettop(L) - 1, results = 1;
    luaL_argcheck(L, co && lua_checkstack(co, arguments), 1, "coroutine");
    lua_xmove(L, co, arguments);
    int status = lua_resume(co, L, arguments, &results);
    if (status != LUA_OK && status != LUA_YIELD)
        results = 1;
    lua_pushstring(L, status == LUA_OK ? "over" : status == LUA_YIELD ? "yields" : "failed");
    lua_xmove(co, L, results);
    return 1 + results;
}

static int open_library(lua_State *L)
{
    lua_newtable(L);
    lua_pushcfunction(L, resume);
    lua_setfield(L, -2, "resume");
    return 1;
}

// Code that has `mare`, `c` (a channel), and `inside(f, ...)`, which calls f in a coroutine that
// the library resumes.
static void run(unsigned workers, const char *code)
{
    static const char before[] =
        "local mare, library = require 'mare', require 'library'\n"
        "local c = mare.channel()\n"
        "local function inside(f, ...) return library.resume(coroutine.create(f), ...) end\n";
    char whole[4096];
    assert_true(snprintf(whole, sizeof whole, "%s%s", before, code) < (int)sizeof whole);
    mare_runtime *runtime = run_start(workers);
    assert_int_equal(mare_offer_lua(runtime, "library", open_library), MARE_OK);
    run_true(runtime, whole, NULL);
    mare_stop(runtime);
}

// What must be true wherever the library was left: the process can wait, and be preempted.
#define GOES_ON                                                                                    \
    "collectgarbage() collectgarbage()\n"                                                          \
    "local other = mare.spawn(function(c) c:send 'well' end, c)\n"                                 \
    "for i = 1, 3e6 do end\n"                                                                      \
    "return c:receive() == 'well'"

static void nothing_waits_in_one(void **state)
{
    (void)state;
    run(1, "local how, why = inside(function() c:receive() end)\n"
           "assert(how == 'failed' and why:find 'C library resumed', why)\n" GOES_ON);
}

static void nor_in_those_that_it_resumes(void **state)
{
    (void)state;
    run(1, "local waits = {function() c:receive() end, function() mare.sleep(1) end,\n"
           "    function() mare.select({c}, 1) end, function() mare.spawn('return 1'):join() end}\n"
           "for _, wait in ipairs(waits) do\n"
           "    local ways = {coroutine.resume, function(co) coroutine.wrap(wait)() end}\n"
           "    for _, way in ipairs(ways) do\n"
           "        local how, ok, why = inside(way, coroutine.create(wait))\n"
           "        why = how == 'failed' and ok or why\n"
           "        assert(how ~= 'yields' and why:find 'cannot wait', how)\n"
           "    end\n"
           "end\n" GOES_ON);
}

// What can be done without waiting is done; and the program's own yields are its own.
static void they_work_as_ever_otherwise(void **state)
{
    (void)state;
    run(1, "local co = coroutine.create(function(a)\n"
           "    local inner = coroutine.wrap(function(b)\n"
           "        mare.yield()\n"
           "        b = coroutine.yield(b + 1)\n"
           "        assert(not c:trysend(1))\n"
           "        return b + 1\n"
           "    end)\n"
           "    local first = coroutine.yield(inner(a))\n"
           "    return inner(first)\n"
           "end)\n"
           "local how, value = library.resume(co, 1)\n"
           "assert(how == 'yields' and value == 2)\n"
           "how, value = library.resume(co, 10)\n"
           "assert(how == 'over' and value == 11)\n" GOES_ON);
}

// The worker is asked for while one computes in there; it is not given away.
static void who_computes_in_one_keeps_the_worker(void **state)
{
    (void)state;
    run(1, "local rival = mare.spawn(function() while true do local t = {} end end)\n"
           "for round = 1, 20 do\n"
           "    local how, sum = inside(function()\n"
           "        return (coroutine.wrap(function()\n"
           "            local sum = 0\n"
           "            for i = 1, 3e5 do sum = sum + math.abs(i) end\n"
           "            return sum\n"
           "        end)())\n"
           "    end)\n"
           "    assert(how == 'over' and sum == 45000150000, how)\n"
           "end\n"
           "rival:kill()\n" GOES_ON);
}

// One that fails or is closed in there is closed; and who ran before runs on, not who closed it.
static void one_that_is_closed_in_there_leaves_nothing(void **state)
{
    (void)state;
    run(1,
        "local closed = 0\n"
        "local function open()\n"
        "    local _ <close> = setmetatable({}, {__close = function() closed = closed + 1 end})\n"
        "    coroutine.yield()\n"
        "    error 'on purpose'\n"
        "end\n"
        "assert(inside(function()\n"
        "    local co = coroutine.create(open)\n"
        "    coroutine.resume(co)\n"
        "    coroutine.close(co)\n"
        "end) == 'over')\n"
        "assert(inside(function()\n"
        "    local f = coroutine.wrap(open)\n"
        "    f() f()\n"
        "end) == 'failed')\n"
        "assert(closed == 2)\n" GOES_ON);
}

// On another worker, for it keeps its own.
static void a_kill_ends_what_computes_in_those(void **state)
{
    (void)state;
    run(2, "local began = mare.channel(1)\n"
           "local victim = mare.spawn(function(began)\n"
           "    local mare, library = require 'mare', require 'library'\n"
           "    while true do\n"
           "        library.resume(coroutine.create(function()\n"
           "            coroutine.resume(coroutine.create(function()\n"
           "                began:trysend(true)\n"
           "                while true do local t = {} end\n"
           "            end))\n"
           "        end))\n"
           "    end\n"
           "end, began)\n"
           "began:receive()\n"
           "victim:kill()\n"
           "assert(select(3, victim:join()) == 'killed')\n" GOES_ON);
}

UNIT_TESTS(cmocka_unit_test(nothing_waits_in_one), cmocka_unit_test(nor_in_those_that_it_resumes),
           cmocka_unit_test(they_work_as_ever_otherwise),
           cmocka_unit_test(who_computes_in_one_keeps_the_worker),
           cmocka_unit_test(one_that_is_closed_in_there_leaves_nothing),
           cmocka_unit_test(a_kill_ends_what_computes_in_those))
