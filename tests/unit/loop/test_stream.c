// SPDX-License-Identifier: MIT
// Streams over pairs in memory: the buffer, several waits at once and whom they wake, the way from
// plain bytes to TLS, and the end. As links between nodes will use them: in C, without Lua.
#include "loop/stream.h"

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "loop/pair.h"
#include "runtime.h"
#include "tls_pair.h"

static mare_runtime *runtime;
static struct mare__tls_context *serving, *asking;

static void open_pair(size_t room, struct mare__stream *ends[2])
{
    struct mare__transport *one = mare__pair_new(runtime, room);
    assert_non_null(one);
    struct mare__transport *other = mare__pair_other(one);
    ends[0] = mare__stream_over(runtime, one, MARE__KIND_STREAM);
    ends[1] = mare__stream_over(runtime, other, MARE__KIND_STREAM);
    assert_true(ends[0] && ends[1]);
}

static void drop(struct mare__stream *ends[2])
{
    mare__unref(&ends[0]->object);
    mare__unref(&ends[1]->object);
}

static ssize_t put(struct mare__stream *stream, const char *text)
{
    struct iovec piece = {(char *)text, strlen(text)};
    return mare__stream_write(stream, &piece, 1);
}

// Reads what there is, which must be this.
static void expect(struct mare__stream *stream, const char *text)
{
    static char bytes[MARE__STREAM_ROOM];
    ssize_t got = mare__stream_read(stream, bytes);
    assert_int_equal(got, strlen(text));
    assert_memory_equal(bytes, text, strlen(text));
}

// Whether there is a message, now.
static bool told(mare_channel *ready)
{
    mare_message *message = NULL;
    mare_err err = mare_chan_receive_until(ready, &message, 0);
    mare_message_destroy(message);
    return err == MARE_OK;
}

static mare_channel *begin_wait(struct mare__stream *stream, int way)
{
    uint64_t deadline = MARE_FOREVER;
    mare_channel *ready = mare__stream_begin_wait(stream, way, &deadline);
    assert_non_null(ready);
    return ready;
}

// ---- Cases --------------------------------------------------------------------------------------

static void what_is_not_asked_for_yet_is_kept(void **state)
{
    (void)state;
    static char bytes[MARE__STREAM_ROOM];
    struct mare__stream *ends[2];
    open_pair(65536, ends);
    put(ends[0], "one,");
    expect(ends[1], "one,");
    assert_true(mare__stream_keep(ends[1], "one,", 4));
    for (int i = 0; i < 5000; i++) { // the buffer grows, and what comes later stands behind
        put(ends[0], "two,");
        assert_int_equal(mare__stream_read(ends[1], bytes), 4);
    }
    assert_int_equal(mare__stream_buffered(ends[1]), 4 + 20000);
    mare__stream_used(ends[1], 4 + 19996);
    put(ends[0], "three");
    assert_int_equal(mare__stream_read(ends[1], bytes), 5);
    assert_memory_equal(ends[1]->bytes + ends[1]->first, "two,three", 9);
    mare__stream_used(ends[1], 9);
    assert_null(ends[1]->bytes); // an idle stream has none
    drop(ends);
}

static void a_short_read_of_plain_bytes_has_taken_all(void **state)
{
    (void)state;
    static char bytes[MARE__STREAM_ROOM];
    struct mare__stream *ends[2];
    mare_channel *ready;
    open_pair(10, ends);
    put(ends[0], "some");
    expect(ends[1], "some");
    assert_true(ends[1]->drained);
    assert_int_equal(mare__stream_read(ends[1], bytes), -EAGAIN);
    assert_true(ends[1]->drained); // still nothing
    assert_int_equal(mare__stream_await_read(ends[1], &ready), MARE_OK);
    assert_false(ends[1]->drained); // who is told reads
    mare__stream_shutdown(ends[0]);
    assert_int_equal(mare__stream_read(ends[1], bytes), 0);
    assert_true(ends[1]->at_end && !ends[1]->drained);
    drop(ends);
}

static void whoever_waits_is_passed_what_another_was_told(void **state)
{
    (void)state;
    struct mare__stream *ends[2];
    open_pair(100, ends);
    mare_channel *first = begin_wait(ends[1], MARE__TO_READ);
    mare_channel *second = begin_wait(ends[1], MARE__TO_READ);
    assert_ptr_equal(first, second);
    assert_int_equal(ends[1]->object.waiters, 2);
    assert_false(told(first));
    put(ends[0], "x");
    while (told(first)) // the first has got all there was, and gives up
        ;
    mare__stream_end_wait(ends[1], first);
    assert_true(told(second)); // the way is still open
    expect(ends[1], "x");
    mare__stream_end_wait(ends[1], second);
    assert_int_equal(ends[1]->object.waiters, 0);
    drop(ends);
}

