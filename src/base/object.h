// SPDX-License-Identifier: MIT
// Objects with a reference count, to which Lua values and messages refer: a count, a kind, and a
// function that frees them.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/account.h"

enum mare__kind {
    MARE__KIND_CHANNEL = 1,
    MARE__KIND_PROCESS,
    MARE__KIND_BUFFER,
    MARE__KIND_STREAM,
    MARE__KIND_LISTENER,
    MARE__KIND_UDP,
    MARE__KIND_FILE,
    MARE__KIND_FOLDER,
    MARE__KIND_WATCH,
    MARE__KIND_TIMER,
    MARE__KIND_CHILD,
    MARE__KIND_SIGNALS,
    MARE__KIND_TLS,     // a context, shared by all who have it
    MARE__KIND_SECRET,  // shared too
    MARE__KIND_SOURCE,  // of a kind written in C; shared too
    MARE__KIND_SESSION, // with another node; shared too
    MARE__KIND_REQUEST, // a job; nothing that a program sees
    MARE__KIND_CODE,
    MARE__KIND_INTERNAL // never in a message
};

// Whether objects of this kind have one owner at a time: when sent, they move to the receiver.
static inline bool mare__kind_is_owned(uint8_t kind)
{
    return kind >= MARE__KIND_BUFFER && kind < MARE__KIND_TLS;
}

struct mare__object {
    atomic_uint references;
    uint8_t kind;      // enum mare__kind
    atomic_bool taken; // what has one owner at a time has one, and is not in a message
    uint16_t waiters;  // routines of the owner that wait for it: it cannot change hands meanwhile
    // The process that made it, and where that one finds its userdata (see sched/handle.c). Written
    // once, before anybody else can see the object.
    int home_index;
    uint32_t weight;               // its own bytes, for the collectors of those who refer to it
    struct mare__account *account; // who pays for its weight: a reference; or NULL
    union {
        uint64_t home;
        struct mare__object *next; // once nobody refers to it: of those that end on this thread
    };
    // Frees it. On the thread that gave the last reference back, and never inside another object's
    // destroy.
    void (*destroy)(struct mare__object *object);
};

static inline void mare__object_init(struct mare__object *object, enum mare__kind kind,
                                     void (*destroy)(struct mare__object *))
{
    atomic_init(&object->references, 1);
    object->kind = (uint8_t)kind;
    atomic_init(&object->taken, true);
    object->waiters = 0;
    object->home_index = 0;
    object->weight = 0;
    object->home = 0;
    object->account = NULL;
    object->destroy = destroy;
}

static inline void *mare__ref(struct mare__object *object)
{
    // Relaxed: the caller holds a reference already, so the object cannot end meanwhile.
    atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
    return object;
}

// Nobody refers to it any more: destroys it, or leaves that to the call under which this one runs.
void mare__object_end(struct mare__object *object);

// No lock may be held that a destroy takes.
static inline void mare__unref(struct mare__object *object)
{
    // Release what was done to the object; the last one acquires it all before it destroys.
    if (atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) == 1)
        mare__object_end(object);
}

// Adds to the weight of an object. Only its owner, or the code that has just made it, may call
// this.
void mare__object_gains(struct mare__object *object, size_t bytes);

// Another pays for it from now on, or, with NULL, nobody; by its owner. False: that account has not
// so many left, and nothing has changed.
bool mare__object_charge(struct mare__object *object, struct mare__account *account);
