// SPDX-License-Identifier: MIT
// The reader of HTTP: what it makes of bad requests, and of those that are too large, wherever the
// bytes are cut. The statuses are those of RFC 9110, RFC 9112 and RFC 6585; where the first two let
// a server choose between mending and refusing, this one refuses.
#include "http_transcript.h"

// ---- Malformed ----------------------------------------------------------------------------------

static const struct setup requests = {.kind = MARE__HTTP_REQUESTS};

#define LINE "GET / HTTP/1.1\r\n"
#define HOST LINE "Host: a\r\n"
#define CHUNKS HOST "Transfer-Encoding: chunked\r\n\r\n"

static const struct malformed {
    const char *bytes;
    size_t size;
    int status;
} malformed[] = {
    // Line breaks, and what they are taken for (RFC 9112 section 2.2).
    {BYTES("GET / HTTP/1.1\nHost: a\n\n"), 400},
    {BYTES("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400},
    {BYTES("GET / HTTP/1.1\r\nHost: a\r\n\n"), 400},
    {BYTES("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.1\rHost: a\r\n\r\n"), 400},
    {BYTES(HOST "X: a\rb\r\n\r\n"), 400},
    {BYTES(HOST "X: a\r\r\n\r\n"), 400},
    {BYTES(HOST "\rX: a\r\n\r\n"), 400},
    {BYTES("\r\n\r\n" HOST "\r\n"), 400},
    {BYTES("\n" HOST "\r\n"), 400},
    {BYTES("\r" HOST "\r\n"), 400},
    // Folded lines (RFC 9112 section 5.2), also before the first field (section 2.2).
    {BYTES(HOST "X: a\r\n b\r\n\r\n"), 400},
    {BYTES(HOST "X: a\r\n\tb\r\n\r\n"), 400},
    {BYTES(HOST "X: a\r\n \r\n\r\n"), 400},
    {BYTES(LINE " Host: a\r\n\r\n"), 400},
    // Names (RFC 9112 section 5.1) and values (RFC 9110 section 5.5).
    {BYTES(HOST "X : a\r\n\r\n"), 400},
    {BYTES(HOST "X\t: a\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding : chunked\r\n\r\n"), 400},
    {BYTES(HOST ": a\r\n\r\n"), 400},
    {BYTES(HOST "X\r\n\r\n"), 400},
    {BYTES(HOST "X Y: a\r\n\r\n"), 400},
    {BYTES(HOST "X(: a\r\n\r\n"), 400},
    {BYTES(HOST "\xc3\xa9: a\r\n\r\n"), 400},
    {BYTES(HOST "X\0: a\r\n\r\n"), 400},
    {BYTES(HOST "X: a\0b\r\n\r\n"), 400},
    {BYTES(HOST "X: a\x01\r\n\r\n"), 400},
    {BYTES(HOST "X: a\x7f\r\n\r\n"), 400},
    {BYTES(HOST "X: a\x0b\r\n\r\n"), 400},
    // Methods (RFC 9110 section 9.1: 501 when it is not known).
    {BYTES("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("A / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("GETX / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("GE / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {BYTES("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("\x16\x03\x01\x02\x00\x01\x00\x01"), 400}, // TLS where there is none
    // Targets (RFC 9112 section 3.2).
    {BYTES("GET\r\n\r\n"), 400},
    {BYTES("GET /\r\n\r\n"), 400},
    {BYTES("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET  HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /\t HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET ?a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400}, // RFC 9110 section 4.2.4
    {BYTES("GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("CONNECT a1: HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("CONNECT :80 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    // Versions (RFC 9110 section 15.6.6: 505).
    {BYTES("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
    {BYTES("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505},
    {BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
    {BYTES("GET / HTTP/1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/11\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / http/1.1\r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400},
    {BYTES("GET / \r\nHost: a\r\n\r\n"), 400},
    {BYTES("SOURCE / ICE/1.0\r\nHost: a\r\n\r\n"), 400},
    // The Host (RFC 9112 section 3.2).
    {BYTES(LINE "\r\n"), 400},
    {BYTES(LINE "Hos: a\r\n\r\n"), 400},
    {BYTES(HOST "Host: a\r\n\r\n"), 400},
    {BYTES(HOST "hOST: b\r\n\r\n"), 400},
    {BYTES("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400},
    {BYTES("GET http://a/ HTTP/1.1\r\n\r\n"), 400},
    {BYTES(LINE "Host: a b\r\n\r\n"), 400},
    {BYTES(LINE "Host: a, b\r\n\r\n"), 400},
    {BYTES(LINE "Host: a/b\r\n\r\n"), 400},
    {BYTES(LINE "Host: u@a\r\n\r\n"), 400},
    {BYTES(LINE "Host: a:b\r\n\r\n"), 400},
    {BYTES(LINE "Host: a:1:2\r\n\r\n"), 400},
    {BYTES(LINE "Host: a:123456\r\n\r\n"), 400}, // no port is as long
    {BYTES(LINE "Host: [::1\r\n\r\n"), 400},
    {BYTES(LINE "Host: [::1]x\r\n\r\n"), 400},
    {BYTES(LINE "Host: []\r\n\r\n"), 400},
    {BYTES(LINE "Host: [@]\r\n\r\n"), 400},
    {BYTES(LINE "Host: [a/b]\r\n\r\n"), 400},
    {BYTES(LINE "Host: @a\r\n\r\n"), 400},
    {BYTES(LINE "Host: /\r\n\r\n"), 400},
    {BYTES(LINE "Hose: a\r\n\r\n"), 400},
    // The length of the body (RFC 9112 section 6.3).
    {BYTES(HOST "Content-Length: \r\n\r\n"), 400},
    {BYTES(HOST "Content-Length:\r\n\r\n"), 400},
    {BYTES(HOST "Content-Length: -1\r\n\r\n"), 400},
    {BYTES(HOST "Content-Length: +1\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 1a\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 0x1\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 1 1\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 1, 2\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 9223372036854775808\r\n\r\n"), 413}, // RFC 9110 section 8.6
    {BYTES(HOST "Content-Length: 9223372036854775813\r\n\r\nabcde"), 413},
    {BYTES(HOST "Content-Length: 18446744073709550000\r\n\r\nx"), 413},
    {BYTES(HOST "Content-Length: 18446744073709551616\r\n\r\n"), 400},
    {BYTES(HOST "Content-Length: 18446744073709551617\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), 400},
    {BYTES(HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked\r\nContent-Length:\r\n\r\n"), 400},
    // The transfer codings (RFC 9112 section 6.1 and 6.3).
    {BYTES(HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"), 501},
    {BYTES(HOST "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"), 501},
    {BYTES(HOST "Transfer-Encoding: gzip\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: identity\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding:\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked, gzip\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: , chunked\r\n\r\n"), 400}, // stricter than RFC 9110
    {BYTES(HOST "Transfer-Encoding: chunker\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: xchunked\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunkedx\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: \"chunked\"\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: chunked;q=1\r\n\r\n"), 400},
    {BYTES(HOST "Transfer-Encoding: \x0b"
                "chunked\r\n\r\n"),
     400},
    {BYTES("GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), 400},
    // Expectations (RFC 9110 section 10.1.1).
    {BYTES(HOST "Expect: 200-ok\r\nContent-Length: 1\r\n\r\nx"), 417},
};

// In chunks, after a good head (RFC 9112 section 7.1).
static const struct malformed malformed_chunks[] = {
    {BYTES(CHUNKS "g\r\n"), 400},
    {BYTES(CHUNKS "\r\n"), 400},
    {BYTES(CHUNKS ";a\r\n"), 400},
    {BYTES(CHUNKS " 1\r\na\r\n"), 400},
    {BYTES(CHUNKS "-1\r\na\r\n"), 400},
    {BYTES(CHUNKS "+1\r\na\r\n"), 400},
    {BYTES(CHUNKS "0x1\r\na\r\n"), 400},
    {BYTES(CHUNKS "1 \r\na\r\n"), 400},
    {BYTES(CHUNKS "1 1\r\na\r\n"), 400},
    {BYTES(CHUNKS "1\na\r\n"), 400},
    {BYTES(CHUNKS "1\ra\r\n"), 400},
    {BYTES(CHUNKS "1\r\rn"), 400},
    {BYTES(CHUNKS "1,a\r\na\r\n"), 400},
    {BYTES(CHUNKS "1;a\nb\r\na\r\n"), 400},
    {BYTES(CHUNKS "1;a\rb\r\na\r\n"), 400},
    {BYTES(CHUNKS "1;a\0\r\na\r\n"), 400},
    {BYTES(CHUNKS "00000000000000001\r\na\r\n"), 400},
    {BYTES(CHUNKS "10000000000000001\r\na\r\n"), 400},
    {BYTES(CHUNKS "ffffffffffffffff\r\na\r\n"), 413},
    {BYTES(CHUNKS "0\r\n X: a\r\n\r\n"), 400},
    {BYTES(CHUNKS "0\r\nX: a\n\r\n"), 400},
    {BYTES(CHUNKS "0\r\nX : a\r\n\r\n"), 400},
    {BYTES(CHUNKS "0\r\nX: a\r\n b\r\n\r\n"), 400},
    {BYTES(CHUNKS "0\r\n: a\r\n\r\n"), 400},
    {BYTES(CHUNKS "0\r\nGET / HTTP/1.1\r\n\r\n"), 400},
    {BYTES(CHUNKS "0\r\n\n"), 400},
    {BYTES(CHUNKS "0\r\n\rX"), 400},
};

static void a_malformed_request_is_told_with_its_status(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        char expected[20];
        snprintf(expected, sizeof expected, "ERROR %d\n", malformed[i].status);
        check(&requests, malformed[i].bytes, malformed[i].size, expected);
    }
}

static void malformed_chunks_are_told_after_the_head(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed_chunks / sizeof *malformed_chunks; i++) {
        char expected[200];
        snprintf(expected, sizeof expected,
                 "HEAD GET / HTTP/1.1 keep-alive body=chunked\n"
                 "  Host: a\n  Transfer-Encoding: chunked\nERROR %d\n",
                 malformed_chunks[i].status);
        check(&requests, malformed_chunks[i].bytes, malformed_chunks[i].size, expected);
    }
}

static void a_chunk_ends_where_its_size_says(void **state)
{
    (void)state;
    static const char head[] = "HEAD GET / HTTP/1.1 keep-alive body=chunked\n"
                               "  Host: a\n  Transfer-Encoding: chunked\nBODY ";
    static const struct {
        const char *bytes, *body;
    } cases[] = {
        {CHUNKS "1\r\nab\r\n", "a"},        {CHUNKS "1\r\na0\r\n\r\n", "a"},
        {CHUNKS "1\r\na\n0\r\n\r\n", "a"},  {CHUNKS "1\r\na\rx", "a"},
        {CHUNKS "2\r\nab\r\nxy\r\n", "ab"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[300];
        snprintf(expected, sizeof expected, "%s%s\nERROR 400\n", head, cases[i].body);
        check_requests(cases[i].bytes, expected);
    }
}

static void a_message_that_is_cut_short_is_told(void **state)
{
    (void)state;
    static const char bytes[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "3\r\nabc\r\n0\r\nX: y\r\n\r\n";
    for (size_t size = 0; size < sizeof bytes - 1; size++) {
        char *got = transcript_of(&requests, bytes, size, size, 1);
        const char *last = size == 0 ? "CLOSED\n" : "CUT\n";
        assert_true(strlen(got) >= strlen(last));
        assert_string_equal(got + strlen(got) - strlen(last), last);
        mare__free(got);
    }
    check_requests("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
                   "HEAD POST / HTTP/1.1 keep-alive body=length:3\n"
                   "  Host: a\n  Content-Length: 3\nBODY ab\nCUT\n");
    struct mare__http_reader reader;
    size_t used;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, BYTES("GET"), &used), MARE__HTTP_MORE);
    assert_int_equal(mare__http_read_end(&reader), MARE__HTTP_ERROR);
    assert_int_equal(reader.error.status, 400);
    mare__http_reader_fini(&reader);
}

// The reasons are for logs, where they should tell the one breach from the other.
static void an_error_has_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        mare_err code;
        const char *reason;
    } cases[] = {
        {"GET / HTTP/1.1\n", MARE_BADMSG, "a line ends with LF alone"},
        {HOST "X: a\n", MARE_BADMSG, "a line ends with LF alone"},
        {HOST "X: a\rb", MARE_BADMSG, "a CR without an LF"},
        {HOST "\rb", MARE_BADMSG, "a CR without an LF"},
        {"GET /\r\n", MARE_BADMSG, "a request line without a version"},
        {"GET /\t", MARE_BADMSG, "a character that has no place in the first line"},
        {"G@T /", MARE_BADMSG, "a character that has no place in the first line"},
        {"GET\r", MARE_BADMSG, "a character that has no place in the first line"},
        {HOST " a", MARE_BADMSG, "a folded header line"},
        {HOST "\ta", MARE_BADMSG, "a folded header line"},
        {HOST "a :", MARE_BADMSG, "white space before the colon of a header"},
        {HOST "a\t:", MARE_BADMSG, "white space before the colon of a header"},
        {HOST "a@:", MARE_BADMSG, "a character that has no place in a header's name"},
        {HOST "@:", MARE_BADMSG, "a character that has no place in a header's name"},
        {HOST "a: \x01", MARE_BADMSG, "a character that has no place in a header's value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mare__http_reader reader;
        size_t used;
        mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
        assert_int_equal(mare__http_read(&reader, cases[i].bytes, strlen(cases[i].bytes), &used),
                         MARE__HTTP_ERROR);
        assert_string_equal(reader.error.reason, cases[i].reason);
        assert_int_equal(reader.error.code, cases[i].code);
        mare__http_reader_fini(&reader);
    }
}

static void an_error_stays(void **state)
{
    (void)state;
    struct mare__http_reader reader;
    size_t used;
    mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
    assert_int_equal(mare__http_read(&reader, BYTES("\n"), &used), MARE__HTTP_ERROR);
    assert_int_equal(mare__http_read(&reader, BYTES(HOST "\r\n"), &used), MARE__HTTP_ERROR);
    assert_int_equal(used, 0);
    assert_int_equal(reader.error.status, 400);
    assert_int_equal(reader.error.code, MARE_BADMSG);
    assert_non_null(reader.error.reason);
    assert_int_equal(mare__http_read_end(&reader), MARE__HTTP_ERROR);
    mare__http_reader_fini(&reader);
}

// ---- Limits: what is just allowed passes, one byte more does not --------------------------------

// Writes `count` times `character`.
static void fill(struct mare__bytes *bytes, char character, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(mare__bytes_add(bytes, &character, 1), 0);
}

static void add(struct mare__bytes *bytes, const char *string)
{
    assert_int_equal(mare__bytes_add(bytes, string, strlen(string)), 0);
}

// Whether the last of the transcript is an error of that status. 0: there is none.
static void check_limit(const struct setup *setup, struct mare__bytes *bytes, int status)
{
    static const size_t cuts[] = {1, 7, SIZE_MAX};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        char *got = transcript_of(setup, bytes->at, bytes->size, 0, cuts[i]);
        const char *error = strstr(got, "ERROR");
        assert_int_equal(error ? strtol(error + 6, NULL, 10) : 0, status);
        mare__free(got);
    }
    mare__bytes_fini(bytes);
}

static void limits_of_the_first_line(void **state)
{
    (void)state;
    struct setup setup = {.limits = {.start_line = 40}};
    for (int over = 0; over < 2; over++) {
        struct mare__bytes bytes = {0};
        add(&bytes, "GET /");
        fill(&bytes, 'a', 40 - strlen("GET / HTTP/1.1") + (size_t)over);
        add(&bytes, " HTTP/1.1\r\nHost: a\r\n\r\n");
        check_limit(&setup, &bytes, over ? 414 : 0);
    }
    struct mare__bytes endless = {0};
    add(&endless, "GET /");
    fill(&endless, 'a', 100000);
    check_limit(&requests, &endless, 414);
    fill(&endless, 'a', 100000); // RFC 9112 section 3: a method that is too long is a 501
    check_limit(&requests, &endless, 501);
    struct setup small = {.limits = {.head = 20}}; // the limit of all lines comes first
    add(&endless, "GET /aaaaaaaaaaaaaaaaaaaaaaaa");
    check_limit(&small, &endless, 414);
    setup.kind = MARE__HTTP_RESPONSES;
    setup.limits.field_line = 1000;
    for (int over = 0; over < 2; over++) {
        add(&endless, "HTTP/1.1 200 ");
        fill(&endless, 'a', 40 - strlen("HTTP/1.1 200 ") + (size_t)over);
        add(&endless, "\r\n\r\n");
        check_limit(&setup, &endless, over ? 502 : 0);
    }
}

static void what_is_too_large_has_its_own_code(void **state)
{
    (void)state;
    struct mare__http_reader reader;
    size_t used;
    for (int which = 0; which < 3; which++) {
        mare__http_reader_init(&reader, which == 2 ? MARE__HTTP_RESPONSES : MARE__HTTP_REQUESTS);
        reader.limits.start_line = which == 0 ? 5 : 100;
        reader.limits.field_line = 6;
        const char *bytes = which == 2 ? "HTTP/1.1 200 OK\r\nHost: a\r\n" : HOST;
        assert_int_equal(mare__http_read(&reader, bytes, strlen(bytes), &used), MARE__HTTP_ERROR);
        assert_int_equal(reader.error.code, MARE_TOOBIG);
        mare__http_reader_fini(&reader);
    }
}

static void limits_of_header_lines(void **state)
{
    (void)state;
    struct setup setup = {.limits = {.field_line = 30, .fields = 3}};
    for (int over = 0; over < 2; over++) {
        struct mare__bytes bytes = {0};
        add(&bytes, HOST "Name: ");
        fill(&bytes, 'x', 30 - strlen("Name: ") + (size_t)over);
        add(&bytes, "\r\n\r\n");
        check_limit(&setup, &bytes, over ? 431 : 0);
        add(&bytes, HOST); // the name alone
        fill(&bytes, 'x', 30 - strlen(":") + (size_t)over);
        add(&bytes, ":\r\n\r\n");
        check_limit(&setup, &bytes, over ? 431 : 0);
        add(&bytes, HOST "a: 1\r\nb: 2\r\n");
        add(&bytes, over ? "c: 3\r\n\r\n" : "\r\n");
        check_limit(&setup, &bytes, over ? 431 : 0);
    }
}

static void limits_of_all_headers(void **state)
{
    (void)state;
    struct setup setup = {.limits = {.head = sizeof(HOST "a: b\r\n\r\n") - 1}};
    for (int over = 0; over < 2; over++) {
        struct mare__bytes bytes = {0};
        add(&bytes, HOST "a: b");
        fill(&bytes, 'x', (size_t)over);
        add(&bytes, "\r\n\r\n");
        check_limit(&setup, &bytes, over ? 431 : 0);
    }
    // By default as well, and whatever is set: never more than MARE__HTTP_HEAD_MOST.
    struct setup largest = {.limits = {.head = UINT32_MAX, .fields = UINT32_MAX}};
    for (int which = 0; which < 2; which++) {
        struct mare__bytes bytes = {0};
        add(&bytes, HOST);
        for (int i = 0; i < 90; i++) {
            add(&bytes, "a:");
            fill(&bytes, 'x', 1000);
            add(&bytes, "\r\n");
        }
        check_limit(which ? &largest : &requests, &bytes, 431);
    }
    struct mare__bytes many = {0};
    add(&many, HOST);
    for (int i = 0; i < 100; i++)
        add(&many, "a:b\r\n");
    check_limit(&requests, &many, 431);
}

static void the_largest_head_is_read(void **state)
{
    (void)state;
    struct setup setup = {.limits = {.head = MARE__HTTP_HEAD_MOST, .fields = UINT32_MAX}};
    for (int over = 0; over < 2; over++) {
        struct mare__bytes bytes = {0};
        add(&bytes, HOST);
        while (bytes.size < MARE__HTTP_HEAD_MOST - 2 - 10)
            add(&bytes, "abc:d\r\n");
        add(&bytes, "a:");
        fill(&bytes, 'x', MARE__HTTP_HEAD_MOST - bytes.size - 4 + (size_t)over);
        add(&bytes, "\r\n\r\n");
        assert_int_equal(bytes.size, MARE__HTTP_HEAD_MOST + over);
        check_limit(&setup, &bytes, over ? 431 : 0);
    }
}

static void limits_of_bodies(void **state)
{
    (void)state;
    struct setup setup = {.limits = {.body = 5}};
    struct mare__bytes bytes = {0};
    add(&bytes, HOST "Content-Length: 5\r\n\r\nabcde");
    check_limit(&setup, &bytes, 0);
    add(&bytes, HOST "Content-Length: 6\r\n\r\nabcdef");
    check_limit(&setup, &bytes, 413);
    add(&bytes, CHUNKS "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    check_limit(&setup, &bytes, 0);
    add(&bytes, CHUNKS "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
    check_limit(&setup, &bytes, 413);
    setup.kind = MARE__HTTP_RESPONSES;
    add(&bytes, "HTTP/1.1 200 OK\r\n\r\nabcde");
    check_limit(&setup, &bytes, 0);
    add(&bytes, "HTTP/1.1 200 OK\r\n\r\nabcdef");
    check_limit(&setup, &bytes, 502);
}

// A body that is declared too large is refused before it is sent, so that a client that expects a
// 100 gets the 413 instead; and whoever looks at the head first may set another limit.
static void the_limit_of_a_body_can_be_set_after_its_head(void **state)
{
    (void)state;
    static const char bytes[] = HOST "Content-Length: 2000000\r\n\r\n";
    for (int allowed = 0; allowed < 2; allowed++) {
        struct mare__http_reader reader;
        size_t used;
        mare__http_reader_init(&reader, MARE__HTTP_REQUESTS);
        assert_int_equal(mare__http_read(&reader, BYTES(bytes), &used), MARE__HTTP_HEAD);
        assert_int_equal(reader.body_limit, 1048576);
        if (allowed)
            reader.body_limit = 2000000;
        assert_int_equal(mare__http_read(&reader, "", 0, &used),
                         allowed ? MARE__HTTP_MORE : MARE__HTTP_ERROR);
        if (!allowed) {
            assert_int_equal(reader.error.status, 413);
            assert_int_equal(reader.error.code, MARE_TOOBIG);
        }
        mare__http_reader_fini(&reader);
    }
}

static void limits_of_chunk_extensions_and_trailers(void **state)
{
    (void)state;
    struct setup setup = {.limits = {.extensions = 6, .trailers = 14, .fields = 2}};
    struct mare__bytes bytes = {0};
    add(&bytes, CHUNKS "1;ab\r\na\r\n1 ;c\r\nb\r\n0\r\n\r\n");
    check_limit(&setup, &bytes, 0);
    add(&bytes, CHUNKS "1;ab\r\na\r\n1 ;c\r\nb\r\n0;\r\n\r\n");
    check_limit(&setup, &bytes, 413);
    add(&bytes, CHUNKS "0\r\na: b\r\nc: d\r\n\r\n");
    check_limit(&setup, &bytes, 0);
    add(&bytes, CHUNKS "0\r\na: b\r\nc: dd\r\n\r\n");
    check_limit(&setup, &bytes, 431);
    add(&bytes, CHUNKS "0\r\na:b\r\nc:\r\nd:\r\n\r\n");
    check_limit(&setup, &bytes, 431);
}

UNIT_TESTS(cmocka_unit_test(a_malformed_request_is_told_with_its_status),
           cmocka_unit_test(malformed_chunks_are_told_after_the_head),
           cmocka_unit_test(a_chunk_ends_where_its_size_says),
           cmocka_unit_test(a_message_that_is_cut_short_is_told),
           cmocka_unit_test(an_error_has_a_reason), cmocka_unit_test(an_error_stays),
           cmocka_unit_test(what_is_too_large_has_its_own_code),
           cmocka_unit_test(limits_of_the_first_line), cmocka_unit_test(limits_of_header_lines),
           cmocka_unit_test(limits_of_all_headers), cmocka_unit_test(the_largest_head_is_read),
           cmocka_unit_test(limits_of_bodies),
           cmocka_unit_test(the_limit_of_a_body_can_be_set_after_its_head),
           cmocka_unit_test(limits_of_chunk_extensions_and_trailers))
