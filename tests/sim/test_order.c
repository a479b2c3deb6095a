/* SPDX-License-Identifier: MIT */

/* Ordered multicast in the simulator: the bank of the source with and without an order, counts of
 * messages, and what a death does. The sweep over seeds is that of all algorithms, in test_sim.c,
 * and here that of the orders that views can have. */

#include "support/unit.h"

#include "sim/sim.h"
#include "sim/workload.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP 500 /* in an ordinary build; the sanitizers' are slower, make sweep has more */

/* The other multicasts need everybody: a death stops them, where views go on. */
static void a_death_stops_all_but_views(void **state)
{
    (void)state;
    const char *const names[] = {"fifo", "causal", "total", "views"};
    for (int a = 0; a < 4; a++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(names[a]), 4);
        mare_sim_faults_read(&options.faults, "crash:3@100000+0");
        int good = mare_sim_run(&options, NULL, &out);
        assert_int_equal(good, a == 3);
        assert_string_equal(out.violation, a == 3 ? "" : "AGREEMENT");
        mare_sim_options_fini(&options);
    }
}

/* The bank: a deposit in San Francisco (0), interest in New York (1), at the same moment ------- */

typedef struct bank {
    mare_sim_observer observer;
    int64_t cents[2];
} bank;

static size_t no_size(const mare_sim_options *options)
{
    (void)options;
    return 0;
}

static void open_bank(void *state, mare_sim *sim)
{
    (void)state;
    mare_sim_wake(sim, 0, 1000, 0);
    mare_sim_wake(sim, 1, 1000, 0);
}

static void order_update(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    (void)state, (void)number;
    mare_sim_request(sim, process, MARE_COORD_MULTICAST, 0,
                     (const uint8_t *)(process == 0 ? "d" : "i"), 1);
}

static const mare_sim_workload two_updates = {.name = "bank",
                                              .family = MARE_COORD_FAMILIES,
                                              .size = no_size,
                                              .begin = open_bank,
                                              .wake = order_update};

static void update(mare_sim_observer *self, const mare_sim_observation *seen)
{
    bank *b = (bank *)self;
    if (seen->sight != MARE_SIM_EFFECT || seen->effect->kind != MARE_COORD_DELIVER)
        return;
    if (seen->effect->data[0] == 'd')
        b->cents[seen->process] += 10000;
    else
        b->cents[seen->process] += b->cents[seen->process] / 100;
}

static void run_bank(const char *name, const char *param, uint64_t seed, bank *b,
                     mare_sim_outcome *out)
{
    mare_sim_options options;
    *b = (bank){{update}, {100000, 100000}};
    mare_sim_observer *observers[] = {&b->observer, NULL};
    mare_sim_options_init(&options, mare_coord_find(name), 2);
    mare_coord_setup_set(&options.setup, "repair", 0);
    if (param)
        mare_coord_setup_set(&options.setup, param, 0);
    options.seed = seed;
    options.settle_us = 0;
    options.network.fifo = 1;
    options.workload = &two_updates;
    assert_true(mare_sim_run(&options, observers, out));
    mare_sim_options_fini(&options);
}

static void the_bank_agrees_with_an_order(void **state)
{
    (void)state;
    bank b;
    mare_sim_outcome out;
    run_bank("fifo", NULL, 1, &b, &out); /* each its own update first */
    assert_int_equal(b.cents[0], 111100);
    assert_int_equal(b.cents[1], 111000);
    for (uint64_t seed = 1; seed <= 100; seed++) {
        run_bank("total", NULL, seed, &b, &out);
        assert_int_equal(b.cents[0], b.cents[1]);
        assert_int_equal(b.cents[0], 111100);
        assert_int_equal(out.sent, 4); /* two updates, two acknowledgements */
        run_bank("total", "acks", seed, &b, &out);
        assert_int_equal(b.cents[0], b.cents[1]);
        assert_int_equal(out.sent, 2); /* each update acknowledges the other */
    }
}

/* Counts ------------------------------------------------------------------------------------- */

static void counts_equal_the_formulas(void **state)
{
    (void)state;
    const char *const names[] = {"fifo", "causal", "total"};
    for (int a = 0; a < 3; a++) {
        for (uint32_t n = 2; n <= (getenv("MARE_TEST_SLOW") ? 74 : 200); n += n < 32 ? 1 : 42) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, mare_coord_find(names[a]), n);
            mare_coord_setup_set(&options.setup, "repair", 0);
            options.network.fifo = 1;
            options.entrants = options.rounds = 2;
            options.settle_us = 0;
            options.duration_us = UINT64_C(1) << 40;
            assert_true(mare_sim_run(&options, NULL, &out));
            assert_int_equal(out.deliveries, 4 * n);
            assert_int_equal(out.sent, 4 * options.setup.algorithm->messages(&options.setup));
            if (n == 200)
                print_message("# %-8s n=%u  4 multicasts, %u messages = 4 x %s\n", names[a],
                              (unsigned)n, (unsigned)out.sent, options.setup.algorithm->formula);
            mare_sim_options_fini(&options);
        }
    }
}

