// SPDX-License-Identifier: MIT
// WebSocket in Lua: handshakes and frames as strings, and what is written at once. The reader of
// frames is in websocket_read.c; lua/mare/websocket.lua puts both together.
#include <errno.h>
#include <string.h>

#include "lua/net.h"
#include "lua/websocket.h"
#include "wire/websocket.h"

// ---- Arguments ----------------------------------------------------------------------------------

static struct mare__span optional_span(lua_State *L, int index)
{
    struct mare__span span = {NULL, 0};
    if (!lua_isnoneornil(L, index))
        span.at = luaL_checklstring(L, index, &span.size);
    return span;
}

// The string in a field of the table at an index, which stays in the stack.
static struct mare__span span_of_field(lua_State *L, int table, const char *name)
{
    struct mare__span span = {NULL, 0};
    lua_getfield(L, table, name);
    span.at = lua_tolstring(L, -1, &span.size);
    return span;
}

static int push_written(lua_State *L, struct mare__bytes *out, mare_err err)
{
    if (!err) {
        mare__lua_push_bytes(L, out);
        return 1;
    }
    mare__bytes_fini(out);
    if (err == MARE_INVALID)
        return luaL_error(L, "a target, a code or a reason that may not be sent as it is");
    return mare__lua_fail(L, err);
}

// ---- Writing ------------------------------------------------------------------------------------

static uint64_t draw(lua_State *L)
{
    const struct mare__platform *platform = &mare__self(L)->shared.runtime->platform;
    return platform->random(platform->context);
}

// A client's mask, drawn anew; NULL for a server.
static const uint8_t *make_mask(lua_State *L, bool masked, uint8_t mask[4])
{
    if (!masked)
        return NULL;
    uint64_t chance = draw(L);
    memcpy(mask, &chance, 4);
    return mask;
}

// The kind at the index: "text", "binary", "more" (of the message that was begun), "ping", "pong".
static unsigned get_opcode(lua_State *L, int index)
{
    static const char *const names[] = {"text", "binary", "more", "ping", "pong", NULL};
    static const enum mare__ws_opcode opcodes[] = {MARE__WS_OP_TEXT, MARE__WS_OP_BINARY,
                                                   MARE__WS_OP_CONTINUATION, MARE__WS_OP_PING,
                                                   MARE__WS_OP_PONG};
    return opcodes[luaL_checkoption(L, index, NULL, names)];
}

// frame(kind, last, data, masked [, compressed]): as a string.
static int put_frame(lua_State *L)
{
    struct mare__bytes out = {0};
    uint8_t mask[4];
    unsigned opcode = get_opcode(L, 1);
    if (lua_toboolean(L, 5))
        opcode |= MARE__WS_COMPRESSED;
    bool last = lua_toboolean(L, 2);
    size_t size;
    const char *data = luaL_checklstring(L, 3, &size);
    const uint8_t *masked = make_mask(L, lua_toboolean(L, 4), mask);
    return push_written(L, &out, mare__ws_put_frame(&out, opcode, last, data, size, masked));
}

// Writes as much as can be without waiting: how many bytes are left, or what is wrong.
static ssize_t write_some(struct mare__stream *stream, struct iovec *pieces, int count)
{
    size_t left = 0;
    for (int i = 0; i < count; i++)
        left += pieces[i].iov_len;
    while (left > 0) {
        ssize_t sent = mare__stream_write(stream, pieces, count);
        if (sent == -EAGAIN)
            break;
        if (sent < 0)
            return sent;
        left -= (size_t)sent;
        for (int i = 0; i < count && sent > 0; i++) {
            size_t part = (size_t)sent < pieces[i].iov_len ? (size_t)sent : pieces[i].iov_len;
            pieces[i].iov_base = (char *)pieces[i].iov_base + part;
            pieces[i].iov_len -= part;
            sent -= (ssize_t)part;
        }
    }
    return (ssize_t)left;
}

// What is left of a frame, from pieces that its argument points to.
static int push_left(lua_State *L)
{
    const struct iovec *pieces = mare__passed(L, 1);
    luaL_Buffer rest;
    luaL_buffinit(L, &rest);
    for (int i = 0; i < 2; i++)
        luaL_addlstring(&rest, pieces[i].iov_base, pieces[i].iov_len);
    luaL_pushresult(&rest);
    return 1;
}

