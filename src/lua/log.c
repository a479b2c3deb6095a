// SPDX-License-Identifier: MIT
// mare._log: what mare.log needs of the runtime's log. Lines, where they go, what all processes are
// told of it, and the time of day as text.
#include <string.h>

#include "loop/log.h"
#include "lua/binding.h"
#include "platform/wall.h"
#include "sched/marshal.h"

static struct mare__log *log_of(lua_State *L)
{
    struct mare__log *log = mare__log_of(mare__self(L)->shared.runtime);
    if (!log)
        mare__lua_no_memory(L);
    return log;
}

// put(line [, losses that it tells of]) -> whether there was room
static int log_put(lua_State *L)
{
    size_t length;
    const char *line = luaL_checklstring(L, 1, &length);
    unsigned long says = (unsigned long)luaL_optinteger(L, 2, 0);
    lua_pushboolean(L, mare__log_put(log_of(L), line, length, says));
    return 1;
}

// lose(losses that it would have told of or nil [, why]): a record was lost on its way
static int log_lose(lua_State *L)
{
    mare__log_lose(log_of(L), (unsigned long)luaL_optinteger(L, 1, 0), luaL_optstring(L, 2, NULL));
    return 0;
}

// direct(path or nil, size, keep, room, json)
static int log_direct(lua_State *L)
{
    if (!mare__log_direct(log_of(L), luaL_optstring(L, 1, NULL), (uint64_t)luaL_checkinteger(L, 2),
                          (unsigned)luaL_checkinteger(L, 3), (size_t)luaL_checkinteger(L, 4),
                          lua_toboolean(L, 5)))
        mare__lua_no_memory(L);
    return 0;
}

// set(settings [, channel])
static int log_set(lua_State *L)
{
    struct mare__log *log = log_of(L);
    mare_channel *channel = lua_isnoneornil(L, 2) ? NULL : mare__lua_channel(L, 2);
    mare_message message;
    struct mare__leaving *leaving = NULL;
    struct mare__account *payer = mare__paying;
    mare__message_init(&message);
    mare__paying = NULL; // the memory counts for no process: the message is for all
    mare_err err = mare__marshal(L, 1, 1, &message, "setting", &leaving);
    mare__paying = payer;
    mare__leaving_drop(&leaving);
    if (err)
        return mare__lua_refuse(L);
    mare__log_set(log, &message, channel ? mare_chan_ref(channel) : NULL);
    return 0;
}

// version() -> another number after each change of the settings
static int log_version(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)mare__log_version(log_of(L)));
    return 1;
}

// settings() -> what was set, or nothing
static int log_settings(lua_State *L)
{
    return mare__log_push(L, log_of(L));
}

// counts(says) -> waiting, written, lost, lost since it was last said, why the last one was
static int log_counts(lua_State *L)
{
    struct mare__log_counts counts;
    mare__log_count(log_of(L), lua_toboolean(L, 1), &counts);
    lua_pushinteger(L, (lua_Integer)counts.waiting);
    lua_pushinteger(L, (lua_Integer)counts.written);
    lua_pushinteger(L, (lua_Integer)counts.lost);
    lua_pushinteger(L, (lua_Integer)counts.unsaid);
    lua_pushstring(L, counts.why[0] ? counts.why : NULL);
    return 5;
}

// time() -> "2026-11-16T13:20:01.123Z"
static int log_time(lua_State *L)
{
    const mare_runtime *runtime = mare__self(L)->shared.runtime;
    struct mare__wall wall;
    char text[MARE__WALL_TEXT];
    runtime->platform.read_wall(runtime->platform.context, &wall);
    mare__wall_text(wall.utc_ns, text);
    lua_pushstring(L, text);
    return 1;
}

int mare__lua_open_log(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"put", log_put},       {"lose", log_lose},       {"direct", log_direct},
        {"set", log_set},       {"version", log_version}, {"settings", log_settings},
        {"counts", log_counts}, {"time", log_time},       {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
