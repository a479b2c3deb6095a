// SPDX-License-Identifier: MIT
// Programs that a process has started. A child has one owner at a time, a process; when that lets
// go of it (closed, collected, killed, at its end), the child is asked to end, and after a grace
// killed, unless it is detached. Whoever owns it or not, it is reaped as soon as it has ended.
#pragma once

#include "loop/stream.h"
#include "platform/child.h"

struct mare__child {
    struct mare__object object;
    atomic_uint holders; // the object, the source until it is closed, the timer while it stands
    mare_runtime *runtime;
    struct mare__source source;                      // its pidfd
    struct mare__stream *pipes[MARE__CHILD_STREAMS]; // this side's ends, until they are taken
    mare_channel *ended;                             // closed when it has ended
    struct mare__list lingers;                       // in the runtime's list, until then
    pid_t pid;
    bool group, detached;
    uint64_t timeout; // of each wait, in nanoseconds; MARE_FOREVER: none
    uint64_t grace;   // between being asked to end and being killed

    struct mare__wait exit; // stands in line for the source; its end is the event
    struct mare__node exit_node;
    struct mare__wait timer; // for the grace

    mare__lock lock;    // guards what follows, and that its descriptor is open while it is used
    bool asked;         // to end
    uint64_t killed_at; // when the grace is over, once it was asked
    bool over;
    enum mare__child_end how;
    int code; // the exit code, or the number of the signal
};

// What standard input, output or error of a child shall be: a pipe to this side, or a descriptor
// (taken over, in any case), or what this program has.
enum mare__child_use { MARE__CHILD_INHERITS, MARE__CHILD_PIPE, MARE__CHILD_GIVEN };
struct mare__child_stream {
    enum mare__child_use use;
    int fd;
};

// Starts a program; `spawning->fd` is filled in here. Returns 0, or an errno value, negated.
int mare__child_start(mare_runtime *runtime, struct mare__spawning *spawning,
                      struct mare__child_stream streams[MARE__CHILD_STREAMS],
                      struct mare__child **out);

// Sends it a signal. -ESRCH: it has ended.
int mare__child_send(struct mare__child *child, int number);

// Asks it to end; after the grace it is killed. Does nothing to one that is detached.
void mare__child_terminate(struct mare__child *child);

// How it ended, or MARE__CHILD_RUNS.
enum mare__child_end mare__child_outcome(struct mare__child *child, int *code);
