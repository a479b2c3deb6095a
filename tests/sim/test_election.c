/* SPDX-License-Identifier: MIT */

/* Elections in the simulator: the examples of the sources, messages equal to the formulas, what the
 * files' heads say about two leaders, and large groups. The sweeps of all algorithms are in
 * test_sim.c, that of nodes that move in test_roaming.c. */

#include "support/unit.h"

#include "sim/record.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the members were told last, and how often two led at one moment. */
typedef struct witness {
    mare_sim_observer observer;
    uint32_t leader[64];
    uint64_t epoch[64];
    uint32_t down, rivals; /* rivals: the most members that led at one moment */
    uint64_t first_us;     /* when `watched` was first told of `awaited`; 0: never */
    uint32_t watched, awaited;
} witness;

static void see(mare_sim_observer *self, const mare_sim_observation *seen)
{
    witness *w = (witness *)self;
    uint32_t leading = 0;
    if (seen->sight == MARE_SIM_CRASHED && seen->process < 64)
        w->leader[seen->process] = MARE_COORD_NOBODY;
    if (seen->sight != MARE_SIM_EFFECT || seen->effect->kind != MARE_COORD_ELECTED ||
        seen->process >= 64)
        return;
    w->leader[seen->process] = seen->effect->peer;
    w->epoch[seen->process] = seen->effect->number;
    if (!w->first_us && seen->process == w->watched && seen->effect->peer == w->awaited)
        w->first_us = seen->time_us;
    for (uint32_t i = 0; i < 64; i++)
        leading += w->leader[i] == i;
    w->rivals = leading > w->rivals ? leading : w->rivals;
}

static int watch(const mare_sim_options *options, witness *w, mare_sim_outcome *out)
{
    uint32_t watched = w->watched, awaited = w->awaited;
    *w = (witness){.observer = {.see = see}, .watched = watched, .awaited = awaited};
    for (uint32_t i = 0; i < 64; i++)
        w->leader[i] = MARE_COORD_NOBODY;
    mare_sim_observer *observers[] = {&w->observer, NULL};
    return mare_sim_run(options, observers, out);
}

/* Calm, as in the sources: process 0 … callers − 1 call one election each. */
static void calm(mare_sim_options *options, const char *name, uint32_t n, uint32_t callers)
{
    mare_sim_options_init(options, mare_coord_find(name), n);
    mare_coord_setup_set(&options->setup, "repair", 0);
    options->entrants = callers;
    options->rounds = 1;
    options->duration_us = UINT64_C(1) << 40;
    options->settle_us = 0;
}

static void counts_equal_the_formulas(void **state)
{
    (void)state;
    const char *const names[] = {"bully", "ring", "wireless"};
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        for (uint32_t n = 2; n <= 200; n += n < 32 ? 1 : 42) {
            mare_sim_options options;
            mare_sim_outcome out;
            calm(&options, names[a], n, 1);
            options.network.delay = MARE_SIM_FIXED;
            assert_true(mare_sim_run(&options, NULL, &out));
            assert_int_equal(out.elections, n);
            assert_int_equal(out.sent, options.setup.algorithm->messages(&options.setup));
            if (n == 200)
                print_message("# %-8s n=%-3u  one election, %u messages = %s\n", names[a],
                              (unsigned)n, (unsigned)out.sent, options.setup.algorithm->formula);
        }
    }
}

/* Eight processes: 7 leads, dies, 6 follows; 7 returns and takes over. */
static void seven_dies_and_returns(void **state)
{
    (void)state;
    const char *const names[] = {"bully", "ring", "wireless"};
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        mare_sim_options options;
        mare_sim_outcome out;
        witness w = {.watched = 4, .awaited = 6};
        mare_sim_options_init(&options, mare_coord_find(names[a]), 8);
        options.rounds = 1;
        options.entrants = 1;
        options.duration_us = 20000000;
        mare_sim_faults_read(&options.faults, "crash:7@5000000+5000000");
        assert_true(watch(&options, &w, &out));
        assert_true(w.first_us > 5000000 && w.first_us < 10000000);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(w.leader[i], 7);
        mare_sim_options_fini(&options);
    }
}

