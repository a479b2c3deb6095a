// SPDX-License-Identifier: MIT
// Descriptors as transports. Each call is one to the system; what waits is the observer's.
//
// The structure has two holders: whoever owns the transport, and the observer, which may be about
// to tell of the descriptor on its own thread until it has closed it. The last one frees it.
#include "loop/descriptor.h"

#include <errno.h>

#include "base/alloc.h"
#include "platform/socket.h"

struct descriptor {
    struct mare__transport transport;
    atomic_uint holders;
    mare_runtime *runtime;
    struct mare__observed observed;
};

static struct descriptor *of(struct mare__transport *transport)
{
    return (struct descriptor *)transport;
}

static void drop(struct descriptor *self)
{
    if (atomic_fetch_sub(&self->holders, 1) > 1)
        return;
    for (int way = 0; way < MARE__WAYS; way++)
        if (self->observed.ready[way])
            mare_chan_unref(self->observed.ready[way]);
    mare__free(self);
}

// On the observer's thread, or on that of who closes it.
static void on_closed(struct mare__observed *observed)
{
    drop(MARE__ENTRY(observed, struct descriptor, observed));
}

// A connection that gives less than there was room for has no more, unless the observer knows that
// it is odd.
static ssize_t read_some(struct mare__transport *transport, void *bytes, size_t size)
{
    struct mare__observed *observed = &of(transport)->observed;
    mare__observed_expect(observed, MARE__TO_READ);
    ssize_t got = mare__socket_read(observed->fd, bytes, size);
    if (got != -EAGAIN && (got <= 0 || (size_t)got == size))
        mare__observed_unexpect(observed, MARE__TO_READ);
    return got;
}

static ssize_t write_some(struct mare__transport *transport, struct iovec *pieces, int count)
{
    struct mare__observed *observed = &of(transport)->observed;
    mare__observed_expect(observed, MARE__TO_WRITE);
    ssize_t sent = mare__socket_write(observed->fd, pieces, count);
    if (sent != -EAGAIN)
        mare__observed_unexpect(observed, MARE__TO_WRITE);
    return sent;
}

static ssize_t send_file(struct mare__transport *transport, int file, size_t size)
{
    struct mare__observed *observed = &of(transport)->observed;
    mare__observed_expect(observed, MARE__TO_WRITE);
    ssize_t sent = mare__socket_send_file(observed->fd, file, size);
    if (sent != -EAGAIN)
        mare__observed_unexpect(observed, MARE__TO_WRITE);
    return sent;
}

static int shut_down(struct mare__transport *transport)
{
    return mare__socket_shutdown(of(transport)->observed.fd, MARE__HALF_SEND);
}

static mare_channel *await(struct mare__transport *transport, int way)
{
    struct descriptor *self = of(transport);
    return mare__observed_await(self->runtime, &self->observed, way);
}

static void close_it(struct mare__transport *transport, bool cut)
{
    (void)cut; // the system sends what it has taken, and says no more than that it was the last
    mare__observed_close(&of(transport)->observed);
}

static void release(struct mare__transport *transport)
{
    mare__observed_close(&of(transport)->observed);
    drop(of(transport));
}

static int number(const struct mare__transport *transport)
{
    return ((const struct descriptor *)transport)->observed.fd;
}

static const struct mare__transport_ops ops = {
    .read = read_some,
    .write = write_some,
    .flush = mare__transport_no_flush,
    .send_file = send_file,
    .shutdown = shut_down,
    .waits = mare__transport_no_waits,
    .await = await,
    .close = close_it,
    .release = release,
    .descriptor = number,
    .failure = mare__transport_no_failure,
    .facts = mare__transport_no_facts,
    .plain = true,
};

struct mare__transport *mare__descriptor_new(mare_runtime *runtime, int fd)
{
    struct descriptor *self = mare__alloc_zero(sizeof *self);
    if (!self) {
        mare__socket_close(fd);
        return NULL;
    }
    self->transport.ops = &ops;
    self->runtime = runtime;
    atomic_init(&self->holders, 2);
    mare__observed_init(&self->observed, fd, on_closed);
    self->observed.edges = true;
    return &self->transport;
}

int mare__descriptor_lend(struct mare__transport *transport)
{
    struct descriptor *self = of(transport);
    int fd = self->observed.fd;
    self->observed.lent = true;
    mare__observed_close(&self->observed);
    return fd;
}
