// SPDX-License-Identifier: MIT
// HTTP/1.1 in Lua: a reader of messages over a stream. What is written is in http_write.c; what a
// server or a client does with both is in lua/mare/http/.
#include "lua/http.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static const char metatable[] = "mare.http.reader";

struct mare__lua_reader *mare__lua_reader(lua_State *L)
{
    return luaL_checkudata(L, MARE__READER, metatable);
}

// One that was checked.
static struct mare__lua_reader *reader_of(lua_State *L)
{
    return lua_touserdata(L, MARE__READER);
}

// ---- Heads as tables ----------------------------------------------------------------------------

// The names of what a head and a request have. Functions that need them for each request have them
// as upvalues, in this order: looking a name up costs more than setting the field.
static const char *const names[] = {
    [MARE__KEY_METHOD] = "method",   [MARE__KEY_TARGET] = "target",
    [MARE__KEY_FORM] = "form",       [MARE__KEY_PATH] = "path",
    [MARE__KEY_QUERY] = "query",     [MARE__KEY_HOST] = "host",
    [MARE__KEY_EXPECTS] = "expects", [MARE__KEY_STATUS] = "status",
    [MARE__KEY_REASON] = "reason",   [MARE__KEY_INTERIM] = "interim",
    [MARE__KEY_MINOR] = "minor",     [MARE__KEY_KEEP_ALIVE] = "keep_alive",
    [MARE__KEY_UPGRADE] = "upgrade", [MARE__KEY_HAS_BODY] = "has_body",
    [MARE__KEY_LENGTH] = "length",   [MARE__KEY_HEADERS] = "headers",
    [MARE__KEY_STREAM] = "stream",   [MARE__KEY_PEER] = "peer",
    [MARE__KEY_TAKEN] = "taken",     [MARE__KEY_GONE] = "gone",
    [MARE__KEY_LOOKING] = "looking", [MARE__KEY_ENDING] = "ending",
};

// Sets a field of the table below the value on top, and pops that.
static void set(lua_State *L, enum mare__http_key key, bool own)
{
    if (own)
        lua_pushvalue(L, lua_upvalueindex(1 + (int)key));
    else
        lua_pushstring(L, names[key]);
    lua_insert(L, -2);
    lua_rawset(L, -3);
}

static void set_span(lua_State *L, enum mare__http_key key, bool own, struct mare__span span)
{
    if (!span.at)
        return;
    lua_pushlstring(L, span.at, span.size);
    set(L, key, own);
}

