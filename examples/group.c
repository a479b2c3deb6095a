// SPDX-License-Identifier: MIT
// A group in C: two members share locks, an election and a balance. The program knows nothing of
// Lua: what changes the balance is a function of its own. The members would be programs on machines
// of their own; to have both on one page, each is a runtime of this program. A real group has three
// members or more: of two, neither can go on alone.
#include <ftw.h>
#include <inttypes.h>
#include <mare/events.h>
#include <mare/group.h>
#include <mare/node.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MEMBERS = 2, PATIENCE_MS = 60000 };

static const char *const names[] = {"ebb", "flow", NULL};

// `why` is what the call has set.
static void check(mare_err err, const char *what, char *const *why)
{
    if (err == MARE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, why && *why ? *why : mare_strerror(err));
    exit(1);
}

static uint64_t soon(const mare_runtime *runtime)
{
    return mare_deadline_ms(runtime, PATIENCE_MS);
}

// The next balance from the last one and an amount. It must do the same on every member.
static mare_err deposit(void *user, const mare_message *arguments, mare_message *results)
{
    mare_value balance, amount;
    (void)user;
    if (mare_message_get(arguments, 0, &balance) || mare_message_get(arguments, 1, &amount))
        return MARE_BADMSG;
    return mare_message_add_integer(results, balance.as.integer + amount.as.integer);
}

static const mare_named_function account[] = {{"deposit", deposit}, {NULL, NULL}};

// A runtime that is a node and a member; the second one joins the first.
static mare_runtime *start(int i, const char *root, char **address)
{
    mare_runtime *runtime;
    char folder[100], *error = NULL;
    snprintf(folder, sizeof folder, "%s/%s", root, names[i]);
    check(mare_start(NULL, &runtime), "start", NULL);
    check(mare_offer(runtime, "account", account, NULL), "offer", NULL);
    const mare_node_options node = {.name = names[i], .listen = "127.0.0.1:0"};
    check(mare_node_start(runtime, &node, *address ? NULL : address, &error), "node", &error);
    if (i > 0)
        check(mare_node_connect(runtime, *address, soon(runtime), NULL, &error), "connect", &error);
    const mare_group_options group = {.name = "bank",
                                      .members = names,
                                      .folder = folder,
                                      .lease_ms = PATIENCE_MS};        // nobody dies here
    check(mare_group_found(runtime, &group, &error), "found", &error); // once in its life
    check(mare_group_join(runtime, &group, &error), "join", &error);
    return runtime;
}

// Called for each change of the leader, on the thread that drives the scheduler.
static void on_leader(void *user, mare_message *news)
{
    bool *known = user;
    mare_value leader;
    if (!news || mare_message_get(news, 0, &leader) || leader.type != MARE_STRING)
        return;
    printf("flow hears that %.*s leads\n", (int)leader.as.string.length, leader.as.string.bytes);
    *known = true;
}

// A loop of the program's own needs to poll one descriptor, whatever it waits for.
static void elect(mare_runtime *ebb, mare_runtime *flow)
{
    mare_election *stands, *watches;
    mare_scheduler *scheduler;
    char *error = NULL;
    bool known = false;
    struct pollfd poll_for = {.events = POLLIN};
    check(mare_group_election(ebb, "bank", "cashier", "first", 0, soon(ebb), &stands, &error),
          "stand", &error);
    check(mare_group_election(flow, "bank", "cashier", NULL, 0, soon(flow), &watches, &error),
          "watch", &error);
    check(mare_scheduler_create(flow, &scheduler), "scheduler", NULL);
    check(mare_scheduler_register_channel(scheduler, mare_election_changes(watches), on_leader,
                                          &known, NULL),
          "register", NULL);
    check(mare_scheduler_descriptor(scheduler, &poll_for.fd), "descriptor", NULL);
    while (!known && poll(&poll_for, 1, PATIENCE_MS) > 0)
        while (mare_scheduler_step(scheduler, 0) == MARE_OK)
            ;
    mare_scheduler_destroy(scheduler);
    mare_election_resign(watches);
    mare_election_resign(stands);
}

static void use_lock(mare_runtime *ebb, mare_runtime *flow)
{
    mare_lock *lock, *door, *other;
    uint64_t first, second;
    char *error = NULL;
    check(mare_group_lock(ebb, "bank", "vault", soon(ebb), &lock, &error), "lock", &error);
    check(mare_lock_fence(lock, soon(ebb), &first, &error), "fence", &error);
    check(mare_group_lock(flow, "bank", "door", soon(flow), &door, &error), "lock", &error);
    printf("ebb has the vault, flow the door\n");
    mare_err err = mare_group_lock(flow, "bank", "vault", mare_deadline_ms(flow, 50), &other, NULL);
    printf("flow asks for the vault: %s\n", mare_strerror(err));
    mare_lock_release(door);
    mare_lock_release(lock);
    check(mare_group_lock(flow, "bank", "vault", soon(flow), &other, &error), "lock", &error);
    check(mare_lock_fence(other, soon(flow), &second, &error), "fence", &error);
    printf("then flow has it, with a %s number\n", second > first ? "larger" : "smaller");
    mare_lock_release(other);
}

static void share_balance(mare_runtime *const *members)
{
    mare_replica *balance[MEMBERS];
    mare_message *message;
    mare_value value;
    char *error = NULL;
    for (int i = 0; i < MEMBERS; i++) {
        check(mare_message_create(&message), "message", NULL);
        check(mare_message_add_integer(message, 1000), "add", NULL);
        check(mare_group_replica(members[i], "bank", "balance", message, "account", "deposit",
                                 soon(members[i]), &balance[i], &error),
              "replica", &error);
        mare_message_destroy(message);
    }
    for (int i = 0; i < MEMBERS; i++) {
        check(mare_message_create(&message), "message", NULL);
        check(mare_message_add_integer(message, 100 + i), "add", NULL);
        check(mare_replica_apply(balance[i], message, soon(members[i]), NULL, &error), "apply",
              &error);
        mare_message_destroy(message);
    }
    for (int i = 0; i < MEMBERS; i++) {
        check(mare_replica_read(balance[i], soon(members[i]), &message, &error), "read", &error);
        check(mare_message_get(message, 0, &value), "balance", NULL);
        printf("the balance, says %s: %" PRId64 "\n", names[i], value.as.integer);
        mare_message_destroy(message);
    }
    for (int i = 0; i < MEMBERS; i++)
        mare_replica_leave(balance[i]);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

int main(void)
{
    char root[] = "/tmp/mare-bank-XXXXXX", *address = NULL;
    mare_runtime *members[MEMBERS];
    if (!mkdtemp(root))
        return 1;
    for (int i = 0; i < MEMBERS; i++)
        members[i] = start(i, root, &address);
    use_lock(members[0], members[1]);
    elect(members[0], members[1]);
    share_balance(members);
    for (int i = MEMBERS - 1; i >= 0; i--) {
        mare_node_stop(members[i], soon(members[i]));
        mare_stop(members[i]);
    }
    nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(address);
    return 0;
}
