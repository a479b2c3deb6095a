// SPDX-License-Identifier: MIT
// Files with secrets, read and written by a thread of the pool without a copy that stays anywhere:
// from the file into the secret, and back.
#pragma once

#include "base/secret.h"
#include "loop/job.h"
#include "platform/file.h"

enum { MARE__SECRET_MAX = 1 << 20 }; // bytes of a file

struct mare__secret_job {
    struct mare__job job;
    const struct mare__files *files; // of the platform, with its context
    void *context;
    struct mare__secret *secret; // a reference: what is to be written, or what was read
    bool writes;
    unsigned denied;             // permissions that a file must not have, to be read
    struct mare__file_info info; // of the file that was to be read
    int result; // 0, or an errno value, negated; -EPERM: it is no file, or has such a permission
    char path[];
};

// Reads a regular file. NULL: not enough memory.
struct mare__secret_job *mare__secret_job_read(mare_runtime *runtime, const char *path,
                                               unsigned denied);

// Writes a new file, which only its owner may read, and has it on the disk.
struct mare__secret_job *mare__secret_job_write(mare_runtime *runtime, const char *path,
                                                struct mare__secret *secret);
