// SPDX-License-Identifier: MIT
// Watches for signals of the operating system: each signal that comes is a message in a channel of
// the watch. A watch has one owner at a time, a process.
#pragma once

#include "loop/observer.h"
#include "sched/task.h"

struct mare__signals {
    struct mare__object object;
    struct mare__task task;         // held by the object, and by the descriptor until it is closed
    struct mare__observed observed; // its descriptor: readable when a signal has come
    mare_channel *come;             // messages with numbers; each stands there once at the most
    atomic_ullong queued;           // bits of those numbers
    atomic_bool closed;
    uint64_t timeout; // of each call, in nanoseconds; MARE_FOREVER: none
};

// Watches a set of signals (bit n: signal n). Returns 0 or an errno value, negated: -ENOSPC when
// there are too many watches.
int mare__signals_open(mare_runtime *runtime, uint64_t set, struct mare__signals **out);

// The number in a message that was taken from the channel. That signal may be put there again.
int mare__signals_taken(struct mare__signals *signals, mare_message *message);

// Stops watching: unless others watch them too, the signals do again what they did before. Those
// who wait get MARE_CLOSED. False: it was closed already.
bool mare__signals_close(struct mare__signals *signals);
