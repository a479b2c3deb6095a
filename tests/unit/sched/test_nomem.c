// SPDX-License-Identifier: MIT
// Allocation fails at every point: the n-th and all later ones, for n = 1, 2, 3 and so on until a
// whole scenario runs without reaching the end of the countdown. Each time nothing hangs, nothing
// crashes, the error is the right one, and (under AddressSanitizer) nothing leaks.
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime.h"
#include "sched/runtime.h"

// Runs with the n-th allocation failing; complains by returning a string.
typedef const char *scenario(void);

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    alarm(0);
    return 0;
}

static void count_down(scenario *play, void (*start)(long n), const char *how)
{
    // Threads share the countdown, so that the same scenario may need one allocation more or less:
    // it must get through several times in a row.
    int through = 0;
    const char *step = getenv("MARE_NOMEM_STEP"); // slow builds leave some out
    long n = 1;
    for (; through < 5; n += step ? strtol(step, NULL, 10) : 1) {
        alarm(60 * unit_slow()); // a hang ends the program
        start(n);
        const char *complaint = play();
        through = mare__alloc_has_failed() ? 0 : through + 1;
        mare__alloc_fail_after(0);
        if (complaint)
            fail_msg("allocation %ld%s: %s", n, how, complaint);
    }
    printf("# %ld allocations\n", n - through);
    assert_true(n > 10);
}

// What goes on after one failure finds things half made that nobody finds when all memory is gone.
static void at_every_point(scenario *play)
{
    count_down(play, mare__alloc_fail_after, " and later ones");
    count_down(play, mare__alloc_fail_once, " alone");
}

static const char *describe(const char *where, mare_err err, const mare_message *message)
{
    static char text[400];
    mare_value value = {.type = MARE_NIL};
    if (message)
        mare_message_get(message, 0, &value);
    snprintf(text, sizeof text, "%s: %s (%.*s)", where, mare_strerror(err),
             value.type == MARE_STRING ? (int)value.as.string.length : 0,
             value.type == MARE_STRING ? value.as.string.bytes : "");
    return text;
}

// No error but one is allowed, and then the scenario is over.
static bool over(mare_err err, const char *where, const char **complaint)
{
    if (err != MARE_OK && err != MARE_NOMEM && !*complaint)
        *complaint = describe(where, err, NULL);
    return err != MARE_OK;
}

// How a process may end: well, or of the lack of memory. Its error is a string if there was memory
// for one.
static const char *judge_end(mare_err err, const mare_message *result)
{
    mare_value value = {.type = MARE_NIL};
    if (err == MARE_OK) {
        if (!result || mare_message_get(result, 0, &value) || value.type != MARE_BOOLEAN ||
            !value.as.boolean)
            return describe("it ended well, but its result is lost", err, result);
        return NULL;
    }
    if (err == MARE_NOMEM || (err == MARE_DIED && !result))
        return NULL;
    if (err != MARE_DIED || mare_message_get(result, 0, &value) || value.type != MARE_STRING)
        return describe("join", err, result);
    if (!memmem(value.as.string.bytes, value.as.string.length, "not enough memory", 17))
        return describe("join", err, result);
    return NULL;
}

// ---- Parts without a runtime --------------------------------------------------------------------

static const char *messages(void)
{
    mare_message *message = NULL, *parsed = NULL;
    const char *complaint = NULL;
    do {
        if (over(mare_message_create(&message), "create", &complaint))
            break;
        char text[500];
        memset(text, 'x', sizeof text);
        mare_value value = {.type = MARE_STRING, .as.string = {text, sizeof text}};
        mare_err err = MARE_OK;
        for (int i = 0; i < 60 && !err; i++) {
            err = mare_message_add(message, &value);
            if (!err)
                err = mare_message_add_integer(message, i);
        }
        if (over(err, "add", &complaint))
            break;
        size_t length;
        const void *bytes = mare_message_bytes(message, &length);
        err = mare_message_parse(bytes, length, &parsed);
        if (err)
            parsed = NULL;
        if (over(err, "parse", &complaint))
            break;
        if (mare_message_count(parsed) != mare_message_count(message))
            complaint = "the copy is not whole";
    } while (0);
    mare_message_destroy(message);
    mare_message_destroy(parsed);
    return complaint;
}

