// SPDX-License-Identifier: MIT
// The reader of HTTP: what it makes of good messages, wherever the bytes are cut. What is expected
// is what RFC 9110 and RFC 9112 say; the sections are named where it is not obvious.
#include "http_transcript.h"

// ---- Requests that are good ---------------------------------------------------------------------

static void a_request_without_a_body(void **state)
{
    (void)state;
    check_requests("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
                   "HEAD GET / HTTP/1.1 keep-alive body=none\n"
                   "  Host: example.org\n"
                   "END\nCLOSED\n");
}

static void values_lose_the_white_space_around_them(void **state)
{
    (void)state;
    check_requests("GET /a HTTP/1.1\r\nHost:\t example.org\t \r\nA:b\r\nEmpty:\r\nSpaces:  \r\n"
                   "Accept: a, b ;q=1\r\nText: \xc3\xa9\r\n\r\n",
                   "HEAD GET /a HTTP/1.1 keep-alive body=none\n"
                   "  Host: example.org\n  A: b\n  Empty: \n  Spaces: \n"
                   "  Accept: a, b ;q=1\n  Text: \xc3\xa9\n"
                   "END\nCLOSED\n");
}

static void a_host_may_be_many_things(void **state)
{
    (void)state;
    static const char *const hosts[] = {"", "a", "a:", "a:65535", "[::1]", "[v1.a]:1", "a-b.c_d~!"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        char bytes[100], expected[100];
        snprintf(bytes, sizeof bytes, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
        snprintf(expected, sizeof expected,
                 "HEAD GET / HTTP/1.1 keep-alive body=none\n  Host: %s\nEND\nCLOSED\n", hosts[i]);
        check_requests(bytes, expected);
    }
}

static void a_body_of_a_known_length(void **state)
{
    (void)state;
    check_requests("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello\r\n\r\nab",
                   "HEAD POST /x HTTP/1.1 keep-alive body=length:11\n"
                   "  Host: a\n  Content-Length: 11\n"
                   "BODY hello\r\n\r\nab\nEND\nCLOSED\n");
    check_requests("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
                   "HEAD POST /x HTTP/1.1 keep-alive body=none\n"
                   "  Host: a\n  Content-Length: 0\nEND\nCLOSED\n");
    check_requests("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding-X: y\r\n"
                   "Content-LengthX: z\r\nContent-Length: 1\r\n\r\nb",
                   "HEAD POST / HTTP/1.1 keep-alive body=length:1\n"
                   "  Host: a\n  Transfer-Encoding-X: y\n  Content-LengthX: z\n"
                   "  Content-Length: 1\nBODY b\nEND\nCLOSED\n");
    check_requests("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\n\r\nabc",
                   "HEAD POST /x HTTP/1.1 keep-alive body=length:3\n"
                   "  Host: a\n  Content-Length: 003\nBODY abc\nEND\nCLOSED\n");
}

static void a_body_in_chunks(void **state)
{
    (void)state;
    check_requests("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                   "0009\r\nchunks 9 \r\n5\r\nhello\r\n"
                   "1;name=\"v;w\"\r\n \r\n00A \t;x\r\nworld\r\n\r\nx\r\n000\r\n\r\n",
                   "HEAD POST /x HTTP/1.1 keep-alive body=chunked\n"
                   "  Host: a\n  Transfer-Encoding: Chunked\n"
                   "BODY chunks 9 hello world\r\n\r\nx\nEND\nCLOSED\n");
}

static void trailers_are_read_and_forgotten(void **state)
{
    (void)state;
    check_requests("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "1\r\na\r\n0\r\nDigest: x\r\nContent-Length: 5\r\n\r\n"
                   "GET /y HTTP/1.1\r\nHost: a\r\n\r\n",
                   "HEAD POST /x HTTP/1.1 keep-alive body=chunked\n"
                   "  Host: a\n  Transfer-Encoding: chunked\nBODY a\nEND\n"
                   "HEAD GET /y HTTP/1.1 keep-alive body=none\n  Host: a\nEND\nCLOSED\n");
}

static void requests_in_a_row_come_one_by_one(void **state)
{
    (void)state;
    check_requests("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
                   "\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n" // an empty line may stand before
                   "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                   "GET /4 HTTP/1.1\r\nHost: a\r\n\r\n",
                   "HEAD POST /1 HTTP/1.1 keep-alive body=length:2\n"
                   "  Host: a\n  Content-Length: 2\nBODY ab\nEND\n"
                   "HEAD GET /2 HTTP/1.1 keep-alive body=none\n  Host: a\nEND\n"
                   "HEAD POST /3 HTTP/1.1 keep-alive body=chunked\n"
                   "  Host: a\n  Transfer-Encoding: chunked\nEND\n"
                   "HEAD GET /4 HTTP/1.1 keep-alive body=none\n  Host: a\nEND\nCLOSED\n");
}

static void what_comes_after_an_event_stays_with_the_caller(void **state)
{
    (void)state;
    static const char bytes[] = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n";
    struct mare__http_reader reader;
    size_t used;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, bytes, sizeof bytes - 1, &used), MARE__HTTP_HEAD);
    assert_int_equal(used, strlen("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_int_equal(mare__http_read(&reader, bytes + used, sizeof bytes - 1 - used, &used),
                     MARE__HTTP_END);
    assert_int_equal(used, 0);
    mare__http_reader_fini(&reader);
}

