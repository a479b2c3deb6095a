// SPDX-License-Identifier: MIT
// The writers, and the table of characters that they share with the reader. A head is written line
// by line; if one line is wrong, everything written of the head is removed again.
#include <stdio.h>

#include "wire/http_inner.h"

#define ANY (MARE__HTTP_TARGET | MARE__HTTP_VALUE)
#define TOKEN (ANY | MARE__HTTP_TOKEN)
#define NAME (ANY | MARE__HTTP_NAME)
#define BOTH (TOKEN | MARE__HTTP_NAME)

// RFC 9110 sections 5.5 and 5.6.2, RFC 3986 section 3.2.2.
const uint8_t mare__http_classes[256] = {
    ['\t'] = MARE__HTTP_VALUE,
    [' '] = MARE__HTTP_VALUE,
    ['!'] = BOTH,
    ['"'] = MARE__HTTP_VALUE,
    ['#'] = TOKEN,
    ['$'] = BOTH,
    ['%'] = BOTH,
    ['&'] = BOTH,
    ['\''] = BOTH,
    ['('] = NAME,
    [')'] = NAME,
    ['*'] = BOTH,
    ['+'] = BOTH,
    [','] = NAME,
    ['-'] = BOTH,
    ['.'] = BOTH,
    ['/'] = ANY,
    ['0' ... '9'] = BOTH | MARE__HTTP_HEX,
    [':'] = ANY,
    [';'] = NAME,
    ['<'] = MARE__HTTP_VALUE,
    ['='] = NAME,
    ['>'] = MARE__HTTP_VALUE,
    ['?'] = ANY,
    ['@'] = ANY,
    ['A' ... 'F'] = BOTH | MARE__HTTP_HEX,
    ['G' ... 'Z'] = BOTH,
    ['['] = ANY,
    ['\\'] = ANY,
    [']'] = ANY,
    ['^'] = TOKEN,
    ['_'] = BOTH,
    ['`'] = TOKEN,
    ['a' ... 'f'] = BOTH | MARE__HTTP_HEX,
    ['g' ... 'z'] = BOTH,
    ['{'] = ANY,
    ['|'] = TOKEN,
    ['}'] = ANY,
    ['~'] = BOTH,
    [0x80 ... 0xff] = MARE__HTTP_VALUE,
};

// A head that is being written. After the first error nothing more is written.
struct head {
    struct mare__bytes *out;
    mare_err err;
};

static inline void put(struct head *head, const void *data, size_t size)
{
    if (!head->err)
        head->err = mare__bytes_add(head->out, data, size);
}

static void put_span(struct head *head, struct mare__span text)
{
    put(head, text.at, text.size);
}

static inline void put_string(struct head *head, const char *string)
{
    put(head, string, strlen(string));
}

static void put_number(struct head *head, uint64_t number)
{
    char digits[20], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    put(head, at, (size_t)(digits + sizeof digits - at));
}

static void require(struct head *head, bool good)
{
    if (!head->err && !good)
        head->err = MARE_INVALID;
}

static void put_line(struct head *head, const char *name, struct mare__span value)
{
    require(head, mare__http_all(value, MARE__HTTP_VALUE));
    put_string(head, name);
    put_string(head, ": ");
    put_span(head, value);
    put_string(head, "\r\n");
}

const char *mare__http_field_fault(const struct mare__http_field *field, enum mare__http_kind kind)
{
    static const char *const made_here[][7] = {
        [MARE__HTTP_REQUESTS] = {"connection", "content-length", "expect", "host",
                                 "transfer-encoding", "upgrade", NULL},
        [MARE__HTTP_RESPONSES] = {"connection", "content-length", "date", "transfer-encoding",
                                  "upgrade", NULL},
    };
    if (field->name.size == 0 || !mare__http_all(field->name, MARE__HTTP_TOKEN))
        return "has a name that may not be sent";
    if (!mare__http_all(field->value, MARE__HTTP_VALUE))
        return "has a value that may not be sent";
    for (const char *const *own = made_here[kind]; *own; own++)
        if (mare__http_same(field->name, *own))
            return "is written by the module itself";
    return NULL;
}

static void put_fields(struct head *head, const struct mare__http_field *fields, size_t count,
                       enum mare__http_kind kind)
{
    for (size_t i = 0; i < count; i++) {
        require(head, !mare__http_field_fault(&fields[i], kind));
        put_span(head, fields[i].name);
        put_string(head, ": ");
        put_span(head, fields[i].value);
        put_string(head, "\r\n");
    }
}

static void put_length(struct head *head, uint64_t length)
{
    put_string(head, "Content-Length: ");
    put_number(head, length);
    put_string(head, "\r\n");
}

