// SPDX-License-Identifier: MIT
// The runtime as a whole: its start, its end, and who waits for that.
#pragma once

#include "sched/sched.h"

// Starts a runtime on a platform (copied), whose processes know the given modules and classes
// (which must be static).
mare_err mare__runtime_start(const struct mare__platform *platform, const mare_options *options,
                             lua_CFunction (*module)(const char *name),
                             const struct mare__class *classes, mare_runtime **out);

// Waits until no process is left or, if `or_stuck`, until nothing can move any more
// (MARE_DEADLOCK), or somebody asked to exit, or none is left but those that were killed on threads
// of their own (MARE_STOPPED), or the deadline. Not for workers.
mare_err mare__runtime_await(mare_runtime *runtime, bool or_stuck, uint64_t deadline);

// Waits until something holds, which is looked at under the runtime's end_mutex, now and whenever
// mare__runtime_changed is called. False: the deadline has passed before. Not for workers.
bool mare__runtime_await_that(mare_runtime *runtime, bool (*holds)(void *argument), void *argument,
                              uint64_t deadline);

// Wakes those who wait there, so that they look again.
void mare__runtime_changed(mare_runtime *runtime);

// The first is for a thread that is counted in own_threads and has finished with the runtime, which
// may be gone when this returns. The second waits until no such thread is left.
void mare__runtime_left(mare_runtime *runtime);
void mare__runtime_await_threads(mare_runtime *runtime);

// Nothing can move (MARE_DEADLOCK): who waits, where and for what, a line each; to free, or NULL.
// Not after anybody was woken.
char *mare__stuck_text(mare_runtime *runtime);

// Reports a deadlock, with that text (or NULL), in the program's log or on standard error. `what`
// is what happened; NULL: processes wait, and were ended.
void mare__deadlock_report(mare_runtime *runtime, const char *what, const char *stuck);

// Goes through the live processes in the order in which they were launched. Between two of them it
// holds no lock, so others are launched and end meanwhile: it meets each that lives from its
// beginning to its end, and those launched meanwhile. It needs no memory. Any thread; what begins
// must end.
struct mare__visit {
    mare_runtime *runtime;
    struct mare__tour tour;
};
void mare__visit_begin(struct mare__visit *visit, mare_runtime *runtime);
void mare__visit_end(struct mare__visit *visit);

// The next process, with a reference that is the caller's; or NULL.
struct mare__local *mare__visit_next(struct mare__visit *visit);

// Kills every process, and those that they spawn meanwhile.
void mare__runtime_kill_all(mare_runtime *runtime, const char *reason);

// False in a process forked from the one that started the runtime.
bool mare__runtime_valid(const mare_runtime *runtime);
