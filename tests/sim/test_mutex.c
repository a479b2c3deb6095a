/* SPDX-License-Identifier: MIT */

/* Voting, the token ring and the majority variant: counts and delays as in the sources, the risk of
 * voting computed and measured, and what each survives. */

#include "support/unit.h"

#include "coord/mutex/voting.h"
#include "sim/sim.h"
#include "sim/workload.h"

#include <stdlib.h>
#include <string.h>

static void calm(mare_sim_options *options, const char *name, uint32_t n)
{
    mare_sim_options_init(options, mare_coord_find(name), n);
    mare_coord_setup_set(&options->setup, "repair", 0);
    options->duration_us = UINT64_C(1) << 40;
    options->settle_us = 0;
}

/* A resource whose replicas have homes that are not below `spared`, and all different if asked. */
static void choose_name(mare_coord_setup *setup, uint32_t spared, int all_different)
{
    for (int64_t name = 0;; name++) {
        uint8_t taken[1024] = {0};
        int good = 1;
        assert_true(name < 1000000);
        mare_coord_setup_set(setup, "name", name);
        for (uint32_t i = 0; good && i < mare__voting_replicas(setup); i++) {
            uint32_t home = mare__voting_home(setup, i);
            assert_true(home < setup->members);
            good = home >= spared && !(all_different && taken[home]++);
        }
        if (good)
            return;
    }
}

/* Scripts of requests: one a line ------------------------------------------------------------- */

typedef struct line {
    uint64_t at_us;
    uint32_t process;
    mare_coord_event_kind kind;
} line;

static size_t script_size(const mare_sim_options *options)
{
    (void)options;
    return 0;
}

static void script_begin(void *state, mare_sim *sim)
{
    const line *row = mare_sim_options_of(sim)->workload_context;
    (void)state;
    for (uint32_t i = 0; row[i].kind; i++)
        mare_sim_wake(sim, row[i].process, row[i].at_us, i);
}

static void script_see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    (void)state, (void)sim, (void)seen;
}

static void script_wake(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    const line *row = mare_sim_options_of(sim)->workload_context;
    (void)state;
    mare_sim_request(sim, process, row[number].kind, 0, NULL, 0);
}

static void script_settle(void *state, mare_sim *sim)
{
    (void)state, (void)sim;
}

static int script_settled(void *state, mare_sim *sim)
{
    (void)state, (void)sim;
    return 1;
}

static const mare_sim_workload script = {
    .name = "script",
    .family = MARE_COORD_MUTEX,
    .size = script_size,
    .begin = script_begin,
    .see = script_see,
    .wake = script_wake,
    .settle = script_settle,
    .settled = script_settled,
    .overdue = script_settle,
};

/* Counts and delays --------------------------------------------------------------------------- */

static void majority_takes_3_times_n_minus_1(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 200; n++) {
        mare_sim_options options;
        mare_sim_outcome out;
        calm(&options, "majority", n);
        options.entrants = 1;
        options.rounds = 3;
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_int_equal(out.grants, 3);
        assert_int_equal(out.sent, 3 * 3 * (n - 1));
    }
}

/* n replicas among n + 1 members: one at least has none of them, and asks. */
static void voting_takes_3_m_k(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 200; n += n < 32 ? 1 : 42) {
        mare_sim_options options;
        mare_sim_outcome out;
        uint8_t taken[256] = {0};
        uint32_t who = 0;
        calm(&options, "voting", n + 1);
        mare_coord_setup_set(&options.setup, "replicas", n);
        for (uint32_t i = 0; i < n; i++)
            taken[mare__voting_home(&options.setup, i)] = 1;
        while (taken[who])
            who++;
        uint32_t m = mare__voting_votes(&options.setup);
        assert_true(who <= n && 2 * m > n);
        line rows[] = {{1, who, MARE_COORD_ENTER},
                       {100000, who, MARE_COORD_EXIT},
                       {200000, who, MARE_COORD_ENTER},
                       {300000, who, MARE_COORD_EXIT},
                       {0}};
        options.workload = &script;
        options.workload_context = rows;
        options.network = (mare_sim_network){.delay_us = 1, .bus = 1};
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_int_equal(out.grants, 2);
        assert_int_equal(out.sent, 2 * 3 * m);
        assert_int_equal(out.wait_us, 2 * 2 * m);
        if (n % 50 == 0)
            print_message("# voting   n=%-3u m=%-3u %u messages and %u of delay for an entry\n",
                          (unsigned)n, (unsigned)m, (unsigned)out.sent / 2,
                          (unsigned)out.wait_us / 2);
    }
}

