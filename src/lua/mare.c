// SPDX-License-Identifier: MIT
// The module `mare`: its table of functions, and those that are neither a channel's nor a
// process's.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lua/binding.h"
#include "lua/embedded.h"
#include "sched/look.h"
#include "sched/process.h"
#include "sched/runtime.h"
#include "sched/worker.h"

#define VERSION "0.1.0"

static int mare_self(lua_State *L)
{
    mare__handle_push(L, mare_process_ref(&mare__self(L)->shared));
    return 1;
}

static int node_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    return lua_gettop(L);
}

int mare__lua_node(lua_State *L, const char *function)
{
    static const char module[] = "mare.node";
    if (lua_getfield(L, LUA_REGISTRYINDEX, module) != LUA_TTABLE) {
        lua_pop(L, 1);
        mare__lua_push_embedded(L, module);
        lua_pushvalue(L, -1);
        lua_setfield(L, LUA_REGISTRYINDEX, module);
    }
    lua_getfield(L, -1, function);
    lua_remove(L, -2);
    lua_insert(L, 1);
    lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, node_done);
    return node_done(L, LUA_OK, 0);
}

// find(name) or find(name@node [, timeout])
static int mare_find(lua_State *L)
{
    const char *name = mare__lua_name(L, 1);
    if (strchr(name, '@'))
        return mare__lua_node(L, "find");
    struct mare__object *object = mare__directory_find(mare__self(L)->shared.runtime->names, name);
    if (!object) {
        lua_pushfstring(L, "nobody has the name '%s'", name);
        return mare__lua_fail_with(L, MARE_NONAME);
    }
    mare__handle_push(L, object);
    return 1;
}

static int mare_workers(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    if (!lua_isnoneornil(L, 1)) {
        lua_Integer count = luaL_checkinteger(L, 1);
        luaL_argcheck(L, count >= 1 && count <= MARE__WORKERS_MAX, 1,
                      "the number of workers is 1 to 1024");
        mare_err err = mare__workers_set(runtime, (unsigned)count);
        if (err)
            return mare__lua_fail(L, err);
    }
    lua_pushinteger(L, atomic_load(&runtime->worker_count));
    return 1;
}

static int mare_recycle(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    if (!lua_isnoneornil(L, 1)) {
        lua_Integer count = luaL_checkinteger(L, 1);
        luaL_argcheck(L, count >= 0 && count <= UINT32_MAX / 2, 1,
                      "the number of states is 0 or more");
        mare_set_recycle(runtime, (unsigned)count);
    }
    lua_pushinteger(L, atomic_load(&runtime->recycle_limit));
    return 1;
}

// ---- Time ---------------------------------------------------------------------------------------

static int mare_now(lua_State *L)
{
    lua_pushnumber(L, (double)mare__now(mare__self(L)->shared.runtime) / 1e9);
    return 1;
}

static int sleep_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    return self->sleep.wait.result == MARE_TIMEOUT ? 0 : mare__lua_fail(L, self->sleep.wait.result);
}

static int mare_sleep(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    if (lua_isnoneornil(L, 1))
        return luaL_typeerror(L, 1, "number of seconds or deadline");
    uint64_t deadline = mare__lua_deadline(L, 1);
    mare__block_check(L, process);
    return mare__block(L, process, MARE__WAITS_FOR_TIME, NULL, deadline, sleep_done, 0);
}

static int mare_yield(lua_State *L)
{
    struct mare__local *process = mare__self(L);
    if (process->host || !mare__block_possible(L, process))
        return 0;
    process->yield = MARE__YIELD_TURN;
    return lua_yield(L, 0);
}

static int deadline_left(lua_State *L)
{
    uint64_t deadline = *(uint64_t *)luaL_checkudata(L, 1, "mare.deadline");
    uint64_t now = mare__now(mare__self(L)->shared.runtime);
    lua_pushnumber(L, deadline == MARE_FOREVER ? (double)INFINITY
                      : deadline > now         ? (double)(deadline - now) / 1e9
                                               : 0.0);
    return 1;
}

