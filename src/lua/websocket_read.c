// SPDX-License-Identifier: MIT
// WebSocket in Lua: a reader of frames, which is fed with bytes, or reads a stream itself.
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "lua/net.h"
#include "lua/websocket.h"
#include "wire/websocket.h"
#include "wire/zip.h"

static const char metatable[] = "mare.websocket.reader";

// Frames are unmasked where they lie, so what is fed is copied. It is kept until all is read. The
// state that decompresses a message exists only while there is one: no message depends on another
// (RFC 7692, no_context_takeover), so an idle connection has no window.
struct reader {
    struct mare__ws_reader frames;
    struct mare__bytes bytes;
    size_t used;
    struct mare__zip *zip;
    struct mare__bytes plain; // what was undone of the part at hand
    uint64_t limit, undone;   // bytes of a message, and so many have come out of this one
    struct mare__utf8 utf8;
    bool lost;  // there was no memory for something that was read: nothing can follow it
    bool given; // Lua has what was read last, and may lose it
    // Of `receive`, below.
    bool direct;       // nothing stands in the way of the next message
    bool held;         // a routine waits for it there
    bool barred;       // it may not receive the one after it so
    uint32_t events;   // since others had their turn, and reads that brought none
    uint64_t quiet_ns; // to wait for a message; MARE_FOREVER
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

// Who receives does not any more. Bytes may be lost.
static void fail_without_memory(lua_State *L, struct reader *reader)
{
    reader->held = false;
    reader->lost = true;
    luaL_error(L, "%s", mare_strerror(MARE_NOMEM));
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
            fail_without_memory(L, reader);
    }
    reader->plain.size = 0;
    mare_err err = undo(reader, frames->data, frames->last);
    if (err == MARE_NOMEM)
        fail_without_memory(L, reader);
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

// The next event in some bytes, of which `*used` are gone; MORE: all are. Until the caller has told
// of an event it counts as lost, because an error may come in between.
static enum mare__ws_event next_event(lua_State *L, struct reader *reader, char *bytes, size_t size,
                                      size_t *used)
{
    struct mare__ws_reader *frames = &reader->frames;
    enum mare__ws_event event;
    bool compressed;
    *used = 0;
    reader->given = false;
    if (reader->lost) // what comes now would look like the rest of what was lost
        return frames->reason ? MARE__WS_ERROR : fail(frames, 1011, mare_strerror(MARE_NOMEM));
    do {
        size_t step = 0;
        event = mare__ws_read(frames, bytes ? bytes + *used : NULL, size - *used, &step);
        *used += step;
        compressed = event == MARE__WS_DATA && frames->compressed;
        if (compressed)
            event = read_compressed(L, reader);
    } while (compressed && event == MARE__WS_MORE);
    reader->lost = event != MARE__WS_MORE;
    return event;
}

static int push_whole_event(lua_State *L, struct reader *reader, enum mare__ws_event event)
{
    reader->events++;
    int results = push_event(L, &reader->frames, event);
    reader->lost = event == MARE__WS_ERROR;
    reader->given = true;
    if (reader->zip && (event == MARE__WS_ERROR || (event == MARE__WS_DATA && reader->frames.last)))
        end_message(reader);
    return results;
}

static void keep(lua_State *L, struct reader *reader, const char *bytes, size_t size)
{
    if (size > 0 && mare__bytes_add(&reader->bytes, bytes, size) != MARE_OK)
        fail_without_memory(L, reader);
}

// What is kept: 0 results if more is needed.
static int next_kept(lua_State *L, struct reader *reader)
{
    size_t used = 0, left = reader->bytes.size - reader->used;
    char *at = left > 0 ? reader->bytes.at + reader->used : NULL;
    enum mare__ws_event event = next_event(L, reader, at, left, &used);
    reader->used += used;
    if (event != MARE__WS_MORE)
        return push_whole_event(L, reader, event);
    reader->used = 0; // an idle connection keeps no memory
    mare__bytes_fini(&reader->bytes);
    return 0;
}

// reader:next([bytes]): the next thing that was read, `bytes` added to what is there: "data", a
// part of a message, "text" or "binary", whether it is the last; "ping" or "pong", its data;
// "close", reason, code; "error", reason, code to close with; nil: more bytes are needed.
static int reader_next(lua_State *L)
{
    struct reader *reader = check(L);
    size_t size = 0;
    const char *more = luaL_optlstring(L, 2, "", &size);
    keep(L, reader, more, size);
    reader->events += size > 0;
    return next_kept(L, reader);
}

enum { STREAM = 2, DEADLINE = 3 };

static int fail_ended(lua_State *L)
{
    lua_pushliteral(L, "the peer sends no more");
    return mare__lua_fail_with(L, MARE_CLOSED);
}

static int read_more(lua_State *L, int status, lua_KContext context);

// Bytes have come, and nothing is kept: they are read where they lie.
static int take_in(lua_State *L, struct reader *reader, char *bytes, size_t size)
{
    size_t used;
    enum mare__ws_event event = next_event(L, reader, bytes, size, &used);
    keep(L, reader, bytes + used, size - used);
    if (event != MARE__WS_MORE)
        return push_whole_event(L, reader, event);
    reader->events++;
    lua_pushliteral(L, "more");
    return 1;
}

static int read_now(lua_State *L, struct mare__stream *stream, bool ready)
{
    struct reader *reader = lua_touserdata(L, 1);
    char bytes[MARE__STREAM_ROOM];
    size_t have = mare__stream_buffered(stream);
    if (have > 0) {
        keep(L, reader, stream->bytes + stream->first, have);
        mare__stream_used(stream, have);
        int results = next_kept(L, reader);
        if (results == 0)
            lua_pushliteral(L, "more");
        return results > 0 ? results : 1;
    }
    for (;;) {
        ssize_t got = stream->at_end              ? 0
                      : stream->drained && !ready ? -EAGAIN
                                                  : mare__stream_read(stream, bytes);
        ready = true;
        if (got > 0)
            return take_in(L, reader, bytes, (size_t)got);
        if (got == 0)
            return fail_ended(L);
        if (got != -EAGAIN)
            return mare__lua_fail_io(L, stream, (int)-got);
        int waited = mare__lua_wait_stream(L, stream, MARE__TO_READ,
                                           (uint64_t)lua_tointeger(L, DEADLINE), read_more, 0);
        if (waited != MARE__WAITED)
            return waited;
    }
}

static int read_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : read_now(L, stream, true);
}

