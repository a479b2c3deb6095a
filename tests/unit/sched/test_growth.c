// SPDX-License-Identifier: MIT
// Twice as much must not be four times the work. Each case is done with n and with 2n of something,
// and the steps of our own C code are counted (tests/support/steps.h): twice as many for what is
// linear, four times for what walks a list for each. What Lua itself does is not counted; of the
// library that is written in Lua, its instructions are.
#include <limits.h>
#include <mare/events.h>
#include <semaphore.h>
#include <stdio.h>

#include "runtime.h"
#include "sched/runtime.h"
#include "sched/task.h"
#include "steps.h"
#include "world.h"

// Linear is 2, n log n a little more, a square 4.
#define MOST 2.5

// Does something with n of something, in a runtime of its own with one worker.
typedef void scenario(mare_runtime *runtime, int64_t n);

static unsigned long steps_of(scenario *play, int64_t n)
{
    unsigned long before = steps_made();
    mare_runtime *runtime = run_start(1);
    play(runtime, n);
    mare_stop(runtime);
    return steps_made() - before;
}

static unsigned long hundreds; // of instructions

static bool count_hundred(void *context, struct mare__tick *tick)
{
    hundreds++;
    return world_counted(context, tick);
}

static unsigned long instructions_of(scenario *play, int64_t n)
{
    struct world world;
    unsigned long before = hundreds;
    world_init(&world, 1);
    world.platform.counted = count_hundred;
    mare_runtime *runtime = world_runtime(&world, 1);
    play(runtime, n);
    mare_stop(runtime);
    return 100 * (hundreds - before);
}

// The least of several runs counts: whatever else goes on (ticks, looking around before a sleep,
// waiting for a lock) only ever adds. So one that seems to grow too fast is tried again.
static void grows_no_faster(const char *name, unsigned long (*work_of)(scenario *, int64_t),
                            scenario *play, int64_t n)
{
    enum { TIMES = 12 };
    unsigned long once = ULONG_MAX, twice = ULONG_MAX;
    double ratio = MOST + 1;
    for (int i = 0; i < TIMES && ratio > MOST; i++) {
        unsigned long steps = work_of(play, n);
        once = steps < once ? steps : once;
        steps = work_of(play, 2 * n);
        twice = steps < twice ? steps : twice;
        ratio = (double)twice / (double)once;
    }
    printf("# %s: %lu steps with %lld, %.2f times as many with twice that\n", name, once,
           (long long)n, ratio);
    if (ratio > MOST)
        fail_msg("%s: twice as many are %.2f times the work", name, ratio);
}

static void run_lua(mare_runtime *runtime, int64_t n, const char *code)
{
    mare_message *arguments = run_message();
    mare_message_add_integer(arguments, n);
    run_true(runtime, code, arguments);
    mare_message_destroy(arguments);
}