static void several_call_at_once(void **state)
{
    (void)state;
    const char *const names[] = {"bully", "ring", "wireless"};
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        for (uint64_t seed = 1; seed <= 50; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            witness w = {0};
            calm(&options, names[a], 8, 0);
            options.seed = seed;
            options.think_us = 0;
            options.network.delay_us = 10000;
            assert_true(watch(&options, &w, &out));
            for (uint32_t i = 0; i < 8; i++) {
                assert_int_equal(w.leader[i], 7);
                assert_int_equal(w.epoch[i], w.epoch[7]);
            }
        }
    }
}

/* What the head of bully.c says: what 2 sends does not reach 0 and 1, so 1 takes the lead while 2
 * has it, of another epoch; when the cut ends, 2 alone leads. */
static void asymmetric_loss_makes_two_leaders_for_a_while(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    witness w = {0};
    mare_sim_options_init(&options, mare_coord_find("bully"), 3);
    options.detector = MARE_SIM_NO_DETECTOR;
    mare_sim_faults_read(&options.faults, "one-way:2@1000+900000");
    assert_true(watch(&options, &w, &out)); /* never two of one epoch */
    assert_int_equal(w.rivals, 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(w.leader[i], 2);
    mare_sim_options_fini(&options);
}

/* All eight call at once, and all agree on 7; with the improvement lists are swallowed on their
 * way, and more than half of the messages are saved. */
static void two_rounds_or_one(void **state)
{
    (void)state;
    uint64_t sent[2];
    for (int single = 0; single < 2; single++) {
        mare_sim_options options;
        mare_sim_outcome out;
        witness w = {0};
        calm(&options, "ring", 8, 0);
        mare_coord_setup_set(&options.setup, "single", single);
        options.network.delay = MARE_SIM_FIXED;
        options.network.delay_us = 1000000; /* all call within the time of a hop or two */
        options.think_us = 0;
        assert_true(watch(&options, &w, &out));
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(w.leader[i], 7);
            assert_int_equal(w.epoch[i], w.epoch[0]);
        }
        sent[single] = out.sent;
    }
    assert_int_equal(sent[0], 8 * 2 * 8); /* eight callers, two rounds each of eight */
    assert_true(sent[1] < sent[0] / 2);
    print_message("# ring     n=8    eight callers at once: %u messages, single %u\n",
                  (unsigned)sent[0], (unsigned)sent[1]);
}

/* A round or a tree takes longer than the patience that members begin with: it must grow, and not
 * be forgotten, or those for whom an election ended would cut off the next. */
static void a_slow_network_elects(void **state)
{
    (void)state;
    const char *const names[] = {"bully", "ring", "wireless"};
    for (size_t a = 0; a < sizeof names / sizeof *names; a++) {
        for (uint64_t seed = 1; seed <= 40; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, mare_coord_find(names[a]), 8);
            options.seed = seed;
            options.network.delay = MARE_SIM_FIXED;
            options.network.delay_us = 80000 << seed % 3;
            options.rounds = 1;
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s, %u us a message, seed %u: %s", names[a],
                         (unsigned)options.network.delay_us, (unsigned)seed, out.detail);
        }
    }
}

/* The algorithms of the sources, under the faults that those allow; test_sim.c sweeps the repaired
 * ones. */