static void messages_at_every_point(void **state)
{
    (void)state;
    at_every_point(messages);
}

static const char *start_and_stop(void)
{
    mare_options options = {.workers = 3, .recycle = 2};
    mare_runtime *runtime;
    mare_err err = mare_start(&options, &runtime);
    if (err)
        return err == MARE_NOMEM ? NULL : describe("start", err, NULL);
    mare_stop(runtime);
    return NULL;
}

static void start_and_stop_at_every_point(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        long n = 1;
        do
            mare__alloc_fail_after(n++);
        while (start_and_stop() == NULL && mare__alloc_must_fail() && n < 100);
        mare__alloc_fail_after(0);
        assert_true(n > 5 && n < 100);
    }
}

// ---- A program in C and Lua ---------------------------------------------------------------------

// Runs a program in a process that is given a channel. What can be done without waiting is done
// around it.
static const char *run_program(const char *code, bool talk)
{
    mare_options options = {.workers = 2, .recycle = 2};
    mare_runtime *runtime = NULL;
    mare_channel *channel = NULL, *named = NULL, *found = NULL;
    mare_message *arguments = NULL, *table = NULL, *result = NULL;
    mare_process *process = NULL;
    char *error = NULL;
    const char *complaint = NULL;
    mare_err err = mare_start(&options, &runtime);
    if (err)
        return err == MARE_NOMEM ? NULL : describe("start", err, NULL);
    do {
        if (over(mare_chan_create(runtime, 4, NULL, &channel), "channel", &complaint))
            break;
        if (over(mare_chan_create(runtime, 1, "a name", &named), "named channel", &complaint))
            break;
        err = mare_chan_find(runtime, "a name", &found);
        if (err)
            complaint = describe("find", err, NULL);
        static const uint8_t bytes[] = {0x92, 0x01, 0x81, 0xa1, 'k', 0xa5, 'v', 'a', 'l', 'u', 'e'};
        err = mare_message_parse(bytes, sizeof bytes, &table);
        if (err)
            table = NULL;
        if (over(err, "parse", &complaint))
            break;
        if (over(talk ? mare_chan_send_until(channel, table, run_soon(runtime)) : MARE_OK, "send",
                 &complaint))
            break;
        if (over(mare_message_create(&arguments), "arguments", &complaint))
            break;
        mare_value value = {.type = MARE_CHANNEL, .as.channel = channel};
        if (over(mare_message_add(arguments, &value), "arguments", &complaint))
            break;
        err = mare_spawn(runtime, code, strlen(code), "=program", arguments, &process, &error);
        if (err && error && !strstr(error, "not enough memory"))
            complaint = describe(error, err, NULL);
        if (over(err, "spawn", &complaint))
            break;
        err = mare_process_join_until(process, run_soon(runtime), &result);
        complaint = judge_end(err, result);
        if (complaint || !talk || err)
            break;
        mare_message *answer = NULL;
        err = mare_chan_receive_until(channel, &answer, run_soon(runtime));
        if (err && err != MARE_NOMEM)
            complaint = describe("receive", err, NULL);
        mare_message_destroy(answer);
    } while (0);
    free(error);
    if (process)
        mare_process_unref(process);
    mare_message_destroy(arguments);
    mare_message_destroy(table);
    mare_message_destroy(result);
    if (found)
        mare_chan_unref(found);
    if (named) {
        mare_chan_close(named);
        mare_chan_unref(named);
    }
    if (channel)
        mare_chan_unref(channel);
    mare_stop(runtime);
    return complaint;
}

static const char *conversation(void)
{
    return run_program("local channel = ...\n"
                       "local t = channel:receive()\n"
                       "assert(t[1] == 1 and t[2].k == 'value')\n"
                       "assert(channel:send({'answer', t, [t] = true}, ('x'):rep(300)))\n"
                       "return true",
                       true);
}

static void conversation_at_every_point(void **state)
{
    (void)state;
    at_every_point(conversation);
}

