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

// ---- Tours ------------------------------------------------------------------------------------

// Two go through a list at once, in steps, while entries are removed and come: each meets every
// entry that stays, once and in order, and those that come meanwhile.
static void tours_meet_all_that_stay(void **state)
{
    (void)state;
    enum { STAY = 30, GO = 30, COME = 10, ROUNDS = 2000 };
    uint64_t random = unit_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct mare__list list, tours;
        struct mare__tour both[2];
        struct item items[STAY + GO + COME];
        bool gone[STAY + GO + COME] = {false};
        int met[2] = {0, 0}, came = STAY + GO, last[2] = {-1, -1};
        mare__list_init(&list);
        mare__list_init(&tours);
        for (int i = 0; i < STAY + GO; i++) // those that stay have even numbers
            mare__list_append(&list, &items[i].link);
        for (int c = 0; c < 2; c++)
            mare__tour_begin(&both[c], &tours, &list);
        for (bool over[2] = {false, false}; !over[0] || !over[1] || came < STAY + GO + COME;) {
            int which = (int)(unit_random(&random) % 4), goes;
            if (which < 2) {
                struct mare__list *entry = mare__tour_next(&both[which], &list);
                over[which] = !entry;
                if (!entry)
                    continue;
                int number = (int)(MARE__ENTRY(entry, struct item, link) - items);
                assert_false(gone[number]);
                assert_true(number > last[which]);
                last[which] = number;
                met[which] += number % 2 == 0 || number >= STAY + GO;
            } else if (which == 2) {
                // Often the one at which a tour stands, or the next to it.
                goes = last[unit_random(&random) % 2] + (int)(unit_random(&random) % 3) - 1;
                if (goes < 0 || goes >= STAY + GO || goes % 2 == 0 || gone[goes])
                    continue;
                gone[goes] = true;
                mare__tour_remove(&tours, &items[goes].link);
                assert_true(mare__list_empty(&items[goes].link));
            } else if (came < STAY + GO + COME) {
                mare__list_append(&list, &items[came++].link);
            }
        }
        for (int c = 0; c < 2; c++) {
            while (mare__tour_next(&both[c], &list)) // what came last
                met[c]++;
            assert_int_equal(met[c], STAY + COME);
            mare__tour_end(&both[c]);
        }
        assert_true(mare__list_empty(&tours));
    }
}

UNIT_TESTS(cmocka_unit_test(an_unlinked_node_points_to_itself),
           cmocka_unit_test(the_entry_is_found_from_the_link),
           cmocka_unit_test(random_operations_agree_with_an_array),
           cmocka_unit_test(tours_meet_all_that_stay))
