// SPDX-License-Identifier: MIT
// Where the lines of a log go: standard error, or a file that is put aside when it has grown.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mare__sink {
    char *path;     // NULL: standard error
    uint64_t limit; // bytes after which the file is put aside; 0: never
    unsigned keep;  // how many such files there may be: path.1 is the latest
    int fd;         // -1: not open
    bool is_file;   // and no device or pipe, which are never put aside
    uint64_t size;
    bool torn;      // its last line was not written to its end
    int stays;      // why the file could not be put aside, an errno value; 0: it could
    uint64_t again; // the size at which that is tried again; 0: it did not fail
};

// Writes a line, in one piece; may block. 0, or an errno value: then it is lost.
int mare__sink_write(struct mare__sink *sink, const char *line, size_t length);

// Closes the file and frees the path.
void mare__sink_close(struct mare__sink *sink);