/* With rivals: attempts in vain cost 3m as well. */
static void voting_takes_3_m_k_with_rivals(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    calm(&options, "voting", 12);
    mare_coord_setup_set(&options.setup, "replicas", 5);
    mare_coord_setup_set(&options.setup, "votes", 3);
    mare_coord_setup_set(&options.setup, "queue", 0);
    choose_name(&options.setup, 4, 0);
    options.entrants = 4;
    options.rounds = 50;
    assert_true(mare_sim_run(&options, NULL, &out));
    uint64_t attempts = out.by_kind[0] / 3;
    assert_int_equal(out.grants, 200);
    assert_int_equal(out.sent, 3 * 3 * attempts);
    assert_true(attempts > 200);
    print_message("# voting   4 rivals: k = %.2f on average\n", (double)attempts / 200);
}

/* Answers that take longer than `retry_us` are waited for longer each time. */
static void far_coordinators_are_not_silent_ones(void **state)
{
    (void)state;
    for (uint64_t delay_us = 30000; delay_us <= 480000; delay_us *= 4) {
        mare_sim_options options;
        mare_sim_outcome out;
        calm(&options, "voting", 5);
        mare_coord_setup_set(&options.setup, "repair", 1);
        mare_coord_setup_set(&options.setup, "queue", 0);
        options.network.delay = MARE_SIM_FIXED;
        options.network.delay_us = delay_us;
        options.entrants = options.rounds = 1;
        options.duration_us = 120000000;
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_int_equal(out.grants, 1);
    }
}

/* Messages between one grant and the next. */
typedef struct gaps {
    mare_sim_observer observer;
    uint64_t sent, grants, least, most;
} gaps;

static void see_gap(mare_sim_observer *observer, const mare_sim_observation *seen)
{
    gaps *g = (gaps *)observer;
    g->sent += seen->sight == MARE_SIM_SENT;
    if (seen->sight != MARE_SIM_EFFECT || seen->effect->kind != MARE_COORD_GRANTED)
        return;
    if (g->grants++) {
        g->least = g->sent < g->least ? g->sent : g->least;
        g->most = g->sent > g->most ? g->sent : g->most;
    }
    g->sent = 0;
}

static void the_token_takes_1_message_when_all_want_in(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 200; n++) {
        mare_sim_options options;
        mare_sim_outcome out;
        gaps g = {.observer = {.see = see_gap}, .least = UINT64_MAX};
        mare_sim_observer *observers[] = {&g.observer, NULL};
        calm(&options, "token", n);
        mare_coord_setup_set(&options.setup, "rest_us", 0);
        options.think_us = 0;
        options.duration_us = 10000 + 4000 * (uint64_t)n;
        assert_true(mare_sim_run(&options, observers, &out));
        assert_true(g.grants > n);
        assert_int_equal(g.least, 1);
        assert_int_equal(g.most, 1);
    }
}

/* One hop a unit of time. The token has just come: 0; it has just gone and reached the next:
 * n − 1. Meanwhile it circulates for nobody: messages without end. */
static void the_token_is_0_to_n_minus_1_away(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 200; n += n < 20 ? 1 : 20) {
        for (uint32_t when = 1; when <= n; when++) {
            mare_sim_options options;
            mare_sim_outcome out;
            line rows[] = {{when, 0, MARE_COORD_ENTER}, {0}};
            calm(&options, "token", n);
            mare_coord_setup_set(&options.setup, "rest_us", 0);
            options.network = (mare_sim_network){.delay = MARE_SIM_FIXED, .delay_us = 1};
            options.workload = &script;
            options.workload_context = rows;
            options.duration_us = 3 * n;
            assert_true(mare_sim_run(&options, NULL, &out));
            assert_int_equal(out.grants, 1);
            assert_int_equal(out.wait_us, n - when);
        }
    }
    mare_sim_options options;
    mare_sim_outcome out;
    calm(&options, "token", 5);
    options.entrants = options.rounds = 1;
    options.duration_us = 10000000;
    mare_sim_run(&options, NULL, &out);
    assert_int_equal(out.grants, 1);
    assert_true(out.sent > 1000);
}

/* Voting: the risk ---------------------------------------------------------------------------- */

static int near(double a, double b)
{
    double difference = a > b ? a - b : b - a;
    return difference < 1e-12;
}

static void the_risk_is_computed(void **state)
{
    (void)state;
    double book = mare__voting_risk(32, 24, 10.0 / (3 * 3600));
    print_message("# voting   n=32 m=24, 10 s of 3 h: risk %.3g\n", book);
    assert_true(book > 0 && book < 1e-40);
    assert_true(near(mare__voting_risk(3, 2, 0.5), 0.75));  /* either of two */
    assert_true(near(mare__voting_risk(3, 3, 0.5), 0.125)); /* all three */
    assert_true(near(mare__voting_risk(5, 3, 0.1), 1 - 0.9 * 0.9 * 0.9));
}

