// SPDX-License-Identifier: MIT
// Spawning processes, and what a reference to one can do.
#include <string.h>

#include "lua/binding.h"
#include "sched/foreign.h"
#include "sched/local.h"
#include "sched/process.h"
#include "sched/trace.h"
#include "sched/worker.h"

// ---- Spawn --------------------------------------------------------------------------------------

struct options {
    mare_spawn_options of_all;
    bool link;
    bool background; // the program does not wait for its end: for modules of ours
};

static void read_option(lua_State *L, const char *key, struct options *options)
{
    if (strcmp(key, "name") == 0) {
        luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, 1, "option 'name' must be a string");
        options->of_all.name = lua_tostring(L, -1); // the table of options keeps it
        luaL_argcheck(L, strlen(options->of_all.name) == lua_rawlen(L, -1), 1,
                      "a name cannot contain zero bytes");
    } else if (strcmp(key, "memory") == 0) {
        int whole; // 1e6 is
        lua_Integer bytes = lua_tointegerx(L, -1, &whole);
        luaL_argcheck(L, lua_type(L, -1) == LUA_TNUMBER && whole && bytes > 0, 1,
                      "option 'memory' must be a positive whole number of bytes");
        options->of_all.memory = (size_t)bytes;
    } else if (strcmp(key, "link") == 0) {
        luaL_argcheck(L, lua_isboolean(L, -1), 1, "option 'link' must be a boolean");
        options->link = lua_toboolean(L, -1);
    } else if (strcmp(key, "thread") == 0) {
        luaL_argcheck(L, lua_isboolean(L, -1), 1, "option 'thread' must be a boolean");
        options->of_all.thread = lua_toboolean(L, -1);
    } else if (strcmp(key, "_background") == 0) {
        options->background = lua_toboolean(L, -1);
    } else if (strcmp(key, "monitor") == 0) {
        struct mare__reference *ref = mare__handle_of(L, -1, MARE__KIND_CHANNEL);
        luaL_argcheck(L, ref || lua_isboolean(L, -1), 1,
                      "option 'monitor' must be true or a channel");
        if (ref) {
            options->of_all.monitor = (mare_channel *)ref->object;
        } else if (lua_toboolean(L, -1)) {
            mare_err err =
                mare__chan_create(mare__self(L)->shared.runtime, 1, NULL, &options->of_all.monitor);
            if (err)
                luaL_error(L, "%s", mare_strerror(err));
            mare__handle_push_new(L, options->of_all.monitor);
            lua_setfield(L, 1, "monitor"); // found there again below
        }
    } else {
        luaL_error(L, "bad argument #1 to 'spawn' (unknown option '%s')", key);
    }
}

static void read_options(lua_State *L, struct options *options)
{
    lua_newtable(L); // a copy: the program may use its table again
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_replace(L, 1);
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_argerror(L, 1, "options must have names");
        read_option(L, lua_tostring(L, -2), options);
        lua_pop(L, 1);
    }
}

// Whether it looks like the name of a file: "worker.lua". No such line is a piece of Lua that
// compiles.
static bool names_file(const char *code, size_t length)
{
    return length > 4 && strcmp(code + length - 4, ".lua") == 0 && strlen(code) == length &&
           !strchr(code, '\n');
}

// Whether it is one word, as the name of a file or a module would be.
static bool is_word(const char *code, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_./-";
    return length > 0 && strspn(code, letters) == length;
}

// What else may be wrong with such a string, or "".
static const char *hint_of(int status, const char *code, size_t length)
{
    if (status == LUA_ERRFILE)
        return " (paths are relative to the working folder)";
    if (is_word(code, length) && !names_file(code, length))
        return " (a string is Lua code; the name of a file ends with .lua)";
    return "";
}

// Replaces source, or the name of a file, by a function; a mistake in it is the caller's.
static void compile_body(lua_State *L, int body)
{
    size_t length;
    const char *code = lua_tolstring(L, body, &length);
    int status = luaL_loadbuffer(L, code, length, code);
    if (status != LUA_OK && names_file(code, length)) {
        lua_pop(L, 1);
        status = luaL_loadfile(L, code);
    }
    if (status != LUA_OK) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_pushstring(L, hint_of(status, code, length));
        lua_concat(L, 3);
        lua_error(L);
    }
    lua_replace(L, body);
}

int mare__lua_spawn(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    mare_runtime *runtime = self->shared.runtime;
    struct options options = {0};
    int body = lua_istable(L, 1) ? 2 : 1;
    if (body == 2 && lua_getfield(L, 1, "node") != LUA_TNIL) {
        lua_pop(L, 1);
        return mare__lua_node(L, "spawn");
    }
    if (body == 2) {
        lua_pop(L, 1);
        read_options(L, &options);
    }
    int type = lua_type(L, body);
    if (type == LUA_TSTRING)
        compile_body(L, body);
    else if (type != LUA_TFUNCTION)
        return luaL_typeerror(L, body, "function or string");
    if (atomic_load_explicit(&runtime->stopping, memory_order_relaxed))
        return mare__lua_fail(L, MARE_STOPPED);
    struct mare__leaving *leaving = NULL;
    struct mare__local *process = mare__local_new(runtime);
    if (!process)
        return mare__lua_fail(L, MARE_NOMEM);
    int top = lua_gettop(L);
    mare__handle_push_new(L, process); // now, so that an error cannot lose it
    mare__modules_inherit(L, process);
    mare_message *message = &process->sleep.wait.message;
    if (mare__marshal_body(L, body, top - body + 1, message, &leaving, NULL) != MARE_OK)
        return mare__lua_refuse(L);
    process->luaproc = self->luaproc;
    mare_err err = mare__local_equip(process, &options.of_all, options.link ? &self->shared : NULL);
    if (!err && options.background) {
        process->given_up = true;
        atomic_fetch_add(&runtime->given_up, 1);
    }
    if (err)
        mare__leaving_drop(&leaving);
    if (err == MARE_EXISTS) {
        lua_pushfstring(L, "the name '%s' is taken", options.of_all.name);
        return mare__lua_fail_with(L, err);
    }
    if (err)
        return mare__lua_fail(L, err);
    mare__local_launch(process);
    if (leaving)
        mare__leaving_end(L, &leaving, 0, true);
    if (!options.of_all.monitor)
        return 1;
    lua_getfield(L, 1, "monitor");
    return 2;
}

