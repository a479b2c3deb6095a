// SPDX-License-Identifier: MIT
// The server's fast path. Most requests have no body, and most answers are a text, or a file that
// the system has in memory. For these one function reads a head, calls the handler and writes the
// answer, again and again, without other Lua code in between. All other requests go to
// lua/mare/http/_server.lua, which knows all of HTTP, and then calls this function again.
//
//     read a head --> handler --> write, all of it --> read the next
//          |             |            '--> "rest", "file": the peer is slow, or the file is large
//          |             '--> "response": it has taken the stream, raised an error, ...
//          '--> "request": it has a body, ...          after so many: "turn"
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/file.h"
#include "lua/http.h"
#include "sched/libraries.h"

// The arguments after those of a read; the request and what the handler returned are above them.
enum { HANDLER = MARE__BEGUN + 1, ON_ERROR, SERVER, MESSAGE, CLOCK, PEER, REQUEST, RESPONSE };

// Requests of one connection before other routines have their turn. If requests are there already,
// this function never waits.
enum { TURN_MOST = 100 };

// The most bytes of a file that are sent here.
enum { FILE_MOST = 1 << 20 };

static struct mare__lua_reader *reader_of(lua_State *L)
{
    return lua_touserdata(L, MARE__READER); // it was checked
}

// ---- The clock ----------------------------------------------------------------------------------
// What the connections of a process share: the text of the date, which its one value, a function,
// tells; and room for a head.
struct clock {
    uint64_t until; // when to ask for a new date
    char date[40];
    size_t date_size;
    struct mare__bytes head;
};

static const char clock_name[] = "mare.http.clock";

enum { ASKED_NS = 50000000 }; // a date may be late by so much

static int clock_gc(lua_State *L)
{
    struct clock *clock = luaL_checkudata(L, 1, clock_name);
    mare__bytes_fini(&clock->head);
    return 0;
}

// clock(date): of a function that returns the date.
int mare__lua_http_new_clock(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    struct clock *clock = lua_newuserdatauv(L, sizeof *clock, 1);
    *clock = (struct clock){0};
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    if (luaL_newmetatable(L, clock_name)) {
        lua_pushcfunction(L, clock_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return 1;
}

static struct mare__span date_now(lua_State *L, struct clock *clock)
{
    uint64_t now = mare__now(mare__self(L)->shared.runtime);
    if (now >= clock->until) {
        size_t size;
        lua_getiuservalue(L, CLOCK, 1);
        lua_call(L, 0, 1);
        const char *date = luaL_checklstring(L, -1, &size);
        clock->date_size = size < sizeof clock->date ? size : sizeof clock->date;
        memcpy(clock->date, date, clock->date_size);
        clock->until = now + ASKED_NS;
        lua_pop(L, 1);
    }
    return (struct mare__span){clock->date, clock->date_size};
}

// ---- Answers ------------------------------------------------------------------------------------

struct answer {
    struct mare__http_response head;
    struct mare__http_field fields[MARE__LUA_FIELDS_MAX];
    struct mare__span body, file; // one of them
};

// Gets the string at the index. False: it is not a string.
static bool get_text(lua_State *L, int index, struct mare__span *text)
{
    if (lua_type(L, index) != LUA_TSTRING)
        return false;
    text->at = lua_tolstring(L, index, &text->size);
    return true;
}

static bool is(struct mare__span text, const char *word, size_t size)
{
    return text.size == size && memcmp(text.at, word, size) == 0;
}

// Headers that are strings, from the table on top. The table keeps them.
static bool get_fields(lua_State *L, struct answer *answer)
{
    if (!lua_istable(L, -1))
        return false;
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        struct mare__http_field *field = &answer->fields[answer->head.count];
        if (answer->head.count == MARE__LUA_FIELDS_MAX || !get_text(L, -2, &field->name) ||
            !get_text(L, -1, &field->value)) {
            lua_pop(L, 2);
            return false;
        }
        answer->head.count++;
        lua_pop(L, 1);
    }
    return true;
}

// One field of an answer, whose name and value are on top.
static bool get_part(lua_State *L, struct answer *answer)
{
    struct mare__span name;
    if (!get_text(L, -2, &name))
        return false;
    if (is(name, "body", 4))
        return get_text(L, -1, &answer->body);
    if (is(name, "file", 4))
        return get_text(L, -1, &answer->file);
    if (is(name, "headers", 7))
        return get_fields(L, answer);
    lua_Integer status = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    bool bodiless = status == 204 || status == 205 || status == 304;
    if (!is(name, "status", 6) || status < 200 || status > 999 || bodiless)
        return false;
    answer->head.status = (int)status;
    return true;
}

// Reads an answer, if it is a text, or a table with only a text or the path of a file, headers that
// are strings, and a status that allows a body. False: the slow path must look at it.
static bool understand(lua_State *L, struct answer *answer)
{
    answer->head.status = 200;
    answer->head.fields = answer->fields;
    answer->body = answer->file = (struct mare__span){0};
    if (get_text(L, RESPONSE, &answer->body))
        return true;
    if (!lua_istable(L, RESPONSE) || lua_getmetatable(L, RESPONSE))
        return false;
    lua_pushnil(L);
    while (lua_next(L, RESPONSE)) {
        if (!get_part(L, answer))
            return false;
        lua_pop(L, 1);
    }
    return !answer->body.at != !answer->file.at;
}

// Drops bytes that were sent; how many pieces are left.
static int advance(struct iovec **pieces, int count, size_t sent)
{
    for (; count > 0 && sent >= (*pieces)->iov_len; count--)
        sent -= (*pieces)++->iov_len;
    if (count > 0) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + sent;
        (*pieces)->iov_len -= sent;
    }
    return count;
}

