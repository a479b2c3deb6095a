// SPDX-License-Identifier: MIT
// Watching a file, a folder, or a folder with all that are in it, for changes. A watcher is a
// source of events; folders are looked through by threads of the pool. It has one owner at a time,
// a process; sent in a message it changes hands.
#pragma once

#include "loop/job.h"
#include "loop/observer.h"
#include "platform/watch.h"

// A job that begins to watch a path, and the folders in it if that is wanted.
struct mare__walk {
    struct mare__job job;
    int fd;            // its own, until a watcher takes it; -1: none
    bool recursive;    // the folders in it too
    bool tells;        // what is found in it is new, and shall be told
    size_t limit;      // of folders
    size_t count;      // that it watches
    size_t found;      // that it tells of
    bool is_overflown; // there were more than it may watch, or tell of
    char *records;     // what it watches and tells of: see watch.c; allocated
    size_t size, room;
    int result; // 0, or an errno value, negated
    char path[];
};

// NULL: not enough memory. With a watcher, for a folder that has come into it.
struct mare__watch;
struct mare__walk *mare__walk_new(mare_runtime *runtime, const char *path, bool recursive,
                                  size_t limit, const struct mare__watch *watch);

// What has happened: to `name` in the folder `base`, or to `base` itself if the name is empty. The
// strings are valid until the watcher is used again.
struct mare__watch_told {
    const char *kind;
    const char *base, *name;
    const char *from_base, *from_name; // where it was before, or NULL
    bool folder;
};

// What it watches: the path itself, and folders in it.
struct mare__watched {
    struct mare__index_entry entry;
    struct mare__list in_all;
    int number;
    char *path; // allocated
};

struct mare__watch {
    struct mare__object object;
    atomic_uint holders; // the object, and the descriptor until it is closed
    mare_runtime *runtime;
    struct mare__observed observed;
    uint64_t timeout; // of each call, in nanoseconds; MARE_FOREVER: none
    uint16_t waiting; // routines that wait for the descriptor
    bool recursive;
    size_t limit;
    bool has_ended; // what is watched is gone: nothing more will come
    int root;       // its number

    struct mare__index watched; // of struct mare__watched, by their numbers
    struct mare__list all;      // of the same
    size_t count;

    char *bytes; // what was read and not yet told; allocated
    size_t at, end;
    struct mare__walk *walk; // under way, or to be settled; a reference
    char *found;             // records of what is to be told; allocated
    size_t found_at, found_end;
    bool is_overflown; // that is to be told
    char *old;         // the former path of the last that was renamed; allocated
    char path[];
};

// Takes over what the walk has found. NULL: not enough memory.
struct mare__watch *mare__watch_new(mare_runtime *runtime, struct mare__walk *walk);

// What is next: 1, and `*told` says it; or 0: wait for the walk if there is one, else for the
// descriptor; -ENODATA: nothing more will come; or another errno value, negated.
int mare__watch_next(struct mare__watch *watch, struct mare__watch_told *told);

static inline bool mare__watch_closed(const struct mare__watch *watch)
{
    // Relaxed: its owner asks, who alone closes it while it lives.
    return atomic_load_explicit(&watch->observed.ends, memory_order_relaxed);
}

// Whether something can be told without waiting, perhaps.
static inline bool mare__watch_has_more(const struct mare__watch *watch)
{
    return watch->at < watch->end || watch->found_at < watch->found_end || watch->walk ||
           watch->is_overflown || watch->has_ended;
}
