// SPDX-License-Identifier: MIT
// Files with secrets. mare.file would keep what it reads in buffers of its own, and give Lua a
// string.
#include "loop/secret.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "sched/runtime.h"

enum { OWNERS = 0600 }; // permissions

// What is wrong with what was opened; 0: nothing.
static int check(struct mare__secret_job *job, int fd)
{
    int result = job->files->info(job->context, NULL, fd, true, &job->info);
    if (result < 0)
        return result;
    if (strcmp(job->info.kind, "file") != 0 || (job->info.permissions & job->denied) != 0)
        return -EPERM;
    return job->info.size > MARE__SECRET_MAX ? -EFBIG : 0;
}

// As much as the file had when it was looked at: somebody who writes it now replaces it whole.
static int fill(struct mare__secret_job *job, int fd)
{
    struct mare__secret *secret = mare__secret_new((size_t)job->info.size);
    if (!secret)
        return -ENOMEM;
    job->secret = secret;
    size_t have = 0;
    while (have < secret->size) {
        ssize_t more =
            job->files->read(job->context, fd, secret->bytes + have, secret->size - have);
        if (more < 0)
            return (int)more;
        if (more == 0)
            break;
        have += (size_t)more;
    }
    secret->size = have;
    return 0;
}

static int read_file(struct mare__secret_job *job)
{
    int fd = job->files->open(job->context, job->path, MARE__FILE_READS | MARE__FILE_AT_ONCE, 0);
    if (fd < 0)
        return fd;
    int result = check(job, fd);
    if (result == 0)
        result = fill(job, fd);
    job->files->close(job->context, fd);
    return result;
}

static int write_file(struct mare__secret_job *job)
{
    const unsigned how = MARE__FILE_WRITES | MARE__FILE_CREATES | MARE__FILE_IS_NEW;
    int fd = job->files->open(job->context, job->path, how, OWNERS);
    if (fd < 0)
        return fd;
    int result = job->files->write(job->context, fd, job->secret->bytes, job->secret->size);
    if (result >= 0)
        result = job->files->sync(job->context, fd);
    int closed = job->files->close(job->context, fd);
    result = result < 0 ? result : closed;
    if (result < 0)
        job->files->remove(job->context, job->path, false, NULL, NULL);
    return result;
}

static void run(struct mare__job *job)
{
    struct mare__secret_job *own = (struct mare__secret_job *)job;
    own->result = own->writes ? write_file(own) : read_file(own);
}

static void end(struct mare__job *job)
{
    struct mare__secret_job *own = (struct mare__secret_job *)job;
    if (own->secret)
        mare__unref(&own->secret->object);
    mare__free(own);
}

static struct mare__secret_job *create(mare_runtime *runtime, const char *path)
{
    size_t size = strlen(path) + 1;
    struct mare__secret_job *job = mare__alloc_zero(sizeof *job + size);
    if (!job || !mare__job_init(&job->job, runtime, MARE__LANE_FILES, run, end)) {
        mare__free(job);
        return NULL;
    }
    job->files = runtime->platform.files;
    job->context = runtime->platform.context;
    job->result = -ECANCELED; // until it is begun
    memcpy(job->path, path, size);
    return job;
}

struct mare__secret_job *mare__secret_job_read(mare_runtime *runtime, const char *path,
                                               unsigned denied)
{
    struct mare__secret_job *job = create(runtime, path);
    if (job)
        job->denied = denied;
    return job;
}

struct mare__secret_job *mare__secret_job_write(mare_runtime *runtime, const char *path,
                                                struct mare__secret *secret)
{
    struct mare__secret_job *job = create(runtime, path);
    if (!job)
        return NULL;
    job->writes = true;
    job->job.holds_up = true; // half a file should not stay behind
    job->secret = mare__ref(&secret->object);
    return job;
}
