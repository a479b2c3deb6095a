// SPDX-License-Identifier: MIT
// WebSocket in Lua: a reader of frames that is fed with bytes, and handshakes and frames as
// strings. What waits is a stream, so all of this is without one: lua/mare/websocket.lua has both.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/net.h"
#include "wire/websocket.h"
#include "wire/zip.h"

static const char metatable[] = "mare.websocket.reader";

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
    if (!err)
        lua_pushlstring(L, out->at, out->size);
    mare__bytes_fini(out);
    if (err == MARE_INVALID)
        return luaL_error(L, "a target, a code or a reason that may not be sent as it is");
    return err ? mare__lua_fail(L, err) : 1;
}

// ---- Reading ------------------------------------------------------------------------------------

// Frames are unmasked where they lie, so what is fed is copied. It is kept until all is read. What
// is needed to undo a compressed message is there only while there is one: no message knows of
// another (RFC 7692, no_context_takeover), so who is idle has no window.
struct reader {
    struct mare__ws_reader frames;
    struct mare__bytes bytes;
    size_t used;
    struct mare__zip *zip;
    struct mare__bytes plain; // what was undone of the part at hand
    uint64_t limit, undone;   // bytes of a message, and so many have come out of this one
    struct mare__utf8 utf8;
};

static struct reader *check(lua_State *L)
{
    return luaL_checkudata(L, 1, metatable);
}

static int push_event(lua_State *L, const struct mare__ws_reader *frames, enum mare__ws_event event)
{
    static const char *const names[] = {
        [MARE__WS_DATA] = "data",   [MARE__WS_PING] = "ping",   [MARE__WS_PONG] = "pong",
        [MARE__WS_CLOSE] = "close", [MARE__WS_ERROR] = "error",
    };
    lua_pushstring(L, names[event]);
    if (event == MARE__WS_ERROR)
        lua_pushstring(L, frames->reason);
    else
        lua_pushlstring(L, frames->data.at, frames->data.size);
    switch (event) {
    case MARE__WS_DATA:
        lua_pushstring(L, frames->text ? "text" : "binary");
        lua_pushboolean(L, frames->last);
        return 4;
    case MARE__WS_CLOSE:
    case MARE__WS_ERROR:
        lua_pushinteger(L, frames->code);
        return 3;
    default:
        return 2;
    }
}

// ---- Compressed messages ------------------------------------------------------------------------

static enum mare__ws_event fail(struct mare__ws_reader *frames, uint16_t code, const char *reason)
{
    frames->code = code;
    frames->reason = reason;
    return MARE__WS_ERROR;
}

static void end_message(struct reader *reader)
{
    mare__zip_destroy(reader->zip);
    reader->zip = NULL;
    mare__bytes_fini(&reader->plain);
}

// Undoes some bytes of a message. What a sender leaves out at its end comes from here (RFC 7692
// section 7.2.2), unless its last block said that it was the last.
static mare_err undo(struct reader *reader, struct mare__span data, bool last)
{
    static const char left_out[] = {0, 0, (char)0xff, (char)0xff};
    size_t room = (size_t)(reader->limit - reader->undone);
    mare_err err =
        mare__zip_write(reader->zip, data.at, data.size, MARE__ZIP_MORE, room, &reader->plain);
    if (err || !last || mare__zip_ended(reader->zip))
        return err;
    return mare__zip_write(reader->zip, left_out, sizeof left_out, MARE__ZIP_MORE,
                           room - reader->plain.size, &reader->plain);
}

// A part of a compressed message has come: it is undone. MORE: nothing came out of it.
static enum mare__ws_event read_compressed(lua_State *L, struct reader *reader)
{
    struct mare__ws_reader *frames = &reader->frames;
    if (!reader->zip) {
        reader->zip = mare__zip_inflater(MARE__ZIP_RAW, 15);
        reader->undone = 0;
        reader->utf8 = (struct mare__utf8){0};
        if (!reader->zip)
            luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
    }
    reader->plain.size = 0;
    mare_err err = undo(reader, frames->data, frames->last);
    if (err == MARE_NOMEM)
        luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
    if (err)
        return err == MARE_TOOBIG ? fail(frames, 1009, "the message is too large")
                                  : fail(frames, 1007, "a compressed message that is broken");
    reader->undone += reader->plain.size;
    if (frames->text && (!mare__utf8_check(&reader->utf8, reader->plain.at, reader->plain.size) ||
                         (frames->last && !mare__utf8_complete(&reader->utf8))))
        return fail(frames, 1007, "a text that is not UTF-8");
    frames->data =
        (struct mare__span){reader->plain.at ? reader->plain.at : "", reader->plain.size};
    return reader->plain.size > 0 || frames->last ? MARE__WS_DATA : MARE__WS_MORE;
}

