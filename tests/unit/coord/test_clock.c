/* SPDX-License-Identifier: MIT */

/* Logical clocks: the book's figures, the rules, and the agreement of the sparse with the dense. */

#include "support/unit.h"

#include <mare/coord_clock.h>
#include <string.h>

/* Figure 6.9: three clocks tick 6, 8 and 10. Each message is: who sends at which tick, who receives
 * at which tick. */
typedef struct flight {
    int from, sent, to, received;
} flight;

static const flight figure[] = {{0, 1, 1, 2}, {1, 3, 2, 4}, {2, 6, 1, 7}, {1, 8, 0, 9}};
static const uint64_t rate[] = {6, 8, 10};

static void uncorrected_clocks_go_back(void **state)
{
    (void)state;
    assert_int_equal(figure[2].sent * rate[2], 60);
    assert_int_equal(figure[2].received * rate[1], 56);
    assert_int_equal(figure[3].sent * rate[1], 64);
    assert_int_equal(figure[3].received * rate[0], 54);
}

static void lamport_corrects_the_figure(void **state)
{
    (void)state;
    uint64_t clock[3] = {0}, stamp[4] = {0}, arrival[4] = {0};
    for (int tick = 1; tick <= 10; tick++) {
        for (int p = 0; p < 3; p++) {
            /* The crystal advances the clock; the arrival of a message may push it further. */
            clock[p] += rate[p];
            for (int m = 0; m < 4; m++) {
                if (figure[m].to == p && figure[m].received == tick) {
                    if (clock[p] <= stamp[m]) {
                        clock[p] = stamp[m];
                        mare_coord_lamport_tick(&clock[p]);
                    }
                    arrival[m] = clock[p];
                }
                if (figure[m].from == p && figure[m].sent == tick)
                    stamp[m] = clock[p];
            }
        }
    }
    assert_int_equal(stamp[0], 6);
    assert_int_equal(arrival[0], 16);
    assert_int_equal(stamp[2], 60);
    assert_int_equal(arrival[2], 61);
    assert_int_equal(stamp[3], 69);
    assert_int_equal(arrival[3], 70);
}

static void lamport_rules(void **state)
{
    (void)state;
    uint64_t clock = 3;
    assert_int_equal(mare_coord_lamport_tick(&clock), 4);
    assert_int_equal(mare_coord_lamport_receive(&clock, 10), 11);
    assert_int_equal(mare_coord_lamport_receive(&clock, 2), 12);
    mare_coord_stamp a = {40, 1}, b = {40, 2}, c = {39, 9};
    assert_true(mare_coord_stamp_before(a, b));
    assert_false(mare_coord_stamp_before(b, a));
    assert_true(mare_coord_stamp_before(c, a));
    assert_false(mare_coord_stamp_before(a, a));
}

static void vector_comparison(void **state)
{
    (void)state;
    uint64_t a[] = {1, 0, 0}, b[] = {1, 1, 0}, c[] = {0, 0, 1};
    assert_int_equal(mare_coord_vector_compare(a, a, 3), MARE_COORD_EQUAL);
    assert_int_equal(mare_coord_vector_compare(a, b, 3), MARE_COORD_BEFORE);
    assert_int_equal(mare_coord_vector_compare(b, a, 3), MARE_COORD_AFTER);
    assert_int_equal(mare_coord_vector_compare(a, c, 3), MARE_COORD_CONCURRENT);
}

/* Figure 6.13: m from 0 at (1,0,0); 1 receives it and sends m* at (1,1,0), which reaches 2
 * first. */
static void causal_delivery_of_the_figure(void **state)
{
    (void)state;
    uint64_t m[] = {1, 0, 0}, star[] = {1, 1, 0}, at_2[] = {0, 0, 0};
    assert_false(mare_coord_vector_deliverable(at_2, star, 3, 1));
    assert_true(mare_coord_vector_deliverable(at_2, m, 3, 0));
    mare_coord_vector_merge(at_2, m, 3);
    assert_false(mare_coord_vector_deliverable(at_2, m, 3, 0)); /* not twice */
    assert_true(mare_coord_vector_deliverable(at_2, star, 3, 1));
    mare_coord_vector_merge(at_2, star, 3);
    assert_int_equal(at_2[0], 1);
    assert_int_equal(at_2[1], 1);
    assert_false(mare_coord_vector_deliverable(at_2, star, 3, 7)); /* from a stranger */
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *seed >> 33;
}

