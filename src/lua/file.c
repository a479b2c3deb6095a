// SPDX-License-Identifier: MIT
// Open files and folders in Lua. A call takes what was read ahead, or begins a job on another
// thread and waits for it. A file does one job at a time; other calls wait for that first.
#include <errno.h>
#include <string.h>

#include "lua/file.h"

// ---- Arguments ----------------------------------------------------------------------------------

static struct mare__file *check(lua_State *L, enum mare__kind kind)
{
    struct mare__reference *ref = mare__handle_of(L, 1, kind);
    const char *what = kind == MARE__KIND_FILE ? "file" : "folder";
    if (!ref)
        luaL_typeerror(L, 1, what);
    if (mare__handle_moved(ref))
        luaL_error(L, "the %s was sent to another process", what);
    return (struct mare__file *)ref->object;
}

static struct mare__file *check_either(lua_State *L)
{
    bool folder = mare__handle_of(L, 1, MARE__KIND_FOLDER) != NULL;
    return check(L, folder ? MARE__KIND_FOLDER : MARE__KIND_FILE);
}

// The deadline of a call on the file: from an optional timeout, or the file's default.
static uint64_t deadline_of(lua_State *L, const struct mare__file *file, int index)
{
    if (!lua_isnoneornil(L, index))
        return mare__lua_deadline(L, index);
    if (file->timeout == MARE_FOREVER)
        return MARE_FOREVER;
    uint64_t now = mare__now(file->runtime);
    return file->timeout > MARE_FOREVER - 1 - now ? MARE_FOREVER : now + file->timeout;
}

static int fail(lua_State *L, const struct mare__file *file, mare_err err)
{
    if (err != MARE_CLOSED)
        return file->job ? mare__lua_fail_job(L, &file->job->job, err) : mare__lua_fail(L, err);
    lua_pushfstring(L, "%s: it is closed", file->path);
    return mare__lua_fail_with(L, err);
}

// A job that failed after its caller had given up: the next call returns the failure.
static int fail_late(lua_State *L, struct mare__file *file)
{
    int err = file->late;
    file->late = 0;
    return mare__lua_fail_file(L, file->path, err);
}

// ---- Waiting ------------------------------------------------------------------------------------

enum { WAITED = -1 }; // in a host, which cannot yield: just go on

// The wait for a job, which is on top of the stack, is over; it is popped.
static mare_err end_wait(lua_State *L, struct mare__file *file)
{
    mare_err err = mare__lua_job_outcome(L, &mare__lua_file_job(L)->job);
    lua_pop(L, 1);
    file->object.waiters--;
    return err ? err : file->descriptor ? MARE_OK : MARE_CLOSED;
}

static int nothing_more(lua_State *L, int status, lua_KContext context)
{
    (void)L, (void)status, (void)context;
    return 0;
}

// Waits for the file's present job, then goes on with `then`, which begins with end_wait. In a
// host, returns WAITED, or what to return to Lua.
static int wait_for_job(lua_State *L, struct mare__file *file, uint64_t deadline,
                        lua_KFunction then, lua_KContext context)
{
    struct mare__job *job = &file->job->job;
    if (file->object.waiters == UINT16_MAX)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push(L, mare__ref(&job->object)); // a reference: the file may drop the job
                                                   // meanwhile
    file->object.waiters++;
    if (!mare__self(L)->host)
        return mare__lua_wait_job(L, job, deadline, then, context);
    mare__lua_wait_job(L, job, deadline, nothing_more, 0);
    mare_err err = end_wait(L, file);
    return err ? fail(L, file, err) : WAITED;
}

// ---- Reading ------------------------------------------------------------------------------------

enum { FILE_AT = 1, WHAT, TIMEOUT, DEADLINE };

// How many bytes of the buffer are the next line, with its end; 0: it has not come as a whole.
static size_t line_in(const struct mare__file *file)
{
    size_t have = mare__file_buffered(file);
    if (have == 0)
        return 0;
    const char *bytes = file->bytes + file->first, *end = memchr(bytes, '\n', have);
    return end ? (size_t)(end - bytes) + 1 : file->at_end ? have : 0;
}

// Without its end: LF or CR LF.
static size_t without_end(const char *line, size_t size)
{
    if (size > 0 && line[size - 1] == '\n') {
        size--;
        size -= size > 0 && line[size - 1] == '\r';
    }
    return size;
}

