// SPDX-License-Identifier: MIT
// Runtimes on a platform that is given to them: without a thread, in a time of its own, and the
// same again with the same seed.
#include <dirent.h>

#include "sched/runtime.h"
#include "world.h"

enum { MS = 1000000 };

static unsigned threads_of_this_program(void)
{
    DIR *folder = opendir("/proc/self/task");
    unsigned count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void an_hour_passes_at_once_and_without_threads(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    unsigned threads = threads_of_this_program();
    mare_runtime *runtime = world_runtime(&world, 2);
    uint64_t began_ns = world.now_ns;
    mare_process *process =
        run_spawn(runtime,
                  "local mare = require 'mare'\n"
                  "local began = mare.now()\n"
                  "local other = mare.spawn(function() require 'mare'.sleep(1800) end)\n"
                  "assert(other:join())\n"
                  "mare.sleep(1800)\n"
                  "assert(mare.now() - began >= 3600)",
                  NULL);
    assert_int_equal(mare_process_join_until(process, MARE_FOREVER, NULL), MARE_OK);
    mare_process_unref(process);
    uint64_t passed_ns = world.now_ns - began_ns;
    assert_int_equal(threads_of_this_program(), threads);
    assert_true(passed_ns >= 3600 * 1000ull * MS);
    assert_true(passed_ns < 3601 * 1000ull * MS);
    mare_stop(runtime);
}

static void the_clocks_of_lua_are_those_of_the_platform(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1); // in which it is the second second of 1970
    mare_runtime *runtime = world_runtime(&world, 1);
    run_true(runtime,
             "local mare = require 'mare'\n"
             "local time, clock = os.time(), os.clock()\n"
             "assert(time == 1 and clock >= 1 and clock < 2)\n"
             "assert(os.date('!%F %T') == '1970-01-01 00:00:01')\n"
             "mare.sleep(5)\n"
             "assert(os.time() == 6 and os.time(nil) == 6)\n"
             "assert(os.clock() - clock >= 5 and os.clock() - clock < 6)\n"
             "assert(os.date('!%T') == '00:00:06' and os.date('!*t').sec == 6)\n"
             "assert(os.date('!%T', 7) == '00:00:07')\n" // a time that is given is no clock's
             "assert(os.time {year = 2000, month = 1, day = 2} % 60 == 0)\n"
             "return true",
             NULL);
    mare_stop(runtime);
}

static void who_computes_is_cut_off_after_so_many_instructions(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 2);
    mare_runtime *runtime = world_runtime(&world, 1);
    mare_process *loops[3];
    for (int i = 0; i < 3; i++)
        loops[i] = run_spawn(runtime, "while true do end", NULL);
    uint64_t began_ns = world.now_ns;
    run_true(runtime, "for i = 1, 10 do require 'mare'.sleep(0.001) end return true", NULL);
    assert_true(world.now_ns - began_ns < 200u * MS); // each sleep may wait for a slice or two
    for (int i = 0; i < 3; i++) {
        mare_process_kill(loops[i]);
        assert_int_equal(run_join(runtime, loops[i], NULL), MARE_KILLED);
    }
    mare_stop(runtime);
}

static void a_step_does_one_piece_of_work(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 3);
    mare_runtime *runtime = world_runtime(&world, 1);
    mare_channel *channel = run_channel(runtime, 10);
    mare_message *arguments = run_message();
    run_add_channel(arguments, channel);
    mare_process *process = run_spawn(runtime,
                                      "local ch, mare = ..., require 'mare'\n"
                                      "for i = 1, 3 do ch:send(i) mare.yield() end",
                                      arguments);
    mare_message_destroy(arguments);
    // With one worker, and one process that gives way after each, no step sends two of them.
    for (int64_t sent = 0, before = 0; sent < 3; before = sent) {
        mare_message *message = NULL;
        world_step(&world, MARE_FOREVER);
        while (mare_chan_receive_until(channel, &message, 0) == MARE_OK) {
            sent++;
            mare_message_destroy(message);
        }
        assert_true(sent <= before + 1);
    }
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_chan_unref(channel);
    mare_stop(runtime);
}

static void nothing_can_move_is_found_out(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 4);
    mare_runtime *runtime = world_runtime(&world, 2);
    mare_process *process = run_spawn(runtime, "require 'mare'.channel():receive()", NULL);
    assert_int_equal(mare__runtime_await(runtime, true, MARE_FOREVER), MARE_DEADLOCK);
    mare_process_kill(process);
    assert_int_equal(run_join(runtime, process, NULL), MARE_KILLED);
    mare_stop(runtime);
}

// ---- The same again -----------------------------------------------------------------------------

// Many that talk, sleep and compute on three workers; who came how far is told in the order in
// which it happened.
static const char crowd[] = "local out, mare = ..., require 'mare'\n"
                            "local ch, all = mare.channel(), {}\n"
                            "for i = 1, 8 do\n"
                            "    all[i] = mare.spawn(function(i, ch, out)\n"
                            "        local mare = require 'mare'\n"
                            "        for n = 1, 5 do\n"
                            "            local k = math.random(3)\n"
                            "            if k == 1 then mare.sleep(math.random(3) / 1000)\n"
                            "            elseif k == 2 then for _ = 1, math.random(20000) do end\n"
                            "            else mare.select({ch, {ch, i}}, 0.001) end\n"
                            "            out:send(i * 10 + n)\n"
                            "        end\n"
                            "    end, i, ch, out)\n"
                            "end\n"
                            "for i = 1, 8 do all[i]:join() end\n"
                            "out:close()\n";

