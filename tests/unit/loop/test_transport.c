// SPDX-License-Identifier: MIT
// What every transport promises, whatever it is: bytes come whole and in order however they are cut
// up, who cannot write is told when that is over, either side may end alone, and an error at any
// moment is an error and no more. The same cases run over descriptors, pairs in memory, and TLS
// over both; between TLS and what is below it, or on top of the others, is a transport of the
// test's own that makes trouble.
#include "platform/transport.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "loop/descriptor.h"
#include "loop/pair.h"
#include "platform/socket.h"
#include "platform/tls.h"
#include "runtime.h"
#include "tls_pair.h"

static mare_runtime *runtime;
static struct mare__tls_context *serving, *asking;

// ---- Trouble ------------------------------------------------------------------------------------

// What goes wrong between a transport and the one above.
struct trouble {
    size_t most;    // bytes that a call moves at the most; 0: any
    bool hesitates; // every other call says "not now"
    long fails_at;  // which call fails, and all after it; 0: none
    int error;      // so
    atomic_long calls;
};

struct filter {
    struct mare__transport transport;
    struct mare__transport *below;
    struct trouble *trouble; // of both ends
    bool hesitated[MARE__WAYS];
};

static struct filter *of(struct mare__transport *transport)
{
    return (struct filter *)transport;
}

// What the call comes to before it is made; 0: nothing.
static int trouble_with(struct filter *filter, int way)
{
    struct trouble *trouble = filter->trouble;
    if (trouble->hesitates && (filter->hesitated[way] = !filter->hesitated[way]))
        return -EAGAIN;
    long call = atomic_fetch_add(&trouble->calls, 1) + 1;
    return trouble->fails_at > 0 && call >= trouble->fails_at ? -trouble->error : 0;
}

static ssize_t filter_read(struct mare__transport *transport, void *bytes, size_t size)
{
    struct filter *filter = of(transport);
    size_t most = filter->trouble->most;
    int err = trouble_with(filter, MARE__TO_READ);
    return err ? err
               : mare__transport_read(filter->below, bytes, most && most < size ? most : size);
}

static ssize_t filter_write(struct mare__transport *transport, struct iovec *pieces, int count)
{
    struct filter *filter = of(transport);
    size_t most = filter->trouble->most;
    int err = trouble_with(filter, MARE__TO_WRITE);
    if (err || most == 0)
        return err ? err : mare__transport_write(filter->below, pieces, count);
    while (count > 1 && pieces->iov_len == 0)
        pieces++, count--;
    struct iovec part = {pieces->iov_base, pieces->iov_len < most ? pieces->iov_len : most};
    return mare__transport_write(filter->below, &part, 1);
}

static int filter_flush(struct mare__transport *transport)
{
    return mare__transport_flush(of(transport)->below);
}

static int filter_shutdown(struct mare__transport *transport)
{
    int err = trouble_with(of(transport), MARE__TO_WRITE);
    return err ? err : mare__transport_shutdown(of(transport)->below);
}

static void filter_waits(const struct mare__transport *transport, int *way, uint64_t *deadline)
{
    mare__transport_waits(((const struct filter *)transport)->below, way, deadline);
}

static mare_channel *filter_await(struct mare__transport *transport, int way)
{
    return mare__transport_await(of(transport)->below, way);
}

static void filter_close(struct mare__transport *transport, bool cut)
{
    mare__transport_close(of(transport)->below, cut);
}

static void filter_release(struct mare__transport *transport)
{
    mare__transport_release(of(transport)->below);
    free(transport);
}

static int filter_descriptor(const struct mare__transport *transport)
{
    const struct mare__transport *below = ((const struct filter *)transport)->below;
    return below->ops->descriptor(below);
}

static const struct mare__transport_ops filter_ops = {
    .read = filter_read,
    .write = filter_write,
    .flush = filter_flush,
    .shutdown = filter_shutdown,
    .waits = filter_waits,
    .await = filter_await,
    .close = filter_close,
    .release = filter_release,
    .descriptor = filter_descriptor,
    .failure = mare__transport_no_failure,
    .facts = mare__transport_no_facts,
    .plain = false,
};

