// SPDX-License-Identifier: MIT
// Changes of files and folders, by inotify: a descriptor that becomes readable. Failures are errno
// values, negated.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// A descriptor that watches nothing yet. Never blocks.
int mare__watch_open(void);

// Watches a path: a number for it, the same for the same file. May block, because the system looks
// up the path. With `folder`, only a folder will do, and no link to one.
int mare__watch_add(int fd, const char *path, bool folder);

// Watches it no more. Never blocks.
void mare__watch_remove(int fd, int number);

// A descriptor for the same watches, for another thread.
int mare__watch_share(int fd);

enum mare__watch_kind {
    MARE__WATCH_CREATED,
    MARE__WATCH_CHANGED,
    MARE__WATCH_WRITTEN, // who wrote has closed it
    MARE__WATCH_REMOVED,
    MARE__WATCH_LEFT,    // it was given a name elsewhere; `cookie` is that of the other half
    MARE__WATCH_CAME,    // it has this name now, and had another
    MARE__WATCH_ENDED,   // nothing more will come from `number`
    MARE__WATCH_OVERFLOW // some were lost
};

struct mare__watch_event {
    int number;
    enum mare__watch_kind kind;
    unsigned cookie;
    bool folder;      // what it happened to is one
    bool self;        // it happened to what is watched, not to something in it
    const char *name; // in the folder, or ""
};

enum { MARE__WATCH_ROOM = 16384 }; // bytes that are read at once

// Reads what has happened; never blocks: -EAGAIN.
ssize_t mare__watch_read(int fd, char bytes[MARE__WATCH_ROOM]);

// The event at a place in such bytes; returns the place of the next.
size_t mare__watch_event(const char *bytes, size_t at, struct mare__watch_event *event);
