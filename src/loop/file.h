// SPDX-License-Identifier: MIT
// Open files and folders, and the work of the pool's threads on files. A file has one owner at a
// time, a process; a message that carries it changes the owner.
#pragma once

#include "loop/job.h"
#include "platform/file.h"

enum {
    MARE__FILE_CHUNK = 65536,  // the least number of bytes to read at once
    MARE__FILE_ALL = 64 << 20, // the most bytes in one read, unless the program says more
};

// What the system has open. Its file and the jobs that use it hold it; when the last lets go, a
// thread of the pool closes it.
struct mare__descriptor {
    atomic_uint holders;
    struct mare__jobs *jobs;         // a reference
    const struct mare__files *files; // the functions that opened it, with their context
    void *context;
    int fd;         // -1: a folder, or closed
    bool seekable;  // its place can be changed, unlike that of a pipe
    bool in_memory; // it is only in memory: a read never waits for a disk
    bool near;      // opened for reading without a job, and so closed
    struct mare__folder *folder;
};

// Opens a file that can be opened for reading without waiting, and tells what is known of it. NULL:
// this one cannot, or does not exist. Does not block.
struct mare__descriptor *mare__descriptor_near(mare_runtime *runtime, const char *path,
                                               struct mare__file_info *info);

// The caller has stopped using it. Does not block.
void mare__descriptor_drop(struct mare__descriptor *descriptor);

// A job about files.
struct mare__file_job {
    struct mare__job job;
    const struct mare__files *files; // of the platform, with its context
    void *context;
    int (*act)(struct mare__file_job *job); // the work, on a thread of the pool; returns the
                                            // `result`
    const char *path, *other;               // NULL: none
    struct mare__descriptor *descriptor;    // what it uses, held until the job is over
    struct mare__descriptor *opened;        // what it opened, held until somebody takes it
    int64_t offset;
    unsigned how, permissions;
    bool flag, sync;
    size_t limit;
    size_t rewind; // bytes that were read ahead: go back over them first
    char *bytes;   // what to write, or what was found; allocated
    size_t size;
    int64_t number;
    struct mare__file_info info;
    int result;     // 0 or more, or an errno value, negated
    bool was_begun; // the file has begun it. Only the file's owner uses these
    bool is_orphan; // its caller left before the end
};

// A job with copies of the paths (each may be NULL). NULL: not enough memory.
struct mare__file_job *mare__file_job_new(mare_runtime *runtime,
                                          int (*act)(struct mare__file_job *job), const char *path,
                                          const char *other);

// The job is over, and its bytes are not needed any more: frees them.
void mare__file_job_empty(struct mare__file_job *job);

// ---- What they do: the fields that matter are said ----------------------------------------------
int mare__act_open(struct mare__file_job *job);      // path, how, permissions; opened
int mare__act_load(struct mare__file_job *job);      // path, limit; bytes, size
int mare__act_store(struct mare__file_job *job);     // path, bytes, size, how, permissions,
                                                     // flag: atomic, sync
int mare__act_copy(struct mare__file_job *job);      // path, other, flag: is new
int mare__act_mkdir(struct mare__file_job *job);     // path, permissions, flag: parents
int mare__act_remove(struct mare__file_job *job);    // path, flag: with all that is in it
int mare__act_rename(struct mare__file_job *job);    // path, other
int mare__act_link(struct mare__file_job *job);      // path, other: the target
int mare__act_chmod(struct mare__file_job *job);     // path, permissions
int mare__act_target(struct mare__file_job *job);    // path; bytes, size
int mare__act_real(struct mare__file_job *job);      // path; bytes, size
int mare__act_temporary(struct mare__file_job *job); // path, flag: a folder; bytes, size: its name
int mare__act_info(struct mare__file_job *job);      // path, flag: follow; info
int mare__act_scan(struct mare__file_job *job);      // path; opened
int mare__act_find(struct mare__file_job *job); // path; bytes, size: without links; info; if it
                                                // is a file, opened, or number: why not

// With a descriptor.
int mare__act_read(struct mare__file_job *job);     // limit; bytes, size
int mare__act_write(struct mare__file_job *job);    // bytes, size
int mare__act_seek(struct mare__file_job *job);     // offset, how: whence; number
int mare__act_truncate(struct mare__file_job *job); // offset, -1: here
int mare__act_hold(struct mare__file_job *job);     // number: 0 if it is another's
int mare__act_sync(struct mare__file_job *job);
int mare__act_info_of(struct mare__file_job *job); // info
int mare__act_close(struct mare__file_job *job);
int mare__act_list(struct mare__file_job *job); // limit: entries; bytes, size: kind, '\0', name,
                                                // '\0' of each; number: how many

// ---- Open files ---------------------------------------------------------------------------------
struct mare__file {
    struct mare__object object;
    mare_runtime *runtime;
    struct mare__descriptor *descriptor; // NULL: closed
    struct mare__file_job *job;          // one at a time, running or to be settled; a reference
    uint64_t timeout;                    // of each call, in nanoseconds; MARE_FOREVER: none
    uint64_t line_max;                   // bytes of a line, beyond which it is refused
    uint64_t all_max;                    // the most bytes in a read of all, or of a number
    char *bytes;                         // what was read and not yet asked for
    size_t first, end;
    int64_t listed; // entries of a folder in `bytes`
    bool at_end;    // the last read found the end of the file
    int late;       // the errno value of a job that failed after its caller left
    char path[];
};

// Takes over the descriptor, even on failure. NULL: not enough memory.
struct mare__file *mare__file_new(mare_runtime *runtime, struct mare__descriptor *descriptor,
                                  enum mare__kind kind, const char *path);

// Takes in the results of the file's job, if it is over.
void mare__file_settle(struct mare__file *file);

// Begins a job on the file, which has none. `again`: the place in the file matters, so what was
// read ahead is put back first. False: no thread.
bool mare__file_begin(struct mare__file *file, struct mare__file_job *job, bool again);

// Closes the file. Routines that wait for it are told. The descriptor is closed when no job uses it
// any more.
void mare__file_shut(struct mare__file *file);

static inline size_t mare__file_buffered(const struct mare__file *file)
{
    return file->end - file->first;
}

// The first `size` bytes of the buffer were used.
void mare__file_used(struct mare__file *file, size_t size);
