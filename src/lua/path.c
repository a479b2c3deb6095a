// SPDX-License-Identifier: MIT
// What a program does to files by their names, each in a job. lua/mare/file.lua makes the module
// `mare.file` of this.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/file.h"

// ---- Failures -----------------------------------------------------------------------------------

static mare_err code_of(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR:
        return MARE_NONAME;
    case EEXIST:
    case ENOTEMPTY:
        return MARE_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return MARE_DENIED;
    case EFBIG:
        return MARE_TOOBIG;
    case EPIPE:
        return MARE_CLOSED;
    case ENOMEM:
        return MARE_NOMEM;
    default:
        return MARE_IO;
    }
}

int mare__lua_fail_file(lua_State *L, const char *path, int err)
{
    lua_pushfstring(L, "%s: %s", path, strerror(err));
    return mare__lua_fail_with(L, code_of(err));
}

// ---- Jobs ---------------------------------------------------------------------------------------

struct mare__file_job *mare__lua_file_job(lua_State *L)
{
    return (struct mare__file_job *)mare__handle_of(L, -1, MARE__KIND_REQUEST)->object;
}

struct mare__file_job *mare__lua_push_job(lua_State *L, int (*act)(struct mare__file_job *job),
                                          const char *path, const char *other)
{
    struct mare__file_job *job =
        mare__file_job_new(mare__self(L)->shared.runtime, act, path, other);
    if (!job)
        mare__lua_no_memory(L);
    mare__handle_push_new(L, job);
    return job;
}

struct mare__file_job *mare__lua_push_writer(lua_State *L, int (*act)(struct mare__file_job *job),
                                             const char *path, int first, int last)
{
    size_t size = 0;
    for (int i = first; i <= last; i++)
        size += lua_rawlen(L, i);
    struct mare__file_job *job = mare__file_job_new(mare__self(L)->shared.runtime, act, path, NULL);
    char *at = job ? job->bytes = mare__alloc(size ? size : 1) : NULL;
    if (!at) {
        if (job)
            mare__unref(&job->job.object);
        mare__lua_no_memory(L);
    }
    for (int i = first; i <= last; i++) {
        size_t length;
        const char *bytes = lua_tolstring(L, i, &length);
        memcpy(at, bytes, length);
        at += length;
    }
    job->size = size;
    // Counts the result, so that the collector comes in time for jobs that nobody has waited for.
    mare__object_gains(&job->job.object, size);
    mare__handle_push_new(L, job);
    return job;
}

static int push_outcome(lua_State *L, struct mare__file_job *job, lua_KContext finish)
{
    if (job->result >= 0)
        return ((int (*)(lua_State *, struct mare__file_job *))finish)(L, job);
    if (!job->other)
        return mare__lua_fail_file(L, job->path, -job->result);
    lua_pushfstring(L, "%s, %s", job->path, job->other);
    return mare__lua_fail_file(L, lua_tostring(L, -1), -job->result);
}

static int job_done(lua_State *L, int status, lua_KContext finish)
{
    (void)status;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    struct mare__file_job *job = (struct mare__file_job *)ref->object;
    mare_err err = mare__lua_job_outcome(L, &job->job);
    int results = err ? 0 : push_outcome(L, job, finish);
    if (err)
        results = mare__lua_fail_job(L, &job->job, err);
    // What it has read, or opens now or later, must not stay until the collector comes.
    mare__handle_forget(L, ref);
    return results;
}

int mare__lua_do_job(lua_State *L, uint64_t deadline,
                     int (*finish)(lua_State *L, struct mare__file_job *job))
{
    struct mare__file_job *job = mare__lua_file_job(L);
    mare__block_check(L, mare__self(L));
    if (!mare__job_start(&job->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &job->job, deadline, job_done, (lua_KContext)finish);
}

// ---- What they return ---------------------------------------------------------------------------

static int say_true(lua_State *L, struct mare__file_job *job)
{
    (void)job;
    lua_pushboolean(L, 1);
    return 1;
}

static int say_bytes(lua_State *L, struct mare__file_job *job)
{
    lua_pushlstring(L, job->bytes, job->size);
    return 1;
}

static void set_number(lua_State *L, const char *key, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, key);
}

