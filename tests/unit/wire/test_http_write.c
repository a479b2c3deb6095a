// SPDX-License-Identifier: MIT
// The writers of HTTP: the bytes that RFC 9112 wants, nothing that a caller's text could break out
// of, and what they write the reader reads back.
#include "base/alloc.h"
#include "http_transcript.h"

#define SPAN(text)                                                                                 \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static void check_out(struct mare__bytes *out, const char *expected)
{
    assert_int_equal(mare__bytes_add(out, "", 1), 0);
    assert_string_equal(out->at, expected);
    mare__bytes_fini(out);
}

static void a_response_with_a_length(void **state)
{
    (void)state;
    static const struct mare__http_field fields[] = {{SPAN("Content-Type"), SPAN("text/plain")},
                                                     {SPAN("X-Empty"), SPAN("")}};
    struct mare__bytes out = {0};
    struct mare__http_response response = {.status = 200,
                                           .date = SPAN("Sun, 06 Nov 1994 08:49:37 GMT"),
                                           .fields = fields,
                                           .count = 2,
                                           .body = MARE__HTTP_BODY_LENGTH,
                                           .length = UINT64_MAX,
                                           .minor = 1,
                                           .keep_alive = true};
    assert_int_equal(mare__http_put_response(&out, &response), 0);
    check_out(&out, "HTTP/1.1 200 OK\r\n"
                    "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                    "Content-Length: 18446744073709551615\r\n"
                    "Content-Type: text/plain\r\nX-Empty: \r\n\r\n");
}

static void responses_say_how_they_end(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum mare__http_body body;
        uint8_t minor;
        bool keep_alive;
        const char *expected;
    } cases[] = {
        {404, MARE__HTTP_BODY_NONE, 1, true, "404 Not Found\r\nContent-Length: 0\r\n\r\n"},
        {205, MARE__HTTP_BODY_NONE, 1, true, "205 Reset Content\r\nContent-Length: 0\r\n\r\n"},
        {204, MARE__HTTP_BODY_NONE, 1, true, "204 No Content\r\n\r\n"},
        {304, MARE__HTTP_BODY_NONE, 1, true, "304 Not Modified\r\n\r\n"},
        {304, MARE__HTTP_BODY_LENGTH, 1, true, "304 Not Modified\r\nContent-Length: 7\r\n\r\n"},
        {100, MARE__HTTP_BODY_NONE, 1, true, "100 Continue\r\n\r\n"},
        {200, MARE__HTTP_BODY_CHUNKED, 1, true, "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {200, MARE__HTTP_BODY_LENGTH, 1, false,
         "200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"},
        {200, MARE__HTTP_BODY_UNTIL_CLOSE, 1, true, "200 OK\r\nConnection: close\r\n\r\n"},
        {200, MARE__HTTP_BODY_LENGTH, 0, true,
         "200 OK\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n"},
        {200, MARE__HTTP_BODY_UNTIL_CLOSE, 0, true, "200 OK\r\nConnection: close\r\n\r\n"},
        {799, MARE__HTTP_BODY_NONE, 1, true, "799 \r\nContent-Length: 0\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__bytes out = {0};
        char expected[200];
        struct mare__http_response response = {.status = cases[i].status,
                                               .body = cases[i].body,
                                               .length = 7,
                                               .minor = cases[i].minor,
                                               .keep_alive = cases[i].keep_alive};
        assert_int_equal(mare__http_put_response(&out, &response), 0);
        snprintf(expected, sizeof expected, "HTTP/1.1 %s", cases[i].expected);
        check_out(&out, expected);
    }
}

static void the_smallest_and_the_largest(void **state)
{
    (void)state;
    struct mare__bytes out = {0};
    struct mare__http_request request = {.method = SPAN("A"), .target = SPAN("/")};
    struct mare__http_response response = {
        .status = 999, .reason = SPAN("x"), .minor = 1, .keep_alive = true};
    assert_int_equal(mare__http_put_request(&out, &request), 0);
    assert_int_equal(mare__http_put_response(&out, &response), 0);
    check_out(&out, "A / HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n"
                    "HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n");
}