// The results of a write of which so much is left, of pieces that may lie in `out`. Without memory
// for the rest nothing may follow what was written, or the peer would take it for the rest: then
// the stream ends.
static int tell_left(lua_State *L, struct mare__stream *stream, ssize_t left,
                     struct iovec pieces[2], struct mare__bytes *out)
{
    bool whole = left == 0 && mare__stream_flush(stream) == 0, told = true;
    if (whole) {
        lua_pushboolean(L, 1);
    } else if (left >= 0) {
        struct mare__pass pass;
        lua_pushcfunction(L, push_left);
        mare__pass_push(L, &pass, pieces);
        told = lua_pcall(L, 1, 1, 0) == LUA_OK;
        mare__pass_end(L, &pass);
    }
    mare__bytes_fini(out);
    if (left < 0)
        return mare__lua_fail_io(L, stream, (int)-left);
    if (told)
        return 1;
    mare__stream_close(stream);
    return mare__lua_fail(L, MARE_NOMEM);
}

// send(stream, text, data, masked): writes a message in one frame without waiting. True; or what is
// left of the frame, perhaps "", and then the stream is to be flushed; or nil, message, code. A
// server's is not masked, and so need not be copied; a short one is, for one piece is sent faster
// than two.
static int send_frame(lua_State *L)
{
    enum { SHORT = 1024 };
    struct mare__stream *stream = mare__lua_stream(L, 1);
    enum mare__ws_opcode opcode = lua_toboolean(L, 2) ? MARE__WS_OP_TEXT : MARE__WS_OP_BINARY;
    size_t size;
    const char *data = luaL_checklstring(L, 3, &size);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    uint8_t header[MARE__WS_HEADER_MOST + SHORT], mask[4];
    struct iovec pieces[2] = {{header, 0}, {(char *)data, size}};
    struct mare__bytes out = {0};
    if (!lua_toboolean(L, 4)) {
        size_t head = pieces[0].iov_len = mare__ws_header(header, opcode, size);
        int count = 2;
        if (size <= SHORT) {
            memcpy(header + head, data, size);
            pieces[0].iov_len += size;
            pieces[1].iov_len = 0;
            count = 1;
        }
        return tell_left(L, stream, write_some(stream, pieces, count), pieces, &out);
    }
    mare_err err = mare__ws_put_frame(&out, opcode, true, data, size, make_mask(L, true, mask));
    if (err)
        return push_written(L, &out, err);
    pieces[0] = (struct iovec){out.at, out.size};
    pieces[1].iov_len = 0;
    return tell_left(L, stream, write_some(stream, pieces, 1), pieces, &out);
}

// close(code, reason, masked): as a string.
static int put_close(lua_State *L)
{
    struct mare__bytes out = {0};
    uint8_t mask[4];
    lua_Integer code = luaL_checkinteger(L, 1);
    struct mare__span reason = optional_span(L, 2);
    const uint8_t *masked = make_mask(L, lua_toboolean(L, 3), mask);
    if (code < 0 || code > UINT16_MAX)
        return push_written(L, &out, MARE_INVALID);
    return push_written(L, &out, mare__ws_put_close(&out, (uint16_t)code, reason, masked));
}

// ---- The handshake ------------------------------------------------------------------------------

// The head that mare._http made a table of. Its fields are in a block in the stack, and what they
// refer to is kept by the table.
static struct mare__http_head get_head(lua_State *L, int table)
{
    struct mare__http_head head = {0};
    size_t count = 0;
    luaL_checktype(L, table, LUA_TTABLE);
    luaL_checkstack(L, 16, NULL);
    head.method = span_of_field(L, table, "method");
    head.upgrade = span_of_field(L, table, "upgrade");
    lua_getfield(L, table, "status");
    head.status = (int)lua_tointeger(L, -1);
    lua_getfield(L, table, "has_body");
    head.body = lua_toboolean(L, -1) ? MARE__HTTP_BODY_LENGTH : MARE__HTTP_BODY_NONE;
    lua_getfield(L, table, "headers");
    luaL_checktype(L, -1, LUA_TTABLE);
    int headers = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, headers); lua_pop(L, 1))
        count++;
    struct mare__http_field *fields = lua_newuserdatauv(L, (count + 1) * sizeof *fields, 0);
    for (lua_pushnil(L); lua_next(L, headers); lua_pop(L, 1)) {
        struct mare__http_field *field = &fields[head.count];
        if (head.count == count || lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING)
            continue; // to make the block may have called a finalizer, which has added some
        field->name.at = lua_tolstring(L, -2, &field->name.size);
        field->value.at = lua_tolstring(L, -1, &field->value.size);
        head.count++;
    }
    head.fields = fields;
    return head;
}