static void connections_are_kept_or_closed(void **state)
{
    (void)state;
    static const struct {
        const char *version, *fields;
        bool keep;
    } cases[] = {
        {"HTTP/1.1", "", true},
        {"HTTP/1.1", "Connection: close\r\n", false},
        {"HTTP/1.1", "Connection: Close\r\n", false},
        {"HTTP/1.1", "Connection: foo, close\r\n", false},
        {"HTTP/1.1", "Connection: keep-alive, close\r\n", false},
        {"HTTP/1.1", "Connection: foo\r\nConnection: close\r\n", false},
        {"HTTP/1.1", "Connection: closed\r\n", true},
        {"HTTP/1.1", "Connection: close-not\r\n", true},
        {"HTTP/1.1", "Connection: cloze\r\n", true},
        {"HTTP/1.1", "Connection: CLOSE\r\n", false},
        {"HTTP/1.1", "X-Zzzzzzzz: close\r\n", true},
        {"HTTP/1.1", "Proxy-Connection: close\r\n", true}, // no field of HTTP
        {"HTTP/1.7", "", true},                            // RFC 9110 section 2.5: as HTTP/1.1
        {"HTTP/1.0", "", false},
        {"HTTP/1.0", "Connection: keep-alive\r\n", true},
        {"HTTP/1.0", "Connection: foo , Keep-Alive\r\n", true},
        {"HTTP/1.0", "Connection: keep-alive, close\r\n", false}, // RFC 9112 section 9.3
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[200];
        struct mare__http_reader reader;
        size_t used;
        snprintf(bytes, sizeof bytes, "GET / %s\r\nHost: a\r\n%s\r\n", cases[i].version,
                 cases[i].fields);
        mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
        assert_int_equal(mare__http_read(&reader, bytes, strlen(bytes), &used), MARE__HTTP_HEAD);
        if (reader.head.keep_alive != cases[i].keep)
            fail_msg("%s", bytes);
        mare__http_reader_fini(&reader);
    }
}

static void nothing_is_read_after_the_last_message(void **state)
{
    (void)state;
    check_requests("GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                   "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
                   "HEAD GET /1 HTTP/1.1 body=none\n  Host: a\n  Connection: close\nEND\nCLOSED\n");
    check_requests("GET /1 HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
                   "HEAD GET /1 HTTP/1.0 body=none\nEND\nCLOSED\n");
}

