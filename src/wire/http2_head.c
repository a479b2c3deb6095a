// SPDX-License-Identifier: MIT
// Heads of HTTP/2: the fields as they come, what they mean in the words of HTTP/1.1, and how others
// are sent. nghttp2 has checked the rules of RFC 9113 section 8: the pseudo-fields, names in lower
// case, no fields of a connection, bodies as long as their length says. This file refuses targets
// and hosts that nghttp2 accepts and our HTTP/1.1 does not.
#include <http_parser.h>
#include <stdio.h>

#include "base/alloc.h"
#include "wire/http2_inner.h"

// ---- As they come -------------------------------------------------------------------------------

static bool is(struct mare__span text, const char *word)
{
    return text.size == strlen(word) && memcmp(text.at, word, text.size) == 0;
}

static bool refuse(struct mare__http2_stream *stream, uint16_t status, const char *reason)
{
    if (!stream->refused) {
        stream->refused = status;
        stream->reason = reason;
    }
    return false;
}

static bool add_cookie(struct mare__http2_stream *stream, struct mare__span value)
{
    return (stream->cookies.size == 0 || mare__bytes_add(&stream->cookies, "; ", 2) == 0) &&
           mare__bytes_add(&stream->cookies, value.at, value.size) == 0;
}

bool mare__http2_keep_field(struct mare__http2 *http2, struct mare__http2_stream *stream,
                            struct mare__span name, struct mare__span value)
{
    const struct mare__http_limits *limits = &http2->settings.limits;
    uint32_t sizes[] = {(uint32_t)name.size, (uint32_t)value.size};
    if (is(name, ":path") && value.size > limits->start_line)
        refuse(stream, 414, "the target is too long");
    else if (name.size + value.size > limits->field_line && name.at[0] != ':')
        refuse(stream, 431, "a header line is too long");
    else if (http2->block - 32 > limits->head)
        refuse(stream, 431, "the headers are too large");
    else if (name.at[0] != ':' && stream->count >= limits->fields)
        refuse(stream, 431, "too many header lines");
    // The method of a refused request must still be known, so that HEAD is answered as HEAD.
    if (stream->refused && name.at[0] != ':')
        return true;
    if (stream->refused && value.size > limits->start_line)
        return true;
    stream->count += name.at[0] != ':';
    if (is(name, "cookie"))
        return add_cookie(stream, value);
    return mare__bytes_add(&stream->head, sizes, sizeof sizes) == 0 &&
           mare__bytes_add(&stream->head, name.at, name.size) == 0 &&
           mare__bytes_add(&stream->head, value.at, value.size) == 0;
}

// ---- What they mean -----------------------------------------------------------------------------

// The next field of a head; false: there is none.
static bool next_field(const struct mare__http2_stream *stream, size_t *at,
                       struct mare__http_field *field)
{
    uint32_t sizes[2];
    if (*at >= stream->head.size)
        return false;
    memcpy(sizes, stream->head.at + *at, sizeof sizes);
    const char *text = stream->head.at + *at + sizeof sizes;
    *field = (struct mare__http_field){{text, sizes[0]}, {text + sizes[0], sizes[1]}};
    *at += sizeof sizes + sizes[0] + sizes[1];
    return true;
}

// Room for all fields of a head, and for two that are made here.
static struct mare__http_field *make_room(struct mare__http2 *http2, size_t count)
{
    if (http2->field_room < count + 2) {
        void *room = mare__realloc(http2->fields, (count + 2) * sizeof(struct mare__http_field));
        if (!room)
            return NULL;
        http2->fields = room;
        http2->field_room = count + 2;
    }
    return http2->fields;
}

// nghttp2 makes sure that these are digits.
static void set_length(struct mare__http_head *head, struct mare__span digits)
{
    head->body = MARE__HTTP_BODY_LENGTH;
    for (size_t i = 0; i < digits.size; i++) {
        uint64_t digit = (uint64_t)(digits.at[i] - '0');
        bool fits = head->length <= (INT64_MAX - digit) / 10;
        head->length = fits ? head->length * 10 + digit : INT64_MAX;
    }
}

