// SPDX-License-Identifier: MIT
// The load of the echo rows: connections that each send a message, wait for it to come back, and
// send the next. Usage: echo_load PORT CONNECTIONS BYTES SECONDS [websocket]. Prints how many came
// back in a second, and how long the slowest hundredth of them took at least. With no seconds the
// connections are only made, and kept until standard input ends. Over WebSocket a message is a
// frame of so many bytes.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// How long messages took: counted in steps of 10 µs, up to 10 s.
enum { STEPS = 1000000 };
static unsigned long took[STEPS + 1];

static void note(double seconds)
{
    double step = seconds * 1e5;
    took[step < STEPS ? (unsigned long)step : STEPS]++;
}

static double quantile_ms(double q, unsigned long count)
{
    unsigned long seen = 0, step = count > 0 ? 0 : STEPS; // none came back
    while (step < STEPS && (double)(seen += took[step]) < q * (double)count)
        step++;
    return (double)(step + 1) / 100;
}

// Becomes a WebSocket (RFC 6455 section 4.1). The answer is not looked at: frames would not come.
static int upgrade(int fd)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
                                  "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    char answer[4096] = "";
    size_t size = 0;
    if (write(fd, request, sizeof request - 1) != sizeof request - 1)
        return 0;
    while (!strstr(answer, "\r\n\r\n")) {
        ssize_t n = read(fd, answer + size, sizeof answer - 1 - size);
        if (n <= 0)
            return 0;
        size += (size_t)n;
    }
    return 1;
}

// A binary message of so many bytes, as a client sends it: its size, and that of what comes back,
// which has no mask (RFC 6455 section 5.2).
static int frame(char *bytes, int size, int *back)
{
    int head = size < 126 ? 2 : 4;
    bytes[0] = (char)0x82;
    bytes[1] = (char)(0x80 | (size < 126 ? size : 126));
    if (size >= 126) {
        bytes[2] = (char)(size >> 8);
        bytes[3] = (char)size;
    }
    memcpy(bytes + head, "mask", 4);
    for (int i = 0; i < size; i++)
        bytes[head + 4 + i] = (char)('x' ^ "mask"[i % 4]);
    *back = head + size;
    return head + 4 + size;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    int connections = atoi(argv[2]), size = atoi(argv[3]), on = 1, expected = size;
    double seconds = atof(argv[4]), start = 0, end = 0;
    char message[65536], back[65536];
    int *got = calloc(65536, sizeof *got);
    double *sent = calloc(65536, sizeof *sent);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[1]))};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    memset(message, 'x', sizeof message);
    if (argc > 5)
        size = frame(message, size, &expected);
    int poll = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
            return 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (argc > 5 && !upgrade(fd))
            return 1;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
        sent[fd] = now();
        if (seconds > 0 && write(fd, message, (size_t)size) != size)
            return 1;
    }
    if (seconds == 0) {
        printf("connections %d\n", connections);
        fflush(stdout);
        while (getchar() != EOF)
            ;
        return 0;
    }
    unsigned long count = 0, before = 0;
    double began = now();
    while (now() - began < seconds + 0.5) { // the first half second warms up
        struct epoll_event events[256];
        int ready = epoll_wait(poll, events, 256, 1000);
        if (start == 0 && now() - began >= 0.5) {
            start = now();
            before = count;
        }
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            ssize_t n = read(fd, back, sizeof back);
            if (n <= 0)
                return 1;
            got[fd] += (int)n;
            if (got[fd] < expected)
                continue;
            got[fd] = 0;
            count++;
            double came = now();
            if (start > 0)
                note(came - sent[fd]);
            sent[fd] = came;
            if (write(fd, message, (size_t)size) != size)
                return 1;
        }
    }
    end = now();
    printf("per_second %.0f\n", (double)(count - before) / (end - start));
    printf("p50_ms %.2f\np99_ms %.2f\n", quantile_ms(0.5, count - before),
           quantile_ms(0.99, count - before));
    free(sent);
    free(got);
    return 0;
}