// A scenario in Lua, which has `m`, the module, and `n`.
#define COUNTED(work_of, name, n, code)                                                            \
    static void play_##name(mare_runtime *runtime, int64_t count)                                  \
    {                                                                                              \
        run_lua(runtime, count, "local m, n = require 'mare', ... " code " return true");          \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        grows_no_faster(#name, work_of, play_##name, n);                                           \
    }
#define IN_LUA(name, n, code) COUNTED(steps_of, name, n, code)
#define IN_INSTRUCTIONS(name, n, code) COUNTED(instructions_of, name, n, code)

// ---- Links and monitors -------------------------------------------------------------------------

IN_LUA(links_to_one_that_end_well, 20000,
       "local gate = m.channel() "
       "for i = 1, n do m.spawn({link = true}, function(g) g:receive() end, gate) end "
       "gate:close() m.wait()")

IN_LUA(links_that_are_made_and_undone, 4000,
       "local gate, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.spawn(function(g) g:receive() end, gate) end "
       "for i = 1, n do all[i]:link() all[i]:link() end "
       "for i = 1, n, 2 do all[i]:unlink() end for i = n, 1, -2 do all[i]:unlink() end "
       "gate:close() m.wait()")

IN_LUA(links_of_one_that_dies, 4000,
       "local tied = m.channel() "
       "local hub = m.spawn(function(n, tied) local m = require 'mare' "
       "  for i = 1, n do m.spawn({link = true}, function(c) c:receive() end, m.channel()) end "
       "  tied:send() m.channel():receive() "
       "end, n, tied) "
       "tied:receive() hub:kill() m.wait()")

IN_LUA(links_between_two_with_many_each, 2000,
       "local gate, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.spawn(function(g) g:receive() end, gate) end "
       "local function tie(all, gate, others) "
       "  for _, p in ipairs(all) do p:link() end "
       "  for i = 1, #all do for _, o in ipairs(others) do o:link() o:unlink() end end "
       "  for _, p in ipairs(all) do p:unlink() end "
       "end "
       "local a = m.spawn(tie, all, gate, {}) a:join() "
       "for _, p in ipairs(all) do p:link() end "
       "local b = m.spawn(tie, all, gate, {m.self()}) b:join() "
       "for _, p in ipairs(all) do p:unlink() end "
       "gate:close() m.wait()")

IN_LUA(monitors_of_one, 4000,
       "local gate, told = m.channel(), m.channel() "
       "local p = m.spawn(function(g) g:receive() end, gate) "
       "for i = 1, n do p:monitor(told) end gate:close() "
       "for i = 1, n do assert(told:receive() == p) end")

IN_LUA(monitors_of_many, 4000,
       "local gate, told = m.channel(), m.channel() "
       "for i = 1, n do m.spawn({monitor = told}, function(g) g:receive() end, gate) end "
       "gate:close() for i = 1, n do told:receive() end")

// ---- Processes and routines ---------------------------------------------------------------------

IN_LUA(processes_that_wait_for_one, 4000,
       "local gate = m.channel() "
       "local p = m.spawn(function(g) g:receive() end, gate) "
       "for i = 1, n do m.spawn(function(p) p:join() end, p) end gate:close() m.wait()")

IN_LUA(names_of_processes, 4000,
       "local gate, all = m.channel(), {} "
       "for i = 1, n do "
       "  all[i] = m.spawn({name = 'p' .. i}, function(g) g:receive() end, gate) "
       "end "
       "for i = 1, n do assert(m.find('p' .. i) == all[i]) end gate:close() m.wait()")

IN_LUA(processes_in_one_select, 2000,
       "local gate, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.spawn(function(g) g:receive() end, gate) end "
       "assert(select(3, m.select(all, 0)) == 'timeout') gate:close() "
       "assert(m.select(all)) m.wait()")

IN_LUA(processes_with_limits, 1000,
       "local gate, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.spawn({memory = 1 << 20}, function(g) "
       "  local b = require 'mare'.buffer(1000) g:receive() return b "
       "end, gate) end gate:close() for i = 1, n do assert(all[i]:join()) end")

IN_LUA(recycled_states, 1000,
       "m.recycle(n) local gate = m.channel() "
       "for i = 1, n do m.spawn(function(g) g:receive() end, gate) end gate:close() m.wait() "
       "for i = 1, n do m.spawn(function() end) end m.wait() m.recycle(0)")

IN_LUA(loaders_that_are_inherited, 1000,
       "for i = 1, n do package.preload['l' .. i] = function() return i end end "
       "local function all(n) for i = 1, n do assert(require('l' .. i) == i) end return true end "
       "assert(m.spawn(all, n):join()) package.preload.more = all "
       "assert(m.spawn(all, n):join())")

IN_LUA(results_of_results, 4000,
       "local last for i = 1, n do "
       "  local p = m.spawn(function(x) return x end, last) p:join() last = p "
       "end last = nil collectgarbage() collectgarbage()")

IN_LUA(routines_that_wait_for_one, 4000,
       "local c, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.go(function() return c:receive() end) end m.yield() "
       "c:close() for i = 1, n do all[i]:join() end")

IN_LUA(routines_that_are_cancelled, 4000,
       "local c, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.go(function() return c:receive() end) end m.yield() "
       "for i = 1, n, 2 do all[i]:cancel() end for i = n, 1, -2 do all[i]:cancel() end "
       "for i = 1, n do all[i]:join() end")

// ---- Channels and messages ----------------------------------------------------------------------

IN_LUA(channels_in_channels, 8000,
       "local last for i = 1, n do "
       "  local c = m.channel(1) if last then c:send(last) end last = c "
       "end last = nil collectgarbage() collectgarbage()")

IN_LUA(names_of_channels, 8000,
       "local all = {} for i = 1, n do all[i] = m.channel(0, 'c' .. i) end "
       "for i = 1, n do assert(m.find('c' .. i) == all[i]) end "
       "for i = 1, n do all[i]:close() end")

IN_LUA(messages_in_one_buffer, 20000,
       "local c = m.channel(n) for i = 1, n do c:send(i) end "
       "for i = 1, n do assert(c:receive() == i) end")

IN_LUA(waits_in_one_line_that_end_elsewhere, 2000,
       "local c, mine, all = m.channel(), {}, {} "
       "for i = 1, n do mine[i] = m.channel() "
       "  all[i] = m.go(function() return m.select {c, mine[i]} end) "
       "end m.yield() "
       "for i = 1, n, 2 do mine[i]:send(1) end for i = n, 1, -2 do mine[i]:send(1) end "
       "for i = 1, n do assert(select(2, all[i]:join()) == 2) end")

IN_LUA(a_select_over_many, 4000,
       "local cases = {} for i = 1, n do cases[i] = m.channel(1) end "
       "assert(select(3, m.select(cases, 0)) == 'timeout') "
       "m.go(function() cases[n]:send(1) end) assert(m.select(cases, 60) == n)")

IN_LUA(selects_in_the_same_line, 2000,
       "local c, all = m.channel(), {} "
       "for i = 1, n do all[i] = m.go(function() "
       "  local mine = {} for k = 1, 9 do mine[k] = m.channel() end mine[10] = c "
       "  return m.select(mine) "
       "end) end m.yield() "
       "for i = 1, n do c:send(i) end for i = 1, n do all[i]:join() end")

IN_LUA(channels_in_one_message, 4000,
       "local c, all = m.channel(1), {} for i = 1, n do all[i] = m.channel() end "
       "c:send(all) assert(#c:receive() == n)")

IN_LUA(buffers_in_one_message, 4000,
       "local c, all = m.channel(1), {} for i = 1, n do all[i] = m.buffer 'x' end "
       "c:send(all) assert(#c:receive() == n)")

IN_LUA(tables_in_one_message, 4000,
       "local c, all = m.channel(1), {} "
       "for i = 1, n do all[i] = {i, all[i - 1], all[i // 2]} end "
       "c:send(all) assert(#c:receive() == n)")

IN_LUA(mixed_tables_in_each_other, 2000,
       "local c, all = m.channel(1), {} "
       "for i = 1, n do all = {all, i, m.channel(), name = 'x'} end "
       "c:send(all) assert(c:receive()[1][2] == n - 1)")

IN_LUA(tables_in_each_other_that_share_one, 4000,
       "local c, all, one = m.channel(1), {}, {} "
       "for i = 1, n do all = {one, all, one} end "
       "c:send(all) assert(c:receive()[2][1])")

IN_LUA(values_that_travel_in_each_other, 2000,
       "local c, all, one = m.channel(1), {}, {} "
       "package.preload.here = function() return {arrive = function(v) return v end} end "
       "for i = 1, n do "
       "  local inner = all "
       "  all = setmetatable({}, {__travel = function() return 'here', {one, inner} end}) "
       "end "
       "c:send(all) assert(c:receive()[2][2][1])")

IN_LUA(references_beside_finalizers_that_fail, 2000,
       "local all = {} for i = 1, n do all[i] = m.channel() end "
       "for i = 1, n do setmetatable({}, {__gc = function() error 'on purpose' end}) end "
       "collectgarbage() collectgarbage() assert(#all == n)")

// ---- Timers, jobs, sources ----------------------------------------------------------------------

IN_LUA(timers_that_are_cancelled, 8000,
       "local all = {} for i = 1, n do all[i] = m.timer(1000 + i * 7919 % n) end "
       "for i = 1, n, 2 do all[i]:cancel() end for i = n, 1, -2 do all[i]:cancel() end")

IN_LUA(timers_that_come, 4000,
       "local all = {} for i = 1, n do all[i] = m.timer(i * 7919 % 10 / 1000) end "
       "for i = 1, n do assert(all[i]:wait()) end")

IN_LUA(timers_that_come_again_and_are_dropped, 2000,
       "local all = {} for i = 1, n do all[i] = m.timer(0.001, 1000) end "
       "for i = 1, n do assert(all[i]:wait()) end all = nil collectgarbage() collectgarbage()")

IN_LUA(sleepers, 4000,
       "local all = {} for i = 1, n do all[i] = m.go(m.sleep, 1000 + i * 7919 % n) end m.yield() "
       "for i = 1, n, 2 do all[i]:cancel() end for i = n, 1, -2 do all[i]:cancel() end "
       "for i = 1, n do all[i]:join() end")

IN_LUA(programs_that_run, 20,
       "local child, all = require 'mare.child', {} "
       "for i = 1, n do all[i] = assert(child.spawn {'cat', stdin = 'pipe'}) end "
       "for i = n, 1, -1 do all[i]:kill() end for i = 1, n do all[i]:wait() end")

IN_LUA(waits_for_one_descriptor, 500,
       "local net, all = require 'mare.net', {} local l = assert(net.listen('127.0.0.1', 0)) "
       "local a = assert(net.connect(l:address())) local b = assert(l:accept()) "
       "for i = 1, n do all[i] = m.go(function() return a:read(1) end) end m.yield() "
       "for i = 1, n do assert(b:write 'x') m.yield() end "
       "for i = 1, n do assert(all[i]:join()) end")

IN_LUA(jobs_in_line, 1000,
       "local file, all = require 'mare.file', {} "
       "for i = 1, n do all[i] = m.go(function() return assert(file.stat '/') end) end "
       "for i = 1, n do assert(all[i]:join()) end")

// ---- The library in Lua -------------------------------------------------------------------------

IN_INSTRUCTIONS(children_of_a_supervisor, 400,
                "local s, gate, all = require 'mare.supervisor', m.channel(), {} "
                "for i = 1, n do "
                "  all[i] = {id = 'c' .. i, args = {gate}, restart = 'temporary', "
                "            start = function(g) g:receive() end} "
                "end "
                "local tree = assert(s.start {children = all}) "
                "for i = 1, n do assert(tree:find('c' .. i)) end "
                "for i = 1, n, 2 do assert(tree:remove('c' .. i)) end "
                "gate:close() "
                "while #tree:children() > 0 do m.sleep(1) end assert(tree:stop())")

IN_INSTRUCTIONS(events_of_sources_that_follow_each_other, 300,
                "local o, c = require 'mare.observer'.new(), m.channel(1) "
                "for i = 1, n do "
                "  o:register_source(c, 1) c:send(i) m.yield() m.yield() o:remove_source(1) "
                "end "
                "for i = 1, n do assert(o:take(1)) end")

// ---- In C ---------------------------------------------------------------------------------------

// All are killed while the only worker is kept, so that none of them has ended.
static sem_t go_on;

static bool keep_the_worker(struct mare__task *task)
{
    (void)task;
    while (sem_wait(&go_on) != 0)
        ; // a tick
    return false;
}

static void forget_task(struct mare__object *object)
{
    free(object);
}

static void play_kill_all(mare_runtime *runtime, int64_t n)
{
    static const char code[] = "return true";
    struct mare__task *task = calloc(1, sizeof *task);
    assert_non_null(task);
    sem_init(&go_on, 0, 0);
    mare__task_init(task, runtime, keep_the_worker, forget_task);
    mare__task_yield(task);
    mare__task_start(task);
    for (int64_t i = 0; i < n; i++)
        mare_process_unref(run_spawn(runtime, code, NULL));
    mare__runtime_kill_all(runtime, "enough");
    sem_post(&go_on);
    assert_int_equal(mare_wait_until(runtime, run_soon(runtime)), MARE_OK);
    mare__task_release(task);
    sem_destroy(&go_on);
}

static void processes_that_are_all_killed(void **state)
{
    (void)state;
    grows_no_faster("processes_that_are_all_killed", steps_of, play_kill_all, 2000);
}

static const mare_source_kind told = {.name = "told"};

static void ignore(void *user, mare_message *event)
{
    (void)user, (void)event;
}

// Sources that the program closes by letting go of them, and objects that are found by number.
static void play_sources(mare_runtime *runtime, int64_t n)
{
    mare_scheduler *scheduler;
    mare_source **sources = calloc((size_t)n, sizeof *sources);
    uint64_t *ids = calloc((size_t)n, sizeof *ids);
    assert_true(sources && ids);
    assert_int_equal(mare_scheduler_create(runtime, &scheduler), MARE_OK);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(mare_source_create(runtime, &told, NULL, -1, 1, &sources[i]), MARE_OK);
        assert_int_equal(
            mare_scheduler_register_source(scheduler, sources[i], ignore, NULL, &ids[i]), MARE_OK);
    }
    for (int64_t i = 0; i < n; i += 2)
        assert_true(mare_scheduler_remove_source(scheduler, ids[i]));
    for (int64_t i = 0; i < n; i++) {
        mare_source_close(sources[i]); // closed, it is still referred to
        assert_int_equal(mare_scheduler_create_object(scheduler, ignore, NULL, NULL, &ids[i]),
                         MARE_OK);
    }
    for (int64_t i = n - 1; i >= 0; i--)
        assert_true(mare_scheduler_make_ready(scheduler, ids[i]));
    while (mare_scheduler_step(scheduler, run_soon(runtime)) == MARE_OK)
        ;
    mare_scheduler_destroy(scheduler);
    for (int64_t i = 0; i < n; i++)
        mare_source_unref(sources[i]);
    free(sources);
    free(ids);
}

