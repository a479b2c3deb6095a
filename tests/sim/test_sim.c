/* SPDX-License-Identifier: MIT */

/* The simulator: the same seed gives the same bytes, counts equal the formulas, schedules can be
 * written and read, and sweeps are clean. That the checkers can fail is shown in test_broken.c. */

#include "support/unit.h"
#include "tests/sim/drawn.h"

#include "sim/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP 500 /* in an ordinary build; the sanitizers' are slower, make sweep has more */
#define SWEEP_MOST 2000
#define NEAR 20 /* per cent of a bound */

static void same_seed_same_trace(void **state)
{
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t a = 0; a < count; a++) {
        for (uint64_t seed = 1; seed <= 10; seed++) {
            size_t length;
            char *once = trace_of(table[a], seed, &length);
            assert_true(length > 100);
            char *twice = trace_of(table[a], seed, &length);
            char *other = trace_of(table[a], seed + 1000, &length);
            assert_string_equal(once, twice);
            assert_string_not_equal(once, other);
            free(once);
            free(twice);
            free(other);
        }
    }
}

/* Calm, as in the sources, by members other than the coordinator. */
static void calm(mare_sim_options *options, const mare_coord_algorithm *algorithm, uint32_t n)
{
    mare_sim_options_init(options, algorithm, n);
    mare_coord_setup_set(&options->setup, "repair", 0);
    options->entrants = n - 1;
    options->rounds = 2;
    options->duration_us = UINT64_C(1) << 40;
    options->settle_us = 0;
}

static void counts_equal_the_formulas(void **state)
{
    (void)state;
    const char *const names[] = {"central", "ricart"}; /* others: test_mutex.c */
    for (int a = 0; a < 2; a++) {
        const mare_coord_algorithm *algorithm = mare_coord_find(names[a]);
        for (uint32_t n = 2; n <= 200; n += n < 32 ? 1 : 42) {
            mare_sim_options options;
            mare_sim_outcome out;
            calm(&options, algorithm, n);
            assert_true(mare_sim_run(&options, NULL, &out));
            assert_int_equal(out.grants, 2 * (n - 1));
            assert_int_equal(out.sent, out.grants * algorithm->messages(&options.setup));
            assert_int_equal(out.delivered, out.sent);
            if (n == 200)
                print_message("# %-8s n=%-3u  %u entries, %u messages = entries x %s\n",
                              algorithm->name, (unsigned)n, (unsigned)out.grants,
                              (unsigned)out.sent, algorithm->formula);
        }
    }
}

static uint64_t one_more(const mare_coord_setup *setup)
{
    return mare_coord_find(setup->algorithm->name)->messages(setup) + 1;
}

static void one_later(const mare_coord_setup *setup, mare_coord_cost *cost)
{
    mare_coord_find(setup->algorithm->name)->cost(setup, cost);
    cost->delay_most++;
}

static int table_differs(const mare_coord_algorithm *algorithm, uint32_t n)
{
    char text[2000] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    mare_coord_setup setup;
    mare_coord_setup_init(&setup, algorithm, 2);
    int differs = mare_sim_write_table(&setup, n, 0, out);
    fclose(out);
    assert_int_equal(differs, strstr(text, "≠") != NULL);
    return differs;
}

/* A table that could not differ would prove nothing. */
static void a_wrong_formula_is_noticed(void **state)
{
    (void)state;
    const char *const names[] = {"central", "voting", "ricart",   "majority", "token", "bully",
                                 "ring",    "fifo",   "wireless", "causal",   "total", "views"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mare_coord_algorithm wrong = *mare_coord_find(names[i]);
        assert_false(table_differs(mare_coord_find(names[i]), 7));
        wrong.messages = one_more;
        assert_true(table_differs(&wrong, 7));
        wrong = *mare_coord_find(names[i]);
        wrong.cost = one_later;
        assert_true(table_differs(&wrong, 7));
    }
}

/* The book's delays: one message after the other on one wire, each taking one unit of time. */
static void delays_equal_the_book(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 200; n++) {
        mare_sim_options options;
        mare_sim_outcome out;
        const char *const names[] = {"central", "ricart"};
        for (int a = 0; a < 2; a++) {
            calm(&options, mare_coord_find(names[a]), n);
            options.network = (mare_sim_network){.delay_us = 1, .bus = 1};
            options.entrants = options.rounds = 1;
            mare_sim_run(&options, NULL, &out);
            assert_int_equal(out.wait_us, a == 0 ? 2 : 2 * (n - 1));
        }
    }
}

