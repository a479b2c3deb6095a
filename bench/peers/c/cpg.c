// SPDX-License-Identifier: MIT
// Messages of 64 bytes over Corosync's closed process groups, in the total order ("agreed"): each
// of three programs sends as fast as it is let, and counts what it is delivered of all.
// Usage: cpg MESSAGES, on three nodes of one cluster. The figure is what one of them is delivered.
#include <corosync/cpg.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

enum { MEMBERS = 3, BYTES = 64, PATIENCE_MS = 60000 };

static long delivered;
static size_t members;

static void fail(const char *what)
{
    fprintf(stderr, "cpg: %s\n", what);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void deliver(cpg_handle_t handle, const struct cpg_name *group, uint32_t node, uint32_t pid,
                    void *message, size_t length)
{
    (void)handle, (void)group, (void)node, (void)pid, (void)message;
    if (length != BYTES)
        fail("a message of another length");
    delivered++;
}

static void change(cpg_handle_t handle, const struct cpg_name *group,
                   const struct cpg_address *list, size_t count, const struct cpg_address *left,
                   size_t left_count, const struct cpg_address *joined, size_t joined_count)
{
    (void)handle, (void)group, (void)list, (void)left, (void)left_count, (void)joined;
    (void)joined_count;
    members = count;
}

// Hands over what is there, for which it waits so long: 1 ms when it may send again soon, but is
// not told when.
static void dispatch(cpg_handle_t handle, int wait_ms)
{
    int fd;
    if (cpg_fd_get(handle, &fd) != CS_OK)
        fail("no descriptor");
    struct pollfd one = {.fd = fd, .events = POLLIN};
    if (poll(&one, 1, wait_ms) == 0 && wait_ms == PATIENCE_MS)
        fail("nothing comes any more");
    if (cpg_dispatch(handle, CS_DISPATCH_ALL) != CS_OK)
        fail("cannot dispatch");
}

// Sends as many, and returns when as many of each member have come.
static void exchange(cpg_handle_t handle, long count)
{
    char text[BYTES] = {0};
    struct iovec part = {.iov_base = text, .iov_len = sizeof text};
    long sent = 0, goal = delivered + MEMBERS * count;
    while (delivered < goal) {
        bool full = false;
        while (!full && sent < count) {
            cs_error_t err = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
            full = err == CS_ERR_TRY_AGAIN;
            if (!full && err != CS_OK)
                fail("cannot send");
            sent += !full;
        }
        dispatch(handle, sent == count ? PATIENCE_MS : 1);
    }
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 100000;
    cpg_callbacks_t callbacks = {.cpg_deliver_fn = deliver, .cpg_confchg_fn = change};
    struct cpg_name group = {.length = 5, .value = "bench"};
    cpg_handle_t handle;
    if (cpg_initialize(&handle, &callbacks) != CS_OK || cpg_join(handle, &group) != CS_OK)
        fail("Corosync does not answer");
    while (members < MEMBERS)
        dispatch(handle, PATIENCE_MS);
    exchange(handle, count / 10);
    double begin = now_s();
    exchange(handle, count);
    printf("per_second %.6g\n", MEMBERS * (double)count / (now_s() - begin));
    fflush(stdout);
    cpg_finalize(handle);
    return 0;
}
