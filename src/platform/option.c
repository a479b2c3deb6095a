// SPDX-License-Identifier: MIT
// Options by setsockopt and getsockopt.
#include "platform/option.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "platform/datagram.h"

static const struct mare__option options[] = {
    {"keepalive", MARE__OPTION_FLAG, SOL_SOCKET, SO_KEEPALIVE, 0},
    {"keepalive_idle", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_KEEPIDLE, 0},
    {"keepalive_interval", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_KEEPINTVL, 0},
    {"keepalive_count", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_KEEPCNT, 0},
    {"nodelay", MARE__OPTION_FLAG, IPPROTO_TCP, TCP_NODELAY, 0},
    {"receive_buffer", MARE__OPTION_BYTES, SOL_SOCKET, SO_RCVBUF, 0},
    {"send_buffer", MARE__OPTION_BYTES, SOL_SOCKET, SO_SNDBUF, 0},
    {"broadcast", MARE__OPTION_FLAG, SOL_SOCKET, SO_BROADCAST, 0},
    {"dontroute", MARE__OPTION_FLAG, SOL_SOCKET, SO_DONTROUTE, 0},
    {"stamps", MARE__OPTION_FLAG, SOL_SOCKET, SO_TIMESTAMPNS, 0},
    {"ttl", MARE__OPTION_HOPS, IPPROTO_IP, IP_TTL, IPV6_UNICAST_HOPS},
    {"multicast_ttl", MARE__OPTION_HOPS, IPPROTO_IP, IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS},
    {"multicast_loop", MARE__OPTION_FLAG, IPPROTO_IP, IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP},
    {"interface", MARE__OPTION_INTERFACE, IPPROTO_IP, IP_MULTICAST_IF, IPV6_MULTICAST_IF},
    {"reuseaddr", MARE__OPTION_FLAG, SOL_SOCKET, SO_REUSEADDR, 0},
    {"reuseport", MARE__OPTION_FLAG, SOL_SOCKET, SO_REUSEPORT, 0},
    {"linger", MARE__OPTION_LINGER, SOL_SOCKET, SO_LINGER, 0},
    {"error", MARE__OPTION_ERROR, SOL_SOCKET, SO_ERROR, 0},
    // What LuaSocket calls otherwise, or Maré has no word for.
    {"recv-buffer-size", MARE__OPTION_BYTES, SOL_SOCKET, SO_RCVBUF, 0},
    {"send-buffer-size", MARE__OPTION_BYTES, SOL_SOCKET, SO_SNDBUF, 0},
    {"tcp-nodelay", MARE__OPTION_FLAG, IPPROTO_TCP, TCP_NODELAY, 0},
    {"tcp-keepidle", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_KEEPIDLE, 0},
    {"tcp-keepcnt", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_KEEPCNT, 0},
    {"tcp-keepintvl", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_KEEPINTVL, 0},
    {"tcp-defer-accept", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0},
    {"tcp-fastopen", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_FASTOPEN, 0},
    {"tcp-fastopen-connect", MARE__OPTION_NUMBER, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0},
    {"ip-multicast-if", MARE__OPTION_INTERFACE, IPPROTO_IP, IP_MULTICAST_IF, 0},
    {"ip-multicast-ttl", MARE__OPTION_NUMBER, IPPROTO_IP, IP_MULTICAST_TTL, 0},
    {"ip-multicast-loop", MARE__OPTION_FLAG, IPPROTO_IP, IP_MULTICAST_LOOP, 0},
    {"ipv6-v6only", MARE__OPTION_FLAG, IPPROTO_IPV6, IPV6_V6ONLY, 0},
    {"ipv6-unicast-hops", MARE__OPTION_NUMBER, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 0},
    {"ipv6-multicast-hops", MARE__OPTION_NUMBER, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 0},
    {"ipv6-multicast-loop", MARE__OPTION_FLAG, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0},
};

const struct mare__option *mare__option_find(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

struct system_name {
    int level, number;
};

static struct system_name name_of(int fd, const struct mare__option *option)
{
    if (option->of_six && mare__socket_family(fd) == AF_INET6)
        return (struct system_name){IPPROTO_IPV6, option->of_six};
    return (struct system_name){option->level, option->number};
}

int mare__option_set(int fd, const struct mare__option *option,
                     const struct mare__option_value *value)
{
    struct system_name name = name_of(fd, option);
    struct linger linger = {.l_onoff = value->number, .l_linger = value->seconds};
    bool lingers = option->kind == MARE__OPTION_LINGER;
    if (option->kind == MARE__OPTION_INTERFACE)
        return mare__datagram_through(fd, value->interface);
    int err = setsockopt(fd, name.level, name.number,
                         lingers ? (const void *)&linger : (const void *)&value->number,
                         lingers ? sizeof linger : sizeof value->number);
    return err ? -errno : 0;
}

int mare__option_get(int fd, const struct mare__option *option, struct mare__option_value *value)
{
    struct system_name name = name_of(fd, option);
    union {
        int number;
        struct linger linger;
        struct in_addr four;
    } room = {0};
    socklen_t size = option->kind == MARE__OPTION_LINGER ? sizeof room.linger : sizeof room.number;
    memset(value, 0, sizeof *value);
    if (getsockopt(fd, name.level, name.number, &room, &size) != 0)
        return -errno;
    value->number = room.number;
    if (option->kind == MARE__OPTION_LINGER) {
        value->number = room.linger.l_onoff;
        value->seconds = room.linger.l_linger;
    } else if (option->kind == MARE__OPTION_INTERFACE && name.level == IPPROTO_IP) {
        inet_ntop(AF_INET, &room.four, value->interface, sizeof value->interface);
    } else if (option->kind == MARE__OPTION_INTERFACE && room.number) {
        if_indextoname((unsigned)room.number, value->interface);
    }
    return 0;
}

int mare__option_turn_on(int fd, const char *name)
{
    const struct mare__option *option = mare__option_find(name);
    const struct mare__option_value on = {.number = 1};
    assert(option);
    return mare__option_set(fd, option, &on);
}