/* One is inside; each coordinator forgets with probability p; another one asks. Returns whether it
 * was let in. */
static int is_violated(uint32_t n, uint32_t m, double p, int queue, int64_t name, uint64_t seed)
{
    mare_sim_options options;
    mare_sim_outcome out;
    line rows[] = {{1000, 0, MARE_COORD_ENTER}, {100000, 1, MARE_COORD_ENTER}, {0}};
    mare_sim_random random = mare_sim_stream(seed, 99);
    mare_sim_options_init(&options, mare_coord_find("voting"), 2 + 2 * n);
    mare_coord_setup_set(&options.setup, "replicas", n);
    mare_coord_setup_set(&options.setup, "votes", m);
    mare_coord_setup_set(&options.setup, "queue", queue);
    mare_coord_setup_set(&options.setup, "name", name);
    options.seed = seed;
    options.workload = &script;
    options.workload_context = rows;
    options.duration_us = 500000;
    options.settle_us = 0;
    for (uint32_t i = 0; i < n; i++) {
        mare_sim_fault fault = {.kind = MARE_SIM_AMNESIA, .at_us = 50000, .for_us = 1000};
        fault.process = mare__voting_home(&options.setup, i);
        if (mare_sim_chance(&random, (uint32_t)(p * 1e6)))
            mare_sim_faults_add(&options.faults, &fault);
    }
    mare_sim_run(&options, NULL, &out);
    mare_sim_options_fini(&options);
    assert_true(out.grants >= 1);
    return strcmp(out.violation, "EM1") == 0;
}

static void the_risk_is_measured(void **state)
{
    (void)state;
    static const struct {
        uint32_t n, m;
        double p;
    } cases[] = {{5, 3, 0.1}, {5, 4, 0.4}, {8, 6, 0.5}, {7, 4, 0.05}, {6, 6, 0.8}};
    enum { TRIALS = 3000 };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t n = cases[c].n, m = cases[c].m, violated = 0;
        mare_coord_setup setup;
        mare_coord_setup_init(&setup, mare_coord_find("voting"), 2 + 2 * n);
        mare_coord_setup_set(&setup, "replicas", n);
        choose_name(&setup, 2, 1);
        int64_t name = setup.param[MARE__VOTING_NAME];
        for (uint32_t i = 0; i < TRIALS; i++)
            violated += (uint32_t)is_violated(n, m, cases[c].p, i % 2, name, i + 1);
        double risk = mare__voting_risk(n, m, cases[c].p), rate = (double)violated / TRIALS;
        print_message("# voting   n=%u m=%u p=%.2f: risk %.4f, measured %.4f\n", (unsigned)n,
                      (unsigned)m, cases[c].p, risk, rate);
        /* four standard deviations, squared */
        assert_true((rate - risk) * (rate - risk) < 16 * risk * (1 - risk) / TRIALS);
    }
}

/* The improvement for contention: the same load, many rivals. */
static void a_queue_serves_more_than_luck(void **state)
{
    (void)state;
    uint64_t grants[2];
    for (int queue = 0; queue < 2; queue++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find("voting"), 16);
        mare_coord_setup_set(&options.setup, "queue", queue);
        options.duration_us = 10000000;
        options.settle_us = 0;
        options.think_us = 100;
        assert_true(mare_sim_run(&options, NULL, &out));
        grants[queue] = out.grants;
    }
    print_message("# voting   16 rivals, 10 s: %u entries by back-off, %u with the queue\n",
                  (unsigned)grants[0], (unsigned)grants[1]);
    assert_true(grants[1] > 2 * grants[0]);
}

/* Faults --------------------------------------------------------------------------------------- */

/* Two of five are gone for ever, and nobody says so. */
static void a_majority_needs_no_detector(void **state)
{
    (void)state;
    const mare_sim_detector detectors[] = {MARE_SIM_NO_DETECTOR, MARE_SIM_EAGER};
    for (int d = 0; d < 2; d++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find("majority"), 5);
        options.detector = detectors[d];
        options.entrants = 3;
        mare_sim_faults_read(&options.faults,
                             "crash:3@100000+0,crash:4@200000+0,partition:0@300000+300000");
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_true(out.grants > 100);
        mare_sim_options_fini(&options);
    }
}