static void targets_come_in_four_forms(void **state)
{
    (void)state;
    static const struct {
        const char *line, *path, *query, *host; // NULL: none
    } cases[] = {
        {"GET / HTTP/1.1", "/", NULL, "field"},
        {"GET /a/b%20c HTTP/1.1", "/a/b%20c", NULL, "field"},
        {"GET /a? HTTP/1.1", "/a", "", "field"},
        {"GET /a?b=/c?d HTTP/1.1", "/a", "b=/c?d", "field"},
        {"GET //a HTTP/1.1", "//a", NULL, "field"},
        {"GET http://example.org/a?b HTTP/1.1", "/a", "b", "example.org"},
        {"GET http://example.org HTTP/1.1", "/", NULL, "example.org"},
        {"GET http://example.org:80?b HTTP/1.1", "/", "b", "example.org:80"},
        {"GET HTTP://[::1]:8080/ HTTP/1.1", "/", NULL, "[::1]:8080"},
        {"OPTIONS * HTTP/1.1", "*", NULL, "field"},
        {"CONNECT example.org:443 HTTP/1.1", NULL, NULL, "example.org:443"},
        {"CONNECT [::1]:443 HTTP/1.1", NULL, NULL, "[::1]:443"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[200];
        struct mare__http_reader reader;
        size_t used;
        snprintf(bytes, sizeof bytes, "%s\r\nHost: field\r\n\r\n", cases[i].line);
        mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
        assert_int_equal(mare__http_read(&reader, bytes, strlen(bytes), &used), MARE__HTTP_HEAD);
        const struct mare__http_head *head = &reader.head;
        const struct {
            struct mare__span got;
            const char *expected;
        } parts[] = {{head->path, cases[i].path},
                     {head->query, cases[i].query},
                     {head->host, cases[i].host}};
        for (size_t j = 0; j < 3; j++) {
            assert_int_equal(parts[j].got.at != NULL, parts[j].expected != NULL);
            if (parts[j].expected) {
                assert_int_equal(parts[j].got.size, strlen(parts[j].expected));
                assert_memory_equal(parts[j].got.at, parts[j].expected, parts[j].got.size);
            }
        }
        mare__http_reader_fini(&reader);
    }
}

static void a_client_may_wait_for_a_100(void **state)
{
    (void)state;
    check_requests(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
        "HEAD POST / HTTP/1.1 keep-alive expect body=length:1\n"
        "  Host: a\n  Expect: 100-Continue\n  Content-Length: 1\nBODY x\nEND\nCLOSED\n");
    // HTTP/1.0 has no such thing, and without a body there is nothing to wait for.
    check_requests("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
                   "HEAD POST / HTTP/1.0 body=length:1\n"
                   "  Expect: 100-continue\n  Content-Length: 1\nBODY x\nEND\nCLOSED\n");
    check_requests("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
                   "HEAD GET / HTTP/1.1 keep-alive body=none\n"
                   "  Host: a\n  Expect: 100-continue\nEND\nCLOSED\n");
}

static void an_upgrade_can_be_asked_for(void **state)
{
    (void)state;
    check_requests("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"
                   "Upgrade: websocket\r\n\r\n",
                   "HEAD GET / HTTP/1.1 keep-alive body=none upgrade=websocket\n"
                   "  Host: a\n  Connection: keep-alive, Upgrade\n  Upgrade: websocket\n"
                   "END\nCLOSED\n");
    // Not without Connection, and not in HTTP/1.0: RFC 9110 section 7.8. When it is not granted,
    // the next request follows.
    check_requests(
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n"
        "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HEAD GET / HTTP/1.1 keep-alive body=none\n  Host: a\n  Upgrade: websocket\nEND\n"
        "HEAD GET / HTTP/1.0 body=none\n  Connection: upgrade\n  Upgrade: websocket\n"
        "END\nCLOSED\n");
    check_requests("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
                   "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
                   "HEAD GET / HTTP/1.1 keep-alive body=none upgrade=h2c\n"
                   "  Host: a\n  Connection: upgrade\n  Upgrade: h2c\nEND\n"
                   "HEAD GET /2 HTTP/1.1 keep-alive body=none\n  Host: a\nEND\nCLOSED\n");
}

static void no_bytes_at_all(void **state)
{
    (void)state;
    struct mare__http_reader reader;
    size_t used = 1;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, NULL, 0, &used), MARE__HTTP_MORE);
    assert_int_equal(used, 0);
    mare__http_reader_fini(&reader);
}

static void fields_are_found_in_any_case(void **state)
{
    (void)state;
    static const char bytes[] =
        "GET / HTTP/1.1\r\nhost: a\r\nAccept: x,  y\r\nACCEPT: , z ,\r\n\r\n";
    struct mare__http_reader reader;
    struct mare__span value;
    size_t used;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, bytes, sizeof bytes - 1, &used), MARE__HTTP_HEAD);
    assert_true(mare__http_find(&reader.head, "aCCept", &value));
    assert_int_equal(value.size, 5);
    assert_memory_equal(value.at, "x,  y", 5);
    assert_false(mare__http_find(&reader.head, "accep", &value));
    assert_true(mare__http_has_token(&reader.head, "accept", "Y"));
    assert_true(mare__http_has_token(&reader.head, "accept", "z"));
    assert_false(mare__http_has_token(&reader.head, "accept", "x,"));
    assert_false(mare__http_has_token(&reader.head, "host", "b"));
    mare__http_reader_fini(&reader);
}

// ---- Responses ----------------------------------------------------------------------------------

