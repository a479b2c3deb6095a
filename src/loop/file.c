// SPDX-License-Identifier: MIT
// Open files. Each has one job at a time. A read fills the file's buffer even if nobody waits for
// it any more. So a read whose caller has gone is not lost: the next one finds its bytes.
//
//     begin ──▶ file->job ──▶ (over) ──▶ settle: buffer, end of file, late failure ──▶ none
#include "loop/file.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/runtime.h"

// ---- Descriptors --------------------------------------------------------------------------------

static void close_descriptor(void *argument)
{
    struct mare__descriptor *descriptor = argument;
    if (descriptor->fd >= 0)
        descriptor->files->close(descriptor->context, descriptor->fd);
    if (descriptor->folder)
        descriptor->files->close_folder(descriptor->context, descriptor->folder);
    mare__jobs_unref(descriptor->jobs);
    mare__free(descriptor);
}

static struct mare__descriptor *hold(struct mare__descriptor *descriptor)
{
    // Relaxed: the caller is a holder already.
    atomic_fetch_add_explicit(&descriptor->holders, 1, memory_order_relaxed);
    return descriptor;
}

// Whether a close cannot block. It can block if this is the last use of a file without a name: the
// system then frees its blocks.
static bool closes_at_once(const struct mare__descriptor *descriptor)
{
    struct mare__file_info info;
    return descriptor->near &&
           descriptor->files->info(descriptor->context, NULL, descriptor->fd, true, &info) == 0 &&
           info.links > 0;
}

// Closing may block, and this may be a worker.
static void let_go(struct mare__descriptor *descriptor)
{
    // Acquire and release, as in mare__unref.
    if (atomic_fetch_sub_explicit(&descriptor->holders, 1, memory_order_acq_rel) > 1)
        return;
    bool closed = descriptor->fd < 0 && !descriptor->folder;
    if (closed || closes_at_once(descriptor))
        close_descriptor(descriptor);
    else
        mare__jobs_post(descriptor->jobs, MARE__LANE_FILES, close_descriptor, descriptor);
}

// Takes over what was opened, even on failure. NULL: not enough memory.
static struct mare__descriptor *new_descriptor(struct mare__jobs *jobs, int fd,
                                               struct mare__folder *folder)
{
    const struct mare__platform *platform = mare__jobs_platform(jobs);
    struct mare__descriptor *descriptor = mare__alloc_zero(sizeof *descriptor);
    if (!descriptor) {
        if (fd >= 0)
            platform->files->close(platform->context, fd);
        if (folder)
            platform->files->close_folder(platform->context, folder);
        return NULL;
    }
    atomic_init(&descriptor->holders, 1);
    descriptor->jobs = mare__jobs_ref(jobs);
    descriptor->files = platform->files;
    descriptor->context = platform->context;
    descriptor->fd = fd;
    descriptor->in_memory = fd >= 0 && platform->files->in_memory(platform->context, fd);
    descriptor->folder = folder;
    return descriptor;
}

// Keeps what a job has opened.
static int keep(struct mare__file_job *job, int fd, struct mare__folder *folder)
{
    job->opened = new_descriptor(job->job.jobs, fd, folder);
    if (!job->opened)
        return -ENOMEM;
    job->opened->seekable = fd >= 0 && job->files->seek(job->context, fd, 0, MARE__FROM_HERE) >= 0;
    return 0;
}

struct mare__descriptor *mare__descriptor_near(mare_runtime *runtime, const char *path,
                                               struct mare__file_info *info)
{
    struct mare__jobs *jobs = mare__jobs_of(runtime);
    const struct mare__files *files = runtime->platform.files;
    void *context = runtime->platform.context;
    int fd = jobs && files->open_near ? files->open_near(context, path) : -EAGAIN;
    if (fd < 0)
        return NULL;
    if (files->info(context, NULL, fd, true, info) < 0) {
        files->close(context, fd);
        return NULL;
    }
    struct mare__descriptor *descriptor = new_descriptor(jobs, fd, NULL);
    if (descriptor)
        descriptor->near = descriptor->seekable = true; // true: only a regular file comes here
    return descriptor;
}