// The next event; nothing: all bytes are used up.
static enum mare__ws_event next_event(lua_State *L, struct reader *reader)
{
    for (;;) {
        size_t used = 0;
        char *at = reader->bytes.at ? reader->bytes.at + reader->used : NULL;
        enum mare__ws_event event =
            mare__ws_read(&reader->frames, at, reader->bytes.size - reader->used, &used);
        reader->used += used;
        if (event != MARE__WS_DATA || !reader->frames.compressed)
            return event;
        event = read_compressed(L, reader);
        if (event != MARE__WS_MORE)
            return event;
    }
}

// reader:next([bytes]): the next thing that was read, `bytes` added to what is there: "data", a
// part of a message, "text" or "binary", whether it is the last; "ping" or "pong", its data;
// "close", reason, code; "error", reason, code to close with; nil: more bytes are needed.
static int reader_next(lua_State *L)
{
    struct reader *reader = check(L);
    struct mare__span more = optional_span(L, 2);
    if (more.size && mare__bytes_add(&reader->bytes, more.at, more.size) != MARE_OK)
        return luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
    enum mare__ws_event event = next_event(L, reader);
    if (event != MARE__WS_MORE) {
        int results = push_event(L, &reader->frames, event);
        if (reader->zip &&
            (event == MARE__WS_ERROR || (event == MARE__WS_DATA && reader->frames.last)))
            end_message(reader);
        return results;
    }
    reader->used = 0; // an idle connection keeps no memory
    mare__bytes_fini(&reader->bytes);
    return 0;
}

// reader:pending(): whether there are bytes that nobody has asked for.
static int reader_pending(lua_State *L)
{
    const struct reader *reader = check(L);
    lua_pushboolean(L, reader->used < reader->bytes.size);
    return 1;
}

static int reader_gc(lua_State *L)
{
    struct reader *reader = check(L);
    mare__bytes_fini(&reader->bytes);
    end_message(reader);
    return 0;
}

// reader:compresses(): messages may be compressed from now on.
static int reader_compresses(lua_State *L)
{
    check(L)->frames.may_compress = true;
    return 0;
}

// reader("server" | "client", limit): of the bytes of a message.
static int new_reader(lua_State *L)
{
    static const char *const roles[] = {"server", "client", NULL};
    static const luaL_Reg private_methods[] = {{"next", reader_next},
                                               {"pending", reader_pending},
                                               {"compresses", reader_compresses},
                                               {NULL, NULL}};
    int role = luaL_checkoption(L, 1, NULL, roles);
    lua_Integer limit = luaL_checkinteger(L, 2);
    luaL_argcheck(L, limit > 0, 2, "a limit is positive");
    struct reader *reader = lua_newuserdatauv(L, sizeof *reader, 0);
    memset(reader, 0, sizeof *reader);
    mare__ws_reader_init(&reader->frames, role == 0 ? MARE__WS_SERVER : MARE__WS_CLIENT);
    reader->frames.frame_limit = reader->frames.message_limit = reader->limit = (uint64_t)limit;
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, reader_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return 1;
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
static ssize_t write_some(struct mare__stream *stream, const struct mare__bytes *bytes)
{
    size_t gone = 0;
    while (gone < bytes->size) {
        struct iovec piece = {bytes->at + gone, bytes->size - gone};
        ssize_t sent = mare__stream_write(stream, &piece, 1);
        if (sent == -EAGAIN)
            break;
        if (sent < 0)
            return sent;
        gone += (size_t)sent;
    }
    return (ssize_t)(bytes->size - gone);
}

// send(stream, kind, data, masked): writes a message in one frame without waiting. True; or what is
// left of the frame, perhaps "", and then the stream is to be flushed; or nil, message, code.
static int send_frame(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    struct mare__bytes out = {0};
    uint8_t mask[4];
    unsigned opcode = get_opcode(L, 2);
    size_t size;
    const char *data = luaL_checklstring(L, 3, &size);
    const uint8_t *masked = make_mask(L, lua_toboolean(L, 4), mask);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    mare_err err = mare__ws_put_frame(&out, opcode, true, data, size, masked);
    if (err)
        return push_written(L, &out, err);
    ssize_t left = write_some(stream, &out);
    int flushed = left == 0 ? mare__stream_flush(stream) : -EAGAIN;
    if (left < 0)
        mare__lua_fail_io(L, stream, (int)-left);
    else if (flushed == 0)
        lua_pushboolean(L, 1);
    else
        lua_pushlstring(L, out.at + out.size - left, (size_t)left);
    mare__bytes_fini(&out);
    return left < 0 ? 3 : 1;
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
        if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING)
            continue;
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
        lua_pushlstring(L, bytes, (size_t)got);
    return 1;
}

// tell(stream): wakes one who waits for it, as if something had come.
static int tell(lua_State *L)
{
    mare__stream_tell(mare__lua_stream(L, 1), MARE__TO_READ);
    return 0;
}

int mare__lua_open_websocket(lua_State *L)
{
    static const luaL_Reg private_functions[] = {{"reader", new_reader},
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
