// SPDX-License-Identifier: MIT
// Sockets made step by step: what the system answers to steps in any order, options, services.
#include "platform/option.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/datagram.h"
#include "platform/resolve.h"
#include "unit.h"

static struct mare__address loopback(int port)
{
    struct mare__address address;
    assert_true(mare__address_numeric(&address, "127.0.0.1", (uint16_t)port));
    return address;
}

// A socket that listens; its address is told.
static int listener(struct mare__address *address)
{
    *address = loopback(0);
    int fd = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_true(fd >= 0);
    assert_int_equal(mare__socket_bind(fd, address), 0);
    assert_int_equal(mare__socket_listen(fd, 8), 0);
    assert_int_equal(mare__socket_address(fd, false, address), 0);
    return fd;
}

static bool ready(int fd, enum mare__look_for what)
{
    char scratch[64];
    struct mare__look look = {.fd = fd, .what = what};
    assert_true(mare__socket_look_scratch <= sizeof scratch);
    mare__socket_look(&look, 1, scratch);
    return look.ready;
}

// What this side did has reached the other: on the loopback, at once or soon.
static void await(int fd, enum mare__look_for what)
{
    while (!ready(fd, what))
        ;
}

static ssize_t put(int fd, const char *text)
{
    struct iovec piece = {(char *)text, strlen(text)};
    return mare__socket_write(fd, &piece, 1, false);
}

static void steps_of_a_connection(void **state)
{
    (void)state;
    struct mare__address address;
    char bytes[8];
    int server = listener(&address);
    assert_int_equal(mare__socket_accept(server), -EAGAIN);
    assert_false(ready(server, MARE__LOOK_READ));
    int client = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(mare__socket_connect(client, &address), -EINPROGRESS);
    await(client, MARE__LOOK_WRITE);
    await(server, MARE__LOOK_READ);
    assert_int_equal(mare__socket_outcome(client), 0);
    int peer = mare__socket_accept(server);
    assert_true(peer >= 0);
    assert_true(fcntl(peer, F_GETFL) & O_NONBLOCK);
    assert_int_equal(put(client, "hello"), 5);
    await(peer, MARE__LOOK_READ);
    assert_int_equal(mare__socket_read(peer, bytes, sizeof bytes), 5);
    assert_int_equal(mare__socket_read(peer, bytes, sizeof bytes), -EAGAIN);
    mare__socket_shutdown(client, MARE__HALF_SEND);
    await(peer, MARE__LOOK_LEAVE);
    assert_int_equal(mare__socket_read(peer, bytes, sizeof bytes), 0);
    assert_int_equal(put(client, "x"), -EPIPE); // and no signal
    close(peer), close(client), close(server);
}

static void steps_in_the_wrong_order(void **state)
{
    (void)state;
    struct mare__address address;
    int server = listener(&address), fd = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(mare__socket_bind(fd, &address), -EADDRINUSE);
    assert_int_equal(mare__socket_accept(fd), -EINVAL);
    assert_int_equal(mare__socket_bind(server, &address), -EINVAL);
    assert_int_equal(mare__socket_listen(-1, 1), -EBADF);
    assert_int_equal(mare__socket_adopt(-1), -EBADF);
    close(fd), close(server);
}