// Makes the head of its fields, but for the pseudo-fields, which `take` gets.
static bool gather(struct mare__http2 *http2, struct mare__http2_stream *stream,
                   struct mare__http_head *head,
                   void (*take)(struct mare__http_head *, const struct mare__http_field *))
{
    struct mare__http_field *fields = make_room(http2, stream->count), field;
    if (!fields)
        return refuse(stream, 503, "not enough memory");
    *head = (struct mare__http_head){.minor = 1, .keep_alive = true, .fields = fields};
    head->body = stream->bodiless ? MARE__HTTP_BODY_NONE : MARE__HTTP_BODY_CHUNKED;
    for (size_t at = 0; next_field(stream, &at, &field);) {
        if (field.name.at[0] == ':') {
            take(head, &field);
            continue;
        }
        if (is(field.name, "content-length") && !stream->bodiless)
            set_length(head, field.value);
        fields[head->count++] = field;
    }
    if (stream->cookies.size > 0)
        fields[head->count++] = (struct mare__http_field){
            mare__span_of("cookie"), {stream->cookies.at, stream->cookies.size}};
    return true;
}

static void take_of_request(struct mare__http_head *head, const struct mare__http_field *field)
{
    if (is(field->name, ":method"))
        head->method = field->value;
    else if (is(field->name, ":path"))
        head->target = field->value;
    else if (is(field->name, ":authority"))
        head->host = field->value;
}

static bool is_known(struct mare__span method, const char *methods)
{
    for (unsigned i = 0; i <= HTTP_SOURCE; i++)
        if (is(method, http_method_str((enum http_method)i)))
            return true;
    for (const char *at = methods; at && *at;) {
        size_t size = strcspn(at, " ");
        if (size == method.size && memcmp(at, method.at, size) == 0)
            return true;
        at += size + strspn(at + size, " ");
    }
    return false;
}

static bool same_host(struct mare__span one, struct mare__span other)
{
    if (one.size != other.size)
        return false;
    for (size_t i = 0; i < one.size; i++) {
        char a = one.at[i], b = other.at[i];
        if (a != b && ((a | 32) != (b | 32) || (a | 32) < 'a' || (a | 32) > 'z'))
            return false;
    }
    return true;
}

// One host, by ":authority" or by Host, or by both alike (section 8.3.1); it is in both then.
static bool check_host(struct mare__http_head *head, struct mare__http2_stream *stream)
{
    struct mare__http_field *fields = (struct mare__http_field *)head->fields;
    size_t count = 0;
    for (size_t i = 0; i < head->count; i++) {
        if (!is(fields[i].name, "host"))
            continue;
        if (++count > 1)
            return refuse(stream, 400, "more than one Host");
        if (head->host.at && !same_host(head->host, fields[i].value))
            return refuse(stream, 400, "a Host that is not the :authority");
        head->host = fields[i].value;
    }
    if (!head->host.at)
        return refuse(stream, 400, "a request without a Host");
    if (!mare__http_host_valid(head->host))
        return refuse(stream, 400, "the Host is malformed");
    if (count == 0)
        fields[head->count++] = (struct mare__http_field){mare__span_of("host"), head->host};
    return true;
}

static bool check_target(struct mare__http_head *head, struct mare__http2_stream *stream)
{
    struct mare__span target = head->target;
    if (is(head->method, "CONNECT")) { // which has no path (section 8.5)
        head->target = head->host;
        return true;
    }
    const char *mark = memchr(target.at, '?', target.size);
    if (!mare__http_all(target, MARE__HTTP_TARGET) || memchr(target.at, '#', target.size) ||
        (target.at[0] != '/' && !is(target, "*")))
        return refuse(stream, 400, "the target is malformed");
    head->path = (struct mare__span){target.at, mark ? (size_t)(mark - target.at) : target.size};
    if (mark)
        head->query = (struct mare__span){mark + 1, target.size - head->path.size - 1};
    return true;
}

