// SPDX-License-Identifier: MIT
// Groups of C programs: two runtimes of this program are nodes, and members of a group.
#include <ftw.h>
#include <mare/group.h>
#include <mare/node.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime.h"

enum { NODES = 2, LEASE_MS = 600000 }; // which no noise ends

struct bank {
    mare_runtime *node[NODES];
    char folder[64];
};

static const char *const names[] = {"ebb", "flow", NULL};
static const char *const algorithms[] = {"majority", "x=central", NULL};

static mare_group_options options_of(const struct bank *bank, int i, char *folder, size_t room)
{
    snprintf(folder, room, "%s/%s", bank->folder, names[i]);
    return (mare_group_options){.name = "bank",
                                .members = names,
                                .folder = folder,
                                .lease_ms = LEASE_MS,
                                .algorithm = algorithms};
}

// ---- Functions that the program offers ----------------------------------------------------------

// The state and what is added to it; a negative one fails. Answers with the double.
static mare_err add(void *user, const mare_message *arguments, mare_message *results)
{
    mare_value state, value;
    (void)user;
    if (mare_message_get(arguments, 0, &state) || mare_message_get(arguments, 1, &value) ||
        state.type != MARE_INTEGER || value.type != MARE_INTEGER)
        return MARE_BADMSG;
    if (value.as.integer < 0) {
        mare_message_add_string(results, "no debts");
        return MARE_REFUSED;
    }
    mare_err err = mare_message_add_integer(results, state.as.integer + value.as.integer);
    return err ? err : mare_message_add_integer(results, 2 * value.as.integer);
}

static const mare_named_function functions[] = {{"add", add}, {NULL, NULL}};

// ---- A group ------------------------------------------------------------------------------------

static int meet(void **state)
{
    struct bank *bank = calloc(1, sizeof *bank);
    char *address = NULL, *error = NULL, folder[128];
    snprintf(bank->folder, sizeof bank->folder, "/tmp/mare-group-api-XXXXXX");
    assert_non_null(mkdtemp(bank->folder));
    for (int i = 0; i < NODES; i++) {
        mare_node_options node = {.name = names[i], .silence_ms = LEASE_MS};
        node.listen = i == 0 ? "127.0.0.1:0" : NULL;
        bank->node[i] = run_start(2);
        assert_int_equal(mare_offer(bank->node[i], "sums", functions, NULL), MARE_OK);
        assert_int_equal(mare_node_start(bank->node[i], &node, i == 0 ? &address : NULL, NULL),
                         MARE_OK);
        if (i > 0)
            assert_int_equal(
                mare_node_connect(bank->node[i], address, run_soon(bank->node[i]), NULL, NULL),
                MARE_OK);
        mare_group_options options = options_of(bank, i, folder, sizeof folder);
        assert_int_equal(mare_group_join(bank->node[i], &options, &error), MARE_NOSTATE);
        assert_non_null(strstr(error, "found"));
        free(error);
        assert_int_equal(mare_group_found(bank->node[i], &options, &error), MARE_OK);
        assert_int_equal(mare_group_found(bank->node[i], &options, NULL), MARE_EXISTS);
        assert_int_equal(mare_group_join(bank->node[i], &options, &error), MARE_OK);
        assert_null(error);
    }
    free(address);
    *state = bank;
    return 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void)info, (void)kind, (void)ftw;
    return remove(path);
}

static int part(void **state)
{
    struct bank *bank = *state;
    for (int i = NODES - 1; i >= 0; i--)
        mare_stop(bank->node[i]);
    nftw(bank->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(bank);
    return 0;
}

static void expect_text(const mare_message *message, size_t index, const char *text)
{
    mare_value value;
    assert_int_equal(mare_message_get(message, index, &value), MARE_OK);
    assert_int_equal(value.type, MARE_STRING);
    assert_int_equal(value.as.string.length, strlen(text));
    assert_memory_equal(value.as.string.bytes, text, strlen(text));
}

static int64_t number_of(const mare_message *message, size_t index)
{
    mare_value value;
    assert_int_equal(mare_message_get(message, index, &value), MARE_OK);
    assert_int_equal(value.type, MARE_INTEGER);
    return value.as.integer;
}

static mare_message *next_of(const mare_runtime *runtime, mare_channel *channel)
{
    mare_message *message = NULL;
    assert_int_equal(mare_chan_receive_until(channel, &message, run_soon(runtime)), MARE_OK);
    return message;
}

static mare_message *integer(int64_t number)
{
    mare_message *message = run_message();
    assert_int_equal(mare_message_add_integer(message, number), MARE_OK);
    return message;
}

// ---- Cases --------------------------------------------------------------------------------------

static void a_lock_is_had_by_one_at_a_time(void **state)
{
    struct bank *bank = *state;
    mare_lock *lock, *other;
    uint64_t first, second;
    mare_runtime *ebb = bank->node[0], *flow = bank->node[1];
    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &lock, NULL), MARE_OK);
    assert_int_equal(mare_lock_fence(lock, run_soon(ebb), &first, NULL), MARE_OK);
    assert_int_equal(mare_group_lock(flow, "bank", "y", run_soon(flow), &other, NULL), MARE_OK);
    mare_lock_release(other); // from now on flow has a lease, and can only be late
    assert_int_equal(mare_group_lock(flow, "bank", "x", mare_deadline_ms(flow, 20), &other, NULL),
                     MARE_TIMEOUT);
    assert_null(other);
    mare_lock_release(lock);
    assert_int_equal(mare_group_lock(flow, "bank", "x", run_soon(flow), &other, NULL), MARE_OK);
    assert_int_equal(mare_lock_fence(other, run_soon(flow), &second, NULL), MARE_OK);
    assert_true(second > first);
    mare_lock_release(other);
    mare_lock_release(NULL);
}