static const char *tables_and_functions(void)
{
    return run_program(
        "local m = require 'mare'\n"
        "local c = assert(m.channel(2))\n"
        "local t = {} for i = 1, 40 do t[i] = {i, t, name = 'n' .. i} end\n"
        "local up = {0} local function f() up[1] = up[1] + 1 return up[1], f end\n"
        "assert(c:send(t, f, {f, t, print, m}, 1.5, c, m.self()))\n"
        "local t2, f2, all = c:receive()\n"
        "assert(#t2 == 40 and t2[7][2] == t2 and f2() == 1 and all[1] == f2 and all[3] == print)\n"
        "return true",
        false);
}

static void tables_and_functions_at_every_point(void **state)
{
    (void)state;
    at_every_point(tables_and_functions);
}

static const char *selects_and_names(void)
{
    return run_program("local m = require 'mare'\n"
                       "local a, b = assert(m.channel(1)), assert(m.channel(1, 'b'))\n"
                       "assert(m.find 'b' == b)\n"
                       "assert(a:send(1))\n"
                       "for i = 1, 4 do\n"
                       "  local big = {i, 'a table that takes more than a few bytes'}\n"
                       "  local which, x, err = m.select({a, b, {a, big}}, 5)\n"
                       "  if not which or x == nil then error(x or err) end\n"
                       "end\n"
                       "local none, _, code = m.select({b}, 0.001)\n"
                       "if none or code ~= 'timeout' then error(_ or 'no timeout') end\n"
                       "assert(b:close()) return true",
                       false);
}

static void selects_and_names_at_every_point(void **state)
{
    (void)state;
    at_every_point(selects_and_names);
}

// In the tiny build a monitor's message has no room for more than the process until memory is had:
// there the word may be missing.
static const char *families(void)
{
    return run_program("local m = require 'mare'\n"
                       "local p = assert(m.spawn(function(...) return ... end, 1, {2}))\n"
                       "local ok, one, two = p:join(20) if not ok then error(one) end\n"
                       "assert(one == 1 and two[1] == 2)\n"
                       "local q, news = m.spawn({monitor = true, memory = 200000}, 'return 1')\n"
                       "if not q then error(news) end\n"
                       "local who, how, err = news:receive(20)\n"
                       "if how ~= 'normal' then error(err or how or 'not enough memory') end\n"
                       "local r = assert(m.spawn(function() m.sleep(100) end))\n"
                       "assert(r:link()) r:unlink() r:kill('enough')\n"
                       "local done, why, code = r:join(20)\n"
                       "if code ~= 'killed' then error(why) end\n"
                       "assert(#m.processes() >= 1)\n"
                       "return true",
                       false);
}

// The linked process may die of the lack of memory while the link is there, and then this one is
// killed: that is right, too.
static const char *families_or_killed(void)
{
    const char *complaint = families();
    return complaint && strstr(complaint, mare_strerror(MARE_KILLED)) ? NULL : complaint;
}

static void families_at_every_point(void **state)
{
    (void)state;
    at_every_point(families_or_killed);
}

static const char *coroutines_and_handlers(void)
{
    return run_program(
        "local m = require 'mare'\n"
        "local c = assert(m.channel())\n"
        "assert(m.spawn(function() for i = 1, 3 do c:sendwithin(20, i) end end))\n"
        "local closed = 0\n"
        "local co = coroutine.wrap(function()\n"
        "  local x <close> = setmetatable({}, {__close = function() closed = closed + 1 end})\n"
        "  for i = 1, 3 do\n"
        "    local n, err = c:receive(0.2) if n ~= i then error(err or 'wrong', 0) end\n"
        "    coroutine.yield(i)\n"
        "  end\n"
        "end)\n"
        "for i = 1, 3 do assert(co() == i) end co()\n"
        "assert(closed == 1)\n"
        "setmetatable({}, {__gc = function() closed = 2 end}) collectgarbage()\n"
        "assert(closed == 2) return true",
        false);
}

static void coroutines_at_every_point(void **state)
{
    (void)state;
    // The sender may die of the lack of memory, and the receiver then runs into its deadline: that
    // is right, too.
    int through = 0;
    for (long n = 1; through < 3; n += 3) {
        alarm(60 * unit_slow());
        mare__alloc_fail_after(n);
        const char *complaint = coroutines_and_handlers();
        through = mare__alloc_must_fail() ? 0 : through + 1;
        mare__alloc_fail_after(0);
        if (complaint && !strstr(complaint, "the deadline passed"))
            fail_msg("allocation %ld: %s", n, complaint);
    }
}

