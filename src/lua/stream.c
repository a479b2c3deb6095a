// SPDX-License-Identifier: MIT
// Reads and writes of streams in Lua: straight lines that try first, and wait only when the system
// says "not now". What a read got beyond what was asked for stays in the stream's buffer; a write
// goes on from the byte at which it had to wait.
#include <errno.h>
#include <string.h>

#include "lua/net.h"

// ---- Reading ------------------------------------------------------------------------------------

enum { STREAM = 1, WHAT, TIMEOUT, DEADLINE };

// Whether the line at the beginning of the buffer is longer than the limit; its end may not have
// come yet. The buffer is not empty.
static bool is_too_long(const struct mare__stream *stream)
{
    size_t have = mare__stream_buffered(stream), size = have;
    const char *bytes = stream->bytes + stream->first, *end = memchr(bytes, '\n', have);
    if (end)
        size = (size_t)(end - bytes);
    if (size > 0 && bytes[size - 1] == '\r' && !(stream->at_end && !end))
        size--; // a CR belongs to the end of the line, also if the LF is still to come
    return size > stream->line_max;
}

// Pushes what was asked for, if all of it is in the buffer, which is not empty.
static bool take(lua_State *L, struct mare__stream *stream, char kind, size_t number)
{
    size_t have = mare__stream_buffered(stream), size = 0, used;
    const char *bytes = stream->bytes + stream->first;
    if (kind == 's' || ((kind == 'a' || kind == 'n') && stream->at_end)) {
        size = kind == 'n' && number < have ? number : have;
        used = size;
    } else if (kind == 'n' && have >= number) {
        size = used = number;
    } else if (kind == 'l' || kind == 'L') {
        const char *end = memchr(bytes, '\n', have);
        if (!end && !stream->at_end)
            return false;
        used = end ? (size_t)(end - bytes) + 1 : have;
        size = used - (kind == 'l' && end ? 1 : 0);
        if (kind == 'l' && size > 0 && end && bytes[size - 1] == '\r')
            size--;
    } else {
        return false;
    }
    lua_pushlstring(L, bytes, size);
    mare__stream_used(stream, used);
    return true;
}

void mare__lua_push_read(lua_State *L, struct mare__stream *stream, const char *bytes, size_t size)
{
    bool drained = stream->drained;
    stream->lost = true; // unless the next call returns
    stream->drained = false;
    lua_pushlstring(L, bytes, size);
    stream->lost = false;
    stream->drained = drained;
}

static int read_more(lua_State *L, int status, lua_KContext context);

// Whether what is asked for is beyond a limit; pushes the message that says so.
static bool is_beyond(lua_State *L, const struct mare__stream *stream, char kind, size_t number)
{
    if ((kind == 'l' || kind == 'L') && is_too_long(stream))
        lua_pushfstring(L, "the line is longer than %I bytes", (lua_Integer)stream->line_max);
    else if (kind == 'a' && mare__stream_buffered(stream) > stream->all_max)
        lua_pushfstring(L, "there are more than %I bytes", (lua_Integer)stream->all_max);
    else if (kind == 'n' && number > stream->all_max) // perhaps a length that the peer has sent
        lua_pushfstring(L, "more than %I bytes were asked for", (lua_Integer)stream->all_max);
    else
        return false;
    return true;
}

// Whether the read can wait without asking the system first, for the last one took all there was. A
// read that has no time to wait asks all the same: bytes may have come that the observer has not
// seen yet.
static bool is_drained(lua_State *L, const struct mare__stream *stream)
{
    if (!stream->drained || stream->idle == 0)
        return false;
    if (stream->timeout == MARE_FOREVER && lua_isnil(L, TIMEOUT))
        return true;
    uint64_t deadline = mare__lua_stream_deadline(L, stream, TIMEOUT);
    return deadline == MARE_FOREVER || deadline > mare__now(stream->runtime);
}

static int read_now(lua_State *L, struct mare__stream *stream, bool again, lua_KContext for_loop)
{
    size_t number;
    char kind = mare__lua_kind_of_read(L, WHAT, &number), bytes[MARE__STREAM_ROOM];
    for (;;) {
        bool buffered = mare__stream_buffered(stream) > 0;
        if ((buffered || kind == 'n') && is_beyond(L, stream, kind, number))
            return mare__lua_fail_with(L, MARE_TOOBIG);
        if (buffered && take(L, stream, kind, number)) {
            if (stream->waiting[MARE__TO_READ] > 0 && mare__stream_buffered(stream) > 0)
                mare__stream_tell(stream, MARE__TO_READ); // there are bytes for another routine
            return 1;
        }
        if (stream->at_end) {
            if (kind == 'a') {
                lua_pushliteral(L, "");
                return 1;
            }
            lua_pushliteral(L, "the peer sends no more");
            return mare__lua_fail_with(L, MARE_CLOSED);
        }
        ssize_t got = !again && is_drained(L, stream) ? -EAGAIN : mare__stream_read(stream, bytes);
        again = true;
        if (got == -EAGAIN) {
            lua_settop(L, DEADLINE);
            int waited = mare__lua_wait_first(L, stream, MARE__TO_READ, DEADLINE, TIMEOUT,
                                              read_more, for_loop);
            if (waited != MARE__WAITED)
                return waited;
            continue;
        }
        if (got < 0)
            return mare__lua_fail_io(L, stream, (int)-got);
        if (got > 0 && !buffered && (kind == 's' || (kind == 'n' && number == (size_t)got))) {
            mare__lua_push_read(L, stream, bytes, (size_t)got);
            return 1;
        }
        if (got > 0 && !buffered && !mare__stream_keep(stream, bytes, (size_t)got))
            return mare__lua_fail(L, MARE_NOMEM);
    }
}

