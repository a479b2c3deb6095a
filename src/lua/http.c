// SPDX-License-Identifier: MIT
// HTTP/1.1 in Lua: a reader of messages over a stream, and the heads of messages as strings. What a
// server or a client does with them is in lua/mare/http/.
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/net.h"
#include "wire/http.h"

static const char metatable[] = "mare.http.reader";

enum { READER = 1, STREAM, PATIENCE, HURRY, DEADLINE };

static struct mare__http_reader *check(lua_State *L)
{
    return luaL_checkudata(L, READER, metatable);
}

// ---- Heads as tables ----------------------------------------------------------------------------

static void set_span(lua_State *L, const char *name, struct mare__span span)
{
    if (!span.at)
        return;
    lua_pushlstring(L, span.at, span.size);
    lua_setfield(L, -2, name);
}

static void push_lower(lua_State *L, struct mare__span name)
{
    char small[64];
    char *text = name.size <= sizeof small ? small : lua_newuserdatauv(L, name.size, 0);
    for (size_t i = 0; i < name.size; i++)
        text[i] = (char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] + 32 : name.at[i]);
    lua_pushlstring(L, text, name.size);
    if (text != small)
        lua_remove(L, -2);
}

// Adds a value to those that the table on top has under the name above it, and pops both: with a
// comma; but a cookie may have commas in it, so these are a list.
static void add_field(lua_State *L, struct mare__span value, bool cookie)
{
    lua_pushvalue(L, -1);
    bool first = lua_rawget(L, -3) == LUA_TNIL;
    if (first) {
        lua_pop(L, 1);
        if (cookie)
            lua_createtable(L, 1, 0);
    }
    if (!first && !cookie)
        lua_pushliteral(L, ", ");
    lua_pushlstring(L, value.at, value.size);
    if (cookie)
        lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    else if (!first)
        lua_concat(L, 3);
    lua_rawset(L, -3);
}

// Names in lower case; several fields of a name are one.
static void push_fields(lua_State *L, const struct mare__http_head *head)
{
    lua_createtable(L, 0, (int)head->count);
    for (size_t i = 0; i < head->count; i++) {
        push_lower(L, head->fields[i].name);
        add_field(L, head->fields[i].value, strcmp(lua_tostring(L, -1), "set-cookie") == 0);
    }
}

static int push_head(lua_State *L, const struct mare__http_reader *reader)
{
    const struct mare__http_head *head = &reader->head;
    lua_createtable(L, 0, 12);
    if (reader->kind == MARE__HTTP_REQUESTS) {
        set_span(L, "method", head->method);
        set_span(L, "target", head->target);
        set_span(L, "path", head->path);
        set_span(L, "query", head->query);
        set_span(L, "host", head->host);
        if (head->expect_continue) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, "expects");
        }
    } else {
        lua_pushinteger(L, head->status);
        lua_setfield(L, -2, "status");
        set_span(L, "reason", head->reason);
        if (head->interim) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, "interim");
        }
    }
    lua_pushinteger(L, head->minor);
    lua_setfield(L, -2, "minor");
    lua_pushboolean(L, head->keep_alive);
    lua_setfield(L, -2, "keep_alive");
    if (head->upgrade.size > 0)
        set_span(L, "upgrade", head->upgrade);
    if (head->body != MARE__HTTP_BODY_NONE) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, "has_body");
    }
    if (head->body == MARE__HTTP_BODY_LENGTH) {
        lua_pushinteger(L, (lua_Integer)head->length);
        lua_setfield(L, -2, "length");
    }
    push_fields(L, head);
    lua_setfield(L, -2, "headers");
    return 1;
}

// ---- Reading ------------------------------------------------------------------------------------

// nil, reason, code, and the status to answer with.
static int fail_message(lua_State *L, const struct mare__http_reader *reader)
{
    lua_pushstring(L, reader->error.reason);
    mare__lua_fail_with(L, reader->error.code);
    lua_pushinteger(L, reader->error.status);
    return 4;
}

// What the reader makes of the bytes: results pushed, or 0: it needs more. `*used` bytes are gone.
static int interpret(lua_State *L, struct mare__http_reader *reader, bool body, const char *bytes,
                     size_t size, size_t *used)
{
    *used = 0;
    for (;;) {
        size_t step;
        enum mare__http_event event = mare__http_read(reader, bytes + *used, size - *used, &step);
        *used += step;
        switch (event) {
        case MARE__HTTP_MORE:
            return 0;
        case MARE__HTTP_HEAD:
            return push_head(L, reader);
        case MARE__HTTP_BODY:
            lua_pushlstring(L, reader->slice.at, reader->slice.size);
            return 1;
        case MARE__HTTP_END:
            if (!body)
                break; // of the message before
            lua_pushboolean(L, 0);
            return 1;
        case MARE__HTTP_ERROR:
            return fail_message(L, reader);
        }
    }
}

