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

// ---- Step by step -------------------------------------------------------------------------------

// A new descriptor: AF_INET, AF_INET6 or AF_UNIX; SOCK_STREAM or SOCK_DGRAM.
int mare__socket_open(int family, int type);

// A descriptor that somebody else made, from now on one that never blocks.
int mare__socket_adopt(int fd);

int mare__socket_bind(int fd, const struct mare__address *address);
int mare__socket_listen(int fd, int backlog);

// -EINPROGRESS: under way. The other says what has become of it by now, once.
int mare__socket_connect(int fd, const struct mare__address *address);
int mare__socket_outcome(int fd);

// What has gone wrong since it was last asked for; 0: nothing.
int mare__socket_error(int fd);

// A connection; it has the options of the one that listens.
int mare__socket_accept(int fd);

int mare__socket_family(int fd);

// This side's address, or the peer's.
int mare__socket_address(int fd, bool peer, struct mare__address *address);

// Describes a wait to read from the descriptor, or to write to it: "to read from the stream
// 127.0.0.1:4000". Never more than MARE__DESCRIBED bytes with the zero at the end.
enum { MARE__DESCRIBED = 192 };
void mare__socket_describe(int fd, bool writes, char text[MARE__DESCRIBED]);

// ---- Bytes --------------------------------------------------------------------------------------

// Pipes and terminals can be read from and written to as well.
ssize_t mare__socket_read(int fd, void *bytes, size_t size); // 0: the peer sends no more
ssize_t mare__socket_read_into(int fd, struct iovec *pieces, int count);
// `more`: more follows at once, and this may wait for it.
ssize_t mare__socket_write(int fd, struct iovec *pieces, int count, bool more);

// Writes what a file has from its place on, which moves, without a copy in this program. It waits
// for the disk: see mare__file_near. 0: there is no more. -EINVAL: not of such a file, or to such a
// descriptor.
ssize_t mare__socket_send_file(int fd, int file, size_t size);

// Before much is written to a peer on this machine: lets the system keep no more of it at a time
// than processors keep near them, unless somebody has said how much it shall keep. To a peer
// elsewhere, whose answers take their time, it keeps what it likes.
void mare__socket_keep_little(int fd);

enum mare__half { MARE__HALF_RECEIVE, MARE__HALF_SEND, MARE__HALF_BOTH };
int mare__socket_shutdown(int fd, enum mare__half half);
void mare__socket_close(int fd);

// A descriptor for others to poll: it can be read while it is raised. -1: none is left. Closed as a
// socket.
int mare__flag_new(void);
void mare__flag_raise(int fd);
void mare__flag_lower(int fd);

// Finds out which of them are ready, without waiting. Returns how many. MARE__LOOK_LEAVE: ready
// means that the peer has closed its end, whatever it sent before, or that the connection is lost.
// Leaves those with a negative descriptor as they were.
enum mare__look_for { MARE__LOOK_READ, MARE__LOOK_WRITE, MARE__LOOK_LEAVE };
struct mare__look {
    int fd;
    enum mare__look_for what;
    bool ready;
};
int mare__socket_look(struct mare__look *looks, size_t count, void *scratch);
extern const size_t mare__socket_look_scratch; // bytes of scratch for each

// ---- Descriptors --------------------------------------------------------------------------------

// Whether there are so many descriptors left, eight at the most.
bool mare__descriptors_left(int count);
int mare__socket_copy(int fd); // another descriptor of the same

// A device file, a FIFO or a terminal, to read from without waiting; and what it has. Opened for
// writing too if that is allowed, so that a FIFO without a writer is not at its end.
int mare__device_open(const char *path);
ssize_t mare__device_read(int fd, void *bytes, size_t size);

// This machine's own name.
int mare__host_name(char name[MARE__HOST_MAX]);
