// SPDX-License-Identifier: MIT
// Who is served when, beside processes that compute without end (src/sched/ready.c): one worker, in
// a time of its own, so that the figures are those of the rules and not of the machine.
#include "sched/runtime.h"
#include "world.h"

enum { MS = 1000000, LOOPS = 50 };

// A runtime with one worker in which so many loops have used up a slice.
static mare_runtime *crowded(struct world *world, mare_process *loops[LOOPS])
{
    world_init(world, 1);
    mare_runtime *runtime = world_runtime(world, 1);
    for (int i = 0; i < LOOPS; i++)
        loops[i] = run_spawn(runtime, "while true do end", NULL);
    run_true(runtime, "require 'mare'.sleep(0.4) return true", NULL);
    return runtime;
}

static void disperse(mare_runtime *runtime, mare_process *loops[LOOPS])
{
    for (int i = 0; i < LOOPS; i++) {
        assert_true(mare_process_kill(loops[i]));
        assert_int_equal(mare_process_join_until(loops[i], MARE_FOREVER, NULL), MARE_KILLED);
        mare_process_unref(loops[i]);
    }
    mare_stop(runtime);
}

// How long it took until the code had returned true.
static uint64_t time_of(struct world *world, mare_runtime *runtime, const char *code)
{
    uint64_t began_ns = world->now_ns;
    run_true(runtime, code, NULL);
    return world->now_ns - began_ns;
}

// A tick meets whoever has the worker just then. A hundred processes that have had turns of some
// microseconds since the last one share the blame: none has used up a slice, or it would stand in
// line behind all the loops, 60 ms in all, before its next turn.
static void who_gives_way_often_does_not_count_as_one_who_computes(void **state)
{
    (void)state;
    struct world world;
    mare_process *loops[LOOPS];
    mare_runtime *runtime = crowded(&world, loops);
    run_true(runtime,
             "local mare = require 'mare'\n"
             "local all, longest = {}, 0\n"
             "for i = 1, 100 do\n"
             "    all[i] = mare.spawn(function()\n"
             "        local mare, longest = require 'mare', 0\n"
             "        mare.sleep(0.1)\n"
             "        for turn = 1, 200 do\n"
             "            for i = 1, 150 do end\n"
             "            local began = mare.now()\n"
             "            mare.yield()\n"
             "            longest = math.max(longest, mare.now() - began)\n"
             "        end\n"
             "        return longest\n"
             "    end)\n"
             "end\n"
             "for i = 1, 100 do longest = math.max(longest, select(2, assert(all[i]:join()))) end\n"
             "return longest < 0.03 or error(longest)",
             NULL);
    disperse(runtime, loops);
}

// New processes stand apart from those that wait as long as they may be like the loops. But those
// that wait, or end, at once are not counted as turns that the loops must be given in return.
static void new_ones_that_end_soon_do_not_wait_for_those_who_compute(void **state)
{
    (void)state;
    struct world world;
    mare_process *loops[LOOPS];
    mare_runtime *runtime = crowded(&world, loops);
    uint64_t took_ns = time_of(&world, runtime,
                               "local mare = require 'mare'\n"
                               "local all = {}\n"
                               "mare.sleep(0.1)\n" // meanwhile a loop uses up a slice
                               "for i = 1, 3000 do all[i] = mare.spawn(function() end) end\n"
                               "for i = 1, 3000 do assert(all[i]:join()) end\n"
                               "return true");
    // One slice of a loop for three of them would make it more than a second.
    assert_true(took_ns < 500u * MS);
    disperse(runtime, loops);
}

// One who makes a single process, in the middle of a crowd of new ones that another has made, or
// that it has made before its last wait: that one does not stand behind all of them. They would
// take more than a second to have a turn each.
static void a_lone_new_one_does_not_wait_for_a_crowd_of_new_ones(void **state)
{
    (void)state;
    struct world world;
    mare_process *loops[LOOPS];
    mare_runtime *runtime = crowded(&world, loops);
    run_true(runtime,
             "local mare = require 'mare'\n"
             "local all, order, came = {}, {}, mare.channel(100)\n"
             "for i = 1, 1000 do all[i] = mare.spawn(function() while true do end end) end\n"
             "mare.sleep(0.001)\n"
             "local began = mare.now()\n"
             "for i = 1, 10 do assert(mare.spawn(function() return true end):join()) end\n"
             "local took = (mare.now() - began) / 10\n"
             // Those that are made one by one keep their order.
             "for i = 1, 10 do\n"
             "    mare.spawn(function() came:send(i) end)\n"
             "    mare.sleep(0)\n"
             "end\n"
             "for i = 1, 10 do assert(came:receive() == i) end\n"
             "for i = 1, 1000 do all[i]:kill() end\n"
             "return took < 0.03 or error(took)",
             NULL);
    disperse(runtime, loops);
}

