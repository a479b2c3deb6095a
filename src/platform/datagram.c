// SPDX-License-Identifier: MIT
// Datagrams by the system's own calls.
#include "platform/datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int set(int fd, int level, int name, const void *value, size_t size)
{
    return setsockopt(fd, level, name, value, (socklen_t)size) == 0 ? 0 : -errno;
}

bool mare__datagram_speaks(int fd, const struct mare__address *to)
{
    int family = mare__socket_family(fd), only = 1;
    socklen_t size = sizeof only;
    if (family == to->storage.ss_family)
        return true;
    return family == AF_INET6 && getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &size) == 0 &&
           !only;
}

static in_port_t *port_of(struct mare__address *address)
{
    return address->storage.ss_family == AF_INET6
               ? &((struct sockaddr_in6 *)&address->storage)->sin6_port
               : &((struct sockaddr_in *)&address->storage)->sin_port;
}

// When the peer is removed Linux also forgets a port that it chose itself: it is bound again.
static int disconnect(int fd)
{
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct mare__address before, after;
    int err = mare__socket_address(fd, false, &before);
    if (!err && connect(fd, &nobody, sizeof nobody) != 0)
        err = -errno;
    if (!err)
        err = mare__socket_address(fd, false, &after);
    if (err || before.storage.ss_family == AF_UNIX || *port_of(&after) == *port_of(&before))
        return err;
    *port_of(&after) = *port_of(&before);
    return mare__socket_bind(fd, &after);
}

int mare__datagram_connect(int fd, const struct mare__address *peer)
{
    const struct sockaddr *to = peer ? (const struct sockaddr *)&peer->storage : NULL;
    int err = !peer ? disconnect(fd) : connect(fd, to, peer->length) == 0 ? 0 : -errno;
    mare__socket_error(fd); // clears what the last peer has refused
    return err;
}

ssize_t mare__datagram_send(int fd, const struct mare__address *to, const void *data, size_t size)
{
    ssize_t sent;
    do
        sent = sendto(fd, data, size, MSG_NOSIGNAL,
                      to ? (const struct sockaddr *)&to->storage : NULL, to ? to->length : 0);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

static int64_t stamp_of(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct timespec stamp;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
        return (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec;
    }
    return 0;
}

ssize_t mare__datagram_receive(int fd, struct mare__address *from, void *data, size_t room,
                               int64_t *stamp_ns)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec into = {.iov_base = data, .iov_len = room};
    struct msghdr message;
    ssize_t got;
    do {
        message = (struct msghdr){.msg_name = &from->storage,
                                  .msg_namelen = sizeof from->storage,
                                  .msg_iov = &into,
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = sizeof control};
        got = recvmsg(fd, &message, MSG_TRUNC);
    } while (got < 0 && errno == EINTR);
    *stamp_ns = 0;
    if (got < 0)
        return -errno;
    from->length = message.msg_namelen;
    *stamp_ns = stamp_of(&message);
    return got;
}

// ---- Groups -------------------------------------------------------------------------------------

// The number of an interface, by its name or itself; 0: there is none.
static unsigned index_of(const char *interface)
{
    unsigned index = if_nametoindex(interface);
    if (index == 0 && strspn(interface, "0123456789") == strlen(interface))
        index = (unsigned)strtoul(interface, NULL, 10);
    return index;
}

// What IPv4 wants to know of an interface.
static int describe(const char *interface, struct ip_mreqn *out)
{
    out->imr_address.s_addr = htonl(INADDR_ANY);
    out->imr_ifindex = 0;
    if (!interface || inet_pton(AF_INET, interface, &out->imr_address) == 1)
        return 0;
    out->imr_ifindex = (int)index_of(interface);
    return out->imr_ifindex ? 0 : -ENODEV;
}

bool mare__address_is_group(const struct mare__address *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->storage;
    return address->storage.ss_family == AF_INET6 ? IN6_IS_ADDR_MULTICAST(&six->sin6_addr)
                                                  : IN_MULTICAST(ntohl(four->sin_addr.s_addr));
}

static int member(int fd, const struct mare__address *group, const char *interface, bool joins)
{
    if (group->storage.ss_family != mare__socket_family(fd))
        return -EAFNOSUPPORT;
    if (group->storage.ss_family == AF_INET) {
        struct ip_mreqn four = {.imr_multiaddr =
                                    ((const struct sockaddr_in *)&group->storage)->sin_addr};
        int err = describe(interface, &four);
        return err ? err
                   : set(fd, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &four,
                         sizeof four);
    }
    const struct sockaddr_in6 *address = (const struct sockaddr_in6 *)&group->storage;
    struct ipv6_mreq six = {.ipv6mr_multiaddr = address->sin6_addr,
                            .ipv6mr_interface =
                                interface ? index_of(interface) : address->sin6_scope_id};
    if (interface && six.ipv6mr_interface == 0)
        return -ENODEV;
    return set(fd, IPPROTO_IPV6, joins ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &six, sizeof six);
}

int mare__datagram_join(int fd, const struct mare__address *group, const char *interface)
{
    return member(fd, group, interface, true);
}

int mare__datagram_leave(int fd, const struct mare__address *group, const char *interface)
{
    return member(fd, group, interface, false);
}

int mare__datagram_through(int fd, const char *interface)
{
    if (mare__socket_family(fd) == AF_INET) {
        struct ip_mreqn four = {0};
        int err = describe(interface, &four);
        return err ? err : set(fd, IPPROTO_IP, IP_MULTICAST_IF, &four, sizeof four);
    }
    unsigned index = index_of(interface);
    return index ? set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index) : -ENODEV;
}