static void set_time(lua_State *L, const char *key, double seconds)
{
    lua_pushnumber(L, seconds);
    lua_setfield(L, -2, key);
}

int mare__lua_push_info(lua_State *L, const struct mare__file_info *info)
{
    lua_createtable(L, 0, 11);
    lua_pushstring(L, info->kind);
    lua_setfield(L, -2, "kind");
    set_number(L, "size", info->size);
    set_number(L, "permissions", info->permissions);
    char octal[8];
    snprintf(octal, sizeof octal, "%04o", info->permissions & 07777u);
    lua_pushstring(L, octal);
    lua_setfield(L, -2, "mode");
    set_number(L, "owner", info->owner);
    set_number(L, "group", info->group);
    set_number(L, "inode", info->inode);
    set_number(L, "device", info->device);
    set_number(L, "links", info->links);
    set_time(L, "read", info->read);
    set_time(L, "written", info->written);
    set_time(L, "changed", info->changed);
    return 1;
}

static int say_info(lua_State *L, struct mare__file_job *job)
{
    return mare__lua_push_info(L, &job->info);
}

static int say_file(lua_State *L, struct mare__file_job *job)
{
    return mare__lua_push_file(L, job, MARE__KIND_FILE, job->path);
}

static int say_folder(lua_State *L, struct mare__file_job *job)
{
    return mare__lua_push_file(L, job, MARE__KIND_FOLDER, job->path);
}

// The name, and the file itself before it if there is one.
static int say_temporary(lua_State *L, struct mare__file_job *job)
{
    if (!job->flag && mare__lua_push_file(L, job, MARE__KIND_FILE, job->bytes) != 1)
        return 3;
    return say_bytes(L, job) + !job->flag;
}

// The path without links, what is known of it, and the file; or why it could not be opened.
static int say_found(lua_State *L, struct mare__file_job *job)
{
    say_bytes(L, job);
    say_info(L, job);
    if (job->opened)
        return 2 + say_file(L, job);
    if (job->number == 0)
        return 2;
    return 2 + mare__lua_fail_file(L, job->path, (int)-job->number);
}

// ---- The functions ------------------------------------------------------------------------------

// A number, or octal digits: "644".
static unsigned check_permissions(lua_State *L, int index, unsigned otherwise)
{
    lua_Integer permissions = -1;
    if (lua_type(L, index) == LUA_TSTRING) {
        const char *digits = lua_tostring(L, index);
        size_t length = lua_rawlen(L, index);
        if (length > 0 && length <= 5 && strspn(digits, "01234567") == length)
            permissions = (lua_Integer)strtol(digits, NULL, 8);
    } else {
        permissions = luaL_optinteger(L, index, otherwise);
    }
    luaL_argcheck(L, permissions >= 0 && permissions <= 07777, index,
                  "permissions are octal digits, as '644', or a number from 0 to 4095 (07777)");
    return (unsigned)permissions;
}

// open(path, how, permissions, timeout)
static int path_open(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    unsigned how = (unsigned)luaL_checkinteger(L, 2);
    unsigned permissions = check_permissions(L, 3, 0666);
    uint64_t deadline = mare__lua_deadline(L, 4);
    struct mare__file_job *job = mare__lua_push_job(L, mare__act_open, path, NULL);
    job->how = how;
    job->permissions = permissions;
    return mare__lua_do_job(L, deadline, say_file);
}

// find(path, timeout)
static int path_find(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 2);
    mare__lua_push_job(L, mare__act_find, path, NULL);
    return mare__lua_do_job(L, deadline, say_found);
}

// near(path): an open file and its size, if it could be opened without waiting. Else nothing: it
// might wait, or is not a file.
static int path_near(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    struct mare__file_info info;
    struct mare__descriptor *opened =
        mare__descriptor_near(mare__self(L)->shared.runtime, path, &info);
    if (!opened || mare__lua_push_opened(L, opened, MARE__KIND_FILE, path) != 1)
        return 0;
    lua_pushinteger(L, (lua_Integer)info.size);
    return 2;
}

