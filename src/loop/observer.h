// SPDX-License-Identifier: MIT
// The observer: wraps the demultiplexers (libuv's loop, and those that programs define), knows the
// sources of events (descriptors), waits for changes with a bounded time and hands them on.
//
// Each worker that needs an observer has its own. The worker waits in it instead of sleeping, and
// looks into it while it is busy (docs/decisions/012 has the measurement). A descriptor belongs to
// the observer of the thread that watched it first. What happens to a descriptor becomes a message
// in one of its channels. So a routine waits for it as for any message, in a select too.
#pragma once

#include "platform/loop.h"
#include "platform/transport.h" // for MARE__TO_READ and MARE__TO_WRITE
#include "sched/sched.h"

struct mare__observer;

// A descriptor that is watched. It is embedded in a larger object; `closed` releases that object.
struct mare__observed {
    struct mare__observer *observer; // NULL until it is first watched
    mare_channel *ready[MARE__WAYS]; // the channel for a change of each way; made by the first wait
    atomic_uint wanted;              // bits: watched ways, and ways that were asked for
                                     // (observer.c)
    unsigned told_in[MARE__WAYS];    // the last look that reported the way in vain,
    uint8_t vain[MARE__WAYS];        // and how many did so in a row
    int fd;
    const char *file; // the file, if it tells of changes to one; NULL: it is read or written
    atomic_bool ends; // it was closed
    bool doomed;      // under the observer's lock: the observer must close it
    bool lent;        // the descriptor belongs to somebody else, who closes it
    struct mare__list command;
    bool opened; // the loop knows `poll`
    struct mare__poll poll;
    void (*closed)(struct mare__observed *observed); // called last: nothing touches it after this
};

void mare__observed_init(struct mare__observed *observed, int fd,
                         void (*closed)(struct mare__observed *observed));

// The channel for a way. It gets at least one message after each call, when the descriptor is, or
// becomes, ready. NULL: not enough memory.
mare_channel *mare__observed_await(mare_runtime *runtime, struct mare__observed *observed, int way);

// Tells one of those who wait for the way, as if the descriptor had become ready.
void mare__observed_tell(struct mare__observed *observed, int way);

// Closes it. Those who wait get MARE_CLOSED. The descriptor is closed, and then `closed` called,
// perhaps on another thread. A second call does nothing.
void mare__observed_close(struct mare__observed *observed);
