// SPDX-License-Identifier: MIT
// The observer: wraps the demultiplexers (libuv's loop, and those that programs bring), knows the
// sources of events (descriptors), waits for changes with a bounded time and hands them on.
//
// Each worker that needs one has an observer of its own, in which it waits instead of sleeping, and
// into which it looks while it is busy (docs/decisions/012 has the measurement). A descriptor
// belongs to the observer of the thread that watched it first. What happens to a descriptor becomes
// a message in one of its channels, so that whoever waits for it waits as for any message, in a
// select too.
#pragma once

#include "platform/loop.h"
#include "platform/transport.h" // for MARE__TO_READ and MARE__TO_WRITE
#include "sched/sched.h"

struct mare__observer;

// A descriptor that is watched. It is part of an object, which `closed` gives back.
struct mare__observed {
    struct mare__observer *observer; // NULL until it is first watched
    mare_channel *ready[MARE__WAYS]; // where a change is told; made when first watched for
    atomic_uint wanted;              // bits of what it is watched for, and others (observer.c)
    int fd;
    bool edges;       // only those who read it to the end wait for it: see mare__observed_expect
    atomic_bool ends; // somebody has closed it
    bool doomed;      // under the observer's lock: so the observer shall close it
    bool lent;        // the descriptor is somebody else's, who closes it
    struct mare__list command;
    bool opened; // `poll` is known to the loop
    struct mare__poll poll;
    void (*closed)(struct mare__observed *observed); // the last thing that happens to it
};

void mare__observed_init(struct mare__observed *observed, int fd,
                         void (*closed)(struct mare__observed *observed));

// The channel that gets a message when the descriptor is, or soon becomes, ready; at least one
// after each call. NULL: not enough memory.
mare_channel *mare__observed_await(mare_runtime *runtime, struct mare__observed *observed, int way);

// For a connection that may be told of changes alone (`edges`): before a call to the system that
// may find that it cannot be read, or written, now; and after one that has not found that. So who
// waits then need not ask whether it can: any change is told.
void mare__observed_expect(struct mare__observed *observed, int way);
void mare__observed_unexpect(struct mare__observed *observed, int way);

// Tells one who waits for it, as if it had happened.
void mare__observed_tell(struct mare__observed *observed, int way);

// Whoever waits is told so (MARE_CLOSED); the descriptor is closed, then `closed` called, perhaps
// on another thread. Once is enough.
void mare__observed_close(struct mare__observed *observed);
