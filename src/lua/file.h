// SPDX-License-Identifier: MIT
// What the bindings of files, names of files and watchers share.
#pragma once

#include "loop/file.h"
#include "lua/job.h"

// Pushes `nil, "path: what the system says", code`.
int mare__lua_fail_file(lua_State *L, const char *path, int err);

// Pushes a table of what is known of a file.
int mare__lua_push_info(lua_State *L, const struct mare__file_info *info);

// The job on top of the stack.
struct mare__file_job *mare__lua_file_job(lua_State *L);

// Pushes a new job, of which the caller fills in more; raises an error when there is no memory.
struct mare__file_job *mare__lua_push_job(lua_State *L, int (*act)(struct mare__file_job *job),
                                          const char *path, const char *other);

// The same for one that writes: it has copies of the strings from one stack index to another.
struct mare__file_job *mare__lua_push_writer(lua_State *L, int (*act)(struct mare__file_job *job),
                                             const char *path, int first, int last);

// Begins the job on top of the stack, waits for it and returns what `finish` pushes if it succeeds.
int mare__lua_do_job(lua_State *L, uint64_t deadline,
                     int (*finish)(lua_State *L, struct mare__file_job *job));

// Pushes the file or folder that the job has opened.
int mare__lua_push_file(lua_State *L, struct mare__file_job *job, enum mare__kind kind,
                        const char *path);

// Pushes it, open, and takes it over in any case: 1; or nil, message, code.
int mare__lua_push_opened(lua_State *L, struct mare__descriptor *descriptor, enum mare__kind kind,
                          const char *path);

// watch(path, recursive, limit, timeout)
int mare__lua_watch(lua_State *L);