static void set_boolean(lua_State *L, enum mare__http_key key, bool own, bool value)
{
    lua_pushboolean(L, value);
    set(L, key, own);
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

// Adds a value to the table on top, under the name above it, and pops both. Values with the same
// name are joined by a comma. Cookies may have commas in them, so those become a list.
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

// Pushes the fields: names in lower case; several fields of one name are joined.
static void push_fields(lua_State *L, const struct mare__http_head *head)
{
    lua_createtable(L, 0, (int)head->count);
    for (size_t i = 0; i < head->count; i++) {
        push_lower(L, head->fields[i].name);
        add_field(L, head->fields[i].value, strcmp(lua_tostring(L, -1), "set-cookie") == 0);
    }
}

// Sets the form of a request's target, if it is not a path (RFC 9112 section 3.2).
static void set_form(lua_State *L, const struct mare__http_head *head, bool own)
{
    if (head->target.at[0] == '/')
        return;
    lua_pushstring(L, !head->path.at                                        ? "authority"
                      : head->target.size == 1 && head->target.at[0] == '*' ? "asterisk"
                                                                            : "absolute");
    set(L, MARE__KEY_FORM, own);
}

static void set_request(lua_State *L, const struct mare__http_head *head, bool own)
{
    set_span(L, MARE__KEY_METHOD, own, head->method);
    set_span(L, MARE__KEY_TARGET, own, head->target);
    set_form(L, head, own);
    set_span(L, MARE__KEY_PATH, own, head->path);
    set_span(L, MARE__KEY_QUERY, own, head->query);
    set_span(L, MARE__KEY_HOST, own, head->host);
    if (head->expect_continue)
        set_boolean(L, MARE__KEY_EXPECTS, own, true);
}

static void set_response(lua_State *L, const struct mare__http_head *head, bool own)
{
    lua_pushinteger(L, head->status);
    set(L, MARE__KEY_STATUS, own);
    set_span(L, MARE__KEY_REASON, own, head->reason);
    if (head->interim)
        set_boolean(L, MARE__KEY_INTERIM, own, true);
}

int mare__lua_http_push_head(lua_State *L, const struct mare__http_head *head,
                             enum mare__http_kind kind, bool own)
{
    lua_createtable(L, 0, 12);
    if (kind == MARE__HTTP_REQUESTS)
        set_request(L, head, own);
    else
        set_response(L, head, own);
    lua_pushinteger(L, head->minor);
    set(L, MARE__KEY_MINOR, own);
    set_boolean(L, MARE__KEY_KEEP_ALIVE, own, head->keep_alive);
    if (head->upgrade.size > 0)
        set_span(L, MARE__KEY_UPGRADE, own, head->upgrade);
    if (head->body != MARE__HTTP_BODY_NONE)
        set_boolean(L, MARE__KEY_HAS_BODY, own, true);
    if (head->body == MARE__HTTP_BODY_LENGTH) {
        lua_pushinteger(L, (lua_Integer)head->length);
        set(L, MARE__KEY_LENGTH, own);
    }
    push_fields(L, head);
    set(L, MARE__KEY_HEADERS, own);
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

// Pushes what the reader makes of the bytes, and returns how many results; 0: it needs more bytes.
// `*used` bytes were used. The reader of a head has the names as upvalues.
static int interpret(lua_State *L, struct mare__lua_reader *whole, bool body, const char *bytes,
                     size_t size, size_t *used)
{
    struct mare__http_reader *reader = &whole->http;
    *used = 0;
    if (whole->lost) // what comes now would look like the rest of what was lost
        mare__http_reader_lose(reader);
    for (;;) {
        size_t step;
        enum mare__http_event event = mare__http_read(reader, bytes + *used, size - *used, &step);
        *used += step;
        whole->ends += event == MARE__HTTP_END;
        switch (event) {
        case MARE__HTTP_MORE:
            return 0;
        case MARE__HTTP_HEAD:
            whole->lost = true; // unless the next call returns
            mare__lua_http_push_head(L, &reader->head, reader->kind, !body);
            whole->lost = false;
            return 1;
        case MARE__HTTP_BODY:
            whole->lost = true;
            lua_pushlstring(L, reader->slice.at, reader->slice.size);
            whole->lost = false;
            return 1;
        case MARE__HTTP_END:
            if (!body)
                break; // the rest of the message before
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

// Waits until the stream can be read: as mare__lua_wait_stream.
static int wait_for_bytes(lua_State *L, struct mare__stream *stream, enum mare__reading what)
{
    // A client may wait long before a head; but once a head has begun it must be complete soon.
    bool begun = lua_toboolean(L, MARE__BEGUN);
    if (lua_isnil(L, MARE__UNTIL)) {
        uint64_t deadline = deadline_in(L, stream, begun ? MARE__HURRY : MARE__PATIENCE);
        lua_pushinteger(L, (lua_Integer)deadline);
        lua_replace(L, MARE__UNTIL);
    }
    return mare__lua_wait_stream(L, stream, MARE__TO_READ, (uint64_t)lua_tointeger(L, MARE__UNTIL),
                                 read_more, (lua_KContext)what);
}

// Bytes have come: starts the time anew; for a head only once.
static void begin_anew(lua_State *L, bool body)
{
    if (!body && lua_toboolean(L, MARE__BEGUN))
        return;
    lua_pushboolean(L, 1);
    lua_replace(L, MARE__BEGUN);
    lua_pushnil(L);
    lua_replace(L, MARE__UNTIL);
}

// Goes on reading a head, or a part of a body. `ready`: the stream was waited for.
static int read_message(lua_State *L, struct mare__stream *stream, enum mare__reading what,
                        bool ready)
{
    struct mare__lua_reader *reader = reader_of(L);
    bool body = what == MARE__READ_BODY;
    char bytes[MARE__STREAM_ROOM];
    size_t used, have = mare__stream_buffered(stream);
    const char *before = have > 0 ? stream->bytes + stream->first : bytes;
    int results = have > 0 || !ready ? interpret(L, reader, body, before, have, &used) : 0;
    if (have > 0)
        mare__stream_used(stream, used);
    while (results == 0) {
        if (stream->at_end)
            return at_end(L, &reader->http, body);
        ssize_t got = stream->drained && !ready ? -EAGAIN : mare__stream_read(stream, bytes);
        ready = true;
        if (got == -EAGAIN) {
            int waited = wait_for_bytes(L, stream, what);
            if (waited != MARE__WAITED)
                return waited;
            continue;
        }
        if (got < 0)
            return mare__lua_fail_io(L, stream, (int)-got);
        if (got == 0)
            continue;
        begin_anew(L, body);
        results = interpret(L, reader, body, bytes, (size_t)got, &used);
        if (used < (size_t)got && !mare__stream_keep(stream, bytes + used, (size_t)got - used))
            return mare__lua_fail(L, MARE_NOMEM);
    }
    return results;
}

static int read_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    enum mare__reading what = (enum mare__reading)context;
    struct mare__stream *stream = mare__lua_stream(L, MARE__READ_FROM);
    mare_err err = mare__lua_outcome(L, stream);
    int results;
    if (what == MARE__READ_BODY &&
        (uint64_t)lua_tointeger(L, MARE__PATIENCE) != reader_of(L)->ends) {
        // Another routine has read the end of this body. The bytes that have come belong to the
        // next message.
        mare__stream_tell(stream, MARE__TO_READ);
        lua_pushboolean(L, 0);
        return 1;
    }
    if (err == MARE_TIMEOUT && lua_toboolean(L, MARE__BEGUN) && what != MARE__READ_BODY) {
        mare__lua_fail(L, err); // the peer sends too slowly
        lua_pushinteger(L, 408);
        results = 4;
    } else {
        results = err ? mare__lua_fail_stream(L, err) : read_message(L, stream, what, true);
    }
    reader_of(L)->awaits = false;
    return what == MARE__READ_TO_SERVE ? mare__lua_http_serve_on(L, results) : results;
}

int mare__lua_http_read(lua_State *L, enum mare__reading what)
{
    struct mare__stream *stream = mare__lua_stream(L, MARE__READ_FROM);
    struct mare__lua_reader *reader = reader_of(L);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_pushnil(L);
    lua_replace(L, MARE__UNTIL);
    lua_pushboolean(L, what == MARE__READ_BODY || mare__stream_buffered(stream) > 0);
    lua_replace(L, MARE__BEGUN);
    if (what == MARE__READ_BODY) { // for a body both times are `hurry`
        lua_pushinteger(L, (lua_Integer)reader->ends);
        lua_replace(L, MARE__PATIENCE);
    }
    reader->awaits = what != MARE__READ_BODY;
    int results = read_message(L, stream, what, false);
    reader->awaits = false;
    return results;
}

// reader:head(stream, patience, hurry): the next message's head, as a table; `patience` seconds for
// its first byte, `hurry` for the whole of it.
static int reader_head(lua_State *L)
{
    mare__lua_reader(L);
    lua_settop(L, MARE__HURRY);
    lua_settop(L, MARE__BEGUN);
    return mare__lua_http_read(L, MARE__READ_HEAD);
}

// reader:body(stream, patience, hurry): the next part of the body, or false at its end; `hurry`
// seconds for each part.
static int reader_body(lua_State *L)
{
    mare__lua_reader(L);
    lua_settop(L, MARE__HURRY);
    lua_settop(L, MARE__BEGUN);
    return mare__lua_http_read(L, MARE__READ_BODY);
}

// reader:expect(method): what the next response answers.
static int reader_expect(lua_State *L)
{
    size_t size;
    const char *method = luaL_checklstring(L, 2, &size);
    mare__http_reader_expect(&mare__lua_reader(L)->http, (struct mare__span){method, size});
    return 0;
}

// reader:idle(): whether somebody waits for a message, and none has begun.
static int reader_idle(lua_State *L)
{
    const struct mare__lua_reader *reader = mare__lua_reader(L);
    lua_pushboolean(L, reader->awaits && mare__http_reader_idle(&reader->http));
    return 1;
}

enum { METHODS = 1, REQUEST }; // the values of a reader

void mare__lua_http_enter(lua_State *L, struct mare__lua_reader *reader, int index)
{
    reader->inside = true;
    reader->turn++;
    lua_pushvalue(L, index);
    lua_setiuservalue(L, MARE__READER, REQUEST);
}

void mare__lua_http_leave(lua_State *L, struct mare__lua_reader *reader)
{
    reader->inside = false;
    lua_pushnil(L);
    lua_setiuservalue(L, MARE__READER, REQUEST);
}

// reader:enter(request), reader:leave(): a function of the program's begins to handle the request,
// or ends.
static int reader_enter(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TTABLE);
    mare__lua_http_enter(L, mare__lua_reader(L), 2);
    return 0;
}

static int reader_leave(lua_State *L)
{
    mare__lua_http_leave(L, mare__lua_reader(L));
    return 0;
}

// reader:inside(): the request that the program is handling, or nil; and how many it has handled.
static int reader_inside(lua_State *L)
{
    const struct mare__lua_reader *reader = mare__lua_reader(L);
    lua_settop(L, 1);
    lua_getiuservalue(L, MARE__READER, REQUEST);
    lua_pushinteger(L, (lua_Integer)reader->turn);
    return 2;
}

static int reader_gc(lua_State *L)
{
    mare__http_reader_fini(&mare__lua_reader(L)->http);
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
    static const luaL_Reg private_with_names[] = {
        {"head", reader_head}, {"serve", mare__lua_http_serve}, {NULL, NULL}};
    static const luaL_Reg private_methods[] = {{"body", reader_body},
                                               {"expect", reader_expect},
                                               {"idle", reader_idle},
                                               {"enter", reader_enter},
                                               {"leave", reader_leave},
                                               {"inside", reader_inside},
                                               {NULL, NULL}};
    int kind = luaL_checkoption(L, 1, NULL, kinds);
    lua_settop(L, 3);
    if (!lua_isnil(L, 2))
        luaL_checktype(L, 2, LUA_TTABLE);
    const char *methods = luaL_optstring(L, 3, NULL);
    struct mare__lua_reader *reader = lua_newuserdatauv(L, sizeof *reader, REQUEST);
    *reader = (struct mare__lua_reader){0};
    mare__http_reader_init(&reader->http, kind == 0 ? MARE__HTTP_REQUESTS : MARE__HTTP_RESPONSES);
    reader->http.methods = methods;
    lua_pushvalue(L, 3); // keeps it alive
    lua_setiuservalue(L, -2, METHODS);
    mare__lua_http_limits(L, &reader->http.limits);
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        luaL_checkstack(L, MARE__KEYS + 2, NULL);
        for (int i = 0; i < MARE__KEYS; i++)
            lua_pushstring(L, names[i]);
        luaL_setfuncs(L, private_with_names, MARE__KEYS);
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
                                                 {"clock", mare__lua_http_new_clock},
                                                 {"response", mare__lua_http_response},
                                                 {"request", mare__lua_http_request},
                                                 {"write", mare__lua_http_write},
                                                 {"begin", mare__lua_http_begin},
                                                 {"send_file", mare__lua_http_send_file},
                                                 {"phrase", phrase},
                                                 {"at_end", at_end_of},
                                                 {"encode64", mare__lua_encode64},
                                                 {"decode64", mare__lua_decode64},
                                                 {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
