// SPDX-License-Identifier: MIT
// Files and folders, which a runtime takes from its platform. They may block for as long as a disk
// or a peer likes: for threads that may wait. Functions return 0, a count or a descriptor; failures
// are errno values, negated. The live ones are the system's own calls.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mare__folder; // what the files that opened it know

// How to open a file.
enum {
    MARE__FILE_READS = 1,
    MARE__FILE_WRITES = 2,
    MARE__FILE_CREATES = 4,
    MARE__FILE_EMPTIES = 8,
    MARE__FILE_APPENDS = 16,
    MARE__FILE_IS_NEW = 32, // it must not exist
    MARE__FILE_AT_ONCE = 64 // a pipe: do not wait for who is at its other end
};

enum mare__whence { MARE__FROM_START, MARE__FROM_HERE, MARE__FROM_END };

struct mare__file_info {
    const char *kind; // "file", "folder", "link", "pipe", "socket", "device"
    uint64_t size, inode, device, links;
    uint32_t permissions, owner, group;
    double read, written, changed; // seconds since 1970
};

struct mare__store {
    unsigned how; // as above: appends, or is new, or empties
    unsigned permissions;
    bool atomic; // whoever looks sees the old contents or the new: written beside it, then renamed
    bool sync;   // wait until they are on the disk
};

// Long operations call this now and then. If it returns false, they stop with -ECANCELED.
typedef bool mare__go_on(void *argument);

// The context is that of the platform.
struct mare__files {
    int (*open)(void *context, const char *path, unsigned how, unsigned permissions);

    // Opens a file for reading if all that this needs is in memory; may be NULL. -EAGAIN: it is
    // not, or that cannot be said, or this is no file. This one does not block.
    int (*open_near)(void *context, const char *path);

    int (*close)(void *context, int fd);
    ssize_t (*read)(void *context, int fd, void *bytes, size_t size); // 0: the end

    // All of them, or a failure: then some may have been written.
    int (*write)(void *context, int fd, const void *bytes, size_t size);

    // Whether it is in memory, and nowhere else.
    bool (*in_memory)(void *context, int fd);

    // How many bytes from the file's place on, at most so many, are in memory, as far as looks here
    // and there can tell, so that to read them does not wait for a disk. 0 also where the file
    // system cannot say. This one does not block.
    size_t (*near)(void *context, int fd, size_t size);

    int64_t (*seek)(void *context, int fd, int64_t offset, enum mare__whence whence);
    int (*truncate)(void *context, int fd, int64_t size);
    int (*sync)(void *context, int fd);

    // Takes the file for whoever has opened it, as long as it is open. -EWOULDBLOCK: it is
    // another's. May be NULL.
    int (*hold)(void *context, int fd);

    // Of the path (with `follow`, of what a link leads to), or of a descriptor if the path is NULL.
    int (*info)(void *context, const char *path, int fd, bool follow, struct mare__file_info *info);

    // Whole files. Everything in one, allocated; -EFBIG: it is longer than `limit`.
    int (*load)(void *context, const char *path, size_t limit, char **bytes, size_t *size);
    int (*store)(void *context, const char *path, const char *bytes, size_t size,
                 const struct mare__store *how);
    int (*copy)(void *context, const char *from, const char *to, bool is_new, mare__go_on *go_on,
                void *argument);

    // Names.
    int (*make_folder)(void *context, const char *path, unsigned permissions, bool parents);
    int (*remove)(void *context, const char *path, bool tree, mare__go_on *go_on, void *argument);
    int (*rename)(void *context, const char *from, const char *to);
    int (*link)(void *context, const char *target, const char *path); // symbolic
    int (*permit)(void *context, const char *path, unsigned permissions);

    // Allocated: of a symbolic link, and without any.
    int (*target)(void *context, const char *path, char **target);
    int (*real)(void *context, const char *path, char **real);

    // A new file (a descriptor) or folder with a name that begins so; the name is completed in
    // place: it ends with "XXXXXX".
    int (*temporary)(void *context, char *name, bool folder);

    // The entries of a folder. The next name but for "." and "..", and its kind as above, or
    // "unknown"; both valid until the next call. 1, or 0 at the end.
    int (*open_folder)(void *context, const char *path, struct mare__folder **folder);
    int (*next_entry)(void *context, struct mare__folder *folder, const char **name,
                      const char **kind);
    void (*close_folder)(void *context, struct mare__folder *folder);
};

extern const struct mare__files mare__files_live;
