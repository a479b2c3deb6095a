// SPDX-License-Identifier: MIT
// Sources of kinds written in C, in Lua; and what a C module needs to bring one.
#include "loop/source.h"

#include "lua/binding.h"
#include "lua/net.h"

static mare_source *check(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_SOURCE);
    if (!ref || !ref->object)
        mare__lua_no_reference(L, index, ref, "source");
    return (mare_source *)ref->object;
}

int mare__lua_fail_source(lua_State *L, struct mare__object *object, mare_err err)
{
    mare_source *source = (mare_source *)object;
    mare_err outcome = mare_source_outcome(source);
    if (err != MARE_CLOSED || outcome != MARE_CLOSED)
        return mare__lua_fail(L, err == MARE_CLOSED && outcome ? outcome : err);
    lua_pushfstring(L, "the source '%s' has ended", source->kind->name);
    return mare__lua_fail_with(L, err);
}

static int next_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__local *self = mare__self(L);
    mare__block_clean(self);
    if (self->sleep.wait.result)
        return mare__lua_fail_source(L, &check(L, 1)->object, self->sleep.wait.result);
    return mare__unmarshal_own(L, &self->sleep.wait.message);
}

// s:next([timeout])
static int source_next(lua_State *L)
{
    struct mare__local *self = mare__self(L);
    mare_source *source = check(L, 1);
    uint64_t deadline = mare__lua_deadline(L, 2);
    mare_message event;
    mare_err err = mare__chan_receive(source->events, &event, NULL);
    if (err == MARE_OK)
        return mare__unmarshal_own(L, &event);
    if (err != MARE_EMPTY)
        return mare__lua_fail_source(L, &source->object, err);
    mare__block_check(L, self);
    return mare__block(L, self, MARE__WAITS_TO_RECEIVE, source->events, deadline, next_done, 0);
}

// s:close()
static int source_close(lua_State *L)
{
    lua_pushboolean(L, mare_source_close(check(L, 1)));
    return 1;
}

static int source_tostring(lua_State *L)
{
    mare_source *source = check(L, 1);
    lua_pushfstring(L, "source %s%s", source->kind->name,
                    mare_source_outcome(source) ? " (ended)" : "");
    return 1;
}

const luaL_Reg mare__source_methods[] = {
    {"next", source_next}, {"close", source_close}, {NULL, NULL}};
const luaL_Reg mare__source_metamethods[] = {
    {"__tostring", source_tostring}, {"__close", source_close}, {NULL, NULL}};

mare_err mare__source_events(struct mare__object *object, mare_channel **channel)
{
    *channel = ((mare_source *)object)->events;
    return MARE_OK;
}

// device(path)
static int source_device(lua_State *L)
{
    mare_source *source;
    int err = mare__device_source(mare__self(L)->shared.runtime, mare__lua_name(L, 1), &source);
    if (err)
        return mare__lua_fail_system(L, err);
    mare__handle_push_new(L, source);
    return 1;
}

int mare__lua_open_source(lua_State *L)
{
    static const luaL_Reg functions[] = {{"device", source_device}, {NULL, NULL}};
    mare__lazy_table(L, functions);
    return 1;
}

// ---- For C modules ------------------------------------------------------------------------------

// In the state of a host, what its threads have in their extra space is not ours to rely on.
static struct mare__local *process_of(lua_State *L)
{
    struct mare__local *process = NULL;
    if (lua_rawgeti(L, LUA_REGISTRYINDEX, MARE__REGISTRY_HOST) == LUA_TUSERDATA)
        process = *(struct mare__local **)lua_touserdata(L, -1);
    else
        process = mare__self(L);
    lua_pop(L, 1);
    return process;
}

mare_runtime *mare_lua_runtime(struct lua_State *L)
{
    struct mare__local *process = process_of(L);
    return process ? process->shared.runtime : NULL;
}

void mare_lua_push_source(struct lua_State *L, mare_source *source)
{
    *(struct mare__local **)lua_getextraspace(L) = process_of(L);
    mare__handle_push(L, source);
}
