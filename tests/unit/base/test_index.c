// SPDX-License-Identifier: MIT
// The index against an array, and how deep it gets.
#include "base/index.h"

#include <stdlib.h>

#include "base/list.h"
#include "unit.h"

struct item {
    struct mare__index_entry entry;
    uint64_t number;
    bool added;
};

static struct item *item_of(struct mare__index_entry *entry)
{
    return entry ? MARE__ENTRY(entry, struct item, entry) : NULL;
}

static int depth_of(const struct mare__index_entry *entry)
{
    int deepest = 0;
    for (int i = 0; entry && i < 4; i++) {
        int depth = depth_of(entry->child[i]);
        deepest = depth > deepest ? depth : deepest;
    }
    return entry ? deepest + 1 : 0;
}

static void an_empty_one_has_nothing(void **state)
{
    (void)state;
    struct mare__index index = {NULL};
    assert_null(mare__index_any(&index));
    assert_null(mare__index_find(&index, 0));
    assert_null(mare__index_find(&index, UINT64_MAX));
}

static void finds_what_was_added_and_not_removed(void **state)
{
    (void)state;
    enum { ITEMS = 200, STEPS = 40000 };
    struct item *items = calloc(ITEMS, sizeof *items);
    struct mare__index index = {NULL};
    int count = 0;
    uint64_t random = unit_seed();
    for (int i = 0; i < ITEMS; i++) // small ones, and ones that differ in their high bits only
        items[i].number = i % 2 ? (uint64_t)i : (uint64_t)i << 56;
    for (int step = 0; step < STEPS; step++) {
        struct item *item = &items[unit_random(&random) % ITEMS];
        assert_ptr_equal(item_of(mare__index_find(&index, item->number)),
                         item->added ? item : NULL);
        if (item->added)
            mare__index_remove(&item->entry);
        else
            mare__index_add(&index, &item->entry, item->number);
        item->added = !item->added;
        count += item->added ? 1 : -1;
        assert_true((mare__index_any(&index) != NULL) == (count > 0));
    }
    struct mare__index_entry *entry;
    for (; (entry = mare__index_any(&index)) != NULL; count--) { // each once
        assert_true(item_of(entry)->added);
        item_of(entry)->added = false;
        mare__index_remove(entry);
    }
    assert_int_equal(count, 0);
    free(items);
}

// Numbers as they come: one after the other, in steps, with all differences in a few bits.
static void it_stays_shallow(void **state)
{
    (void)state;
    enum { ITEMS = 100000 };
    struct item *items = calloc(ITEMS, sizeof *items);
    for (int shift = 0; shift <= 40; shift += 8) {
        struct mare__index index = {NULL};
        for (int i = 0; i < ITEMS; i++)
            mare__index_add(&index, &items[i].entry, (uint64_t)i << shift);
        assert_in_range(depth_of(index.root), 9, 20); // 8.3 if all were alike
        for (int i = 0; i < ITEMS; i += 2) // what comes into the place of others is found there
            mare__index_remove(&items[i].entry);
        for (int i = 0; i < ITEMS; i++)
            assert_ptr_equal(item_of(mare__index_find(&index, (uint64_t)i << shift)),
                             i % 2 ? &items[i] : NULL);
    }
    free(items);
}

UNIT_TESTS(cmocka_unit_test(an_empty_one_has_nothing),
           cmocka_unit_test(finds_what_was_added_and_not_removed),
           cmocka_unit_test(it_stays_shallow))
