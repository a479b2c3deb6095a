// SPDX-License-Identifier: MIT
// What is written of HTTP/1.1: the heads of messages, as strings, and bodies, texts or files, which
// may be long and are not copied.
#include <errno.h>
#include <stdarg.h>

#include "lua/file.h"
#include "lua/http.h"

// ---- Heads --------------------------------------------------------------------------------------

static struct mare__span span_at(lua_State *L, int index)
{
    struct mare__span span = {NULL, 0};
    if (!lua_isnoneornil(L, index))
        span.at = luaL_checklstring(L, index, &span.size);
    return span;
}

// Raises an error without a place: the caller in Lua knows whose line to blame.
static int refuse(lua_State *L, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    return lua_error(L);
}

// Names the field that a writer has refused, if it is one.
void mare__lua_blame_field(lua_State *L, const struct mare__http_field *fields, size_t count,
                           enum mare__http_kind kind)
{
    for (size_t i = 0; i < count; i++) {
        const char *fault = mare__http_field_fault(&fields[i], kind);
        luaL_Buffer name;
        if (!fault)
            continue;
        luaL_buffinit(L, &name);
        for (size_t at = 0; at < fields[i].name.size; at++) { // the name may come from a stranger
            uint8_t byte = (uint8_t)fields[i].name.at[at];
            luaL_addchar(&name, (char)(byte < ' ' || byte == 0x7f ? '?' : byte));
        }
        luaL_pushresult(&name);
        refuse(L, "header '%s' %s", lua_tostring(L, -1), fault);
    }
}

size_t mare__lua_fields(lua_State *L, int table, struct mare__http_field *fields)
{
    size_t count = 0;
    if (lua_isnoneornil(L, table))
        return 0;
    if (!lua_istable(L, table))
        refuse(L, "headers must be a table, not a %s", luaL_typename(L, table));
    lua_pushnil(L);
    while (lua_next(L, table)) {
        int value = lua_gettop(L), several = lua_istable(L, value);
        lua_Integer n = several ? luaL_len(L, value) : 1;
        if (lua_type(L, value - 1) != LUA_TSTRING)
            refuse(L, "the names of headers must be strings");
        for (lua_Integer i = 1; i <= n; i++) {
            luaL_checkstack(L, 4, "too many headers");
            if (several)
                lua_geti(L, value, i);
            else
                lua_pushvalue(L, value);
            if (!lua_isstring(L, -1))
                refuse(L, "header '%s' must be a string or a number, not a %s",
                       lua_tostring(L, value - 1), luaL_typename(L, -1));
            if (count == MARE__LUA_FIELDS_MAX)
                refuse(L, "more than %d headers", MARE__LUA_FIELDS_MAX);
            fields[count].name.at = lua_tolstring(L, value - 1, &fields[count].name.size);
            fields[count].value.at = lua_tolstring(L, -1, &fields[count].value.size);
            count++;
        }
        lua_pushvalue(L, value - 1); // the key again, above what must stay
    }
    return count;
}

static enum mare__http_body get_body(lua_State *L, int index, uint64_t *length)
{
    if (lua_isnoneornil(L, index))
        return MARE__HTTP_BODY_NONE;
    if (lua_type(L, index) == LUA_TNUMBER) {
        lua_Integer number = luaL_checkinteger(L, index);
        luaL_argcheck(L, number >= 0, index, "a length is not negative");
        *length = (uint64_t)number;
        return MARE__HTTP_BODY_LENGTH;
    }
    luaL_checktype(L, index, LUA_TBOOLEAN);
    return lua_toboolean(L, index) ? MARE__HTTP_BODY_CHUNKED : MARE__HTTP_BODY_UNTIL_CLOSE;
}

static int push_written(lua_State *L, struct mare__bytes *out, mare_err err)
{
    if (!err) {
        mare__lua_push_bytes(L, out);
        return 1;
    }
    mare__bytes_fini(out);
    if (err == MARE_INVALID)
        return refuse(L, "a status, a method, a target or a host that may not be sent");
    return mare__lua_fail(L, err);
}

