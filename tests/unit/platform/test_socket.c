// SPDX-License-Identifier: MIT
// Sockets made step by step: what the system answers to steps in any order, options, services.
#include "platform/option.h"

#include <errno.h>
#include <fcntl.h>
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
    return mare__socket_write(fd, &piece, 1);
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

UNIT_TESTS(cmocka_unit_test(steps_of_a_connection), cmocka_unit_test(steps_in_the_wrong_order),
           cmocka_unit_test(a_descriptor_of_others_never_blocks),
           cmocka_unit_test(datagrams_lose_their_peer), cmocka_unit_test(options_are_set_and_told),
           cmocka_unit_test(options_have_one_name),
           cmocka_unit_test(a_connection_says_what_became_of_it),
           cmocka_unit_test(services_by_number_and_name))
