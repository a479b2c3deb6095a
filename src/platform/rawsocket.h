// SPDX-License-Identifier: MIT
// Sockets made step by step, with their options: for those who want the system's own interface, as
// LuaSocket's is. Like those of socket.h they never block, and failures are errno values, negated.
#pragma once

#include "platform/socket.h"

// A new descriptor: AF_INET, AF_INET6 (which serves no IPv4 beside), AF_UNIX; SOCK_STREAM or
// SOCK_DGRAM.
int mare__raw_open(int family, int type);

// A descriptor that somebody else made, from now on one that never blocks.
int mare__raw_adopt(int fd);

int mare__raw_bind(int fd, const struct mare__address *address);
int mare__raw_listen(int fd, int backlog);

// -EINPROGRESS: under way. Without an address, a datagram socket has no peer any more.
int mare__raw_connect(int fd, const struct mare__address *address);
int mare__raw_accept(int fd);

enum mare__half { MARE__HALF_RECEIVE, MARE__HALF_SEND, MARE__HALF_BOTH };
void mare__raw_shutdown(int fd, enum mare__half half);

// Datagrams; NULL: from anybody, to the peer.
ssize_t mare__raw_receive(int fd, void *bytes, size_t size, struct mare__address *from);
ssize_t mare__raw_send(int fd, const void *bytes, size_t size, const struct mare__address *to);

// Which of them are ready, without waiting; returns how many. To see a peer leave is to be ready
// when it has closed its end, whatever it sent before, or the connection is lost.
enum mare__raw_way { MARE__RAW_READ, MARE__RAW_WRITE, MARE__RAW_LEAVE };
struct mare__raw_look {
    int fd;
    enum mare__raw_way way;
    bool ready;
};
int mare__raw_look(struct mare__raw_look *looks, size_t count, void *scratch);
extern const size_t mare__raw_look_scratch; // bytes of scratch for each

// ---- Options ------------------------------------------------------------------------------------

enum mare__option_kind {
    MARE__OPTION_FLAG,
    MARE__OPTION_NUMBER,
    MARE__OPTION_LINGER,
    MARE__OPTION_INTERFACE, // an IPv4 address
    MARE__OPTION_GROUP,     // of multicast: two addresses, or an address and a number
    MARE__OPTION_GROUP6,
    MARE__OPTION_ERROR
};

struct mare__option {
    const char *name; // as in LuaSocket
    int level, number;
    enum mare__option_kind kind;
};

struct mare__option_value {
    int number; // or whether it is on, or the index of an interface
    int seconds;
    struct mare__address group, interface;
};

// NULL: there is none of that name.
const struct mare__option *mare__option_find(const char *name);
int mare__option_set(int fd, const struct mare__option *option,
                     const struct mare__option_value *value);
int mare__option_get(int fd, const struct mare__option *option, struct mare__option_value *value);

// ---- Words --------------------------------------------------------------------------------------

// The number of a service, by number or name ("http"), or -1; the name of a number.
int mare__service_number(const char *name, bool datagrams);
void mare__service_name(int number, char name[MARE__HOST_MAX]);

// This machine's own name.
int mare__host_name(char name[MARE__HOST_MAX]);