// Pushes what was asked for, if the buffer has it.
static bool take(lua_State *L, struct mare__file *file, char kind, size_t number)
{
    size_t have = mare__file_buffered(file), used = 0;
    if (have == 0)
        return false;
    if (kind == 's' || (kind == 'a' && file->at_end))
        used = have;
    else if (kind == 'n' && (have >= number || file->at_end))
        used = number < have ? number : have;
    else if (kind == 'l' || kind == 'L')
        used = line_in(file);
    if (used == 0)
        return false;
    const char *bytes = file->bytes + file->first;
    lua_pushlstring(L, bytes, kind == 'l' ? without_end(bytes, used) : used);
    mare__file_used(file, used);
    return true;
}

static bool is_too_long(const struct mare__file *file)
{
    size_t line = line_in(file), size = line ? line : mare__file_buffered(file);
    return size > 0 && without_end(file->bytes + file->first, size) > file->line_max + !line;
}

static int fail_too_big(lua_State *L, const struct mare__file *file, const char *what, uint64_t max)
{
    lua_pushfstring(L, "%s: %s than %I bytes", file->path, what, (lua_Integer)max);
    return mare__lua_fail_with(L, MARE_TOOBIG);
}

// Pushes the result, if it is known without reading; else returns 0.
static int answer(lua_State *L, struct mare__file *file, char kind, size_t number)
{
    if ((kind == 'l' || kind == 'L') && is_too_long(file))
        return fail_too_big(L, file, "the line is longer", file->line_max);
    if (kind == 'a' && mare__file_buffered(file) > file->all_max)
        return fail_too_big(L, file, "there is more", file->all_max);
    if (kind == 'n' && number > file->all_max)
        return fail_too_big(L, file, "more was asked for", file->all_max);
    bool taken = take(L, file, kind, number), at_end = file->at_end;
    file->at_end = false; // look again next time: the file may have grown
    if (taken)
        return 1;
    if (file->late)
        return fail_late(L, file);
    if (at_end && kind == 'a') {
        lua_pushliteral(L, "");
        return 1;
    }
    if (!at_end)
        return 0;
    lua_pushfstring(L, "%s: the end of the file", file->path);
    return mare__lua_fail_with(L, MARE_CLOSED);
}

// Begins to read more. If much is wanted, it reads as much again as there is already; but of "all"
// never more than it takes to see that the limit is exceeded.
static bool read_ahead(lua_State *L, struct mare__file *file, char kind)
{
    struct mare__file_job *job = mare__lua_push_job(L, mare__act_read, file->path, NULL);
    size_t have = mare__file_buffered(file);
    job->limit = have < MARE__FILE_CHUNK ? MARE__FILE_CHUNK : have;
    if (kind == 'a' && job->limit > file->all_max + 1 - have)
        job->limit = file->all_max + 1 - have;
    return mare__file_begin(file, job, false);
}

static int read_more(lua_State *L, int status, lua_KContext context);

static int read_now(lua_State *L, struct mare__file *file, lua_KContext context)
{
    size_t number;
    char kind = mare__lua_kind_of_read(L, WHAT, &number);
    for (;;) {
        lua_settop(L, DEADLINE);
        mare__file_settle(file);
        int results = answer(L, file, kind, number);
        if (results)
            return results;
        if (!file->job && !read_ahead(L, file, kind))
            return mare__lua_fail(L, MARE_NOMEM);
        int waited =
            wait_for_job(L, file, (uint64_t)lua_tointeger(L, DEADLINE), read_more, context);
        if (waited != WAITED)
            return waited;
    }
}

static int read_more(lua_State *L, int status, lua_KContext for_loop)
{
    (void)status;
    struct mare__file *file = check(L, MARE__KIND_FILE);
    mare_err err = end_wait(L, file);
    int results = err ? fail(L, file, err) : read_now(L, file, for_loop);
    return for_loop ? mare__lua_step(L, results) : results;
}

static int read_begin(lua_State *L, lua_KContext for_loop)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    mare__block_check(L, mare__self(L));
    lua_settop(L, TIMEOUT);
    lua_pushinteger(L, (lua_Integer)deadline_of(L, file, TIMEOUT));
    return file->descriptor ? read_now(L, file, for_loop) : fail(L, file, MARE_CLOSED);
}

