// SPDX-License-Identifier: MIT
// The table of names, against a plain array, and with the objects that it keeps alive.
#include "chan/directory.h"

#include <stdio.h>

#include "base/alloc.h"
#include "chan/channel.h"
#include "unit.h"

static int ended;

static void count_end(struct mare__object *object)
{
    (void)object;
    ended++;
}

static int end_countdown(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    ended = 0;
    return 0;
}

static void a_name_belongs_to_one(void **state)
{
    (void)state;
    struct mare__object a, b;
    struct mare__directory *names = mare__directory_create();
    mare__object_init(&a, MARE__KIND_BUFFER, count_end);
    mare__object_init(&b, MARE__KIND_BUFFER, count_end);
    assert_null(mare__directory_find(names, "x"));
    assert_int_equal(mare__directory_add(names, "x", &a), MARE_OK);
    assert_int_equal(mare__directory_add(names, "x", &b), MARE_EXISTS);
    assert_int_equal(mare__directory_add(names, "x", &a), MARE_EXISTS);
    assert_int_equal(mare__directory_add(names, "", &b), MARE_OK); // an odd name, but a name
    assert_int_equal(atomic_load(&a.references), 2);
    assert_ptr_equal(mare__directory_find(names, "x"), &a);
    assert_int_equal(atomic_load(&a.references), 3);
    mare__unref(&a);
    mare__directory_remove(names, "x", &b); // not its name
    mare__directory_remove(names, "y", &a);
    assert_int_equal(atomic_load(&a.references), 2);
    mare__directory_remove(names, "x", &a);
    assert_int_equal(atomic_load(&a.references), 1);
    assert_null(mare__directory_find(names, "x"));
    assert_int_equal(mare__directory_add(names, "x", &b), MARE_OK);
    mare__directory_destroy(names);
    assert_int_equal(atomic_load(&b.references), 1);
    assert_int_equal(ended, 0);
}

static void random_operations_agree_with_an_array(void **state)
{
    (void)state;
    enum { NAMES = 200, OBJECTS = 8 };
    uint64_t random = unit_seed();
    struct mare__object objects[OBJECTS], *model[NAMES] = {0};
    struct mare__directory *names = mare__directory_create();
    for (int i = 0; i < OBJECTS; i++)
        mare__object_init(&objects[i], MARE__KIND_BUFFER, count_end);
    for (int round = 0; round < 20000; round++) {
        size_t which = unit_random(&random) % NAMES;
        struct mare__object *object = &objects[unit_random(&random) % OBJECTS];
        char name[16];
        snprintf(name, sizeof name, "n%zu", which);
        switch (unit_random(&random) % 3) {
        case 0:
            assert_int_equal(mare__directory_add(names, name, object),
                             model[which] ? MARE_EXISTS : MARE_OK);
            model[which] = model[which] ? model[which] : object;
            break;
        case 1:
            mare__directory_remove(names, name, object);
            model[which] = model[which] == object ? NULL : model[which];
            break;
        default: {
            struct mare__object *found = mare__directory_find(names, name);
            assert_ptr_equal(found, model[which]);
            if (found)
                mare__unref(found);
        }
        }
    }
    mare__directory_destroy(names);
    for (int i = 0; i < OBJECTS; i++)
        assert_int_equal(atomic_load(&objects[i].references), 1);
}

// When no memory is left to grow, it goes on with longer chains.
static void allocation_fails_at_every_point(void **state)
{
    (void)state;
    for (long n = 1; n <= 2; n++) {
        mare__alloc_fail_after(n);
        assert_null(mare__directory_create());
    }
    mare__alloc_fail_after(0);
    for (long n = 1; n < 60; n++) {
        struct mare__object object;
        mare__object_init(&object, MARE__KIND_BUFFER, count_end);
        struct mare__directory *names = mare__directory_create();
        mare__alloc_fail_after(n);
        char name[16];
        unsigned added = 0;
        for (int i = 0; i < 50; i++) {
            snprintf(name, sizeof name, "%d", i);
            mare_err err = mare__directory_add(names, name, &object);
            assert_true(err == MARE_OK || err == MARE_NOMEM);
            added += err == MARE_OK;
        }
        mare__alloc_fail_after(0);
        assert_int_equal(atomic_load(&object.references), 1 + added);
        for (int i = 0; i < 50; i++) {
            snprintf(name, sizeof name, "%d", i);
            struct mare__object *found = mare__directory_find(names, name);
            assert_int_equal(found != NULL, i < (int)added);
            if (found)
                mare__unref(found);
        }
        mare__directory_destroy(names);
        assert_int_equal(atomic_load(&object.references), 1);
    }
}

// A channel that nobody else refers to ends when the table does, and on its way out wants to remove
// its own name.
static void named_channels_end_with_the_table(void **state)
{
    (void)state;
    struct mare__directory *names = mare__directory_create();
    struct mare__channels all = {.names = names, .owner = mare__os_process()};
    mare__list_init(&all.list);
    mare__list_init(&all.tours);
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "channel %d", i);
        mare_channel *channel = mare__chan_new(NULL, 1);
        mare__chan_list(channel, &all);
        channel->name = mare__alloc(sizeof name);
        snprintf(channel->name, sizeof name, "%s", name);
        assert_int_equal(mare__directory_add(names, name, &channel->object), MARE_OK);
        mare_chan_unref(channel);
    }
    mare__directory_destroy(names);
}

static void closing_ends_the_registration(void **state)
{
    (void)state;
    struct mare__directory *names = mare__directory_create();
    struct mare__channels all = {.names = names, .owner = mare__os_process()};
    mare__list_init(&all.list);
    mare__list_init(&all.tours);
    mare_channel *channel = mare__chan_new(NULL, 1);
    mare__chan_list(channel, &all);
    channel->name = mare__alloc(8);
    snprintf(channel->name, 8, "name");
    assert_int_equal(mare__directory_add(names, "name", &channel->object), MARE_OK);
    assert_int_equal(atomic_load(&channel->object.references), 2);
    assert_true(mare_chan_close(channel));
    assert_int_equal(atomic_load(&channel->object.references), 1);
    assert_null(mare__directory_find(names, "name"));
    assert_false(mare_chan_close(channel));
    mare_chan_unref(channel);
    mare__directory_destroy(names);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, end_countdown, end_countdown)

UNIT_TESTS(CASE(a_name_belongs_to_one), CASE(random_operations_agree_with_an_array),
           CASE(allocation_fails_at_every_point), CASE(closing_ends_the_registration),
           CASE(named_channels_end_with_the_table))
