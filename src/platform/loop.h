// SPDX-License-Identifier: MIT
// The event loop of a thread, and what it can watch. Only the thread that waits in a loop may touch
// it, but for ringing. Descriptors are watched by libuv, as long as they are ready; connections of
// TCP by an epoll of ours, which tells of each change once, so that nothing has to be called to
// begin or to end watching them. What is waited in is ours, and libuv's is one of the descriptors
// in it.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct mare__loop {
    uv_loop_t uv;
    int epoll;    // what a thread waits in: connections, the bell, and libuv's own
    int bell;     // an eventfd, which nobody reads: each ring is a change
    bool stirred; // libuv was asked for something, which it does when it is run
    bool told;    // something was ready
};

// False: no memory, or no descriptors.
bool mare__loop_init(struct mare__loop *loop);

// Frees it. Descriptors must have been closed.
void mare__loop_fini(struct mare__loop *loop);

// Calls back for what is ready; if nothing is, waits for so many nanoseconds at the most.
void mare__loop_look(struct mare__loop *loop);
void mare__loop_wait(struct mare__loop *loop, uint64_t ns); // UINT64_MAX: for ever

// Ends a wait. Any thread, a signal handler too.
void mare__loop_ring(struct mare__loop *loop);

// ---- Descriptors --------------------------------------------------------------------------------
// BROKEN: something is wrong with it. It is not watched any more until that is wanted again.
enum { MARE__READABLE = 1, MARE__WRITABLE = 2, MARE__BROKEN = 4, MARE__ODD = 8 };

struct mare__poll {
    uv_poll_t uv;
    struct mare__loop *loop;
    int fd;
    bool edges; // it is told of changes
    bool fresh; // and what is so now will be told without asking
    void (*ready)(struct mare__poll *poll, unsigned ways); // all when something is wrong
    void (*closed)(struct mare__poll *poll);
};

// Watched for nothing yet. False: it cannot be watched (a file).
bool mare__poll_open(struct mare__loop *loop, struct mare__poll *poll, int fd);
void mare__poll_want(struct mare__poll *poll, unsigned ways);

// The same for a connection of TCP: `ready` is called once for each change in whether it can be
// read or written, and with ODD when the peer sends no more, or something urgent: then a read that
// gets less than it could may not have got all there is. `mare__poll_want`, with any ways, has what
// is so told again. False: it is none, or a listener.
bool mare__poll_open_edges(struct mare__loop *loop, struct mare__poll *poll, int fd);

// Not watched any more, so that the descriptor can be closed at once. True: `closed` comes later.
bool mare__poll_close(struct mare__poll *poll);