static void schedules_are_text(void **state)
{
    (void)state;
    char text[20000], again[20000];
    for (uint64_t seed = 0; seed < 200; seed++) {
        mare_sim_fault_list list = {0}, copy = {0};
        mare_sim_random random = mare_sim_stream(seed, 0);
        mare_sim_faults_draw(&list, &random, ~0u, 7, 9, 1000000);
        assert_true(mare_sim_faults_write(&list, text, sizeof text) < sizeof text);
        assert_int_equal(mare_sim_faults_read(&copy, text), 0);
        assert_int_equal(copy.count, list.count);
        mare_sim_faults_write(&copy, again, sizeof again);
        assert_string_equal(text, again);
        mare_sim_faults_fini(&list);
        mare_sim_faults_fini(&copy);
    }
    mare_sim_fault_list list = {0};
    assert_int_not_equal(mare_sim_faults_read(&list, "crash:1@2"), 0);
    assert_int_not_equal(mare_sim_faults_read(&list, "crush:1@2+3"), 0);
    assert_int_not_equal(mare_sim_faults_read(&list, "partition:999@2+3"), 0);
    mare_sim_faults_fini(&list);
}

/* Returns how much of its bound the second phase took, in per cent. */
static uint64_t run_seed(const mare_coord_algorithm *algorithm, uint64_t seed)
{
    mare_sim_options options;
    mare_sim_outcome out;
    draw_options(&options, algorithm, seed);
    if (!mare_sim_run(&options, NULL, &out))
        fail_msg("%s: mare sim %s --n %u --seed %u", out.violation, algorithm->name,
                 (unsigned)options.setup.members, (unsigned)seed);
    uint64_t per_cent = (out.time_us - options.duration_us) * 100 / mare_sim_bound(&options);
    assert_true(out.steps * 4 < mare_sim_budget(&options));
    mare_sim_options_fini(&options);
    return per_cent;
}

/* A bound that nobody comes near would let a group that hardly gets on pass: goes on until somebody
 * does. */
static void sweeps_are_clean_and_bounds_are_near(void **state)
{
    const char *setting = getenv("MARE_TEST_SLOW");
    unsigned slow = setting ? 30 : 1;
    (void)state;
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    for (size_t a = 0; a < count; a++) {
        uint64_t most = 0;
        uint64_t seed = 0, wanted = SWEEP / slow;
        while (seed < wanted || (slow == 1 && most < NEAR && seed < SWEEP_MOST)) {
            uint64_t per_cent = run_seed(table[a], ++seed);
            most = per_cent > most ? per_cent : most;
        }
        print_message("# %-16s %u seeds, the slowest took %u per cent of its bound\n",
                      table[a]->name, (unsigned)seed, (unsigned)most);
        if (slow == 1)
            assert_true(most >= NEAR);
    }
}

/* Beyond the sweep: seeds that found something once. */
static void what_failed_once(void **state)
{
    (void)state;
    run_seed(mare_coord_find("central"), 21078);   /* a takeover unheard by one that was down */
    run_seed(mare_coord_find("central"), 240521);  /* an old epoch learnt from an old message */
    run_seed(mare_coord_find("central"), 1810852); /* a death forgotten over news of the group */
    run_seed(mare_coord_find("ricart"), 15044);    /* two that each had the other for dead */
    run_seed(mare_coord_find("ricart"), 15646);
    run_seed(mare_coord_find("ricart"), 1150915); /* news of the group told out of order */
    run_seed(mare_coord_find("ring"), 21028);     /* a new life in an epoch below the last one's */
    run_seed(mare_coord_find("views"), 3887);     /* both while views were being written */
    run_seed(mare_coord_find("views"), 4937);
}

/* Large groups, each late for what was its bound once: a vote called back on the way; windows that
 * are full when the faults end. */
static void slow_ones_have_their_time(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t n;
        uint64_t seed;
        const char *settings[2];
        int64_t values[2];
    } cases[] = {{"voting", 40, 6829, {"repair"}, {0}},
                 {"views", 38, 8973, {"window", "order"}, {2, 2}},
                 {"views", 35, 92624, {"window", "order"}, {2, 2}},
                 {"total", 39, 25359, {"window", "acks"}, {2, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(cases[i].name), cases[i].n);
        options.seed = cases[i].seed;
        for (int s = 0; s < 2 && cases[i].settings[s]; s++)
            mare_coord_setup_set(&options.setup, cases[i].settings[s], cases[i].values[s]);
        mare_sim_vary(&options);
        if (!mare_sim_run(&options, NULL, &out))
            fail_msg("%s: %s: %s", cases[i].name, out.violation, out.detail);
        mare_sim_options_fini(&options);
    }
}