static int give(lua_State *L, const char *what)
{
    lua_pushstring(L, what);
    lua_insert(L, REQUEST);
    return lua_gettop(L) - REQUEST + 1;
}

// Pushes the body of the answer. Allocates nothing, so that no finalizer can take it away before.
static void push_body(lua_State *L, struct mare__span body)
{
    if (lua_type(L, RESPONSE) == LUA_TSTRING) {
        lua_pushvalue(L, RESPONSE);
        return;
    }
    lua_pushnil(L);
    while (lua_next(L, RESPONSE)) {
        if (lua_type(L, -1) == LUA_TSTRING && lua_tostring(L, -1) == body.at)
            break;
        lua_pop(L, 1);
    }
    lua_remove(L, -2); // the name
}

// Returns "rest", request, head, body, and how many bytes of these have gone. The body is not
// copied: it may be large, and the peer slow.
static int leave_rest(lua_State *L, struct mare__span head, struct mare__span body, size_t sent)
{
    push_body(L, body);
    lua_pushlstring(L, head.at, head.size);
    lua_insert(L, -2);
    lua_pushinteger(L, (lua_Integer)sent);
    lua_remove(L, RESPONSE);
    return give(L, "rest");
}

// Writes an answer: 0, or the results to return.
static int send_answer(lua_State *L, struct mare__stream *stream, struct mare__span head,
                       struct mare__span body)
{
    struct iovec both[] = {{(char *)head.at, head.size}, {(char *)body.at, body.size}};
    struct iovec *pieces = both;
    int count = body.size > 0 ? 2 : 1;
    size_t gone = 0;
    mare__lua_http_prepare(stream, body.size);
    while (count > 0) {
        ssize_t sent = mare__stream_write(stream, pieces, count);
        if (sent == -EAGAIN)
            return leave_rest(L, head, body, gone);
        if (sent < 0) {
            lua_pushliteral(L, "over");
            return 1;
        }
        gone += (size_t)sent;
        count = advance(&pieces, count, (size_t)sent);
    }
    return mare__stream_flush(stream) == 0 ? 0 : leave_rest(L, head, body, gone);
}

// ---- Files --------------------------------------------------------------------------------------

// Opens the file of an answer, and tells its size, if the part to send lies in the system's memory.
// NULL: the slow path finds out why not.
static struct mare__descriptor *open_near(lua_State *L, const struct mare__stream *stream,
                                          struct mare__span path, uint64_t *size)
{
    struct mare__file_info info;
    if (!stream->transport->ops->send_file || memchr(path.at, '\0', path.size))
        return NULL;
    struct mare__descriptor *opened =
        mare__descriptor_near(mare__self(L)->shared.runtime, path.at, &info);
    if (!opened)
        return NULL;
    *size = info.size;
    size_t here = info.size < FILE_MOST ? (size_t)info.size : FILE_MOST;
    if (opened->in_memory || opened->files->near(opened->context, opened->fd, here) == here)
        return opened;
    mare__descriptor_drop(opened);
    return NULL;
}

