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
    struct mare__heap_entry entry = {0};
    assert_null(mare__heap_min(&heap));
    assert_false(mare__heap_holds(&entry));
    mare__heap_insert(&heap, &entry, 7);
    assert_ptr_equal(mare__heap_min(&heap), &entry);
    assert_true(mare__heap_holds(&entry));
    mare__heap_remove(&heap, &entry);
    assert_false(mare__heap_holds(&entry));
    assert_null(mare__heap_min(&heap));
}

static void gives_them_in_order(void **state)
{
    (void)state;
    struct mare__heap heap = {0};
    struct mare__heap_entry entries[NODES] = {0};
    for (uint64_t i = 0; i < NODES; i++)
        mare__heap_insert(&heap, &entries[i], i * 7919 % NODES); // a permutation: 7919 is prime
    for (uint64_t i = 0; i < NODES; i++) {
        assert_int_equal(mare__heap_min(&heap)->key, i);
        mare__heap_remove(&heap, mare__heap_min(&heap));
    }
    assert_null(mare__heap_min(&heap));
}

// An entry's position is found again through the pointer that leads to it: whoever moves entries
// must keep these right.
static void check_links(struct mare__heap_entry **place, uint64_t least, size_t *count)
{
    for (; *place; place = &(*place)->next) {
        assert_ptr_equal((*place)->place, place);
        assert_true((*place)->key >= least);
        ++*count;
        check_links(&(*place)->child, (*place)->key, count);
    }
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    struct mare__heap heap = {0};
    struct mare__heap_entry entries[NODES] = {0};
    bool in[NODES] = {0};
    size_t held = 0;
    for (int round = 0; round < 40000; round++) {
        size_t i = unit_random(&random) % NODES;
        if (in[i]) {
            if (unit_random(&random) % 2) // as often the first one as one from the middle
                i = (size_t)(mare__heap_min(&heap) - entries);
            mare__heap_remove(&heap, &entries[i]);
            held--;
        } else {
            // Few keys, so that equal ones are common, and the largest there is.
            uint64_t key = unit_random(&random) % 50;
            mare__heap_insert(&heap, &entries[i], key == 49 ? UINT64_MAX : key);
            held++;
        }
        in[i] = !in[i];
        assert_int_equal(mare__heap_holds(&entries[i]), in[i]);
        uint64_t least = UINT64_MAX;
        for (size_t k = 0; k < NODES; k++)
            if (in[k] && entries[k].key < least)
                least = entries[k].key;
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
    struct mare__heap_entry *entries = calloc(MANY, sizeof *entries);
    assert_non_null(entries);
    for (uint64_t i = 0; i < MANY; i++)
        mare__heap_insert(&heap, &entries[i], i);
    mare__heap_remove(&heap, &entries[0]);
    for (uint64_t i = 1; i < MANY; i++) {
        if (mare__heap_min(&heap) != &entries[i])
            fail_msg("expected %d", (int)i);
        mare__heap_remove(&heap, &entries[i]);
    }
    free(entries);
}

UNIT_TESTS(cmocka_unit_test(is_empty_at_first), cmocka_unit_test(gives_them_in_order),
           cmocka_unit_test(random_operations_agree_with_a_model),
           cmocka_unit_test(a_million_siblings_need_no_deep_stack))
