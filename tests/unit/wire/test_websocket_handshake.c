// SPDX-License-Identifier: MIT
// The handshake of WebSocket: the example of RFC 6455 section 1.3, every way in which section 4
// says that it must fail, and both sides of ours against each other.
#include "wire/websocket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "unit.h"

#define SPAN(text)                                                                                 \
    (struct mare__span)                                                                            \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const char rfc_key[] = "dGhlIHNhbXBsZSBub25jZQ==",
                  rfc_accept[] = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

static void the_example_of_the_rfc(void **state)
{
    (void)state;
    char key[MARE__WS_KEY + 1], accept[MARE__WS_ACCEPT + 1];
    mare__ws_make_key((const uint8_t *)"the sample nonce", key);
    assert_string_equal(key, rfc_key);
    mare__ws_make_accept(SPAN("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    assert_string_equal(accept, rfc_accept);
    mare__ws_make_key(
        (const uint8_t *)"\x00\x10\x83\x10\x51\x87\x20\x92\x8b\x30\xd3\x8f\x41\x14\x93\xfb",
        key); // RFC 4648: the digits in their order, and the last two bits
    assert_string_equal(key, "ABCDEFGHIJKLMNOPQRST+w==");
}

// Reads a head; the reader is to be freed.
static const struct mare__http_head *head_of(struct mare__http_reader *reader,
                                             enum mare__http_kind kind, const char *bytes)
{
    size_t used;
    mare__http_reader_init(reader, kind);
    enum mare__http_event event = mare__http_read(reader, bytes, strlen(bytes), &used);
    if (event != MARE__HTTP_HEAD)
        fail_msg("no head: %s", bytes);
    return &reader->head;
}

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"

// Section 4.2.1 and, for the version, 4.4.
static void requests_are_checked(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *line, *fields;
    } cases[] = {
        {0, "GET / HTTP/1.1", UPGRADE KEY VERSION},
        {0, "GET / HTTP/1.1",
         "Connection: keep-alive, upgrade\r\nUpgrade: h2c, WebSocket\r\n" KEY VERSION},
        {426, "GET / HTTP/1.1", KEY VERSION},
        {426, "GET / HTTP/1.1", "Upgrade: websocket\r\n" KEY VERSION},
        {426, "GET / HTTP/1.1", "Connection: upgrade\r\n" KEY VERSION},
        {426, "GET / HTTP/1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n" KEY VERSION},
        {426, "GET / HTTP/1.0", UPGRADE KEY VERSION},
        {405, "POST / HTTP/1.1", UPGRADE KEY VERSION},
        {400, "GET / HTTP/1.1", UPGRADE KEY VERSION "Content-Length: 1\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE KEY},
        {400, "GET / HTTP/1.1", UPGRADE KEY VERSION VERSION},
        {426, "GET / HTTP/1.1", UPGRADE KEY "Sec-WebSocket-Version: 8\r\n"},
        {426, "GET / HTTP/1.1", UPGRADE KEY "Sec-WebSocket-Version: 130\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION},
        {400, "GET / HTTP/1.1", UPGRADE VERSION KEY KEY},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: \r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWE=\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j=Q==\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j-Q==\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: -GhlIHNhbXBsZSBub25jZQ==\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ=A=\r\n"},
        {400, "GET / HTTP/1.1", UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ===\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[400];
        struct mare__http_reader reader;
        struct mare__span key;
        snprintf(bytes, sizeof bytes, "%s\r\nHost: a\r\n%s\r\n", cases[i].line, cases[i].fields);
        const struct mare__http_head *head = head_of(&reader, MARE__HTTP_REQUESTS, bytes);
        int status = mare__ws_check_request(head, &key);
        if (status != cases[i].status)
            fail_msg("%d: %s", status, bytes);
        if (status == 0) {
            assert_int_equal(key.size, MARE__WS_KEY);
            assert_memory_equal(key.at, rfc_key, MARE__WS_KEY);
        }
        mare__http_reader_fini(&reader);
    }
}

#define SWITCH "HTTP/1.1 101 Switching Protocols\r\n"
#define ACCEPT "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

// The points of section 4.1.
static void responses_are_checked(void **state)
{
    (void)state;
    static const struct {
        bool good;
        const char *protocols, *bytes;
    } cases[] = {
        {true, "", SWITCH UPGRADE ACCEPT},
        {true, "", SWITCH "Connection: x, UPGRADE\r\nUpgrade: WebSocket\r\n" ACCEPT},
        {true, "chat, super", SWITCH UPGRADE ACCEPT},
        {true, "chat, super", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: super\r\n"},
        {false, "chat, super", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: sup\r\n"},
        {false, "chat, super", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: supex\r\n"},
        {false, "chat, super", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: Super\r\n"},
        {false, "chat, super", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: chat, super\r\n"},
        {false, "chat, super",
         SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: super\r\n"},
        {false, "chat,, super", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol:\r\n"},
        {false, "", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Protocol: chat\r\n"},
        {false, "", SWITCH UPGRADE ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n"},
        {false, "", "HTTP/1.1 200 OK\r\n" UPGRADE ACCEPT},
        {false, "", SWITCH "Connection: upgrade\r\n" ACCEPT},
        {false, "", SWITCH "Connection: upgrade\r\nUpgrade: h2c\r\n" ACCEPT},
        {false, "", SWITCH "Connection: upgrade\r\nUpgrade: websocket, h2c\r\n" ACCEPT},
        {false, "", SWITCH "Upgrade: websocket\r\n" ACCEPT},
        {false, "", SWITCH "Connection: close\r\nUpgrade: websocket\r\n" ACCEPT},
        {false, "", SWITCH UPGRADE},
        {false, "", SWITCH UPGRADE ACCEPT ACCEPT},
        {false, "", SWITCH UPGRADE "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"},
        {false, "", SWITCH UPGRADE "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[400];
        struct mare__http_reader reader;
        snprintf(bytes, sizeof bytes, "%s\r\n", cases[i].bytes);
        const struct mare__http_head *head = head_of(&reader, MARE__HTTP_RESPONSES, bytes);
        const char *why = mare__ws_check_response(head, rfc_key, mare__span_of(cases[i].protocols));
        if (!why != cases[i].good)
            fail_msg("%s: %s", why ? why : "good", bytes);
        mare__http_reader_fini(&reader);
    }
}

static void the_heads_are_written(void **state)
{
    (void)state;
    static const struct mare__http_field fields[] = {{{"Origin", 6}, {"http://a", 8}}};
    struct mare__bytes out = {0};
    struct mare__http_request request = {
        .target = SPAN("/chat"), .host = SPAN("example.org"), .fields = fields, .count = 1};
    struct mare__http_response response = {.date = SPAN("now"), .fields = fields, .count = 1};
    assert_int_equal(mare__ws_put_request(&out, &request, rfc_key, SPAN("chat, super")), 0);
    assert_int_equal(mare__bytes_add(&out, "", 1), 0);
    assert_string_equal(out.at, "GET /chat HTTP/1.1\r\nHost: example.org\r\n"
                                "Upgrade: websocket\r\nConnection: upgrade\r\n"
                                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                                "Sec-WebSocket-Version: 13\r\n"
                                "Sec-WebSocket-Protocol: chat, super\r\n"
                                "Origin: http://a\r\n\r\n");
    out.size = 0;
    assert_int_equal(mare__ws_put_response(&out, &response, mare__span_of(rfc_key), SPAN("chat")),
                     0);
    assert_int_equal(mare__bytes_add(&out, "", 1), 0);
    assert_string_equal(out.at, "HTTP/1.1 101 Switching Protocols\r\nDate: now\r\n"
                                "Upgrade: websocket\r\nConnection: upgrade\r\n"
                                "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
                                "Sec-WebSocket-Protocol: chat\r\n"
                                "Origin: http://a\r\n\r\n");
    mare__bytes_fini(&out);
}

static void both_sides_understand_each_other(void **state)
{
    (void)state;
    static const char *const protocols[] = {"", "chat, super"}, *const chosen[] = {"", "super"};
    uint64_t random = unit_seed();
    for (int i = 0; i < 100; i++) {
        struct mare__bytes out = {0};
        struct mare__http_reader server, client;
        struct mare__http_request request = {.target = SPAN("/"), .host = SPAN("a")};
        struct mare__http_response response = {0};
        struct mare__span theirs;
        uint64_t noise[2] = {unit_random(&random), unit_random(&random)};
        char key[MARE__WS_KEY + 1];
        mare__ws_make_key((const uint8_t *)noise, key);
        assert_int_equal(mare__ws_put_request(&out, &request, key, mare__span_of(protocols[i % 2])),
                         0);
        assert_int_equal(mare__bytes_add(&out, "", 1), 0);
        assert_int_equal(
            mare__ws_check_request(head_of(&server, MARE__HTTP_REQUESTS, out.at), &theirs), 0);
        out.size = 0;
        assert_int_equal(
            mare__ws_put_response(&out, &response, theirs, mare__span_of(chosen[i % 2])), 0);
        assert_int_equal(mare__bytes_add(&out, "", 1), 0);
        assert_null(mare__ws_check_response(head_of(&client, MARE__HTTP_RESPONSES, out.at), key,
                                            mare__span_of(protocols[i % 2])));
        mare__http_reader_fini(&server);
        mare__http_reader_fini(&client);
        mare__bytes_fini(&out);
    }
}

static void what_cannot_be_written_leaves_nothing(void **state)
{
    (void)state;
    struct mare__bytes out = {0};
    struct mare__http_request request = {.target = SPAN("/"), .host = SPAN("a")};
    struct mare__http_response response = {0};
    assert_int_equal(mare__ws_put_request(&out, &request, "a\r\nb", SPAN("")), MARE_INVALID);
    assert_int_equal(mare__ws_put_request(&out, &request, rfc_key, SPAN("a\r\nb")), MARE_INVALID);
    assert_int_equal(mare__ws_put_response(&out, &response, mare__span_of(rfc_key), SPAN("a\nb")),
                     MARE_INVALID);
    for (long n = 1; n <= 2; n++) {
        mare__bytes_fini(&out);
        mare__alloc_fail_after(n);
        assert_int_equal(mare__ws_put_request(&out, &request, rfc_key, SPAN("")), MARE_NOMEM);
        mare__alloc_fail_after(n);
        assert_int_equal(mare__ws_put_response(&out, &response, mare__span_of(rfc_key), SPAN("")),
                         MARE_NOMEM);
    }
    mare__alloc_fail_after(0);
    assert_int_equal(out.size, 0);
    mare__bytes_fini(&out);
}

UNIT_TESTS(cmocka_unit_test(the_example_of_the_rfc), cmocka_unit_test(requests_are_checked),
           cmocka_unit_test(responses_are_checked), cmocka_unit_test(the_heads_are_written),
           cmocka_unit_test(both_sides_understand_each_other),
           cmocka_unit_test(what_cannot_be_written_leaves_nothing))
