// SPDX-License-Identifier: MIT
// Streams: reading through a buffer that exists only while it is needed, so that an idle connection
// costs little; and waiting, in which several routines of the owner may take part. This code is the
// same for every transport.
#include "loop/stream.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static void destroy(struct mare__object *object)
{
    struct mare__stream *stream = (struct mare__stream *)object;
    mare__stream_close(stream);
    if (stream->transport)
        mare__transport_release(stream->transport);
    if (stream->context)
        mare__unref(&stream->context->object);
    mare__free(stream->bytes);
    mare__free(stream);
}

struct mare__stream *mare__stream_over(mare_runtime *runtime, struct mare__transport *transport,
                                       enum mare__kind kind)
{
    struct mare__stream *stream = transport ? mare__alloc_zero(sizeof *stream) : NULL;
    if (!stream) {
        if (transport)
            mare__transport_release(transport);
        return NULL;
    }
    mare__object_init(&stream->object, kind, destroy);
    // A descriptor's transport is at most as large as the stream: count the stream twice.
    stream->object.weight = 2 * sizeof *stream + sizeof(mare_channel);
    stream->runtime = runtime;
    stream->transport = transport;
    stream->timeout = stream->idle = MARE_FOREVER;
    stream->line_max = MARE__STREAM_ROOM;
    if (kind == MARE__KIND_LISTENER)
        stream->most = MARE__LISTENER_LIMIT;
    stream->all_max = MARE__STREAM_ALL;
    return stream;
}

struct mare__stream *mare__stream_new(mare_runtime *runtime, int fd, enum mare__kind kind)
{
    return mare__stream_over(runtime, mare__descriptor_new(runtime, fd), kind);
}

struct mare__transport *mare__stream_take_transport(struct mare__stream *stream)
{
    struct mare__transport *transport = stream->transport;
    stream->transport = NULL;
    stream->closed = true;
    return transport;
}

// ---- The buffer ---------------------------------------------------------------------------------

// Makes room for so many bytes at the end of the buffer.
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

// There is no memory for bytes that were read. The next read does not wait for others.
static bool lose(struct mare__stream *stream)
{
    stream->lost = true;
    stream->drained = false;
    return false;
}

bool mare__stream_keep(struct mare__stream *stream, const char *bytes, size_t size)
{
    if (!make_room(stream, size))
        return lose(stream);
    memcpy(stream->bytes + stream->end, bytes, size);
    stream->end += size;
    return true;
}

