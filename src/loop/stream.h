// SPDX-License-Identifier: MIT
// Streams: connections that bytes go through, the listeners that accept them, and sockets for
// datagrams, which need less of the same. A stream has one owner at a time, a process; sent in a
// message it changes hands.
#pragma once

#include "loop/job.h"
#include "loop/observer.h"
#include "platform/resolve.h"
#include "platform/tls.h"

enum {
    MARE__STREAM_ROOM = 65536,   // bytes read at once
    MARE__STREAM_ALL = 64 << 20, // bytes of a read of all, or so many, unless the program says more
    MARE__LISTENER_LIMIT = 16384, // connections that are served at once, likewise
};

struct mare__stream {
    struct mare__object object;
    atomic_uint holders; // the object, and the descriptor until it is closed
    mare_runtime *runtime;
    struct mare__observed observed;
    uint64_t timeout; // of each call, in nanoseconds; MARE_FOREVER: none
    union {
        uint64_t line_max; // bytes of a line, or a datagram, beyond which it is refused
        uint64_t most;     // of a listener: connections that are served at once
    };
    uint64_t all_max; // bytes of all there is, and of so many that are asked for, likewise
    // What was read and not yet asked for: only as long as there is such.
    char *bytes;
    size_t first, end, room;
    uint16_t waiting[MARE__WAYS]; // routines of its owner that wait for it, and their sum is
                                  // object.waiters
    bool at_end;                  // the peer sends no more
    bool drained;                 // the last read took all there was: wait before the next
    bool given;                   // to a program that is being started: nobody else's now
    struct mare__tls *tls;        // what its bytes go through, or NULL
    // Of a listener, what the streams that it accepts get, and the time they have for the
    // handshake; of a stream over TLS, when that must be over.
    struct mare__tls_context *context;
    uint64_t handshake_time;
};

// Takes over the descriptor, in any case. NULL: not enough memory.
struct mare__stream *mare__stream_new(mare_runtime *runtime, int fd, enum mare__kind kind);

// Reads what there is into `bytes`, and, if the buffer is not empty, adds it there: its number of
// bytes, 0 at the end, or an errno value, negated.
ssize_t mare__stream_read(struct mare__stream *stream, char bytes[MARE__STREAM_ROOM]);

// Takes bytes of the pieces: how many, or an errno value, negated. They are on their way when
// mare__stream_flush, which is 0 then, says so; without TLS they are at once.
ssize_t mare__stream_write(struct mare__stream *stream, struct iovec *pieces, int count);
int mare__stream_flush(struct mare__stream *stream);

// This side sends no more: 0, or an errno value, negated.
int mare__stream_shutdown(struct mare__stream *stream);

// As mare__observed_close, after a word of farewell to the peer if it expects one and nobody was
// writing.
void mare__stream_close(struct mare__stream *stream);

// ---- Over TLS -----------------------------------------------------------------------------------
// When a call says -EAGAIN, its wait must be for mare__stream_way of what it wanted, as reading may
// have to write first. -EPROTO: see mare__tls_failure.

// From now on its bytes go through TLS; see mare__tls_new for what a client is given. The handshake
// begins with the first call that reads or writes, and has so many nanoseconds. False: `error`
// tells why.
bool mare__stream_secure(struct mare__stream *stream, struct mare__tls_context *context,
                         bool server, const char *name, uint64_t handshake_ns,
                         struct mare__tls_error *error);
int mare__stream_handshake(struct mare__stream *stream); // 0, or an errno value, negated

// What to watch the descriptor for, and until when, before trying again to read or to write.
static inline int mare__stream_way(const struct mare__stream *stream, int way)
{
    if (!stream->tls)
        return way;
    int operation = way == MARE__TO_READ ? MARE__TLS_READS : MARE__TLS_WRITES;
    return mare__tls_waits_to_write(stream->tls, operation) ? MARE__TO_WRITE : MARE__TO_READ;
}

static inline uint64_t mare__stream_deadline(const struct mare__stream *stream, uint64_t deadline)
{
    bool sooner = stream->tls && stream->handshake_time < deadline;
    return sooner && !mare__tls_is_ready(stream->tls) ? stream->handshake_time : deadline;
}

// A context being made from its options, or about to trust the system's authorities: both read
// files, which a thread of the pool does. NULL: not enough memory.
struct mare__tls_job {
    struct mare__job job;
    struct mare__tls_context *context; // a reference; NULL: `error` tells why there is none
    struct mare__tls_options options;  // with copies of all text
    struct mare__tls_error error;
    char text[];
};
struct mare__tls_job *mare__tls_job_make(mare_runtime *runtime,
                                         const struct mare__tls_options *options);
struct mare__tls_job *mare__tls_job_trust(mare_runtime *runtime, struct mare__tls_context *context);

// Keeps bytes for later: in an empty buffer. False: not enough memory.
bool mare__stream_keep(struct mare__stream *stream, const char *bytes, size_t size);

// The first `size` bytes of the buffer were used.
void mare__stream_used(struct mare__stream *stream, size_t size);

// Whether somebody has closed it on this side, or is about to give it away.
static inline bool mare__stream_closed(const struct mare__stream *stream)
{
    // Relaxed: its owner asks, who alone closes it while it lives.
    return stream->given || atomic_load_explicit(&stream->observed.ends, memory_order_relaxed);
}

static inline size_t mare__stream_buffered(const struct mare__stream *stream)
{
    return stream->end - stream->first;
}

// ---- Names --------------------------------------------------------------------------------------
// A name being resolved, by a thread of the pool.
struct mare__lookup {
    struct mare__job job;
    struct mare__resolving naming;
    char host[]; // empty: what is asked for is the name of naming.addresses[0], or of its port
};

// One that has not begun; `naming` can be told more before it does. NULL: not enough memory.
struct mare__lookup *mare__lookup_new(mare_runtime *runtime, const char *host);
