// SPDX-License-Identifier: MIT
// Sockets made step by step, by the system's own calls.
#include "platform/rawsocket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int result(int r)
{
    return r < 0 ? -errno : r;
}

int mare__raw_open(int family, int type)
{
    int on = 1, fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    return result(fd);
}

int mare__raw_adopt(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return result(flags < 0 ? flags : fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

int mare__raw_bind(int fd, const struct mare__address *address)
{
    return result(bind(fd, (const struct sockaddr *)&address->storage, address->length));
}

int mare__raw_listen(int fd, int backlog)
{
    return result(listen(fd, backlog));
}

int mare__raw_connect(int fd, const struct mare__address *address)
{
    static const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    if (!address)
        return result(connect(fd, &nobody, sizeof nobody));
    return result(connect(fd, (const struct sockaddr *)&address->storage, address->length));
}

int mare__raw_accept(int fd)
{
    return result(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void mare__raw_shutdown(int fd, enum mare__half half)
{
    static const int hows[] = {
        [MARE__HALF_RECEIVE] = SHUT_RD, [MARE__HALF_SEND] = SHUT_WR, [MARE__HALF_BOTH] = SHUT_RDWR};
    shutdown(fd, hows[half]);
}

ssize_t mare__raw_receive(int fd, void *bytes, size_t size, struct mare__address *from)
{
    ssize_t got;
    do {
        if (from)
            from->length = sizeof from->storage;
        got = recvfrom(fd, bytes, size, 0, from ? (struct sockaddr *)&from->storage : NULL,
                       from ? &from->length : NULL);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t mare__raw_send(int fd, const void *bytes, size_t size, const struct mare__address *to)
{
    ssize_t sent;
    do
        sent = sendto(fd, bytes, size, MSG_NOSIGNAL,
                      to ? (const struct sockaddr *)&to->storage : NULL, to ? to->length : 0);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

const size_t mare__raw_look_scratch = sizeof(struct pollfd);

int mare__raw_look(struct mare__raw_look *looks, size_t count, void *scratch)
{
    static const short events[] = {
        [MARE__RAW_READ] = POLLIN, [MARE__RAW_WRITE] = POLLOUT, [MARE__RAW_LEAVE] = POLLRDHUP};
    struct pollfd *polls = scratch;
    for (size_t i = 0; i < count; i++)
        polls[i] = (struct pollfd){.fd = looks[i].fd, .events = events[looks[i].way]};
    int got;
    do
        got = poll(polls, count, 0);
    while (got < 0 && errno == EINTR);
    for (size_t i = 0; i < count; i++)
        looks[i].ready = got > 0 && polls[i].revents != 0;
    return result(got);
}

// ---- Options ------------------------------------------------------------------------------------

static const struct mare__option options[] = {
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE, MARE__OPTION_FLAG},
    {"reuseaddr", SOL_SOCKET, SO_REUSEADDR, MARE__OPTION_FLAG},
    {"reuseport", SOL_SOCKET, SO_REUSEPORT, MARE__OPTION_FLAG},
    {"dontroute", SOL_SOCKET, SO_DONTROUTE, MARE__OPTION_FLAG},
    {"broadcast", SOL_SOCKET, SO_BROADCAST, MARE__OPTION_FLAG},
    {"linger", SOL_SOCKET, SO_LINGER, MARE__OPTION_LINGER},
    {"error", SOL_SOCKET, SO_ERROR, MARE__OPTION_ERROR},
    {"recv-buffer-size", SOL_SOCKET, SO_RCVBUF, MARE__OPTION_NUMBER},
    {"send-buffer-size", SOL_SOCKET, SO_SNDBUF, MARE__OPTION_NUMBER},
    {"tcp-nodelay", IPPROTO_TCP, TCP_NODELAY, MARE__OPTION_FLAG},
    {"tcp-keepidle", IPPROTO_TCP, TCP_KEEPIDLE, MARE__OPTION_NUMBER},
    {"tcp-keepcnt", IPPROTO_TCP, TCP_KEEPCNT, MARE__OPTION_NUMBER},
    {"tcp-keepintvl", IPPROTO_TCP, TCP_KEEPINTVL, MARE__OPTION_NUMBER},
    {"tcp-defer-accept", IPPROTO_TCP, TCP_DEFER_ACCEPT, MARE__OPTION_NUMBER},
    {"tcp-fastopen", IPPROTO_TCP, TCP_FASTOPEN, MARE__OPTION_NUMBER},
    {"tcp-fastopen-connect", IPPROTO_TCP, TCP_FASTOPEN_CONNECT, MARE__OPTION_NUMBER},
    {"ip-multicast-if", IPPROTO_IP, IP_MULTICAST_IF, MARE__OPTION_INTERFACE},
    {"ip-multicast-ttl", IPPROTO_IP, IP_MULTICAST_TTL, MARE__OPTION_NUMBER},
    {"ip-multicast-loop", IPPROTO_IP, IP_MULTICAST_LOOP, MARE__OPTION_FLAG},
    {"ip-add-membership", IPPROTO_IP, IP_ADD_MEMBERSHIP, MARE__OPTION_GROUP},
    {"ip-drop-membership", IPPROTO_IP, IP_DROP_MEMBERSHIP, MARE__OPTION_GROUP},
    {"ipv6-v6only", IPPROTO_IPV6, IPV6_V6ONLY, MARE__OPTION_FLAG},
    {"ipv6-unicast-hops", IPPROTO_IPV6, IPV6_UNICAST_HOPS, MARE__OPTION_NUMBER},
    {"ipv6-multicast-hops", IPPROTO_IPV6, IPV6_MULTICAST_HOPS, MARE__OPTION_NUMBER},
    {"ipv6-multicast-loop", IPPROTO_IPV6, IPV6_MULTICAST_LOOP, MARE__OPTION_FLAG},
    {"ipv6-add-membership", IPPROTO_IPV6, IPV6_JOIN_GROUP, MARE__OPTION_GROUP6},
    {"ipv6-drop-membership", IPPROTO_IPV6, IPV6_LEAVE_GROUP, MARE__OPTION_GROUP6},
};

const struct mare__option *mare__option_find(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static struct in_addr four_of(const struct mare__address *address)
{
    return ((const struct sockaddr_in *)&address->storage)->sin_addr;
}

int mare__option_set(int fd, const struct mare__option *option,
                     const struct mare__option_value *value)
{
    struct linger linger = {.l_onoff = value->number, .l_linger = value->seconds};
    struct in_addr interface = four_of(&value->interface);
    struct ip_mreq group = {.imr_multiaddr = four_of(&value->group), .imr_interface = interface};
    struct ipv6_mreq group6 = {.ipv6mr_interface = (unsigned)value->number};
    group6.ipv6mr_multiaddr = ((const struct sockaddr_in6 *)&value->group.storage)->sin6_addr;
    const void *bytes = &value->number;
    socklen_t size = sizeof value->number;
    switch (option->kind) {
    case MARE__OPTION_LINGER:
        bytes = &linger, size = sizeof linger;
        break;
    case MARE__OPTION_INTERFACE:
        bytes = &interface, size = sizeof interface;
        break;
    case MARE__OPTION_GROUP:
        bytes = &group, size = sizeof group;
        break;
    case MARE__OPTION_GROUP6:
        bytes = &group6, size = sizeof group6;
        break;
    default:
        break;
    }
    return result(setsockopt(fd, option->level, option->number, bytes, size));
}

int mare__option_get(int fd, const struct mare__option *option, struct mare__option_value *value)
{
    struct linger linger = {0};
    struct sockaddr_in four = {.sin_family = AF_INET};
    void *bytes = &value->number;
    socklen_t size = sizeof value->number;
    memset(value, 0, sizeof *value);
    if (option->kind == MARE__OPTION_LINGER)
        bytes = &linger, size = sizeof linger;
    else if (option->kind == MARE__OPTION_INTERFACE)
        bytes = &four.sin_addr, size = sizeof four.sin_addr;
    int err = result(getsockopt(fd, option->level, option->number, bytes, &size));
    if (option->kind == MARE__OPTION_LINGER) {
        value->number = linger.l_onoff;
        value->seconds = linger.l_linger;
    }
    memcpy(&value->interface.storage, &four, sizeof four);
    value->interface.length = sizeof four;
    return err;
}

// ---- Words --------------------------------------------------------------------------------------

enum { SERVICE_ROOM = 1024 };

int mare__service_number(const char *name, bool datagrams)
{
    char *end, room[SERVICE_ROOM];
    long number = strtol(name, &end, 10);
    if (*name && !*end)
        return number >= 0 && number <= 65535 ? (int)number : -1;
    struct servent entry, *found = NULL;
    getservbyname_r(name, datagrams ? "udp" : "tcp", &entry, room, sizeof room, &found);
    return found ? ntohs((uint16_t)found->s_port) : -1;
}

void mare__service_name(int number, char name[MARE__HOST_MAX])
{
    char room[SERVICE_ROOM];
    struct servent entry, *found = NULL;
    getservbyport_r(htons((uint16_t)number), "tcp", &entry, room, sizeof room, &found);
    if (found)
        snprintf(name, MARE__HOST_MAX, "%s", found->s_name);
    else
        snprintf(name, MARE__HOST_MAX, "%d", number);
}

int mare__host_name(char name[MARE__HOST_MAX])
{
    return result(gethostname(name, MARE__HOST_MAX));
}
