// SPDX-License-Identifier: MIT
// Sessions over a pair of sockets, without the scheduler: what "not now" means, which way to watch,
// what is kept until it can be written, and that memory may end anywhere.
#include "platform/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "loop/descriptor.h"
#include "unit.h"

// ---- Both sides ---------------------------------------------------------------------------------

struct both {
    struct mare__tls_context *serving, *asking;
    int fd[2]; // of the transports below, which close them
    struct mare__transport *server, *client;
};

static char *certificate, *key;

static int make_certificate(void **state)
{
    (void)state;
    const char *names[] = {"localhost", "127.0.0.1"};
    struct mare__tls_error error;
    return mare__tls_selfsigned(names, 2, 3600, &certificate, &key, &error) ? 0 : 1;
}

static int drop_certificate(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    mare__free(certificate);
    mare__free(key);
    return 0;
}

static void end(struct both *both)
{
    if (both->server)
        mare__transport_release(both->server);
    if (both->client)
        mare__transport_release(both->client);
    if (both->serving)
        mare__unref(&both->serving->object);
    if (both->asking)
        mare__unref(&both->asking->object);
}

// A session over the descriptor, which is closed if there can be none.
static struct mare__transport *open_session(struct mare__tls_context *context, int fd,
                                            const struct mare__tls_session *session,
                                            struct mare__tls_error *error)
{
    struct mare__transport *below = mare__descriptor_new(NULL, fd), *tls = NULL;
    if (!below) {
        error->code = MARE_NOMEM;
        return NULL;
    }
    if (context)
        tls = mare__tls_new(context, below, session, error);
    if (!tls)
        mare__transport_release(below);
    return tls;
}

// False: `error` tells why. What was made must be ended in any case.
static bool begin(struct both *both, const char *name, struct mare__tls_error *error)
{
    struct mare__tls_options serving = {
        .certificate = certificate, .key = key, .oldest = 2, .newest = 3};
    struct mare__tls_options asking = {
        .authorities = certificate, .verify = MARE__TLS_SERVERS, .oldest = 2, .newest = 3};
    memset(both, 0, sizeof *both);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both->fd), 0);
    both->serving = mare__tls_context_new(&serving, error);
    both->asking = both->serving ? mare__tls_context_new(&asking, error) : NULL;
    const struct mare__tls_session served = {.server = true}, asked = {.name = name};
    both->server = open_session(both->serving, both->fd[0], &served, error);
    both->client = open_session(both->asking, both->fd[1], &asked, error);
    return both->server && both->client;
}

// 0, or what the client's handshake came to.
static int shake_hands(const struct both *both)
{
    for (int i = 0; i < 100; i++) {
        int client = mare__transport_flush(both->client),
            server = mare__transport_flush(both->server);
        if (client != -EAGAIN && server != -EAGAIN)
            return client ? client : server;
    }
    fail_msg("the handshake does not end");
    return -1;
}

static void meet(struct both *both)
{
    struct mare__tls_error error;
    assert_true(begin(both, "localhost", &error));
    assert_int_equal(shake_hands(both), 0);
}

static ssize_t write_text(struct mare__transport *tls, const char *text)
{
    struct iovec piece = {(char *)text, strlen(text)};
    return mare__transport_write(tls, &piece, 1);
}

static bool waits_to_write(const struct mare__transport *tls, int way)
{
    uint64_t deadline = MARE_FOREVER;
    mare__transport_waits(tls, &way, &deadline);
    return way == MARE__TO_WRITE;
}

static bool is_ready(const struct mare__transport *tls)
{
    struct mare__tls_facts facts;
    return tls->ops->facts(tls, &facts) && facts.version;
}

static const struct mare__tls_error *failure_of(const struct mare__transport *tls)
{
    return tls->ops->failure(tls);
}

// ---- Cases --------------------------------------------------------------------------------------

static void tells_which_way_it_waits(void **state)
{
    (void)state;
    struct both both;
    struct mare__tls_error error;
    char bytes[100];
    assert_true(begin(&both, "localhost", &error));
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), -EAGAIN);
    assert_false(waits_to_write(both.server, MARE__TO_READ));
    assert_false(both.server->moved);
    assert_int_equal(write_text(both.client, "x"), -EAGAIN); // it has sent its hello
    assert_false(waits_to_write(both.client, MARE__TO_WRITE));
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), -EAGAIN);
    assert_true(both.server->moved);
    assert_false(is_ready(both.server));
    assert_int_equal(write_text(both.client, "x"), 1);
    assert_true(is_ready(both.client));
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), 1);
    end(&both);
}

