// SPDX-License-Identifier: MIT
// Streams: connections that bytes go through, the listeners that accept them, and sockets for
// datagrams, which need less of the same. A stream has one owner at a time, a process; sent in a
// message it changes hands.
#pragma once

#include "loop/observer.h"
#include "platform/socket.h"

enum { MARE__STREAM_ROOM = 65536 }; // bytes read at once

struct mare__stream {
    struct mare__object object;
    atomic_uint holders; // the object, and the source until it is closed
    mare_runtime *runtime;
    struct mare__source source;
    uint64_t timeout;  // of each call, in nanoseconds; MARE_FOREVER: none
    uint64_t line_max; // bytes of a line, or a datagram, beyond which it is refused
    // What was read and not yet asked for: only as long as there is such.
    char *bytes;
    size_t first, end, room;
    uint16_t waiting[MARE__WAYS]; // routines of its owner that wait for it, and their sum is
                                  // object.waiters
    bool at_end;                  // the peer sends no more
    bool drained;                 // the last read took all there was: wait before the next
};

// Takes over the descriptor, in any case. NULL: not enough memory.
struct mare__stream *mare__stream_new(mare_runtime *runtime, int fd, enum mare__kind kind);

// Reads what there is into `bytes`, and, if the buffer is not empty, adds it there: its number of
// bytes, 0 at the end, or an errno value, negated.
ssize_t mare__stream_read(struct mare__stream *stream, char bytes[MARE__STREAM_ROOM]);

// Keeps bytes for later: in an empty buffer. False: not enough memory.
bool mare__stream_keep(struct mare__stream *stream, const char *bytes, size_t size);

// The first `size` bytes of the buffer were used.
void mare__stream_used(struct mare__stream *stream, size_t size);

// Whether somebody has closed it on this side.
static inline bool mare__stream_closed(const struct mare__stream *stream)
{
    // Relaxed: its owner asks, who alone closes it while it lives.
    return atomic_load_explicit(&stream->source.ends, memory_order_relaxed);
}

static inline size_t mare__stream_buffered(const struct mare__stream *stream)
{
    return stream->end - stream->first;
}

// ---- Names --------------------------------------------------------------------------------------
// A name being resolved. Its channel gets a message when it has been.
struct mare__lookup {
    struct mare__object object; // referred to by who asked, and by the loop
    struct mare__request request;
    struct mare__resolving resolving;
    mare_channel *done;
    char host[];
};

// Begins to resolve a name. NULL: not enough memory.
struct mare__lookup *mare__lookup_start(mare_runtime *runtime, const char *host);
