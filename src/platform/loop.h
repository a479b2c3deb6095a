// SPDX-License-Identifier: MIT
// The event loop of a thread, and what it can watch: libuv behind functions of ours. Only the
// thread that waits in a loop may touch it, but for ringing.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct mare__loop {
    uv_loop_t uv;
    uv_async_t bell;
    uv_timer_t alarm;
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
enum { MARE__READABLE = 1, MARE__WRITABLE = 2, MARE__BROKEN = 4 };

struct mare__poll {
    uv_poll_t uv;
    void (*ready)(struct mare__poll *poll, unsigned ways); // all when something is wrong
    void (*closed)(struct mare__poll *poll);
};

// Watched for nothing yet. False: it cannot be watched (a file).
bool mare__poll_open(struct mare__loop *loop, struct mare__poll *poll, int fd);
void mare__poll_want(struct mare__poll *poll, unsigned ways);

// Not watched any more, so that the descriptor can be closed at once; `closed` comes later.
void mare__poll_close(struct mare__poll *poll);
