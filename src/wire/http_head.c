// SPDX-License-Identifier: MIT
// What a head means. http_parser takes its lines apart and knows the methods. http.c has checked
// the lines before that. After it, this file checks what RFC 9112 requires of a whole head: one
// Host, the form of the target, and above all how the end of the body is known. http_parser sees a
// whole head at once, so every name and every value lies in one piece, and it needs no memory from
// one head to the next. docs/decisions/210-http-parser.md says how far it is trusted.
#include <http_parser.h>

#include "base/alloc.h"
#include "wire/http_inner.h"

enum { FIELDS_FIRST = 16 };

// What is on its way from http_parser to the head.
struct parse {
    struct mare__http_reader *reader;
    uint64_t length; // of Content-Length, else UINT64_MAX
    bool whole, no_memory;
    bool announces; // the head says that a body comes
};

// ---- Text ---------------------------------------------------------------------------------------

static bool is_white(char character)
{
    return character == ' ' || character == '\t';
}

static struct mare__span trim(struct mare__span text)
{
    while (text.size > 0 && is_white(text.at[text.size - 1]))
        text.size--;
    while (text.size > 0 && is_white(text.at[0]))
        text.at++, text.size--;
    return text;
}

bool mare__http_all(struct mare__span text, uint8_t classes)
{
    for (size_t i = 0; i < text.size; i++)
        if (!mare__http_is(text.at[i], classes))
            return false;
    return true;
}

static char lower(char character)
{
    return character >= 'A' && character <= 'Z' ? (char)(character + ('a' - 'A')) : character;
}

// Whether two texts are equal, if case does not count.
static bool alike(struct mare__span text, struct mare__span other)
{
    if (text.size != other.size)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (lower(text.at[i]) != lower(other.at[i]))
            return false;
    return true;
}

bool mare__http_same(struct mare__span text, const char *word)
{
    return alike(text, mare__span_of(word));
}