static void other_settings_are_clean(void **state)
{
    (void)state;
    const struct {
        const char *name, *param;
    } settings[] = {
        {"bully", "repair"}, {"ring", "repair"}, {"ring", "single"}, {"wireless", "repair"}};
    for (size_t a = 0; a < sizeof settings / sizeof *settings; a++) {
        uint64_t elections = 0;
        for (uint64_t seed = 1; seed <= 300; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, mare_coord_find(settings[a].name),
                                  mare_sim_draw_members(seed));
            mare_coord_setup_set(&options.setup, settings[a].param, 0);
            options.seed = seed;
            mare_sim_vary(&options);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("%s: mare sim %s --n %u --seed %u --param %s=0", out.violation,
                         settings[a].name, (unsigned)options.setup.members, (unsigned)seed,
                         settings[a].param);
            elections += out.elections;
            mare_sim_options_fini(&options);
        }
        assert_true(elections > 3000);
    }
}

/* What COORDINATOR says of the ring, at each process: the epoch, and who is on the list. */
typedef struct ring_watch {
    mare_sim_observer observer;
    uint64_t elected[64], lists[64], list[64]; /* by process; a bit for each member */
    uint32_t leader[64];
    uint64_t up;
} ring_watch;

static void watch_ring(mare_sim_observer *self, const mare_sim_observation *seen)
{
    ring_watch *w = (ring_watch *)self;
    uint32_t who = seen->process, member;
    if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_ELECTED) {
        w->elected[who] = seen->effect->number;
        w->leader[who] = seen->effect->peer;
    } else if (seen->sight == MARE_SIM_EFFECT && seen->effect->kind == MARE_COORD_VIEW) {
        assert_int_equal(seen->effect->number, w->elected[who]);
        w->lists[who]++;
        w->list[who] = 0;
        for (uint32_t at = 0; at < seen->effect->length; at += sizeof member) {
            memcpy(&member, seen->effect->data + at, sizeof member);
            w->list[who] |= UINT64_C(1) << member;
        }
        assert_true(w->list[who] >> w->leader[who] & 1);
    } else if (seen->sight == MARE_SIM_CRASHED || seen->sight == MARE_SIM_DEPARTED) {
        w->up &= ~(UINT64_C(1) << who);
    } else if (seen->sight == MARE_SIM_RESTARTED || seen->sight == MARE_SIM_JOINED) {
        w->up |= UINT64_C(1) << who;
    }
}

/* The members of the new ring go round with the leader's name: in the end, whoever is up has been
 * told of a ring with all that are up on it. */
static void a_ring_names_its_members(void **state)
{
    (void)state;
    uint64_t lists = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        ring_watch w = {.observer = {.see = watch_ring}};
        mare_sim_observer *observers[] = {&w.observer, NULL};
        mare_sim_options_init(&options, mare_coord_find("ring"), mare_sim_draw_members(seed));
        options.seed = seed;
        options.profile = (mare_sim_profile)(seed % MARE_SIM_PROFILES);
        mare_sim_vary(&options);
        w.up = (UINT64_C(1) << options.setup.members) - 1;
        assert_true(mare_sim_run(&options, observers, &out));
        for (uint32_t i = 0; i < options.setup.capacity; i++) {
            if (w.up >> i & 1)
                assert_int_equal(w.up & ~w.list[i], 0);
            lists += w.lists[i];
        }
        mare_sim_options_fini(&options);
    }
    assert_true(lists > 3000);
}

static void ten_thousand_members(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    calm(&options, "ring", 10000, 1);
    clock_t begin = clock();
    assert_true(mare_sim_run(&options, NULL, &out));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(out.sent, 2 * 10000);
    assert_int_equal(out.elections, 10000);
    print_message("# ring     n=10000  one election in %.2f s\n", seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_equal_the_formulas),
        cmocka_unit_test(seven_dies_and_returns),
        cmocka_unit_test(several_call_at_once),
        cmocka_unit_test(asymmetric_loss_makes_two_leaders_for_a_while),
        cmocka_unit_test(two_rounds_or_one),
        cmocka_unit_test(a_slow_network_elects),
        cmocka_unit_test(other_settings_are_clean),
        cmocka_unit_test(a_ring_names_its_members),
        cmocka_unit_test(ten_thousand_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