bool mare__http2_request_head(struct mare__http2 *http2, struct mare__http2_stream *stream,
                              const char *methods, struct mare__http_head *head)
{
    if (!gather(http2, stream, head, take_of_request) || stream->refused)
        return false;
    if (!mare__http_all(head->method, MARE__HTTP_TOKEN))
        return refuse(stream, 400, "the method is malformed");
    if (!is_known(head->method, methods))
        return refuse(stream, 501, "the method is not known");
    struct mare__span expected;
    head->expect_continue = !stream->bodiless && mare__http_find(head, "expect", &expected) &&
                            mare__http_same(expected, "100-continue");
    return check_host(head, stream) && check_target(head, stream);
}

static void take_of_response(struct mare__http_head *head, const struct mare__http_field *field)
{
    for (size_t i = 0; is(field->name, ":status") && i < field->value.size; i++)
        head->status = head->status * 10 + (field->value.at[i] - '0');
}

bool mare__http2_response_head(struct mare__http2 *http2, struct mare__http2_stream *stream,
                               struct mare__http_head *head)
{
    return gather(http2, stream, head, take_of_response) && !stream->refused;
}

// ---- Sent ---------------------------------------------------------------------------------------

// Fields on their way to nghttp2, which copies them.
struct pairs {
    struct mare__http2 *http2;
    nghttp2_nv *at;
    size_t count;
};

static mare_err begin_pairs(struct pairs *pairs, struct mare__http2 *http2,
                            const struct mare__http_field *fields, size_t count)
{
    size_t names = 0, room = count + 6;
    if (http2->pair_room < room) {
        void *more = mare__realloc(http2->pairs, room * sizeof(nghttp2_nv));
        if (!more)
            return MARE_NOMEM;
        http2->pairs = more;
        http2->pair_room = room;
    }
    for (size_t i = 0; i < count; i++)
        names += fields[i].name.size;
    *pairs = (struct pairs){http2, http2->pairs, 0};
    http2->names.size = 0;
    return mare__bytes_reserve(&http2->names, names); // so that the names do not move
}

static void add(struct pairs *pairs, const char *name, size_t name_size, struct mare__span value)
{
    pairs->at[pairs->count++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)(value.at ? value.at : ""),
                                             name_size, value.size, NGHTTP2_NV_FLAG_NONE};
}

static void add_named(struct pairs *pairs, const char *name, struct mare__span value)
{
    add(pairs, name, strlen(name), value);
}

// Fields of an HTTP/1.1 connection (section 8.2.2): left out, because a program may set them for
// both.
static bool is_dropped(struct mare__span name)
{
    return mare__http_same(name, "keep-alive") || mare__http_same(name, "proxy-connection") ||
           mare__http_same(name, "te");
}

static mare_err add_fields(struct pairs *pairs, const struct mare__http_field *fields, size_t count,
                           enum mare__http_kind kind)
{
    struct mare__bytes *names = &pairs->http2->names;
    for (size_t i = 0; i < count; i++) {
        struct mare__span name = fields[i].name, value = fields[i].value;
        if (mare__http_field_fault(&fields[i], kind))
            return MARE_INVALID;
        if (is_dropped(name))
            continue;
        char *lower = names->at + names->size;
        for (size_t at = 0; at < name.size; at++)
            lower[at] =
                (char)(name.at[at] >= 'A' && name.at[at] <= 'Z' ? name.at[at] + 32 : name.at[at]);
        names->size += name.size;
        while (value.size > 0 && (value.at[0] == ' ' || value.at[0] == '\t'))
            value.at++, value.size--;
        while (value.size > 0 &&
               (value.at[value.size - 1] == ' ' || value.at[value.size - 1] == '\t'))
            value.size--;
        add(pairs, lower, name.size, value);
    }
    return MARE_OK;
}

static mare_err code_of(int err)
{
    return err >= 0 ? MARE_OK : err == NGHTTP2_ERR_NOMEM ? MARE_NOMEM : MARE_CLOSED;
}

static nghttp2_data_provider supplier(struct mare__http2_stream *stream)
{
    return (nghttp2_data_provider){{.ptr = stream}, mare__http2_supply};
}