static bool equals(struct mare__span text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

bool mare__http_next_element(struct mare__span *list, struct mare__span *element)
{
    if (!list->at)
        return false;
    const char *comma = memchr(list->at, ',', list->size);
    size_t size = comma ? (size_t)(comma - list->at) : list->size;
    *element = trim((struct mare__span){list->at, size});
    *list = comma ? (struct mare__span){comma + 1, list->size - size - 1} : (struct mare__span){0};
    return true;
}

bool mare__http_find(const struct mare__http_head *head, const char *name, struct mare__span *value)
{
    for (size_t i = 0; i < head->count; i++)
        if (mare__http_same(head->fields[i].name, name)) {
            *value = head->fields[i].value;
            return true;
        }
    return false;
}

bool mare__http_has_token(const struct mare__http_head *head, const char *name, const char *token)
{
    for (size_t i = 0; i < head->count; i++) {
        if (!mare__http_same(head->fields[i].name, name))
            continue;
        struct mare__span list = head->fields[i].value, element;
        while (mare__http_next_element(&list, &element))
            if (mare__http_same(element, token))
                return true;
    }
    return false;
}

// ---- What http_parser calls ---------------------------------------------------------------------

static int on_url(http_parser *parser, const char *at, size_t size)
{
    struct parse *parse = parser->data;
    parse->reader->head.target = (struct mare__span){at, size};
    return 0;
}

static int on_status(http_parser *parser, const char *at, size_t size)
{
    struct parse *parse = parser->data;
    parse->reader->head.reason = (struct mare__span){at, size};
    return 0;
}

static int on_field(http_parser *parser, const char *at, size_t size)
{
    struct parse *parse = parser->data;
    struct mare__http_reader *reader = parse->reader;
    if (reader->head.count == reader->field_capacity) {
        size_t capacity = reader->field_capacity ? 2 * reader->field_capacity : FIELDS_FIRST;
        struct mare__http_field *fields =
            mare__realloc(reader->fields, capacity * sizeof *reader->fields);
        parse->no_memory = !fields;
        if (!fields)
            return -1;
        reader->fields = fields;
        reader->field_capacity = capacity;
    }
    reader->fields[reader->head.count++] =
        (struct mare__http_field){.name = {at, size}, .value = {at + size, 0}};
    return 0;
}

static int on_value(http_parser *parser, const char *at, size_t size)
{
    struct parse *parse = parser->data;
    struct mare__http_reader *reader = parse->reader;
    reader->fields[reader->head.count - 1].value = trim((struct mare__span){at, size});
    return 0;
}

// Ends the parse here with an error of our own, so that http_parser does not look at bodies.
static int on_head(http_parser *parser)
{
    struct parse *parse = parser->data;
    parse->reader->head.status = (int)parser->status_code;
    parse->length = parser->content_length;
    parse->whole = true;
    return -1;
}

static const http_parser_settings callbacks = {
    .on_url = on_url,
    .on_status = on_status,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
};

static bool fail(struct mare__http_reader *reader, int status, const char *reason)
{
    mare__http_fail(reader, status, reason);
    return false;
}

static bool fail_parse(struct mare__http_reader *reader, enum http_errno why)
{
    switch (why) {
    case HPE_INVALID_METHOD: // http.c checked that it is a token, but no known method
        return fail(reader, 501, "the method is not known");
    case HPE_HEADER_OVERFLOW:
        return fail(reader, 431, "the headers are too large");
    default:
        return fail(reader, 400, http_errno_description(why));
    }
}

// Whether the method is one that the reader was told of.
static bool is_told(const struct mare__http_reader *reader)
{
    struct mare__span method = reader->head.method;
    for (const char *at = reader->methods; at && *at;) {
        size_t size = strcspn(at, " ");
        if (size == method.size && memcmp(at, method.at, size) == 0)
            return true;
        at += size + strspn(at + size, " ");
    }
    return false;
}

// http_parser drops a space after a length, but not a tab. Neither belongs to the value (RFC 9110
// section 5.6.3).
static void replace_last_tabs(struct mare__bytes *text)
{
    char *at = text->at, *end = text->at + text->size;
    while ((at = memchr(at, '\t', (size_t)(end - at))) != NULL) {
        char *first = at;
        while (is_white(*at))
            at++;
        if (*at == '\r')
            memset(first, ' ', (size_t)(at - first));
    }
}

static bool take_apart(struct mare__http_reader *reader, struct parse *parse)
{
    bool request = reader->kind == MARE__HTTP_REQUESTS;
    size_t known = 0; // bytes that http_parser need not parse
    http_parser parser;
    replace_last_tabs(&reader->text);
    http_parser_init(&parser, request ? HTTP_REQUEST : HTTP_RESPONSE);
    parser.data = parse;
    // http_parser takes any name that begins with Transfer-Encoding for that field, and then
    // refuses a Content-Length. choose_body judges these fields instead, and http.c the values.
    parser.lenient_http_headers = 1;
    parser.allow_chunked_length = 1;
    if (request && is_told(reader)) { // the parser sees GET in its place
        http_parser_execute(&parser, &callbacks, "GET", 3);
        known = reader->head.method.size;
    }
    http_parser_execute(&parser, &callbacks, reader->text.at + known, reader->text.size - known);
    if (parse->no_memory)
        return fail(reader, 503, "not enough memory");
    if (!parse->whole)
        return fail_parse(reader, HTTP_PARSER_ERRNO(&parser));
    reader->head.fields = reader->fields;
    return true;
}

// ---- The first line -----------------------------------------------------------------------------

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

// HTTP/1.x, of which nothing newer than 1.1 is known: RFC 9110 section 2.5.
static bool check_version(struct mare__http_reader *reader, struct mare__span version)
{
    if (version.size != 8 || memcmp(version.at, "HTTP/", 5) != 0 || !is_digit(version.at[5]) ||
        version.at[6] != '.' || !is_digit(version.at[7]))
        return fail(reader, 400, "the version is malformed");
    if (version.at[5] != '1')
        return fail(reader, 505, "the version is not HTTP/1");
    reader->head.minor = version.at[7] == '0' ? 0 : 1;
    return true;
}

// The line is "method target version", as http.c has seen; the target may still be empty.
static bool check_request_line(struct mare__http_reader *reader, struct mare__span line)
{
    const char *space = memchr(line.at, ' ', line.size);
    const char *second = memchr(space + 1, ' ', (size_t)(line.at + line.size - space - 1));
    reader->head.method = (struct mare__span){line.at, (size_t)(space - line.at)};
    if (second == space + 1)
        return fail(reader, 400, "a request line without a target");
    size_t size = (size_t)(line.at + line.size - second - 1);
    return check_version(reader, (struct mare__span){second + 1, size});
}

// HTTP/1.1 200 and a reason, maybe without the space before it.
static bool check_status_line(struct mare__http_reader *reader, struct mare__span line)
{
    const char *at = line.at;
    if (line.size < 12 || at[8] != ' ' || at[9] < '1' || !is_digit(at[9]) || !is_digit(at[10]) ||
        !is_digit(at[11]) || (line.size > 12 && at[12] != ' '))
        return fail(reader, 400, "the status line is malformed");
    return check_version(reader, (struct mare__span){at, 8});
}

static bool check_first_line(struct mare__http_reader *reader)
{
    const char *end = memchr(reader->text.at, '\r', reader->text.size);
    struct mare__span line = {reader->text.at, (size_t)(end - reader->text.at)};
    return reader->kind == MARE__HTTP_REQUESTS ? check_request_line(reader, line)
                                               : check_status_line(reader, line);
}

// ---- The target and the host --------------------------------------------------------------------

// Whether each % has two digits behind it (RFC 3986 section 2.1).
static bool escapes_valid(struct mare__span text)
{
    if (text.size == 0) // there may be no text at all
        return true;
    const char *at = text.at, *end = text.at + text.size;
    for (; at < end && (at = memchr(at, '%', (size_t)(end - at))) != NULL; at += 3)
        if (end - at < 3 || !mare__http_is(at[1], MARE__HTTP_HEX) ||
            !mare__http_is(at[2], MARE__HTTP_HEX))
            return false;
    return true;
}

// The port after a host: ":" and digits, maybe none (RFC 3986 section 3.2.3).
static bool port_valid(struct mare__span port)
{
    for (size_t i = 1; i < port.size; i++)
        if (!is_digit(port.at[i]))
            return false;
    return port.size == 0 || (port.at[0] == ':' && port.size <= sizeof ":65535" - 1);
}

// An address in brackets. What is inside is hardly checked: connecting to it will fail.
static bool address_valid(struct mare__span host)
{
    const char *close = memchr(host.at, ']', host.size);
    if (!close)
        return false;
    size_t size = (size_t)(close - host.at);
    for (size_t i = 1; i < size; i++)
        if (!mare__http_is(host.at[i], MARE__HTTP_NAME) && host.at[i] != ':')
            return false;
    return size > 1 && port_valid((struct mare__span){close + 1, host.size - size - 1});
}

bool mare__http_host_valid(struct mare__span host)
{
    if (host.size == 0)
        return true;
    if (host.at[0] == '[')
        return address_valid(host);
    size_t size = 0;
    while (size < host.size && mare__http_is(host.at[size], MARE__HTTP_NAME))
        size++;
    return escapes_valid(host) && port_valid((struct mare__span){host.at + size, host.size - size});
}

// "/path?query" into its two parts.
static void split_path(struct mare__http_head *head, struct mare__span text)
{
    const char *mark = text.size ? memchr(text.at, '?', text.size) : NULL;
    size_t size = mark ? (size_t)(mark - text.at) : text.size;
    head->path = size ? (struct mare__span){text.at, size} : mare__span_of("/");
    if (mark)
        head->query = (struct mare__span){mark + 1, text.size - size - 1};
}

// "scheme://host/path?query". A user's name in it is refused: RFC 9110 section 4.2.4.
static bool split_absolute(struct mare__http_head *head)
{
    struct mare__span target = head->target;
    const char *colon = memchr(target.at, ':', target.size), *end = target.at + target.size;
    if (!colon || end - colon < 4 || memcmp(colon, "://", 3) != 0)
        return false;
    const char *host = colon + 3, *at = host;
    while (at < end && *at != '/' && *at != '?')
        at++;
    head->host = (struct mare__span){host, (size_t)(at - host)};
    if (head->host.size == 0 || !mare__http_host_valid(head->host))
        return false;
    split_path(head, (struct mare__span){at, (size_t)(end - at)});
    return true;
}

// The four forms of RFC 9112 section 3.2.
static bool check_target(struct mare__http_reader *reader)
{
    struct mare__http_head *head = &reader->head;
    bool good;
    if (equals(head->method, "CONNECT")) {
        head->host = head->target;
        good = mare__http_host_valid(head->host) && is_digit(head->host.at[head->host.size - 1]) &&
               memchr(head->host.at, ':', head->host.size) && head->host.at[0] != ':';
    } else if (equals(head->target, "*")) {
        head->path = head->target;
        good = equals(head->method, "OPTIONS");
    } else if (head->target.at[0] == '/') {
        split_path(head, head->target);
        good = true;
    } else {
        good = split_absolute(head);
    }
    // Browsers send a query as it was given to them: its escapes are not checked.
    if (!good || memchr(head->target.at, '#', head->target.size) || !escapes_valid(head->path))
        return fail(reader, 400, "the target is malformed");
    return true;
}

// Exactly one Host, or none with HTTP/1.0: RFC 9112 section 3.2.
static bool check_host(struct mare__http_reader *reader)
{
    struct mare__http_head *head = &reader->head;
    size_t count = 0;
    for (size_t i = 0; i < head->count; i++) {
        if (!mare__http_same(head->fields[i].name, "host"))
            continue;
        count++;
        if (!mare__http_host_valid(head->fields[i].value))
            return fail(reader, 400, "the Host is malformed");
        if (!head->host.size)
            head->host = head->fields[i].value;
    }
    if (count > 1)
        return fail(reader, 400, "more than one Host");
    if (count == 0 && head->minor > 0)
        return fail(reader, 400, "a request without a Host");
    return true;
}

// ---- The body -----------------------------------------------------------------------------------

// The transfer codings: none, or chunked, which must be the last, only once, and is the only one
// that is known (RFC 9112 sections 6.1 and 6.3).
static bool check_codings(struct mare__http_reader *reader, bool *chunked)
{
    size_t others = 0, empty = 0, count = 0;
    *chunked = false;
    for (size_t i = 0; i < reader->head.count; i++) {
        struct mare__span list = reader->fields[i].value, coding;
        if (!mare__http_same(reader->fields[i].name, "transfer-encoding"))
            continue;
        for (; mare__http_next_element(&list, &coding); count++) {
            if (*chunked)
                return fail(reader, 400, "a transfer coding after chunked");
            *chunked = mare__http_same(coding, "chunked");
            others += !*chunked;
            empty += coding.size == 0;
        }
    }
    if (count == 0)
        return true;
    if (reader->head.minor == 0)
        return fail(reader, 400, "a transfer coding in HTTP/1.0");
    if (!*chunked || empty)
        return fail(reader, 400, "the last transfer coding is not chunked");
    if (others)
        return fail(reader, 501, "a transfer coding that is not known");
    return true;
}

// A response without a body, whatever its fields say: RFC 9112 section 6.3.
static bool is_bodiless(const struct mare__http_reader *reader)
{
    int status = reader->head.status;
    return reader->answers == MARE__HTTP_ANSWERS_HEAD || status / 100 == 1 || status == 204 ||
           status == 304 || (reader->answers == MARE__HTTP_ANSWERS_CONNECT && status / 100 == 2);
}

static bool choose_body(struct mare__http_reader *reader, struct parse *parse)
{
    struct mare__http_head *head = &reader->head;
    uint64_t length = parse->length;
    struct mare__span value;
    bool response = reader->kind == MARE__HTTP_RESPONSES, chunked;
    if (!check_codings(reader, &chunked))
        return false;
    bool has_length = mare__http_find(head, "content-length", &value);
    if (has_length && (chunked || length == UINT64_MAX))
        return fail(reader, 400, "the length of the body is not clear");
    if (has_length && length > INT64_MAX) // later code uses signed numbers
        return fail(reader, 413, "the body is too large");
    parse->announces = chunked || (has_length && length > 0);
    if (response && head->status / 100 == 1 && parse->announces)
        return fail(reader, 400, "a response that cannot have a body announces one");
    if (response && is_bodiless(reader)) {
        head->body = MARE__HTTP_BODY_NONE;
    } else if (chunked) {
        head->body = MARE__HTTP_BODY_CHUNKED;
    } else if (has_length) {
        head->body = length ? MARE__HTTP_BODY_LENGTH : MARE__HTTP_BODY_NONE;
        head->length = length;
    } else {
        head->body = response ? MARE__HTTP_BODY_UNTIL_CLOSE : MARE__HTTP_BODY_NONE;
    }
    return true;
}

// ---- The rest -----------------------------------------------------------------------------------

// RFC 9110 section 10.1.1: HTTP/1.0 does not have it.
static bool check_expect(struct mare__http_reader *reader)
{
    struct mare__http_head *head = &reader->head;
    struct mare__span value;
    if (head->minor == 0 || !mare__http_find(head, "expect", &value))
        return true;
    if (!mare__http_same(value, "100-continue"))
        return fail(reader, 417, "an expectation that is not known");
    head->expect_continue = head->body != MARE__HTTP_BODY_NONE;
    return true;
}

static void choose_connection(struct mare__http_reader *reader, const struct parse *parse)
{
    struct mare__http_head *head = &reader->head;
    struct mare__span upgrade;
    // RFC 9110 section 8.6: a server that announces a body where there can be none may send one all
    // the same, and it would be taken for the next response. With HEAD and 304 the announced length
    // is that of GET.
    bool astray = head->status == 204 && parse->announces;
    bool close = astray || mare__http_has_token(head, "connection", "close");
    bool keep = head->minor > 0 || mare__http_has_token(head, "connection", "keep-alive");
    head->keep_alive = keep && !close && head->body != MARE__HTTP_BODY_UNTIL_CLOSE;
    head->interim = head->status / 100 == 1 && head->status != 101;
    bool may_switch = reader->kind == MARE__HTTP_REQUESTS ? head->minor > 0 : head->status == 101;
    if (may_switch && mare__http_has_token(head, "connection", "upgrade") &&
        mare__http_find(head, "upgrade", &upgrade))
        head->upgrade = upgrade;
}

bool mare__http_understand(struct mare__http_reader *reader)
{
    struct parse parse = {.reader = reader};
    bool request = reader->kind == MARE__HTTP_REQUESTS;
    if (!check_first_line(reader) || !take_apart(reader, &parse))
        return false;
    if (request && (!check_target(reader) || !check_host(reader)))
        return false;
    if (!choose_body(reader, &parse) || (request && !check_expect(reader)))
        return false;
    choose_connection(reader, &parse);
    return true;
}

const char *mare__http_phrase(int status)
{
    const char *phrase = http_status_str((enum http_status)status);
    return phrase[0] == '<' ? "" : phrase; // "<unknown>"
}
