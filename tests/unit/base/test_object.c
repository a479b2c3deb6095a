// SPDX-License-Identifier: MIT
// How objects end: each once, after the last reference, and never one inside the other.
#include "base/object.h"

#include <stdlib.h>

#include "unit.h"

enum { MANY = 1000000, REFERS_MAX = 3 };

struct thing {
    struct mare__object object;
    struct thing *refers[REFERS_MAX];
};

static int inside, deepest, destroyed;

static void destroy(struct mare__object *object)
{
    struct thing *thing = (struct thing *)object;
    inside++;
    deepest = inside > deepest ? inside : deepest;
    destroyed++;
    for (int i = 0; i < REFERS_MAX; i++)
        if (thing->refers[i])
            mare__unref(&thing->refers[i]->object);
    free(thing);
    inside--;
}

static struct thing *create(struct thing *refers)
{
    struct thing *thing = calloc(1, sizeof *thing);
    assert_non_null(thing);
    mare__object_init(&thing->object, MARE__KIND_BUFFER, destroy);
    thing->refers[0] = refers;
    return thing;
}

static int begin(void **state)
{
    (void)state;
    inside = deepest = destroyed = 0;
    return 0;
}

static void the_last_reference_ends_it(void **state)
{
    (void)state;
    struct thing *thing = create(NULL);
    mare__ref(&thing->object);
    mare__unref(&thing->object);
    assert_int_equal(destroyed, 0);
    mare__unref(&thing->object);
    assert_int_equal(destroyed, 1);
}

static void a_chain_of_a_million_ends_one_after_the_other(void **state)
{
    (void)state;
    struct thing *head = NULL;
    for (int i = 0; i < MANY; i++)
        head = create(head);
    mare__unref(&head->object);
    assert_int_equal(destroyed, MANY);
    assert_int_equal(deepest, 1);
}

// Many refer to one; it ends after the last of them, in the same call.
static void what_several_refer_to_ends_once(void **state)
{
    (void)state;
    struct thing *shared = create(NULL), *top = create(NULL);
    for (int i = 0; i < REFERS_MAX; i++)
        top->refers[i] = create(mare__ref(&shared->object));
    mare__unref(&shared->object);
    assert_int_equal(destroyed, 0);
    mare__unref(&top->object);
    assert_int_equal(destroyed, 2 + REFERS_MAX);
    assert_int_equal(deepest, 1);
}

static struct thing *tree(int levels)
{
    struct thing *top = create(NULL);
    for (int i = 0; levels > 1 && i < REFERS_MAX; i++)
        top->refers[i] = tree(levels - 1);
    return top;
}

static void trees_leave_nothing_behind(void **state)
{
    (void)state;
    enum { IN_A_TREE = 1 + 3 + 9 + 27 + 81 };
    for (int round = 1; round <= 2; round++) {
        mare__unref(&tree(5)->object);
        assert_int_equal(destroyed, round * IN_A_TREE);
        assert_int_equal(deepest, 1);
    }
}

#define CASE(name) cmocka_unit_test_setup(name, begin)

UNIT_TESTS(CASE(the_last_reference_ends_it), CASE(a_chain_of_a_million_ends_one_after_the_other),
           CASE(what_several_refer_to_ends_once), CASE(trees_leave_nothing_behind))