mare_err mare__http2_respond(struct mare__http2 *http2, struct mare__http2_stream *stream,
                             const struct mare__http2_answer *answer)
{
    struct pairs pairs;
    char status[4], length[24];
    bool interim = answer->status < 200;
    if (answer->status < 100 || answer->status > 999)
        return MARE_INVALID;
    if (stream->closed || stream->answered || http2->over)
        return MARE_CLOSED;
    snprintf(status, sizeof status, "%d", answer->status);
    snprintf(length, sizeof length, "%llu", (unsigned long long)answer->length);
    mare_err err = begin_pairs(&pairs, http2, answer->fields, answer->count);
    if (err)
        return err;
    add_named(&pairs, ":status", (struct mare__span){status, 3});
    err = add_fields(&pairs, answer->fields, answer->count, MARE__HTTP_RESPONSES);
    if (err)
        return err;
    if (answer->date.size > 0)
        add_named(&pairs, "date", answer->date);
    if (answer->has_length)
        add_named(&pairs, "content-length", mare__span_of(length));
    if (interim)
        return code_of(nghttp2_submit_headers(http2->session, NGHTTP2_FLAG_NONE, stream->id, NULL,
                                              pairs.at, pairs.count, NULL));
    nghttp2_data_provider provider = supplier(stream);
    stream->out = answer->text.at;
    stream->left = answer->text.size;
    stream->last = answer->text.at != NULL;
    err = code_of(nghttp2_submit_response(http2->session, stream->id, pairs.at, pairs.count,
                                          answer->has_body ? &provider : NULL));
    stream->answered = !err;
    return err;
}

mare_err mare__http2_ask(struct mare__http2 *http2, const struct mare__http2_question *question,
                         struct mare__http2_stream **result)
{
    struct pairs pairs;
    char length[24];
    if (http2->over || http2->going || !nghttp2_session_check_request_allowed(http2->session))
        return MARE_CLOSED;
    snprintf(length, sizeof length, "%llu", (unsigned long long)question->length);
    mare_err err = begin_pairs(&pairs, http2, question->fields, question->count);
    if (err)
        return err;
    add_named(&pairs, ":method", question->method);
    add_named(&pairs, ":scheme", question->scheme);
    add_named(&pairs, ":authority", question->authority);
    add_named(&pairs, ":path", question->target);
    if (question->has_length)
        add_named(&pairs, "content-length", mare__span_of(length));
    err = add_fields(&pairs, question->fields, question->count, MARE__HTTP_REQUESTS);
    if (err)
        return err;
    int32_t next = (int32_t)nghttp2_session_get_next_stream_id(http2->session);
    struct mare__http2_stream *stream = mare__http2_stream_new(http2, next);
    if (!stream)
        return MARE_NOMEM;
    stream->out = question->text.at;
    stream->left = question->text.size;
    stream->last = question->text.at != NULL;
    nghttp2_data_provider provider = supplier(stream);
    int32_t id = nghttp2_submit_request(http2->session, NULL, pairs.at, pairs.count,
                                        question->has_body ? &provider : NULL, stream);
    if (id < 0) {
        http2->open--;
        mare__http2_stream_free(http2, stream);
        return code_of(id);
    }
    *result = stream;
    return MARE_OK;
}

mare_err mare__http2_give(struct mare__http2 *http2, struct mare__http2_stream *stream,
                          struct mare__span part, bool last)
{
    if (stream->closed || stream->last || http2->over)
        return MARE_CLOSED;
    stream->out = part.at;
    stream->left = part.size;
    stream->last = last;
    // Before the head was sent nghttp2 has nothing to resume; it asks for the body by itself then.
    int err = nghttp2_session_resume_data(http2->session, stream->id);
    return err == NGHTTP2_ERR_NOMEM ? MARE_NOMEM : MARE_OK;
}

uint32_t mare__http2_streams_most(const struct mare__http2 *http2)
{
    return nghttp2_session_get_remote_settings(http2->session,
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}