// A loop that counts between two times that all know.
#define COUNT                                                                                      \
    "local function count(from, till)\n"                                                           \
    "    local mare, n = require 'mare', 0\n"                                                      \
    "    while mare.now() < from do end\n"                                                         \
    "    while mare.now() < till do n = n + 1 end\n"                                               \
    "    return n\n"                                                                               \
    "end\n"

// Equal loops have equal shares of the time, also those that began later.
static void equal_loops_have_equal_shares(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    mare_runtime *runtime = world_runtime(&world, 1);
    run_true(runtime,
             "local mare = require 'mare'\n" COUNT
             "local now, all, least, most = mare.now(), {}, math.huge, 0\n"
             "for i = 1, 4 do\n"
             "    all[i] = mare.spawn(count, now + 0.05, now + 0.35)\n"
             "    if i == 2 then mare.sleep(0.02) end\n"
             "end\n"
             "for i = 1, 4 do\n"
             "    local n = select(2, assert(all[i]:join()))\n"
             "    least, most = math.min(least, n), math.max(most, n)\n"
             "end\n"
             "return most - least <= least * 0.05 or error(least .. ' to ' .. most)",
             NULL);
    mare_stop(runtime);
}

// Who wakes from a sleep of 1 ms has the worker after a few ticks, however many loops there are;
// with one line for all it would have to wait for a round of theirs, 60 ms.
static void who_wakes_does_not_wait_for_those_who_compute(void **state)
{
    (void)state;
    struct world world;
    mare_process *loops[LOOPS];
    mare_runtime *runtime = crowded(&world, loops);
    run_true(runtime,
             "local mare, longest = require 'mare', 0\n"
             "for i = 1, 200 do\n"
             "    local began = mare.now()\n"
             "    mare.sleep(0.001)\n"
             "    longest = math.max(longest, mare.now() - began)\n"
             "end\n"
             "return longest < 0.006 or error(longest)",
             NULL);
    disperse(runtime, loops);
}

// Two that talk without a pause and loops have half of the worker each: neither keeps the others
// from it. All count: a loop, on its own, counts so much in the time.
static void who_computes_and_who_talks_have_half_of_the_worker_each(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    mare_runtime *runtime = world_runtime(&world, 1);
    run_true(runtime,
             "local mare = require 'mare'\n" COUNT "local function talk(till, to, from)\n"
             "    local mare, n = require 'mare', 0\n"
             "    while mare.now() < till do\n"
             "        to:send(n)\n"
             "        n = from:receive() + 1\n"
             "    end\n"
             "    to:close()\n"
             "    return n\n"
             "end\n"
             "local function answer(from, to)\n"
             "    for n in function() return from:receive() end do to:send(n) end\n"
             "end\n"
             "local function play(loops, talks)\n"
             "    local till, all, counted, said = mare.now() + 0.2, {}, 0, 0\n"
             "    for i = 1, loops do all[i] = mare.spawn(count, 0, till) end\n"
             "    if talks then\n"
             "        local there, back = mare.channel(), mare.channel()\n"
             "        mare.spawn(answer, there, back)\n"
             "        said = select(2, assert(mare.spawn(talk, till, there, back):join()))\n"
             "    end\n"
             "    for i = 1, loops do counted = counted + select(2, assert(all[i]:join())) end\n"
             "    return counted, said\n"
             "end\n"
             "local alone, _ = play(1, false)\n"
             "local _, undisturbed = play(0, true)\n"
             "local counted, said = play(10, true)\n"
             "local compute, talked = counted / alone, said / undisturbed\n"
             "return compute > 0.45 and talked > 0.4 or error(compute .. ' ' .. talked)",
             NULL);
    mare_stop(runtime);
}

UNIT_TESTS(cmocka_unit_test(a_lone_new_one_does_not_wait_for_a_crowd_of_new_ones),
           cmocka_unit_test(equal_loops_have_equal_shares),
           cmocka_unit_test(who_wakes_does_not_wait_for_those_who_compute),
           cmocka_unit_test(who_computes_and_who_talks_have_half_of_the_worker_each),
           cmocka_unit_test(who_gives_way_often_does_not_count_as_one_who_computes),
           cmocka_unit_test(new_ones_that_end_soon_do_not_wait_for_those_who_compute))