// response(status, headers, body, minor, keep_alive, date [, upgrade]): the head as a string. The
// body is its length, true for chunks, false for all until the connection's end, nil for none.
int mare__lua_http_response(lua_State *L)
{
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__http_response response = {.fields = fields};
    struct mare__bytes out = {0};
    lua_settop(L, 7);
    response.status = (int)luaL_checkinteger(L, 1);
    response.body = get_body(L, 3, &response.length);
    response.minor = (uint8_t)luaL_checkinteger(L, 4);
    response.keep_alive = lua_toboolean(L, 5);
    response.date = span_at(L, 6);
    response.upgrade = span_at(L, 7);
    response.count = mare__lua_fields(L, 2, fields);
    mare_err err = mare__http_put_response(&out, &response);
    if (err == MARE_INVALID) {
        mare__bytes_fini(&out);
        mare__lua_blame_field(L, fields, response.count, MARE__HTTP_RESPONSES);
    }
    return push_written(L, &out, err);
}

// request(method, target, host, headers, body, keep_alive, expect, upgrade)
int mare__lua_http_request(lua_State *L)
{
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__http_request request = {.fields = fields};
    struct mare__bytes out = {0};
    lua_settop(L, 8);
    luaL_checkstring(L, 1);
    luaL_checkstring(L, 2);
    request.method = span_at(L, 1);
    request.target = span_at(L, 2);
    request.host = span_at(L, 3);
    request.body = get_body(L, 5, &request.length);
    request.keep_alive = lua_toboolean(L, 6);
    request.expect_continue = lua_toboolean(L, 7);
    request.upgrade = span_at(L, 8);
    request.count = mare__lua_fields(L, 4, fields);
    mare_err err = mare__http_put_request(&out, &request);
    if (err == MARE_INVALID) {
        mare__bytes_fini(&out);
        mare__lua_blame_field(L, fields, request.count, MARE__HTTP_REQUESTS);
    }
    return push_written(L, &out, err);
}

// ---- Bodies -------------------------------------------------------------------------------------

enum { STREAM = 1, BEFORE, TEXT, AFTER, SENT, DEADLINE = SENT };

// Bytes that must leave in the time that a stream has for a write: a client that takes so many is
// slow, but alive.
enum { STRETCH = 65536 };

// From how many bytes on a text is large to the system, too.
enum { MUCH = 256 << 10 };

static int write_more(lua_State *L, int status, lua_KContext context);

// The parts of the three texts that are still to be sent, after `sent` bytes. Returns how many
// pieces that is.
static int pieces_of(lua_State *L, size_t sent, struct iovec pieces[3])
{
    int count = 0;
    for (int i = BEFORE; i <= AFTER; i++) {
        size_t size;
        const char *text = lua_tolstring(L, i, &size);
        if (sent < size)
            pieces[count++] = (struct iovec){(char *)text + sent, size - sent};
        sent -= sent < size ? sent : size;
    }
    return count;
}

// How a body is sent: where its deadlines are in the stack, and what goes on after a wait. The
// deadline is that of the present stretch; nil until a wait is needed. The given one holds for all.
struct way {
    int deadline, given;
    lua_KFunction more;
};

// After a write: waits if there was no room, or counts what was sent. MARE__WAITED if the next
// write can be tried, else the number of results.
static int after_write(lua_State *L, struct mare__stream *stream, const struct way *way,
                       ssize_t wrote, size_t *sent)
{
    if (wrote == -EAGAIN)
        return mare__lua_wait_first(L, stream, MARE__TO_WRITE, way->deadline, way->given, way->more,
                                    (lua_KContext)*sent);
    if (wrote < 0)
        return mare__lua_fail_io(L, stream, (int)-wrote);
    if ((*sent + (size_t)wrote) / STRETCH > *sent / STRETCH) {
        lua_pushnil(L);
        lua_replace(L, way->deadline);
    }
    *sent += (size_t)wrote;
    return MARE__WAITED;
}

// Goes on writing.
static int write_rest(lua_State *L, struct mare__stream *stream, size_t sent)
{
    static const struct way way = {DEADLINE, DEADLINE, write_more};
    for (;;) {
        struct iovec pieces[3];
        int count = pieces_of(L, sent, pieces);
        ssize_t wrote =
            count > 0 ? mare__stream_write(stream, pieces, count) : mare__stream_flush(stream);
        if (wrote == 0 && count == 0) {
            lua_pushboolean(L, 1);
            return 1;
        }
        int results = after_write(L, stream, &way, wrote, &sent);
        if (results != MARE__WAITED)
            return results;
    }
}

static int write_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : write_rest(L, stream, (size_t)context);
}

void mare__lua_http_prepare(struct mare__stream *stream, size_t size)
{
    if (size < MUCH || stream->prepared)
        return;
    stream->prepared = true;
    mare__socket_keep_little(mare__stream_descriptor(stream));
}

