// SPDX-License-Identifier: MIT
// The event loop of a thread, and what it can watch, which a runtime takes from its platform. Only
// the thread that waits in a loop may touch it, but for ringing.
//
// In a live loop descriptors are watched by libuv, as long as they are ready; connections of TCP by
// an epoll of ours, which tells of each change once, so that nothing has to be called to begin or
// to end watching them. What is waited in is ours, and libuv's is one of the descriptors in it.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct mare__loop {
    // The live platform's.
    uv_loop_t uv;
    int epoll;    // what a thread waits in: connections, the bell, and libuv's own
    int bell;     // an eventfd, which nobody reads: each ring is a change
    bool stirred; // libuv was asked for something, which it does when it is run
    bool told;    // something was ready
    void *other;  // another's
};

// A descriptor that is watched. BROKEN: something is wrong with it. It is not watched any more
// until that is wanted again.
enum { MARE__READABLE = 1, MARE__WRITABLE = 2, MARE__BROKEN = 4, MARE__ODD = 8 };

struct mare__poll {
    uv_poll_t uv; // the live platform's
    struct mare__loop *loop;
    int fd;
    bool edges;  // it is told of changes
    bool fresh;  // and what is so now will be told without asking
    void *other; // another's
    void (*ready)(struct mare__poll *poll, unsigned ways); // all when something is wrong
    void (*closed)(struct mare__poll *poll);
};

struct mare__loops {
    // False: no memory, or no descriptors. The context is that of the platform.
    bool (*init)(void *context, struct mare__loop *loop);

    // Frees it. Descriptors must have been closed; `closed` has come for all of them by the end.
    void (*fini)(struct mare__loop *loop);

    // Calls back for what is ready; if nothing is, waits for so many nanoseconds at the most.
    void (*look)(struct mare__loop *loop);
    void (*wait)(struct mare__loop *loop, uint64_t ns); // UINT64_MAX: for ever

    // Ends a wait. Any thread, a signal handler too.
    void (*ring)(struct mare__loop *loop);

    // Watched for nothing yet. False: it cannot be watched (a file).
    bool (*open)(struct mare__loop *loop, struct mare__poll *poll, int fd);
    void (*want)(struct mare__poll *poll, unsigned ways);

    // The same for a connection of TCP: `ready` is called once for each change in whether it can be
    // read or written, and with ODD when the peer sends no more, or something urgent: then a read
    // that gets less than it could may not have got all there is. `want`, with any ways, has what
    // is so told again. False: it is none, or a listener.
    bool (*open_edges)(struct mare__loop *loop, struct mare__poll *poll, int fd);

    // Not watched any more, so that the descriptor can be closed at once. True: `closed` comes
    // later.
    bool (*close)(struct mare__poll *poll);
};

extern const struct mare__loops mare__loops_live;
