// SPDX-License-Identifier: MIT
// The options of streams, listeners and sockets in Lua: what Lua gives for each, and what it gets.
#include "platform/option.h"

#include <stdio.h>
#include <string.h>

#include "lua/net.h"

static int get_number(lua_State *L, int index, lua_Integer least, lua_Integer most, const char *why)
{
    lua_Integer value = luaL_checkinteger(L, index);
    luaL_argcheck(L, value >= least && value <= most, index, why);
    return (int)value;
}

// What is given from `index` on.
static struct mare__option_value check_value(lua_State *L, const struct mare__option *option,
                                             int index)
{
    struct mare__option_value value = {0};
    switch (option->kind) {
    case MARE__OPTION_LINGER:
        value.seconds = get_number(L, index + 1, 0, INT32_MAX, "seconds cannot be negative");
        // fall through
    case MARE__OPTION_FLAG:
        luaL_checktype(L, index, LUA_TBOOLEAN);
        value.number = lua_toboolean(L, index);
        break;
    case MARE__OPTION_HOPS:
        value.number = get_number(L, index, strcmp(option->name, "ttl") == 0, 255,
                                  "the number of hops must be 255 or less");
        break;
    case MARE__OPTION_BYTES:
        value.number =
            get_number(L, index, 0, INT32_MAX / 2, "a number of bytes cannot be negative");
        break;
    case MARE__OPTION_NUMBER:
        value.number = get_number(L, index, INT32_MIN, INT32_MAX, "it is too large");
        break;
    case MARE__OPTION_INTERFACE:
        snprintf(value.interface, sizeof value.interface, "%s", mare__lua_name(L, index));
        break;
    case MARE__OPTION_ERROR:
        luaL_argerror(L, index, "it cannot be set");
    }
    return value;
}

// The value, of lingering the seconds too; of an error its message, or nil.
static int push_value(lua_State *L, const struct mare__option *option,
                      const struct mare__option_value *value)
{
    switch (option->kind) {
    case MARE__OPTION_LINGER:
        lua_pushboolean(L, value->number);
        lua_pushinteger(L, value->seconds);
        return 2;
    case MARE__OPTION_FLAG:
        lua_pushboolean(L, value->number);
        return 1;
    case MARE__OPTION_INTERFACE:
        lua_pushstring(L, value->interface);
        return 1;
    case MARE__OPTION_ERROR:
        if (value->number)
            return mare__lua_fail_system(L, value->number);
        lua_pushnil(L);
        return 1;
    default:
        lua_pushinteger(L, value->number);
        return 1;
    }
}

// s:option(name[, value]): what it is; or sets it, and returns the socket.
int mare__lua_stream_option(lua_State *L)
{
    struct mare__stream *stream = mare__lua_any_stream(L, 1);
    const char *name = luaL_checkstring(L, 2);
    const struct mare__option *option = mare__option_find(name);
    struct mare__option_value value = {0};
    if (!option)
        return luaL_argerror(L, 2, lua_pushfstring(L, "invalid option '%s'", name));
    bool sets = !lua_isnoneornil(L, 3);
    if (sets)
        value = check_value(L, option, 3);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    int fd = mare__stream_descriptor(stream);
    int err = sets ? mare__option_set(fd, option, &value) : mare__option_get(fd, option, &value);
    if (err)
        return mare__lua_fail_system(L, -err);
    if (!sets)
        return push_value(L, option, &value);
    lua_settop(L, 1);
    return 1;
}
