// SPDX-License-Identifier: MIT
// HTTP/2 in Lua: a session over a stream of bytes. What a server or a client does with it is in
// lua/mare/http/. One routine reads and one writes; the others only submit what is to go.
//
// A text that is to be sent is not copied: the session's user value has it, by the number of its
// stream, until it is sent or the stream is forgotten.
#include "lua/http2.h"

#include <nghttp2/nghttp2.h>

static const char metatable[] = "mare.http2";

enum { SESSION = 1 };

struct session {
    struct mare__http2 http2;
    const char *methods; // known beside the usual ones, in user value 2
};

static struct session *check(lua_State *L)
{
    return luaL_checkudata(L, SESSION, metatable);
}

struct mare__http2 *mare__lua_http2_use(lua_State *L)
{
    struct mare__http2 *http2 = &check(L)->http2;
    if (http2->session)
        return http2;
    lua_pushliteral(L, "the connection is closed");
    mare__lua_fail_with(L, MARE_CLOSED);
    return NULL;
}

// The stream of the number at index 2; NULL likewise.
static struct mare__http2_stream *find(lua_State *L, struct mare__http2 **http2)
{
    *http2 = mare__lua_http2_use(L);
    if (!*http2)
        return NULL;
    struct mare__http2_stream *stream = mare__http2_find(*http2, (int32_t)luaL_checkinteger(L, 2));
    if (stream)
        return stream;
    lua_pushliteral(L, "the stream is over");
    mare__lua_fail_with(L, MARE_CLOSED);
    return NULL;
}

static int done(lua_State *L, mare_err err)
{
    if (err == MARE_CLOSED) {
        lua_pushliteral(L, "the stream is over");
        return mare__lua_fail_with(L, err);
    }
    if (err)
        return mare__lua_fail(L, err);
    lua_pushboolean(L, 1);
    return 1;
}

// ---- Events and heads ---------------------------------------------------------------------------

// s:event(): what has happened: "head", "body", "drained", "closed" and the number of a stream, or
// "goodbye"; and the code of an error. Nothing, if there is nothing.
static int session_event(lua_State *L)
{
    static const char *const kinds[] = {"head", "body", "drained", "closed", "goodbye"};
    struct mare__http2_event event;
    struct mare__http2 *http2 = &check(L)->http2;
    if (!http2->session || !mare__http2_next(http2, &event))
        return 0;
    if (event.kind == MARE__HTTP2_DRAINED || event.kind == MARE__HTTP2_CLOSED) {
        lua_getiuservalue(L, SESSION, 1);
        lua_pushnil(L);
        lua_rawseti(L, -2, event.stream);
        lua_pop(L, 1);
    }
    // A server does not need the unread rest of a stream that is over; a client does.
    struct mare__http2_stream *stream = mare__http2_find(http2, event.stream);
    if (event.kind == MARE__HTTP2_CLOSED && http2->settings.server && stream)
        mare__http2_forget(http2, stream);
    lua_pushstring(L, kinds[event.kind]);
    lua_pushinteger(L, event.stream);
    lua_pushinteger(L, event.error);
    return 3;
}

static int push_refused(lua_State *L, const struct mare__http2_stream *stream)
{
    lua_pushnil(L);
    lua_pushinteger(L, stream->refused);
    lua_pushstring(L, stream->reason);
    return 3;
}

// s:request(id): its head, as a table; or nil, the status to refuse it with, and why.
static int session_request(lua_State *L)
{
    struct mare__http2 *http2;
    struct mare__http2_stream *stream = find(L, &http2);
    struct mare__http_head head;
    if (!stream)
        return 3;
    if (!mare__http2_request_head(http2, stream, check(L)->methods, &head))
        return push_refused(L, stream);
    return mare__lua_http_push_head(L, &head, MARE__HTTP_REQUESTS, false);
}

// s:response(id): likewise.
static int session_response(lua_State *L)
{
    struct mare__http2 *http2;
    struct mare__http2_stream *stream = find(L, &http2);
    struct mare__http_head head;
    if (!stream)
        return 3;
    if (!mare__http2_response_head(http2, stream, &head))
        return push_refused(L, stream);
    return mare__lua_http_push_head(L, &head, MARE__HTTP_RESPONSES, false);
}

// Reads the body that goes with a head: a text, true for parts that come later, or nothing. The
// text is kept.
static bool get_body(lua_State *L, int index, struct mare__span *text)
{
    if (lua_type(L, index) == LUA_TSTRING) {
        text->at = lua_tolstring(L, index, &text->size);
        return text->size > 0;
    }
    return lua_toboolean(L, index);
}

// Makes room for the text of a stream, before the session refers to it: then keep_text needs no
// memory.
static void make_place(lua_State *L, int32_t stream)
{
    lua_getiuservalue(L, SESSION, 1);
    if (lua_rawgeti(L, -1, stream) == LUA_TNIL) {
        lua_pushboolean(L, 0);
        lua_rawseti(L, -3, stream);
    }
    lua_pop(L, 2);
}

