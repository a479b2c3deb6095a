// SPDX-License-Identifier: MIT
// The floor of the row of etcd: two requests, as a file has them, a line each, sent by turns on one
// connection, and nothing looked at in the answers but that they are there and good.
// Usage: etcd PORT FILE ROUNDS
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor.h"

enum { ROOM = 65536 };

static int connect_to(long port)
{
    int on = 1, socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in where = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(socket_fd, (struct sockaddr *)&where, sizeof where) != 0)
        floor_fail("cannot connect");
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return socket_fd;
}

// A line of the file as a request.
static size_t read_request(FILE *file, long port, char request[ROOM])
{
    char body[ROOM / 2];
    if (!fgets(body, sizeof body, file))
        floor_fail("no request in the file");
    body[strcspn(body, "\n")] = 0;
    return (size_t)snprintf(request, ROOM,
                            "POST /v3/kv/txn HTTP/1.1\r\nHost: 127.0.0.1:%ld\r\n"
                            "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                            port, strlen(body), body);
}

// Sends a request and reads the whole answer.
static void ask(int socket_fd, const char *request, size_t size)
{
    static char answer[ROOM];
    size_t have = 0;
    if (write(socket_fd, request, size) != (ssize_t)size)
        floor_fail("cannot write");
    for (;;) {
        ssize_t got = read(socket_fd, answer + have, sizeof answer - 1 - have);
        if (got <= 0)
            floor_fail("the connection has ended");
        have += (size_t)got;
        answer[have] = 0;
        const char *end = strstr(answer, "\r\n\r\n"), *length = strstr(answer, "Content-Length: ");
        if (end && length && answer + have - (end + 4) >= strtol(length + 16, NULL, 10))
            break;
    }
    if (strncmp(answer, "HTTP/1.1 200", 12) != 0 || !strstr(answer, "\"succeeded\":true"))
        floor_fail("an answer that is not good");
}

int main(int argc, char **argv)
{
    static char requests[2][ROOM];
    size_t sizes[2];
    long port = floor_count(argc, argv, 1, 2379), rounds = floor_count(argc, argv, 3, 1000);
    FILE *file = argc > 2 ? fopen(argv[2], "r") : NULL;
    if (!file)
        floor_fail("no file of requests");
    for (int i = 0; i < 2; i++)
        sizes[i] = read_request(file, port, requests[i]);
    fclose(file);
    int socket_fd = connect_to(port);
    double begin = 0;
    for (long i = -rounds / 10; i < rounds; i++) {
        if (i == 0)
            begin = floor_now_ns();
        ask(socket_fd, requests[0], sizes[0]);
        ask(socket_fd, requests[1], sizes[1]);
    }
    floor_report("us", (floor_now_ns() - begin) / 1e3 / (double)rounds);
    close(socket_fd);
    return 0;
}
