// SPDX-License-Identifier: MIT
// Sources of kinds that programs define in C: the part of mare/events.h that the bindings need.
#pragma once

#include <mare/events.h>

#include "loop/observer.h"
#include "sched/task.h"

struct mare_source {
    struct mare__object object;
    struct mare__task task; // held by the object, and by what makes events until it finishes
    const mare_source_kind *kind;
    void *self;
    bool begun;                     // its functions may be called
    mare_channel *events;           // the line of its events
    atomic_uint outcome;            // mare_err: 0 while it lives, then how it ended
    struct mare__list in_all;       // the runtime's list, until it has ended or is closed
    mare_message event;             // the event that is being made, or that found no room
    struct mare__observed observed; // its descriptor, if it has one
    struct mare__list turn;         // its place in the ring of polled sources
};

// A source whose events are what can be read from a device file. 0, or an errno value.
int mare__device_source(mare_runtime *runtime, const char *path, mare_source **out);
