// SPDX-License-Identifier: MIT
// Two sessions of HTTP/2 that talk to each other in memory: what one asks the other reads, within
// the windows, in pieces of any size, and without memory.
#include "wire/http2.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "unit.h"

enum { WINDOW = 3000, SIZE = 50000 };

static char text[SIZE];

// One side: a session, and what has come of a body.
struct side {
    struct mare__http2 http2;
    struct mare__bytes body;
    size_t most; // unread bytes that were seen
    int heads, status;
    bool closed, failed;
};

static mare_err begin(struct side *side, bool server)
{
    struct mare__http2_settings settings = {
        .server = server,
        .streams = 10,
        .stream_window = WINDOW,
        .session_window = 65535,
        .limits = {.start_line = 8192, .field_line = 8192, .head = 32768, .fields = 100}};
    *side = (struct side){0};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i % 251);
    return mare__http2_init(&side->http2, &settings, 1);
}

static void end(struct side *side)
{
    mare__http2_fini(&side->http2);
    mare__bytes_fini(&side->body);
}

static mare_err ask(struct side *side, const struct mare__http_field *fields, size_t count)
{
    struct mare__http2_stream *stream;
    struct mare__http2_question question = {.method = mare__span_of("POST"),
                                            .scheme = mare__span_of("https"),
                                            .authority = mare__span_of("host:1"),
                                            .target = mare__span_of("/path?query"),
                                            .fields = fields,
                                            .count = count,
                                            .has_length = true,
                                            .length = SIZE,
                                            .has_body = true,
                                            .text = {text, SIZE}};
    return mare__http2_ask(&side->http2, &question, &stream);
}

static mare_err answer(struct side *side, struct mare__http2_stream *stream)
{
    struct mare__http2_answer answer = {
        .status = 201, .date = mare__span_of("today"), .has_body = true, .text = {text, SIZE}};
    return mare__http2_respond(&side->http2, stream, &answer);
}

// A head has come. In a run without memory it may not be understood.
static void take_head(struct side *side, struct mare__http2_stream *stream, bool whole)
{
    struct mare__http_head head;
    side->heads++;
    if (side->http2.settings.server) {
        bool good = mare__http2_request_head(&side->http2, stream, NULL, &head);
        if (whole) {
            struct mare__span value;
            assert_true(good);
            assert_memory_equal(head.method.at, "POST", 4);
            assert_memory_equal(head.path.at, "/path", 5);
            assert_memory_equal(head.query.at, "query", 5);
            assert_memory_equal(head.host.at, "host:1", 6);
            assert_int_equal(head.length, SIZE);
            assert_true(mare__http_find(&head, "x-name", &value));
            assert_memory_equal(value.at, "Value", 5);
            assert_true(mare__http_find(&head, "cookie", &value));
            assert_memory_equal(value.at, "a=1; b=2", 8);
        }
        side->failed = side->failed || !good || answer(side, stream) != MARE_OK;
    } else if (mare__http2_response_head(&side->http2, stream, &head)) {
        side->status = head.status;
    } else {
        side->failed = true;
    }
}

static void take_body(struct side *side, struct mare__http2_stream *stream)
{
    struct mare__span part = mare__http2_body(stream);
    side->most = part.size > side->most ? part.size : side->most;
    side->failed = side->failed || mare__bytes_add(&side->body, part.at, part.size) != 0;
    mare__http2_body_used(&side->http2, stream, part.size);
}

static void take_events(struct side *side, bool whole)
{
    struct mare__http2_event event;
    while (mare__http2_next(&side->http2, &event)) {
        struct mare__http2_stream *stream = mare__http2_find(&side->http2, event.stream);
        if (!stream)
            continue;
        if (event.kind == MARE__HTTP2_HEAD)
            take_head(side, stream, whole);
        else if (event.kind == MARE__HTTP2_BODY)
            take_body(side, stream);
        else if (event.kind == MARE__HTTP2_CLOSED) {
            side->closed = true;
            side->failed = side->failed || stream->error;
            take_body(side, stream);
            mare__http2_forget(&side->http2, stream);
        }
    }
}

// Carries what one says to the other, in pieces; false: there was nothing.
static bool carry(struct side *from, struct side *to, size_t most)
{
    struct mare__span bytes;
    if (mare__http2_take(&from->http2, &bytes)) {
        from->failed = true;
        return false;
    }
    for (size_t at = 0; at < bytes.size;) {
        size_t part = bytes.size - at < most ? bytes.size - at : most;
        mare__http2_receive(&to->http2, bytes.at + at, part, 1);
        take_events(to, true);
        at += part;
    }
    mare__http2_used(&from->http2, bytes.size);
    take_events(from, true);
    return bytes.size > 0;
}

static const struct mare__http_field fields[] = {
    {{"X-Name", 6}, {" Value ", 7}}, {{"Cookie", 6}, {"a=1", 3}}, {{"cookie", 6}, {"b=2", 3}}};

