// SPDX-License-Identifier: MIT
// Programs that a process has started. A child has one owner at a time, a process; when that lets
// go of it (closed, collected, killed, at its end), the child is asked to end, and after a grace
// killed, unless it is detached. Whoever owns it or not, it is reaped as soon as it has ended.
#pragma once

#include "loop/stream.h"
#include "platform/child.h"
#include "sched/task.h"

struct mare__child {
    struct mare__object object;
    struct mare__task task;         // waits for its end; held by the object, and by the descriptor
    struct mare__observed observed; // its pidfd
    struct mare__stream *pipes[MARE__CHILD_STREAMS]; // this side's ends, until they are taken
    mare_channel *ended;                             // closed when it has ended
    struct mare__list lingers;                       // in the runtime's list, until then
    pid_t pid;
    bool group, detached;
    uint64_t timeout; // of each wait, in nanoseconds; MARE_FOREVER: none
    uint64_t grace;   // between being asked to end and being killed

    pthread_mutex_t mutex; // guards what follows, and that its descriptor is open while it is used
    bool asked;            // to end
    bool killed;
    uint64_t killed_at; // when the grace is over, once it was asked
    bool over;
    enum mare__child_end how;
    int code; // the exit code, or the number of the signal
};

// What standard input, output or error of a child shall be: what this program has, a pipe to this
// side, a descriptor (taken over, in any case), or what has this path.
enum mare__child_use {
    MARE__CHILD_INHERITS,
    MARE__CHILD_PIPE,
    MARE__CHILD_GIVEN,
    MARE__CHILD_PATH
};
struct mare__child_stream {
    enum mare__child_use use;
    int fd;
    const char *path;
    enum mare__open_as how;
};

// What went wrong, beside the errno value that says why.
enum mare__launch_fault {
    MARE__LAUNCH_FAILED,
    MARE__LAUNCH_NO_FOLDER,
    MARE__LAUNCH_NO_PROGRAM,
    MARE__LAUNCH_NO_INTERPRETER,
    MARE__LAUNCH_NO_STREAM
};

// A program being started. Opening what it shall read and write, and executing it, takes as long as
// the disk does: a thread of the pool does that. What was started and is not taken is killed.
struct mare__launch {
    struct mare__job job;
    struct mare__child *child;      // what it is going to be, until that is taken
    struct mare__spawning spawning; // with copies of all strings
    struct mare__child_stream streams[MARE__CHILD_STREAMS];
    pid_t pid;
    int fd; // its pidfd, or -1
    int err;
    enum mare__launch_fault fault;
    int stream; // which could not be opened
    char *strings[];
};

// One that has not begun: its job is to be started and waited for. Descriptors that are given are
// taken over, in any case. Returns 0, or an errno value, negated.
int mare__launch_new(mare_runtime *runtime, const struct mare__spawning *spawning,
                     const struct mare__child_stream streams[MARE__CHILD_STREAMS],
                     struct mare__launch **out);

// It is over. Returns 0, and the child, or an errno value, negated; `fault` says more.
int mare__launch_take(struct mare__launch *launch, struct mare__child **out);

// Sends it a signal. -ESRCH: it has ended.
int mare__child_send(struct mare__child *child, int number);

// Asks it to end; after the grace it is killed. Does nothing to one that is detached.
void mare__child_terminate(struct mare__child *child);

// How it ended, or MARE__CHILD_RUNS.
enum mare__child_end mare__child_outcome(struct mare__child *child, int *code);
