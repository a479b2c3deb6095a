// SPDX-License-Identifier: MIT
// Descriptors as transports. Each call makes one system call; the observer does the waiting.
//
// The structure has two holders: the owner of the transport, and the observer. The observer may be
// about to tell of the descriptor on its own thread, until it has closed it. The last holder frees
// the structure.
#include "loop/descriptor.h"

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

// On the observer's thread, or on the thread that closes the descriptor.
static void on_closed(struct mare__observed *observed)
{
    drop(MARE__ENTRY(observed, struct descriptor, observed));
}

static ssize_t read_some(struct mare__transport *transport, void *bytes, size_t size)
{
    return mare__socket_read(of(transport)->observed.fd, bytes, size);
}

static ssize_t read_into(struct mare__transport *transport, struct iovec *pieces, int count)
{
    return mare__socket_read_into(of(transport)->observed.fd, pieces, count);
}

static ssize_t write_some(struct mare__transport *transport, struct iovec *pieces, int count)
{
    return mare__socket_write(of(transport)->observed.fd, pieces, count, transport->more);
}

static ssize_t send_file(struct mare__transport *transport, int file, size_t size)
{
    return mare__socket_send_file(of(transport)->observed.fd, file, size);
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
    (void)cut; // the system still sends what it has taken, so `cut` changes nothing
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
    .read_into = read_into,
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
