// SPDX-License-Identifier: MIT
// Datagrams by POSIX sockets. A socket is of one family; addresses of the other cannot be sent to.
#include "platform/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "platform/datagram.h"
#include "platform/option.h"

enum { IP = 16, MAPPED = 12, HOST_MOST = 200 };

static const uint8_t mapped[MAPPED] = {[10] = 0xff, [11] = 0xff};

static bool is_mapped(const uint8_t *address)
{
    return memcmp(address, mapped, MAPPED) == 0;
}

static socklen_t to_socket(const uint8_t *address, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (is_mapped(address)) {
        struct sockaddr_in *four = (struct sockaddr_in *)out;
        four->sin_family = AF_INET;
        memcpy(&four->sin_addr, address + MAPPED, 4);
        memcpy(&four->sin_port, address + IP, 2);
        return sizeof *four;
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    six->sin6_family = AF_INET6;
    memcpy(&six->sin6_addr, address, IP);
    memcpy(&six->sin6_port, address + IP, 2);
    return sizeof *six;
}

static void from_socket(const struct sockaddr_storage *from, uint8_t *address)
{
    memset(address, 0, MARE__UDP_ADDRESS);
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)from;
        memcpy(address, mapped, MAPPED);
        memcpy(address + MAPPED, &four->sin_addr, 4);
        memcpy(address + IP, &four->sin_port, 2);
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
        memcpy(address, &six->sin6_addr, IP);
        memcpy(address + IP, &six->sin6_port, 2);
    }
}

void mare__udp_pack(const struct mare__address *address, uint8_t *packed)
{
    from_socket(&address->storage, packed);
}

void mare__udp_unpack(const uint8_t *packed, struct mare__address *address)
{
    address->length = to_socket(packed, &address->storage);
}

// -1 for what is no port.
static long port_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    long port = digits > 0 && digits <= 5 && !text[digits] ? strtol(text, NULL, 10) : -1;
    return port <= UINT16_MAX ? port : -1;
}

const char *mare__udp_wrong(const char *text, bool target)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || colon - text >= HOST_MOST)
        return "an address is HOST:PORT";
    long port = port_of(colon + 1);
    if (port < 0) // getaddrinfo would take 65536 for 0
        return "a port is a number up to 65535";
    return target && port == 0 ? "nobody is at port 0" : NULL;
}

const char *mare__udp_resolve(const char *text, uint8_t *address)
{
    char host[HOST_MOST];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_family = AF_UNSPEC}, *found;
    const char *wrong = mare__udp_wrong(text, false), *colon = strrchr(text, ':');
    if (wrong)
        return wrong;
    size_t length = (size_t)(colon - text);
    memcpy(host, text, length);
    host[length] = '\0';
    char *name = host;
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        name = host + 1;
    }
    int error = getaddrinfo(name, colon + 1, &hints, &found);
    if (error)
        return gai_strerror(error);
    struct sockaddr_storage storage = {0};
    memcpy(&storage, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    from_socket(&storage, address);
    return NULL;
}

void mare__udp_text(const uint8_t *address, char *text)
{
    char host[INET6_ADDRSTRLEN] = "?";
    uint16_t port;
    memcpy(&port, address + IP, 2);
    bool four = is_mapped(address);
    inet_ntop(four ? AF_INET : AF_INET6, four ? address + MAPPED : address, host, sizeof host);
    snprintf(text, MARE__UDP_TEXT, four ? "%s:%u" : "[%s]:%u", host, (unsigned)ntohs(port));
}

int mare__udp_listen(const uint8_t *address, uint8_t *here)
{
    struct mare__address at;
    at.length = to_socket(address, &at.storage);
    int fd = mare__socket_open(at.storage.ss_family, SOCK_DGRAM);
    if (fd < 0)
        return fd;
    if (at.storage.ss_family == AF_INET6) // at "::" it speaks IPv4 as well
        mare__option_set(fd, mare__option_find("ipv6-v6only"), &(struct mare__option_value){0});
    int err = mare__socket_bind(fd, &at);
    if (err) {
        close(fd);
        return err;
    }
    mare__udp_stamp(fd);
    if (here && mare__socket_address(fd, false, &at) == 0)
        from_socket(&at.storage, here);
    return fd;
}

int mare__udp_towards(const uint8_t *address)
{
    struct sockaddr_storage at;
    to_socket(address, &at);
    int fd = socket(at.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    mare__udp_stamp(fd);
    return fd;
}

void mare__udp_close(int socket)
{
    close(socket);
}

void mare__udp_send(int socket, const uint8_t *address, const void *data, size_t length)
{
    struct mare__address to;
    to.length = to_socket(address, &to.storage);
    mare__datagram_send(socket, &to, data, length);
}

void mare__udp_stamp(int socket)
{
    mare__option_turn_on(socket, "stamps"); // where it fails we do without
}

long mare__udp_receive(int socket, uint8_t *address, void *data, size_t room, int64_t *stamp_ns)
{
    struct mare__address from = {0};
    ssize_t got;
    do // an error that an earlier datagram brought back (nobody listens there) is not about this
        got = mare__datagram_receive(socket, &from, data, room, stamp_ns);
    while (got == -ECONNREFUSED);
    from_socket(&from.storage, address);
    return got < 0 ? -1 : (long)got;
}

bool mare__udp_may_write(int descriptor)
{
    struct pollfd out = {.fd = descriptor, .events = POLLOUT};
    return poll(&out, 1, 0) > 0;
}

void mare__udp_wait(int socket, uint64_t timeout_ns, const volatile sig_atomic_t *stopped)
{
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    struct pollfd poll_for = {.fd = socket, .events = POLLIN};
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                               .tv_nsec = (long)(timeout_ns % 1000000000)};
    // Held back from the look at `stopped` until ppoll sleeps, which lets them in again.
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    if (!*stopped)
        ppoll(&poll_for, 1, &timeout, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