void mare__descriptor_drop(struct mare__descriptor *descriptor)
{
    let_go(descriptor);
}

// ---- Jobs ---------------------------------------------------------------------------------------

// The job itself may stay until the collector comes. The file must be closed now.
static void drop(struct mare__job *job)
{
    struct mare__file_job *file_job = (struct mare__file_job *)job;
    if (file_job->descriptor)
        let_go(file_job->descriptor);
    file_job->descriptor = NULL;
}

static void run(struct mare__job *job)
{
    struct mare__file_job *file_job = (struct mare__file_job *)job;
    file_job->result = file_job->act(file_job);
    drop(job);
}

static void end(struct mare__job *job)
{
    struct mare__file_job *file_job = (struct mare__file_job *)job;
    drop(job); // in case it was never started
    if (file_job->opened)
        let_go(file_job->opened);
    mare__free(file_job->bytes);
    mare__free(file_job);
}

struct mare__file_job *mare__file_job_new(mare_runtime *runtime,
                                          int (*act)(struct mare__file_job *job), const char *path,
                                          const char *other)
{
    size_t size = path ? strlen(path) + 1 : 0, more = other ? strlen(other) + 1 : 0;
    struct mare__file_job *job = mare__alloc_zero(sizeof *job + size + more);
    if (!job || !mare__job_init(&job->job, runtime, MARE__LANE_FILES, run, end)) {
        mare__free(job);
        return NULL;
    }
    char *room = (char *)(job + 1);
    job->files = runtime->platform.files;
    job->context = runtime->platform.context;
    job->job.drop = drop;
    job->act = act;
    job->path = path ? memcpy(room, path, size) : NULL;
    job->other = other ? memcpy(room + size, other, more) : NULL;
    job->result = -ECANCELED; // until it is begun
    return job;
}

void mare__file_job_empty(struct mare__file_job *job)
{
    mare__free(job->bytes);
    job->bytes = NULL;
    job->size = 0;
}

// ---- What they do with names --------------------------------------------------------------------

static bool goes_on(void *argument)
{
    return !mare__job_is_lost(argument);
}

int mare__act_open(struct mare__file_job *job)
{
    int fd = job->files->open(job->context, job->path, job->how, job->permissions);
    return fd < 0 ? fd : keep(job, fd, NULL);
}

int mare__act_load(struct mare__file_job *job)
{
    return job->files->load(job->context, job->path, job->limit, &job->bytes, &job->size);
}

int mare__act_store(struct mare__file_job *job)
{
    const struct mare__store how = {job->how, job->permissions, job->flag, job->sync};
    return job->files->store(job->context, job->path, job->bytes, job->size, &how);
}

int mare__act_copy(struct mare__file_job *job)
{
    return job->files->copy(job->context, job->path, job->other, job->flag, goes_on, &job->job);
}

int mare__act_mkdir(struct mare__file_job *job)
{
    return job->files->make_folder(job->context, job->path, job->permissions, job->flag);
}

int mare__act_remove(struct mare__file_job *job)
{
    return job->files->remove(job->context, job->path, job->flag, goes_on, &job->job);
}

int mare__act_rename(struct mare__file_job *job)
{
    return job->files->rename(job->context, job->path, job->other);
}

int mare__act_link(struct mare__file_job *job)
{
    return job->files->link(job->context, job->other, job->path);
}

int mare__act_chmod(struct mare__file_job *job)
{
    return job->files->permit(job->context, job->path, job->permissions);
}

// The text in `bytes` is the result: sets its size.
static int with_size(struct mare__file_job *job, int err)
{
    job->size = err ? 0 : strlen(job->bytes);
    return err;
}

int mare__act_target(struct mare__file_job *job)
{
    return with_size(job, job->files->target(job->context, job->path, &job->bytes));
}

int mare__act_real(struct mare__file_job *job)
{
    return with_size(job, job->files->real(job->context, job->path, &job->bytes));
}

