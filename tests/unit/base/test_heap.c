// SPDX-License-Identifier: MIT
// The pairing heap against the simplest model there is: an array in which the smallest is sought
// one by one.
#include "base/heap.h"

#include <stdlib.h>

#include "unit.h"

enum { NODES = 400 };

static void is_empty_at_first(void **state)
{
    (void)state;
    struct mare__heap heap = {0};
    struct mare__heap_node node = {0};
    assert_null(mare__heap_min(&heap));
    assert_false(mare__heap_holds(&node));
    mare__heap_insert(&heap, &node, 7);
    assert_ptr_equal(mare__heap_min(&heap), &node);
    assert_true(mare__heap_holds(&node));
    mare__heap_remove(&heap, &node);
    assert_false(mare__heap_holds(&node));
    assert_null(mare__heap_min(&heap));
}

static void gives_them_in_order(void **state)
{
    (void)state;
    struct mare__heap heap = {0};
    struct mare__heap_node nodes[NODES] = {0};
    for (uint64_t i = 0; i < NODES; i++)
        mare__heap_insert(&heap, &nodes[i], i * 7919 % NODES); // a permutation: 7919 is prime
    for (uint64_t i = 0; i < NODES; i++) {
        assert_int_equal(mare__heap_min(&heap)->key, i);
        mare__heap_remove(&heap, mare__heap_min(&heap));
    }
    assert_null(mare__heap_min(&heap));
}

// A node's position is found again through the pointer that leads to it: whoever moves nodes must
// keep these right.
static void check_links(struct mare__heap_node **link, uint64_t least, size_t *count)
{
    for (; *link; link = &(*link)->next) {
        assert_ptr_equal((*link)->link, link);
        assert_true((*link)->key >= least);
        ++*count;
        check_links(&(*link)->child, (*link)->key, count);
    }
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    struct mare__heap heap = {0};
    struct mare__heap_node nodes[NODES] = {0};
    bool in[NODES] = {0};
    size_t held = 0;
    for (int round = 0; round < 40000; round++) {
        size_t i = unit_random(&random) % NODES;
        if (in[i]) {
            if (unit_random(&random) % 2) // as often the first one as one from the middle
                i = (size_t)(mare__heap_min(&heap) - nodes);
            mare__heap_remove(&heap, &nodes[i]);
            held--;
        } else {
            // Few keys, so that equal ones are common, and the largest there is.
            uint64_t key = unit_random(&random) % 50;
            mare__heap_insert(&heap, &nodes[i], key == 49 ? UINT64_MAX : key);
            held++;
        }
        in[i] = !in[i];
        assert_int_equal(mare__heap_holds(&nodes[i]), in[i]);
        uint64_t least = UINT64_MAX;
        for (size_t k = 0; k < NODES; k++)
            if (in[k] && nodes[k].key < least)
                least = nodes[k].key;
        assert_int_equal(mare__heap_min(&heap) != NULL, held > 0);
        if (held > 0)
            assert_int_equal(mare__heap_min(&heap)->key, least);
        if (round % 100 == 0) {
            size_t count = 0;
            check_links(&heap.root, 0, &count);
            assert_int_equal(count, held);
        }
    }
}

static void a_million_siblings_need_no_deep_stack(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    struct mare__heap heap = {0};
    struct mare__heap_node *nodes = calloc(MANY, sizeof *nodes);
    assert_non_null(nodes);
    for (uint64_t i = 0; i < MANY; i++)
        mare__heap_insert(&heap, &nodes[i], i);
    mare__heap_remove(&heap, &nodes[0]);
    for (uint64_t i = 1; i < MANY; i++) {
        if (mare__heap_min(&heap) != &nodes[i])
            fail_msg("expected %d", (int)i);
        mare__heap_remove(&heap, &nodes[i]);
    }
    free(nodes);
}

UNIT_TESTS(cmocka_unit_test(is_empty_at_first), cmocka_unit_test(gives_them_in_order),
           cmocka_unit_test(random_operations_agree_with_a_model),
           cmocka_unit_test(a_million_siblings_need_no_deep_stack))