static int at_end(lua_State *L, struct mare__http_reader *reader, bool body)
{
    switch (mare__http_read_end(reader)) {
    case MARE__HTTP_ERROR:
        return fail_message(L, reader);
    case MARE__HTTP_END:
        if (body) {
            lua_pushboolean(L, 0);
            return 1;
        }
        break;
    default:
        break;
    }
    lua_pushliteral(L, "the peer has closed the connection");
    return mare__lua_fail_with(L, MARE_CLOSED);
}

static uint64_t deadline_in(lua_State *L, const struct mare__stream *stream, int index)
{
    lua_Number seconds = lua_tonumber(L, index);
    return lua_isnil(L, index) || seconds > 1e9
               ? MARE_FOREVER
               : mare__now(stream->runtime) + (uint64_t)(seconds * 1e9);
}

static int read_more(lua_State *L, int status, lua_KContext context);

// Goes on reading: a head, or a part of a body. `ready`: the stream has been waited for.
static int read_message(lua_State *L, struct mare__stream *stream, bool body, bool ready)
{
    struct mare__http_reader *reader = check(L);
    char bytes[MARE__STREAM_ROOM];
    size_t used, have = mare__stream_buffered(stream);
    const char *before = have > 0 ? stream->bytes + stream->first : bytes;
    int results = interpret(L, reader, body, before, have, &used);
    if (have > 0)
        mare__stream_used(stream, used);
    while (results == 0) {
        if (stream->at_end)
            return at_end(L, reader, body);
        ssize_t got = stream->drained && !ready ? -EAGAIN : mare__stream_read(stream, bytes);
        ready = true;
        if (got == -EAGAIN) {
            // A head may be long in coming, but once it has begun it must be there soon.
            bool begun = lua_toboolean(L, DEADLINE + 1);
            if (lua_isnil(L, DEADLINE)) {
                lua_pushinteger(L, (lua_Integer)deadline_in(L, stream, begun ? HURRY : PATIENCE));
                lua_replace(L, DEADLINE);
            }
            int waited = mare__lua_wait_stream(
                L, stream, MARE__TO_READ, (uint64_t)lua_tointeger(L, DEADLINE), read_more, body);
            if (waited != MARE__WAITED)
                return waited;
            continue;
        }
        if (got < 0)
            return mare__lua_fail_io(L, stream, (int)-got);
        if (got == 0)
            continue;
        if (body || !lua_toboolean(L, DEADLINE + 1)) { // it moves: the time is counted anew
            lua_pushboolean(L, 1);
            lua_replace(L, DEADLINE + 1);
            lua_pushnil(L);
            lua_replace(L, DEADLINE);
        }
        results = interpret(L, reader, body, bytes, (size_t)got, &used);
        if (used < (size_t)got && !mare__stream_keep(stream, bytes + used, (size_t)got - used))
            return mare__lua_fail(L, MARE_NOMEM);
    }
    return results;
}

static int read_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    bool begun = lua_toboolean(L, DEADLINE + 1);
    if (err == MARE_TIMEOUT && begun && !context) { // it trickles
        mare__lua_fail(L, err);
        lua_pushinteger(L, 408);
        return 4;
    }
    return err ? mare__lua_fail_stream(L, err) : read_message(L, stream, context, true);
}

static int start_reading(lua_State *L, bool body)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    check(L);
    lua_settop(L, HURRY);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, DEADLINE);
    lua_pushboolean(L, body || mare__stream_buffered(stream) > 0);
    return read_message(L, stream, body, false);
}

// reader:head(stream, patience, hurry): the next message's head, as a table; `patience` seconds for
// its first byte, `hurry` for the whole of it.
static int reader_head(lua_State *L)
{
    return start_reading(L, false);
}

// reader:body(stream, patience, hurry): the next part of the body, or false at its end; `hurry`
// seconds for each part.
static int reader_body(lua_State *L)
{
    return start_reading(L, true);
}

// reader:expect(method): what the next response answers.
static int reader_expect(lua_State *L)
{
    struct mare__http_reader *reader = check(L);
    size_t size;
    const char *method = luaL_checklstring(L, 2, &size);
    mare__http_reader_expect(reader, (struct mare__span){method, size});
    return 0;
}

// reader:idle(): whether no message has begun.
static int reader_idle(lua_State *L)
{
    lua_pushboolean(L, mare__http_reader_idle(check(L)));
    return 1;
}

static int reader_gc(lua_State *L)
{
    mare__http_reader_fini(check(L));
    return 0;
}