// write(stream, before, text, after [, sent]): as stream:write, but the stream's timeout is for
// each stretch of 64 KiB, and not for all of them; and so many bytes have gone already.
int mare__lua_http_write(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    for (int i = BEFORE; i <= AFTER; i++)
        luaL_checkstring(L, i);
    size_t sent = (size_t)luaL_optinteger(L, SENT, 0);
    lua_settop(L, AFTER);
    lua_settop(L, DEADLINE);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    mare__lua_http_prepare(stream, lua_rawlen(L, TEXT));
    return write_rest(L, stream, sent);
}

// begin(stream, head): writes a head whose body follows at once, if that does not wait, so that
// both leave together. Returns what is left of the head.
int mare__lua_http_begin(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    struct iovec piece;
    ssize_t sent = 0;
    piece.iov_base = (char *)luaL_checklstring(L, BEFORE, &piece.iov_len);
    if (!mare__stream_closed(stream) && stream->transport->ops->send_file) {
        stream->transport->more = true;
        sent = mare__stream_write(stream, &piece, 1);
        stream->transport->more = false;
    }
    size_t gone = sent > 0 ? (size_t)sent : 0; // an error will happen again when the rest is
                                               // written
    lua_pushlstring(L, (char *)piece.iov_base + gone, piece.iov_len - gone);
    return 1;
}

// ---- Files --------------------------------------------------------------------------------------

enum { FILE_AT = 2, LEFT, GIVEN, UNTIL, KNOWN };

// Bytes in one call. So a peer that takes them as fast as they come leaves other routines a turn.
enum { SEND_MOST = 1 << 20 };

static int send_more(lua_State *L, int status, lua_KContext context);

// How many bytes after the sent ones lie in the system's memory and can be sent from there. None if
// the file is in use, was read ahead, is on a disk, or has no more: then a thread reads them. A
// file known to be in memory is not asked again.
static size_t near(lua_State *L, const struct mare__file *file, size_t sent, size_t left)
{
    size_t known = (size_t)lua_tointeger(L, KNOWN);
    const struct mare__descriptor *descriptor = file->descriptor;
    if (!descriptor || file->job || mare__file_buffered(file) > 0)
        return 0;
    if (sent >= known && sent < left) {
        known = descriptor->in_memory ? left
                                      : sent + descriptor->files->near(descriptor->context,
                                                                       descriptor->fd, left - sent);
        lua_pushinteger(L, (lua_Integer)known);
        lua_replace(L, KNOWN);
    }
    return known > sent ? known - sent : 0;
}

// Goes on sending.
static int send_rest(lua_State *L, struct mare__stream *stream, size_t sent)
{
    static const struct way way = {UNTIL, GIVEN, send_more};
    const struct mare__reference *ref = mare__handle_of(L, FILE_AT, MARE__KIND_FILE);
    if (mare__handle_moved(ref)) // perhaps during the wait for the peer
        return luaL_error(L, "the file was sent to another process");
    struct mare__file *file = (struct mare__file *)ref->object;
    size_t left = (size_t)lua_tointeger(L, LEFT);
    left = left < SEND_MOST ? left : SEND_MOST;
    for (;;) {
        mare__file_settle(file);
        size_t size = near(L, file, sent, left);
        ssize_t wrote = size > 0 ? mare__stream_send_file(stream, file->descriptor->fd, size) : 0;
        if (wrote == 0 || wrote == -EINVAL) {
            lua_pushinteger(L, (lua_Integer)sent);
            return 1;
        }
        int results = after_write(L, stream, &way, wrote, &sent);
        if (results != MARE__WAITED)
            return results;
    }
}

static int send_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : send_rest(L, stream, (size_t)context);
}

// send_file(stream, file, left [, deadline]): sends what can be sent of these bytes of a file
// without reading them, and returns how many; the rest is to be read and written, or sent by
// another call. Or nil, message, code.
int mare__lua_http_send_file(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    if (!mare__handle_of(L, FILE_AT, MARE__KIND_FILE))
        return luaL_typeerror(L, FILE_AT, "file");
    luaL_argcheck(L, luaL_checkinteger(L, LEFT) >= 0, LEFT, "a length is not negative");
    lua_settop(L, GIVEN);
    lua_settop(L, KNOWN);
    return mare__stream_closed(stream) ? mare__lua_fail_stream(L, MARE_CLOSED)
                                       : send_rest(L, stream, 0);
}
