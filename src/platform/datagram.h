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

// Sets the peer of a socket: datagrams without an address go there, only its datagrams are
// received, and its refusals are reported. NULL removes it.
int mare__datagram_connect(int fd, const struct mare__address *peer);

// Sends one datagram, whole or not at all. NULL: to the peer.
ssize_t mare__datagram_send(int fd, const struct mare__address *to, const void *data, size_t size);

// Takes one datagram. Returns its whole length, which may be more than `room`. `stamp_ns` is when
// it reached this machine by the system's clock, if the kernel was asked to note it; else 0.
ssize_t mare__datagram_receive(int fd, struct mare__address *from, void *data, size_t room,
                               int64_t *stamp_ns);

// Joins or leaves a multicast group. An interface is given by its name ("eth0"), its number or,
// with IPv4, its address; NULL: the system chooses.
bool mare__address_is_group(const struct mare__address *address);
int mare__datagram_join(int fd, const struct mare__address *group, const char *interface);
int mare__datagram_leave(int fd, const struct mare__address *group, const char *interface);

// Sets the interface for sending to groups.
int mare__datagram_through(int fd, const char *interface);