static int mare_deadline(lua_State *L)
{
    luaL_checknumber(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 1);
    *(uint64_t *)lua_newuserdatauv(L, sizeof deadline, 0) = deadline;
    if (luaL_newmetatable(L, "mare.deadline")) {
        lua_createtable(L, 0, 1);
        mare__function_push(L, deadline_left);
        lua_setfield(L, -2, "left");
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
    return 1;
}

// ---- The program's end --------------------------------------------------------------------------

// A process other than this one that is alive, with a reference.
static mare_process *another(struct mare__local *self)
{
    mare_runtime *runtime = self->shared.runtime;
    mare_process *found = NULL;
    mare__lock_acquire(&runtime->process_lock);
    for (struct mare__list *l = runtime->processes.next; l != &runtime->processes && !found;
         l = l->next) {
        struct mare__local *process = MARE__ENTRY(l, struct mare__local, in_all);
        if (process != self)
            found = mare_process_ref(&process->shared);
    }
    mare__lock_release(&runtime->process_lock);
    return found;
}

static int wait_for_others(lua_State *L, uint64_t deadline);

static int wait_done(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    if (self->sleep.wait.result != MARE_CLOSED)
        return mare__lua_fail(L, self->sleep.wait.result);
    return wait_for_others(L, (uint64_t)context);
}

// Waits for one process after the other, as long as there is one.
static int wait_for_others(lua_State *L, uint64_t deadline)
{
    struct mare__local *self = mare__self(L);
    mare_process *process;
    while ((process = another(self)) != NULL) {
        mare_channel *ended;
        lua_settop(L, 0);
        mare__handle_push(L, process); // the stack keeps it, and with it the channel
        mare_err err = mare__process_await(process, false, &ended);
        if (err == MARE_OK)
            return mare__block(L, self, MARE__WAITS_TO_RECEIVE, ended, deadline, wait_done,
                               (lua_KContext)deadline);
        if (err != MARE_CLOSED)
            return mare__lua_fail(L, err);
    }
    lua_pushboolean(L, 1);
    return 1;
}

int mare__lua_wait(lua_State *L)
{
    uint64_t deadline = mare__lua_deadline(L, 1);
    mare__block_check(L, mare__self(L));
    return wait_for_others(L, deadline);
}

static int mare_exit(lua_State *L)
{
    return mare__exit(L);
}

// ---- What can be watched ------------------------------------------------------------------------

static void set_integer(lua_State *L, const char *key, uint64_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, key);
}

static void set_name(lua_State *L, const char *name)
{
    if (*name) {
        lua_pushstring(L, name);
        lua_setfield(L, -2, "name");
    }
}

static void set_text(lua_State *L, const char *key, const char *text)
{
    if (!*text)
        return;
    lua_pushstring(L, text);
    lua_setfield(L, -2, key);
}

// Notes in the table on top of the stack where a waiting routine is, and what it waits for.
static void set_wait(lua_State *L, const mare_process_info *info, const mare_process_info *rows,
                     size_t count)
{
    char text[MARE__WAIT_TEXT];
    set_text(L, "at", info->at);
    set_text(L, "waits", info->waits);
    mare__wait_text(info, rows, count, text);
    set_text(L, "waits_text", *text ? text + 1 : text);
    const char *word = info->cases > 0 ? info->first : info->waits;
    bool channel = strcmp(word, "send") == 0 || strcmp(word, "receive") == 0;
    if (info->waits_for)
        set_integer(L, channel ? "channel" : "process", info->waits_for);
}

static void push_process(lua_State *L, const mare_process_info *info, const mare_process_info *rows,
                         size_t count)
{
    lua_createtable(L, 0, 8);
    set_integer(L, "id", info->id);
    set_integer(L, "memory", info->memory);
    set_integer(L, "slices", info->slices);
    lua_pushnumber(L, (lua_Number)info->cpu_ns / 1e9);
    lua_setfield(L, -2, "cpu");
    set_text(L, "status", info->status);
    set_name(L, info->name);
    set_wait(L, info, rows, count);
}

static void push_channel(lua_State *L, const void *row)
{
    const mare_chan_info *info = row;
    lua_createtable(L, 0, 8);
    set_integer(L, "id", info->id);
    set_integer(L, "capacity", info->capacity);
    set_integer(L, "buffered", info->buffered);
    set_integer(L, "senders", info->senders);
    set_integer(L, "receivers", info->receivers);
    set_integer(L, "sent", info->sent);
    lua_pushboolean(L, info->closed);
    lua_setfield(L, -2, "closed");
    set_name(L, info->name);
}

// Pushes a list of the rows of a picture. Processes may have come since its size was asked for;
// those without room are left out.
static int push_rows(lua_State *L, const char *rows, size_t size, size_t count, size_t room,
                     void (*push)(lua_State *L, const void *row))
{
    if (count > room)
        count = room;
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push(L, rows + i * size);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

enum { NEWCOMERS = 16 }; // room for processes that come between the two calls

// A table for each process. If it has several routines, with a list of them.
static int mare_processes(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    size_t room = mare__list_routines(runtime, NULL, 0) + NEWCOMERS;
    mare_process_info *rows = lua_newuserdatauv(L, room * sizeof *rows, 0);
    size_t count = mare__list_routines(runtime, rows, room);
    lua_Integer processes = 0;
    count = count < room ? count : room;
    lua_newtable(L);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || rows[i].id != rows[i - 1].id) {
            push_process(L, &rows[i], rows, count);
            lua_rawseti(L, -2, ++processes);
        }
        if (rows[i].routines > 1) {
            lua_rawgeti(L, -1, processes);
            luaL_getsubtable(L, -1, "routines");
            lua_createtable(L, 0, 4);
            set_integer(L, "id", rows[i].routine);
            set_wait(L, &rows[i], rows, count);
            lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
            lua_pop(L, 2);
        }
    }
    return 1;
}

