// SPDX-License-Identifier: MIT
// Files and folders on Linux.
#include "platform/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/platform.h"

enum { CHUNK = 1 << 18, DEPTH_MAX = 256 };

static int outcome(int result)
{
    return result < 0 ? -errno : result;
}

// ---- Descriptors --------------------------------------------------------------------------------

static int live_open(void *context, const char *path, unsigned how, unsigned permissions)
{
    (void)context;
    int flags = O_CLOEXEC | O_NOCTTY;
    if (how & MARE__FILE_WRITES)
        flags |= how & MARE__FILE_READS ? O_RDWR : O_WRONLY;
    flags |= how & MARE__FILE_CREATES ? O_CREAT : 0;
    flags |= how & MARE__FILE_EMPTIES ? O_TRUNC : 0;
    flags |= how & MARE__FILE_APPENDS ? O_APPEND : 0;
    flags |= how & MARE__FILE_IS_NEW ? O_CREAT | O_EXCL : 0;
    flags |= how & MARE__FILE_AT_ONCE ? O_NONBLOCK : 0;
    return outcome(open(path, flags, (mode_t)permissions));
}

static int open_cached(const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC, .resolve = RESOLVE_CACHED};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static int live_open_near(void *context, const char *path)
{
    (void)context;
    struct stat facts;
    int fd = open_cached(path, O_PATH); // to open what is no file may have effects
    if (fd < 0)
        return -EAGAIN;
    bool is_file = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    close(fd);
    fd = is_file ? open_cached(path, O_RDONLY | O_NOCTTY | O_NONBLOCK) : -1;
    return fd < 0 ? -EAGAIN : fd;
}

static int live_close(void *context, int fd)
{
    (void)context;
    int err = outcome(close(fd));
    return err == -EINTR ? 0 : err; // on Linux it is closed all the same
}