// check_request(request): the client's key; or nil and the status to answer with.
static int check_request(lua_State *L)
{
    struct mare__http_head head = get_head(L, 1);
    struct mare__span key;
    int status = mare__ws_check_request(&head, &key);
    if (!status) {
        lua_pushlstring(L, key.at, key.size);
        return 1;
    }
    lua_pushnil(L);
    lua_pushinteger(L, status);
    return 2;
}

// check_response(response, key, protocols): nil if the connection is a WebSocket now, else why not.
static int check_response(lua_State *L)
{
    const char *key = luaL_checkstring(L, 2);
    struct mare__span protocols = optional_span(L, 3);
    struct mare__http_head head = get_head(L, 1);
    lua_pushstring(L, mare__ws_check_response(&head, key, protocols));
    return 1;
}

// key(): a new one, for a request.
static int make_key(lua_State *L)
{
    uint64_t chance[2] = {draw(L), draw(L)};
    uint8_t bytes[16];
    char key[MARE__WS_KEY + 1];
    memcpy(bytes, chance, sizeof bytes);
    mare__ws_make_key(bytes, key);
    lua_pushlstring(L, key, MARE__WS_KEY);
    return 1;
}

// request(target, host, headers, key, protocols)
static int put_request(lua_State *L)
{
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__http_request request = {.fields = fields};
    struct mare__bytes out = {0};
    lua_settop(L, 5);
    luaL_checkstring(L, 1);
    request.target = optional_span(L, 1);
    request.host = optional_span(L, 2);
    const char *key = luaL_checkstring(L, 4);
    struct mare__span protocols = optional_span(L, 5);
    request.count = mare__lua_fields(L, 3, fields);
    mare_err err = mare__ws_put_request(&out, &request, key, protocols);
    if (err == MARE_INVALID) {
        mare__bytes_fini(&out);
        mare__lua_blame_field(L, fields, request.count, MARE__HTTP_REQUESTS);
    }
    return push_written(L, &out, err);
}

// response(headers, key, protocol, date)
static int put_response(lua_State *L)
{
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__http_response response = {.fields = fields};
    struct mare__bytes out = {0};
    lua_settop(L, 4);
    luaL_checkstring(L, 2);
    struct mare__span key = optional_span(L, 2), protocol = optional_span(L, 3);
    response.date = optional_span(L, 4);
    response.count = mare__lua_fields(L, 1, fields);
    mare_err err = mare__ws_put_response(&out, &response, key, protocol);
    if (err == MARE_INVALID) {
        mare__bytes_fini(&out);
        mare__lua_blame_field(L, fields, response.count, MARE__HTTP_RESPONSES);
    }
    return push_written(L, &out, err);
}

// can_wait(): whether the caller can; one that is being killed cannot.
static int can_wait(lua_State *L)
{
    lua_pushboolean(L, mare__block_possible(L, mare__self(L)));
    return 1;
}

// take(stream): what has come, as stream:read does but without waiting; false: nothing yet.
static int take(lua_State *L)
{
    char bytes[MARE__STREAM_ROOM];
    struct mare__stream *stream = mare__lua_stream(L, 1);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    size_t have = mare__stream_buffered(stream);
    if (have > 0) {
        lua_pushlstring(L, stream->bytes + stream->first, have);
        mare__stream_used(stream, have);
        return 1;
    }
    ssize_t got = stream->at_end ? 0 : mare__stream_read(stream, bytes);
    if (got == -EAGAIN)
        lua_pushboolean(L, 0);
    else if (got < 0)
        return mare__lua_fail_io(L, stream, (int)-got);
    else if (got == 0)
        return mare__lua_fail_stream(L, MARE_CLOSED);
    else
        mare__lua_push_read(L, stream, bytes, (size_t)got);
    return 1;
}

// tell(stream): wakes one routine that waits for the stream, as if something had come.
static int tell(lua_State *L)
{
    mare__stream_tell(mare__lua_stream(L, 1), MARE__TO_READ);
    return 0;
}

int mare__lua_open_websocket(lua_State *L)
{
    static const luaL_Reg private_functions[] = {{"reader", mare__lua_ws_reader},
                                                 {"receiver", mare__lua_ws_receiver},
                                                 {"frame", put_frame},
                                                 {"send", send_frame},
                                                 {"close", put_close},
                                                 {"key", make_key},
                                                 {"check_request", check_request},
                                                 {"check_response", check_response},
                                                 {"request", put_request},
                                                 {"response", put_response},
                                                 {"can_wait", can_wait},
                                                 {"take", take},
                                                 {"tell", tell},
                                                 {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