// ---- References ---------------------------------------------------------------------------------

int mare__lua_push_end(lua_State *L, mare_process *process)
{
    int top;
    mare__trace_receive(mare__self(L), NULL, process->result);
    switch (process->how) {
    case MARE_OK:
        lua_pushboolean(L, 1);
        return 1 + mare__unmarshal(L, process->result);
    case MARE_DIED:
        lua_pushnil(L);
        top = lua_gettop(L);
        mare__unmarshal(L, process->result);
        lua_settop(L, top + 2); // keep the error and the traceback; what is printed comes above
        lua_pushstring(L, mare__err_word(MARE_DIED));
        lua_insert(L, -2);
        return 4;
    case MARE_KILLED:
        if (!process->kill_reason)
            return mare__lua_fail(L, MARE_KILLED);
        lua_pushstring(L, process->kill_reason);
        return mare__lua_fail_with(L, MARE_KILLED);
    default:
        mare__unmarshal(L, process->result);
        return mare__lua_fail_with(L, process->how);
    }
}

static int join_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    if (self->sleep.wait.result == MARE_CLOSED)
        return mare__lua_push_end(L, mare__lua_process(L, 1));
    mare__process_unawait(mare__lua_process(L, 1));
    return mare__lua_fail(L, self->sleep.wait.result);
}

static int process_join(lua_State *L)
{
    mare_process *process = mare__lua_process(L, 1);
    struct mare__local *self = mare__self(L);
    uint64_t deadline = mare__lua_deadline(L, 2);
    if (process == &self->shared)
        return luaL_error(L, "a process cannot join itself");
    mare__block_check(L, self);
    mare_channel *ended;
    mare_err err = mare__process_await(process, true, &ended);
    if (err == MARE_OK)
        return mare__block(L, self, MARE__WAITS_TO_RECEIVE, ended, deadline, join_done, 0);
    return err == MARE_CLOSED ? mare__lua_push_end(L, process) : mare__lua_fail(L, err);
}

static int process_kill(lua_State *L)
{
    mare_process *process = mare__lua_process(L, 1);
    struct mare__local *self = mare__self(L);
    bool alive = mare__process_kill(process, luaL_optstring(L, 2, NULL));
    if (process == &self->shared && mare__block_possible(L, self) && !self->host) {
        self->yield = MARE__YIELD_TURN;
        return lua_yield(L, 0); // and never comes back
    }
    lua_pushboolean(L, alive);
    return 1;
}

static int process_alive(lua_State *L)
{
    lua_pushboolean(L, mare_process_alive(mare__lua_process(L, 1)));
    return 1;
}

static int process_status(lua_State *L)
{
    lua_pushstring(L, mare__process_status(mare__lua_process(L, 1)));
    return 1;
}

static int process_id(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)mare__lua_process(L, 1)->id);
    return 1;
}

static int process_name(lua_State *L)
{
    lua_pushstring(L, mare__lua_process(L, 1)->name);
    return 1;
}

static int process_link(lua_State *L)
{
    mare_process *process = mare__lua_process(L, 1);
    if (!mare__handle_affords(L, sizeof(struct mare__tie)) ||
        !mare__process_tie(&mare__self(L)->shared, process))
        return mare__lua_fail(L, MARE_NOMEM);
    lua_pushboolean(L, 1);
    return 1;
}

static int process_unlink(lua_State *L)
{
    mare__process_untie(&mare__self(L)->shared, mare__lua_process(L, 1));
    lua_pushboolean(L, 1);
    return 1;
}

static int process_monitor(lua_State *L)
{
    mare_process *process = mare__lua_process(L, 1);
    mare_channel *channel;
    if (lua_isnoneornil(L, 2)) {
        mare_err err = mare__chan_create(process->runtime, 1, NULL, &channel);
        if (err)
            return mare__lua_fail(L, err);
        mare__handle_push_new(L, channel);
    } else {
        channel = mare__lua_channel(L, 2);
        lua_settop(L, 2);
    }
    bool done = mare__handle_affords(L, sizeof(struct mare__monitor)) &&
                mare__process_monitor(process, channel);
    return done ? 1 : mare__lua_fail(L, MARE_NOMEM);
}

static int process_tostring(lua_State *L)
{
    mare_process *process = mare__lua_process(L, 1);
    lua_pushfstring(L, "process %I", (lua_Integer)process->id);
    if (process->name) {
        lua_pushfstring(L, " (%s)", process->name);
        lua_concat(L, 2);
    }
    return 1;
}

const luaL_Reg mare__process_methods[] = {{"join", process_join},       {"kill", process_kill},
                                          {"alive", process_alive},     {"status", process_status},
                                          {"id", process_id},           {"name", process_name},
                                          {"link", process_link},       {"unlink", process_unlink},
                                          {"monitor", process_monitor}, {NULL, NULL}};

const luaL_Reg mare__process_metamethods[] = {{"__tostring", process_tostring}, {NULL, NULL}};