static int mare_channels(lua_State *L)
{
    mare_runtime *runtime = mare__self(L)->shared.runtime;
    size_t room = mare_list_channels(runtime, NULL, 0) + NEWCOMERS;
    mare_chan_info *rows = lua_newuserdatauv(L, room * sizeof *rows, 0);
    size_t count = mare_list_channels(runtime, rows, room);
    return push_rows(L, (const char *)rows, sizeof *rows, count, room, push_channel);
}

static int lua_stats(lua_State *L)
{
    mare_stats stats;
    mare_get_stats(mare__self(L)->shared.runtime, &stats);
    lua_createtable(L, 0, 10);
    set_integer(L, "spawned", stats.spawned);
    set_integer(L, "live", stats.live);
    set_integer(L, "switches", stats.switches);
    set_integer(L, "preemptions", stats.preemptions);
    set_integer(L, "steals", stats.steals);
    set_integer(L, "recycled", stats.recycled);
    set_integer(L, "sent", stats.sent);
    set_integer(L, "received", stats.received);
    set_integer(L, "timers", stats.timers);
    set_integer(L, "workers", stats.workers);
    return 1;
}

// ---- The module ---------------------------------------------------------------------------------

static const luaL_Reg functions[] = {{"spawn", mare__lua_spawn},
                                     {"channel", mare__lua_channel_new},
                                     {"select", mare__lua_select},
                                     {"self", mare_self},
                                     {"find", mare_find},
                                     {"sleep", mare_sleep},
                                     {"now", mare_now},
                                     {"deadline", mare_deadline},
                                     {"yield", mare_yield},
                                     {"wait", mare__lua_wait},
                                     {"go", mare__lua_go},
                                     {"_needs_routines", mare__lua_needs_routines},
                                     {"_routine", mare__lua_routine},
                                     {"_heir", mare__lua_heir},
                                     {"_appoint", mare__lua_appoint},
                                     {"timer", mare__lua_timer},
                                     {"exit", mare_exit},
                                     {"buffer", mare__lua_buffer_new},
                                     {"workers", mare_workers},
                                     {"recycle", mare_recycle},
                                     {"stats", lua_stats},
                                     {"processes", mare_processes},
                                     {"channels", mare_channels},
                                     {NULL, NULL}};

static int open_embedded(lua_State *L)
{
    const char *name = mare__lua_name(L, 1);
    for (size_t i = 0; i < mare__embedded_count; i++)
        if (strcmp(mare__embedded[i].name, name) == 0) {
            lua_pushfstring(L, "=%s", name);
            if (luaL_loadbuffer(L, mare__embedded[i].source, mare__embedded[i].length,
                                lua_tostring(L, -1)) != LUA_OK)
                return lua_error(L);
            lua_pushvalue(L, 1);
            lua_call(L, 1, 1);
            return 1;
        }
    return luaL_error(L, "module '%s' is not embedded", name);
}

void mare__lua_push_embedded(lua_State *L, const char *name)
{
    lua_pushcfunction(L, open_embedded);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
}

