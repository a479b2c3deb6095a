// SPDX-License-Identifier: MIT
// The floor of the echo rows: the same server in C, on libuv. Prints its port, and serves until its
// standard input ends.
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static char room[65536];

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle, (void)suggested;
    *buffer = uv_buf_init(room, sizeof room); // what is read is written before the next read
}

static void on_written(uv_write_t *request, int status)
{
    (void)status;
    free(request);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    if (got < 0) {
        uv_close((uv_handle_t *)stream, on_closed);
        return;
    }
    uv_buf_t out = uv_buf_init(buffer->base, (unsigned)got);
    if (uv_try_write(stream, &out, 1) == got)
        return;
    char *copy = malloc(sizeof(uv_write_t) + (size_t)got); // a slow reader: never in the benchmark
    for (ssize_t i = 0; i < got; i++)
        copy[sizeof(uv_write_t) + (size_t)i] = buffer->base[i];
    out.base = copy + sizeof(uv_write_t);
    uv_write((uv_write_t *)copy, stream, &out, 1, on_written);
}

static void on_connection(uv_stream_t *listener, int status)
{
    uv_tcp_t *client = malloc(sizeof *client);
    if (status < 0 || !client)
        exit(1);
    uv_tcp_init(listener->loop, client);
    if (uv_accept(listener, (uv_stream_t *)client) == 0) {
        uv_tcp_nodelay(client, 1);
        uv_read_start((uv_stream_t *)client, on_alloc, on_read);
    }
}

static void on_input(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events;
    exit(0);
}

int main(void)
{
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    uv_poll_t input;
    struct sockaddr_in address;
    int size = sizeof address;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(loop, &listener);
    uv_tcp_bind(&listener, (struct sockaddr *)&address, 0);
    if (uv_listen((uv_stream_t *)&listener, 1024, on_connection) != 0)
        return 1;
    uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    uv_poll_init(loop, &input, 0);
    uv_poll_start(&input, UV_READABLE, on_input);
    return uv_run(loop, UV_RUN_DEFAULT);
}
