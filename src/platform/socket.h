// SPDX-License-Identifier: MIT
// Sockets that never block: what the loop and the bindings need of the system. Functions return 0
// or a count or a descriptor; failures are errno values, negated. -EAGAIN: not now.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct mare__address {
    struct sockaddr_storage storage;
    socklen_t length;
};

// The address of a numeric host ("127.0.0.1", "::1", "fe80::1%eth0") and a port. False: it is not
// numeric.
bool mare__address_numeric(struct mare__address *address, const char *host, uint16_t port);

// The address of a Unix-domain socket. False: the path is too long.
bool mare__address_unix(struct mare__address *address, const char *path);

enum { MARE__HOST_MAX = 128 };

// The host or path as text, and the port (-1: it has none).
int mare__address_text(const struct mare__address *address, char host[MARE__HOST_MAX]);

// The same in 18 bytes, as packets carry it: an IPv6 address, or a mapped IPv4 one, and the port,
// in network order. Of another family: zeros. Back, a mapped one becomes IPv4.
enum { MARE__ADDRESS_PACKED = 18 };
void mare__address_pack(const struct mare__address *address, uint8_t packed[MARE__ADDRESS_PACKED]);
void mare__address_unpack(const uint8_t packed[MARE__ADDRESS_PACKED],
                          struct mare__address *address);

// A new descriptor that listens, or is being connected (-EINPROGRESS is no failure: `*fd` is set).
int mare__socket_listen(const struct mare__address *address, int backlog, bool share_port);
int mare__socket_connect(const struct mare__address *address, int *fd);

// What became of a connection, once the descriptor is writable.
int mare__socket_outcome(int fd);

int mare__socket_accept(int fd, struct mare__address *peer);

// Pipes and terminals can be read from and written to as well.
ssize_t mare__socket_read(int fd, void *bytes, size_t size); // 0: the peer sends no more
ssize_t mare__socket_write(int fd, struct iovec *pieces, int count);
int mare__socket_shutdown(int fd); // of our direction
void mare__socket_close(int fd);

// Whether there are so many descriptors left, eight at the most.
bool mare__descriptors_left(int count);
int mare__socket_copy(int fd); // another descriptor of the same

// A device file, a FIFO or a terminal, to read from without waiting; and what it has. Opened for
// writing too if that is allowed, so that a FIFO without a writer is not at its end.
int mare__device_open(const char *path);
ssize_t mare__device_read(int fd, void *bytes, size_t size);

// This side's address, or the peer's.
int mare__socket_address(int fd, bool peer, struct mare__address *address);