static void a_descriptor_of_others_never_blocks(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(mare__socket_adopt(ends[0]), 0);
    assert_true(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
    close(ends[0]), close(ends[1]);
}

static void datagrams_lose_their_peer(void **state)
{
    (void)state;
    struct mare__address address = loopback(0), from;
    int64_t stamp;
    char bytes[8];
    int a = mare__socket_open(AF_INET, SOCK_DGRAM), b = mare__socket_open(AF_INET, SOCK_DGRAM);
    assert_int_equal(mare__socket_bind(a, &address), 0);
    assert_int_equal(mare__socket_address(a, false, &address), 0);
    assert_int_equal(mare__datagram_send(b, NULL, "x", 1), -EDESTADDRREQ);
    assert_int_equal(mare__datagram_send(b, &address, "to", 2), 2);
    assert_int_equal(mare__datagram_connect(b, &address), 0);
    assert_int_equal(mare__datagram_send(b, NULL, "peer", 4), 4);
    assert_int_equal(mare__datagram_connect(b, NULL), 0);
    assert_int_equal(mare__datagram_send(b, NULL, "x", 1), -EDESTADDRREQ);
    assert_int_equal(mare__datagram_receive(a, &from, bytes, sizeof bytes, &stamp), 2);
    assert_int_equal(from.storage.ss_family, AF_INET);
    assert_int_equal(mare__datagram_receive(a, &from, bytes, sizeof bytes, &stamp), 4);
    close(a), close(b);
}

static void options_are_set_and_told(void **state)
{
    (void)state;
    struct mare__option_value value = {.number = 1};
    int fd = mare__socket_open(AF_INET, SOCK_STREAM);
    const struct mare__option *option = mare__option_find("keepalive");
    assert_non_null(option);
    assert_int_equal(mare__option_set(fd, option, &value), 0);
    value.number = 0;
    assert_int_equal(mare__option_get(fd, option, &value), 0);
    assert_true(value.number != 0);
    value = (struct mare__option_value){.number = 1, .seconds = 7};
    option = mare__option_find("linger");
    assert_int_equal(mare__option_set(fd, option, &value), 0);
    assert_int_equal(mare__option_get(fd, option, &value), 0);
    assert_int_equal(value.seconds, 7);
    assert_true(mare__option_set(-1, option, &value) == -EBADF);
    assert_true(mare__option_get(-1, option, &value) == -EBADF);
    assert_null(mare__option_find("no such option"));
    close(fd);
}

// The same word for both families, and what an accepted connection has from its listener.
static void options_have_one_name(void **state)
{
    (void)state;
    static const int families[] = {AF_INET, AF_INET6};
    for (int i = 0; i < 2; i++) {
        struct mare__option_value value = {.number = 7};
        const struct mare__option *ttl = mare__option_find("ttl");
        int fd = mare__socket_open(families[i], SOCK_DGRAM);
        if (fd < 0)
            continue; // a machine without that family
        assert_int_equal(mare__socket_family(fd), families[i]);
        assert_int_equal(mare__option_set(fd, ttl, &value), 0);
        value.number = 0;
        assert_int_equal(mare__option_get(fd, ttl, &value), 0);
        assert_int_equal(value.number, 7);
        close(fd);
    }
    struct mare__address address;
    struct mare__option_value value;
    int server = listener(&address), client = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(mare__option_turn_on(server, "nodelay"), 0);
    assert_int_equal(mare__socket_connect(client, &address), -EINPROGRESS);
    await(server, MARE__LOOK_READ);
    int peer = mare__socket_accept(server);
    assert_int_equal(mare__option_get(peer, mare__option_find("nodelay"), &value), 0);
    assert_true(value.number != 0);
    assert_int_equal(mare__option_get(client, mare__option_find("nodelay"), &value), 0);
    assert_int_equal(value.number, 0);
    close(peer), close(client), close(server);
}

static void a_connection_says_what_became_of_it(void **state)
{
    (void)state;
    struct mare__address address;
    int server = listener(&address), client = mare__socket_open(AF_INET, SOCK_STREAM);
    assert_int_equal(mare__socket_connect(client, &address), -EINPROGRESS);
    int err;
    while ((err = mare__socket_outcome(client)) == -EINPROGRESS)
        ;
    assert_int_equal(err, 0);
    close(client), close(server);
    client = mare__socket_open(AF_INET, SOCK_STREAM); // to nobody
    assert_int_equal(mare__socket_connect(client, &address), -EINPROGRESS);
    while ((err = mare__socket_outcome(client)) == -EINPROGRESS)
        ;
    assert_int_equal(err, -ECONNREFUSED);
    close(client);
}

static void services_by_number_and_name(void **state)
{
    (void)state;
    char name[MARE__HOST_MAX];
    assert_int_equal(mare__names_live.service_number(NULL, "0", false), 0);
    assert_int_equal(mare__names_live.service_number(NULL, "65535", false), 65535);
    assert_int_equal(mare__names_live.service_number(NULL, "65536", false), -1);
    assert_int_equal(mare__names_live.service_number(NULL, "-1", false), -1);
    assert_int_equal(mare__names_live.service_number(NULL, "", false), -1);
    assert_int_equal(mare__names_live.service_number(NULL, "80x", false), -1);
    mare__names_live.service_name(NULL, 1, name);
    assert_true(strcmp(name, "tcpmux") == 0 || strcmp(name, "1") == 0); // without /etc/services
    assert_int_equal(mare__host_name(name), 0);
    assert_true(strlen(name) > 0);
}

// On the loopback the first part of a file makes the peer's system answer that nobody is there, and
// the next part a signal, though the call has sent something: that must not end the program.
static void a_file_is_sent_quietly_to_one_who_has_gone(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    struct mare__address address;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), SIZE), 0);
    int server = listener(&address), client = mare__socket_open(AF_INET, SOCK_STREAM);
    mare__socket_connect(client, &address);
    await(server, MARE__LOOK_READ);
    mare__socket_close(mare__socket_accept(server));
    await(client, MARE__LOOK_LEAVE);
    ssize_t sent;
    do
        sent = mare__socket_send_file(client, fileno(file), SIZE);
    while (sent > 0 || sent == -EAGAIN);
    assert_true(sent == -EPIPE || sent == -ECONNRESET);
    fclose(file);
    mare__socket_close(client);
    mare__socket_close(server);
}