/* The algorithms of the sources, without repair: a crash stops them, as the sources say. */
static void a_crash_stops_what_is_not_repaired(void **state)
{
    (void)state;
    const char *const names[] = {"central", "ricart"};
    for (int a = 0; a < 2; a++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(names[a]), 4);
        mare_sim_faults_read(&options.faults, "crash:3@100000+0");
        assert_true(mare_sim_run(&options, NULL, &out)); /* repaired: they go on */
        mare_coord_setup_set(&options.setup, "repair", 0);
        assert_false(mare_sim_run(&options, NULL, &out));
        assert_string_equal(out.violation, "EM2");
        mare_sim_options_fini(&options);
    }
}

/* A detector that takes a partition for a death lets two in: what the sources ask about in
 * problem 11, and why a grant carries a fencing number. */
static void a_wrong_detector_lets_two_in(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    mare_sim_options_init(&options, mare_coord_find("ricart"), 4);
    options.detector = MARE_SIM_EAGER;
    options.hold_us = 50000;
    mare_sim_faults_read(&options.faults, "partition:0.1@100000+400000");
    assert_false(mare_sim_run(&options, NULL, &out));
    assert_string_equal(out.violation, "EM1");
    options.detector = MARE_SIM_ACCURATE;
    assert_true(mare_sim_run(&options, NULL, &out));
    mare_sim_options_fini(&options);
}

/* Long before the end of the first phase everybody has finished, no timer is set and no message is
 * under way: the second phase begins at its time all the same, and asks for more entries of each,
 * one more multicast, an election. */
static void a_quiet_group_is_asked_for_progress(void **state)
{
    (void)state;
    const char *const names[] = {"ricart", "fifo", "bully"};
    for (int a = 0; a < 3; a++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(names[a]), 4);
        mare_coord_setup_set(&options.setup, "repair", 0);
        options.rounds = 1;
        options.duration_us = UINT64_C(3600000000);
        assert_true(mare_sim_run(&options, NULL, &out));
        assert_true(out.time_us > options.duration_us);
        assert_true(out.time_us < options.duration_us + mare_sim_bound(&options));
        if (a == 0)
            assert_true(out.grants >= 3 * 4); /* its round, one more, one in the crush */
        if (a == 1)
            assert_true(out.deliveries >= 2 * 4 * 4);
    }
}

/* … and whoever was down is back when it does. */
static void what_can_be_mended_is_mended_when_all_is_quiet(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    mare_sim_options_init(&options, mare_coord_find("ricart"), 3);
    options.rounds = 1;
    options.duration_us = UINT64_C(3600000000);
    mare_sim_faults_read(&options.faults, "crash:2@1800000000+7200000000");
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_true(out.grants >= 3 * 3);
    mare_sim_options_fini(&options);
}

/* Without a second phase: 50 per cent are lost and nobody repeats, so all comes to a stand while
 * requests are pending, which is EM2. Cut off in the middle of its work a run says nothing of it.
 */
static void who_waits_at_the_end_is_seen(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    mare_sim_options_init(&options, mare_coord_find("ricart"), 3);
    mare_coord_setup_set(&options.setup, "repair", 0);
    options.network.loss_ppm = 500000;
    options.rounds = 1;
    options.settle_us = 0;
    assert_false(mare_sim_run(&options, NULL, &out));
    assert_string_equal(out.violation, "EM2");
    options.network.loss_ppm = 0;
    options.network.delay = MARE_SIM_FIXED;
    options.think_us = 0;
    options.duration_us = 1500; /* all have asked, and answers take until 2000 */
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.waiting, 3);
    options.duration_us = 1000000;
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.waiting, 0);
}

/* Figure 6.15 in the simulator, by hooks: clocks at 7, 0 and 11, messages of 0 slower. */
static void set_clocks(void *context, mare_coord_setup *setup)
{
    (void)context;
    mare_coord_setup_set(setup, "clock", setup->self == 0 ? 7 : setup->self == 2 ? 11 : 0);
}

static int slow_zero(void *context, uint64_t time_us, uint32_t from, uint32_t to,
                     const uint8_t *data, uint32_t length, uint64_t *delay_us)
{
    (void)time_us, (void)data, (void)length;
    *delay_us = from == 0 ? 300 : 100;
    ++*(int *)context;
    return from != to;
}

static int line(void *context, uint32_t a, uint32_t b)
{
    (void)context;
    return a + 1 == b || b + 1 == a;
}