/* Which acknowledgements are unnecessary: the more members speak, the fewer are left. */
static void speaking_saves_acknowledging(void **state)
{
    (void)state;
    uint64_t sent[2];
    for (uint32_t speakers = 1; speakers <= 8; speakers *= 2) {
        for (int acks = 0; acks < 2; acks++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, mare_coord_find("total"), 8);
            mare_coord_setup_set(&options.setup, "repair", 0);
            mare_coord_setup_set(&options.setup, "acks", acks);
            mare_coord_setup_set(&options.setup, "window", 1024); /* nobody has to ask for room */
            options.network.fifo = 1;
            options.entrants = speakers;
            options.rounds = 64 / speakers;
            options.settle_us = 0;
            options.duration_us = UINT64_C(1) << 40;
            assert_true(mare_sim_run(&options, NULL, &out));
            assert_int_equal(out.deliveries, 64 * 8);
            sent[acks] = out.sent;
            mare_sim_options_fini(&options);
        }
        print_message("# total n=8, %u speak: %.1f messages a multicast, without the unnecessary "
                      "%.1f\n",
                      (unsigned)speakers, (double)sent[1] / 64, (double)sent[0] / 64);
        assert_int_equal(sent[1], 64 * 8 * 7);
        assert_true(sent[0] <= sent[1]);
    }
    assert_true(sent[0] * 4 < sent[1] * 3);
}

/* A sweep of the leaner variant as well. */
static void necessary_acknowledgements_suffice(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find("total"), mare_sim_draw_members(seed));
        mare_coord_setup_set(&options.setup, "acks", 0);
        options.seed = seed;
        mare_sim_vary(&options);
        if (!mare_sim_run(&options, NULL, &out))
            fail_msg("mare sim total --param acks=0 --seed %u: %s: %s", (unsigned)seed,
                     out.violation, out.detail);
        mare_sim_options_fini(&options);
    }
}

/* Views in each order ------------------------------------------------------------------------ */

static void run_views(int64_t order, int64_t window, uint64_t seed)
{
    mare_sim_options options;
    mare_sim_outcome out;
    mare_sim_options_init(&options, mare_coord_find("views"), 2 + (uint32_t)(seed % 7));
    mare_coord_setup_set(&options.setup, "order", order);
    mare_coord_setup_set(&options.setup, "window", window);
    options.seed = seed;
    mare_sim_vary(&options);
    if (!mare_sim_run(&options, NULL, &out))
        fail_msg("mare sim views --param order=%d --param window=%d --seed %u: %s: %s", (int)order,
                 (int)window, (unsigned)seed, out.violation, out.detail);
    mare_sim_options_fini(&options);
}

static void views_keep_every_order(void **state)
{
    unsigned slow = getenv("MARE_TEST_SLOW") ? 25 : 1;
    (void)state;
    for (int64_t order = 1; order <= 2; order++) {
        for (uint64_t seed = 1; seed <= SWEEP / slow; seed++)
            run_views(order, seed % 2 ? 16 : 1 + (int64_t)(seed % 3), seed);
    }
    run_views(1, 16, 12587); /* both: only a newcomer knew how a view had ended */
    run_views(2, 16, 11138);
}

/* Sparse clocks: bytes of what the causal order puts in front of a multicast --------------------
 */

typedef struct weighing {
    mare_sim_observer observer;
    uint64_t casts, bytes, most;
} weighing;

static void weigh(mare_sim_observer *self, const mare_sim_observation *seen)
{
    weighing *w = (weighing *)self;
    mare_coord_message msg;
    if (seen->sight != MARE_SIM_SENT ||
        mare_coord_decode(mare_coord_find("views"), seen->data, seen->length, &msg) !=
            MARE_COORD_OK ||
        msg.kind != 0) /* a CAST */
        return;
    uint64_t stamp = 4 + (msg.tail[0] | (uint64_t)msg.tail[1] << 8);
    w->casts++;
    w->bytes += stamp;
    w->most = w->most < stamp ? stamp : w->most;
}