/* 0 is inside by everybody's vote when 1, 2 and 3 start again without memory. If they voted once
 * more, they would be a majority of five, and 4 would be inside as well. When 0 has gone out, those
 * decide who have not forgotten: of five two, which are no majority, of seven four. */
static void who_has_forgotten_its_votes_abstains(void **state)
{
    (void)state;
    for (uint32_t n = 5; n <= 7; n += 2) {
        mare_sim_options options;
        mare_sim_outcome out;
        line rows[] = {{1000, 0, MARE_COORD_ENTER},
                       {100000, 4, MARE_COORD_ENTER},
                       {500000, 0, MARE_COORD_EXIT},
                       {0}};
        mare_sim_options_init(&options, mare_coord_find("majority"), n);
        options.workload = &script;
        options.workload_context = rows;
        options.settle_us = 0;
        options.duration_us = 400000;
        mare_sim_faults_read(&options.faults, "amnesia:1@50000+1000,amnesia:2@50000+1000,"
                                              "amnesia:3@50000+1000");
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_int_equal(out.requests, 2);
        assert_int_equal(out.grants, 1);
        options.duration_us = 5000000;
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_int_equal(out.grants, n == 5 ? 1 : 2);
        mare_sim_options_fini(&options);
    }
}

static void a_crash_stops_the_ring_of_the_sources(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    mare_sim_options_init(&options, mare_coord_find("token"), 4);
    mare_sim_faults_read(&options.faults, "crash:3@100000+0");
    assert_true(mare_sim_run(&options, NULL, &out));
    mare_coord_setup_set(&options.setup, "repair", 0);
    assert_false(mare_sim_run(&options, NULL, &out));
    assert_string_equal(out.violation, "EM2");
    mare_sim_options_fini(&options);
}

/* … and that a detector tells of it changes nothing: 2 has died while 0 was inside, and everybody
 * knows when 0 goes out and asks once more. */
static void the_sources_know_nothing_of_deaths(void **state)
{
    (void)state;
    const char *const names[] = {"ricart", "token"};
    for (int a = 0; a < 2; a++) {
        for (int repair = 0; repair < 2; repair++) {
            mare_sim_options options;
            mare_sim_outcome out;
            line rows[] = {{500, 0, MARE_COORD_ENTER},
                           {100000, 0, MARE_COORD_EXIT},
                           {200000, 0, MARE_COORD_ENTER},
                           {0}};
            mare_sim_options_init(&options, mare_coord_find(names[a]), 3);
            mare_coord_setup_set(&options.setup, "repair", repair);
            options.workload = &script;
            options.workload_context = rows;
            options.settle_us = 0;
            mare_sim_faults_read(&options.faults, "crash:2@50000+0");
            assert_int_equal(mare_sim_run(&options, NULL, &out), repair);
            assert_string_equal(out.violation, repair ? "" : "EM2");
            assert_int_equal(out.grants, 1 + repair);
            mare_sim_options_fini(&options);
        }
    }
}

static void sweep(const char *name, const char *param, int64_t value, uint64_t seeds)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(name), mare_sim_draw_members(seed));
        mare_coord_setup_set(&options.setup, param, value);
        options.seed = seed;
        mare_sim_vary(&options);
        if (!mare_sim_run(&options, NULL, &out))
            fail_msg("%s: mare sim %s --n %u --seed %u --param %s=%d", out.violation, name,
                     (unsigned)options.setup.members, (unsigned)seed, param, (int)value);
        mare_sim_options_fini(&options);
    }
}

/* The defaults are swept in test_sim.c with the whole table. */
static void other_settings_are_clean(void **state)
{
    (void)state;
    sweep("central", "repair", 0, 300);
    sweep("ricart", "repair", 0, 300);
    sweep("central", "majority", 1, 1100); /* 1087: two of four gone for good are no majority */
    sweep("voting", "queue", 0, 1000);
    sweep("voting", "repair", 0, 300);
    sweep("token", "rest_us", 0, 500);
    sweep("token", "repair", 0, 300);
    sweep("majority", "repair", 0, 300);
}

/* Two resources, the same three members, steps in turn: both are held at once, by different ones.
 * Machines are stepped by hand: one for each member and resource. */
typedef struct letter {
    uint32_t resource, from, to, length;
    uint8_t data[64];
} letter;

typedef struct hall {
    mare_coord *machine[2][3];
    mare_coord_effects effects;
    letter letters[64]; /* used again: a token that nobody needs goes round and round */
    uint32_t head, tail;
    int inside[2];
} hall;

