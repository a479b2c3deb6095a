// SPDX-License-Identifier: MIT
// Open files and folders, and what threads of the pool do to files. A file has one owner at a time,
// a process; sent in a message it changes hands.
#pragma once

#include "loop/job.h"
#include "platform/file.h"

enum {
    MARE__FILE_CHUNK = 65536,  // bytes read at once, at the least
    MARE__FILE_ALL = 64 << 20, // bytes of a read of all, or so many, unless the program says more
};

// What the system knows as open, held by its file and by the jobs that use it; closed by a thread
// of the pool when the last lets go of it.
struct mare__descriptor {
    atomic_uint holders;
    struct mare__jobs *jobs;         // a reference
    const struct mare__files *files; // that opened it, with their context
    void *context;
    int fd;         // -1: a folder, or closed
    bool seekable;  // it has a place that can be changed; a pipe has none
    bool in_memory; // and nowhere else: to read it never waits for a disk
    struct mare__folder *folder;
};

// A job that has to do with files.
struct mare__file_job {
    struct mare__job job;
    const struct mare__files *files; // of the platform, with its context
    void *context;
    int (*act)(struct mare__file_job *job); // what `result` shall be; on a thread of the pool
    const char *path, *other;               // NULL: none
    struct mare__descriptor *descriptor;    // what it uses, held until it is over
    struct mare__descriptor *opened;        // what it opened, held until somebody takes it
    int64_t offset;
    unsigned how, permissions;
    bool flag, sync;
    size_t limit;
    size_t rewind; // bytes that were read ahead: they come first again
    char *bytes;   // to write, or what was found; allocated
    size_t size;
    int64_t number;
    struct mare__file_info info;
    int result;     // 0 or more, or an errno value, negated
    bool was_begun; // by its file; the owner alone looks at these
    bool is_orphan; // its caller did not wait for the end
};

// A job with copies of the paths (each may be NULL). NULL: not enough memory.
struct mare__file_job *mare__file_job_new(mare_runtime *runtime,
                                          int (*act)(struct mare__file_job *job), const char *path,
                                          const char *other);

// It is over, and its bytes are not wanted any more.
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
    struct mare__file_job *job;          // one at a time, under way or to be settled; a reference
    uint64_t timeout;                    // of each call, in nanoseconds; MARE_FOREVER: none
    uint64_t line_max;                   // bytes of a line, beyond which it is refused
    uint64_t all_max;                    // of all there is, and of so many that are asked for
    char *bytes;                         // what was read and not yet asked for
    size_t first, end;
    int64_t listed; // entries of a folder in `bytes`
    bool at_end;    // so the last read said
    int late;       // what went wrong when its caller had gone, an errno value
    char path[];
};

// Takes over the descriptor, in any case. NULL: not enough memory.
struct mare__file *mare__file_new(mare_runtime *runtime, struct mare__descriptor *descriptor,
                                  enum mare__kind kind, const char *path);

// Takes note of a job that is over.
void mare__file_settle(struct mare__file *file);

// Begins a job on the file, which has none. With `again`, what was read ahead is put back, for the
// place matters. False: no thread.
bool mare__file_begin(struct mare__file *file, struct mare__file_job *job, bool again);

// Whoever waits in another routine is told; the system's part is closed when nothing uses it.
void mare__file_shut(struct mare__file *file);

static inline size_t mare__file_buffered(const struct mare__file *file)
{
    return file->end - file->first;
}

// The first `size` bytes of the buffer were used.
void mare__file_used(struct mare__file *file, size_t size);