// f:read([what [, timeout]])
static int file_read(lua_State *L)
{
    return read_begin(L, 0);
}

static int next_line(lua_State *L, const char *what)
{
    lua_settop(L, 1);
    lua_pushstring(L, what);
    return mare__lua_step(L, read_begin(L, 1));
}

static int next_l(lua_State *L)
{
    return next_line(L, "l");
}

static int next_L(lua_State *L)
{
    return next_line(L, "L");
}

// f:lines([what])
static int file_lines(lua_State *L)
{
    static const char *const whats[] = {"l", "L", NULL};
    check(L, MARE__KIND_FILE);
    mare__function_push(L, luaL_checkoption(L, 2, "l", whats) == 0 ? next_l : next_L);
    lua_pushvalue(L, 1);
    return 2;
}

// ---- Everything else ----------------------------------------------------------------------------

enum { JOB = 2, UNTIL };

// Whether the job depends on the position in the file: then what was read ahead must be dropped.
static bool minds_the_place(const struct mare__file_job *job)
{
    return job->act == mare__act_write || job->act == mare__act_seek ||
           job->act == mare__act_truncate;
}

static struct mare__file_job *own_job(lua_State *L)
{
    return (struct mare__file_job *)mare__handle_of(L, JOB, MARE__KIND_REQUEST)->object;
}

static int do_more(lua_State *L, int status, lua_KContext finish);

// Does the job at JOB when the file is free for it, and returns what `finish` pushes.
static int do_now(lua_State *L, struct mare__file *file, lua_KContext finish)
{
    struct mare__file_job *job = own_job(L);
    for (;;) {
        mare__file_settle(file);
        if (job->was_begun && mare__job_is_over(&job->job)) {
            mare__file_job_empty(job);
            if (job->result < 0)
                return mare__lua_fail_file(L, file->path, -job->result);
            return ((int (*)(lua_State *, struct mare__file_job *))finish)(L, job);
        }
        if (!job->was_begun && file->late)
            return fail_late(L, file);
        if (!file->job && !mare__file_begin(file, job, minds_the_place(job)))
            return mare__lua_fail(L, MARE_NOMEM);
        int waited = wait_for_job(L, file, (uint64_t)lua_tointeger(L, UNTIL), do_more, finish);
        if (waited != WAITED) {
            job->is_orphan = true; // only a host gets here
            return waited;
        }
    }
}

static int do_more(lua_State *L, int status, lua_KContext finish)
{
    (void)status;
    struct mare__file *file = check(L, MARE__KIND_FILE);
    mare_err err = end_wait(L, file);
    if (!err)
        return do_now(L, file, finish);
    own_job(L)->is_orphan = true;
    return fail(L, file, err);
}

// The job is on top of the stack.
static int do_job(lua_State *L, struct mare__file *file, uint64_t deadline,
                  int (*finish)(lua_State *L, struct mare__file_job *job))
{
    mare__block_check(L, mare__self(L));
    lua_replace(L, JOB);
    lua_settop(L, JOB);
    lua_pushinteger(L, (lua_Integer)deadline);
    return file->descriptor ? do_now(L, file, (lua_KContext)finish) : fail(L, file, MARE_CLOSED);
}

static int say_true(lua_State *L, struct mare__file_job *job)
{
    (void)job;
    lua_pushboolean(L, 1);
    return 1;
}

static int say_number(lua_State *L, struct mare__file_job *job)
{
    lua_pushinteger(L, job->number);
    return 1;
}

static int say_info(lua_State *L, struct mare__file_job *job)
{
    return mare__lua_push_info(L, &job->info);
}

static int write_all(lua_State *L, struct mare__file *file, int first, uint64_t deadline)
{
    int last = lua_gettop(L);
    for (int i = first; i <= last; i++)
        luaL_checkstring(L, i);
    if (last < JOB)
        lua_settop(L, JOB);
    mare__lua_push_writer(L, mare__act_write, file->path, first, last);
    return do_job(L, file, deadline, say_true);
}

// f:write(...)
static int file_write(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    return write_all(L, file, 2, deadline_of(L, file, lua_gettop(L) + 1));
}