// Modules in C: the name, what a host calls to open it, what opens it in a state of ours.
#define MODULES(M)                                                                                 \
    M("luaproc", luaopen_luaproc, mare__lua_open_luaproc)                                          \
    M("mare", luaopen_mare, mare__lua_open)                                                        \
    M("mare._certificate", luaopen_mare__certificate, mare__lua_open_certificate)                  \
    M("mare._child", luaopen_mare__child, mare__lua_open_child)                                    \
    M("mare._file", luaopen_mare__file, mare__lua_open_file)                                       \
    M("mare._http", luaopen_mare__http, mare__lua_open_http)                                       \
    M("mare._http2", luaopen_mare__http2, mare__lua_open_http2)                                    \
    M("mare._log", luaopen_mare__log, mare__lua_open_log)                                          \
    M("mare._net", luaopen_mare__net, mare__lua_open_net)                                          \
    M("mare._node", luaopen_mare__node, mare__lua_open_node)                                       \
    M("mare._party", luaopen_mare__party, mare__lua_open_group)                                    \
    M("mare._postgres", luaopen_mare__postgres, mare__lua_open_postgres)                           \
    M("mare._secret", luaopen_mare__secret, mare__lua_open_secret)                                 \
    M("mare._sim", luaopen_mare__sim, mare__lua_open_sim)                                          \
    M("mare._socket", luaopen_mare__socket, mare__lua_open_socket)                                 \
    M("mare._source", luaopen_mare__source, mare__lua_open_source)                                 \
    M("mare._sqlite", luaopen_mare__sqlite, mare__lua_open_sqlite)                                 \
    M("mare._terminal", luaopen_mare__terminal, mare__lua_open_terminal)                           \
    M("mare._tls", luaopen_mare__tls, mare__lua_open_tls)                                          \
    M("mare._websocket", luaopen_mare__websocket, mare__lua_open_websocket)                        \
    M("mare._zip", luaopen_mare__zip, mare__lua_open_zip)                                          \
    M("mare.json", luaopen_mare_json, mare__lua_open_json)                                         \
    M("mare.place", luaopen_mare_place, mare__lua_open_place)                                      \
    M("mare.signal", luaopen_mare_signal, mare__lua_open_signal)                                   \
    M("mare.time", luaopen_mare_time, mare__lua_open_time)

// Modules that need no file: in C, or in Lua and part of the program.
static lua_CFunction module_of(const char *name)
{
#define OPENED_BY(module, host_open, open)                                                         \
    if (strcmp(name, module) == 0)                                                                 \
        return open;
    MODULES(OPENED_BY)
#undef OPENED_BY
    for (size_t i = 0; i < mare__embedded_count; i++)
        if (strcmp(mare__embedded[i].name, name) == 0)
            return open_embedded;
    return NULL;
}

static const luaL_Reg nothing[] = {{NULL, NULL}};

static const struct mare__class classes[] = {
    [MARE__KIND_CHANNEL] = {"channel", mare__channel_methods, mare__channel_metamethods, NULL},
    [MARE__KIND_PROCESS] = {"process", mare__process_methods, mare__process_metamethods, NULL},
    [MARE__KIND_BUFFER] = {"buffer", mare__buffer_methods, mare__buffer_metamethods, NULL},
    [MARE__KIND_STREAM] = {"stream", mare__stream_methods, mare__stream_metamethods,
                           mare__stream_await},
    [MARE__KIND_LISTENER] = {"listener", mare__listener_methods, mare__stream_metamethods,
                             mare__stream_await},
    [MARE__KIND_UDP] = {"socket", mare__udp_methods, mare__udp_metamethods, mare__stream_await},
    [MARE__KIND_FILE] = {"file", mare__file_methods, mare__file_metamethods, NULL},
    [MARE__KIND_FOLDER] = {"folder", mare__folder_methods, mare__file_metamethods, NULL},
    [MARE__KIND_WATCH] = {"watcher", mare__watch_methods, mare__watch_metamethods,
                          mare__watch_await},
    [MARE__KIND_TIMER] = {"timer", mare__timer_methods, mare__timer_metamethods, mare__timer_await},
    [MARE__KIND_TLS] = {"tls context", mare__tls_methods, nothing, NULL},
    [MARE__KIND_SECRET] = {"secret", nothing, mare__secret_metamethods, NULL},
    [MARE__KIND_CHILD] = {"child", NULL, mare__child_metamethods, mare__child_await_end},
    [MARE__KIND_SIGNALS] = {"signals", mare__signals_methods, mare__signals_metamethods,
                            mare__signals_await},
    [MARE__KIND_SOURCE] = {"source", mare__source_methods, mare__source_metamethods,
                           mare__source_events},
    [MARE__KIND_SESSION] = {"session", mare__session_methods, nothing, NULL},
    [MARE__KIND_REQUEST] = {"request", nothing, nothing, NULL},
    [MARE__KIND_CODE] = {"code", nothing, nothing, NULL},
};

int mare__lua_open(lua_State *L)
{
    mare__lazy_table(L, functions);
    lua_pushliteral(L, VERSION);
    lua_setfield(L, -2, "version");
    return 1;
}

mare_err mare__start_on(const struct mare__platform *platform, const mare_options *options,
                        mare_runtime **out)
{
    return mare__runtime_start(platform, options, module_of, classes, out);
}

mare_err mare_start(const mare_options *options, mare_runtime **out)
{
    return mare__start_on(&mare__platform_live, options, out);
}

// Only hosts call these: states of ours have the modules without them.
#define OPENED_IN_A_HOST(module, host_open, open)                                                  \
    MARE_API int host_open(lua_State *L);                                                          \
    int host_open(lua_State *L)                                                                    \
    {                                                                                              \
        return mare__lua_host_open(L, open);                                                       \
    }
MODULES(OPENED_IN_A_HOST)