static void keeps_what_could_not_be_written(void **state)
{
    (void)state;
    struct both both;
    static char chunk[16384], bytes[65536];
    meet(&both);
    struct iovec piece = {chunk, sizeof chunk};
    size_t taken = 0, got = 0;
    ssize_t n;
    memset(chunk, 'a', sizeof chunk);
    while ((n = mare__transport_write(both.client, &piece, 1)) > 0)
        taken += (size_t)n;
    assert_int_equal(n, -EAGAIN);
    assert_true(waits_to_write(both.client, MARE__TO_WRITE));
    assert_int_equal(mare__transport_flush(both.client), -EAGAIN);
    assert_int_equal(mare__transport_shutdown(both.client), -EAGAIN);
    memset(chunk, 'b', sizeof chunk); // what was taken is not the caller's any more
    for (;;) {
        n = mare__transport_read(both.server, bytes, sizeof bytes);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], 'a');
        if (n > 0)
            got += (size_t)n;
        else if (n == -EAGAIN)
            assert_int_equal(mare__transport_shutdown(both.client), 0);
        else
            break;
    }
    assert_int_equal(n, 0);
    assert_int_equal(got, taken);
    assert_int_equal(write_text(both.client, "more"), -EPIPE);
    assert_int_equal(write_text(both.server, "answer"), 6);
    assert_int_equal(mare__transport_read(both.client, bytes, sizeof bytes), 6);
    end(&both);
}

static void gathers_pieces_into_a_record(void **state)
{
    (void)state;
    struct both both;
    char bytes[100];
    meet(&both);
    struct iovec pieces[] = {{"one", 3}, {"", 0}, {"two", 3}, {"three", 5}};
    assert_int_equal(mare__transport_write(both.client, pieces, 4), 11);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), 11);
    assert_memory_equal(bytes, "onetwothree", 11);
    assert_int_equal(mare__transport_write(both.client, pieces + 1, 1), 0);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), -EAGAIN);
    end(&both);
}

static void takes_what_was_read_before(void **state)
{
    (void)state;
    struct both both;
    struct mare__tls_error error;
    char hello[4096];
    assert_true(begin(&both, "127.0.0.1", &error));
    assert_int_equal(mare__transport_flush(both.client), -EAGAIN);
    ssize_t size = read(both.fd[0], hello, sizeof hello);
    assert_true(size > 100);
    const struct mare__tls_session session = {
        .server = true, .early = hello, .early_size = (size_t)size};
    int fd = dup(both.fd[0]);
    mare__transport_release(both.server);
    both.server = open_session(both.serving, fd, &session, &error);
    assert_non_null(both.server);
    assert_int_equal(shake_hands(&both), 0);
    end(&both);
}

static void says_why_it_refuses(void **state)
{
    (void)state;
    struct both both;
    struct mare__tls_error error;
    char bytes[10];
    assert_true(begin(&both, "elsewhere", &error));
    assert_int_equal(shake_hands(&both), -EPROTO);
    const struct mare__tls_error *failure = failure_of(both.client);
    assert_int_equal(failure->code, MARE_DENIED);
    assert_string_equal(failure->text,
                        "the certificate is for another host: localhost 127.0.0.1, not elsewhere");
    assert_int_equal(mare__transport_read(both.client, bytes, sizeof bytes),
                     -EPROTO); // and stays so
    assert_int_equal(write_text(both.client, "x"), -EPROTO);
    assert_int_equal(failure_of(both.server)->code, MARE_DENIED);
    end(&both);
}

static void tells_an_end_from_a_cut(void **state)
{
    (void)state;
    struct both both;
    char bytes[10];
    meet(&both);
    assert_int_equal(mare__transport_shutdown(both.client), 0);
    shutdown(both.fd[1], SHUT_WR);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), 0);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), 0);
    end(&both);
    meet(&both);
    shutdown(both.fd[1], SHUT_WR);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), -EPROTO);
    assert_int_equal(failure_of(both.server)->code, MARE_IO);
    end(&both);
}

