// SPDX-License-Identifier: MIT
// Programs that a process has started. A child has one owner at a time, a process. The owner lets
// go of it when it closes it, is killed or ends, or when the child is collected. Then the child is
// asked to end, and killed after a grace, unless it is detached. A child is reaped as soon as it
// has ended, with or without an owner.
#pragma once

#include "loop/stream.h"
#include "platform/child.h"
#include "sched/task.h"

struct mare__child {
    struct mare__object object;
    struct mare__task task;         // waits for its end; held by the object, and by the descriptor
    struct mare__observed observed; // its pidfd
    struct mare__stream *pipes[MARE__CHILD_STREAMS]; // this side's ends, until they are taken away
    mare_channel *ended;                             // closed when it has ended
    struct mare__list lingers;                       // its place in the runtime's list, until then
    pid_t pid;
    bool group, detached;
    uint64_t timeout; // of each wait, in nanoseconds; MARE_FOREVER: none
    uint64_t grace;   // from when it is asked to end until it is killed

    pthread_mutex_t mutex; // guards what follows; held while the descriptor is used
    bool asked;            // it was asked to end
    bool killed;
    uint64_t killed_at; // when the grace is over, once it was asked to end
    bool over;
    enum mare__child_end how;
    int code; // the exit code, or the number of the signal
};

// What a child gets as standard input, output or error: the one of this program, a pipe to this
// side, a descriptor (taken over, even on failure), or the file of a path.
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

// What went wrong; the errno value says why.
enum mare__launch_fault {
    MARE__LAUNCH_FAILED,
    MARE__LAUNCH_NO_FOLDER,
    MARE__LAUNCH_NO_PROGRAM,
    MARE__LAUNCH_NO_INTERPRETER,
    MARE__LAUNCH_NO_STREAM
};

// The start of a program. Opening its files, and executing it, take as long as the disk does, so a
// thread of the pool does that. A child that was started and is not taken is killed.
struct mare__launch {
    struct mare__job job;
    struct mare__child *child;      // the future child, until it is taken
    struct mare__spawning spawning; // with copies of all strings
    struct mare__child_stream streams[MARE__CHILD_STREAMS];
    pid_t pid;
    int fd; // its pidfd, or -1
    int err;
    enum mare__launch_fault fault;
    int stream; // the stream that could not be opened
    char *strings[];
};

// Prepares a start: the caller starts its job, and waits for it. Descriptors in it are taken over,
// even on failure. Returns 0, or an errno value, negated.
int mare__launch_new(mare_runtime *runtime, const struct mare__spawning *spawning,
                     const struct mare__child_stream streams[MARE__CHILD_STREAMS],
                     struct mare__launch **out);

// After the job: returns 0 and the child, or an errno value, negated; `fault` says more.
int mare__launch_take(struct mare__launch *launch, struct mare__child **out);

// Sends it a signal. -ESRCH: it has ended.
int mare__child_send(struct mare__child *child, int number);

// Asks it to end; after the grace it is killed. Does nothing to one that is detached.
void mare__child_terminate(struct mare__child *child);

// How it ended, or MARE__CHILD_RUNS.
enum mare__child_end mare__child_outcome(struct mare__child *child, int *code);