// load(path, limit, timeout)
static int path_load(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    lua_Integer limit = luaL_checkinteger(L, 2);
    uint64_t deadline = mare__lua_deadline(L, 3);
    luaL_argcheck(L, limit >= 0, 2, "a limit is not negative");
    mare__lua_push_job(L, mare__act_load, path, NULL)->limit = (size_t)limit;
    return mare__lua_do_job(L, deadline, say_bytes);
}

// store(path, text, how, permissions, atomic, sync, timeout)
static int path_store(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    luaL_checkstring(L, 2);
    unsigned how = (unsigned)luaL_checkinteger(L, 3);
    unsigned permissions = check_permissions(L, 4, 0666);
    uint64_t deadline = mare__lua_deadline(L, 7);
    struct mare__file_job *job = mare__lua_push_writer(L, mare__act_store, path, 2, 2);
    job->how = how;
    job->permissions = permissions;
    job->flag = lua_toboolean(L, 5);
    job->sync = lua_toboolean(L, 6);
    return mare__lua_do_job(L, deadline, say_true);
}

// Takes a path, a flag and a timeout.
static int with_flag(lua_State *L, int (*act)(struct mare__file_job *job),
                     int (*finish)(lua_State *L, struct mare__file_job *job))
{
    const char *path = mare__lua_name(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 3);
    mare__lua_push_job(L, act, path, NULL)->flag = lua_toboolean(L, 2);
    return mare__lua_do_job(L, deadline, finish);
}

// Takes a path, permissions, a flag and a timeout.
static int with_permissions(lua_State *L, int (*act)(struct mare__file_job *job),
                            unsigned otherwise)
{
    const char *path = mare__lua_name(L, 1);
    unsigned permissions = check_permissions(L, 2, otherwise);
    uint64_t deadline = mare__lua_deadline(L, 4);
    struct mare__file_job *job = mare__lua_push_job(L, act, path, NULL);
    job->permissions = permissions;
    job->flag = lua_toboolean(L, 3);
    return mare__lua_do_job(L, deadline, say_true);
}

// Of two paths, a flag and a timeout.
static int with_two(lua_State *L, int (*act)(struct mare__file_job *job))
{
    const char *path = mare__lua_name(L, 1), *other = mare__lua_name(L, 2);
    uint64_t deadline = mare__lua_deadline(L, 4);
    mare__lua_push_job(L, act, path, other)->flag = lua_toboolean(L, 3);
    return mare__lua_do_job(L, deadline, say_true);
}

static int path_stat(lua_State *L) // follow
{
    return with_flag(L, mare__act_info, say_info);
}

static int path_remove(lua_State *L) // with all that is in it
{
    return with_flag(L, mare__act_remove, say_true);
}

static int path_readlink(lua_State *L)
{
    return with_flag(L, mare__act_target, say_bytes);
}

static int path_realpath(lua_State *L)
{
    return with_flag(L, mare__act_real, say_bytes);
}

static int path_scan(lua_State *L)
{
    return with_flag(L, mare__act_scan, say_folder);
}

static int path_temporary(lua_State *L) // a folder
{
    return with_flag(L, mare__act_temporary, say_temporary);
}

static int path_mkdir(lua_State *L) // parents
{
    return with_permissions(L, mare__act_mkdir, 0777);
}

static int path_chmod(lua_State *L)
{
    luaL_checkany(L, 2);
    return with_permissions(L, mare__act_chmod, 0);
}

static int path_copy(lua_State *L) // is new
{
    return with_two(L, mare__act_copy);
}

static int path_rename(lua_State *L)
{
    return with_two(L, mare__act_rename);
}

static int path_symlink(lua_State *L) // the link, then its target
{
    return with_two(L, mare__act_link);
}

int mare__lua_open_file(lua_State *L)
{
    static const luaL_Reg private[] = {
        {"open", path_open},       {"find", path_find},           {"near", path_near},
        {"load", path_load},       {"store", path_store},         {"stat", path_stat},
        {"remove", path_remove},   {"readlink", path_readlink},   {"realpath", path_realpath},
        {"scan", path_scan},       {"temporary", path_temporary}, {"mkdir", path_mkdir},
        {"chmod", path_chmod},     {"copy", path_copy},           {"rename", path_rename},
        {"symlink", path_symlink}, {"watch", mare__lua_watch},    {NULL, NULL}};
    mare__lazy_table(L, private);
    return 1;
}