// reader:read(stream [, seconds]): reads once, when `next` needs more: what that says of it, "more"
// if that is nothing yet; or nil, message, code.
static int reader_read(lua_State *L)
{
    check(L);
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    lua_settop(L, DEADLINE);
    lua_Number seconds = luaL_optnumber(L, DEADLINE, HUGE_VAL);
    uint64_t deadline =
        seconds > 1e9 ? MARE_FOREVER : mare__now(stream->runtime) + (uint64_t)(seconds * 1e9);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_pushinteger(L, (lua_Integer)deadline);
    lua_replace(L, DEADLINE);
    return read_now(L, stream, seconds <= 0); // who has no time to wait looks all the same
}

// reader:pending(): whether there are bytes that nobody has asked for.
static int reader_pending(lua_State *L)
{
    const struct reader *reader = check(L);
    lua_pushboolean(L, reader->used < reader->bytes.size);
    return 1;
}

// ---- Messages that come alone -------------------------------------------------------------------
// Most messages are one frame, and one routine receives them. These go this way, in which nothing
// is done in Lua; lua/mare/websocket.lua says when (`direct`), and does all else.

enum { EVENTS_MOST = 100 }; // of one who sends without pause; then others have their turn

// reader:direct([stream, seconds]): messages may be received here, and are waited for so long, or
// without end; without a stream: they may not.
static int reader_direct(lua_State *L)
{
    struct reader *reader = check(L);
    lua_settop(L, 3);
    reader->direct = !lua_isnil(L, 2);
    reader->barred = !reader->direct;
    if (reader->barred)
        return 0;
    lua_Number seconds = luaL_optnumber(L, 3, HUGE_VAL);
    reader->quiet_ns = seconds > 1e9 ? MARE_FOREVER : (uint64_t)(seconds * 1e9);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, 1, 1);
    return 0;
}

