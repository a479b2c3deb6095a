// SPDX-License-Identifier: MIT
// A C program that uses a group as none should: several threads take, look at and release what they
// have while the group is left and joined again, and things outlive what they belong to. Nothing
// may crash, leak or wait for ever, and each call says something that can be.
#include <ftw.h>
#include <mare/group.h>
#include <mare/node.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime.h"

enum { THREADS = 3, ROUNDS = 5, LEASE_MS = 600000 };

struct world {
    mare_runtime *runtime;
    char folder[64];
    mare_group_options options;
    atomic_bool over;
    atomic_int held;
};

static const char *const names[] = {"home", NULL};

static int begin(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    mare_node_options node = {.name = "home", .silence_ms = LEASE_MS};
    snprintf(world->folder, sizeof world->folder, "/tmp/mare-group-hostile-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    world->runtime = run_start(2);
    world->options = (mare_group_options){
        .name = "bank", .members = names, .folder = world->folder, .lease_ms = LEASE_MS};
    assert_int_equal(mare_node_start(world->runtime, &node, NULL, NULL), MARE_OK);
    assert_int_equal(mare_group_found(world->runtime, &world->options, NULL), MARE_OK);
    assert_int_equal(mare_group_join(world->runtime, &world->options, NULL), MARE_OK);
    *state = world;
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info, (void)kind, (void)ftw;
    return remove(path);
}

static int finish(void **state)
{
    struct world *world = *state;
    mare_stop(world->runtime);
    nftw(world->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(world);
    return 0;
}

// What a call may say while the group comes and goes.
static void expect_possible(mare_err err)
{
    if (err != MARE_OK && err != MARE_TIMEOUT && err != MARE_CLOSED && err != MARE_NONAME &&
        err != MARE_NOQUORUM)
        fail_msg("%s", mare_strerror(err));
}

static void *use(void *argument)
{
    struct world *world = argument;
    while (!atomic_load(&world->over)) {
        mare_lock *lock;
        char *error;
        uint64_t fence;
        mare_err err =
            mare_group_lock(world->runtime, "bank", "x", run_soon(world->runtime), &lock, &error);
        free(error);
        expect_possible(err);
        assert_true(err ? !lock : lock != NULL);
        if (err)
            continue;
        atomic_fetch_add(&world->held, 1);
        err = mare_lock_fence(lock, run_soon(world->runtime), &fence, &error);
        free(error);
        expect_possible(err);
        mare_lock_release(lock);
    }
    return NULL;
}

static void threads_and_a_group_that_comes_and_goes(void **state)
{
    struct world *world = *state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, world), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int before = atomic_load(&world->held);
        while (atomic_load(&world->held) == before)
            usleep(1000);
        assert_int_equal(mare_group_leave(world->runtime, "bank"), MARE_OK);
        assert_int_equal(mare_group_join(world->runtime, &world->options, NULL), MARE_OK);
    }
    atomic_store(&world->over, true);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void what_outlives_what_it_belongs_to(void **state)
{
    struct world *world = *state;
    mare_runtime *runtime = world->runtime;
    mare_lock *lock;
    mare_election *election;
    mare_multicast *multicast;
    mare_message *message = NULL, *value = run_message();
    uint64_t fence;
    char *error;
    assert_int_equal(mare_group_lock(runtime, "bank", "y", run_soon(runtime), &lock, NULL),
                     MARE_OK);
    assert_int_equal(
        mare_group_election(runtime, "bank", "e", "first", 0, run_soon(runtime), &election, NULL),
        MARE_OK);
    assert_int_equal(
        mare_group_multicast(runtime, "bank", "m", NULL, run_soon(runtime), &multicast, NULL),
        MARE_OK);
    mare_channel *lost = mare_lock_lost(lock);
    mare_chan_ref(lost);
    assert_int_equal(mare_group_leave(runtime, "bank"), MARE_OK);
    assert_int_equal(mare_lock_fence(lock, run_soon(runtime), &fence, &error), MARE_CLOSED);
    assert_non_null(error);
    free(error);
    assert_int_equal(mare_message_add_integer(value, 7), MARE_OK);
    // The process behind a multicast hears by itself that the group was left: soon.
    mare_err sent;
    while ((sent = mare_multicast_send(multicast, value, run_soon(runtime), NULL)) == MARE_OK)
        usleep(1000);
    assert_int_equal(sent, MARE_CLOSED);
    mare_message_destroy(value);
    mare_lock_release(lock);
    mare_election_resign(election);
    mare_multicast_leave(multicast);
    assert_int_equal(mare_chan_receive_until(lost, &message, run_soon(runtime)), MARE_OK); // why
    mare_message_destroy(message);
    assert_int_equal(mare_chan_receive_until(lost, &message, run_soon(runtime)), MARE_CLOSED);
    mare_chan_unref(lost);
    assert_int_equal(mare_group_leave(runtime, "bank"), MARE_NONAME);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct world *world = *state;
    mare_runtime *runtime = world->runtime;
    mare_lock *lock;
    mare_message *members;
    char *error;
    mare_group_options nothing = {0}, odd = world->options;
    assert_int_equal(mare_group_join(runtime, &nothing, &error), MARE_INVALID);
    free(error);
    odd.drift = -1;
    assert_int_equal(mare_group_join(runtime, &odd, &error), MARE_INVALID);
    free(error);
    assert_int_equal(mare_group_lock(runtime, NULL, "x", run_soon(runtime), &lock, &error),
                     MARE_INVALID);
    assert_null(lock);
    assert_null(error);
    assert_int_equal(mare_group_lock(runtime, "bank", NULL, run_soon(runtime), &lock, NULL),
                     MARE_INVALID);
    assert_int_equal(mare_group_lock(runtime, "bank", "", run_soon(runtime), &lock, &error),
                     MARE_INVALID);
    assert_non_null(error);
    free(error);
    assert_int_equal(mare_group_lock(runtime, "none", "x", MARE_FOREVER, &lock, NULL), MARE_NONAME);
    assert_int_equal(mare_group_members(runtime, "bank@home", &members, NULL), MARE_NONAME);
    assert_null(members);
    mare_lock_release(NULL);
    mare_election_resign(NULL);
    mare_multicast_leave(NULL);
    mare_replica_leave(NULL);
}

UNIT_TESTS(cmocka_unit_test_setup_teardown(threads_and_a_group_that_comes_and_goes, begin, finish),
           cmocka_unit_test_setup_teardown(what_outlives_what_it_belongs_to, begin, finish),
           cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, begin, finish))
