// SPDX-License-Identifier: MIT
// `require "mare"` under the stock interpreter, or in any Lua state that is not ours: the first one
// starts the runtime, and the end of that state waits for the processes, as luaproc does. The
// state's thread sleeps where a process would yield.
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "loop/log.h"
#include "lua/binding.h"
#include "sched/foreign.h"
#include "sched/runtime.h"

static mare_runtime *shared; // the one mutable global: the runtime of the host, for its lifetime
static pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;

struct host {
    struct mare__local *process; // first, where the functions look for it; NULL after the end
    struct mare__parker parker;
};

static mare_runtime *join_shared(lua_State *L)
{
    mare_err err = MARE_OK;
    pthread_mutex_lock(&shared_mutex);
    if (!shared)
        err = mare_start(NULL, &shared);
    users += !err;
    mare_runtime *runtime = shared;
    pthread_mutex_unlock(&shared_mutex);
    if (err)
        luaL_error(L, "cannot start the runtime: %s", mare_strerror(err));
    return runtime;
}

// Whether nobody else uses the runtime any more. Then the caller must stop it.
static bool leave_shared(void)
{
    pthread_mutex_lock(&shared_mutex);
    bool last = --users == 0;
    if (last)
        shared = NULL;
    pthread_mutex_unlock(&shared_mutex);
    return last;
}

// The state ends. The last one that uses the runtime waits for its processes.
static int host_close(lua_State *L)
{
    struct host *host = lua_touserdata(L, 1);
    struct mare__local *process = host->process;
    mare_runtime *runtime = process ? process->shared.runtime : NULL;
    if (!process || !mare__runtime_valid(runtime))
        return 0;
    host->process = NULL;
    bool last = leave_shared();
    mare_err err = MARE_OK;
    mare__handles_drop(process);
    if (last) {
        err = mare__runtime_await(runtime, true, MARE_FOREVER);
        if (err == MARE_DEADLOCK && mare__log_end(runtime))
            err = mare__runtime_await(runtime, true, MARE_FOREVER);
        if (err == MARE_DEADLOCK) {
            char *stuck = mare__stuck_text(runtime);
            mare__deadlock_report(runtime, NULL, stuck);
            free(stuck);
        }
    }
    mare_process_unref(&process->shared);
    if (last && err != MARE_STOPPED) // otherwise a thread may be stuck, and ends with the program
        mare_stop(runtime);
    return 0;
}

// The host's own process, made on first use.
static struct mare__local *host_process(lua_State *L)
{
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_HOST) == LUA_TUSERDATA) {
        struct host *host = lua_touserdata(L, -1);
        lua_pop(L, 1);
        if (!host->process)
            luaL_error(L, "the runtime has ended");
        return host->process;
    }
    lua_pop(L, 1);
    struct host *host = lua_newuserdatauv(L, sizeof *host, 0);
    *host = (struct host){0};
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, host_close);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    mare_runtime *runtime = join_shared(L);
    host->process = mare__host_open(runtime, &host->parker);
    if (!host->process) {
        if (leave_shared())
            mare_stop(runtime);
        mare__lua_no_memory(L);
    }
    lua_rawseti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_HOST);
    return host->process;
}

int mare__lua_host_open(lua_State *L, lua_CFunction open)
{
    *(struct mare__local **)lua_getextraspace(L) = host_process(L);
    return open(L);
}
