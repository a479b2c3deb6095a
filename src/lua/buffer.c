// SPDX-License-Identifier: MIT
// Blocks of bytes that change hands without being copied. A buffer has one owner: sending it
// empties the sender's.
#include <string.h>

#include "base/alloc.h"
#include "lua/binding.h"

struct buffer {
    struct mare__object object;
    size_t length;
    char bytes[];
};

static void destroy(struct mare__object *object)
{
    mare__free(object);
}

static struct buffer *check(lua_State *L, int index)
{
    struct mare__reference *ref = mare__handle_of(L, index, MARE__KIND_BUFFER);
    if (!ref)
        luaL_typeerror(L, index, "buffer");
    if (mare__handle_moved(ref))
        luaL_argerror(L, index, "the buffer was sent to another process");
    return (struct buffer *)ref->object;
}

int mare__lua_buffer_new(lua_State *L)
{
    size_t length;
    const char *bytes = NULL;
    if (lua_type(L, 1) == LUA_TSTRING) {
        bytes = lua_tolstring(L, 1, &length);
    } else {
        lua_Integer size = luaL_checkinteger(L, 1);
        luaL_argcheck(L, size >= 0, 1, "a size cannot be negative");
        length = (size_t)size;
    }
    struct buffer *buffer = NULL;
    if (length < SIZE_MAX - sizeof *buffer && mare__handle_affords(L, sizeof *buffer + length))
        buffer = mare__alloc(sizeof *buffer + length);
    if (!buffer)
        return mare__lua_fail(L, MARE_NOMEM);
    mare__object_init(&buffer->object, MARE__KIND_BUFFER, destroy);
    mare__object_gains(&buffer->object, sizeof *buffer + length);
    buffer->length = length;
    if (bytes)
        memcpy(buffer->bytes, bytes, length);
    else
        memset(buffer->bytes, 0, length);
    mare__handle_push_new(L, buffer);
    return 1;
}

// A position as string.sub counts: negative from the end.
static lua_Integer position(lua_Integer at, size_t length)
{
    if (at >= 0)
        return at;
    return at < -(lua_Integer)length ? 0 : (lua_Integer)length + at + 1;
}

static int buffer_get(lua_State *L)
{
    struct buffer *buffer = check(L, 1);
    lua_Integer first = position(luaL_optinteger(L, 2, 1), buffer->length);
    lua_Integer last = position(luaL_optinteger(L, 3, -1), buffer->length);
    if (first < 1)
        first = 1;
    if (last > (lua_Integer)buffer->length)
        last = (lua_Integer)buffer->length;
    if (first > last)
        lua_pushliteral(L, "");
    else
        lua_pushlstring(L, buffer->bytes + first - 1, (size_t)(last - first + 1));
    return 1;
}

static int buffer_set(lua_State *L)
{
    struct buffer *buffer = check(L, 1);
    lua_Integer at = position(luaL_checkinteger(L, 2), buffer->length);
    size_t length;
    const char *bytes = luaL_checklstring(L, 3, &length);
    luaL_argcheck(L,
                  at >= 1 && length <= buffer->length && (size_t)at - 1 <= buffer->length - length,
                  2, "outside the buffer");
    memcpy(buffer->bytes + at - 1, bytes, length);
    return 0;
}

static int buffer_moved(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_BUFFER);
    if (!ref)
        return luaL_typeerror(L, 1, "buffer");
    lua_pushboolean(L, mare__handle_moved(ref));
    return 1;
}

static int buffer_len(lua_State *L)
{
    struct mare__reference *ref = mare__handle_of(L, 1, MARE__KIND_BUFFER);
    bool here = ref && !mare__handle_moved(ref);
    lua_pushinteger(L, here ? (lua_Integer)((struct buffer *)ref->object)->length : 0);
    return 1;
}

const luaL_Reg mare__buffer_methods[] = {
    {"get", buffer_get}, {"set", buffer_set}, {"moved", buffer_moved}, {NULL, NULL}};

const luaL_Reg mare__buffer_metamethods[] = {{"__len", buffer_len}, {NULL, NULL}};
