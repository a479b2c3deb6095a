// SPDX-License-Identifier: MIT
// The event loop of a thread, and what it can watch, which a runtime takes from its platform. Only
// the thread that waits in a loop may touch it, but for ringing. The live loops are libuv's.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct mare__loop {
    uv_loop_t uv; // the live platform's
    uv_async_t bell;
    uv_timer_t alarm;
    void *other; // another's
};

// A descriptor that is watched. BROKEN: something is wrong with it. It is not watched any more
// until that is wanted again.
enum { MARE__READABLE = 1, MARE__WRITABLE = 2, MARE__BROKEN = 4 };

struct mare__poll {
    uv_poll_t uv;                                          // the live platform's
    void *other;                                           // another's
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

    // Not watched any more, so that the descriptor can be closed at once; `closed` comes later.
    void (*close)(struct mare__poll *poll);
};

extern const struct mare__loops mare__loops_live;