/* A thousand random histories, kept in both forms at once. */
static void sparse_agrees_with_dense(void **state)
{
    (void)state;
    enum { N = 6 };
    uint64_t seed = 7;
    for (int round = 0; round < 1000; round++) {
        uint64_t dense[N][N] = {{0}};
        mare_coord_sparse_entry room[N][N];
        mare_coord_sparse sparse[N];
        for (int i = 0; i < N; i++)
            sparse[i] = (mare_coord_sparse){room[i], 0, N};
        for (int step = 0; step < 20; step++) {
            uint32_t from = (uint32_t)(draw(&seed) % N), to = (uint32_t)(draw(&seed) % N);
            mare_coord_vector_tick(dense[from], from);
            assert_int_equal(mare_coord_sparse_tick(&sparse[from], from), 0);
            if (from == to)
                continue;
            mare_coord_vector_receive(dense[to], dense[from], N, to);
            assert_int_equal(mare_coord_sparse_merge(&sparse[to], &sparse[from]), 0);
            assert_int_equal(mare_coord_sparse_tick(&sparse[to], to), 0);
        }
        for (uint32_t i = 0; i < N * N; i++) {
            assert_int_equal(mare_coord_sparse_get(&sparse[i / N], i % N), dense[i / N][i % N]);
            assert_int_equal(mare_coord_sparse_compare(&sparse[i / N], &sparse[i % N]),
                             mare_coord_vector_compare(dense[i / N], dense[i % N], N));
        }
    }
}

static void sparse_membership(void **state)
{
    (void)state;
    mare_coord_sparse_entry a_room[3], b_room[3];
    mare_coord_sparse a = {a_room, 0, 3}, b = {b_room, 0, 3};
    mare_coord_sparse_tick(&a, 100);
    mare_coord_sparse_tick(&b, 200);
    assert_int_equal(mare_coord_sparse_compare(&a, &b), MARE_COORD_CONCURRENT);
    assert_int_equal(mare_coord_sparse_leave(&a, 200), 0);
    assert_int_equal(mare_coord_sparse_compare(&a, &b), MARE_COORD_AFTER);
    assert_int_equal(mare_coord_sparse_merge(&a, &b), 0);
    assert_int_equal(mare_coord_sparse_get(&a, 200), 0); /* an old stamp does not wake the dead */
    assert_int_equal(mare_coord_sparse_join(&a, 200), 0);
    assert_int_equal(mare_coord_sparse_merge(&a, &b), 0);
    assert_int_equal(mare_coord_sparse_get(&a, 200), 1);
    mare_coord_sparse_leave(&a, 100);
    mare_coord_sparse_compact(&a);
    assert_int_equal(a.count, 1);
}

static void sparse_without_room_changes_nothing(void **state)
{
    (void)state;
    mare_coord_sparse_entry a_room[1], b_room[2];
    mare_coord_sparse a = {a_room, 0, 1}, b = {b_room, 0, 2};
    mare_coord_sparse_tick(&a, 1);
    mare_coord_sparse_tick(&b, 1);
    mare_coord_sparse_tick(&b, 1);
    mare_coord_sparse_tick(&b, 2);
    assert_int_equal(mare_coord_sparse_merge(&a, &b), -1);
    assert_int_equal(mare_coord_sparse_tick(&a, 9), -1);
    assert_int_equal(mare_coord_sparse_get(&a, 1), 1);
}

static void sparse_bytes(void **state)
{
    (void)state;
    mare_coord_sparse_entry a_room[3], b_room[3];
    mare_coord_sparse a = {a_room, 0, 3}, b = {b_room, 0, 3};
    uint8_t bytes[36];
    mare_coord_sparse_tick(&a, 70000);
    mare_coord_sparse_tick(&a, 3);
    mare_coord_sparse_tick(&a, 3);
    assert_int_equal(mare_coord_sparse_encode(&a, bytes, sizeof bytes), 24);
    assert_int_equal(mare_coord_sparse_encode(&a, bytes, 23), 0);
    assert_int_equal(mare_coord_sparse_encode(&a, bytes, sizeof bytes), 24);
    assert_int_equal(mare_coord_sparse_decode(&b, bytes, 24), 0);
    assert_int_equal(mare_coord_sparse_compare(&a, &b), MARE_COORD_EQUAL);
    assert_int_equal(mare_coord_sparse_decode(&b, bytes, 23), -1);
    memcpy(bytes + 12, bytes, 12); /* the same member twice */
    assert_int_equal(mare_coord_sparse_decode(&b, bytes, 24), -1);
    assert_int_equal(b.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uncorrected_clocks_go_back),
        cmocka_unit_test(lamport_corrects_the_figure),
        cmocka_unit_test(lamport_rules),
        cmocka_unit_test(vector_comparison),
        cmocka_unit_test(causal_delivery_of_the_figure),
        cmocka_unit_test(sparse_agrees_with_dense),
        cmocka_unit_test(sparse_membership),
        cmocka_unit_test(sparse_without_room_changes_nothing),
        cmocka_unit_test(sparse_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
