// SPDX-License-Identifier: MIT
// A device file as a source: each event is what could be read at once. Written with the public
// interface only, as a program would do it.
#include <errno.h>

#include "base/alloc.h"
#include "loop/source.h"
#include "platform/socket.h"

enum { CHUNK = 4096 }; // the most bytes of an event

struct device {
    int fd;
};

static mare_err on_ready(void *self, mare_message *event)
{
    struct device *device = self;
    char bytes[CHUNK];
    ssize_t got = mare__device_read(device->fd, bytes, sizeof bytes);
    if (got == -EAGAIN)
        return MARE_EMPTY;
    if (got == 0 || got == -EIO) // the end of the file; or the other side of a terminal is gone
        return MARE_CLOSED;
    if (got < 0)
        return MARE_IO;
    mare_value chunk = {.type = MARE_STRING, .as.string = {bytes, (size_t)got}};
    return mare_message_add(event, &chunk);
}

static void destroy(void *self)
{
    struct device *device = self;
    mare__socket_close(device->fd);
    mare__free(device);
}

int mare__device_source(mare_runtime *runtime, const char *path, mare_source **out)
{
    static const mare_source_kind kind = {.name = "device", .ready = on_ready, .destroy = destroy};
    struct device *device = mare__alloc(sizeof *device);
    if (!device)
        return ENOMEM;
    device->fd = mare__device_open(path);
    if (device->fd < 0) {
        int err = -device->fd;
        mare__free(device);
        return err;
    }
    mare_err err = mare_source_create(runtime, &kind, device, device->fd, 0, out);
    if (err)
        destroy(device);
    return err == MARE_IO ? EMFILE : err ? ENOMEM : 0;
}
