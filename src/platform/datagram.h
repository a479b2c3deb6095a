// SPDX-License-Identifier: MIT
// Sockets for datagrams (UDP) that never block. A socket is of one family, IPv4 or IPv6,
// unless it is told to speak both. Functions return as those of socket.h do: failures are errno
// values, negated; -EAGAIN: not now.
#pragma once

#include "platform/socket.h"

// The most that one datagram can carry over IPv4; none is longer than MARE__DATAGRAM_ROOM.
enum { MARE__DATAGRAM_MAX = 65507, MARE__DATAGRAM_ROOM = 65536 };

// A new descriptor, bound. Others may be bound to the same address and port if they, too, say so:
// REUSE for groups, where each gets every datagram; SHARE, where one of them gets it. BOTH: at "::"
// it speaks IPv4 as well.
enum { MARE__DATAGRAM_REUSE = 1, MARE__DATAGRAM_SHARE = 2, MARE__DATAGRAM_BOTH = 4 };
int mare__datagram_open(const struct mare__address *address, unsigned flags);

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

enum mare__datagram_option {
    MARE__DATAGRAM_BROADCAST,
    MARE__DATAGRAM_DONTROUTE,
    MARE__DATAGRAM_TTL,            // hops
    MARE__DATAGRAM_MULTICAST_TTL,  // the same, of what is sent to a group
    MARE__DATAGRAM_MULTICAST_LOOP, // whether this machine hears what it sends to a group
    MARE__DATAGRAM_RECEIVE_BUFFER, // bytes that the kernel keeps
    MARE__DATAGRAM_SEND_BUFFER,
    MARE__DATAGRAM_STAMPS // the kernel notes when datagrams arrive
};
int mare__datagram_set(int fd, enum mare__datagram_option option, int value);
int mare__datagram_get(int fd, enum mare__datagram_option option, int *value);

// Begins, or ceases, to hear what is sent to a group. An interface is the name of one ("eth0"), its
// number or, with IPv4, its address; NULL: the system chooses.
bool mare__address_is_group(const struct mare__address *address);
int mare__datagram_join(int fd, const struct mare__address *group, const char *interface);
int mare__datagram_leave(int fd, const struct mare__address *group, const char *interface);

// By which interface to send to groups.
int mare__datagram_through(int fd, const char *interface);
