// SPDX-License-Identifier: MIT
// Watching files by inotify.
#include "platform/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

int mare__watch_open(void)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int mare__watch_add(int fd, const char *path, bool folder)
{
    uint32_t mask = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM |
                    IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_EXCL_UNLINK;
    if (folder)
        mask |= IN_ONLYDIR | IN_DONT_FOLLOW;
    int number = inotify_add_watch(fd, path, mask);
    return number < 0 ? -errno : number;
}

void mare__watch_remove(int fd, int number)
{
    inotify_rm_watch(fd, number);
}

int mare__watch_share(int fd)
{
    int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return other < 0 ? -errno : other;
}

ssize_t mare__watch_read(int fd, char bytes[MARE__WATCH_ROOM])
{
    ssize_t got;
    do
        got = read(fd, bytes, MARE__WATCH_ROOM);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static enum mare__watch_kind kind_of(uint32_t mask)
{
    static const struct {
        uint32_t bit;
        enum mare__watch_kind kind;
    } kinds[] = {{IN_Q_OVERFLOW, MARE__WATCH_OVERFLOW}, {IN_IGNORED, MARE__WATCH_ENDED},
                 {IN_UNMOUNT, MARE__WATCH_REMOVED},     {IN_CREATE, MARE__WATCH_CREATED},
                 {IN_DELETE, MARE__WATCH_REMOVED},      {IN_DELETE_SELF, MARE__WATCH_REMOVED},
                 {IN_MOVED_FROM, MARE__WATCH_LEFT},     {IN_MOVE_SELF, MARE__WATCH_LEFT},
                 {IN_MOVED_TO, MARE__WATCH_CAME},       {IN_CLOSE_WRITE, MARE__WATCH_WRITTEN}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (mask & kinds[i].bit)
            return kinds[i].kind;
    return MARE__WATCH_CHANGED;
}

size_t mare__watch_event(const char *bytes, size_t at, struct mare__watch_event *event)
{
    struct inotify_event raw;
    memcpy(&raw, bytes + at, sizeof raw);
    *event = (struct mare__watch_event){.number = raw.wd,
                                        .kind = kind_of(raw.mask),
                                        .cookie = raw.cookie,
                                        .folder = raw.mask & IN_ISDIR,
                                        .self = raw.len == 0,
                                        .name = raw.len > 0 ? bytes + at + sizeof raw : ""};
    return at + sizeof raw + raw.len;
}