static struct mare__transport *troubled(struct mare__transport *below, struct trouble *trouble)
{
    struct filter *filter = calloc(1, sizeof *filter);
    assert_non_null(filter);
    filter->transport.ops = &filter_ops;
    filter->below = below;
    filter->trouble = trouble;
    return &filter->transport;
}

// ---- All kinds of transports --------------------------------------------------------------------

struct kind {
    const char *name;
    size_t room; // of a pair in memory; 0: over descriptors
    bool tls;
};

static const struct kind kinds[] = {
    {"descriptors", 0, false},
    {"a pair with room for one byte", 1, false},
    {"a pair", 7, false},
    {"TLS over descriptors", 0, true},
    {"TLS over a pair", 65536, true},
    {"TLS over a pair with room for one byte", 1, true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool open_below(const struct kind *kind, struct mare__transport *ends[2])
{
    int fd[2];
    if (kind->room > 0) {
        ends[0] = mare__pair_new(runtime, kind->room);
        ends[1] = ends[0] ? mare__pair_other(ends[0]) : NULL;
        return ends[0];
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    ends[0] = mare__descriptor_new(runtime, fd[0]);
    ends[1] = mare__descriptor_new(runtime, fd[1]);
    for (int i = 0; i < 2; i++)
        if (!ends[i] && ends[!i]) {
            mare__transport_release(ends[!i]);
            ends[!i] = NULL;
        }
    return ends[0] && ends[1];
}

// Two ends, the trouble being as far down as it can be. False: not enough memory.
static bool open_ends(const struct kind *kind, struct trouble *trouble,
                      struct mare__transport *ends[2])
{
    if (!open_below(kind, ends))
        return false;
    for (int i = 0; i < 2; i++)
        ends[i] = troubled(ends[i], trouble);
    for (int i = 0; kind->tls && i < 2; i++) {
        struct mare__tls_session session = {
            .server = i == 0, .name = i == 0 ? NULL : "localhost", .handshake_until = MARE_FOREVER};
        struct mare__tls_error error;
        struct mare__transport *tls =
            mare__tls_new(i == 0 ? serving : asking, ends[i], &session, &error);
        if (!tls) {
            assert_int_equal(error.code, MARE_NOMEM);
            mare__transport_release(ends[0]);
            mare__transport_release(ends[1]);
            return false;
        }
        ends[i] = tls;
    }
    return true;
}

static void close_ends(struct mare__transport *ends[2])
{
    mare__transport_release(ends[0]);
    mare__transport_release(ends[1]);
}

static void must_open(const struct kind *kind, struct trouble *trouble,
                      struct mare__transport *ends[2])
{
    if (!open_ends(kind, trouble, ends)) {
        fail_msg("%s: cannot be opened", kind->name);
        abort(); // it does not return
    }
}

// ---- A conversation -----------------------------------------------------------------------------

enum { LENGTH = 97 }; // bytes that each side says

struct speaker {
    struct mare__transport *end;
    char said, text[LENGTH], heard[LENGTH + 1];
    size_t sent, got, cut; // `cut`: how many bytes the first piece has
    bool shut, over;
};

static void speaker_init(struct speaker *speaker, struct mare__transport *end, char said,
                         size_t cut)
{
    *speaker = (struct speaker){.end = end, .said = said, .cut = cut};
    for (size_t i = 0; i < LENGTH; i++)
        speaker->text[i] = (char)(said + i % 26);
}

// Says what it can: 0, or what that came to.
static ssize_t speak(struct speaker *speaker)
{
    if (speaker->sent == LENGTH) {
        int err = speaker->shut ? 0 : mare__transport_shutdown(speaker->end);
        speaker->shut = err == 0;
        return err == -EAGAIN ? 0 : err;
    }
    size_t cut = speaker->sent < speaker->cut ? speaker->cut - speaker->sent : 0;
    struct iovec pieces[] = {{speaker->text + speaker->sent, cut},
                             {speaker->text, 0},
                             {speaker->text + speaker->sent + cut, LENGTH - speaker->sent - cut}};
    ssize_t sent = mare__transport_write(speaker->end, pieces, 3);
    if (sent > 0)
        speaker->sent += (size_t)sent;
    return sent == -EAGAIN || sent > 0 ? 0 : sent;
}

static ssize_t hear(struct speaker *speaker)
{
    if (speaker->over)
        return 0;
    ssize_t got = mare__transport_read(speaker->end, speaker->heard + speaker->got,
                                       sizeof speaker->heard - speaker->got);
    speaker->over = got == 0;
    if (got > 0)
        speaker->got += (size_t)got;
    return got == -EAGAIN || got > 0 ? 0 : got;
}

// Both sides say all they have, in turn, and hear the other to its end. 0, or what went wrong.
static ssize_t converse(struct mare__transport *ends[2], size_t cut)
{
    struct speaker both[2];
    speaker_init(&both[0], ends[0], 'a', cut);
    speaker_init(&both[1], ends[1], 'A', LENGTH - cut);
    for (long i = 0; !both[0].over || !both[1].over || !both[0].shut || !both[1].shut; i++) {
        struct speaker *one = &both[i % 2];
        ssize_t err = speak(one);
        if (!err)
            err = hear(one);
        if (err)
            return err;
        if (i > 1000000)
            fail_msg("it does not end");
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i].got, LENGTH);
        assert_memory_equal(both[i].heard, both[!i].text, LENGTH);
        ssize_t more;
        while ((more = mare__transport_read(ends[i], both[i].heard, 1)) == -EAGAIN)
            ;
        if (more != 0) // the end stays
            return more;
    }
    return 0;
}

// ---- Cases --------------------------------------------------------------------------------------

static void bytes_come_in_order_wherever_they_are_cut(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++)
        for (size_t cut = 0; cut <= LENGTH; cut += kind->tls ? 16 : 1) {
            struct trouble none = {0};
            struct mare__transport *ends[2];
            must_open(kind, &none, ends);
            if (converse(ends, cut) != 0)
                fail_msg("%s, cut at %zu", kind->name, cut);
            close_ends(ends);
        }
}

