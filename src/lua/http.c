// SPDX-License-Identifier: MIT
// HTTP/1.1 in Lua: a reader of messages over a stream. What is written is in http_write.c; what a
// server or a client does with both is in lua/mare/http/.
#include "lua/http.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

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

// The form of a request's target, if it is no path (RFC 9112 section 3.2).
static void set_form(lua_State *L, const struct mare__http_head *head)
{
    if (head->target.at[0] == '/')
        return;
    lua_pushstring(L, !head->path.at                                        ? "authority"
                      : head->target.size == 1 && head->target.at[0] == '*' ? "asterisk"
                                                                            : "absolute");
    lua_setfield(L, -2, "form");
}

int mare__lua_http_push_head(lua_State *L, const struct mare__http_head *head,
                             enum mare__http_kind kind)
{
    lua_createtable(L, 0, 12);
    if (kind == MARE__HTTP_REQUESTS) {
        set_span(L, "method", head->method);
        set_span(L, "target", head->target);
        set_form(L, head);
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
            return mare__lua_http_push_head(L, &reader->head, reader->kind);
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

void mare__lua_http_limits(lua_State *L, struct mare__http_limits *limits)
{
    limits->start_line = (uint32_t)get_limit(L, "start_line", UINT16_MAX, limits->start_line);
    limits->field_line = (uint32_t)get_limit(L, "field_line", UINT16_MAX, limits->field_line);
    limits->head = (uint32_t)get_limit(L, "head", MARE__HTTP_HEAD_MOST, limits->head);
    limits->fields = (uint32_t)get_limit(L, "fields", UINT16_MAX, limits->fields);
    limits->body = get_limit(L, "body", INT64_MAX, limits->body);
}

// reader("requests" | "responses" [, limits [, methods]]): the last are those that are known beside
// the usual ones, with spaces between.
static int new_reader(lua_State *L)
{
    static const char *const kinds[] = {"requests", "responses", NULL};
    static const luaL_Reg private_methods[] = {{"head", reader_head},
                                               {"body", reader_body},
                                               {"expect", reader_expect},
                                               {"idle", reader_idle},
                                               {NULL, NULL}};
    int kind = luaL_checkoption(L, 1, NULL, kinds);
    lua_settop(L, 3);
    if (!lua_isnil(L, 2))
        luaL_checktype(L, 2, LUA_TTABLE);
    const char *methods = luaL_optstring(L, 3, NULL);
    struct mare__http_reader *reader = lua_newuserdatauv(L, sizeof *reader, 1);
    mare__http_reader_init(reader, kind == 0 ? MARE__HTTP_REQUESTS : MARE__HTTP_RESPONSES);
    reader->methods = methods;
    lua_pushvalue(L, 3); // and so it stays
    lua_setiuservalue(L, -2, 1);
    mare__lua_http_limits(L, &reader->limits);
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, reader_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return 1;
}

// ---- The rest -----------------------------------------------------------------------------------

// at_end(stream): whether the peer has sent all, and said so.
static int at_end_of(lua_State *L)
{
    lua_pushboolean(L, mare__lua_stream(L, 1)->at_end);
    return 1;
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
                                                 {"response", mare__lua_http_response},
                                                 {"request", mare__lua_http_request},
                                                 {"write", mare__lua_http_write},
                                                 {"send_file", mare__lua_http_send_file},
                                                 {"phrase", phrase},
                                                 {"at_end", at_end_of},
                                                 {"encode64", mare__lua_encode64},
                                                 {"decode64", mare__lua_decode64},
                                                 {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