static const char *buffers_and_refusals(void)
{
    return run_program("local m = require 'mare'\n"
                       "local c = assert(m.channel(3))\n"
                       "local b = assert(m.buffer(5000)) b:set(1, 'first')\n"
                       "assert(c:send({b}, 1))\n"
                       "local t = c:receive() assert(t[1]:get(1, 5) == 'first')\n"
                       "local ok, err = pcall(c.send, c, {log = {io.stdout}}, t[1])\n"
                       "if ok or not (err:find 'a file' or err:find 'memory') then error(err) end\n"
                       "assert(t[1]:get(1, 5) == 'first', 'a refusal took the buffer')\n"
                       "assert(c:trysend({1})) assert(c:receive(m.deadline(5)))\n"
                       "assert(c:sendwithin(5, 'x', 'y'))\n"
                       "assert(c:close()) for x, y in c:messages() do assert(y == 'y') end\n"
                       "return true",
                       false);
}

static void buffers_at_every_point(void **state)
{
    (void)state;
    at_every_point(buffers_and_refusals);
}

static const char *routines(void)
{
    return run_program(
        "local m = require 'mare'\n"
        "local c, other = assert(m.channel()), assert(m.channel())\n"
        "local closed = 0\n"
        "local function done(r)\n"
        "  local ok, one, code = r:join(0.5)\n"
        "  if not ok then error(one or code, 0) end return one\n"
        "end\n"
        "local sends = m.go(function(n)\n"
        "  local over <close> = c\n" // so that the other does not wait when it has failed
        "  for i = 1, n do assert(c:sendwithin(0.2, {i, 'more than a few bytes'})) end\n"
        "  return n\n"
        "end, 3)\n"
        "local takes = m.go(coroutine.wrap(function()\n"
        "  local over <close> = c\n"
        "  local x <close> = setmetatable({}, {__close = function() closed = closed + 1 end})\n"
        "  for i = 1, 3 do\n"
        "    local t, err = c:receive(0.2) if not t then error(err, 0) end\n"
        "  end\n"
        "  return 'all'\n"
        "end))\n"
        "local fails = m.go(function()\n"
        "  local x <close> = setmetatable({}, {__close = function() closed = closed + 1 end})\n"
        "  m.yield() error {}\n"
        "end)\n"
        "local never = m.go(function()\n"
        "  local _, err, code = m.select({other, {other, 1}}, 0.5)\n"
        "  if code ~= 'cancelled' then error(err, 0) end\n"
        "end)\n"
        "assert(done(sends) == 3 and done(takes) == 'all')\n"
        "never:cancel()\n"
        "done(never)\n"
        "local ok, err, code = fails:join(0.5)\n"
        "if code ~= 'died' then error(err, 0) end\n"
        "assert(closed == 2)\n"
        "return true",
        false);
}

// One may die of the lack of memory, and the other then finds the channel closed or runs into its
// deadline: that is right, too.
static const char *routines_or_alone(void)
{
    const char *complaint = routines();
    bool alone = complaint && (strstr(complaint, mare_strerror(MARE_CLOSED)) ||
                               strstr(complaint, mare_strerror(MARE_TIMEOUT)));
    return alone ? NULL : complaint;
}

static void routines_at_every_point(void **state)
{
    (void)state;
    at_every_point(routines_or_alone);
}

static const char *files_and_names(void)
{
    return run_program("local f, net = require 'mare._file', require 'mare._net'\n"
                       "local function get(value, err, code)\n"
                       "  if value then return value end\n"
                       "  error(code == 'nomem' and 'not enough memory' or err, 0)\n"
                       "end\n"
                       "local h = get(f.open('/proc/self/status', 1))\n"
                       "assert(get(h:read 'l'):find 'Name' and #get(h:read 'a') > 50)\n"
                       "assert(get(h:seek 'set') == 0 and get(h:stat()).kind == 'file')\n"
                       "assert(get(h:close()) == true)\n"
                       "h = get(f.open('/dev/null', 2)) get(h:write('x', 'y'))\n"
                       "get(f.store('/dev/null', 'text', 0)) get(f.load('/proc/self/stat', 5000))\n"
                       "get(f.copy('/proc/self/stat', '/dev/null')) get(f.realpath '/')\n"
                       "local d = get(f.scan '/proc/self/task') get(d:next())\n"
                       "local w = get(f.watch('/dev', false, 10))\n"
                       "local _, err, code = w:next(0.001)\n"
                       "if code ~= 'timeout' then get(_, err, code) end\n"
                       "get(net.resolve 'localhost') return true",
                       false);
}