// "file", request, the file, what is left of the head, and so many bytes of the file.
static int leave_file(lua_State *L, struct mare__span head, struct mare__descriptor *opened,
                      const char *path, uint64_t left)
{
    lua_settop(L, RESPONSE); // which has the path
    if (mare__lua_push_opened(L, opened, MARE__KIND_FILE, path) != 1)
        return luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
    lua_pushlstring(L, head.at, head.size);
    lua_pushinteger(L, (lua_Integer)left);
    lua_remove(L, RESPONSE);
    return give(L, "file");
}

// Sends a file that was opened: 0, or the results to return. Bytes that do not leave at once are
// left to the slow path. So is an error: it will happen again there.
static int send_file(lua_State *L, struct mare__stream *stream, struct mare__span head,
                     struct mare__descriptor *opened, const char *path, uint64_t size)
{
    struct iovec piece = {(char *)head.at, head.size};
    uint64_t left = size, rest = size > FILE_MOST ? size - FILE_MOST : 0;
    stream->transport->more = size > 0; // so that head and file leave together
    ssize_t sent = mare__stream_write(stream, &piece, 1);
    stream->transport->more = false;
    head.at += sent > 0 ? sent : 0;
    head.size -= sent > 0 ? (size_t)sent : 0;
    while (head.size == 0 && left > rest) {
        sent = mare__stream_send_file(stream, opened->fd, (size_t)(left - rest));
        if (sent <= 0)
            break;
        left -= (uint64_t)sent;
    }
    if (head.size > 0 || left > 0)
        return leave_file(L, head, opened, path, left);
    mare__descriptor_drop(opened);
    return 0;
}

// ---- Requests -----------------------------------------------------------------------------------

static bool has(lua_State *L, int table, enum mare__http_key key)
{
    lua_pushvalue(L, lua_upvalueindex(1 + (int)key));
    lua_rawget(L, table);
    bool true_one = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return true_one;
}

static void set(lua_State *L, enum mare__http_key key, int value)
{
    lua_pushvalue(L, lua_upvalueindex(1 + (int)key));
    lua_pushvalue(L, value);
    lua_rawset(L, REQUEST);
}

// Makes a message of the head that was read.
static void complete(lua_State *L)
{
    set(L, MARE__KEY_STREAM, MARE__READ_FROM);
    set(L, MARE__KEY_PEER, PEER);
    lua_pushvalue(L, MESSAGE);
    lua_setmetatable(L, REQUEST);
}

// Whether the request only has to be handled; and the routine that watches for clients that leave
// is running.
static bool is_plain(lua_State *L, const struct mare__http_head *head)
{
    return head->body == MARE__HTTP_BODY_NONE && head->target.at[0] == '/' &&
           !head->expect_continue && has(L, SERVER, MARE__KEY_LOOKING);
}

// Whether the handler's answer can be sent here. Never without a clock.
static bool is_answered_here(lua_State *L, const struct mare__http_head *head,
                             struct answer *answer)
{
    return head->keep_alive && !is(head->method, "HEAD", 4) && !is(head->method, "CONNECT", 7) &&
           !has(L, REQUEST, MARE__KEY_TAKEN) && !has(L, REQUEST, MARE__KEY_GONE) &&
           !has(L, SERVER, MARE__KEY_ENDING) && !lua_isnil(L, CLOCK) && understand(L, answer);
}

// Answers, if it can be done here: 0, if it was, or the results to return; -1: nothing was sent.
static int send_here(lua_State *L, struct mare__stream *stream, struct answer *answer)
{
    struct clock *clock = lua_touserdata(L, CLOCK);
    struct mare__descriptor *opened = NULL;
    answer->head.length = answer->body.size;
    if (answer->file.at) {
        opened = open_near(L, stream, answer->file, &answer->head.length);
        if (!opened)
            return -1;
    }
    clock->head.size = 0;
    if (mare__http_put_response(&clock->head, &answer->head)) {
        if (opened)
            mare__descriptor_drop(opened);
        return -1;
    }
    struct mare__span head = {clock->head.at, clock->head.size};
    return opened ? send_file(L, stream, head, opened, answer->file.at, answer->head.length)
                  : send_answer(L, stream, head, answer->body);
}