// reader:held(): whether a routine receives here now.
static int reader_held(lua_State *L)
{
    lua_pushboolean(L, check(L)->held);
    return 1;
}

// reader:lose(): an error has come between, so what Lua has got may be lost.
static int reader_lose(lua_State *L)
{
    struct reader *reader = check(L);
    reader->lost |= reader->given;
    return 0;
}

// reader:tired(): whether others shall have their turn now.
static int reader_tired(lua_State *L)
{
    struct reader *reader = check(L);
    bool tired = reader->events >= EVENTS_MOST;
    if (tired)
        reader->events = 0;
    lua_pushboolean(L, tired);
    return 1;
}

// The stack of `receive`, and its upvalues.
enum { SOCKET = 1, TIMEOUT, READER, FROM, UNTIL };
enum { SLOW = 1, GO_ON, METATABLE };

static int all_results(lua_State *L, int status, lua_KContext top)
{
    (void)status;
    return lua_gettop(L) - (int)top;
}

// Returns what the function in an upvalue does, called with what is above `top`.
static int leave_to(lua_State *L, int function, int top)
{
    lua_pushvalue(L, lua_upvalueindex(function));
    lua_insert(L, top + 1);
    lua_callk(L, lua_gettop(L) - top - 1, LUA_MULTRET, top, all_results);
    return lua_gettop(L) - top;
}

// No whole message, or something stands in the way of the next: what it is, or nil, message, code,
// is above UNTIL. It gets the lock.
static int receive_slowly(lua_State *L, struct reader *reader)
{
    reader->held = false;
    lua_pushvalue(L, SOCKET);
    lua_insert(L, UNTIL + 1);
    return leave_to(L, GO_ON, UNTIL);
}

// A whole message. The lock is given back before anything can fail.
static int give(lua_State *L, struct reader *reader)
{
    reader->held = false;
    reader->direct = true;
    reader->events++;
    lua_pushlstring(L, reader->frames.data.at, reader->frames.data.size);
    reader->lost = false;
    if (reader->zip)
        end_message(reader);
    if (reader->frames.text)
        lua_pushliteral(L, "text");
    else
        lua_pushliteral(L, "binary");
    return 2;
}

// Something was read, that is more than MORE.
static int conclude(lua_State *L, struct reader *reader, enum mare__ws_event event)
{
    if (event == MARE__WS_DATA && reader->frames.last && !reader->barred)
        return give(L, reader);
    reader->held = false; // there may be no memory for what was read
    push_whole_event(L, reader, event);
    return receive_slowly(L, reader);
}

static int receive_more(lua_State *L, int status, lua_KContext context);

// Goes on to receive: first what is kept, then what comes.
static int receive_now(lua_State *L, struct mare__stream *stream, bool ready)
{
    struct reader *reader = lua_touserdata(L, READER);
    char bytes[MARE__STREAM_ROOM];
    size_t used, left = reader->bytes.size - reader->used;
    enum mare__ws_event event = MARE__WS_MORE;
    if (left > 0) {
        event = next_event(L, reader, reader->bytes.at + reader->used, left, &used);
        reader->used += used;
        if (event == MARE__WS_MORE) {
            reader->used = 0;
            mare__bytes_fini(&reader->bytes);
        }
    }
    while (event == MARE__WS_MORE) {
        ssize_t got = stream->at_end              ? 0
                      : stream->drained && !ready ? -EAGAIN
                                                  : mare__stream_read(stream, bytes);
        ready = true;
        if (got == -EAGAIN) {
            int waited = mare__lua_wait_stream(L, stream, MARE__TO_READ,
                                               (uint64_t)lua_tointeger(L, UNTIL), receive_more, 0);
            if (waited != MARE__WAITED) // it has come to its end, or to nothing
                return reader->held ? receive_slowly(L, reader) : waited;
            continue;
        }
        if (got <= 0) {
            if (got == 0)
                fail_ended(L);
            else
                mare__lua_fail_io(L, stream, (int)-got);
            return receive_slowly(L, reader);
        }
        event = next_event(L, reader, bytes, (size_t)got, &used);
        keep(L, reader, bytes + used, (size_t)got - used);
        if (event == MARE__WS_MORE && ++reader->events >= EVENTS_MOST) {
            lua_pushliteral(L, "more"); // of one who sends empty fragments without pause
            return receive_slowly(L, reader);
        }
    }
    return conclude(L, reader, event);
}

