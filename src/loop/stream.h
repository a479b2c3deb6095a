// SPDX-License-Identifier: MIT
// Streams: connections that bytes go through, the listeners that accept them, and sockets for
// datagrams, which need less of the same. Below a stream is a transport (platform/transport.h); the
// stream adds a buffer, limits, deadlines and an owner. It has one owner at a time, a process; a
// message that carries it changes the owner. Only the thread that runs the owner may call these
// functions.
#pragma once

#include "loop/descriptor.h"
#include "loop/job.h"
#include "platform/resolve.h"
#include "platform/tls.h"

enum {
    MARE__STREAM_ROOM = 65536,    // bytes read at once
    MARE__STREAM_ALL = 64 << 20,  // the most bytes in one read, unless the program says more
    MARE__LISTENER_LIMIT = 16384, // the most connections at once; likewise
};

struct mare__stream {
    struct mare__object object;
    mare_runtime *runtime;
    struct mare__transport *transport; // NULL: another stream took it, and this one is closed
    uint64_t timeout,
        idle; // the limit of each call, and of each wait in it, in nanoseconds; MARE_FOREVER: none
    union {
        uint64_t line_max; // the most bytes of a line, or a datagram; longer ones are refused
        uint64_t most;     // of a listener: the most connections served at once
    };
    uint64_t all_max; // the most bytes in a read of all, or of a number
    // What was read and not yet asked for; allocated only while there is some.
    char *bytes;
    size_t first, end, room;
    mare_channel *ready[MARE__WAYS]; // the transport's channels, for ways that were waited for
    uint16_t waiting[MARE__WAYS];    // routines of its owner that wait for them, and their sum is
                                     // object.waiters
    bool at_end;                     // the peer sends no more
    bool drained;                    // the last read took all there was: wait before the next one
    bool lost;                       // bytes were read for which there was no memory
    bool given;                      // it goes to a program that is being started
    bool closed;                     // this side has closed it
    bool prepared;                   // for large texts: see src/lua/http_write.c
    // For a listener: the TLS context of the streams that it accepts, and the time that they have
    // for the handshake, in nanoseconds. NULL: no TLS.
    struct mare__tls_context *context;
    uint64_t handshake_ns;
};

// Makes a stream over the transport, or the descriptor, and takes that over even on failure. NULL:
// not enough memory, or no transport was given.
struct mare__stream *mare__stream_over(mare_runtime *runtime, struct mare__transport *transport,
                                       enum mare__kind kind);
struct mare__stream *mare__stream_new(mare_runtime *runtime, int fd, enum mare__kind kind);

// Takes the transport away, for a stream of another kind. This stream is then closed; nobody is
// told.
struct mare__transport *mare__stream_take_transport(struct mare__stream *stream);

// Reads what there is. If the buffer is empty, the bytes go into `bytes`; else they are added to
// the buffer. Returns how many, 0 at the end, or an errno value, negated. -ENOMEM for ever, once
// bytes were lost for want of memory: others would look as if they followed what came before.
ssize_t mare__stream_read(struct mare__stream *stream, char bytes[MARE__STREAM_ROOM]);

// Takes bytes from the pieces. Returns how many, or an errno value, negated. They have left when
// mare__stream_flush returns 0. Over TLS, the first of these calls, or a read, makes the handshake.
ssize_t mare__stream_write(struct mare__stream *stream, struct iovec *pieces, int count);
int mare__stream_flush(struct mare__stream *stream);

// As above, with bytes of a file, from its current place on, without a copy. 0: the file has no
// more. -EINVAL: this transport or this file cannot do that: read and write instead.
ssize_t mare__stream_send_file(struct mare__stream *stream, int file, size_t size);

// This side sends no more: 0, or an errno value, negated.
int mare__stream_shutdown(struct mare__stream *stream);

// Closes it on this side. Those who wait get MARE_CLOSED. A second call does nothing.
void mare__stream_close(struct mare__stream *stream);