// A record, or a handshake, that comes byte by byte, with a "not now" before each.
static void bytes_come_in_order_however_few_come_at_once(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++)
        for (size_t most = 1; most < 6; most++) {
            struct trouble trouble = {.most = most, .hesitates = most % 2 == 1};
            struct mare__transport *ends[2];
            must_open(kind, &trouble, ends);
            if (converse(ends, most) != 0)
                fail_msg("%s, %zu at once", kind->name, most);
            close_ends(ends);
        }
}

static void an_error_may_come_at_any_moment(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        ssize_t outcome = -1;
        long n = 1;
        for (; outcome != 0; n += kind->room == 1 ? 101 : 1) { // of which there are thousands
            struct trouble trouble = {.most = 40, .fails_at = n, .error = ECONNRESET};
            struct mare__transport *ends[2];
            must_open(kind, &trouble, ends);
            outcome = converse(ends, 1);
            bool failed = outcome == -ECONNRESET || (kind->tls && outcome == -EPROTO);
            if (outcome != 0 && !failed)
                fail_msg("%s, call %ld: %zd", kind->name, n, outcome);
            if (outcome == -EPROTO)
                assert_non_null(ends[0]->ops->failure(ends[0]));
            close_ends(ends);
        }
        assert_true(n > 4);
    }
}

static void memory_may_end_at_any_moment(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        ssize_t outcome = -1;
        for (long n = 1; outcome != 0; n++) {
            struct trouble none = {0};
            struct mare__transport *ends[2];
            mare__alloc_fail_after(n);
            if (open_ends(kind, &none, ends)) {
                outcome = converse(ends, 3);
                for (int way = 0; way < MARE__WAYS; way++)
                    mare__transport_await(ends[0], way);
                mare__alloc_fail_after(0);
                if (outcome != 0 && outcome != -ENOMEM && outcome != -EPROTO)
                    fail_msg("%s, allocation %ld: %zd", kind->name, n, outcome);
                close_ends(ends);
            }
            mare__alloc_fail_after(0);
        }
    }
}

