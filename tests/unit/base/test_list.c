// SPDX-License-Identifier: MIT
// The intrusive list against an array.
#include "base/list.h"

#include <string.h>

#include "unit.h"

struct item {
    int number;
    struct mare__list link;
};

static void an_unlinked_node_points_to_itself(void **state)
{
    (void)state;
    struct mare__list list, entry;
    mare__list_init(&list);
    mare__list_init(&entry);
    assert_true(mare__list_empty(&list));
    assert_null(mare__list_first(&list));
    mare__list_remove(&entry); // twice is safe, even before the first time
    mare__list_append(&list, &entry);
    assert_false(mare__list_empty(&list));
    assert_ptr_equal(mare__list_first(&list), &entry);
    mare__list_remove(&entry);
    mare__list_remove(&entry);
    assert_true(mare__list_empty(&list));
    assert_true(mare__list_empty(&entry));
}

static void the_entry_is_found_from_the_link(void **state)
{
    (void)state;
    struct item item = {.number = 42};
    assert_ptr_equal(MARE__ENTRY(&item.link, struct item, link), &item);
}

static void check(struct mare__list *list, struct item *const *model, size_t count)
{
    struct mare__list *at = list->next;
    for (size_t i = 0; i < count; i++, at = at->next) {
        assert_ptr_equal(MARE__ENTRY(at, struct item, link), model[i]);
        assert_ptr_equal(at->prev->next, at);
    }
    assert_ptr_equal(at, list);
    assert_ptr_equal(list->prev->next, list);
    assert_ptr_equal(mare__list_first(list), count ? &model[0]->link : NULL);
}

static void random_operations_agree_with_an_array(void **state)
{
    (void)state;
    enum { ITEMS = 40 };
    uint64_t random = unit_seed();
    struct mare__list list;
    struct item items[ITEMS], *model[ITEMS];
    size_t count = 0;
    mare__list_init(&list);
    for (int i = 0; i < ITEMS; i++)
        mare__list_init(&items[i].link);
    for (int round = 0; round < 20000; round++) {
        struct item *item = &items[unit_random(&random) % ITEMS];
        size_t at = 0;
        while (at < count && model[at] != item)
            at++;
        if (at == count) {
            mare__list_append(&list, &item->link);
            model[count++] = item;
        } else {
            mare__list_remove(&item->link);
            assert_true(mare__list_empty(&item->link));
            memmove(&model[at], &model[at + 1], (--count - at) * sizeof *model);
        }
        check(&list, model, count);
    }
}

UNIT_TESTS(cmocka_unit_test(an_unlinked_node_points_to_itself),
           cmocka_unit_test(the_entry_is_found_from_the_link),
           cmocka_unit_test(random_operations_agree_with_an_array))