static void sources_and_objects(void **state)
{
    (void)state;
    grows_no_faster("sources_and_objects", steps_of, play_sources, 4000);
}

// A message keeps them: the end of the runtime closes them all.
static void play_sources_at_the_end(mare_runtime *runtime, int64_t n)
{
    mare_channel *channel = run_channel(runtime, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        mare_source *source;
        mare_message *message = run_message();
        assert_int_equal(mare_source_create(runtime, &told, NULL, -1, 1, &source), MARE_OK);
        assert_int_equal(mare_message_add_source(message, source), MARE_OK);
        run_add_channel(message, channel);
        assert_int_equal(mare_chan_try_send(channel, message), MARE_OK);
        mare_message_destroy(message);
        mare_source_unref(source);
    }
    mare_chan_unref(channel);
}

static void sources_that_the_end_closes(void **state)
{
    (void)state;
    grows_no_faster("sources_that_the_end_closes", steps_of, play_sources_at_the_end, 8000);
}

UNIT_TESTS(cmocka_unit_test(links_to_one_that_end_well),
           cmocka_unit_test(links_that_are_made_and_undone),
           cmocka_unit_test(links_of_one_that_dies),
           cmocka_unit_test(links_between_two_with_many_each), cmocka_unit_test(monitors_of_one),
           cmocka_unit_test(monitors_of_many), cmocka_unit_test(processes_that_are_all_killed),
           cmocka_unit_test(processes_that_wait_for_one), cmocka_unit_test(names_of_processes),
           cmocka_unit_test(results_of_results), cmocka_unit_test(routines_that_wait_for_one),
           cmocka_unit_test(routines_that_are_cancelled), cmocka_unit_test(channels_in_channels),
           cmocka_unit_test(names_of_channels), cmocka_unit_test(messages_in_one_buffer),
           cmocka_unit_test(waits_in_one_line_that_end_elsewhere),
           cmocka_unit_test(a_select_over_many), cmocka_unit_test(selects_in_the_same_line),
           cmocka_unit_test(channels_in_one_message), cmocka_unit_test(buffers_in_one_message),
           cmocka_unit_test(tables_in_one_message), cmocka_unit_test(timers_that_are_cancelled),
           cmocka_unit_test(timers_that_come), cmocka_unit_test(jobs_in_line),
           cmocka_unit_test(sources_and_objects), cmocka_unit_test(sources_that_the_end_closes),
           cmocka_unit_test(processes_in_one_select), cmocka_unit_test(processes_with_limits),
           cmocka_unit_test(recycled_states), cmocka_unit_test(loaders_that_are_inherited),
           cmocka_unit_test(mixed_tables_in_each_other),
           cmocka_unit_test(tables_in_each_other_that_share_one),
           cmocka_unit_test(values_that_travel_in_each_other),
           cmocka_unit_test(references_beside_finalizers_that_fail),
           cmocka_unit_test(timers_that_come_again_and_are_dropped), cmocka_unit_test(sleepers),
           cmocka_unit_test(programs_that_run), cmocka_unit_test(waits_for_one_descriptor),
           cmocka_unit_test(children_of_a_supervisor),
           cmocka_unit_test(events_of_sources_that_follow_each_other))
