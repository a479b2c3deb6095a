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
        if (stream->source.ready[way])
            mare_chan_unref(stream->source.ready[way]);
    mare__free(stream->bytes);
    mare__free(stream);
}

static void on_closed(struct mare__source *source)
{
    release(MARE__ENTRY(source, struct mare__stream, source));
}

static void destroy(struct mare__object *object)
{
    struct mare__stream *stream = (struct mare__stream *)object;
    mare__source_close(&stream->source);
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
    atomic_init(&stream->holders, 2);
    mare__source_init(&stream->source, fd, on_closed);
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

ssize_t mare__stream_read(struct mare__stream *stream, char bytes[MARE__STREAM_ROOM])
{
    ssize_t got = mare__socket_read(stream->source.fd, bytes, MARE__STREAM_ROOM);
    stream->at_end = got == 0;
    if (got > 0 && mare__stream_buffered(stream) > 0 &&
        !mare__stream_keep(stream, bytes, (size_t)got))
        return -ENOMEM;
    return got;
}
