// SPDX-License-Identifier: MIT
// A transport: what the bytes of a stream go through, one way and the other. There are three:
//
//      a stream (loop/stream.h)               its buffer, its deadlines, whose it is
//         |  read, write, flush, shut down, wait, close
//      [ TLS (platform/tls.h) ]               if there is one: it owns the transport below
//         |
//      a descriptor (loop/descriptor.h)       TCP, Unix-domain sockets, pipes, terminals
//   or one end of a pair (loop/pair.h)        two streams joined in memory
//
// No call blocks. Results are counts, or 0; failures are errno values, negated. -EAGAIN is "not
// now": `waits` says what for, `await` where that is told.
//
// Threads: one at a time may call a transport, which is the one that runs the owner of its stream.
// It may be another one each time.
#pragma once

#include <mare.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct mare__tls_error;
struct mare__tls_facts;

// What one waits for: until it can be read from, or written to.
enum { MARE__TO_READ, MARE__TO_WRITE, MARE__WAYS };

struct mare__transport {
    const struct mare__transport_ops *ops;
    // The last call took something from the transport below, or may have left something here. So
    // another routine that waits might miss it, and must look. Only TLS sets these.
    bool moved;
    bool settled; // it has ended the handshake, for which all may wait that want to read or write
    bool dry;     // the last read took all there was, here and below
    // Set by who writes: more follows at once.
    bool more;
};

struct mare__transport_ops {
    // What came, at most so many bytes. 0: the peer sends no more.
    ssize_t (*read)(struct mare__transport *transport, void *bytes, size_t size);

    // The same into several pieces, from the first on. NULL: it fills only one at a time.
    ssize_t (*read_into)(struct mare__transport *transport, struct iovec *pieces, int count);

    // Takes bytes of the pieces, from the first on. They are on their way when `flush` is 0.
    ssize_t (*write)(struct mare__transport *transport, struct iovec *pieces, int count);
    int (*flush)(struct mare__transport *transport);

    // As `write`, of an open file's bytes, from its place on. NULL: it cannot, they must be read.
    ssize_t (*send_file)(struct mare__transport *transport, int file, size_t size);

    // This side sends no more. What was taken is flushed before.
    int (*shutdown)(struct mare__transport *transport);

    // Before trying again what said "not now": what to wait for, which may be the other way (TLS
    // may have to write before it can read), and until when at the latest.
    void (*waits)(const struct mare__transport *transport, int *way, uint64_t *deadline);

    // A channel that gets a message when the way may be open, at least one after each call. The
    // channel of a way is the same each time, and the transport's. NULL: not enough memory.
    mare_channel *(*await)(struct mare__transport *transport, int way);

    // Of one without a descriptor: whether the way is open now.
    bool (*is_open)(struct mare__transport *transport, int way);

    // Closes the channels, so that those who wait are told, and lets the peer know. `cut`:
    // something was being written and is not whole, so the peer must not take this for the end of
    // it. After this nothing but `release` may be called; to close it again does nothing.
    void (*close)(struct mare__transport *transport, bool cut);

    // The owner lets go of it. It is closed, by now or by this.
    void (*release)(struct mare__transport *transport);

    // The descriptor at the bottom, or -1: there is none.
    int (*descriptor)(const struct mare__transport *transport);

    // After -EPROTO: what happened. NULL: nothing is known.
    const struct mare__tls_error *(*failure)(const struct mare__transport *transport);

    // What is known of the peer. False: nothing, for it was not asked for.
    bool (*facts)(const struct mare__transport *transport, struct mare__tls_facts *facts);

    // Its bytes are those that the descriptor has, if there is one. So `await` tells of all that
    // can be read, and a read that got less than it had room for has taken all there was. (TLS may
    // have a whole record, or a half.)
    bool plain;
};

static inline ssize_t mare__transport_read(struct mare__transport *transport, void *bytes,
                                           size_t size)
{
    return transport->ops->read(transport, bytes, size);
}

static inline ssize_t mare__transport_write(struct mare__transport *transport, struct iovec *pieces,
                                            int count)
{
    return transport->ops->write(transport, pieces, count);
}

static inline int mare__transport_flush(struct mare__transport *transport)
{
    return transport->ops->flush(transport);
}

static inline int mare__transport_shutdown(struct mare__transport *transport)
{
    return transport->ops->shutdown(transport);
}

static inline void mare__transport_waits(const struct mare__transport *transport, int *way,
                                         uint64_t *deadline)
{
    transport->ops->waits(transport, way, deadline);
}

static inline mare_channel *mare__transport_await(struct mare__transport *transport, int way)
{
    return transport->ops->await(transport, way);
}

static inline void mare__transport_close(struct mare__transport *transport, bool cut)
{
    transport->ops->close(transport, cut);
}

static inline void mare__transport_release(struct mare__transport *transport)
{
    transport->ops->release(transport);
}

// ---- For transports that have nothing below and nothing to say ----------------------------------

static inline int mare__transport_no_flush(struct mare__transport *transport)
{
    (void)transport;
    return 0;
}

static inline void mare__transport_no_waits(const struct mare__transport *transport, int *way,
                                            uint64_t *deadline)
{
    (void)transport, (void)way, (void)deadline;
}

static inline const struct mare__tls_error *mare__transport_no_failure(
    const struct mare__transport *transport)
{
    (void)transport;
    return NULL;
}

static inline bool mare__transport_no_facts(const struct mare__transport *transport,
                                            struct mare__tls_facts *facts)
{
    (void)transport, (void)facts;
    return false;
}