static void files_and_names_at_every_point(void **state)
{
    (void)state;
    at_every_point(files_and_names);
}

static const char *limits(void)
{
    return run_program("local m = require 'mare'\n"
                       "local p, err = m.spawn({memory = 300000}, function()\n"
                       "  local c, b = assert(m.channel(20)), assert(m.buffer(500))\n"
                       "  for i = 1, 9 do c:send(('x'):rep(300), assert(m.buffer(100))) end\n"
                       "  c:send(b) for i = 1, 9 do c:receive() end\n"
                       "  local ok, err = pcall(m.buffer, 300000)\n"
                       "  assert(not ok and err == 'not enough memory', err)\n"
                       "  return #c:receive(), ('r'):rep(1000)\n"
                       "end)\n"
                       "if not p then error(err) end\n"
                       "local ok, length = p:join(20)\n"
                       "if not ok then error(length) end\n"
                       "assert(length == 500) return true",
                       false);
}

static void limits_at_every_point(void **state)
{
    (void)state;
    at_every_point(limits);
}

// ---- Finalizers ---------------------------------------------------------------------------------

// reference -> whether there was room. To call a finalizer, Lua pushes it and the userdata, and
// then asks for memory. So does this, and there is none.
static int call_without_memory(lua_State *L)
{
    enum { MUCH = 100000 };
    lua_getmetatable(L, 1);
    lua_getfield(L, -1, "__gc");
    lua_pushvalue(L, 1);
    mare__alloc_fail_after(1);
    bool room = lua_checkstack(L, MUCH);
    mare__alloc_fail_after(0);
    lua_pushboolean(L, room);
    return 1;
}

static int fill_and_call(lua_State *L)
{
    int spare = (int)lua_tointeger(L, 1);
    long failing = (long)lua_tointeger(L, 2);
    for (int more = 100000; more > 0; more /= 10)
        while (lua_checkstack(L, more))
            for (int i = 0; i < more; i++)
                lua_pushnil(L);
    lua_settop(L, lua_gettop(L) - spare);
    lua_pushvalue(L, 3);
    mare__alloc_fail_after(failing);
    lua_pcall(L, 0, 0, 0);
    return 0;
}

// spare, failing, f: calls it with a stack that has room for so many more values, and with the n-th
// allocation and all later ones failing (0: none).
static int call_without_stack(lua_State *L)
{
    lua_pushcfunction(L, fill_and_call);
    lua_insert(L, 1);
    lua_pcall(L, 3, 0,
              0); // for what comes through the other: errors that Lua has no memory to make
    mare__alloc_fail_after(0);
    return 0;
}

static int open_finalizers(lua_State *L)
{
    lua_newtable(L);
    lua_pushcfunction(L, call_without_memory);
    lua_setfield(L, -2, "call");
    lua_pushcfunction(L, call_without_stack);
    lua_setfield(L, -2, "full");
    return 1;
}

// When the call has failed, Lua may free the userdata before it says so: by then the reference must
// have been given back.
static void a_finalizer_that_cannot_be_called_has_done_its_work(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    assert_int_equal(mare_offer_lua(runtime, "finalizers", open_finalizers), MARE_OK);
    run_true(runtime,
             "local mare, finalizers = require 'mare', require 'finalizers' "
             "local places = {function(f) return f() end, "
             "  function(f) return coroutine.wrap(f)() end, "
             "  function(f) return select(2, assert(mare.go(f):join())) end} "
             "for _, at in ipairs(places) do "
             "  local c, other = mare.channel(1), mare.channel(1) "
             "  assert(not at(function() return finalizers.call(c) end)) "
             "  local ok, why = pcall(c.trysend, c, 1) "
             "  assert(not ok and why:find 'finalized', why) assert(other:trysend(1)) "
             "end "
             "return true",
             NULL);
    mare_stop(runtime);
}