// f:writewithin(timeout, ...)
static int file_writewithin(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    if (lua_isnone(L, 2))
        return luaL_typeerror(L, 2, "number of seconds or deadline");
    return write_all(L, file, 3, mare__lua_deadline(L, 2));
}

// f:seek([whence [, offset [, timeout]]])
static int file_seek(lua_State *L)
{
    static const char *const whences[] = {"set", "cur", "end", NULL};
    struct mare__file *file = check(L, MARE__KIND_FILE);
    int whence = luaL_checkoption(L, 2, "cur", whences);
    lua_Integer offset = luaL_optinteger(L, 3, 0);
    uint64_t deadline = deadline_of(L, file, 4);
    lua_settop(L, 3);
    struct mare__file_job *job = mare__lua_push_job(L, mare__act_seek, file->path, NULL);
    job->how = (unsigned)whence;
    job->offset = offset;
    return do_job(L, file, deadline, say_number);
}

// f:truncate([size [, timeout]])
static int file_truncate(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    lua_Integer size = luaL_optinteger(L, 2, -1);
    luaL_argcheck(L, lua_isnoneornil(L, 2) || size >= 0, 2, "a size is not negative");
    uint64_t deadline = deadline_of(L, file, 3);
    lua_settop(L, 3);
    mare__lua_push_job(L, mare__act_truncate, file->path, NULL)->offset = size;
    return do_job(L, file, deadline, say_true);
}

static int say_whether(lua_State *L, struct mare__file_job *job)
{
    lua_pushboolean(L, job->number != 0);
    return 1;
}

// f:_hold() -> whether it is ours from now on, as long as it is open: no other program that asks in
// this way has it
static int file_hold(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    uint64_t deadline = deadline_of(L, file, 2);
    lua_settop(L, 2);
    mare__lua_push_job(L, mare__act_hold, file->path, NULL);
    return do_job(L, file, deadline, say_whether);
}

// f:sync([timeout])
static int file_sync(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    uint64_t deadline = deadline_of(L, file, 2);
    lua_settop(L, 2);
    mare__lua_push_job(L, mare__act_sync, file->path, NULL);
    return do_job(L, file, deadline, say_true);
}

// f:stat([timeout])
static int file_stat(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    uint64_t deadline = deadline_of(L, file, 2);
    lua_settop(L, 2);
    mare__lua_push_job(L, mare__act_info_of, file->path, NULL);
    return do_job(L, file, deadline, say_info);
}

// ---- Folders ------------------------------------------------------------------------------------

enum { ENTRIES_AT_ONCE = 1024 };

static int next_more(lua_State *L, int status, lua_KContext context);

// The next entry: its name and kind; nothing at the end. The deadline is at 2.
static int next_now(lua_State *L, struct mare__file *folder)
{
    for (;;) {
        lua_settop(L, 2);
        mare__file_settle(folder);
        if (mare__file_buffered(folder) > 0) {
            const char *kind = folder->bytes + folder->first, *name = kind + strlen(kind) + 1;
            lua_pushstring(L, name);
            lua_pushstring(L, kind);
            mare__file_used(folder, (size_t)(name + strlen(name) + 1 - kind));
            return 2;
        }
        if (folder->late)
            return fail_late(L, folder);
        if (folder->at_end)
            return 0;
        if (!folder->job) {
            struct mare__file_job *job = mare__lua_push_job(L, mare__act_list, folder->path, NULL);
            job->limit = ENTRIES_AT_ONCE;
            if (!mare__file_begin(folder, job, false))
                return mare__lua_fail(L, MARE_NOMEM);
        }
        int waited = wait_for_job(L, folder, (uint64_t)lua_tointeger(L, 2), next_more, 0);
        if (waited != WAITED)
            return waited;
    }
}

static int next_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__file *folder = check(L, MARE__KIND_FOLDER);
    mare_err err = end_wait(L, folder);
    return err ? fail(L, folder, err) : next_now(L, folder);
}

// d:next([timeout])
static int folder_next(lua_State *L)
{
    struct mare__file *folder = check(L, MARE__KIND_FOLDER);
    mare__block_check(L, mare__self(L));
    lua_pushinteger(L, (lua_Integer)deadline_of(L, folder, 2));
    lua_insert(L, 2);
    return folder->descriptor ? next_now(L, folder) : fail(L, folder, MARE_CLOSED);
}

