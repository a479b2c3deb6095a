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
#include <unistd.h>

static int family_of(int fd)
{
    int family = AF_INET;
    socklen_t size = sizeof family;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    return family;
}

static int set(int fd, int level, int name, const void *value, size_t size)
{
    return setsockopt(fd, level, name, value, (socklen_t)size) == 0 ? 0 : -errno;
}

static int bind_to(int fd, const struct mare__address *address)
{
    return bind(fd, (const struct sockaddr *)&address->storage, address->length) == 0 ? 0 : -errno;
}

int mare__datagram_open(const struct mare__address *address, unsigned flags)
{
    int family = address->storage.ss_family, on = 1, only = !(flags & MARE__DATAGRAM_BOTH);
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int err = 0;
    if (family == AF_INET6)
        err = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (!err && flags & MARE__DATAGRAM_REUSE)
        err = set(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!err && flags & MARE__DATAGRAM_SHARE)
        err = set(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (!err)
        err = bind_to(fd, address);
    if (!err)
        return fd;
    close(fd);
    return err;
}

bool mare__datagram_speaks(int fd, const struct mare__address *to)
{
    int family = family_of(fd), only = 1;
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

// The system forgets a port that it chose itself together with the peer: it is taken again.
static int disconnect(int fd)
{
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    struct mare__address before, after;
    int err = mare__socket_address(fd, false, &before);
    if (!err && connect(fd, &nobody, sizeof nobody) != 0)
        err = -errno;
    if (!err)
        err = mare__socket_address(fd, false, &after);
    if (err || *port_of(&after) == *port_of(&before))
        return err;
    *port_of(&after) = *port_of(&before);
    return bind_to(fd, &after);
}

int mare__datagram_connect(int fd, const struct mare__address *peer)
{
    const struct sockaddr *to = peer ? (const struct sockaddr *)&peer->storage : NULL;
    int err = !peer ? disconnect(fd) : connect(fd, to, peer->length) == 0 ? 0 : -errno;
    mare__socket_outcome(fd); // what the peer before has refused is not about this one
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

// ---- Options ------------------------------------------------------------------------------------

// The same thing has a name in each family.
struct name {
    int level, name;
};
static const struct name names[][2] = {
    [MARE__DATAGRAM_BROADCAST] = {{SOL_SOCKET, SO_BROADCAST}, {SOL_SOCKET, SO_BROADCAST}},
    [MARE__DATAGRAM_DONTROUTE] = {{SOL_SOCKET, SO_DONTROUTE}, {SOL_SOCKET, SO_DONTROUTE}},
    [MARE__DATAGRAM_TTL] = {{IPPROTO_IP, IP_TTL}, {IPPROTO_IPV6, IPV6_UNICAST_HOPS}},
    [MARE__DATAGRAM_MULTICAST_TTL] = {{IPPROTO_IP, IP_MULTICAST_TTL},
                                      {IPPROTO_IPV6, IPV6_MULTICAST_HOPS}},
    [MARE__DATAGRAM_MULTICAST_LOOP] = {{IPPROTO_IP, IP_MULTICAST_LOOP},
                                       {IPPROTO_IPV6, IPV6_MULTICAST_LOOP}},
    [MARE__DATAGRAM_RECEIVE_BUFFER] = {{SOL_SOCKET, SO_RCVBUF}, {SOL_SOCKET, SO_RCVBUF}},
    [MARE__DATAGRAM_SEND_BUFFER] = {{SOL_SOCKET, SO_SNDBUF}, {SOL_SOCKET, SO_SNDBUF}},
    [MARE__DATAGRAM_STAMPS] = {{SOL_SOCKET, SO_TIMESTAMPNS}, {SOL_SOCKET, SO_TIMESTAMPNS}},
};

static struct name name_of(int fd, enum mare__datagram_option option)
{
    return names[option][family_of(fd) == AF_INET6];
}

int mare__datagram_set(int fd, enum mare__datagram_option option, int value)
{
    struct name name = name_of(fd, option);
    return set(fd, name.level, name.name, &value, sizeof value);
}

int mare__datagram_get(int fd, enum mare__datagram_option option, int *value)
{
    struct name name = name_of(fd, option);
    socklen_t size = sizeof *value;
    *value = 0;
    return getsockopt(fd, name.level, name.name, value, &size) == 0 ? 0 : -errno;
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
    if (group->storage.ss_family != family_of(fd))
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
    if (family_of(fd) == AF_INET) {
        struct ip_mreqn four = {0};
        int err = describe(interface, &four);
        return err ? err : set(fd, IPPROTO_IP, IP_MULTICAST_IF, &four, sizeof four);
    }
    unsigned index = index_of(interface);
    return index ? set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof index) : -ENODEV;
}
