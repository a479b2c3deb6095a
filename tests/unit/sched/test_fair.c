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
    run_true(runtime, "require 'mare'.sleep(1) return true", NULL);
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

UNIT_TESTS(cmocka_unit_test(who_gives_way_often_does_not_count_as_one_who_computes),
           cmocka_unit_test(new_ones_that_end_soon_do_not_wait_for_those_who_compute))