// ---- Beginning and end --------------------------------------------------------------------------

int mare__lua_push_opened(lua_State *L, struct mare__descriptor *descriptor, enum mare__kind kind,
                          const char *path)
{
    struct mare__file *file = mare__file_new(mare__self(L)->shared.runtime, descriptor, kind, path);
    if (!file)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, file);
    return 1;
}

int mare__lua_push_file(lua_State *L, struct mare__file_job *job, enum mare__kind kind,
                        const char *path)
{
    struct mare__descriptor *descriptor = job->opened;
    job->opened = NULL;
    return mare__lua_push_opened(L, descriptor, kind, path);
}

// f:close([timeout]), d:close([timeout])
static int file_close(lua_State *L)
{
    struct mare__file *file = check_either(L);
    uint64_t deadline = deadline_of(L, file, 2);
    if (!file->descriptor)
        return fail(L, file, MARE_CLOSED);
    mare__block_check(L, mare__self(L));
    mare__file_settle(file);
    if (file->job || file->late) { // the job that uses it will close it
        mare__file_shut(file);
        if (file->late)
            return fail_late(L, file);
        lua_pushboolean(L, 1);
        return 1;
    }
    struct mare__file_job *job = mare__lua_push_job(L, mare__act_close, file->path, NULL);
    job->descriptor = file->descriptor;
    file->descriptor = NULL;
    return mare__lua_do_job(L, deadline, say_true);
}

// A <close> variable may hold a file that was sent away. It cannot wait.
static int file_leave(lua_State *L)
{
    if (mare__handle_here(L, 1))
        mare__file_shut(check_either(L));
    return 0;
}

// f:timeout([seconds]): the default of calls that are given none; nil for none.
static int file_timeout(lua_State *L)
{
    struct mare__file *file = check_either(L);
    file->timeout = MARE_FOREVER;
    if (!lua_isnoneornil(L, 2)) {
        lua_Number seconds = luaL_checknumber(L, 2);
        luaL_argcheck(L, seconds >= 0, 2, "a timeout cannot be negative");
        if (seconds < 1e9)
            file->timeout = (uint64_t)(seconds * 1e9);
    }
    lua_settop(L, 1);
    return 1;
}

// f:limit(bytes[, all]): of a line; of all there is, or of so many bytes.
static int file_limit(lua_State *L)
{
    struct mare__file *file = check(L, MARE__KIND_FILE);
    lua_Integer bytes = luaL_checkinteger(L, 2);
    lua_Integer all = luaL_optinteger(L, 3, (lua_Integer)file->all_max);
    luaL_argcheck(L, bytes > 0, 2, "a limit is positive");
    luaL_argcheck(L, all > 0, 3, "a limit is positive");
    file->line_max = (uint64_t)bytes;
    file->all_max = (uint64_t)all;
    lua_settop(L, 1);
    return 1;
}

static int file_tostring(lua_State *L)
{
    bool is_folder = mare__handle_of(L, 1, MARE__KIND_FOLDER);
    const char *what = is_folder ? "folder" : "file";
    const struct mare__reference *ref =
        mare__lua_reference(L, 1, is_folder ? MARE__KIND_FOLDER : MARE__KIND_FILE);
    const struct mare__file *file = (const struct mare__file *)ref->object;
    if (mare__handle_moved(ref))
        lua_pushfstring(L, "%s (sent)", what);
    else
        lua_pushfstring(L, "%s %s%s", what, file->path, file->descriptor ? "" : " (closed)");
    return 1;
}

const luaL_Reg mare__file_methods[] = {{"read", file_read},
                                       {"write", file_write},
                                       {"writewithin", file_writewithin},
                                       {"lines", file_lines},
                                       {"seek", file_seek},
                                       {"truncate", file_truncate},
                                       {"sync", file_sync},
                                       {"stat", file_stat},
                                       {"close", file_close},
                                       {"timeout", file_timeout},
                                       {"limit", file_limit},
                                       {"_hold", file_hold},
                                       {NULL, NULL}};

const luaL_Reg mare__folder_methods[] = {
    {"next", folder_next}, {"close", file_close}, {"timeout", file_timeout}, {NULL, NULL}};

const luaL_Reg mare__file_metamethods[] = {
    {"__tostring", file_tostring}, {"__close", file_leave}, {NULL, NULL}};
