// SPDX-License-Identifier: MIT
// Multicast by POSIX sockets. Packets stay on the local network: their time to live is one hop.
#include "platform/multicast.h"

#include <arpa/inet.h>
#include <string.h>

#include "platform/datagram.h"
#include "platform/option.h"
#include "platform/udp.h"

enum { FOUR = 12, PORT = 16 }; // where an IPv4 address and the port lie in an address of udp.h

bool mare__multicast_is_group(const uint8_t *address)
{
    static const uint8_t mapped[FOUR] = {[10] = 0xff, [11] = 0xff};
    return memcmp(address, mapped, FOUR) == 0 && address[FOUR] >> 4 == 0xe;
}

int mare__multicast_join(const uint8_t *group, const uint8_t *interface)
{
    struct mare__address at = {.length = sizeof(struct sockaddr_in)};
    struct sockaddr_in *four = (struct sockaddr_in *)&at.storage;
    char through[INET_ADDRSTRLEN];
    four->sin_family = AF_INET;
    memcpy(&four->sin_addr, group + FOUR, 4);
    memcpy(&four->sin_port, group + PORT, 2);
    inet_ntop(AF_INET, interface + FOUR, through, sizeof through);
    int fd = mare__socket_open(AF_INET, SOCK_DGRAM);
    if (fd < 0)
        return fd;
    int err = mare__option_turn_on(fd, "reuseaddr");
    if (!err)
        err = mare__socket_bind(fd, &at);
    if (!err)
        err = mare__datagram_join(fd, &at, through);
    if (!err)
        err = mare__datagram_through(fd, through);
    if (!err)
        err = mare__option_turn_on(fd, "multicast_loop");
    mare__udp_stamp(fd);
    if (!err)
        return fd;
    mare__udp_close(fd);
    return err;
}
