// SPDX-License-Identifier: MIT
// Watching a file, a folder, or a folder and all below it, for changes. A watcher is a source of
// events; threads of the pool walk through folders. It has one owner at a time, a process; a
// message that carries it changes the owner.
#pragma once

#include "loop/job.h"
#include "loop/observer.h"
#include "platform/watch.h"

// A job that begins to watch a path and, if wanted, the folders below it.
struct mare__walk {
    struct mare__job job;
    int fd;            // owned by the walk, until a watcher takes it; -1: none
    bool recursive;    // also watch the folders below
    bool tells;        // what it finds is new, and will be told
    size_t limit;      // the most folders
    size_t count;      // folders that it watches
    size_t found;      // entries that it will tell of
    bool is_overflown; // there was more than it may watch, or tell of
    char *records;     // what it watches and tells of: see watch.c; allocated
    size_t size, room;
    int result; // 0, or an errno value, negated
    char path[];
};

// NULL: not enough memory. With a watcher: the walk is for a folder that has come into it.
struct mare__watch;
struct mare__walk *mare__walk_new(mare_runtime *runtime, const char *path, bool recursive,
                                  size_t limit, const struct mare__watch *watch);

// What has happened: to `name` in the folder `base`, or to `base` itself if the name is empty. The
// strings are valid until the next call for the watcher.
struct mare__watch_told {
    const char *kind;
    const char *base, *name;
    const char *from_base, *from_name; // where it was before, or NULL
    bool folder;
};

// What a watcher watches: the path itself, or a folder below it.
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
    bool has_ended; // the watched path is gone: nothing more will come
    int root;       // the number of the watched path

    struct mare__index watched; // of struct mare__watched, by their numbers
    struct mare__list all;      // the same, as a list
    size_t count;

    char *bytes; // what was read and not yet told; allocated
    size_t at, end;
    struct mare__walk *walk; // under way, or over and not settled; a reference
    char *found;             // records of what it has to tell; allocated
    size_t found_at, found_end;
    bool is_overflown; // the overflow is still to be told
    char *old;         // the old name of the last rename; allocated
    char path[];
};

// Takes over what the walk has found. NULL: not enough memory.
struct mare__watch *mare__watch_new(mare_runtime *runtime, struct mare__walk *walk);

// The next change. 1: `*told` says it. 0: nothing yet; wait for the walk if there is one, else for
// the descriptor. -ENODATA: nothing more will come. Else another errno value, negated.
int mare__watch_next(struct mare__watch *watch, struct mare__watch_told *told);

static inline bool mare__watch_closed(const struct mare__watch *watch)
{
    // Relaxed: only its owner asks, and only its owner closes it while it lives.
    return atomic_load_explicit(&watch->observed.ends, memory_order_relaxed);
}

// Whether there may be something to tell without a wait.
static inline bool mare__watch_has_more(const struct mare__watch *watch)
{
    return watch->at < watch->end || watch->found_at < watch->found_end || watch->walk ||
           watch->is_overflown || watch->has_ended;
}