// Talks until neither has anything to say.
static void talk(struct side *client, struct side *server, size_t most)
{
    assert_int_equal(begin(client, false), MARE_OK);
    assert_int_equal(begin(server, true), MARE_OK);
    assert_int_equal(ask(client, fields, 3), MARE_OK);
    for (bool more = true; more;) {
        more = carry(client, server, most);
        more = carry(server, client, most) || more;
    }
    assert_false(client->failed || server->failed);
}

static void what_is_asked_is_read_and_answered(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 7, 1000, 100000};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct side client, server;
        talk(&client, &server, pieces[i]);
        assert_int_equal(client.status, 201);
        assert_int_equal(server.heads, 1);
        assert_int_equal(server.body.size, SIZE);
        assert_memory_equal(server.body.at, text, SIZE);
        assert_int_equal(client.body.size, SIZE);
        assert_memory_equal(client.body.at, text, SIZE);
        assert_true(client.closed && server.closed);
        assert_int_equal(client.http2.open + server.http2.open, 0);
        assert_null(server.http2.streams);
        end(&client);
        end(&server);
    }
}

static void no_more_comes_than_the_window_lets(void **state)
{
    (void)state;
    struct side client, server;
    assert_int_equal(begin(&client, false), MARE_OK);
    assert_int_equal(begin(&server, true), MARE_OK);
    // The settings first, for until then another window holds (section 6.9.2).
    while (carry(&client, &server, SIZE) || carry(&server, &client, SIZE))
        ;
    assert_int_equal(ask(&client, fields, 3), MARE_OK);
    struct mare__span bytes;
    assert_int_equal(mare__http2_take(&client.http2, &bytes), MARE_OK);
    assert_true(bytes.size < WINDOW + 500);
    mare__http2_receive(&server.http2, bytes.at, bytes.size, 1);
    mare__http2_used(&client.http2, bytes.size);
    assert_int_equal(mare__http2_take(&client.http2, &bytes), MARE_OK);
    assert_int_equal(bytes.size, 0);
    assert_int_equal(mare__http2_body(server.http2.streams).size, WINDOW);
    end(&client);
    end(&server);
}

static void a_field_that_may_not_be_sent_is_refused(void **state)
{
    (void)state;
    static const struct mare__http_field bad[] = {{{"x", 1}, {"a\nb", 3}},
                                                  {{"x y", 3}, {"1", 1}},
                                                  {{"connection", 10}, {"close", 5}},
                                                  {{":path", 5}, {"/", 1}}};
    struct side client;
    assert_int_equal(begin(&client, false), MARE_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ask(&client, &bad[i], 1), MARE_INVALID);
    assert_int_equal(client.http2.open, 0);
    end(&client);
}

// What a client says to a server, if that says nothing; to be freed. Then its stream is open, but
// there is nothing to be sent, and no room is kept for it.
static struct mare__bytes record(void)
{
    struct side client;
    struct mare__bytes said = {0};
    struct mare__span bytes;
    assert_int_equal(begin(&client, false), MARE_OK);
    assert_int_equal(ask(&client, fields, 3), MARE_OK);
    do {
        assert_int_equal(mare__http2_take(&client.http2, &bytes), MARE_OK);
        assert_int_equal(mare__bytes_add(&said, bytes.at, bytes.size), MARE_OK);
        mare__http2_used(&client.http2, bytes.size);
    } while (bytes.size > 0);
    assert_true(said.size > SIZE);
    assert_int_equal(client.http2.open, 1);
    assert_int_equal(client.http2.out.capacity, 0);
    end(&client);
    return said;
}

static bool hear(struct side *server, const struct mare__bytes *said)
{
    struct mare__span bytes;
    if (begin(server, true))
        return false;
    for (size_t at = 0; at < said->size; at += 1000) {
        size_t part = said->size - at < 1000 ? said->size - at : 1000;
        mare__http2_receive(&server->http2, said->at + at, part, 1);
        take_events(server, false);
        if (mare__http2_take(&server->http2, &bytes))
            return false;
        mare__http2_used(&server->http2, bytes.size);
    }
    return !server->failed && !server->http2.over;
}

// Memory fails at every allocation in turn: it is said, and nothing is lost. (But by nghttp2, of a
// request whose stream it cannot open when it is to send it: so a client only asks.)
static void without_memory(void **state)
{
    (void)state;
    struct mare__bytes said = record();
    bool failed = true;
    for (long n = 1; failed; n++) {
        struct side server = {0}, client = {0};
        mare__alloc_fail_after(n);
        bool good = hear(&server, &said) && begin(&client, false) == MARE_OK &&
                    ask(&client, fields, 3) == MARE_OK;
        failed = mare__alloc_has_failed();
        mare__alloc_fail_after(0);
        assert_true(good || failed); // a stream alone may have been given up
        end(&client);
        end(&server);
    }
    mare__bytes_fini(&said);
}

UNIT_TESTS(cmocka_unit_test(what_is_asked_is_read_and_answered),
           cmocka_unit_test(no_more_comes_than_the_window_lets),
           cmocka_unit_test(a_field_that_may_not_be_sent_is_refused),
           cmocka_unit_test(without_memory))
