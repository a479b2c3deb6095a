// SPDX-License-Identifier: MIT
// Watchers of files in Lua.
#include <errno.h>

#include "loop/watch.h"
#include "lua/file.h"

static struct mare__watch *check(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_WATCH);
    if (!ref)
        luaL_typeerror(L, 1, "watcher");
    if (mare__handle_moved(ref))
        luaL_error(L, "the watcher was sent to another process");
    return (struct mare__watch *)ref->object;
}

static int fail(lua_State *L, const struct mare__watch *watch, mare_err err)
{
    if (err != MARE_CLOSED)
        return mare__lua_fail(L, err);
    lua_pushfstring(L, "%s: the watcher is closed", watch->path);
    return mare__lua_fail_with(L, err);
}

// ---- What has happened --------------------------------------------------------------------------

static void set_path(lua_State *L, const char *key, const char *base, const char *name)
{
    lua_pushfstring(L, *name ? "%s/%s" : "%s%s", base, name);
    lua_setfield(L, -2, key);
}

static int push_event(lua_State *L, const struct mare__watch_told *told)
{
    lua_createtable(L, 0, 4);
    lua_pushstring(L, told->kind);
    lua_setfield(L, -2, "kind");
    set_path(L, "path", told->base, told->name);
    if (told->from_base)
        set_path(L, "from", told->from_base, told->from_name);
    lua_pushboolean(L, told->folder);
    lua_setfield(L, -2, "folder");
    return 1;
}

static int next_more(lua_State *L, int status, lua_KContext context);

static int nothing_more(lua_State *L, int status, lua_KContext context)
{
    (void)L, (void)status, (void)context;
    return 0;
}

enum { FOR_SOURCE, FOR_WALK, WAITED = -1 };

// The wait is over; the walk, if it was for one, is on top of the stack and popped.
static mare_err end_wait(lua_State *L, struct mare__watch *watch, lua_KContext what)
{
    struct mare__local *self = mare__self(L);
    mare_err err;
    watch->object.waiters--;
    if (what == FOR_WALK) {
        struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
        err = mare__lua_job_outcome(L, (struct mare__job *)ref->object);
        lua_pop(L, 1);
    } else {
        mare__block_clean(self);
        err = self->sleep.wait.result;
        watch->waiting--;
        if (!mare__watch_closed(watch) && watch->waiting > 0)
            mare__observed_await(watch->runtime, &watch->observed, MARE__TO_READ); // for the others
    }
    return mare__watch_closed(watch) && !err ? MARE_CLOSED : err;
}

// In a host, which has nothing to yield to, returns WAITED, or what to return to Lua.
static int wait_for_more(lua_State *L, struct mare__watch *watch, uint64_t deadline)
{
    struct mare__local *self = mare__self(L);
    lua_KContext what = watch->walk ? FOR_WALK : FOR_SOURCE;
    mare_channel *ready = NULL;
    if (what == FOR_SOURCE)
        ready = mare__observed_await(self->shared.runtime, &watch->observed, MARE__TO_READ);
    if ((what == FOR_SOURCE && !ready) || watch->object.waiters == UINT16_MAX)
        return mare__lua_fail(L, MARE_NOMEM);
    lua_KFunction then = self->host ? nothing_more : next_more;
    int results;
    watch->object.waiters++;
    if (what == FOR_WALK) {
        struct mare__job *job = &watch->walk->job;
        mare__handle_push(L, mare__ref(&job->object));
        results = mare__lua_wait_job(L, job, deadline, then, what);
    } else {
        watch->waiting++;
        results = mare__block(L, self, MARE__WAITS_TO_RECEIVE, ready, deadline, then, what);
    }
    if (!self->host)
        return results;
    mare_err err = end_wait(L, watch, what);
    return err ? fail(L, watch, err) : WAITED;
}

// The deadline is at 2.
static int next_now(lua_State *L, struct mare__watch *watch)
{
    struct mare__watch_told told;
    for (;;) {
        int got = mare__watch_next(watch, &told);
        if (got == 1) {
            if (watch->waiting > 0 && mare__watch_has_more(watch))
                mare__observed_tell(&watch->observed, MARE__TO_READ); // the next is another's
            return push_event(L, &told);
        }
        if (got == -ENODATA) {
            lua_pushfstring(L, "%s: the watched file or folder is gone", watch->path);
            return mare__lua_fail_with(L, MARE_CLOSED);
        }
        if (got < 0)
            return mare__lua_fail_file(L, watch->path, -got);
        int waited = wait_for_more(L, watch, (uint64_t)lua_tointeger(L, 2));
        if (waited != WAITED)
            return waited;
    }
}

static int next_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__watch *watch = check(L);
    mare_err err = end_wait(L, watch, context);
    return err ? fail(L, watch, err) : next_now(L, watch);
}