static void at_the_end_all_are_told_in_turn(void **state)
{
    (void)state;
    static char bytes[MARE__STREAM_ROOM];
    struct mare__stream *ends[2];
    mare_channel *ready = NULL;
    open_pair(100, ends);
    for (int i = 0; i < 3; i++)
        ready = begin_wait(ends[1], MARE__TO_READ);
    mare__stream_shutdown(ends[0]);
    for (int i = 0; i < 3; i++) {
        assert_true(told(ready));
        while (told(ready))
            ;
        assert_int_equal(mare__stream_read(ends[1], bytes), 0);
        mare__stream_end_wait(ends[1], ready);
    }
    drop(ends);
}

static void what_fails_for_one_is_told_to_the_others(void **state)
{
    (void)state;
    static char chunk[101];
    struct mare__stream *ends[2];
    open_pair(100, ends);
    memset(chunk, 'x', sizeof chunk - 1);
    assert_int_equal(put(ends[0], chunk), 100);
    mare_channel *writes = begin_wait(ends[0], MARE__TO_WRITE);
    mare_channel *reads = begin_wait(ends[0], MARE__TO_READ);
    assert_false(told(writes) || told(reads));
    mare__stream_close(ends[1]);
    while (told(writes) || told(reads))
        ;
    assert_int_equal(put(ends[0], "x"), -EPIPE);
    assert_true(told(writes) && told(reads));
    mare__stream_end_wait(ends[0], writes);
    mare__stream_end_wait(ends[0], reads);
    drop(ends);
}

static void to_close_ends_every_wait(void **state)
{
    (void)state;
    struct mare__stream *ends[2];
    mare_message *message = NULL;
    mare_channel *watched;
    open_pair(100, ends);
    mare_channel *ready = begin_wait(ends[1], MARE__TO_READ);
    mare__stream_close(ends[1]);
    mare__stream_close(ends[1]);
    assert_int_equal(mare_chan_receive_until(ready, &message, 0), MARE_CLOSED);
    mare__stream_end_wait(ends[1], ready);
    assert_true(mare__stream_closed(ends[1]));
    assert_int_equal(mare__stream_descriptor(ends[1]), -1);
    assert_int_equal(mare__stream_await_read(ends[1], &watched), MARE_CLOSED);
    drop(ends);
}

// ---- TLS ----------------------------------------------------------------------------------------

static void secure(struct mare__stream *stream, bool server)
{
    struct mare__tls_error error;
    assert_true(mare__stream_secure(stream, server ? serving : asking, server,
                                    server ? NULL : "localhost", 1000000000000, &error));
}

static void shake_hands(struct mare__stream *ends[2])
{
    bool over = false;
    for (int i = 0; !over; i++) {
        int one = mare__stream_flush(ends[0]), other = mare__stream_flush(ends[1]);
        over = one == 0 && other == 0;
        assert_true(i < 100);
    }
}

static void a_stream_goes_on_over_tls(void **state)
{
    (void)state;
    struct mare__stream *ends[2];
    struct mare__tls_facts facts = {0};
    open_pair(65536, ends);
    put(ends[1], "go ahead\n");
    expect(ends[0], "go ahead\n");
    assert_false(mare__stream_facts(ends[0], &facts));
    secure(ends[0], false);
    assert_int_equal(mare__stream_flush(ends[0]), -EAGAIN); // its hello is on the way
    // The other side reads it as plain bytes, before it goes over to TLS.
    static char bytes[MARE__STREAM_ROOM];
    ssize_t got = mare__stream_read(ends[1], bytes);
    assert_true(got > 100 && mare__stream_keep(ends[1], bytes, (size_t)got));
    secure(ends[1], true);
    assert_int_equal(mare__stream_buffered(ends[1]), 0);
    shake_hands(ends);
    put(ends[0], "secret");
    expect(ends[1], "secret");
    assert_true(mare__stream_facts(ends[0], &facts) && facts.verified);
    assert_string_equal(facts.subject, "CN = localhost");
    assert_int_equal(strlen(facts.fingerprint), 64);
    drop(ends);
}

static struct mare__tls_context *with_keys(const char *keys, size_t size)
{
    struct mare__tls_error error;
    struct mare__tls_options options = {.keys = keys, .keys_size = size, .oldest = 2, .newest = 3};
    struct mare__tls_context *context = mare__tls_context_new(&options, &error);
    assert_non_null(context);
    return context;
}