// Names of RFC 9110 section 15 that nobody has changed since.
static void statuses_have_their_usual_words(void **state)
{
    (void)state;
    assert_string_equal(mare__http_phrase(200), "OK");
    assert_string_equal(mare__http_phrase(400), "Bad Request");
    assert_string_equal(mare__http_phrase(414), "URI Too Long");
    assert_string_equal(mare__http_phrase(431), "Request Header Fields Too Large");
    assert_string_equal(mare__http_phrase(503), "Service Unavailable");
    assert_string_equal(mare__http_phrase(505), "HTTP Version Not Supported");
    assert_string_equal(mare__http_phrase(99), "");
    assert_string_equal(mare__http_phrase(799), "");
    assert_string_equal(mare__http_phrase(-1), "");
}

static void a_response_that_switches(void **state)
{
    (void)state;
    struct mare__bytes out = {0};
    struct mare__http_response response = {
        .status = 101, .upgrade = SPAN("websocket"), .minor = 1, .keep_alive = false};
    assert_int_equal(mare__http_put_response(&out, &response), 0);
    response.status = 426; // only the first of the two stays open for sure
    assert_int_equal(mare__http_put_response(&out, &response), 0);
    check_out(&out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    "Connection: upgrade\r\n\r\n"
                    "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n"
                    "Upgrade: websocket\r\nConnection: upgrade, close\r\n\r\n");
}

static void a_request(void **state)
{
    (void)state;
    static const struct mare__http_field fields[] = {{SPAN("Accept"), SPAN("*/*")}};
    struct mare__bytes out = {0};
    struct mare__http_request request = {.method = SPAN("PUT"),
                                         .target = SPAN("/a?b"),
                                         .host = SPAN("example.org:8080"),
                                         .fields = fields,
                                         .count = 1,
                                         .body = MARE__HTTP_BODY_CHUNKED,
                                         .keep_alive = true,
                                         .expect_continue = true};
    assert_int_equal(mare__http_put_request(&out, &request), 0);
    assert_int_equal(mare__http_put_chunk(&out, "hello, hello, hello", 19), 0);
    assert_int_equal(mare__http_put_chunk(&out, "", 0), 0);
    assert_int_equal(mare__http_put_last_chunk(&out), 0);
    check_out(&out, "PUT /a?b HTTP/1.1\r\nHost: example.org:8080\r\nTransfer-Encoding: chunked\r\n"
                    "Expect: 100-continue\r\nAccept: */*\r\n\r\n"
                    "13\r\nhello, hello, hello\r\n0\r\n\r\n");
}

// ---- What is refused ----------------------------------------------------------------------------

static const struct mare__span not_a_value[] = {
    SPAN("a\r\nInjected: b"),
    SPAN("a\nb"),
    SPAN("a\rb"),
    SPAN("a\0b"),
    SPAN("\r\n"),
    SPAN("\x7f"),
    SPAN("\x1b"),
    SPAN("\x0b"),
};

static const struct mare__span not_a_name[] = {
    SPAN(""),    SPAN("a b"),      SPAN("a:"), SPAN("a\r\nb"), SPAN("a\n"),
    SPAN("a\0"), SPAN("\xc3\xa9"), SPAN(" a"), SPAN("a\t"),    SPAN("a("),
};

static void check_response_refused(struct mare__http_response response)
{
    struct mare__bytes out = {0};
    assert_int_equal(mare__bytes_add(&out, "before", 6), 0);
    assert_int_equal(mare__http_put_response(&out, &response), MARE_INVALID);
    assert_int_equal(out.size, 6);
    mare__bytes_fini(&out);
}

