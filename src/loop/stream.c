// SPDX-License-Identifier: MIT
// Streams: reading through a buffer that exists only while it is needed, so that an idle connection
// costs little.
#include "loop/stream.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static void release(struct mare__stream *stream)
{
    if (atomic_fetch_sub(&stream->holders, 1) > 1)
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (stream->observed.ready[way])
            mare_chan_unref(stream->observed.ready[way]);
    mare__tls_free(stream->tls);
    if (stream->context)
        mare__unref(&stream->context->object);
    mare__free(stream->bytes);
    mare__free(stream);
}

static void on_closed(struct mare__observed *observed)
{
    release(MARE__ENTRY(observed, struct mare__stream, observed));
}

static void destroy(struct mare__object *object)
{
    struct mare__stream *stream = (struct mare__stream *)object;
    mare__stream_close(stream);
    release(stream);
}

struct mare__stream *mare__stream_new(mare_runtime *runtime, int fd, enum mare__kind kind)
{
    struct mare__stream *stream = mare__alloc_zero(sizeof *stream);
    if (!stream) {
        mare__socket_close(fd);
        return NULL;
    }
    mare__object_init(&stream->object, kind, destroy);
    stream->object.weight = sizeof *stream + sizeof(mare_channel);
    stream->runtime = runtime;
    stream->timeout = MARE_FOREVER;
    stream->line_max = MARE__STREAM_ROOM;
    if (kind == MARE__KIND_LISTENER)
        stream->most = MARE__LISTENER_LIMIT;
    stream->all_max = MARE__STREAM_ALL;
    atomic_init(&stream->holders, 2);
    mare__observed_init(&stream->observed, fd, on_closed);
    return stream;
}

// Room for so many bytes at the end.
static bool make_room(struct mare__stream *stream, size_t size)
{
    size_t have = mare__stream_buffered(stream);
    if (stream->room - stream->end >= size)
        return true;
    if (stream->room - have >= size && stream->first >= stream->room / 2) {
        memmove(stream->bytes, stream->bytes + stream->first, have);
    } else {
        size_t room = stream->room ? stream->room * 2 : 4096;
        while (room - have < size)
            room *= 2;
        char *bytes = mare__alloc(room);
        if (!bytes)
            return false;
        if (have > 0)
            memcpy(bytes, stream->bytes + stream->first, have);
        mare__free(stream->bytes);
        stream->bytes = bytes;
        stream->room = room;
    }
    stream->first = 0;
    stream->end = have;
    return true;
}

bool mare__stream_keep(struct mare__stream *stream, const char *bytes, size_t size)
{
    if (!make_room(stream, size))
        return false;
    memcpy(stream->bytes + stream->end, bytes, size);
    stream->end += size;
    return true;
}

void mare__stream_used(struct mare__stream *stream, size_t size)
{
    stream->first += size;
    if (stream->first < stream->end)
        return;
    mare__free(stream->bytes);
    stream->bytes = NULL;
    stream->first = stream->end = stream->room = 0;
}

// A call over TLS has ended. What it read from the descriptor, or left behind, may be what other
// routines wait for, who would not be told, for the descriptor has nothing more to say: they look
// for themselves. So they do when the session has failed.
static void share(struct mare__stream *stream, bool reads, ssize_t result)
{
    if (stream->object.waiters == 0)
        return;
    bool failed = result < 0 && result != -EAGAIN;
    bool told = failed || mare__tls_moved(stream->tls) || (reads && result >= 0);
    if (told && stream->waiting[MARE__TO_READ] > 0)
        mare__observed_tell(&stream->observed, MARE__TO_READ);
    if (failed && stream->waiting[MARE__TO_WRITE] > 0)
        mare__observed_tell(&stream->observed, MARE__TO_WRITE);
}

ssize_t mare__stream_read(struct mare__stream *stream, char bytes[MARE__STREAM_ROOM])
{
    ssize_t got;
    if (stream->tls) {
        got = mare__tls_read(stream->tls, bytes, MARE__STREAM_ROOM);
        share(stream, true, got);
    } else {
        got = mare__socket_read(stream->observed.fd, bytes, MARE__STREAM_ROOM);
        if (got != -EAGAIN)
            stream->drained = got > 0 && got < MARE__STREAM_ROOM;
    }
    stream->at_end = got == 0;
    if (got > 0 && mare__stream_buffered(stream) > 0 &&
        !mare__stream_keep(stream, bytes, (size_t)got))
        return -ENOMEM;
    return got;
}

ssize_t mare__stream_write(struct mare__stream *stream, struct iovec *pieces, int count)
{
    if (!stream->tls)
        return mare__socket_write(stream->observed.fd, pieces, count);
    ssize_t sent = mare__tls_write(stream->tls, pieces, count);
    share(stream, false, sent);
    return sent;
}

int mare__stream_flush(struct mare__stream *stream)
{
    if (!stream->tls)
        return 0;
    int err = mare__tls_flush(stream->tls);
    share(stream, false, err);
    return err;
}

int mare__stream_shutdown(struct mare__stream *stream)
{
    if (!stream->tls)
        return mare__socket_shutdown(stream->observed.fd);
    int err = mare__tls_shutdown(stream->tls);
    share(stream, false, err);
    return err;
}

void mare__stream_close(struct mare__stream *stream)
{
    // A write that is not over, of another routine or of one that was killed in it, has not said
    // all: then the peer shall not take this for the end.
    if (stream->tls && !mare__stream_closed(stream) && stream->waiting[MARE__TO_WRITE] == 0)
        mare__tls_leave(stream->tls);
    mare__observed_close(&stream->observed);
}

int mare__stream_handshake(struct mare__stream *stream)
{
    int err = mare__tls_handshake(stream->tls);
    share(stream, false, err);
    return err;
}

bool mare__stream_secure(struct mare__stream *stream, struct mare__tls_context *context,
                         bool server, const char *name, uint64_t handshake_ns,
                         struct mare__tls_error *error)
{
    // What was read before belongs to the handshake. As plain text it would be taken, afterwards,
    // for something that the peer said under TLS.
    size_t early = mare__stream_buffered(stream);
    stream->tls = mare__tls_new(context, stream->observed.fd, server, name,
                                early > 0 ? stream->bytes + stream->first : NULL, early, error);
    if (!stream->tls)
        return false;
    if (early > 0)
        mare__stream_used(stream, early);
    stream->drained = false;
    uint64_t now = mare__now(stream->runtime);
    stream->handshake_time = handshake_ns < MARE_FOREVER - now ? now + handshake_ns : MARE_FOREVER;
    return true;
}