static void a_lost_lock_says_so(void **state)
{
    struct bank *bank = *state;
    mare_lock *lock;
    uint64_t fence;
    char *error = NULL;
    mare_runtime *ebb = bank->node[0];
    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &lock, NULL), MARE_OK);
    assert_int_equal(mare_group_leave(ebb, "bank"), MARE_OK);
    mare_message *news = next_of(ebb, mare_lock_lost(lock));
    expect_text(news, 0, "left");
    mare_message_destroy(news);
    assert_int_equal(mare_lock_fence(lock, run_soon(ebb), &fence, &error), MARE_CLOSED);
    assert_non_null(strstr(error, "the lock is lost"));
    free(error);
    mare_lock_release(lock);
    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &lock, NULL), MARE_NONAME);
    assert_int_equal(mare_group_leave(ebb, "bank"), MARE_NONAME);
}

static void one_leads_and_the_other_knows(void **state)
{
    struct bank *bank = *state;
    mare_election *stands, *watches;
    mare_runtime *ebb = bank->node[0], *flow = bank->node[1];
    assert_int_equal(
        mare_group_election(flow, "bank", "cashier", NULL, 0, run_soon(flow), &watches, NULL),
        MARE_OK);
    assert_int_equal(
        mare_group_election(ebb, "bank", "cashier", "bully", 0, run_soon(ebb), &stands, NULL),
        MARE_OK);
    mare_value value;
    mare_message *news;
    do { // nobody is known at first
        news = next_of(flow, mare_election_changes(watches));
        assert_int_equal(mare_message_get(news, 0, &value), MARE_OK);
        if (value.type == MARE_STRING)
            expect_text(news, 0, "ebb");
        assert_true(value.type != MARE_STRING || number_of(news, 1) > 0);
        mare_message_destroy(news);
    } while (value.type != MARE_STRING);
    mare_election_resign(stands);
    mare_election_resign(watches);
}

struct joining {
    pthread_t thread;
    mare_runtime *runtime;
    mare_multicast **out;
    mare_err err;
};

static void *join_orders(void *argument)
{
    struct joining *joining = argument;
    joining->err = mare_group_multicast(joining->runtime, "bank", "orders", NULL,
                                        run_soon(joining->runtime), joining->out, NULL);
    return NULL;
}