// The handler has returned. 0: its answer was sent, and the connection goes on; else the results to
// return.
static int answer(lua_State *L)
{
    const struct mare__http_head *head = &reader_of(L)->http.head;
    struct mare__stream *stream = NULL;
    struct answer answer;
    answer.head = (struct mare__http_response){0};
    // First, because the clock is a Lua function: in it, a hook or a finalizer of the program may
    // run, and take away the stream, or what the answer refers to.
    if (!lua_isnil(L, CLOCK))
        answer.head.date = date_now(L, lua_touserdata(L, CLOCK));
    if (mare__handle_here(L, MARE__READ_FROM)) // the stream may have gone to another process
        stream = mare__lua_stream(L, MARE__READ_FROM);
    if (stream && !mare__stream_closed(stream) && is_answered_here(L, head, &answer)) {
        answer.head.body = MARE__HTTP_BODY_LENGTH;
        answer.head.minor = head->minor;
        answer.head.keep_alive = true;
        int results = send_here(L, stream, &answer);
        if (results >= 0)
            return results;
    }
    lua_settop(L, RESPONSE); // the slow path can say what is wrong
    lua_pushboolean(L, 1);
    lua_insert(L, RESPONSE);
    return give(L, "response");
}

static int handled(lua_State *L, int status, lua_KContext context);

// Whether other routines should have their turn before the next request.
static bool is_over(struct mare__lua_reader *reader)
{
    return ++reader->requests % TURN_MOST == 0;
}

// Goes on after a read of a head, and so on. Returns the results of the whole.
int mare__lua_http_serve_on(lua_State *L, int results)
{
    for (;;) {
        struct mare__lua_reader *reader = reader_of(L);
        if (results != 1)
            return results;
        assert(lua_gettop(L) == REQUEST);
        complete(L);
        if (!is_plain(L, &reader->http.head))
            return give(L, "request");
        mare__lua_http_enter(L, reader, REQUEST);
        lua_pushvalue(L, HANDLER);
        lua_pushvalue(L, REQUEST);
        results = handled(L, lua_pcallk(L, 1, 1, ON_ERROR, 0, handled), true);
        if (results > 0)
            return results;
        results = mare__lua_http_read(L, MARE__READ_TO_SERVE);
    }
}

// The handler has ended. `here`: if the result is 0, the caller goes on.
static int handled(lua_State *L, int status, lua_KContext here)
{
    struct mare__lua_reader *reader = reader_of(L);
    mare__lua_http_leave(L, reader);
    if (status != LUA_OK && status != LUA_YIELD) {
        if (mare__kill_passes(L))
            return mare__kill_throw(L);
        lua_pushboolean(L, 0);
        lua_insert(L, RESPONSE);
        return give(L, "response");
    }
    int results = answer(L);
    if (results > 0)
        return results;
    lua_settop(L, PEER);
    if (is_over(reader))
        return give(L, "turn");
    return here ? 0 : mare__lua_http_serve_on(L, mare__lua_http_read(L, MARE__READ_TO_SERVE));
}

// reader:serve(stream, patience, hurry, nil, nil, handler, on_error, server, message, clock, peer):
// serves requests until one needs the slow path, and returns what to do:
//
//     "request", request                 handle and answer it
//     "response", request, ok, response  answer it with what xpcall(handler, on_error) returned
//     "rest", request, head, text, sent  write what is left of them
//     "file", request, file, text, size  write that, and so many bytes of the file
//     "turn"                             let others have theirs
//     "over"                             nothing can be written any more
//     nil, message, code[, status]       as reader:head
//
// Without a clock it answers nothing itself.
int mare__lua_http_serve(lua_State *L)
{
    struct mare__lua_reader *reader = mare__lua_reader(L);
    luaL_checktype(L, HANDLER, LUA_TFUNCTION);
    luaL_checktype(L, SERVER, LUA_TTABLE);
    lua_settop(L, PEER);
    if (!lua_isnil(L, CLOCK))
        luaL_checkudata(L, CLOCK, clock_name);
    if (is_over(reader)) // requests that the slow path answered count, too
        return give(L, "turn");
    return mare__lua_http_serve_on(L, mare__lua_http_read(L, MARE__READ_TO_SERVE));
}