// The peer wants new keys, and for that an answer, while what we write waits for room.
static void new_keys_may_be_wanted_in_the_middle_of_a_write(void **state)
{
    (void)state;
    struct both both;
    struct mare__tls_error error;
    static char chunk[16384], bytes[65536];
    struct iovec piece = {chunk, sizeof chunk};
    size_t taken = 0, got = 0, n = 0;
    ssize_t sent;
    assert_true(begin(&both, "localhost", &error));
    int fd = dup(both.fd[1]);
    mare__transport_release(both.client); // for one that can do more
    both.client = NULL;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *peer = SSL_new(context);
    SSL_set_fd(peer, fd);
    while (SSL_connect(peer) != 1 || mare__transport_flush(both.server) != 0)
        assert_int_not_equal(mare__transport_flush(both.server), -EPROTO);
    while ((sent = mare__transport_write(both.server, &piece, 1)) > 0)
        taken += (size_t)sent;
    assert_int_equal(sent, -EAGAIN);
    assert_int_equal(SSL_key_update(peer, SSL_KEY_UPDATE_REQUESTED), 1);
    assert_int_equal(SSL_do_handshake(peer), 1);
    assert_int_equal(SSL_write_ex(peer, "hello", 5, &n), 1);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), 5);
    assert_int_equal(mare__transport_read(both.server, bytes, sizeof bytes), -EAGAIN);
    while (mare__transport_flush(both.server) == -EAGAIN || got < taken) {
        if (SSL_read_ex(peer, bytes, sizeof bytes, &n))
            got += n;
        mare__transport_read(both.server, bytes, sizeof bytes);
    }
    assert_int_equal(got, taken);
    assert_int_equal(write_text(both.server, "new keys"), 8);
    assert_int_equal(SSL_read_ex(peer, bytes, sizeof bytes, &n), 1);
    assert_int_equal(n, 8);
    SSL_free(peer);
    SSL_CTX_free(context);
    close(fd);
    end(&both);
}

// Nobody reads any more: an error, and no signal.
static void a_peer_that_has_gone_is_no_signal(void **state)
{
    (void)state;
    struct both both;
    meet(&both);
    mare__transport_release(both.server);
    both.server = NULL;
    assert_int_equal(write_text(both.client, "x"), -EPIPE);
    mare__transport_close(both.client, false);
    end(&both);
}

// ---- Without memory -----------------------------------------------------------------------------

// A life with the n-th allocation failing, and all after it: it ends well, or says what it lacks.
static bool live(long n)
{
    struct both both;
    struct mare__tls_error error = {MARE_OK, ""};
    static char chunk[16384];
    struct iovec piece = {chunk, sizeof chunk};
    mare__alloc_fail_after(n);
    bool good = begin(&both, "localhost", &error);
    if (!good)
        assert_int_equal(error.code, MARE_NOMEM);
    ssize_t err = good ? shake_hands(&both) : 0;
    while (good && err >= 0)
        err = mare__transport_write(both.client, &piece, 1);
    if (good && err != -EAGAIN) // it was full, and what was taken could not be kept
        assert_true(err == -ENOMEM || err == -EPROTO);
    good = good && err == -EAGAIN;
    mare__alloc_fail_after(0);
    end(&both);
    return good;
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    long n = 1;
    while (!live(n))
        n++;
    assert_true(n > 8);
}

// A refusal that could not be noted is a refusal all the same.
static void a_refusal_needs_no_memory(void **state)
{
    (void)state;
    struct both both;
    struct mare__tls_error error;
    assert_true(begin(&both, "elsewhere", &error));
    mare__alloc_fail_after(1);
    assert_int_equal(shake_hands(&both), -EPROTO);
    assert_int_equal(failure_of(both.client)->code, MARE_NOMEM);
    mare__alloc_fail_after(0);
    end(&both);
}

UNIT_TESTS_WITH(make_certificate, drop_certificate, cmocka_unit_test(tells_which_way_it_waits),
                cmocka_unit_test(keeps_what_could_not_be_written),
                cmocka_unit_test(gathers_pieces_into_a_record),
                cmocka_unit_test(takes_what_was_read_before), cmocka_unit_test(says_why_it_refuses),
                cmocka_unit_test(tells_an_end_from_a_cut),
                cmocka_unit_test(new_keys_may_be_wanted_in_the_middle_of_a_write),
                cmocka_unit_test(a_peer_that_has_gone_is_no_signal),
                cmocka_unit_test(memory_may_end_anywhere),
                cmocka_unit_test(a_refusal_needs_no_memory))