static void step(hall *h, uint32_t resource, uint32_t who, mare_coord_event event)
{
    mare_coord_step(h->machine[resource][who], &event, &h->effects);
    for (uint32_t i = 0; i < h->effects.count; i++) {
        const mare_coord_effect *effect = &h->effects.list[i];
        if (effect->kind == MARE_COORD_GRANTED)
            h->inside[resource] = 1 + (int)who;
        for (uint32_t to = 0; to < 3; to++) {
            int meant = effect->kind == MARE_COORD_BROADCAST
                            ? to != who
                            : effect->kind == MARE_COORD_SEND && to == effect->peer;
            if (!meant)
                continue;
            assert_true(h->tail - h->head < 64 && effect->length <= 64);
            letter *fresh = &h->letters[h->tail++ % 64];
            *fresh = (letter){.resource = resource, .from = who, .to = to};
            fresh->length = effect->length;
            memcpy(fresh->data, effect->data, effect->length);
        }
    }
}

static void resources_do_not_interfere(void **state)
{
    (void)state;
    size_t count, tried = 0;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t a = 0; a < count; a++) {
        hall h = {0};
        mare_coord_setup setup;
        if (table[a]->family != MARE_COORD_MUTEX)
            continue;
        tried++;
        mare_coord_setup_init(&setup, table[a], 3);
        setup.founds = 1;
        mare_coord_setup_set(&setup, "repair", 0);
        mare_coord_setup_set(&setup, "rest_us", 0); /* no timers here */
        mare_coord_room(&setup, &h.effects.room, &h.effects.bytes_room);
        h.effects.list = malloc(h.effects.room * sizeof *h.effects.list);
        h.effects.bytes = malloc(h.effects.bytes_room);
        for (uint32_t i = 0; i < 6; i++) {
            setup.self = i % 3;
            size_t size = mare_coord_size(&setup);
            h.machine[i / 3][i % 3] = mare_coord_init(malloc(size), size, &setup);
            step(&h, i / 3, i % 3, (mare_coord_event){.kind = MARE_COORD_START});
        }
        step(&h, 0, 0, (mare_coord_event){.kind = MARE_COORD_ENTER});
        step(&h, 1, 1, (mare_coord_event){.kind = MARE_COORD_ENTER});
        while (h.head < h.tail) {
            letter next = h.letters[h.head++ % 64];
            assert_true(h.head < 1000);
            step(&h, next.resource, next.to,
                 (mare_coord_event){.kind = MARE_COORD_MESSAGE,
                                    .peer = next.from,
                                    .data = next.data,
                                    .length = next.length});
        }
        assert_int_equal(h.inside[0], 1);
        assert_int_equal(h.inside[1], 2);
        for (uint32_t i = 0; i < 6; i++)
            free(h.machine[i / 3][i % 3]);
        free(h.effects.list);
        free(h.effects.bytes);
    }
    assert_true(tried >= 5);
}

/* Who is named ------------------------------------------------------------------------------- */

static int lose_all_of_1(void *context, uint64_t time_us, uint32_t from, uint32_t to,
                         const uint8_t *data, uint32_t length, uint64_t *delay_us)
{
    (void)context, (void)time_us, (void)to, (void)data, (void)length, (void)delay_us;
    return from != 1;
}

/* Nobody hears 1. The others are served, and then wait for it to be served too. */
static void who_starves_is_named(void **state)
{
    (void)state;
    const char *const names[] = {"central", "majority"};
    for (int a = 0; a < 2; a++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(names[a]), 3);
        options.hooks.route = lose_all_of_1;
        assert_false(mare_sim_run(&options, NULL, &out));
        assert_string_equal(out.violation, "EM2");
        assert_true(out.grants > 0);
        assert_memory_equal(out.detail, "p1 asked at ", 12);
        mare_sim_options_fini(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(majority_takes_3_times_n_minus_1),
        cmocka_unit_test(voting_takes_3_m_k),
        cmocka_unit_test(voting_takes_3_m_k_with_rivals),
        cmocka_unit_test(far_coordinators_are_not_silent_ones),
        cmocka_unit_test(the_token_takes_1_message_when_all_want_in),
        cmocka_unit_test(the_token_is_0_to_n_minus_1_away),
        cmocka_unit_test(the_risk_is_computed),
        cmocka_unit_test(the_risk_is_measured),
        cmocka_unit_test(a_queue_serves_more_than_luck),
        cmocka_unit_test(a_majority_needs_no_detector),
        cmocka_unit_test(who_has_forgotten_its_votes_abstains),
        cmocka_unit_test(a_crash_stops_the_ring_of_the_sources),
        cmocka_unit_test(the_sources_know_nothing_of_deaths),
        cmocka_unit_test(other_settings_are_clean),
        cmocka_unit_test(resources_do_not_interfere),
        cmocka_unit_test(who_starves_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
