// SPDX-License-Identifier: MIT
// The load of the rows of handshakes: connections that each shake hands, ask for "/", read the
// answer to its end and begin anew. Usage: tls_load PORT CONNECTIONS SECONDS [resume]. Prints how
// many were answered in a second, and what share of them had resumed a session.
#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor.h"

static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

struct visit {
    SSL *ssl;
    int fd;
    int asked, offered;
    SSL_SESSION *session; // of the one before
};

static SSL_CTX *context;
static struct sockaddr_in address;
static int events, resumes;
static long answered, resumed;

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct visit *visit = SSL_get_app_data(ssl);
    SSL_SESSION_free(visit->session);
    visit->session = session;
    return 1; // which is ours now
}

static void begin(struct visit *visit)
{
    visit->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(visit->fd, (struct sockaddr *)&address, sizeof address) != 0)
        floor_fail("nobody listens");
    fcntl(visit->fd, F_SETFL, O_NONBLOCK);
    visit->ssl = SSL_new(context);
    visit->asked = 0;
    SSL_set_fd(visit->ssl, visit->fd);
    SSL_set_app_data(visit->ssl, visit);
    SSL_set_tlsext_host_name(visit->ssl, "localhost");
    visit->offered = resumes && visit->session;
    if (visit->offered)
        SSL_set_session(visit->ssl, visit->session);
    SSL_set_connect_state(visit->ssl);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = visit};
    epoll_ctl(events, EPOLL_CTL_ADD, visit->fd, &event);
}

// As far as it goes. Whether it is over.
static int advance(struct visit *visit)
{
    char bytes[4096];
    int got = SSL_do_handshake(visit->ssl);
    if (got == 1 && !visit->asked)
        visit->asked = SSL_write(visit->ssl, request, sizeof request - 1) > 0;
    while (got > 0 && visit->asked)
        got = SSL_read(visit->ssl, bytes, sizeof bytes);
    int why = SSL_get_error(visit->ssl, got);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return 0;
    if (why != SSL_ERROR_ZERO_RETURN)
        floor_fail("a connection failed");
    if (resumes && !visit->offered) // the first of each can resume nothing
        return 1;
    answered++;
    resumed += SSL_session_reused(visit->ssl);
    return 1;
}

int main(int argc, char **argv)
{
    long port = floor_count(argc, argv, 1, 0), count = floor_count(argc, argv, 2, 16);
    double seconds = argc > 3 ? atof(argv[3]) : 1;
    resumes = argc > 4;
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    struct visit *visits = calloc((size_t)count, sizeof *visits);
    events = epoll_create1(0);
    for (long i = 0; i < count; i++)
        begin(&visits[i]);
    double began = floor_now_ns(), start = 0;
    while (floor_now_ns() - began < (seconds + 0.5) * 1e9) { // the first half second warms up
        struct epoll_event ready[64];
        int n = epoll_wait(events, ready, 64, 1000);
        if (start == 0 && floor_now_ns() - began >= 0.5e9) {
            start = floor_now_ns();
            answered = resumed = 0;
        }
        for (int i = 0; i < n; i++) {
            struct visit *visit = ready[i].data.ptr;
            if (!advance(visit))
                continue;
            SSL_shutdown(visit->ssl);
            SSL_free(visit->ssl);
            close(visit->fd);
            begin(visit);
        }
    }
    floor_report("per_second", (double)answered / (floor_now_ns() - start) * 1e9);
    floor_report("resumed", answered > 0 ? (double)resumed / (double)answered : 0);
    return 0;
}