// As two nodes that share a secret.
static void a_key_of_both_sides_says_who_the_peer_is(void **state)
{
    (void)state;
    static const char known[] = "\4node\0\20"
                                "0123456789abcdef"
                                "\5other\0\20"
                                "abcdef0123456789";
    struct mare__stream *ends[2];
    struct mare__tls_facts facts = {0};
    struct mare__tls_error error;
    for (int wrong = 0; wrong < 2; wrong++) {
        struct mare__tls_context *server = with_keys(known, sizeof known - 1);
        struct mare__tls_context *client = with_keys(wrong ? "\5other\0\20"
                                                             "abcdef012345678X"
                                                           : known + 23,
                                                     24);
        open_pair(65536, ends);
        assert_true(mare__stream_secure(ends[0], client, false, NULL, 1000000000000, &error));
        assert_true(mare__stream_secure(ends[1], server, true, NULL, 1000000000000, &error));
        int one = -EAGAIN, other = -EAGAIN;
        while (one == -EAGAIN || other == -EAGAIN) {
            one = mare__stream_flush(ends[0]);
            other = mare__stream_flush(ends[1]);
        }
        assert_int_equal(one, wrong ? -EPROTO : 0);
        assert_int_equal(other, wrong ? -EPROTO : 0);
        for (int i = 0; i < 2; i++) {
            assert_true(mare__stream_facts(ends[i], &facts));
            assert_int_equal(facts.verified, !wrong);
            assert_string_equal(facts.identity, wrong ? "" : "other");
            if (wrong)
                assert_int_equal(ends[i]->transport->ops->failure(ends[i]->transport)->code,
                                 MARE_DENIED);
        }
        drop(ends);
        mare__unref(&server->object);
        mare__unref(&client->object);
    }
}

// Two records come at once: the descriptor, if there were one, would have nothing more to tell.
static void what_tls_holds_is_told_to_the_others(void **state)
{
    (void)state;
    struct mare__stream *ends[2];
    mare_channel *ready;
    open_pair(65536, ends);
    secure(ends[0], false);
    secure(ends[1], true);
    shake_hands(ends);
    mare_channel *waits = begin_wait(ends[1], MARE__TO_READ);
    put(ends[0], "first");
    put(ends[0], "second");
    while (told(waits))
        ;
    expect(ends[1], "first"); // by another routine, which has read both from below
    assert_true(told(waits));
    mare__stream_end_wait(ends[1], waits);
    assert_int_equal(mare__stream_await_read(ends[1], &ready),
                     MARE_CLOSED); // a select need not wait
    assert_int_equal(mare__stream_buffered(ends[1]), 6);
    drop(ends);
}

// The handshake has its own deadline, whatever that of the wait.
static void a_handshake_brings_the_deadline_forward(void **state)
{
    (void)state;
    struct mare__stream *ends[2];
    struct mare__tls_error error;
    uint64_t now = mare_now_ns(runtime), deadline = MARE_FOREVER;
    open_pair(65536, ends);
    assert_true(mare__stream_secure(ends[0], asking, false, "localhost", 1000000000000, &error));
    assert_int_equal(mare__stream_flush(ends[0]), -EAGAIN);
    mare_channel *ready = mare__stream_begin_wait(ends[0], MARE__TO_WRITE, &deadline);
    assert_non_null(ready);
    assert_true(deadline >= now + 1000000000000 && deadline < MARE_FOREVER);
    assert_int_equal(ends[0]->waiting[MARE__TO_READ], 1); // who wants to write waits to read
    mare__stream_end_wait(ends[0], ready);
    assert_int_equal(ends[0]->object.waiters, 0);
    drop(ends);
}

// Memory that ends anywhere: the stream is as it was, or says so.
static void without_memory_it_stays_plain(void **state)
{
    (void)state;
    bool done = false;
    for (long n = 1; !done; n++) {
        struct mare__stream *ends[2];
        struct mare__tls_error error;
        open_pair(1000, ends);
        assert_true(mare__stream_keep(ends[0], "early", 5));
        mare__alloc_fail_after(n);
        done = mare__stream_secure(ends[0], asking, false, "localhost", 1, &error);
        mare__alloc_fail_after(0);
        if (!done) {
            assert_int_equal(error.code, MARE_NOMEM);
            assert_int_equal(mare__stream_buffered(ends[0]), 5);
            put(ends[1], "x");
            assert_int_equal(put(ends[0], "plain"), 5);
            expect(ends[1], "plain");
        }
        drop(ends);
    }
}

// ---- The group ----------------------------------------------------------------------------------

static int begin(void **state)
{
    (void)state;
    runtime = run_start(1);
    return tls_pair(&serving, &asking) ? 0 : 1;
}

static int finish(void **state)
{
    (void)state;
    mare__alloc_fail_after(0);
    mare_stop(runtime);
    mare__unref(&serving->object);
    mare__unref(&asking->object);
    return 0;
}

UNIT_TESTS_WITH(begin, finish, cmocka_unit_test(what_is_not_asked_for_yet_is_kept),
                cmocka_unit_test(a_short_read_of_plain_bytes_has_taken_all),
                cmocka_unit_test(whoever_waits_is_passed_what_another_was_told),
                cmocka_unit_test(at_the_end_all_are_told_in_turn),
                cmocka_unit_test(what_fails_for_one_is_told_to_the_others),
                cmocka_unit_test(to_close_ends_every_wait),
                cmocka_unit_test(a_stream_goes_on_over_tls),
                cmocka_unit_test(a_key_of_both_sides_says_who_the_peer_is),
                cmocka_unit_test(what_tls_holds_is_told_to_the_others),
                cmocka_unit_test(a_handshake_brings_the_deadline_forward),
                cmocka_unit_test(without_memory_it_stays_plain))