// Four jobs in one, for servers of files. A pipe is not opened: that would block.
int mare__act_find(struct mare__file_job *job)
{
    int err = mare__act_real(job);
    if (err < 0 || (err = job->files->info(job->context, job->bytes, -1, true, &job->info)) < 0 ||
        strcmp(job->info.kind, "file") != 0)
        return err;
    int fd = job->files->open(job->context, job->bytes, MARE__FILE_READS, 0);
    if (fd < 0) {
        job->number = fd;
        return 0;
    }
    err = job->files->info(job->context, NULL, fd, true,
                           &job->info); // of the open file: the name may mean another one by now
    if (err < 0)
        job->files->close(job->context, fd);
    return err < 0 ? err : keep(job, fd, NULL);
}

int mare__act_temporary(struct mare__file_job *job)
{
    job->bytes = mare__alloc(strlen(job->path) + sizeof "XXXXXX");
    if (!job->bytes)
        return -ENOMEM;
    strcat(strcpy(job->bytes, job->path), "XXXXXX");
    int fd = job->files->temporary(job->context, job->bytes, job->flag);
    if (!job->flag && fd >= 0)
        fd = keep(job, fd, NULL);
    return with_size(job, fd);
}

int mare__act_info(struct mare__file_job *job)
{
    return job->files->info(job->context, job->path, -1, job->flag, &job->info);
}

int mare__act_scan(struct mare__file_job *job)
{
    struct mare__folder *folder;
    int err = job->files->open_folder(job->context, job->path, &folder);
    return err ? err : keep(job, -1, folder);
}

// ---- What they do with descriptors --------------------------------------------------------------

// Moves the place in the file back over what was read ahead.
static void rewind_ahead(struct mare__file_job *job)
{
    if (job->rewind > 0)
        job->files->seek(job->context, job->descriptor->fd, -(int64_t)job->rewind, MARE__FROM_HERE);
}

int mare__act_read(struct mare__file_job *job)
{
    job->bytes = mare__alloc(job->limit);
    ssize_t got = job->bytes
                      ? job->files->read(job->context, job->descriptor->fd, job->bytes, job->limit)
                      : -ENOMEM;
    job->size = got > 0 ? (size_t)got : 0;
    return got < 0 ? (int)got : 0;
}

int mare__act_write(struct mare__file_job *job)
{
    rewind_ahead(job);
    return job->files->write(job->context, job->descriptor->fd, job->bytes, job->size);
}

int mare__act_seek(struct mare__file_job *job)
{
    rewind_ahead(job);
    job->number = job->files->seek(job->context, job->descriptor->fd, job->offset,
                                   (enum mare__whence)job->how);
    return job->number < 0 ? (int)job->number : 0;
}

int mare__act_truncate(struct mare__file_job *job)
{
    rewind_ahead(job);
    int64_t size = job->offset;
    if (size < 0)
        size = job->files->seek(job->context, job->descriptor->fd, 0, MARE__FROM_HERE);
    return size < 0 ? (int)size : job->files->truncate(job->context, job->descriptor->fd, size);
}

// `number` is 0 only if another process holds the file. Other failures count as success: some file
// systems have no such locks.
int mare__act_hold(struct mare__file_job *job)
{
    int err = job->files->hold ? job->files->hold(job->context, job->descriptor->fd) : 0;
    job->number = err != -EWOULDBLOCK;
    return 0;
}

int mare__act_sync(struct mare__file_job *job)
{
    return job->files->sync(job->context, job->descriptor->fd);
}

int mare__act_info_of(struct mare__file_job *job)
{
    return job->files->info(job->context, NULL, job->descriptor->fd, true, &job->info);
}

int mare__act_close(struct mare__file_job *job)
{
    int fd = job->descriptor->fd;
    struct mare__folder *folder = job->descriptor->folder;
    job->descriptor->fd = -1;
    job->descriptor->folder = NULL;
    if (folder)
        job->files->close_folder(job->context, folder);
    return fd < 0 ? 0 : job->files->close(job->context, fd);
}

static int add_entry(struct mare__file_job *job, size_t *room, const char *kind, const char *name)
{
    size_t first = strlen(kind) + 1, second = strlen(name) + 1;
    while (*room - job->size < first + second) {
        char *more = mare__realloc(job->bytes, *room * 2);
        if (!more)
            return -ENOMEM;
        job->bytes = more;
        *room *= 2;
    }
    memcpy(job->bytes + job->size, kind, first);
    memcpy(job->bytes + job->size + first, name, second);
    job->size += first + second;
    job->number++;
    return 0;
}