static void all_are_delivered_the_same(void **state)
{
    enum { EACH = 20 };
    struct bank *bank = *state;
    mare_multicast *orders[NODES];
    int64_t got[NODES][NODES * EACH];
    struct joining joining[NODES];
    for (int i = 0; i < NODES; i++) { // each is in when a majority is
        joining[i] = (struct joining){.runtime = bank->node[i], .out = &orders[i]};
        assert_int_equal(pthread_create(&joining[i].thread, NULL, join_orders, &joining[i]), 0);
    }
    for (int i = 0; i < NODES; i++) {
        pthread_join(joining[i].thread, NULL);
        assert_int_equal(joining[i].err, MARE_OK);
    }
    for (int i = 0; i < NODES * EACH; i++) {
        mare_message *message = integer(i);
        assert_int_equal(
            mare_multicast_send(orders[i % NODES], message, run_soon(bank->node[i % NODES]), NULL),
            MARE_OK);
        assert_int_equal(mare_message_count(message), 1);
        mare_message_destroy(message);
    }
    for (int i = 0; i < NODES; i++) {
        for (int j = 0; j < NODES * EACH; j++) {
            mare_message *message = next_of(bank->node[i], mare_multicast_messages(orders[i]));
            got[i][j] = number_of(message, 1);
            expect_text(message, 0, names[got[i][j] % NODES]);
            mare_message_destroy(message);
        }
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    for (int i = 0; i < NODES; i++)
        mare_multicast_leave(orders[i]);
}

static void a_replica_is_changed_by_a_function_in_c(void **state)
{
    struct bank *bank = *state;
    mare_replica *balance[NODES];
    mare_message *initial = integer(100), *answer, *value;
    char *error = NULL;
    for (int i = 0; i < NODES; i++)
        assert_int_equal(mare_group_replica(bank->node[i], "bank", "balance", initial, "sums",
                                            "add", run_soon(bank->node[i]), &balance[i], NULL),
                         MARE_OK);
    for (int i = 0; i < 10; i++) {
        mare_runtime *node = bank->node[i % NODES];
        value = integer(i);
        assert_int_equal(
            mare_replica_apply(balance[i % NODES], value, run_soon(node), &answer, &error),
            MARE_OK);
        assert_int_equal(number_of(answer, 0), 2 * i);
        mare_message_destroy(answer);
        mare_message_destroy(value);
    }
    value = integer(-1);
    assert_int_equal(mare_replica_apply(balance[0], value, run_soon(bank->node[0]), NULL, &error),
                     MARE_DIED);
    assert_non_null(strstr(error, "no debts"));
    free(error);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(mare_replica_read(balance[i], run_soon(bank->node[i]), &answer, NULL),
                         MARE_OK);
        assert_int_equal(number_of(answer, 0), 145);
        mare_message_destroy(answer);
    }
    for (int i = 0; i < NODES; i++)
        mare_replica_leave(balance[i]);
    mare_message_destroy(value);
    mare_message_destroy(initial);
}

static void members_are_told(void **state)
{
    struct bank *bank = *state;
    mare_message *members;
    mare_lock *lock;
    mare_runtime *ebb = bank->node[0];
    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &lock, NULL), MARE_OK);
    assert_int_equal(mare_group_members(ebb, "bank", &members, NULL), MARE_OK);
    assert_int_equal(mare_message_count(members), 4);
    expect_text(members, 0, "ebb");
    expect_text(members, 1, "up");
    expect_text(members, 2, "flow");
    mare_message_destroy(members);
    mare_lock_release(lock);
    assert_int_equal(mare_group_members(ebb, "none", &members, NULL), MARE_NONAME);
    assert_null(members);
}

// Kills what is behind an object, as any Lua process of the program can.
static void kill_behind(void *object)
{
    struct {
        mare_runtime *runtime;
        mare_process *process;
    } part; // what each object begins with
    memcpy(&part, object, sizeof part);
    assert_true(mare_process_kill(part.process));
}

struct asking {
    pthread_t thread;
    mare_replica *replica;
    mare_message *value;
    mare_err err;
};

static void *apply_for_ever(void *argument)
{
    struct asking *asking = argument;
    asking->err = mare_replica_apply(asking->replica, asking->value, MARE_FOREVER, NULL, NULL);
    return NULL;
}

// Nobody else opens the replica, so there is no majority for it: who applies waits, as long as it
// likes.
static void what_was_killed_is_not_waited_for(void **state)
{
    struct bank *bank = *state;
    mare_runtime *ebb = bank->node[0];
    mare_lock *lock, *other;
    uint64_t fence;
    struct asking asking = {.value = integer(1)};
    assert_int_equal(mare_group_replica(ebb, "bank", "alone", asking.value, "sums", "add",
                                        run_soon(ebb), &asking.replica, NULL),
                     MARE_OK);
    assert_int_equal(pthread_create(&asking.thread, NULL, apply_for_ever, &asking), 0);
    kill_behind(asking.replica);
    assert_int_equal(pthread_join(asking.thread, NULL), 0);
    assert_int_equal(asking.err, MARE_DIED);
    mare_replica_leave(asking.replica);
    mare_message_destroy(asking.value);

    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &lock, NULL), MARE_OK);
    kill_behind(lock);
    assert_int_equal(mare_lock_fence(lock, MARE_FOREVER, &fence, NULL), MARE_DIED);
    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &other, NULL), MARE_OK);
    mare_lock_release(other); // it was given back
    mare_lock_release(lock);
}

struct coming {
    pthread_t thread;
    mare_runtime *runtime;
    mare_group_options options;
    mare_err err;
};

static void *come(void *argument)
{
    struct coming *coming = argument;
    coming->err = mare_group_join(coming->runtime, &coming->options, NULL);
    return NULL;
}

