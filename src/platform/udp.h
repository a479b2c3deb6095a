// SPDX-License-Identifier: MIT
// Datagrams: a socket that never blocks, and a way to wait for it. Addresses are 18 bytes: an IPv6
// address, or a mapped IPv4 one, and a port, in network order.
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/socket.h"

enum { MARE__UDP_ADDRESS = 18, MARE__UDP_TEXT = 64 };

// To such an address from one of socket.h, and back. A mapped one becomes IPv4.
void mare__udp_pack(const struct mare__address *address, uint8_t *packed);
void mare__udp_unpack(const uint8_t *packed, struct mare__address *address);

// Why this cannot be the address of anybody, or NULL. Asks no name server. Somebody to be sent to
// (`target`) has a port that is not 0.
const char *mare__udp_wrong(const char *text, bool target);

// What "host:port" or "[host]:port" means. Returns NULL, or why it could not be found out. May ask
// a name server, and block.
const char *mare__udp_resolve(const char *text, uint8_t *address);

// The other way round, "127.0.0.1:7001"; `text` has room for MARE__UDP_TEXT.
void mare__udp_text(const uint8_t *address, char *text);

// Opens a socket: at this address, or (`address` of somebody else) at any that can reach it. Port 0
// is chosen by the system; `here`, if not NULL, gets the address that it has. Returns a descriptor,
// or minus an errno value.
int mare__udp_listen(const uint8_t *address, uint8_t *here);
int mare__udp_towards(const uint8_t *address);
void mare__udp_close(int socket);

// Sends; what cannot be sent is lost, as datagrams are.
void mare__udp_send(int socket, const uint8_t *address, const void *data, size_t length);

// Takes one datagram that is there. Returns its whole length, which may be more than `room`, or -1
// when there is none. `stamp_ns` is when it reached this machine by the system's clock: the kernel
// noted that, so that it does not matter how late this program was woken (mare__wall_age_ns makes
// sense of it). 0 when the kernel does not say.
long mare__udp_receive(int socket, uint8_t *address, void *data, size_t room, int64_t *stamp_ns);

// Makes the kernel note when datagrams arrive, if it can. The sockets of this file and of
// multicast.h ask for it themselves.
void mare__udp_stamp(int socket);

// Whether a line can be written to a descriptor, a socket's or another's, without waiting for
// whoever reads it.
bool mare__udp_may_write(int descriptor);

// Sleeps until there is one, or so many nanoseconds have passed, or a signal has come. Does not
// begin to sleep when `stopped` is set, which a handler of SIGINT, SIGTERM or SIGHUP may do at any
// time: a signal right before the sleep is not slept over. Without a socket (-1) it is a sleep
// alone.
void mare__udp_wait(int socket, uint64_t timeout_ns, const volatile sig_atomic_t *stopped);
