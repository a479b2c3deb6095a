// SPDX-License-Identifier: MIT
// Files and folders by the system's own calls, which may block for as long as a disk or a peer
// likes: for threads that may wait. Functions return 0, a count or a descriptor; failures are errno
// values, negated.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// How to open a file.
enum {
    MARE__FILE_READS = 1,
    MARE__FILE_WRITES = 2,
    MARE__FILE_CREATES = 4,
    MARE__FILE_EMPTIES = 8,
    MARE__FILE_APPENDS = 16,
    MARE__FILE_IS_NEW = 32 // it must not exist
};

int mare__file_open(const char *path, unsigned how, unsigned permissions);
int mare__file_close(int fd);

// Opens a file for reading if the system has all that it needs for that in memory. -EAGAIN: it has
// not, or it cannot say so, or this is no file. And whether a file still has a name: to close one
// that has none may take long. These do not block.
int mare__file_open_near(const char *path);
bool mare__file_is_linked(int fd);

ssize_t mare__file_read(int fd, void *bytes, size_t size); // 0: the end

// All of them, or a failure: then some may have been written.
int mare__file_write(int fd, const void *bytes, size_t size);

// Whether it is in memory, and nowhere else.
bool mare__file_in_memory(int fd);

// How many bytes from the file's place on, at most so many, are in memory, as far as looks here and
// there can tell, so that to read them does not wait for a disk. 0 also where the file system
// cannot say. This one does not block.
size_t mare__file_near(int fd, size_t size);

enum mare__whence { MARE__FROM_START, MARE__FROM_HERE, MARE__FROM_END };
int64_t mare__file_seek(int fd, int64_t offset, enum mare__whence whence);
int mare__file_truncate(int fd, int64_t size);
int mare__file_sync(int fd);

struct mare__file_info {
    const char *kind; // "file", "folder", "link", "pipe", "socket", "device"
    uint64_t size, inode, device, links;
    uint32_t permissions, owner, group;
    double read, written, changed; // seconds since 1970
};

// Of the path (with `follow`, of what a link leads to), or of a descriptor if the path is NULL.
int mare__file_info(const char *path, int fd, bool follow, struct mare__file_info *info);

// ---- Whole files --------------------------------------------------------------------------------
// Asked now and then by what may take long: false, and it stops with -ECANCELED.
typedef bool mare__go_on(void *argument);

// Everything in a file, allocated. -EFBIG: it is longer than `limit`.
int mare__file_load(const char *path, size_t limit, char **bytes, size_t *size);

struct mare__store {
    unsigned how; // as above: appends, or is new, or empties
    unsigned permissions;
    bool atomic; // whoever looks sees the old contents or the new: written beside it, then renamed
    bool sync;   // wait until they are on the disk
};
int mare__file_store(const char *path, const char *bytes, size_t size,
                     const struct mare__store *how);

int mare__file_copy(const char *from, const char *to, bool is_new, mare__go_on *go_on,
                    void *argument);

// ---- Names --------------------------------------------------------------------------------------
int mare__folder_make(const char *path, unsigned permissions, bool parents);
int mare__file_remove(const char *path, bool tree, mare__go_on *go_on, void *argument);
int mare__file_rename(const char *from, const char *to);
int mare__file_link(const char *target, const char *path); // symbolic
int mare__file_permit(const char *path, unsigned permissions);

// Allocated.
int mare__file_target(const char *path, char **target); // of a symbolic link
int mare__file_real(const char *path, char **real);

// A new file (a descriptor) or folder with a name that begins so; the name is completed in place:
// it ends with "XXXXXX".
int mare__file_temporary(char *name, bool folder);

// ---- Folders ------------------------------------------------------------------------------------
struct mare__folder;

int mare__folder_open(const char *path, struct mare__folder **folder);

// The next name but for "." and "..", and its kind as above, or "unknown"; both valid until the
// next call. 1, or 0 at the end.
int mare__folder_next(struct mare__folder *folder, const char **name, const char **kind);
void mare__folder_close(struct mare__folder *folder);
