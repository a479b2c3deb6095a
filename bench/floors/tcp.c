// SPDX-License-Identifier: MIT
// What two programs can do over loopback TCP by hand: 16 bytes to and fro, each side waiting in
// epoll, as whoever has other connections too must; or 1 MiB after the other, and one byte back.
//
//   floor_tcp call N    us: a round trip
//   floor_tcp big N     per_second: messages
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "floor.h"

enum { SMALL = 16, BIG = 1 << 20 };

static void must(int ok, const char *what)
{
    if (!ok)
        floor_fail(what);
}

static void send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        must(sent > 0, "send");
        bytes += sent;
        size -= (size_t)sent;
    }
}

static void receive_all(int fd, char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, bytes, size, 0);
        must(got > 0, "recv");
        bytes += got;
        size -= (size_t)got;
    }
}

// Waits and answers, or is answered, so many times.
static void talk(int fd, long rounds)
{
    char bytes[SMALL];
    struct epoll_event event = {.events = EPOLLIN};
    int watch = epoll_create1(EPOLL_CLOEXEC);
    must(watch >= 0 && epoll_ctl(watch, EPOLL_CTL_ADD, fd, &event) == 0, "epoll");
    for (; rounds > 0; rounds--) {
        must(epoll_wait(watch, &event, 1, -1) == 1, "epoll_wait");
        receive_all(fd, bytes, sizeof bytes);
        send_all(fd, bytes, sizeof bytes);
    }
    close(watch);
}

static void take(int fd, long count, char *bytes)
{
    for (; count > 0; count--)
        receive_all(fd, bytes, BIG);
    send_all(fd, bytes, 1);
}

static void give(int fd, long count, char *bytes)
{
    for (; count > 0; count--)
        send_all(fd, bytes, BIG);
    receive_all(fd, bytes, 1);
}

static int joined(int fd)
{
    int yes = 1;
    must(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0, "socket");
    return fd;
}

static int join(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(fd, (const struct sockaddr *)address, sizeof *address) == 0, "connect");
    return joined(fd);
}

int main(int argc, char **argv)
{
    int big = argc > 1 && strcmp(argv[1], "big") == 0;
    long count = floor_count(argc, argv, 2, big ? 1000 : 100000), warm = count / 10 + 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    char *bytes = calloc(1, BIG);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    must(bytes && bind(listener, (struct sockaddr *)&address, size) == 0 &&
             listen(listener, 1) == 0 &&
             getsockname(listener, (struct sockaddr *)&address, &size) == 0,
         "listen");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        int fd = join(&address);
        if (big)
            take(fd, warm, bytes), take(fd, count, bytes);
        else
            talk(fd, warm + count);
        _exit(0);
    }
    int fd = joined(accept(listener, NULL, NULL));
    if (big) {
        give(fd, warm, bytes);
    } else {
        send_all(fd, bytes, SMALL);
        talk(fd, warm);
    }
    double begin = floor_now_ns();
    if (big)
        give(fd, count, bytes);
    else
        talk(fd, count - 1), receive_all(fd, bytes, SMALL);
    double ns = floor_now_ns() - begin;
    waitpid(child, NULL, 0);
    free(bytes);
    floor_report("us", ns / 1e3 / (double)count);
    floor_report("per_second", (double)count * 1e9 / ns);
    return 0;
}
