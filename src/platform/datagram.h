// SPDX-License-Identifier: MIT
// Sockets for datagrams (UDP, and Unix-domain sockets) that never block. A socket is of one family,
// IPv4 or IPv6, unless it is told to speak both. Functions return as those of socket.h do: failures
// are errno values, negated; -EAGAIN: not now.
#pragma once

#include "platform/socket.h"

// The most that one datagram can carry over IPv4; none is longer than MARE__DATAGRAM_ROOM.
enum { MARE__DATAGRAM_MAX = 65507, MARE__DATAGRAM_ROOM = 65536 };

// Whether it can send to such an address.
bool mare__datagram_speaks(int fd, const struct mare__address *to);

// The peer of a socket: where datagrams without an address go, the only one that is heard, and who
// may refuse. NULL: none any more.
int mare__datagram_connect(int fd, const struct mare__address *peer);

// All of it or nothing. To NULL: to the peer.
ssize_t mare__datagram_send(int fd, const struct mare__address *to, const void *data, size_t size);

// Takes one datagram. Returns its whole length, which may be more than `room`. `stamp_ns` is when
// it reached this machine by the system's clock, if the kernel was asked to note it; else 0.
ssize_t mare__datagram_receive(int fd, struct mare__address *from, void *data, size_t room,
                               int64_t *stamp_ns);

// Begins, or ceases, to hear what is sent to a group. An interface is the name of one ("eth0"), its
// number or, with IPv4, its address; NULL: the system chooses.
bool mare__address_is_group(const struct mare__address *address);
int mare__datagram_join(int fd, const struct mare__address *group, const char *interface);
int mare__datagram_leave(int fd, const struct mare__address *group, const char *interface);

// By which interface to send to groups.
int mare__datagram_through(int fd, const char *interface);
