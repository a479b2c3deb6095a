// SPDX-License-Identifier: MIT
// Sources of kinds that programs bring, written in C: what mare/events.h declares, for the
// bindings.
#pragma once

#include <mare/events.h>

#include "loop/observer.h"
#include "sched/task.h"

struct mare_source {
    struct mare__object object;
    struct mare__task task; // held by the object, and by who makes the events until they end
    const mare_source_kind *kind;
    void *self;
    bool begun;                     // its functions may be called
    mare_channel *events;           // the line
    atomic_uint outcome;            // mare_err: 0, or how it ended
    struct mare__list in_all;       // until it has ended, or is closed
    mare_message event;             // that is being made, or found no room
    struct mare__observed observed; // its descriptor, if it has one
    struct mare__list turn;         // in the ring of those that are polled
};

// A source of what a device file has to read. 0, or an errno value.
int mare__device_source(mare_runtime *runtime, const char *path, mare_source **out);