// Whether a message has come.
static bool told(mare_channel *ready, uint64_t deadline)
{
    mare_message *message = NULL;
    mare_err err = ready ? mare_chan_receive_until(ready, &message, deadline) : MARE_NOMEM;
    mare_message_destroy(message);
    return err == MARE_OK;
}

static ssize_t put(struct mare__transport *end, const char *text, size_t size)
{
    struct iovec piece = {(char *)text, size};
    return mare__transport_write(end, &piece, 1);
}

// Makes the handshake of TLS, and takes what may be said after it.
static void meet(struct mare__transport *ends[2])
{
    char byte;
    for (int i = 0; i < 100000; i++) {
        int one = mare__transport_flush(ends[0]), other = mare__transport_flush(ends[1]);
        if (one == 0 && other == 0)
            break;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(mare__transport_read(ends[i], &byte, 1), -EAGAIN);
}

static mare_channel *await(struct mare__transport *end, int way)
{
    uint64_t deadline = MARE_FOREVER;
    mare__transport_waits(end, &way, &deadline);
    return mare__transport_await(end, way);
}

// Waits for what a call that said "not now" needs.
static bool wait_for(struct mare__transport *end, int way)
{
    return told(await(end, way), run_soon(runtime));
}

static void who_cannot_write_is_told_when_that_is_over(void **state)
{
    (void)state;
    static char chunk[65536];
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        struct trouble none = {0};
        struct mare__transport *ends[2];
        size_t sent = 0;
        ssize_t n;
        must_open(kind, &none, ends);
        meet(ends);
        while ((n = put(ends[0], chunk, sizeof chunk)) > 0)
            sent += (size_t)n;
        assert_int_equal(n, -EAGAIN);
        mare_channel *ready = await(ends[0], MARE__TO_WRITE);
        assert_false(told(ready, 0));
        while (mare__transport_flush(ends[0]) != 0 || sent > 0) {
            n = mare__transport_read(ends[1], chunk, sizeof chunk);
            assert_true(n > 0 || n == -EAGAIN);
            sent -= n > 0 ? (size_t)n : 0;
        }
        assert_true(told(ready, run_soon(runtime)));
        assert_true(put(ends[0], chunk, 1) == 1);
        close_ends(ends);
    }
}

static void who_has_nothing_to_read_is_told_when_that_is_over(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++)
        for (int how = 0; how < 3; how++) { // something, the end, or nobody any more
            struct trouble none = {0};
            struct mare__transport *ends[2];
            char byte;
            must_open(kind, &none, ends);
            meet(ends);
            assert_int_equal(mare__transport_read(ends[1], &byte, 1), -EAGAIN);
            mare_channel *ready = await(ends[1], MARE__TO_READ);
            assert_false(told(ready, 0));
            if (how == 0)
                assert_int_equal(put(ends[0], "x", 1), 1);
            else if (how == 1)
                mare__transport_shutdown(ends[0]);
            else
                mare__transport_close(ends[0], false);
            assert_true(told(ready, run_soon(runtime)));
            close_ends(ends);
        }
}

static void either_side_may_end_alone(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        struct trouble none = {0};
        struct mare__transport *ends[2];
        char byte = 0;
        must_open(kind, &none, ends);
        meet(ends);
        while (mare__transport_shutdown(ends[0]) == -EAGAIN)
            assert_int_equal(mare__transport_read(ends[1], &byte, 1), -EAGAIN);
        assert_int_equal(put(ends[0], "x", 1), -EPIPE);
        ssize_t got;
        while ((got = mare__transport_read(ends[1], &byte, 1)) == -EAGAIN)
            mare__transport_flush(ends[0]);
        assert_int_equal(got, 0);
        assert_int_equal(put(ends[1], "y", 1), 1); // which still may
        while ((got = mare__transport_read(ends[0], &byte, 1)) == -EAGAIN)
            mare__transport_flush(ends[1]);
        assert_int_equal(got, 1);
        assert_int_equal(byte, 'y');
        close_ends(ends);
    }
}