static void keep_text(lua_State *L, int32_t stream, int index)
{
    if (lua_type(L, index) != LUA_TSTRING)
        return;
    lua_getiuservalue(L, SESSION, 1);
    lua_pushvalue(L, index);
    lua_rawseti(L, -2, stream);
    lua_pop(L, 1);
}

static struct mare__span span_at(lua_State *L, int index)
{
    struct mare__span span;
    span.at = luaL_checklstring(L, index, &span.size);
    return span;
}

// Raises an error if a field of the head must not be sent.
static int sent(lua_State *L, const struct mare__http_field *fields, size_t count,
                enum mare__http_kind kind, mare_err err)
{
    if (err == MARE_INVALID) {
        mare__lua_blame_field(L, fields, count, kind);
        lua_pushliteral(L, "a status that may not be sent");
        return lua_error(L);
    }
    return done(L, err);
}

// s:respond(id, status, headers, length, body, date): the length may be nil; the body a text, true
// if it is given later, or nil.
static int session_respond(lua_State *L)
{
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__http2_answer answer = {.fields = fields};
    struct mare__http2 *http2;
    lua_settop(L, 7);
    int32_t id = (int32_t)luaL_checkinteger(L, 2);
    answer.status = (int)luaL_checkinteger(L, 3);
    answer.has_length = !lua_isnil(L, 5);
    answer.length = (uint64_t)luaL_optinteger(L, 5, 0);
    answer.has_body = get_body(L, 6, &answer.text);
    if (!lua_isnil(L, 7))
        answer.date = span_at(L, 7);
    answer.count = mare__lua_fields(L, 4, fields);
    // Not before this: reading the fields may call functions of the program, which may change
    // everything.
    struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    if (answer.has_body)
        make_place(L, id);
    mare_err err = mare__http2_respond(http2, stream, &answer);
    if (!err && answer.has_body)
        keep_text(L, id, 6);
    return sent(L, fields, answer.count, MARE__HTTP_RESPONSES, err);
}

// s:ask(method, scheme, authority, target, headers, length, body): the number of a new stream; or
// nil, message, code.
static int session_ask(lua_State *L)
{
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__http2_question question = {.fields = fields};
    struct mare__http2_stream *stream = NULL;
    lua_settop(L, 8);
    question.method = span_at(L, 2);
    question.scheme = span_at(L, 3);
    question.authority = span_at(L, 4);
    question.target = span_at(L, 5);
    question.has_length = !lua_isnil(L, 7);
    question.length = (uint64_t)luaL_optinteger(L, 7, 0);
    question.has_body = get_body(L, 8, &question.text);
    question.count = mare__lua_fields(L, 6, fields);
    struct mare__http2 *http2 = mare__lua_http2_use(L); // not before this, as above
    if (!http2)
        return 3;
    if (question.has_body)
        make_place(L, (int32_t)nghttp2_session_get_next_stream_id(http2->session));
    mare_err err = mare__http2_ask(http2, &question, &stream);
    if (err)
        return sent(L, fields, question.count, MARE__HTTP_REQUESTS, err);
    if (question.has_body)
        keep_text(L, stream->id, 8);
    lua_pushinteger(L, stream->id);
    return 1;
}

// ---- Bodies -------------------------------------------------------------------------------------

// s:give(id, text, last): the next part of a body that is sent.
static int session_give(lua_State *L)
{
    struct mare__http2 *http2;
    luaL_checktype(L, 3, LUA_TSTRING);
    struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    keep_text(L, stream->id, 3);
    return done(L, mare__http2_give(http2, stream, span_at(L, 3), lua_toboolean(L, 4)));
}

// s:body(id): what has come of a body that is read, as a text; false at its end; true if there is
// nothing yet; or nil, message, code: it was cut off.
static int session_body(lua_State *L)
{
    struct mare__http2 *http2;
    struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    struct mare__span body = mare__http2_body(stream);
    if (body.size > 0) {
        lua_pushlstring(L, body.at, body.size);
        mare__http2_body_used(http2, stream, body.size);
    } else if (stream->closed && !stream->ended) {
        lua_pushstring(L, nghttp2_http2_strerror(stream->error));
        lua_pushfstring(L, "the peer has reset the stream (%s)", lua_tostring(L, -1));
        return mare__lua_fail_with(L, MARE_BADMSG);
    } else {
        lua_pushboolean(L, !stream->ended);
    }
    return 1;
}

// s:ended(id): whether all of its body has come.
static int session_ended(lua_State *L)
{
    struct mare__http2 *http2;
    const struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    lua_pushboolean(L, stream->ended);
    return 1;
}

// s:ignore(id): its body is not wanted.
static int session_ignore(lua_State *L)
{
    struct mare__http2 *http2;
    struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    mare__http2_ignore(http2, stream);
    return done(L, MARE_OK);
}