static void check_request_refused(struct mare__http_request request)
{
    struct mare__bytes out = {0};
    assert_int_equal(mare__bytes_add(&out, "before", 6), 0);
    assert_int_equal(mare__http_put_request(&out, &request), MARE_INVALID);
    assert_int_equal(out.size, 6);
    mare__bytes_fini(&out);
}

static const struct mare__http_response plain_response = {.status = 200, .minor = 1};
static const struct mare__http_request plain_request = {
    .method = SPAN("GET"), .target = SPAN("/"), .host = SPAN("a")};

static void a_field_cannot_break_out(void **state)
{
    (void)state;
    struct mare__http_response response = plain_response;
    struct mare__http_request request = plain_request;
    for (size_t i = 0; i < sizeof not_a_value / sizeof *not_a_value; i++) {
        struct mare__http_field field = {SPAN("Name"), not_a_value[i]};
        response.fields = request.fields = &field;
        response.count = request.count = 1;
        check_response_refused(response);
        check_request_refused(request);
    }
    for (size_t i = 0; i < sizeof not_a_name / sizeof *not_a_name; i++) {
        struct mare__http_field field = {not_a_name[i], SPAN("value")};
        response.fields = request.fields = &field;
        response.count = request.count = 1;
        check_response_refused(response);
        check_request_refused(request);
    }
}

static void nothing_else_can_break_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof not_a_value / sizeof *not_a_value; i++) {
        struct mare__http_response response = plain_response;
        response.reason = not_a_value[i];
        check_response_refused(response);
        response = plain_response;
        response.date = not_a_value[i];
        check_response_refused(response);
        response = plain_response;
        response.upgrade = not_a_value[i];
        check_response_refused(response);
        struct mare__http_request request = plain_request;
        request.method = not_a_value[i];
        check_request_refused(request);
        request = plain_request;
        request.target = not_a_value[i];
        check_request_refused(request);
        request = plain_request;
        request.host = not_a_value[i];
        check_request_refused(request);
    }
    static const struct mare__span targets[] = {SPAN(""), SPAN("/a b"), SPAN("/#a"),
                                                SPAN("/\xc3\xa9")};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct mare__http_request request = plain_request;
        request.target = targets[i];
        check_request_refused(request);
    }
    struct mare__http_request request = plain_request;
    request.method = (struct mare__span){"", 0};
    check_request_refused(request);
}

static void what_the_writer_makes_itself_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct mare__span name;
        bool response, request;
    } cases[] = {
        {SPAN("Content-Length"), true, true}, {SPAN("transfer-encoding"), true, true},
        {SPAN("CONNECTION"), true, true},     {SPAN("Upgrade"), true, true},
        {SPAN("Date"), true, false},          {SPAN("Host"), false, true},
        {SPAN("Expect"), false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__http_field field = {cases[i].name, SPAN("1")};
        struct mare__http_response response = plain_response;
        struct mare__http_request request = plain_request;
        response.fields = request.fields = &field;
        response.count = request.count = 1;
        if (cases[i].response)
            check_response_refused(response);
        if (cases[i].request)
            check_request_refused(request);
    }
}

static void bodies_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum mare__http_body body;
        uint8_t minor;
    } cases[] = {
        {204, MARE__HTTP_BODY_LENGTH, 1},      {204, MARE__HTTP_BODY_CHUNKED, 1},
        {204, MARE__HTTP_BODY_UNTIL_CLOSE, 1}, {100, MARE__HTTP_BODY_LENGTH, 1},
        {101, MARE__HTTP_BODY_CHUNKED, 1},     {200, MARE__HTTP_BODY_CHUNKED, 0},
        {99, MARE__HTTP_BODY_NONE, 1},         {1000, MARE__HTTP_BODY_NONE, 1},
        {-200, MARE__HTTP_BODY_NONE, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__http_response response = {
            .status = cases[i].status, .body = cases[i].body, .minor = cases[i].minor};
        check_response_refused(response);
    }
    struct mare__http_request request = plain_request;
    request.body = MARE__HTTP_BODY_UNTIL_CLOSE;
    check_request_refused(request);
}

