// SPDX-License-Identifier: MIT
// Multicast by POSIX sockets. Packets stay on the local network: their time to live is one hop.
#include "platform/multicast.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/udp.h"

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
        bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        set(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) &&
        set(fd, IPPROTO_IP, IP_MULTICAST_IF, &member.imr_interface, sizeof(struct in_addr)) &&
        set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on)) {
        mare__udp_stamp(fd);
        return fd;
    }
    int error = errno;
    close(fd);
    return -error;
}