static weighing weigh_stamps(uint32_t n, uint32_t speakers)
{
    mare_sim_options options;
    mare_sim_outcome out;
    weighing w = {.observer = {.see = weigh}};
    mare_sim_observer *observers[] = {&w.observer, NULL};
    mare_sim_options_init(&options, mare_coord_find("views"), n);
    mare_coord_setup_set(&options.setup, "order", 1);
    options.entrants = speakers;
    options.rounds = 20;
    options.settle_us = 0;
    options.duration_us = UINT64_C(1) << 40;
    assert_true(mare_sim_run(&options, observers, &out));
    assert_int_equal(out.deliveries, (uint64_t)20 * speakers * n);
    print_message("# views order=1, %u of %u speak: %.1f bytes of clock a message, %u at most; a "
                  "full vector has %u\n",
                  (unsigned)speakers, (unsigned)n, (double)w.bytes / (double)w.casts,
                  (unsigned)w.most, (unsigned)(8 * n));
    return w;
}

/* A message carries a pair for each member that its sender has delivered something of since its
 * last one: in the worst case half as much again as the full vector, of which an entry has 8 bytes,
 * and little where few speak, however large the group. */
static void a_message_carries_what_has_changed(void **state)
{
    (void)state;
    for (uint32_t n = 10; n <= (getenv("MARE_TEST_SLOW") ? 10 : 100); n += 90) {
        weighing one = weigh_stamps(n, 1), five = weigh_stamps(n, 5), all = weigh_stamps(n, n);
        assert_int_equal(one.most, 4); /* nothing to depend on */
        assert_true(five.most <= 4 + 12 * 4);
        assert_true(all.most <= 4 + 12 * (n - 1));
        assert_true(five.bytes < five.casts * 8 * n);
    }
}

/* Without repair ----------------------------------------------------------------------------- */

/* How many of 20 seeds go wrong, without a fault: everybody multicasts often, and some delays are
 * long. */
static int failures(const char *name, int repair, int64_t window)
{
    int wrong = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mare_sim_options options;
        mare_sim_outcome out;
        mare_sim_options_init(&options, mare_coord_find(name), 4);
        mare_coord_setup_set(&options.setup, "repair", repair);
        mare_coord_setup_set(&options.setup, "window", window);
        options.seed = seed;
        options.network.delay = MARE_SIM_EXPONENTIAL;
        options.network.delay_us = 5000;
        options.network.fifo = strcmp(name, "total") == 0;
        if (!mare_sim_run(&options, NULL, &out)) {
            assert_string_equal(out.violation, "AGREEMENT");
            wrong++;
        }
        mare_sim_options_fini(&options);
    }
    return wrong;
}

/* What comes when a window of its sender is not delivered yet has no place. With repair it is sent
 * again. Without it the sender waits until it knows of room: nothing is lost, however narrow the
 * window is for the delays. */
static void a_narrow_window_makes_the_sender_wait(void **state)
{
    (void)state;
    const char *const names[] = {"fifo", "causal", "total"};
    for (int a = 0; a < 3; a++) {
        for (int64_t window = 1; window <= 5; window++) {
            assert_int_equal(failures(names[a], 0, window), 0);
            assert_int_equal(failures(names[a], 1, window), 0);
        }
    }
}

/* The algorithms of the sources under the faults that those allow; test_sim.c sweeps the repaired
 * ones. */
static void without_repair_nothing_is_lost(void **state)
{
    (void)state;
    const char *const names[] = {"fifo", "causal", "total"};
    for (int a = 0; a < 3; a++) {
        for (uint64_t seed = 1; seed <= 150; seed++) {
            mare_sim_options options;
            mare_sim_outcome out;
            mare_sim_options_init(&options, mare_coord_find(names[a]), mare_sim_draw_members(seed));
            mare_coord_setup_set(&options.setup, "repair", 0);
            options.seed = seed;
            mare_sim_vary(&options);
            if (!mare_sim_run(&options, NULL, &out))
                fail_msg("mare sim %s --param repair=0 --seed %u: %s: %s", names[a], (unsigned)seed,
                         out.violation, out.detail);
            mare_sim_options_fini(&options);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bank_agrees_with_an_order),
        cmocka_unit_test(counts_equal_the_formulas),
        cmocka_unit_test(speaking_saves_acknowledging),
        cmocka_unit_test(necessary_acknowledgements_suffice),
        cmocka_unit_test(a_death_stops_all_but_views),
        cmocka_unit_test(views_keep_every_order),
        cmocka_unit_test(a_message_carries_what_has_changed),
        cmocka_unit_test(a_narrow_window_makes_the_sender_wait),
        cmocka_unit_test(without_repair_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