// From now on its bytes go through TLS; mare__tls_new says what a client gives. The handshake has
// so many nanoseconds. False: `error` tells why, and the stream is unchanged.
bool mare__stream_secure(struct mare__stream *stream, struct mare__tls_context *context,
                         bool server, const char *name, uint64_t handshake_ns,
                         struct mare__tls_error *error);

// ---- Waiting ------------------------------------------------------------------------------------
// A call that said -EAGAIN is tried again after a wait: for a message in the channel that `begin`
// returns, until `*deadline`, which it may bring forward. Every wait that has begun must end by
// `end`, with that channel, whatever its outcome. Then others who wait for the same thing have
// their turn.

// Begins a wait for a way. NULL: not enough memory, or too many routines wait.
mare_channel *mare__stream_begin_wait(struct mare__stream *stream, int way, uint64_t *deadline);
void mare__stream_end_wait(struct mare__stream *stream, const mare_channel *ready);

// Tells one of those who wait for the way, as if it had opened.
void mare__stream_tell(struct mare__stream *stream, int way);

// The channel to wait in for something to read, for a select, which is not counted among those who
// wait. MARE_CLOSED: there is something already, or the stream has ended. MARE_NOMEM.
mare_err mare__stream_await_read(struct mare__stream *stream, mare_channel **ready);

// The descriptor below, or -1: there is none, or it is closed.
static inline int mare__stream_descriptor(const struct mare__stream *stream)
{
    return stream->closed ? -1 : stream->transport->ops->descriptor(stream->transport);
}

// What TLS knows of the peer. False: nothing, because the stream does not use TLS.
static inline bool mare__stream_facts(const struct mare__stream *stream,
                                      struct mare__tls_facts *facts)
{
    return stream->transport && stream->transport->ops->facts(stream->transport, facts);
}

// ---- The buffer ---------------------------------------------------------------------------------

// Puts bytes into the buffer, which must be empty. False: not enough memory.
bool mare__stream_keep(struct mare__stream *stream, const char *bytes, size_t size);

// Puts bytes back before those in the buffer. False: not enough memory.
bool mare__stream_unread(struct mare__stream *stream, const char *bytes, size_t size);

// The first `size` bytes of the buffer were used.
void mare__stream_used(struct mare__stream *stream, size_t size);

// Whether this side has closed it, or is about to give it away.
static inline bool mare__stream_closed(const struct mare__stream *stream)
{
    return stream->closed || stream->given;
}

static inline size_t mare__stream_buffered(const struct mare__stream *stream)
{
    return stream->end - stream->first;
}

// ---- Contexts of TLS ----------------------------------------------------------------------------
// A context being made from its options, or about to trust the system's authorities, or to give
// another OCSP response: these read files, which a thread of the pool does. NULL: not enough
// memory.
struct mare__tls_job {
    struct mare__job job;
    struct mare__tls_context *context; // a reference; NULL: `error` tells why there is none
    struct mare__tls_options options;  // with copies of all text
    struct mare__tls_error error;
    size_t text_size;
    char text[];
};
struct mare__tls_job *mare__tls_job_make(mare_runtime *runtime,
                                         const struct mare__tls_options *options);
struct mare__tls_job *mare__tls_job_trust(mare_runtime *runtime, struct mare__tls_context *context);
struct mare__tls_job *mare__tls_job_staple(mare_runtime *runtime, struct mare__tls_context *context,
                                           const char *source, size_t size);

// ---- Names --------------------------------------------------------------------------------------
// A name being resolved, by a thread of the pool.
struct mare__lookup {
    struct mare__job job;
    struct mare__resolving naming;
    char host[]; // empty: what is asked for is the name of naming.addresses[0], or of its port
};

// One that has not begun; `naming` can be told more before it does. NULL: not enough memory.
struct mare__lookup *mare__lookup_new(mare_runtime *runtime, const char *host);
