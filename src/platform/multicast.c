// SPDX-License-Identifier: MIT
// Multicast by POSIX sockets. Packets stay on the local network: their time to live is one hop.
#include "platform/multicast.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FOUR = 12, PORT = 16 }; // where an IPv4 address and the port lie in an address of udp.h

static bool set(int fd, int level, int option, const void *value, socklen_t size)
{
    return setsockopt(fd, level, option, value, size) == 0;
}

bool mare__multicast_is_group(const uint8_t *address)
{
    static const uint8_t mapped[FOUR] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address, mapped, FOUR) == 0 && address[FOUR] >> 4 == 0xe;
}

int mare__multicast_join(const uint8_t *group, const uint8_t *interface)
{
    struct ip_mreq member;
    struct sockaddr_in at = {.sin_family = AF_INET};
    int on = 1;
    memcpy(&member.imr_multiaddr, group + FOUR, 4);
    memcpy(&member.imr_interface, interface + FOUR, 4);
    at.sin_addr = member.imr_multiaddr;
    memcpy(&at.sin_port, group + PORT, 2);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (set(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) &&
        set(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) &&
        bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) &&
        set(fd, IPPROTO_IP, IP_MULTICAST_IF, &member.imr_interface, sizeof(struct in_addr)) &&
        set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on))
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

long mare__multicast_receive(int socket, void *data, size_t room, int64_t *utc_ns)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec into = {.iov_base = data, .iov_len = room};
    struct msghdr message = {.msg_iov = &into,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    long length = recvmsg(socket, &message, 0);
    *utc_ns = 0;
    if (length < 0)
        return -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        struct timespec stamp;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
        *utc_ns = (int64_t)stamp.tv_sec * 1000000000 + stamp.tv_nsec;
    }
    return length;
}