static int send_buffer(int fd)
{
    struct mare__option_value value = {0};
    assert_int_equal(mare__option_get(fd, mare__option_find("send_buffer"), &value), 0);
    return value.number;
}

// Two that are joined, both on this machine.
static void join(const char *host, int fds[2])
{
    struct mare__address address;
    assert_true(mare__address_numeric(&address, host, 0));
    int family = strchr(host, ':') ? AF_INET6 : AF_INET;
    int listens = mare__socket_open(family, SOCK_STREAM);
    assert_true(listens >= 0);
    if (mare__socket_bind(listens, &address) != 0)
        skip(); // there is no IPv6
    assert_int_equal(mare__socket_listen(listens, 8), 0);
    assert_int_equal(mare__socket_address(listens, false, &address), 0);
    fds[0] = mare__socket_open(family, SOCK_STREAM);
    mare__socket_connect(fds[0], &address);
    await(listens, MARE__LOOK_READ);
    fds[1] = mare__socket_accept(listens);
    assert_true(fds[1] >= 0);
    mare__socket_close(listens);
}

enum { LITTLE = 512 << 10 };

static void little_is_kept_on_the_way_to_this_machine(void **state)
{
    (void)state;
    int fds[2], pipes[2];
    const char *const hosts[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        join(hosts[i], fds);
        if (send_buffer(fds[1]) <= LITTLE)
            skip(); // there is nothing to see
        mare__socket_keep_little(fds[1]);
        assert_true(send_buffer(fds[1]) <= LITTLE);
        // Who has said how much is to be kept is obeyed: as it was, twice what was asked for.
        struct mare__option_value much = {.number = 1 << 20};
        assert_int_equal(mare__option_set(fds[0], mare__option_find("send_buffer"), &much), 0);
        int asked = send_buffer(fds[0]);
        mare__socket_keep_little(fds[0]);
        assert_int_equal(send_buffer(fds[0]), asked);
        mare__socket_close(fds[0]);
        mare__socket_close(fds[1]);
    }
    assert_int_equal(pipe(pipes), 0); // which has no such thing, and a closed one neither
    mare__socket_keep_little(pipes[1]);
    close(pipes[0]);
    close(pipes[1]);
    mare__socket_keep_little(-1);
}

UNIT_TESTS(cmocka_unit_test(steps_of_a_connection), cmocka_unit_test(steps_in_the_wrong_order),
           cmocka_unit_test(a_descriptor_of_others_never_blocks),
           cmocka_unit_test(datagrams_lose_their_peer), cmocka_unit_test(options_are_set_and_told),
           cmocka_unit_test(options_have_one_name),
           cmocka_unit_test(a_connection_says_what_became_of_it),
           cmocka_unit_test(services_by_number_and_name),
           cmocka_unit_test(a_file_is_sent_quietly_to_one_who_has_gone),
           cmocka_unit_test(little_is_kept_on_the_way_to_this_machine))
