// SPDX-License-Identifier: MIT
// The files of a log. Nothing here is fatal: a disk that is full today may have room tomorrow, so a
// file that cannot be opened is tried again with the next line, and a line that was cut off is
// ended before the next one. A file that cannot be put aside (its folder may be somebody else's)
// grows on. That is tried again only when it has grown by its limit once more.
#include "platform/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

// Whether a file ends in the middle of a line: an earlier run, or an earlier write, was cut off.
static bool is_torn(const struct mare__sink *sink)
{
    char last = '\n';
    int fd = sink->size > 0 ? open(sink->path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        if (pread(fd, &last, 1, (off_t)sink->size - 1) != 1)
            last = '\n';
        close(fd);
    }
    return last != '\n';
}

static int open_file(struct mare__sink *sink)
{
    struct stat stat;
    if (!sink->path)
        sink->fd = STDERR_FILENO;
    if (sink->fd >= 0)
        return 0;
    sink->fd = open(sink->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (sink->fd < 0)
        return errno;
    bool known = fstat(sink->fd, &stat) == 0;
    sink->size = known ? (uint64_t)stat.st_size : 0;
    sink->is_file = known && S_ISREG(stat.st_mode);
    sink->torn = is_torn(sink);
    return 0;
}

// path.1 becomes path.2 and so on, the last one goes, and the file becomes path.1. Returns 0, or an
// errno value: then the file is still open.
static int put_aside(struct mare__sink *sink)
{
    size_t room = strlen(sink->path) + 16;
    char *from = mare__alloc(room), *to = mare__alloc(room);
    int err = 0;
    if (!from || !to) {
        err = ENOMEM;
    } else if (sink->keep == 0) {
        err = unlink(sink->path) < 0 ? errno : 0;
    } else {
        for (unsigned i = sink->keep - 1; i > 0; i--) {
            snprintf(from, room, "%s.%u", sink->path, i);
            snprintf(to, room, "%s.%u", sink->path, i + 1);
            rename(from, to); // there may be none yet
        }
        snprintf(to, room, "%s.1", sink->path);
        err = rename(sink->path, to) < 0 ? errno : 0;
    }
    mare__free(from);
    mare__free(to);
    if (err && err != ENOENT) // ENOENT: somebody else has moved it
        return err;
    close(sink->fd);
    sink->fd = -1;
    return 0;
}

static bool is_full(const struct mare__sink *sink, size_t length)
{
    uint64_t limit = sink->again ? sink->again : sink->limit;
    return sink->is_file && limit && sink->size > 0 && sink->size + length > limit;
}

static int write_all(struct mare__sink *sink, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(sink->fd, bytes, length);
        if (written < 0 && errno == EAGAIN) { // somebody has made standard error so
            struct pollfd ready = {.fd = sink->fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (written < 0 && errno != EINTR) {
            return errno;
        } else if (written > 0) {
            bytes += written;
            length -= (size_t)written;
            sink->size += (uint64_t)written;
            sink->torn = length > 0;
        }
    }
    return 0;
}

int mare__sink_write(struct mare__sink *sink, const char *line, size_t length)
{
    int err = open_file(sink);
    if (!err && is_full(sink, length)) {
        sink->stays = put_aside(sink);
        sink->again = sink->stays ? sink->size + sink->limit : 0;
        err = open_file(sink);
    }
    if (!err && sink->torn)
        err = write_all(sink, "\n", 1);
    return err ? err : write_all(sink, line, length);
}

void mare__sink_close(struct mare__sink *sink)
{
    if (sink->path && sink->fd >= 0)
        close(sink->fd);
    mare__free(sink->path);
    *sink = (struct mare__sink){.fd = -1};
}