static void put_body(struct head *head, enum mare__http_body body, uint64_t length)
{
    if (body == MARE__HTTP_BODY_LENGTH)
        put_length(head, length);
    else if (body == MARE__HTTP_BODY_CHUNKED)
        put_string(head, "Transfer-Encoding: chunked\r\n");
}

// Connection and Upgrade. HTTP/1.0 closes unless told otherwise, HTTP/1.1 the other way round.
static void put_connection(struct head *head, struct mare__span upgrade, bool keep_alive,
                           uint8_t minor)
{
    if (upgrade.size > 0) {
        put_line(head, "Upgrade", upgrade);
        put_string(head, keep_alive ? "Connection: upgrade\r\n" : "Connection: upgrade, close\r\n");
    } else if (!keep_alive) {
        put_string(head, "Connection: close\r\n");
    } else if (minor == 0) {
        put_string(head, "Connection: keep-alive\r\n");
    }
}

// The empty line; or everything is taken back.
static mare_err finish(struct head *head, size_t size_before)
{
    put_string(head, "\r\n");
    if (head->err)
        head->out->size = size_before;
    return head->err;
}

static void put_response_body(struct head *head, const struct mare__http_response *response)
{
    int status = response->status;
    enum mare__http_body body = response->body;
    bool never = status / 100 == 1 || status == 204; // RFC 9112 section 6.1, RFC 9110 section 8.6
    require(head, !never || body == MARE__HTTP_BODY_NONE);
    require(head, response->minor > 0 || body != MARE__HTTP_BODY_CHUNKED);
    if (body == MARE__HTTP_BODY_NONE && !never && status != 304)
        put_length(head, 0);
    else
        put_body(head, body, response->length);
}

mare_err mare__http_put_response(struct mare__bytes *out,
                                 const struct mare__http_response *response)
{
    struct head head = {out, MARE_OK};
    size_t before = out->size;
    struct mare__span reason = response->reason;
    if (reason.size == 0)
        reason = mare__span_of(mare__http_phrase(response->status));
    require(&head, response->status >= 100 && response->status <= 999 &&
                       mare__http_all(reason, MARE__HTTP_VALUE));
    put_string(&head, "HTTP/1.1 ");
    put_number(&head, (uint64_t)response->status);
    put_string(&head, " ");
    put_span(&head, reason);
    put_string(&head, "\r\n");
    if (response->date.size > 0)
        put_line(&head, "Date", response->date);
    put_response_body(&head, response);
    bool keep_alive = response->keep_alive && response->body != MARE__HTTP_BODY_UNTIL_CLOSE;
    keep_alive |= response->status == 101; // the connection lives on, as something else
    put_connection(&head, response->upgrade, keep_alive, response->minor);
    put_fields(&head, response->fields, response->count, MARE__HTTP_RESPONSES);
    return finish(&head, before);
}

mare_err mare__http_put_request(struct mare__bytes *out, const struct mare__http_request *request)
{
    struct head head = {out, MARE_OK};
    size_t before = out->size;
    struct mare__span target = request->target;
    require(&head, request->method.size > 0 && mare__http_all(request->method, MARE__HTTP_TOKEN) &&
                       target.size > 0 && mare__http_all(target, MARE__HTTP_TARGET) &&
                       !memchr(target.at, '#', target.size) &&
                       mare__http_host_valid(request->host) &&
                       request->body != MARE__HTTP_BODY_UNTIL_CLOSE);
    put_span(&head, request->method);
    put_string(&head, " ");
    put_span(&head, target);
    put_string(&head, " HTTP/1.1\r\n");
    put_line(&head, "Host", request->host);
    put_body(&head, request->body, request->length);
    if (request->expect_continue)
        put_string(&head, "Expect: 100-continue\r\n");
    put_connection(&head, request->upgrade, request->keep_alive, 1);
    put_fields(&head, request->fields, request->count, MARE__HTTP_REQUESTS);
    return finish(&head, before);
}

mare_err mare__http_put_chunk(struct mare__bytes *out, const void *data, size_t size)
{
    char line[sizeof "ffffffffffffffff\r\n"];
    if (size == 0)
        return MARE_OK;
    int length = snprintf(line, sizeof line, "%zx\r\n", size);
    mare_err err = mare__bytes_reserve(out, (size_t)length + size + 2);
    if (err)
        return err;
    mare__bytes_add(out, line, (size_t)length);
    mare__bytes_add(out, data, size);
    return mare__bytes_add(out, "\r\n", 2);
}

mare_err mare__http_put_last_chunk(struct mare__bytes *out)
{
    return mare__bytes_add(out, "0\r\n\r\n", 5);
}
