// SPDX-License-Identifier: MIT
// The bytes of a session of HTTP/2: read from a stream, written to one, and the first ones, which
// tell whether it is HTTP/2.
#include <errno.h>

#include "lua/http2.h"

enum { STREAM = 2, SECONDS = 3, DEADLINE = 3 };

static int read_more(lua_State *L, int status, lua_KContext context);

static int take_in(lua_State *L, struct mare__stream *stream, const char *bytes, size_t size)
{
    struct mare__http2 *http2 = mare__lua_http2_use(L);
    if (!http2)
        return 3;
    lua_pushboolean(L, mare__http2_receive(http2, bytes, size, mare__now(stream->runtime)));
    return 1;
}

static int read_some(lua_State *L, struct mare__stream *stream, bool ready)
{
    char bytes[MARE__STREAM_ROOM];
    size_t have = mare__stream_buffered(stream);
    if (have > 0) {
        int results = take_in(L, stream, stream->bytes + stream->first, have);
        mare__stream_used(stream, have);
        return results;
    }
    for (;;) {
        ssize_t got = stream->at_end              ? 0
                      : stream->drained && !ready ? -EAGAIN
                                                  : mare__stream_read(stream, bytes);
        ready = true;
        if (got == -EAGAIN) {
            int waited = mare__lua_wait_stream(L, stream, MARE__TO_READ,
                                               (uint64_t)lua_tointeger(L, DEADLINE), read_more, 0);
            if (waited != MARE__WAITED)
                return waited;
            continue;
        }
        if (got < 0)
            return mare__lua_fail_io(L, stream, (int)-got);
        if (got == 0) {
            lua_pushliteral(L, "the peer has closed the connection");
            return mare__lua_fail_with(L, MARE_CLOSED);
        }
        return take_in(L, stream, bytes, (size_t)got);
    }
}

static int read_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : read_some(L, stream, true);
}

static int look_more(lua_State *L, int status, lua_KContext context);

// Reads until it is clear whether the peer begins with the preface of HTTP/2. The bytes are kept.
static int look_for_preface(lua_State *L, struct mare__stream *stream, bool ready)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    char bytes[MARE__STREAM_ROOM];
    for (;;) {
        size_t have = mare__stream_buffered(stream);
        size_t size = have < sizeof preface - 1 ? have : sizeof preface - 1;
        bool same = have == 0 || memcmp(stream->bytes + stream->first, preface, size) == 0;
        if (!same || size == sizeof preface - 1 || stream->at_end) {
            lua_pushboolean(L, same && size == sizeof preface - 1);
            return 1;
        }
        ssize_t got = stream->drained && !ready ? -EAGAIN : mare__stream_read(stream, bytes);
        ready = true;
        if (got == -EAGAIN) {
            int waited = mare__lua_wait_stream(L, stream, MARE__TO_READ,
                                               (uint64_t)lua_tointeger(L, 2), look_more, 0);
            if (waited != MARE__WAITED)
                return waited;
        } else if (got < 0) {
            return mare__lua_fail_io(L, stream, (int)-got);
        } else if (have == 0 && !mare__stream_keep(stream, bytes, (size_t)got)) {
            return mare__lua_fail(L, MARE_NOMEM);
        }
    }
}

static int look_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = mare__lua_stream(L, 1);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : look_for_preface(L, stream, true);
}

static uint64_t deadline_in(lua_State *L, const struct mare__stream *stream, int index)
{
    lua_Number seconds = luaL_checknumber(L, index);
    return seconds > 1e9 ? MARE_FOREVER : mare__now(stream->runtime) + (uint64_t)(seconds * 1e9);
}

// is_spoken(stream, seconds): whether the client begins with HTTP/2; or nil, message, code.
int mare__lua_http2_is_spoken(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, 1);
    uint64_t deadline = deadline_in(L, stream, 2);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, 1);
    lua_pushinteger(L, (lua_Integer)deadline);
    return look_for_preface(L, stream, false);
}

// s:read(stream, seconds): takes in what there is, or comes in that time: true; false, if nothing
// more is to be read; or nil, message, code.
int mare__lua_http2_read(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    uint64_t deadline = deadline_in(L, stream, SECONDS);
    if (!mare__lua_http2_use(L))
        return 3;
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, STREAM);
    lua_pushinteger(L, (lua_Integer)deadline);
    return read_some(L, stream, false);
}

static int write_more(lua_State *L, int status, lua_KContext context);

// Goes on writing. The deadline is that of the present stretch of 64 KiB; nil until a wait is
// needed.
static int write_all(lua_State *L, struct mare__stream *stream)
{
    for (;;) {
        struct mare__http2 *http2 = mare__lua_http2_use(L);
        struct mare__span bytes;
        if (!http2)
            return 3;
        if (mare__http2_take(http2, &bytes))
            return mare__lua_fail(L, MARE_NOMEM);
        struct iovec piece = {(char *)bytes.at, bytes.size};
        ssize_t wrote =
            bytes.size > 0 ? mare__stream_write(stream, &piece, 1) : mare__stream_flush(stream);
        if (wrote == 0 && bytes.size == 0) {
            lua_pushboolean(L, 1);
            return 1;
        }
        if (wrote == -EAGAIN) {
            int waited =
                mare__lua_wait_first(L, stream, MARE__TO_WRITE, DEADLINE, DEADLINE, write_more, 0);
            if (waited != MARE__WAITED)
                return waited;
            continue;
        }
        if (wrote < 0)
            return mare__lua_fail_io(L, stream, (int)-wrote);
        mare__http2_used(http2, (size_t)wrote);
        if ((size_t)wrote == bytes.size) { // the next stretch has its own time
            lua_pushnil(L);
            lua_replace(L, DEADLINE);
        }
    }
}

static int write_more(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? mare__lua_fail_stream(L, err) : write_all(L, stream);
}

// s:write(stream): writes all that is to go now, each 64 KiB within the stream's timeout: true, or
// nil, message, code.
int mare__lua_http2_write(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, STREAM);
    lua_settop(L, DEADLINE);
    return write_all(L, stream);
}