// Lua cannot call a finalizer when the stack is full. After the first such error it may not be able
// to make the stack small again, and then cannot even say "stack overflow" the next time. Nothing
// that the references hold is lost, and the process goes on.
static void finalizers_that_have_no_stack_have_done_their_work(void **state)
{
    (void)state;
    mare_runtime *runtime = run_start(1);
    assert_int_equal(mare_offer_lua(runtime, "finalizers", open_finalizers), MARE_OK);
    run_true(runtime,
             "local mare = require 'mare'\n"
             "local function run(spare, failing)\n"
             "  local finalizers = require 'finalizers'\n"
             "  local function litter() for _ = 1, 50 do mare.channel(1) end end\n"
             "  local function collect() for _ = 1, 3000 do local _ = {} end end\n"
             "  litter()\n"
             "  collectgarbage('incremental', 1, 1000, 10)\n"
             "  finalizers.full(spare, failing, collect)\n"
             "  assert(failing > 0 or #mare.channels() == 0)\n"
             "  litter() collectgarbage() collectgarbage() litter()\n"
             "end\n"
             "for spare = 4, 7 do\n"
             "  for _, failing in ipairs {0, 1, 3} do\n"
             "    local ok, why = mare.spawn(run, spare, failing):join()\n"
             "    if not ok then error(why) end\n"
             "  end\n"
             "end\n"
             "return #mare.channels() == 0",
             NULL);
    mare_stop(runtime);
}

// ---- The end of all -----------------------------------------------------------------------------

static int open_arrivals(lua_State *L)
{
    if (luaL_dostring(L, "return {arrive = function(x) return x end}"))
        return lua_error(L);
    return 1;
}

// Processes are launched in another order than they got their numbers: the first of the spawned is
// launched after the others, from inside of whose spawn they are.
static void all_are_killed_without_memory(void **state)
{
    (void)state;
    enum { WAIT = 300 };
    mare_runtime *runtime = run_start(2);
    assert_int_equal(mare_offer_lua(runtime, "arrivals", open_arrivals), MARE_OK);
    mare_channel *ready = run_channel(runtime, WAIT + 2);
    mare_message *arguments = run_message();
    run_add_channel(arguments, ready);
    assert_int_equal(mare_message_add_integer(arguments, WAIT), MARE_OK);
    mare_process *program = run_spawn(runtime,
                                      "local mare, ready, count = require 'mare', ...\n"
                                      "local function wait() ready:send(1) mare.sleep(1e6) end\n"
                                      "local late = setmetatable({}, {__travel = function()\n"
                                      "  for i = 1, count do assert(mare.spawn(wait)) end\n"
                                      "  return 'arrivals', 1\n"
                                      "end})\n"
                                      "assert(mare.spawn(wait, late))\n"
                                      "wait()",
                                      arguments);
    for (int i = 0; i < WAIT + 2; i++)
        run_receive_integer(runtime, ready);
    mare__alloc_fail_after(1);
    mare__runtime_kill_all(runtime, "all end");
    mare__alloc_fail_after(0);
    assert_int_equal(mare_wait_until(runtime, run_soon(runtime)), MARE_OK);
    mare_process_unref(program);
    mare_message_destroy(arguments);
    mare_chan_unref(ready);
    mare_stop(runtime);
}

#define CASE(name) cmocka_unit_test_teardown(name, end_countdown)

UNIT_TESTS(CASE(messages_at_every_point), CASE(start_and_stop_at_every_point),
           CASE(conversation_at_every_point), CASE(tables_and_functions_at_every_point),
           CASE(selects_and_names_at_every_point), CASE(families_at_every_point),
           CASE(coroutines_at_every_point), CASE(buffers_at_every_point),
           CASE(routines_at_every_point), CASE(files_and_names_at_every_point),
           CASE(limits_at_every_point), CASE(a_finalizer_that_cannot_be_called_has_done_its_work),
           CASE(finalizers_that_have_no_stack_have_done_their_work),
           CASE(all_are_killed_without_memory))