int mare__act_list(struct mare__file_job *job)
{
    size_t room = 4096;
    const char *name, *kind;
    int got = 0;
    job->bytes = mare__alloc(room);
    if (!job->bytes)
        return -ENOMEM;
    while ((uint64_t)job->number < job->limit &&
           (got = job->files->next_entry(job->context, job->descriptor->folder, &name, &kind)) ==
               1) {
        got = add_entry(job, &room, kind, name);
        if (got < 0)
            break;
    }
    return got < 0 ? got : 0;
}

// ---- Files --------------------------------------------------------------------------------------

static void drop_buffer(struct mare__file *file)
{
    mare__free(file->bytes);
    file->bytes = NULL;
    file->first = file->end = 0;
    file->listed = 0;
}

static void destroy(struct mare__object *object)
{
    struct mare__file *file = (struct mare__file *)object;
    mare__file_shut(file);
    drop_buffer(file);
    mare__free(file);
}

struct mare__file *mare__file_new(mare_runtime *runtime, struct mare__descriptor *descriptor,
                                  enum mare__kind kind, const char *path)
{
    struct mare__file *file = mare__alloc_zero(sizeof *file + strlen(path) + 1);
    if (!file) {
        let_go(descriptor);
        return NULL;
    }
    mare__object_init(&file->object, kind, destroy);
    file->object.weight = sizeof *file + sizeof *descriptor;
    file->runtime = runtime;
    file->descriptor = descriptor;
    file->timeout = MARE_FOREVER;
    file->line_max = MARE__FILE_CHUNK;
    file->all_max = MARE__FILE_ALL;
    strcpy(file->path, path);
    return file;
}

void mare__file_used(struct mare__file *file, size_t size)
{
    file->first += size;
    if (file->first == file->end)
        drop_buffer(file);
}

// Appends the bytes of a job to those in the buffer.
static bool adopt(struct mare__file *file, struct mare__file_job *job)
{
    size_t have = mare__file_buffered(file);
    if (have > 0) {
        char *bytes = mare__alloc(have + job->size);
        if (!bytes)
            return false;
        memcpy(bytes, file->bytes + file->first, have);
        memcpy(bytes + have, job->bytes, job->size);
        mare__free(job->bytes);
        job->bytes = bytes;
    }
    mare__free(file->bytes);
    file->bytes = job->bytes;
    file->first = 0;
    file->end = have + job->size;
    file->listed += job->number;
    job->bytes = NULL;
    return true;
}

void mare__file_settle(struct mare__file *file)
{
    struct mare__file_job *job = file->job;
    if (!job || !mare__job_is_over(&job->job))
        return;
    bool brings = job->act == mare__act_read || job->act == mare__act_list;
    file->job = NULL;
    if (brings && job->size > 0 && !adopt(file, job))
        file->late = ENOMEM;
    if (brings && job->result == 0)
        file->at_end = job->size == 0;
    if ((brings || job->is_orphan) && job->result < 0 && job->result != -ECANCELED)
        file->late = -job->result;
    mare__unref(&job->job.object);
}

bool mare__file_begin(struct mare__file *file, struct mare__file_job *job, bool again)
{
    again = again && file->descriptor->seekable;
    job->descriptor = hold(file->descriptor);
    job->rewind = again ? mare__file_buffered(file) : 0;
    if (!mare__job_start(&job->job))
        return false;
    if (again)
        drop_buffer(file);
    job->was_begun = true;
    file->job = mare__ref(&job->job.object);
    return true;
}

void mare__file_shut(struct mare__file *file)
{
    if (file->job && mare__runtime_valid(file->runtime)) // in a fork nobody waits, and the lock may
                                                         // be held
        mare_chan_close(file->job->job.done);
    if (file->job)
        mare__unref(&file->job->job.object);
    if (file->descriptor)
        let_go(file->descriptor);
    file->job = NULL;
    file->descriptor = NULL;
}