// w:next([timeout])
static int watch_next(lua_State *L)
{
    struct mare__watch *watch = check(L);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (lua_isnoneornil(L, 2) && watch->timeout != MARE_FOREVER) {
        uint64_t now = mare__now(watch->runtime);
        deadline = watch->timeout > MARE_FOREVER - 1 - now ? MARE_FOREVER : now + watch->timeout;
    }
    mare__block_check(L, mare__self(L));
    lua_settop(L, 1);
    lua_pushinteger(L, (lua_Integer)deadline);
    return mare__watch_closed(watch) ? fail(L, watch, MARE_CLOSED) : next_now(L, watch);
}

// ---- Beginning and end --------------------------------------------------------------------------

static int push_watcher(lua_State *L, struct mare__walk *walk)
{
    if (walk->result == -EFBIG) {
        lua_pushfstring(L, "%s: there are more than %I folders", walk->path,
                        (lua_Integer)walk->limit);
        return mare__lua_fail_with(L, MARE_TOOBIG);
    }
    if (walk->result)
        return mare__lua_fail_file(L, walk->path, -walk->result);
    struct mare__watch *watch = mare__watch_new(mare__self(L)->shared.runtime, walk);
    if (!watch)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, watch);
    return 1;
}

static int watch_begun(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_REQUEST);
    struct mare__walk *walk = (struct mare__walk *)ref->object;
    mare_err err = mare__lua_job_outcome(L, &walk->job);
    int results = err ? 0 : push_watcher(L, walk);
    mare__handle_forget(L, ref); // with its descriptor, if nobody took that
    return err ? mare__lua_fail(L, err) : results;
}

// watch(path, recursive, limit, timeout)
int mare__lua_watch(lua_State *L)
{
    const char *path = mare__lua_name(L, 1);
    lua_Integer limit = luaL_checkinteger(L, 3);
    uint64_t deadline = mare__lua_deadline(L, 4);
    luaL_argcheck(L, limit > 0, 3, "a limit is positive");
    mare__block_check(L, mare__self(L));
    struct mare__walk *walk = mare__walk_new(mare__self(L)->shared.runtime, path,
                                             lua_toboolean(L, 2), (size_t)limit, NULL);
    if (!walk)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__handle_push_new(L, walk);
    if (!mare__job_start(&walk->job))
        return mare__lua_fail(L, MARE_NOMEM);
    return mare__lua_wait_job(L, &walk->job, deadline, watch_begun, 0);
}

// w:close()
static int watch_close(lua_State *L)
{
    struct mare__watch *watch = check(L);
    lua_pushboolean(L, !mare__watch_closed(watch));
    if (watch->walk)
        mare_chan_close(watch->walk->job.done); // for those who wait for it
    mare__observed_close(&watch->observed);
    return 1;
}

static int watch_leave(lua_State *L)
{
    return mare__handle_here(L, 1) ? watch_close(L) : 0;
}

// w:timeout([seconds])
static int watch_timeout(lua_State *L)
{
    struct mare__watch *watch = check(L);
    watch->timeout = MARE_FOREVER;
    if (!lua_isnoneornil(L, 2)) {
        lua_Number seconds = luaL_checknumber(L, 2);
        luaL_argcheck(L, seconds >= 0, 2, "a timeout cannot be negative");
        if (seconds < 1e9)
            watch->timeout = (uint64_t)(seconds * 1e9);
    }
    lua_settop(L, 1);
    return 1;
}

static int watch_tostring(lua_State *L)
{
    const struct mare__reference *ref = mare__lua_reference(L, 1, MARE__KIND_WATCH);
    const struct mare__watch *watch = (const struct mare__watch *)ref->object;
    if (mare__handle_moved(ref))
        lua_pushliteral(L, "watcher (sent)");
    else
        lua_pushfstring(L, "watcher %s%s", watch->path,
                        mare__watch_closed(watch) ? " (closed)" : "");
    return 1;
}

mare_err mare__watch_await(struct mare__object *object, mare_channel **channel)
{
    struct mare__watch *watch = (struct mare__watch *)object;
    if (mare__watch_closed(watch) || mare__watch_has_more(watch))
        return MARE_CLOSED;
    *channel = mare__observed_await(watch->runtime, &watch->observed, MARE__TO_READ);
    return *channel ? MARE_OK : MARE_NOMEM;
}

const luaL_Reg mare__watch_methods[] = {
    {"next", watch_next}, {"close", watch_close}, {"timeout", watch_timeout}, {NULL, NULL}};

const luaL_Reg mare__watch_metamethods[] = {
    {"__tostring", watch_tostring}, {"__close", watch_leave}, {NULL, NULL}};