static uint64_t get_limit(lua_State *L, const char *name, uint64_t most, uint64_t usual)
{
    if (lua_isnil(L, 2))
        return usual;
    bool given = lua_getfield(L, 2, name) != LUA_TNIL;
    lua_Integer value = lua_tointeger(L, -1);
    if (given && (!lua_isinteger(L, -1) || value < 0 || (uint64_t)value > most))
        luaL_error(L, "limit '%s' must be an integer between 0 and %I", name, (lua_Integer)most);
    lua_pop(L, 1);
    return given ? (uint64_t)value : usual;
}

// reader("requests" | "responses" [, limits])
static int new_reader(lua_State *L)
{
    static const char *const kinds[] = {"requests", "responses", NULL};
    static const luaL_Reg private_methods[] = {{"head", reader_head},
                                               {"body", reader_body},
                                               {"expect", reader_expect},
                                               {"idle", reader_idle},
                                               {NULL, NULL}};
    int kind = luaL_checkoption(L, 1, NULL, kinds);
    lua_settop(L, 2);
    if (!lua_isnil(L, 2))
        luaL_checktype(L, 2, LUA_TTABLE);
    struct mare__http_reader *reader = lua_newuserdatauv(L, sizeof *reader, 0);
    mare__http_reader_init(reader, kind == 0 ? MARE__HTTP_REQUESTS : MARE__HTTP_RESPONSES);
    struct mare__http_limits *limits = &reader->limits;
    limits->start_line = (uint32_t)get_limit(L, "start_line", UINT16_MAX, limits->start_line);
    limits->field_line = (uint32_t)get_limit(L, "field_line", UINT16_MAX, limits->field_line);
    limits->head = (uint32_t)get_limit(L, "head", MARE__HTTP_HEAD_MOST, limits->head);
    limits->fields = (uint32_t)get_limit(L, "fields", UINT16_MAX, limits->fields);
    limits->body = get_limit(L, "body", INT64_MAX, limits->body);
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

static struct mare__span span_at(lua_State *L, int index)
{
    struct mare__span span = {NULL, 0};
    if (!lua_isnoneornil(L, index))
        span.at = luaL_checklstring(L, index, &span.size);
    return span;
}

size_t mare__lua_fields(lua_State *L, int table, struct mare__http_field *fields)
{
    size_t count = 0;
    if (lua_isnoneornil(L, table))
        return 0;
    luaL_checktype(L, table, LUA_TTABLE);
    lua_pushnil(L);
    while (lua_next(L, table)) {
        int value = lua_gettop(L), several = lua_istable(L, value);
        lua_Integer n = several ? luaL_len(L, value) : 1;
        if (lua_type(L, value - 1) != LUA_TSTRING)
            luaL_error(L, "the names of headers must be strings");
        for (lua_Integer i = 1; i <= n; i++) {
            luaL_checkstack(L, 4, "too many headers");
            if (several)
                lua_geti(L, value, i);
            else
                lua_pushvalue(L, value);
            if (!lua_isstring(L, -1))
                luaL_error(L, "header '%s' must be a string or a number, not a %s",
                           lua_tostring(L, value - 1), luaL_typename(L, -1));
            if (count == MARE__LUA_FIELDS_MAX)
                luaL_error(L, "more than %d headers", MARE__LUA_FIELDS_MAX);
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
    if (lua_isinteger(L, index)) {
        *length = (uint64_t)lua_tointeger(L, index);
        return MARE__HTTP_BODY_LENGTH;
    }
    return lua_toboolean(L, index) ? MARE__HTTP_BODY_CHUNKED : MARE__HTTP_BODY_UNTIL_CLOSE;
}

static int push_written(lua_State *L, struct mare__bytes *out, mare_err err)
{
    if (!err)
        lua_pushlstring(L, out->at, out->size);
    mare__bytes_fini(out);
    if (err == MARE_INVALID)
        return luaL_error(L, "a header, a status or a target that may not be sent as it is");
    return err ? mare__lua_fail(L, err) : 1;
}

// response(status, headers, body, minor, keep_alive, date [, upgrade]): the head as a string. The
// body is its length, true for chunks, false for all until the connection's end, nil for none.
static int put_response(lua_State *L)
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
    return push_written(L, &out, mare__http_put_response(&out, &response));
}

// request(method, target, host, headers, body, keep_alive, expect, upgrade)
static int put_request(lua_State *L)
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
    return push_written(L, &out, mare__http_put_request(&out, &request));
}

// phrase(status)
static int phrase(lua_State *L)
{
    lua_pushstring(L, mare__http_phrase((int)luaL_checkinteger(L, 1)));
    return 1;
}

int mare__lua_open_http(lua_State *L)
{
    static const luaL_Reg private_functions[] = {{"reader", new_reader},
                                                 {"response", put_response},
                                                 {"request", put_request},
                                                 {"phrase", phrase},
                                                 {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