enum { HEARD = 8 * 5 };

struct run {
    int64_t heard[HEARD];
    size_t count;
    uint64_t ended_ns;
    unsigned long pieces;
};

static struct run run_crowd(uint64_t seed)
{
    struct run run = {.count = 0};
    struct world world;
    world_init(&world, seed);
    mare_runtime *runtime = world_runtime(&world, 3);
    mare_channel *out = run_channel(runtime, 0);
    mare_message *arguments = run_message(), *message = NULL;
    run_add_channel(arguments, out);
    mare_process *process = run_spawn(runtime, crowd, arguments);
    mare_message_destroy(arguments);
    while (mare_chan_receive_until(out, &message, run_soon(runtime)) == MARE_OK) {
        mare_value value;
        assert_true(run.count < HEARD);
        assert_int_equal(mare_message_get(message, 0, &value), MARE_OK);
        run.heard[run.count++] = value.as.integer;
        mare_message_destroy(message);
    }
    assert_int_equal(run_join(runtime, process, NULL), MARE_OK);
    mare_chan_unref(out);
    mare_stop(runtime);
    run.ended_ns = world.now_ns;
    run.pieces = world.pieces;
    return run;
}

static void the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    uint64_t seed = unit_seed();
    int different = 0;
    for (int i = 0; i < 5; i++, seed++) {
        struct run first = run_crowd(seed), again = run_crowd(seed), other = run_crowd(~seed);
        assert_int_equal(first.count, HEARD);
        assert_memory_equal(first.heard, again.heard, sizeof first.heard);
        assert_int_equal(first.pieces, again.pieces);
        assert_int_equal(first.ended_ns, again.ended_ns);
        different += memcmp(first.heard, other.heard, sizeof first.heard) != 0;
    }
    assert_true(different > 0); // and it is the seed that decides
}

// ---- Two in one thread --------------------------------------------------------------------------

static const char echo[] = "local from, to, ms = ...\n"
                           "for n in from:messages() do\n"
                           "    require 'mare'.sleep(ms / 1000)\n"
                           "    to:send(n + 1)\n"
                           "end\n";

struct peer {
    mare_runtime *runtime;
    mare_channel *in, *out;
    mare_process *process;
};

static struct peer peer_start(struct world *world, int64_t ms)
{
    struct peer peer = {.runtime = world_runtime(world, 2)};
    mare_message *arguments = run_message();
    peer.in = run_channel(peer.runtime, 1);
    peer.out = run_channel(peer.runtime, 1);
    run_add_channel(arguments, peer.in);
    run_add_channel(arguments, peer.out);
    assert_int_equal(mare_message_add_integer(arguments, ms), MARE_OK);
    peer.process = run_spawn(peer.runtime, echo, arguments);
    mare_message_destroy(arguments);
    return peer;
}

static void peer_stop(struct peer *peer)
{
    mare_chan_close(peer->in);
    assert_int_equal(run_join(peer->runtime, peer->process, NULL), MARE_OK);
    mare_chan_unref(peer->in);
    mare_chan_unref(peer->out);
    mare_stop(peer->runtime);
}

static void two_runtimes_share_a_thread_and_a_clock(void **state)
{
    (void)state;
    enum { ROUNDS = 100 };
    struct world world;
    world_init(&world, 5);
    unsigned threads = threads_of_this_program();
    struct peer a = peer_start(&world, 30), b = peer_start(&world, 70);
    uint64_t began_ns = world.now_ns;
    int64_t n = 0;
    for (int i = 0; i < ROUNDS; i++) { // each runs while this thread waits for the other
        run_send_integer(a.runtime, a.in, n);
        n = run_receive_integer(a.runtime, a.out);
        run_send_integer(b.runtime, b.in, n);
        n = run_receive_integer(b.runtime, b.out);
    }
    assert_int_equal(n, 2 * ROUNDS);
    assert_int_equal(threads_of_this_program(), threads);
    assert_true(world.now_ns - began_ns >= ROUNDS * 100ull * MS);
    assert_true(world.now_ns - began_ns < ROUNDS * 110ull * MS);
    // Both at once: the time of one is the time of the other.
    began_ns = world.now_ns;
    run_send_integer(a.runtime, a.in, 1);
    run_send_integer(b.runtime, b.in, 2);
    assert_int_equal(run_receive_integer(b.runtime, b.out), 3);
    assert_int_equal(run_receive_integer(a.runtime, a.out), 2);
    assert_true(world.now_ns - began_ns < 80u * MS);
    peer_stop(&a);
    run_send_integer(b.runtime, b.in, 5); // the end of one is none of the other's business
    assert_int_equal(run_receive_integer(b.runtime, b.out), 6);
    peer_stop(&b);
}

UNIT_TESTS(cmocka_unit_test(an_hour_passes_at_once_and_without_threads),
           cmocka_unit_test(the_clocks_of_lua_are_those_of_the_platform),
           cmocka_unit_test(who_computes_is_cut_off_after_so_many_instructions),
           cmocka_unit_test(a_step_does_one_piece_of_work),
           cmocka_unit_test(nothing_can_move_is_found_out),
           cmocka_unit_test(the_same_seed_gives_the_same_run),
           cmocka_unit_test(two_runtimes_share_a_thread_and_a_clock))
