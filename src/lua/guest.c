// SPDX-License-Identifier: MIT
// MessagePack-RPC in Lua, for guests of a node: a reader that is fed with bytes, and answers as
// strings. Only streams wait, and there is none in this file: lua/mare/_guest.lua joins the two.
#include "lua/guest.h"
#include "lua/binding.h"
#include "wire/rpc.h"

enum { PARAMS_MOST = 250 }; // arguments of a call: they go through the stack

static const char metatable[] = "mare.guest.reader";

// The bytes that were fed are kept as the user value until all are read.
struct reader {
    struct mare__rpc_reader rpc;
    struct mare__span left;
};

// ---- Reading ------------------------------------------------------------------------------------

// reader:feed(bytes)
static int reader_feed(lua_State *L)
{
    struct reader *reader = luaL_checkudata(L, 1, metatable);
    lua_settop(L, 2);
    reader->left.at = luaL_checklstring(L, 2, &reader->left.size);
    lua_setiuservalue(L, 1, 1);
    return 0;
}

// message (light userdata) -> its values
static int message_values(lua_State *L)
{
    return mare__unmarshal(L, mare__passed(L, 1));
}

// The same, or -1: MessagePack has values that Lua lacks, such as a map with nil for a key.
static int push_values(lua_State *L, mare_message *message)
{
    int top = lua_gettop(L);
    struct mare__pass pass;
    lua_pushcfunction(L, message_values);
    mare__pass_push(L, &pass, message);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    mare__pass_end(L, &pass);
    mare_message_destroy(message);
    if (status == LUA_OK)
        return lua_gettop(L) - top;
    if (status == LUA_ERRMEM)
        lua_error(L);
    lua_settop(L, top);
    return -1;
}

// Pushes the parameters, and returns how many there are; or -1: they cannot be read.
static int push_params(lua_State *L, struct mare__span params)
{
    const uint8_t *at = (const uint8_t *)params.at, *end = at + params.size;
    struct mare__token token;
    mare_message *parsed;
    mare__unpack(&at, end, &token); // the array: it was looked at
    if (token.size > PARAMS_MOST)
        return -1;
    mare_err err = mare_message_parse(at, (size_t)(end - at), &parsed);
    if (err == MARE_NOMEM)
        mare__lua_no_memory(L);
    if (err)
        return -1;
    return push_values(L, parsed);
}

// reader:next(): nothing, when more bytes are needed; "request", id, method, ...; "notification",
// nil, method, ...; "error", reason. Without parameters: false, id, method
static int reader_next(lua_State *L)
{
    struct reader *reader = luaL_checkudata(L, 1, metatable);
    struct mare__rpc_reader *rpc = &reader->rpc;
    size_t used;
    enum mare__rpc_event event = mare__rpc_read(rpc, reader->left.at, reader->left.size, &used);
    reader->left.at += used;
    reader->left.size -= used;
    if (event == MARE__RPC_MORE)
        return 0;
    if (event == MARE__RPC_ERROR) {
        lua_pushliteral(L, "error");
        lua_pushstring(L, rpc->reason);
        return 2;
    }
    lua_settop(L, 1);
    lua_pushstring(L, event == MARE__RPC_REQUEST ? "request" : "notification");
    if (event == MARE__RPC_REQUEST)
        lua_pushinteger(L, rpc->id);
    else
        lua_pushnil(L);
    lua_pushlstring(L, rpc->method.at, rpc->method.size);
    int count = push_params(L, rpc->params);
    if (count < 0) {
        lua_pushboolean(L, false);
        lua_replace(L, 2);
    }
    return 3 + (count > 0 ? count : 0);
}

// reader:begun(): whether a message has begun, and more of it is to come
static int reader_begun(lua_State *L)
{
    const struct reader *reader = luaL_checkudata(L, 1, metatable);
    lua_pushboolean(L, reader->rpc.at > 0);
    return 1;
}

static int reader_gc(lua_State *L)
{
    struct reader *reader = luaL_checkudata(L, 1, metatable);
    mare__rpc_reader_fini(&reader->rpc);
    return 0;
}

int mare__lua_guest_reader(lua_State *L)
{
    static const luaL_Reg private_methods[] = {
        {"feed", reader_feed}, {"next", reader_next}, {"begun", reader_begun}, {NULL, NULL}};
    struct reader *reader = lua_newuserdatauv(L, sizeof *reader, 1);
    mare__rpc_reader_init(&reader->rpc);
    reader->left = (struct mare__span){"", 0};
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, reader_gc);
        lua_setfield(L, -2, "__gc");
    }
    mare__metatable_set(L); // which notes that there is a finalizer
    return 1;
}

// ---- Answers ------------------------------------------------------------------------------------

static int push_bytes(lua_State *L, struct mare__bytes *out, mare_err err)
{
    if (err) {
        mare__bytes_fini(out);
        mare__lua_no_memory(L);
    }
    mare__lua_push_bytes(L, out);
    return 1;
}

int mare__lua_guest_failure(lua_State *L)
{
    struct mare__bytes out = {0};
    struct mare__span text;
    text.at = luaL_checklstring(L, 2, &text.size);
    return push_bytes(L, &out,
                      mare__rpc_put_failure(&out, (uint32_t)luaL_checkinteger(L, 1), text));
}

// Whether a message has only types that every MessagePack library knows.
static bool is_plain(const mare_message *message)
{
    const uint8_t *at = mare__message_data(message), *end = at + message->length;
    bool plain = true;
    for (uint32_t i = 0; plain && i < message->count; i++)
        plain = mare__unpack_skip(&at, end, false);
    return plain;
}

int mare__lua_guest_answer(lua_State *L)
{
    int count = lua_gettop(L) - 1;
    uint32_t id = (uint32_t)luaL_checkinteger(L, 1);
    struct mare__leaving *leaving = NULL;
    struct mare__bytes body = {0}, out = {0};
    mare_message message;
    mare__message_init(&message);
    mare_err err = mare__marshal(L, 2, count, &message, "result", &leaving);
    mare__leaving_end(L, &leaving, 0, false);
    if (err)
        return mare__lua_fail_with(L, err);
    if (!is_plain(&message)) {
        mare__message_clear(&message);
        lua_pushliteral(L, "the result has something in it that MessagePack has no word for");
        return mare__lua_fail_with(L, MARE_BADMSG);
    }
    uint8_t header[MARE__PACK_TABLE];
    mare__pack_array_header(header, (uint32_t)count);
    if (count > 1)
        err = mare__bytes_add(&body, header, sizeof header);
    if (!err)
        err = mare__bytes_add(&body, mare__message_data(&message), message.length);
    mare__message_clear(&message);
    if (!err)
        err = mare__rpc_put_answer(&out, id, (struct mare__span){0},
                                   (struct mare__span){body.at, body.size});
    mare__bytes_fini(&body);
    return push_bytes(L, &out, err);
}