static ssize_t live_read(void *context, int fd, void *bytes, size_t size)
{
    (void)context;
    ssize_t got;
    do
        got = read(fd, bytes, size);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static int live_write(void *context, int fd, const void *bytes, size_t size)
{
    (void)context;
    const char *at = bytes;
    while (size > 0) {
        ssize_t wrote = write(fd, at, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -errno;
        at += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

static bool live_in_memory(void *context, int fd)
{
    (void)context;
    struct statfs system;
    return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

static size_t live_near(void *context, int fd, size_t size)
{
    (void)context;
    enum { STEP = 128 << 10 }; // what the system reads ahead of a reader
    int64_t place = lseek(fd, 0, SEEK_CUR);
    if (place < 0)
        return 0;
    for (size_t near = 0; near < size; near += STEP) {
        char byte;
        struct iovec piece = {&byte, 1};
        ssize_t got = preadv2(fd, &piece, 1, (off_t)(place + (int64_t)near), RWF_NOWAIT);
        if (got <= 0)
            return near;
    }
    return size;
}

static int64_t live_seek(void *context, int fd, int64_t offset, enum mare__whence whence)
{
    (void)context;
    static const int numbers[] = {SEEK_SET, SEEK_CUR, SEEK_END};
    off_t at = lseek(fd, offset, numbers[whence]);
    return at < 0 ? -errno : at;
}

static int live_truncate(void *context, int fd, int64_t size)
{
    (void)context;
    return outcome(ftruncate(fd, size));
}

static int live_sync(void *context, int fd)
{
    (void)context;
    return outcome(fsync(fd));
}

static int live_hold(void *context, int fd)
{
    (void)context;
    return outcome(flock(fd, LOCK_EX | LOCK_NB));
}

// ---- What is known of a file --------------------------------------------------------------------

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "file";
    case S_IFDIR:
        return "folder";
    case S_IFLNK:
        return "link";
    case S_IFIFO:
        return "pipe";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

static double seconds(struct timespec t)
{
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int live_info(void *context, const char *path, int fd, bool follow,
                     struct mare__file_info *info)
{
    (void)context;
    struct stat s;
    int err = outcome(!path ? fstat(fd, &s) : follow ? stat(path, &s) : lstat(path, &s));
    if (err)
        return err;
    *info = (struct mare__file_info){.kind = kind_of(s.st_mode),
                                     .size = (uint64_t)s.st_size,
                                     .inode = s.st_ino,
                                     .device = s.st_dev,
                                     .links = s.st_nlink,
                                     .permissions = s.st_mode & 07777,
                                     .owner = s.st_uid,
                                     .group = s.st_gid,
                                     .read = seconds(s.st_atim),
                                     .written = seconds(s.st_mtim),
                                     .changed = seconds(s.st_ctim)};
    return 0;
}

// ---- Whole files --------------------------------------------------------------------------------

// Reads to the end into `*bytes`. The size that the system reports is only a first guess: it is 0
// for files in /proc, and a file may grow.
static int load_rest(int fd, size_t limit, char **bytes, size_t *size)
{
    struct mare__file_info info = {.size = 0};
    size_t room = 0;
    int err = live_info(NULL, NULL, fd, true, &info);
    *size = 0;
    for (size_t want = info.size; !err; want = room * 2) {
        if (want == 0 || (room > 0 && want < CHUNK))
            want = CHUNK;
        room = want < limit ? want : limit;
        char *more = mare__realloc(*bytes, room + 1); // and one, to see the end, or that it is
        if (!more)                                    // beyond the limit
            return -ENOMEM;
        *bytes = more;
        while (*size <= room) {
            ssize_t got = live_read(NULL, fd, *bytes + *size, room + 1 - *size);
            if (got <= 0)
                return (int)got;
            *size += (size_t)got;
        }
        err = *size > limit ? -EFBIG : 0;
    }
    return err;
}

static int live_load(void *context, const char *path, size_t limit, char **bytes, size_t *size)
{
    (void)context;
    int fd = live_open(NULL, path, MARE__FILE_READS, 0);
    *bytes = NULL;
    if (fd < 0)
        return fd;
    int err = load_rest(fd, limit, bytes, size);
    live_close(NULL, fd);
    if (err) {
        mare__free(*bytes);
        *bytes = NULL;
    }
    return err;
}

static int write_and_close(int fd, const char *bytes, size_t size, bool sync)
{
    int err = live_write(NULL, fd, bytes, size);
    if (!err && sync)
        err = live_sync(NULL, fd);
    int closed = live_close(NULL, fd);
    return err ? err : closed;
}

// Forces changes of names in the folder of a path to the disk.
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    int fd = live_open(NULL, folder, MARE__FILE_READS, 0);
    if (fd < 0)
        return fd;
    int err = live_sync(NULL, fd);
    live_close(NULL, fd);
    return err == -EINVAL ? 0 : err; // a file system that has no such thing
}

// Makes a new file next to the path, so that it is in the same file system, with the permissions of
// the old one if there is one.
static int open_beside(const char *path, unsigned permissions, char name[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    struct stat old;
    int fd, length;
    bool exists = stat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) // a device would become a file
        return S_ISDIR(old.st_mode) ? -EISDIR : -EINVAL;
    do {
        uint64_t chance = mare__platform_live.random(NULL);
        length = snprintf(name, PATH_MAX, "%.*s.mare-%016llx", slash ? (int)(slash - path + 1) : 0,
                          path, (unsigned long long)chance);
        if (length >= PATH_MAX)
            return -ENAMETOOLONG;
        fd = live_open(NULL, name, MARE__FILE_WRITES | MARE__FILE_IS_NEW, permissions);
    } while (fd == -EEXIST);
    if (fd >= 0 && exists && fchmod(fd, old.st_mode & 07777) != 0) {
        int err = -errno;
        live_close(NULL, fd);
        unlink(name);
        return err;
    }
    return fd;
}

static int replace(const char *path, const char *bytes, size_t size, const struct mare__store *how)
{
    char name[PATH_MAX], real[PATH_MAX];
    if (realpath(path, real)) // what a link leads to, not the link, is replaced
        path = real;
    int fd = open_beside(path, how->permissions, name);
    if (fd < 0)
        return fd;
    int err = write_and_close(fd, bytes, size, true);
    unsigned only = how->how & MARE__FILE_IS_NEW ? RENAME_NOREPLACE : 0;
    if (!err)
        err = outcome(renameat2(AT_FDCWD, name, AT_FDCWD, path, only));
    if (err) {
        unlink(name);
        return err;
    }
    return sync_folder(path);
}

static int live_store(void *context, const char *path, const char *bytes, size_t size,
                      const struct mare__store *how)
{
    (void)context;
    if (how->atomic)
        return replace(path, bytes, size, how);
    int fd =
        live_open(NULL, path, how->how | MARE__FILE_WRITES | MARE__FILE_CREATES, how->permissions);
    return fd < 0 ? fd : write_and_close(fd, bytes, size, how->sync);
}

static int copy_bytes(int from, int to, mare__go_on *go_on, void *argument)
{
    char *chunk = mare__alloc(CHUNK);
    ssize_t got;
    int err = chunk ? 0 : -ENOMEM;
    while (!err && (got = live_read(NULL, from, chunk, CHUNK)) != 0) {
        err = got < 0 ? (int)got : live_write(NULL, to, chunk, (size_t)got);
        if (!err && !go_on(argument))
            err = -ECANCELED;
    }
    mare__free(chunk);
    return err;
}

// The target is emptied only after a check that it is not the source itself.
static int open_copy(const char *path, const struct stat *from, bool is_new, bool *made)
{
    struct stat to;
    unsigned permissions = from->st_mode & 07777;
    int fd = live_open(NULL, path, MARE__FILE_WRITES | MARE__FILE_IS_NEW, permissions);
    *made = fd >= 0;
    if (fd != -EEXIST || is_new)
        return fd;
    fd = live_open(NULL, path, MARE__FILE_WRITES, 0);
    if (fd < 0)
        return fd;
    int err = outcome(fstat(fd, &to));
    if (!err && to.st_dev == from->st_dev && to.st_ino == from->st_ino)
        err = -EEXIST;
    if (!err && S_ISREG(to.st_mode))
        err = live_truncate(NULL, fd, 0);
    if (err)
        live_close(NULL, fd);
    return err ? err : fd;
}

static int live_copy(void *context, const char *from, const char *to, bool is_new,
                     mare__go_on *go_on, void *argument)
{
    (void)context;
    struct stat s;
    bool made = false;
    int in = live_open(NULL, from, MARE__FILE_READS, 0);
    if (in < 0)
        return in;
    int err = outcome(fstat(in, &s));
    if (!err && S_ISDIR(s.st_mode))
        err = -EISDIR;
    int out = err ? err : open_copy(to, &s, is_new, &made);
    if (out >= 0) {
        err = copy_bytes(in, out, go_on, argument);
        int closed = live_close(NULL, out);
        err = err ? err : closed;
    } else {
        err = out;
    }
    live_close(NULL, in);
    if (err && made)
        unlink(to); // nothing is better than half of it
    return err;
}

// ---- Names --------------------------------------------------------------------------------------

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static int live_make_folder(void *context, const char *path, unsigned permissions, bool parents)
{
    (void)context;
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part)
        return -ENAMETOOLONG;
    memcpy(part, path, length + 1);
    for (size_t i = 1; parents && i < length; i++)
        if (part[i] == '/' && part[i - 1] != '/') {
            part[i] = '\0';
            if (mkdir(part, (mode_t)permissions) != 0 && errno != EEXIST)
                return -errno;
            part[i] = '/';
        }
    int err = outcome(mkdir(path, (mode_t)permissions));
    return err == -EEXIST && parents && is_folder(path) ? 0 : err;
}

static int remove_in(int parent, const char *name, int depth, mare__go_on *go_on, void *argument)
{
    if (unlinkat(parent, name, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth == DEPTH_MAX)
        return -ELOOP;
    int err = 0, fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    for (struct dirent *entry; !err && (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            err = go_on(argument)
                      ? remove_in(dirfd(folder), entry->d_name, depth + 1, go_on, argument)
                      : -ECANCELED;
    closedir(folder);
    return err ? err : outcome(unlinkat(parent, name, AT_REMOVEDIR));
}

static int live_remove(void *context, const char *path, bool tree, mare__go_on *go_on,
                       void *argument)
{
    (void)context;
    return tree ? remove_in(AT_FDCWD, path, 0, go_on, argument) : outcome(remove(path));
}

static int live_rename(void *context, const char *from, const char *to)
{
    (void)context;
    return outcome(rename(from, to));
}

static int live_link(void *context, const char *target, const char *path)
{
    (void)context;
    return outcome(symlink(target, path));
}

static int live_permit(void *context, const char *path, unsigned permissions)
{
    (void)context;
    return outcome(chmod(path, (mode_t)permissions));
}

static int keep(const char *text, char **out)
{
    *out = mare__alloc(strlen(text) + 1);
    if (!*out)
        return -ENOMEM;
    strcpy(*out, text);
    return 0;
}

static int live_target(void *context, const char *path, char **target)
{
    (void)context;
    char text[PATH_MAX];
    ssize_t length = readlink(path, text, sizeof text - 1);
    if (length < 0)
        return -errno;
    text[length] = '\0';
    return keep(text, target);
}

static int live_real(void *context, const char *path, char **real)
{
    (void)context;
    char text[PATH_MAX];
    return realpath(path, text) ? keep(text, real) : -errno;
}

static int live_temporary(void *context, char *name, bool folder)
{
    (void)context;
    if (folder)
        return mkdtemp(name) ? 0 : -errno;
    return outcome(mkostemp(name, O_CLOEXEC));
}

// ---- Folders ------------------------------------------------------------------------------------

struct mare__folder {
    DIR *stream;
};

static int live_open_folder(void *context, const char *path, struct mare__folder **folder)
{
    (void)context;
    DIR *stream = opendir(path);
    if (!stream)
        return -errno;
    *folder = mare__alloc(sizeof **folder);
    if (!*folder) {
        closedir(stream);
        return -ENOMEM;
    }
    (*folder)->stream = stream;
    return 0;
}

// The kind of an entry: as the folder tells it, or else by a stat.
static const char *kind_of_entry(DIR *stream, const struct dirent *entry)
{
    struct stat s;
    if (entry->d_type != DT_UNKNOWN)
        return kind_of(DTTOIF(entry->d_type));
    return fstatat(dirfd(stream), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 ? kind_of(s.st_mode)
                                                                               : "unknown";
}

static int live_next_entry(void *context, struct mare__folder *folder, const char **name,
                           const char **kind)
{
    (void)context;
    struct dirent *entry;
    do {
        errno = 0;
        entry = readdir(folder->stream);
        if (!entry)
            return -errno;
    } while (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    *name = entry->d_name;
    *kind = kind_of_entry(folder->stream, entry);
    return 1;
}

static void live_close_folder(void *context, struct mare__folder *folder)
{
    (void)context;
    closedir(folder->stream);
    mare__free(folder);
}

// ---- All of it ----------------------------------------------------------------------------------

const struct mare__files mare__files_live = {
    .open = live_open,
    .open_near = live_open_near,
    .close = live_close,
    .read = live_read,
    .write = live_write,
    .in_memory = live_in_memory,
    .near = live_near,
    .seek = live_seek,
    .truncate = live_truncate,
    .hold = live_hold,
    .sync = live_sync,
    .info = live_info,
    .load = live_load,
    .store = live_store,
    .copy = live_copy,
    .make_folder = live_make_folder,
    .remove = live_remove,
    .rename = live_rename,
    .link = live_link,
    .permit = live_permit,
    .target = live_target,
    .real = live_real,
    .temporary = live_temporary,
    .open_folder = live_open_folder,
    .next_entry = live_next_entry,
    .close_folder = live_close_folder,
};