// ---- Both ways ----------------------------------------------------------------------------------

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static const struct mare__http_field fields[] = {{SPAN("A"), SPAN("b, c\t\"d\" \xff")},
                                                     {SPAN("Empty"), SPAN("")},
                                                     {SPAN("A"), SPAN("again")}};
    struct mare__http_request request = {.method = SPAN("POST"),
                                         .target = SPAN("/a?b=%20"),
                                         .host = SPAN("[::1]:80"),
                                         .fields = fields,
                                         .count = 3,
                                         .body = MARE__HTTP_BODY_CHUNKED,
                                         .upgrade = SPAN("websocket"),
                                         .keep_alive = true};
    struct mare__http_reader reader;
    struct mare__bytes out = {0};
    struct transcript transcript = {0};
    assert_int_equal(mare__http_put_request(&out, &request), 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(mare__http_put_chunk(&out, "0123456789abcdefghij", (size_t)i), 0);
    assert_int_equal(mare__http_put_last_chunk(&out), 0);
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    transcript_piece(&transcript, &reader, out.at, out.size);
    transcript_end(&transcript, &reader);
    check_out(&transcript.text,
              "HEAD POST /a?b=%20 HTTP/1.1 keep-alive body=chunked upgrade=websocket\n"
              "  Host: [::1]:80\n  Transfer-Encoding: chunked\n"
              "  Upgrade: websocket\n  Connection: upgrade\n"
              "  A: b, c\t\"d\" \xff\n  Empty: \n  A: again\n"
              "BODY 00101201230123401234501234560123456701234567801234567890123456789a"
              "0123456789ab0123456789abc0123456789abcd0123456789abcde"
              "0123456789abcdef0123456789abcdefg0123456789abcdefgh"
              "0123456789abcdefghi\nEND\nCLOSED\n");
    mare__http_reader_fini(&reader);
    mare__bytes_fini(&out);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static char name[600];
    memset(name, 'n', sizeof name);
    struct mare__http_field fields[] = {{{name, sizeof name}, {name, sizeof name}},
                                        {{name, sizeof name}, {name, sizeof name}}};
    struct mare__http_response response = plain_response;
    response.fields = fields;
    response.count = 2;
    int failures = 0;
    for (long n = 1;; n++) {
        struct mare__bytes out = {0};
        mare__alloc_fail_after(n);
        mare_err err = mare__http_put_response(&out, &response);
        mare__alloc_fail_after(0);
        assert_true(err == MARE_OK || err == MARE_NOMEM);
        assert_int_equal(out.size == 0, err == MARE_NOMEM);
        mare__bytes_fini(&out);
        if (!err)
            break;
        failures++;
    }
    assert_true(failures >= 2);
    struct mare__bytes out = {0};
    mare__alloc_fail_after(1);
    assert_int_equal(mare__http_put_chunk(&out, name, sizeof name), MARE_NOMEM);
    assert_int_equal(mare__http_put_last_chunk(&out), MARE_NOMEM);
    mare__alloc_fail_after(0);
    assert_int_equal(out.size, 0);
}

UNIT_TESTS(cmocka_unit_test(a_response_with_a_length), cmocka_unit_test(responses_say_how_they_end),
           cmocka_unit_test(the_smallest_and_the_largest),
           cmocka_unit_test(statuses_have_their_usual_words),
           cmocka_unit_test(a_response_that_switches), cmocka_unit_test(a_request),
           cmocka_unit_test(a_field_cannot_break_out), cmocka_unit_test(nothing_else_can_break_out),
           cmocka_unit_test(what_the_writer_makes_itself_is_refused),
           cmocka_unit_test(bodies_that_cannot_be_are_refused),
           cmocka_unit_test(what_is_written_is_read_back),
           cmocka_unit_test(every_allocation_may_fail))