// s:reset(id, "none" | "internal" | "cancel" | "refused"): it is over.
static int session_reset(lua_State *L)
{
    static const char *const names[] = {"none", "internal", "cancel", "refused", NULL};
    static const uint32_t codes[] = {NGHTTP2_NO_ERROR, NGHTTP2_INTERNAL_ERROR, NGHTTP2_CANCEL,
                                     NGHTTP2_REFUSED_STREAM};
    struct mare__http2 *http2;
    struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    mare__http2_reset(http2, stream, codes[luaL_checkoption(L, 3, NULL, names)]);
    return done(L, MARE_OK);
}

// s:forget(id): nothing more will be asked of it.
static int session_forget(lua_State *L)
{
    struct mare__http2 *http2;
    struct mare__http2_stream *stream = find(L, &http2);
    if (!stream)
        return 3;
    lua_getiuservalue(L, SESSION, 1);
    lua_pushnil(L);
    lua_rawseti(L, -2, stream->id);
    mare__http2_forget(http2, stream);
    return done(L, MARE_OK);
}

// ---- Sessions -----------------------------------------------------------------------------------

// s:sweep(least): how many streams were reset, for they took less in the time since the last.
static int session_sweep(lua_State *L)
{
    struct mare__http2 *http2 = mare__lua_http2_use(L);
    if (!http2)
        return 3;
    lua_pushinteger(L, (lua_Integer)mare__http2_sweep(http2, (size_t)luaL_checkinteger(L, 2)));
    return 1;
}

// s:goodbye(last)
static int session_goodbye(lua_State *L)
{
    struct mare__http2 *http2 = mare__lua_http2_use(L);
    return http2 ? done(L, mare__http2_goodbye(http2, lua_toboolean(L, 2))) : 3;
}

// s:status(): how many streams are open, how many the peer lets be, whether it takes no more, and
// whether a frame or a head has begun.
static int session_status(lua_State *L)
{
    struct mare__http2 *http2 = mare__lua_http2_use(L);
    if (!http2)
        return 3;
    lua_pushinteger(L, http2->open);
    lua_pushinteger(L, mare__http2_streams_most(http2));
    lua_pushboolean(L, http2->going || http2->over);
    lua_pushboolean(L, mare__http2_begun(http2));
    return 4;
}

// s:fault(): why the session was ended with an error, or nil.
static int session_fault(lua_State *L)
{
    const struct mare__http2 *http2 = &check(L)->http2;
    lua_pushstring(L, http2->failed ? http2->reason : NULL);
    return 1;
}

static int session_close(lua_State *L)
{
    mare__http2_fini(&check(L)->http2);
    return 0;
}

static uint32_t get_count(lua_State *L, int index)
{
    lua_Integer count = luaL_checkinteger(L, index);
    luaL_argcheck(L, count >= 1 && count <= INT32_MAX, index, "out of range");
    return (uint32_t)count;
}

// session("server" | "client", limits, streams, stream_window, session_window [, methods]): see
// struct mare__http2_settings.
static int new_session(lua_State *L)
{
    static const char *const sides[] = {"server", "client", NULL};
    static const luaL_Reg private_methods[] = {{"read", mare__lua_http2_read},
                                               {"write", mare__lua_http2_write},
                                               {"event", session_event},
                                               {"request", session_request},
                                               {"respond", session_respond},
                                               {"response", session_response},
                                               {"ask", session_ask},
                                               {"give", session_give},
                                               {"body", session_body},
                                               {"ended", session_ended},
                                               {"ignore", session_ignore},
                                               {"reset", session_reset},
                                               {"forget", session_forget},
                                               {"sweep", session_sweep},
                                               {"goodbye", session_goodbye},
                                               {"status", session_status},
                                               {"fault", session_fault},
                                               {"close", session_close},
                                               {NULL, NULL}};
    struct mare__http_reader usual;
    struct mare__http2_settings settings = {.server = luaL_checkoption(L, 1, NULL, sides) == 0};
    lua_settop(L, 6);
    mare__http_reader_init(&usual, MARE__HTTP_REQUESTS);
    mare__lua_http_limits(L, &usual.limits);
    settings.limits = usual.limits;
    settings.streams = get_count(L, 3);
    settings.stream_window = get_count(L, 4);
    settings.session_window = get_count(L, 5);
    struct session *session = lua_newuserdatauv(L, sizeof *session, 2);
    *session = (struct session){.methods = luaL_optstring(L, 6, NULL)};
    lua_newtable(L);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, 6); // keeps it alive
    lua_setiuservalue(L, -2, 2);
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, session_close);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    mare_err err =
        mare__http2_init(&session->http2, &settings, mare__now(mare__self(L)->shared.runtime));
    return err ? mare__lua_fail(L, err) : 1;
}

int mare__lua_open_http2(lua_State *L)
{
    static const luaL_Reg private_functions[] = {
        {"session", new_session}, {"is_spoken", mare__lua_http2_is_spoken}, {NULL, NULL}};
    mare__lazy_table(L, private_functions);
    return 1;
}