static void hooks_decide(void **state)
{
    (void)state;
    int asked = 0;
    mare_sim_options options;
    mare_sim_outcome out;
    calm(&options, mare_coord_find("ricart"), 3);
    options.hooks = (mare_sim_hooks){.context = &asked, .adjust = set_clocks, .route = slow_zero};
    options.entrants = options.rounds = 1;
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.sent, 4);
    assert_int_equal(asked, 4);
    assert_int_equal(out.wait_us, 400);
    options.hooks = (mare_sim_hooks){.linked = line}; /* 0 knows 1 only, and asks nobody else */
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.sent, 2);
}

static void what_is_not_checked_is_not_called_kept(void **state)
{
    (void)state;
    for (int no_vectors = 0; no_vectors < 2; no_vectors++) {
        char text[2000] = "";
        mare_sim_options options;
        mare_sim_outcome outcome;
        calm(&options, mare_coord_find("ricart"), 3);
        options.no_vectors = no_vectors;
        assert_true(mare_sim_run(&options, NULL, &outcome));
        FILE *out = fmemopen(text, sizeof text, "w");
        mare_sim_write_summary(&options, &outcome, out);
        fclose(out);
        assert_non_null(
            strstr(text, no_vectors ? "EM1, EM2, fencing: kept" : "EM1, EM2, EM3, fencing: kept"));
        assert_int_equal(strstr(text, "EM3: not checked") != NULL, no_vectors);
        assert_int_equal(mare_sim_kept(&options, &outcome) & MARE_COORD_EM3,
                         no_vectors ? 0 : MARE_COORD_EM3);
        outcome.waiting = 1;
        assert_int_equal(mare_sim_kept(&options, &outcome) & MARE_COORD_EM2, 0);
    }
    mare_sim_options large;
    mare_sim_options_init(&large, mare_coord_find("ricart"), 513);
    assert_true(large.no_vectors);
}

static void a_thousand_members(void **state)
{
    (void)state;
    mare_sim_options options;
    mare_sim_outcome out;
    calm(&options, mare_coord_find("ricart"), 1000);
    options.entrants = options.rounds = 1;
    assert_true(mare_sim_run(&options, NULL, &out));
    assert_int_equal(out.sent, 2 * 999);
}

/* Whether a run of n, with the fault, is refused before anything is made. */
static int is_refused(const char *algorithm, uint32_t n, const char *faults)
{
    mare_sim_options options;
    mare_sim_outcome out;
    char why[200];
    mare_sim_options_init(&options, mare_coord_find(algorithm), n);
    options.setup.capacity = n + 1;
    options.rounds = 1;
    assert_int_equal(mare_sim_faults_read(&options.faults, faults), 0);
    int refused = mare_sim_options_refuse(&options, why, sizeof why);
    int good = mare_sim_run(&options, NULL, &out);
    assert_int_equal(refused, strcmp(out.violation, "SET-UP") == 0);
    if (refused) {
        assert_false(good);
        assert_string_equal(out.detail, why);
        assert_int_equal(out.steps, 0);
    }
    mare_sim_options_fini(&options);
    return refused;
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    assert_true(is_refused("views", 5000, ""));
    assert_true(is_refused("causal", 20000, ""));
    assert_true(is_refused("ricart", 3, "crash:4@1+1"));
    assert_true(is_refused("ricart", 3, "one-way:4@1+1"));
    assert_true(is_refused("ricart", 3, "join:2@1+1"));
    assert_true(is_refused("ricart", 3, "burst:101@1+1"));
    assert_true(is_refused("ricart", 3, "crash:1@1000000+1")); /* when nothing fails any more */
    assert_false(is_refused("ricart", 3, "crash:1@999999+1"));
    assert_false(is_refused("ricart", 3, "crash:3@1+1,one-way:0.3@1+1,join:3@1+1,burst:100@1+1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_trace),
        cmocka_unit_test(counts_equal_the_formulas),
        cmocka_unit_test(a_wrong_formula_is_noticed),
        cmocka_unit_test(delays_equal_the_book),
        cmocka_unit_test(schedules_are_text),
        cmocka_unit_test(sweeps_are_clean_and_bounds_are_near),
        cmocka_unit_test(what_failed_once),
        cmocka_unit_test(slow_ones_have_their_time),
        cmocka_unit_test(a_crash_stops_what_is_not_repaired),
        cmocka_unit_test(a_wrong_detector_lets_two_in),
        cmocka_unit_test(a_quiet_group_is_asked_for_progress),
        cmocka_unit_test(what_can_be_mended_is_mended_when_all_is_quiet),
        cmocka_unit_test(who_waits_at_the_end_is_seen),
        cmocka_unit_test(hooks_decide),
        cmocka_unit_test(what_is_not_checked_is_not_called_kept),
        cmocka_unit_test(a_thousand_members),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