static int read_more(lua_State *L, int status, lua_KContext for_loop)
{
    (void)status;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    int results = err ? mare__lua_fail_stream(L, err) : read_now(L, stream, true, for_loop);
    return for_loop ? mare__lua_step(L, results) : results;
}

static int read_begin(lua_State *L, lua_KContext for_loop)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    if (mare__stream_closed(stream))
        return mare__lua_fail_stream(L, MARE_CLOSED);
    lua_settop(L, TIMEOUT);
    return read_now(L, stream, false, for_loop);
}

// s:read([what [, timeout]])
int mare__lua_stream_read(lua_State *L)
{
    return read_begin(L, 0);
}

static int next_line(lua_State *L, const char *what)
{
    lua_settop(L, STREAM);
    lua_pushstring(L, what);
    return mare__lua_step(L, read_begin(L, 1));
}

static int next_l(lua_State *L)
{
    return next_line(L, "l");
}

static int next_L(lua_State *L)
{
    return next_line(L, "L");
}

// s:lines([what])
int mare__lua_stream_lines(lua_State *L)
{
    static const char *const whats[] = {"l", "L", NULL};
    mare__lua_stream(L, STREAM);
    mare__function_push(L, luaL_checkoption(L, WHAT, "l", whats) == 0 ? next_l : next_L);
    lua_pushvalue(L, STREAM);
    return 2;
}

// ---- Writing ------------------------------------------------------------------------------------

enum { PIECES_MAX = 64 };

static int write_more(lua_State *L, int status, lua_KContext context);

// Describes the arguments from 3 on but for the first `sent` bytes, as many as fit; how many bytes
// they all have is `*left`.
static int gather(lua_State *L, size_t sent, struct iovec pieces[PIECES_MAX], size_t *left)
{
    int count = 0, top = lua_gettop(L);
    *left = 0;
    for (int i = 3; i <= top; i++) {
        size_t size, skip;
        const char *bytes = lua_tolstring(L, i, &size);
        skip = sent < size ? sent : size;
        sent -= skip;
        *left += size - skip;
        if (skip < size && count < PIECES_MAX)
            pieces[count++] = (struct iovec){(char *)bytes + skip, size - skip};
    }
    return count;
}

// Adds to `nil, message, code` how many bytes have gone.
static int tell_sent(lua_State *L, int results, size_t sent)
{
    lua_pushinteger(L, (lua_Integer)sent);
    return results + 1;
}

// Writes the arguments from 3 on, of which `sent` bytes have gone; the deadline is at 2.
static int write_rest(lua_State *L, struct mare__stream *stream, size_t sent)
{
    for (;;) {
        struct iovec pieces[PIECES_MAX];
        size_t left;
        int count = gather(L, sent, pieces, &left);
        ssize_t wrote = left > 0 ? mare__stream_write(stream, pieces, count) : 0;
        if (wrote >= 0) {
            sent += (size_t)wrote;
            if ((size_t)wrote < left)
                continue;
            wrote = mare__stream_flush(stream);
        }
        if (wrote == 0) {
            lua_pushboolean(L, 1);
            return 1;
        }
        if (wrote != -EAGAIN)
            return tell_sent(L, mare__lua_fail_io(L, stream, (int)-wrote), sent);
        int waited = mare__lua_wait_stream(L, stream, MARE__TO_WRITE, (uint64_t)lua_tointeger(L, 2),
                                           write_more, (lua_KContext)sent);
        if (waited != MARE__WAITED)
            return tell_sent(L, waited, sent);
    }
}

static int write_more(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    mare_err err = mare__lua_outcome(L, stream);
    return err ? tell_sent(L, mare__lua_fail_stream(L, err), (size_t)context)
               : write_rest(L, stream, (size_t)context);
}

static void check_pieces(lua_State *L, int first)
{
    for (int i = lua_gettop(L); i >= first; i--)
        luaL_checklstring(L, i, NULL);
}

static int write_all(lua_State *L, struct mare__stream *stream)
{
    return mare__stream_closed(stream) ? tell_sent(L, mare__lua_fail_stream(L, MARE_CLOSED), 0)
                                       : write_rest(L, stream, 0);
}

// s:write(...)
int mare__lua_stream_write(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    check_pieces(L, 2); // now, while the arguments have the numbers that errors name
    lua_pushinteger(L, (lua_Integer)mare__lua_stream_deadline(L, stream, lua_gettop(L) + 1));
    lua_insert(L, 2);
    return write_all(L, stream);
}

// s:writewithin(timeout, ...)
int mare__lua_stream_writewithin(lua_State *L)
{
    struct mare__stream *stream = mare__lua_stream(L, STREAM);
    if (lua_isnone(L, 2))
        return luaL_typeerror(L, 2, "number of seconds or deadline");
    check_pieces(L, 3);
    lua_pushinteger(L, (lua_Integer)mare__lua_deadline(L, 2));
    lua_replace(L, 2);
    return write_all(L, stream);
}