static int receive_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = mare__lua_stream(L, FROM);
    mare_err err = mare__lua_outcome(L, stream);
    if (!err)
        return receive_now(L, stream, true);
    mare__lua_fail_stream(L, err);
    return receive_slowly(L, lua_touserdata(L, READER));
}

// The reader of the socket at 1, if it may be used here: NULL.
static struct reader *direct_reader(lua_State *L)
{
    if (!lua_isnil(L, TIMEOUT) || !lua_istable(L, SOCKET))
        return NULL;
    lua_getfield(L, SOCKET, "reader");
    if (!lua_getmetatable(L, READER) || !lua_rawequal(L, -1, lua_upvalueindex(METATABLE)))
        return NULL;
    lua_pop(L, 1);
    struct reader *reader = lua_touserdata(L, READER);
    return reader->direct && reader->events < EVENTS_MOST ? reader : NULL;
}

// receive(socket [, timeout])
static int receive(lua_State *L)
{
    lua_settop(L, TIMEOUT);
    struct reader *reader = direct_reader(L);
    struct mare__stream *stream = NULL;
    if (reader) {
        lua_getiuservalue(L, READER, 1);
        stream = mare__lua_stream(L, FROM);
    }
    if (!stream || mare__stream_closed(stream) || mare__stream_buffered(stream) > 0 ||
        !mare__block_possible(L, mare__self(L))) { // an error would leave it held
        lua_settop(L, TIMEOUT);
        return leave_to(L, SLOW, 0);
    }
    uint64_t until = reader->quiet_ns;
    if (until != MARE_FOREVER)
        until += mare__now(stream->runtime);
    lua_pushinteger(L, (lua_Integer)until);
    reader->direct = false;
    reader->held = true;
    return receive_now(L, stream, false);
}

static void new_metatable(lua_State *L);

// receiver(slow, go_on): a function to receive messages with. What cannot be done here is done by
// the others: slow(socket, timeout), all of it; go_on(socket, ...) what it begins with, and it has
// the lock.
int mare__lua_ws_receiver(lua_State *L)
{
    lua_settop(L, GO_ON);
    new_metatable(L);
    lua_pushcclosure(L, receive, METATABLE);
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

// Pushes the metatable of readers.
static void new_metatable(lua_State *L)
{
    static const luaL_Reg private_methods[] = {{"next", reader_next},
                                               {"read", reader_read},
                                               {"pending", reader_pending},
                                               {"direct", reader_direct},
                                               {"held", reader_held},
                                               {"lose", reader_lose},
                                               {"tired", reader_tired},
                                               {"compresses", reader_compresses},
                                               {NULL, NULL}};
    if (luaL_newmetatable(L, metatable)) {
        luaL_newlib(L, private_methods);
        lua_setfield(L, -2, "__index");
        lua_pushcfunction(L, reader_gc);
        lua_setfield(L, -2, "__gc");
    }
}

// reader("server" | "client", limit): of the bytes of a message.
int mare__lua_ws_reader(lua_State *L)
{
    static const char *const roles[] = {"server", "client", NULL};
    int role = luaL_checkoption(L, 1, NULL, roles);
    lua_Integer limit = luaL_checkinteger(L, 2);
    luaL_argcheck(L, limit > 0, 2, "a limit is positive");
    struct reader *reader = lua_newuserdatauv(L, sizeof *reader, 1);
    memset(reader, 0, sizeof *reader);
    mare__ws_reader_init(&reader->frames, role == 0 ? MARE__WS_SERVER : MARE__WS_CLIENT);
    reader->frames.frame_limit = reader->frames.message_limit = reader->limit = (uint64_t)limit;
    new_metatable(L);
    lua_setmetatable(L, -2);
    return 1;
}
