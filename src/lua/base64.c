// SPDX-License-Identifier: MIT
// Base64 in Lua, for what HTTP carries as text: credentials, and bytes in JSON.
#include "wire/base64.h"
#include "lua/http.h"

// encode64(bytes): the text.
int mare__lua_encode64(lua_State *L)
{
    size_t size;
    const char *bytes = luaL_checklstring(L, 1, &size);
    luaL_Buffer buffer;
    char *text = luaL_buffinitsize(L, &buffer, mare__base64_size(size) + 1);
    mare__base64_encode(bytes, size, text);
    luaL_pushresultsize(&buffer, mare__base64_size(size));
    return 1;
}

// decode64(text): the bytes; nil: it is not Base64.
int mare__lua_decode64(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    luaL_Buffer buffer;
    char *out = luaL_buffinitsize(L, &buffer, size / 4 * 3 + 1);
    ptrdiff_t count = mare__base64_decode(text, size, (uint8_t *)out);
    if (count < 0) {
        lua_pushnil(L);
        return 1;
    }
    luaL_pushresultsize(&buffer, (size_t)count);
    return 1;
}
