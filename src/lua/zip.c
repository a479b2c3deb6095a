// SPDX-License-Identifier: MIT
// zlib for the modules in Lua: objects that compress or decompress, part after part. Their memory
// is not Lua's, so close an object when you are done with it.
#include "wire/zip.h"
#include "lua/binding.h"

static const char metatable[] = "mare.zip";

struct object {
    struct mare__zip *zip; // NULL: it is closed
    struct mare__bytes out;
};

static struct object *check(lua_State *L)
{
    struct object *object = luaL_checkudata(L, 1, metatable);
    luaL_argcheck(L, object->zip, 1, "it is closed");
    return object;
}

static int fail(lua_State *L, mare_err err)
{
    if (err == MARE_BADMSG)
        lua_pushliteral(L, "the compressed data is broken");
    else if (err == MARE_TOOBIG)
        lua_pushliteral(L, "the compressed data is too large");
    else
        return mare__lua_fail(L, err);
    return mare__lua_fail_with(L, err);
}

// object:write(bytes, "more" | "sync" | "end" [, most]): what becomes of them, and whether what was
// undone is over; or nil, message, code. No more than `most` bytes.
static int write_bytes(lua_State *L)
{
    static const char *const flushes[] = {"more", "sync", "end", NULL};
    struct object *object = check(L);
    size_t size;
    const char *bytes = luaL_checklstring(L, 2, &size);
    enum mare__zip_flush flush = (enum mare__zip_flush)luaL_checkoption(L, 3, "more", flushes);
    lua_Integer most = luaL_optinteger(L, 4, LUA_MAXINTEGER);
    object->out.size = 0;
    mare_err err =
        mare__zip_write(object->zip, bytes, size, flush, most < 0 ? 0 : (size_t)most, &object->out);
    if (err)
        return fail(L, err);
    lua_pushlstring(L, object->out.at ? object->out.at : "", object->out.size);
    lua_pushboolean(L, mare__zip_ended(object->zip));
    if (object->out.capacity > 1 << 17) // what was large once need not be so again
        mare__bytes_fini(&object->out);
    return 2;
}

// object:reset(): for other bytes.
static int reset(lua_State *L)
{
    mare__zip_reset(check(L)->zip);
    return 0;
}

static int close_object(lua_State *L)
{
    struct object *object = luaL_checkudata(L, 1, metatable);
    mare__zip_destroy(object->zip);
    object->zip = NULL;
    mare__bytes_fini(&object->out);
    return 0;
}

static int push_object(lua_State *L, struct object *object)
{
    static const luaL_Reg private_methods[] = {
        {"write", write_bytes}, {"reset", reset}, {"close", close_object}, {NULL, NULL}};
    if (!object->zip)
        return mare__lua_fail(L, MARE_NOMEM);
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, close_object);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return 1;
}

static const char *const forms[] = {"gzip", "raw", "zlib", NULL};

static int window_at(lua_State *L, int index)
{
    lua_Integer window = luaL_optinteger(L, index, 15);
    luaL_argcheck(L, window >= 9 && window <= 15, index, "a window is 9 to 15");
    return (int)window;
}

static struct object *new_object(lua_State *L)
{
    struct object *object = lua_newuserdatauv(L, sizeof *object, 0);
    *object = (struct object){0};
    return object;
}

// deflater(form [, level [, window]])
static int deflater(lua_State *L)
{
    enum mare__zip_form form = (enum mare__zip_form)luaL_checkoption(L, 1, NULL, forms);
    lua_Integer level = luaL_optinteger(L, 2, 6);
    luaL_argcheck(L, level >= 1 && level <= 9, 2, "a level is 1 to 9");
    int window = window_at(L, 3);
    struct object *object = new_object(L);
    object->zip = mare__zip_deflater(form, (int)level, window);
    return push_object(L, object);
}

// inflater(form [, window])
static int inflater(lua_State *L)
{
    enum mare__zip_form form = (enum mare__zip_form)luaL_checkoption(L, 1, NULL, forms);
    int window = window_at(L, 2);
    struct object *object = new_object(L);
    object->zip = mare__zip_inflater(form, window);
    return push_object(L, object);
}

int mare__lua_open_zip(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"deflater", deflater}, {"inflater", inflater}, {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
