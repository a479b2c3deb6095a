/* SPDX-License-Identifier: MIT */

/* Ad hoc networks whose nodes move about: elections over neighbours that change, with faults. In
 * the end, when they rest, those that hear each other agree on the best of them.
 *
 *   SWEEP_SEEDS=100000 SWEEP_FROM=1 build/tests/sim/test_sim_roaming      as tools/sweep.sh does */

#include "support/unit.h"

#include "sim/sim.h"
#include "sim/workload.h"

#include <inttypes.h>
#include <stdlib.h>

/* Nodes that move: who hears whom changes from time to time, at random, and then rests. */
typedef struct roaming {
    uint64_t seed;
    uint32_t place; /* counts moves */
} roaming;

#define MOVE 1000000u /* the number of a wake that moves the nodes */

static int in_reach(void *context, uint32_t a, uint32_t b)
{
    const roaming *r = context;
    uint64_t low = a < b ? a : b, high = a < b ? b : a;
    mare_sim_random pair = mare_sim_stream(r->seed * 131 + r->place, low * 64 + high);
    return mare_sim_below(&pair, 5) < 2;
}

static void set_capacity(void *context, mare_coord_setup *setup)
{
    const roaming *r = context;
    mare_sim_random random = mare_sim_stream(r->seed, 5000 + setup->self);
    mare_coord_setup_set(setup, "capacity", (int64_t)mare_sim_below(&random, 4));
}

static void roam_begin(void *state, mare_sim *sim)
{
    mare_sim_workload_election.begin(state, sim);
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.members; i++)
        mare_sim_wake(sim, i, 60000 + 90000 * i, MOVE);
}

static void roam_wake(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    roaming *r = mare_sim_options_of(sim)->hooks.context;
    if (number < MOVE || number > MOVE + 1) {
        mare_sim_workload_election.wake(state, sim, process, number);
        return;
    }
    r->place += number == MOVE && !mare_sim_settling(sim);
    mare_sim_relink(sim);
    if (number == MOVE && !mare_sim_settling(sim))
        mare_sim_wake(sim, process, 200000, MOVE);
}

/* One that was paused has missed the last moves. */
static void roam_settle(void *state, mare_sim *sim)
{
    mare_sim_workload_election.settle(state, sim);
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (mare_sim_is_up(sim, i))
            mare_sim_wake(sim, i, 0, MOVE + 1);
    }
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void roam_with(uint64_t seed)
{
    mare_sim_workload roam = mare_sim_workload_election;
    roam.begin = roam_begin;
    roam.wake = roam_wake;
    roam.settle = roam_settle;
    mare_sim_options options;
    mare_sim_outcome out;
    roaming r = {.seed = seed};
    mare_sim_options_init(&options, mare_coord_find("wireless"), 3 + (uint32_t)(seed % 8));
    options.seed = seed;
    mare_sim_vary(&options);
    options.workload = &roam;
    options.hooks = (mare_sim_hooks){.context = &r, .linked = in_reach, .adjust = set_capacity};
    if (!mare_sim_run(&options, NULL, &out))
        fail_msg("%s: %s, SWEEP_FROM=%" PRIu64 " SWEEP_SEEDS=1", out.violation, out.detail, seed);
    mare_sim_options_fini(&options);
}

static void nodes_that_move_agree_where_they_rest(void **state)
{
    (void)state;
    uint64_t from = setting("SWEEP_FROM", 1);
    uint64_t seeds = setting("SWEEP_SEEDS", getenv("MARE_TEST_SLOW") ? 200 : 2000);
    for (uint64_t seed = from; seed < from + seeds; seed++)
        roam_with(seed);
}

/* Ten that rest in long lines, with messages that take 169 ms: the bound of a group where everybody
 * hears everybody was over one message before they agreed. */
static void a_long_tree_has_its_time(void **state)
{
    (void)state;
    roam_with(17557);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_move_agree_where_they_rest),
        cmocka_unit_test(a_long_tree_has_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