static void members_come_and_go(void **state)
{
    struct bank *bank = *state;
    mare_runtime *ebb = bank->node[0];
    char folder[128], *address = NULL, *error = NULL;
    mare_message *members;
    mare_node_options node = {.name = "reef", .silence_ms = LEASE_MS, .listen = "127.0.0.1:0"};
    struct coming coming = {.runtime = run_start(2)};
    mare_lock *lock;
    uint64_t fence;
    assert_int_equal(mare_group_lock(ebb, "bank", "x", run_soon(ebb), &lock, NULL), MARE_OK);
    assert_int_equal(mare_group_add(ebb, "none", "reef", run_soon(ebb), NULL), MARE_NONAME);
    assert_int_equal(mare_group_add(ebb, "bank", "Reef", run_soon(ebb), &error), MARE_INVALID);
    assert_non_null(error);
    free(error);
    assert_int_equal(mare_group_add(ebb, "bank", NULL, run_soon(ebb), NULL), MARE_INVALID);
    assert_int_equal(mare_group_add(ebb, "bank", "reef", mare_deadline_ms(ebb, 20), &error),
                     MARE_TIMEOUT);
    assert_non_null(strstr(error, "newcomer")); // it has not come
    free(error);
    assert_int_equal(mare_node_start(coming.runtime, &node, &address, NULL), MARE_OK);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(
            mare_node_connect(bank->node[i], address, run_soon(bank->node[i]), NULL, NULL),
            MARE_OK);
    coming.options = options_of(bank, 0, folder, sizeof folder);
    strcat(folder, "-reef");
    coming.options.newcomer = true;
    coming.options.timeout_ms = 1;
    assert_int_equal(mare_group_join(coming.runtime, &coming.options, NULL), MARE_TIMEOUT);
    coming.options.timeout_ms = LEASE_MS;
    assert_int_equal(pthread_create(&coming.thread, NULL, come, &coming), 0);
    assert_int_equal(mare_group_add(ebb, "bank", "reef", run_soon(ebb), NULL), MARE_OK);
    assert_int_equal(pthread_join(coming.thread, NULL), 0);
    assert_int_equal(coming.err, MARE_OK);
    assert_int_equal(mare_lock_fence(lock, run_soon(ebb), &fence, &error), MARE_CLOSED);
    assert_non_null(strstr(error, "the members of the group have changed"));
    free(error);
    mare_lock_release(lock);
    assert_int_equal(mare_group_members(ebb, "bank", &members, NULL), MARE_OK);
    assert_int_equal(mare_message_count(members), 2 * (NODES + 1));
    expect_text(members, 4, "reef");
    mare_message_destroy(members);
    free(address);
    mare_stop(coming.runtime);
}

static void what_cannot_be_is_refused_in_words(void **state)
{
    struct bank *bank = *state;
    mare_lock *lock;
    mare_multicast *orders;
    char *error = NULL, folder[128];
    mare_runtime *ebb = bank->node[0];
    mare_group_options options = options_of(bank, 0, folder, sizeof folder);
    assert_int_equal(mare_group_join(ebb, &options, NULL), MARE_EXISTS);
    options.name = "Bank";
    assert_int_equal(mare_group_join(ebb, &options, &error), MARE_INVALID);
    assert_non_null(strstr(error, "bad argument"));
    free(error);
    options.name = "other";
    options.voters = (const char *const[]){"nobody", NULL};
    assert_int_equal(mare_group_found(ebb, &options, &error), MARE_INVALID);
    assert_non_null(strstr(error, "'nobody' is not among the members"));
    free(error);
    options.voters = NULL;
    options.name = NULL;
    assert_int_equal(mare_group_found(ebb, &options, NULL), MARE_INVALID);
    assert_int_equal(mare_group_lock(ebb, "bank", "", run_soon(ebb), &lock, NULL), MARE_INVALID);
    assert_int_equal(mare_group_lock(ebb, "bank", NULL, run_soon(ebb), &lock, NULL), MARE_INVALID);
    assert_int_equal(
        mare_group_multicast(ebb, "bank", "orders", "chance", run_soon(ebb), &orders, NULL),
        MARE_INVALID);
}

#define WITH_GROUP(f) cmocka_unit_test_setup_teardown(f, meet, part)

UNIT_TESTS(WITH_GROUP(a_lock_is_had_by_one_at_a_time), WITH_GROUP(a_lost_lock_says_so),
           WITH_GROUP(one_leads_and_the_other_knows), WITH_GROUP(all_are_delivered_the_same),
           WITH_GROUP(a_replica_is_changed_by_a_function_in_c), WITH_GROUP(members_are_told),
           WITH_GROUP(members_come_and_go), WITH_GROUP(what_was_killed_is_not_waited_for),
           WITH_GROUP(what_cannot_be_is_refused_in_words))