bool mare__stream_unread(struct mare__stream *stream, const char *bytes, size_t size)
{
    size_t have = mare__stream_buffered(stream);
    if (!make_room(stream, size))
        return lose(stream);
    if (have > 0)
        memmove(stream->bytes + stream->first + size, stream->bytes + stream->first, have);
    memcpy(stream->bytes + stream->first, bytes, size);
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

// ---- Bytes --------------------------------------------------------------------------------------

// A call of one routine has ended, and other routines may wait for the same stream. They wait for a
// report of the descriptor, but none comes if this call has read everything from it. So this tells
// them, and they look for themselves:
//   - one reader, when the call has moved bytes into the transport, where the reader may need them;
//   - a reader and a writer, when the transport has failed: each tells the next in the same way;
//   - all, when a handshake is over: a writer that waited for bytes of it would tell nobody.
static void share(struct mare__stream *stream, ssize_t result)
{
    bool failed = result < 0 && result != -EAGAIN;
    for (int way = 0; way < MARE__WAYS && stream->transport->settled; way++)
        for (unsigned i = 0; i < stream->waiting[way]; i++)
            mare__stream_tell(stream, way);
    if ((failed || stream->transport->moved) && stream->waiting[MARE__TO_READ] > 0)
        mare__stream_tell(stream, MARE__TO_READ);
    if (failed && stream->waiting[MARE__TO_WRITE] > 0)
        mare__stream_tell(stream, MARE__TO_WRITE);
}

ssize_t mare__stream_read(struct mare__stream *stream, char bytes[MARE__STREAM_ROOM])
{
    if (stream->lost)
        return -ENOMEM;
    ssize_t got = mare__transport_read(stream->transport, bytes, MARE__STREAM_ROOM);
    if (got != -EAGAIN)
        stream->drained = got > 0 && (stream->transport->ops->plain ? got < MARE__STREAM_ROOM
                                                                    : stream->transport->dry);
    stream->at_end = got == 0;
    if (stream->object.waiters > 0)
        share(stream, got);
    if (got > 0 && mare__stream_buffered(stream) > 0 &&
        !mare__stream_keep(stream, bytes, (size_t)got))
        return -ENOMEM;
    return got;
}

ssize_t mare__stream_write(struct mare__stream *stream, struct iovec *pieces, int count)
{
    ssize_t sent = mare__transport_write(stream->transport, pieces, count);
    if (stream->object.waiters > 0)
        share(stream, sent);
    return sent;
}

ssize_t mare__stream_send_file(struct mare__stream *stream, int file, size_t size)
{
    if (!stream->transport->ops->send_file)
        return -EINVAL;
    ssize_t sent = stream->transport->ops->send_file(stream->transport, file, size);
    if (stream->object.waiters > 0)
        share(stream, sent);
    return sent;
}

int mare__stream_flush(struct mare__stream *stream)
{
    int err = mare__transport_flush(stream->transport);
    if (stream->object.waiters > 0)
        share(stream, err);
    return err;
}

int mare__stream_shutdown(struct mare__stream *stream)
{
    int err = mare__transport_shutdown(stream->transport);
    if (stream->object.waiters > 0)
        share(stream, err);
    return err;
}

void mare__stream_close(struct mare__stream *stream)
{
    if (stream->closed)
        return;
    stream->closed = true;
    // If another routine waits to write, or was killed in a write, not all was said: cut the
    // transport off, so that the peer does not take it for a proper end.
    mare__transport_close(stream->transport, stream->waiting[MARE__TO_WRITE] > 0);
}

bool mare__stream_secure(struct mare__stream *stream, struct mare__tls_context *context,
                         bool server, const char *name, uint64_t handshake_ns,
                         struct mare__tls_error *error)
{
    // Bytes that were read before belong to the handshake. If they stayed in the buffer as plain
    // text, they would later pass for something that the peer said under TLS.
    size_t early = mare__stream_buffered(stream);
    uint64_t now = mare__now(stream->runtime);
    struct mare__tls_session session = {
        .server = server,
        .name = name,
        .early = early > 0 ? stream->bytes + stream->first : NULL,
        .early_size = early,
        .handshake_until = handshake_ns < MARE_FOREVER - now ? now + handshake_ns : MARE_FOREVER,
    };
    struct mare__transport *tls = mare__tls_new(context, stream->transport, &session, error);
    if (!tls)
        return false;
    stream->transport = tls;
    if (early > 0)
        mare__stream_used(stream, early);
    stream->drained = false;
    return true;
}

// ---- Waiting ------------------------------------------------------------------------------------

// The channel of a way, without counting the wait. It is always the same one.
static mare_channel *await(struct mare__stream *stream, int way)
{
    return stream->ready[way] = mare__transport_await(stream->transport, way);
}

mare_channel *mare__stream_begin_wait(struct mare__stream *stream, int way, uint64_t *deadline)
{
    mare__transport_waits(stream->transport, &way, deadline);
    if (stream->idle != MARE_FOREVER) {
        uint64_t soon = mare__now(stream->runtime) + stream->idle;
        *deadline = soon < *deadline ? soon : *deadline;
    }
    mare_channel *ready = stream->object.waiters < UINT16_MAX ? await(stream, way) : NULL;
    if (ready) {
        stream->waiting[way]++;
        stream->object.waiters++;
    }
    return ready;
}

void mare__stream_end_wait(struct mare__stream *stream, const mare_channel *ready)
{
    int way = ready == stream->ready[MARE__TO_WRITE] ? MARE__TO_WRITE : MARE__TO_READ;
    stream->object.waiters--;
    stream->waiting[way]--;
    if (stream->waiting[way] == 0 || mare__stream_closed(stream))
        return;
    // This routine may have taken a message that another one needs: make sure that one more comes.
    if (way == MARE__TO_READ && stream->at_end)
        mare__stream_tell(stream, way); // at the end of TLS the descriptor reports nothing
    else
        await(stream, way);
}

void mare__stream_tell(struct mare__stream *stream, int way)
{
    mare_message message;
    mare__message_init(&message);
    if (stream->ready[way] && !stream->closed) // else nobody waits, or all were told
        mare__chan_send(stream->ready[way], &message, NULL);
}

// TLS may have something to read of which the descriptor does not tell. So this reads what there
// is. MARE_CLOSED: there was something, or the end.
static mare_err look_ahead(struct mare__stream *stream)
{
    char bytes[MARE__STREAM_ROOM];
    ssize_t got = mare__stream_read(stream, bytes);
    if (got == -EAGAIN)
        return MARE_OK;
    return got > 0 && !mare__stream_keep(stream, bytes, (size_t)got) ? MARE_NOMEM : MARE_CLOSED;
}

mare_err mare__stream_await_read(struct mare__stream *stream, mare_channel **ready)
{
    if (mare__stream_closed(stream) || stream->at_end || stream->lost ||
        mare__stream_buffered(stream) > 0)
        return MARE_CLOSED;
    mare_err err = stream->transport->ops->plain ? MARE_OK : look_ahead(stream);
    if (err)
        return err;
    stream->drained = false; // so that the routine that is told reads, and does not wait first
    int way = MARE__TO_READ;
    uint64_t deadline = MARE_FOREVER;
    mare__transport_waits(stream->transport, &way, &deadline);
    *ready = await(stream, way);
    return *ready ? MARE_OK : MARE_NOMEM;
}