static void responses_with_each_kind_of_body(void **state)
{
    (void)state;
    check_responses("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"
                    "HTTP/1.1 404 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
                    "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"
                    "HTTP/1.1 200 Fine, \xc3\xa9\r\nX: y\r\n\r\nto the end\r\n",
                    "HEAD 200 OK HTTP/1.1 keep-alive body=length:2\n  Content-Length: 2\n"
                    "BODY ab\nEND\n"
                    "HEAD 404  HTTP/1.1 keep-alive body=chunked\n  Transfer-Encoding: chunked\n"
                    "BODY x\nEND\n"
                    "HEAD 200  HTTP/1.1 keep-alive body=none\n  Content-Length: 0\nEND\n"
                    "HEAD 200 Fine, \xc3\xa9 HTTP/1.1 body=until-close\n  X: y\n"
                    "BODY to the end\r\n\nENDED\n");
}

static void more_methods_can_be_known(void **state)
{
    (void)state;
    struct setup setup = {.kind = MARE__HTTP_REQUESTS, .methods = "QUERY A  BREW-TEA"};
    check(&setup,
          BYTES("QUERY /a?b HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi"
                "A / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                "BREW-TEA / HTTP/1.1\r\nHost: c\r\n\r\nGETX / HTTP/1.1\r\nHost: c\r\n\r\n"),
          "HEAD QUERY /a?b HTTP/1.1 keep-alive body=length:2\n  Host: c\n  Content-Length: 2\n"
          "BODY hi\nEND\nHEAD A / HTTP/1.0 keep-alive body=none\n  Connection: keep-alive\nEND\n"
          "HEAD BREW-TEA / HTTP/1.1 keep-alive body=none\n  Host: c\nEND\nERROR 501\n");
    check(&setup, BYTES("QUER / HTTP/1.1\r\nHost: c\r\n\r\n"), "ERROR 501\n");
    check(&setup, BYTES("BREW / HTTP/1.1\r\nHost: c\r\n\r\n"), "ERROR 501\n");
    check(&setup, BYTES("query / HTTP/1.1\r\nHost: c\r\n\r\n"), "ERROR 501\n");
}

static void responses_without_a_body(void **state)
{
    (void)state;
    check_responses("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
                    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"
                    "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
                    "HEAD 204 No Content HTTP/1.1 keep-alive body=none\n  Content-Length: 0\nEND\n"
                    "HEAD 304 Not Modified HTTP/1.1 keep-alive body=none\n"
                    "  Content-Length: 5\nEND\n"
                    "HEAD 304 Not Modified HTTP/1.1 keep-alive body=none\n"
                    "  Transfer-Encoding: chunked\nEND\nCLOSED\n");
}

// The body that is announced may come: it is nothing that a further request could be answered with.
static void a_body_that_cannot_be_there_is_not_the_next_response(void **state)
{
    (void)state;
    static const char next[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char bytes[200];
    snprintf(bytes, sizeof bytes, "HTTP/1.1 204 No Content\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof next - 1, next);
    check_responses(bytes, "HEAD 204 No Content HTTP/1.1 body=none\n"
                           "  Content-Length: 38\nEND\nCLOSED\n");
    check_responses("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    "HEAD 204 No Content HTTP/1.1 body=none\n"
                    "  Transfer-Encoding: chunked\nEND\nCLOSED\n");
    check_responses("HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\n", "ERROR 502\n");
    check_responses("HTTP/1.1 101 Upgrade\r\nTransfer-Encoding: chunked\r\n\r\n", "ERROR 502\n");
    check_responses("HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
                    "HEAD 100 Continue HTTP/1.1 keep-alive interim body=none\n"
                    "  Content-Length: 0\nEND\nCLOSED\n");
}

// What is expected holds for one response, and for the interim ones before it.
static void the_answer_to_head_has_no_body(void **state)
{
    (void)state;
    static const char bytes[] = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
                                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    struct setup setup = {.kind = MARE__HTTP_RESPONSES, .answers = "HEAD"};
    check(&setup, BYTES(bytes),
          "HEAD 103 Early Hints HTTP/1.1 keep-alive interim body=none\n  Link: </a>\nEND\n"
          "HEAD 200 OK HTTP/1.1 keep-alive body=none\n  Content-Length: 2\nEND\n"
          "HEAD 200 OK HTTP/1.1 keep-alive body=length:2\n  Content-Length: 2\nBODY ab\nEND\n"
          "CLOSED\n");
}

static void nothing_is_read_after_a_switch(void **state)
{
    (void)state;
    static const struct {
        const char *answers, *head;
    } cases[] = {
        {"GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"},
        {"CONNECT", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}, // RFC 9110 section 9.3.6
    };
    for (size_t i = 0; i < 2; i++) {
        char bytes[200];
        struct mare__http_reader reader;
        size_t used, more;
        snprintf(bytes, sizeof bytes, "%sHTTP/1.1 200", cases[i].head);
        mare__http_reader_init(&reader, MARE__HTTP_RESPONSES);
        mare__http_reader_expect(&reader, mare__span_of(cases[i].answers));
        assert_int_equal(mare__http_read(&reader, bytes, strlen(bytes), &used), MARE__HTTP_HEAD);
        assert_int_equal(used, strlen(cases[i].head));
        assert_int_equal(reader.head.upgrade.size, i == 0 ? 1 : 0);
        assert_int_equal(mare__http_read(&reader, bytes + used, 12, &more), MARE__HTTP_END);
        assert_int_equal(more, 0);
        assert_int_equal(mare__http_read(&reader, bytes + used, 12, &more), MARE__HTTP_MORE);
        assert_int_equal(more, 0);
        assert_int_equal(mare__http_read_end(&reader), MARE__HTTP_MORE);
        mare__http_reader_fini(&reader);
    }
    static const char *const others[] = {"POST", "OPTIONS", "head"}; // as long as the two, or alike
    for (size_t i = 0; i < 3; i++) {
        struct setup other = {.kind = MARE__HTTP_RESPONSES, .answers = others[i]};
        check(&other, BYTES("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
              "HEAD 200 OK HTTP/1.1 keep-alive body=length:1\n  Content-Length: 1\nBODY x\nEND\n"
              "CLOSED\n");
    }
    struct setup refused = {.kind = MARE__HTTP_RESPONSES, .answers = "CONNECT"};
    check(&refused, BYTES("HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\nx"),
          "HEAD 403 No HTTP/1.1 keep-alive body=length:1\n  Content-Length: 1\nBODY x\nEND\n"
          "CLOSED\n");
}

static void a_malformed_response_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.11 200 OK\r\n\r\n",
        "HTTPS/1.1 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n", // only a server passes over empty lines
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX : a\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_responses(cases[i], "ERROR 502\n");
}

static void responses_keep_or_close_the_connection(void **state)
{
    (void)state;
    check_responses("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\naHTTP/1.1",
                    "HEAD 200 OK HTTP/1.1 body=length:1\n"
                    "  Content-Length: 1\n  Connection: close\nBODY a\nEND\nCLOSED\n");
    check_responses("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
                    "HEAD 200 OK HTTP/1.0 body=length:1\n  Content-Length: 1\n"
                    "BODY a\nEND\nCLOSED\n");
    check_responses("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\na",
                    "HEAD 200 OK HTTP/1.0 keep-alive body=length:1\n"
                    "  Content-Length: 1\n  Connection: keep-alive\nBODY a\nEND\nCLOSED\n");
    check_responses("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
                    "HEAD 200 OK HTTP/1.1 keep-alive body=length:3\n  Content-Length: 3\n"
                    "BODY ab\nCUT\n");
}

// ---- Memory -------------------------------------------------------------------------------------

static enum mare__http_event read_one(struct mare__http_reader *reader, const char *bytes)
{
    size_t size = strlen(bytes), used;
    enum mare__http_event event;
    do {
        event = mare__http_read(reader, bytes, size, &used);
        bytes += used;
        size -= used;
    } while (event == MARE__HTTP_HEAD || event == MARE__HTTP_BODY);
    return event;
}

static const char large[] = "POST /abcdefghijklmnopqrstuvwxyz HTTP/1.1\r\nHost: a\r\n"
                            "a:1\r\na:2\r\na:3\r\na:4\r\na:5\r\na:6\r\na:7\r\na:8\r\na:9\r\n"
                            "a:1\r\na:2\r\na:3\r\na:4\r\na:5\r\na:6\r\na:7\r\na:8\r\na:9\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n";

static void a_warm_reader_allocates_nothing(void **state)
{
    (void)state;
    struct mare__http_reader reader;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(read_one(&reader, large), MARE__HTTP_END);
    mare__alloc_fail_after(1);
    for (int i = 0; i < 10; i++)
        assert_int_equal(read_one(&reader, large), MARE__HTTP_END);
    mare__http_reader_trim(&reader);
    assert_int_equal(read_one(&reader, large), MARE__HTTP_ERROR);
    mare__alloc_fail_after(0);
    mare__http_reader_fini(&reader);
}

static void an_idle_reader_gives_its_memory_back(void **state)
{
    (void)state;
    static const struct {
        enum mare__http_kind kind;
        const char *bytes;
    } cases[] = {
        {MARE__HTTP_REQUESTS, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {MARE__HTTP_REQUESTS, "GET / HTTP/1.0\r\nHost: a\r\n\r\n"},
        {MARE__HTTP_REQUESTS, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
        {MARE__HTTP_RESPONSES, "HTTP/1.1 101 OK\r\nUpgrade: x\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__http_reader reader;
        mare__http_reader_init(&reader, cases[i].kind);
        read_one(&reader, cases[i].bytes);
        assert_non_null(reader.text.at);
        mare__http_reader_trim(&reader);
        assert_null(reader.text.at);
        assert_null(reader.fields);
        assert_int_equal(reader.head.count, 0);
        mare__http_reader_fini(&reader);
    }
}

static void a_message_without_a_body_ends_with_the_connection(void **state)
{
    (void)state;
    static const char bytes[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    struct mare__http_reader reader;
    size_t used;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, BYTES(bytes), &used), MARE__HTTP_HEAD);
    assert_int_equal(mare__http_read_end(&reader), MARE__HTTP_END);
    assert_int_equal(mare__http_read_end(&reader), MARE__HTTP_MORE);
    mare__http_reader_fini(&reader);
}

static void a_reader_in_a_message_keeps_its_memory(void **state)
{
    (void)state;
    static const char bytes[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";
    struct mare__http_reader reader;
    size_t used;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, BYTES(bytes), &used), MARE__HTTP_HEAD);
    mare__http_reader_trim(&reader);
    assert_int_equal(reader.head.count, 2);
    assert_memory_equal(reader.head.fields[0].name.at, "Host", 4);
    mare__http_reader_fini(&reader);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    int failures = 0;
    for (long n = 1;; n++) {
        struct mare__http_reader reader;
        mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
        mare__alloc_fail_after(n);
        enum mare__http_event event = read_one(&reader, large);
        mare__alloc_fail_after(0);
        if (event == MARE__HTTP_ERROR) {
            assert_int_equal(reader.error.code, MARE_NOMEM);
            assert_int_equal(reader.error.status, 503);
        }
        mare__http_reader_fini(&reader);
        if (event != MARE__HTTP_ERROR)
            break;
        failures++;
    }
    assert_true(failures >= 3); // the text, the fields, and the fields when there are more of them
}

UNIT_TESTS(cmocka_unit_test(a_request_without_a_body),
           cmocka_unit_test(values_lose_the_white_space_around_them),
           cmocka_unit_test(a_host_may_be_many_things), cmocka_unit_test(a_body_of_a_known_length),
           cmocka_unit_test(a_body_in_chunks), cmocka_unit_test(trailers_are_read_and_forgotten),
           cmocka_unit_test(requests_in_a_row_come_one_by_one),
           cmocka_unit_test(what_comes_after_an_event_stays_with_the_caller),
           cmocka_unit_test(connections_are_kept_or_closed),
           cmocka_unit_test(nothing_is_read_after_the_last_message),
           cmocka_unit_test(targets_come_in_four_forms),
           cmocka_unit_test(a_client_may_wait_for_a_100),
           cmocka_unit_test(an_upgrade_can_be_asked_for), cmocka_unit_test(no_bytes_at_all),
           cmocka_unit_test(fields_are_found_in_any_case),
           cmocka_unit_test(responses_with_each_kind_of_body),
           cmocka_unit_test(more_methods_can_be_known), cmocka_unit_test(responses_without_a_body),
           cmocka_unit_test(a_body_that_cannot_be_there_is_not_the_next_response),
           cmocka_unit_test(the_answer_to_head_has_no_body),
           cmocka_unit_test(nothing_is_read_after_a_switch),
           cmocka_unit_test(a_malformed_response_is_refused),
           cmocka_unit_test(responses_keep_or_close_the_connection),
           cmocka_unit_test(a_warm_reader_allocates_nothing),
           cmocka_unit_test(an_idle_reader_gives_its_memory_back),
           cmocka_unit_test(a_message_without_a_body_ends_with_the_connection),
           cmocka_unit_test(a_reader_in_a_message_keeps_its_memory),
           cmocka_unit_test(every_allocation_may_fail))