// To be closed is told to those who wait on this side, and to the peer; by TLS as the end, unless
// something was cut.
static void what_is_closed_is_closed_for_all(void **state)
{
    (void)state;
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++)
        for (int cut = 0; cut < 2; cut++) {
            struct trouble none = {0};
            struct mare__transport *ends[2];
            mare_message *message = NULL;
            char byte;
            must_open(kind, &none, ends);
            meet(ends);
            mare_channel *ready = mare_chan_ref(await(ends[0], MARE__TO_READ));
            mare__transport_close(ends[0], cut);
            mare__transport_close(ends[0], false); // once is enough
            assert_int_equal(mare_chan_receive_until(ready, &message, 0), MARE_CLOSED);
            mare_chan_unref(ready);
            ssize_t got;
            while ((got = mare__transport_read(ends[1], &byte, 1)) == -EAGAIN)
                assert_true(wait_for(ends[1], MARE__TO_READ));
            bool whole = !kind->tls || (!cut && kind->room != 1); // a farewell waits for nobody
            assert_int_equal(got, whole ? 0 : -EPROTO);
            while ((got = put(ends[1], "x", 1)) > 0 || got == -EAGAIN)
                ; // the observer is about to close the descriptor
            assert_true(got == -EPIPE || got == -ECONNRESET || got == -EPROTO);
            close_ends(ends);
        }
}

// ---- Two threads --------------------------------------------------------------------------------

enum { MUCH = 300000 };

static char pattern(size_t i)
{
    return (char)(i * 7 + i / 251);
}

static void *send_much(void *argument)
{
    struct mare__transport *end = argument;
    char bytes[1000];
    for (size_t sent = 0; sent < MUCH;) {
        size_t size = MUCH - sent < sizeof bytes ? MUCH - sent : sizeof bytes;
        for (size_t i = 0; i < size; i++)
            bytes[i] = pattern(sent + i);
        ssize_t n = put(end, bytes, size);
        if (n > 0)
            sent += (size_t)n;
        else if (n != -EAGAIN || !wait_for(end, MARE__TO_WRITE))
            return "cannot write";
    }
    while (mare__transport_shutdown(end) == -EAGAIN)
        if (!wait_for(end, MARE__TO_WRITE))
            return "cannot end";
    return NULL;
}

static void two_threads_may_have_the_two_ends(void **state)
{
    (void)state;
    static char bytes[4096];
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        struct trouble none = {0};
        struct mare__transport *ends[2];
        pthread_t thread;
        void *failed;
        size_t got = 0;
        ssize_t n;
        if (kind->room == 1)
            continue; // as many switches of threads as bytes
        must_open(kind, &none, ends);
        assert_int_equal(pthread_create(&thread, NULL, send_much, ends[0]), 0);
        while ((n = mare__transport_read(ends[1], bytes, sizeof bytes)) != 0) {
            if (n < 0) {
                assert_int_equal(n, -EAGAIN);
                assert_true(wait_for(ends[1], MARE__TO_READ));
                continue;
            }
            for (ssize_t i = 0; i < n; i++)
                assert_int_equal(bytes[i], pattern(got + (size_t)i));
            got += (size_t)n;
        }
        assert_int_equal(got, MUCH);
        pthread_join(thread, &failed);
        if (failed)
            fail_msg("%s: %s", kind->name, (char *)failed);
        close_ends(ends);
    }
}

// ---- The group ----------------------------------------------------------------------------------

static int begin(void **state)
{
    (void)state;
    runtime = run_start(2);
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

UNIT_TESTS_WITH(begin, finish, cmocka_unit_test(bytes_come_in_order_wherever_they_are_cut),
                cmocka_unit_test(bytes_come_in_order_however_few_come_at_once),
                cmocka_unit_test(an_error_may_come_at_any_moment),
                cmocka_unit_test(memory_may_end_at_any_moment),
                cmocka_unit_test(who_cannot_write_is_told_when_that_is_over),
                cmocka_unit_test(who_has_nothing_to_read_is_told_when_that_is_over),
                cmocka_unit_test(either_side_may_end_alone),
                cmocka_unit_test(what_is_closed_is_closed_for_all),
                cmocka_unit_test(two_threads_may_have_the_two_ends))
