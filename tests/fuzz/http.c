// SPDX-License-Identifier: MIT
// Any bytes through the reader of HTTP. However they are cut, the events are the same; and whatever
// it reads, the writers can write, so that it is read again as what it was. Every head is also
// looked at for a handshake of WebSocket.
//
//     how (see below) | how to cut | what a peer sends
#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#include "wire/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The bits of the first byte.
enum { RESPONSES = 1, ANSWERS_HEAD = 2, ANSWERS_CONNECT = 4, SMALL = 8, MORE_METHODS = 16 };

static void add(struct mare__bytes *bytes, const void *data, size_t size)
{
    if (mare__bytes_add(bytes, data, size))
        abort();
}

static void add_span(struct mare__bytes *bytes, struct mare__span span)
{
    add(bytes, &span.size, sizeof span.size);
    add(bytes, span.at, span.size);
}

static void begin(struct mare__http_reader *reader, uint8_t how)
{
    mare__http_reader_init(reader, how & RESPONSES ? MARE__HTTP_RESPONSES : MARE__HTTP_REQUESTS);
    if (how & SMALL)
        reader->limits = (struct mare__http_limits){.start_line = 40,
                                                    .field_line = 30,
                                                    .head = 120,
                                                    .fields = 4,
                                                    .extensions = 6,
                                                    .trailers = 30,
                                                    .body = 20};
    if (how & MORE_METHODS)
        reader->methods = "QUERY A BREW-TEA";
    if (how & (ANSWERS_HEAD | ANSWERS_CONNECT))
        mare__http_reader_expect(reader, mare__span_of(how & ANSWERS_HEAD ? "HEAD" : "CONNECT"));
}

// ---- Writing again ------------------------------------------------------------------------------

static bool made_here(struct mare__span name)
{
    static const char *const names[] = {"Connection", "Content-Length",    "Date",   "Expect",
                                        "Host",       "Transfer-Encoding", "Upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name.size == strlen(names[i]) && strncasecmp(name.at, names[i], name.size) == 0)
            return true;
    return false;
}

// The fields that a writer does not make itself. The caller frees them.
static struct mare__http_field *other_fields(const struct mare__http_head *head, size_t *count)
{
    struct mare__http_field *fields = malloc((head->count + 1) * sizeof *fields);
    if (!fields)
        abort();
    *count = 0;
    for (size_t i = 0; i < head->count; i++)
        if (!made_here(head->fields[i].name))
            fields[(*count)++] = head->fields[i];
    return fields;
}

static void write_head(struct mare__bytes *out, const struct mare__http_head *head)
{
    struct mare__http_request request = {.method = head->method,
                                         .target = head->target,
                                         .host = head->host,
                                         .body = head->body,
                                         .length = head->length,
                                         .upgrade = head->upgrade,
                                         .keep_alive = head->keep_alive,
                                         .expect_continue = head->expect_continue};
    struct mare__http_response response = {.status = head->status,
                                           .reason = head->reason,
                                           .body = head->body,
                                           .length = head->length,
                                           .upgrade = head->upgrade,
                                           .minor = 1,
                                           .keep_alive = head->keep_alive};
    size_t count;
    struct mare__http_field *fields = other_fields(head, &count);
    response.fields = request.fields = fields;
    response.count = request.count = count;
    mare_err err = head->status ? mare__http_put_response(out, &response)
                                : mare__http_put_request(out, &request);
    assert(err == MARE_OK);
    free(fields);
}

// What must be the same when a message has been written and read again.
static void describe(struct mare__bytes *out, const struct mare__http_head *head)
{
    struct mare__span spans[] = {head->method, head->target, head->path,
                                 head->query,  head->host,   head->upgrade};
    bool flags[] = {head->expect_continue, head->interim, head->keep_alive || head->status == 101};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        add_span(out, spans[i]);
    add(out, flags, sizeof flags);
    add(out, &head->status, sizeof head->status);
    add(out, &head->body, sizeof head->body);
    add(out, &head->length, sizeof head->length);
    size_t count;
    struct mare__http_field *fields = other_fields(head, &count);
    for (size_t i = 0; i < count; i++) {
        add_span(out, fields[i].name);
        add_span(out, fields[i].value);
    }
    free(fields);
}

// A message on its way: as it was read, and as it is written.
struct message {
    struct mare__bytes described, body, written;
    enum mare__http_body kind;
    uint8_t answers;
};

static void begin_again(struct message *message, const struct mare__http_reader *reader)
{
    const struct mare__http_head *head = &reader->head;
    message->described.size = message->body.size = message->written.size = 0;
    message->kind = head->body;
    message->answers = reader->answers; // which holds for one response only
    describe(&message->described, head);
    write_head(&message->written, head);
}

static void go_on_again(struct message *message, struct mare__span slice)
{
    add(&message->body, slice.at, slice.size);
    if (message->kind != MARE__HTTP_BODY_CHUNKED)
        add(&message->written, slice.at, slice.size);
    else if (mare__http_put_chunk(&message->written, slice.at, slice.size))
        abort();
}

// Reads what was written: it is the message.
static void end_again(struct message *message, uint8_t how)
{
    struct mare__http_reader reader;
    struct mare__bytes described = {0}, body = {0};
    size_t at = 0, used;
    enum mare__http_event event;
    if (message->kind == MARE__HTTP_BODY_CHUNKED && mare__http_put_last_chunk(&message->written))
        abort();
    begin(&reader, how & ~SMALL);
    reader.answers = message->answers;
    reader.limits.head = MARE__HTTP_HEAD_MOST;
    reader.limits.start_line = reader.limits.field_line = MARE__HTTP_HEAD_MOST;
    reader.limits.fields = UINT32_MAX;
    do {
        event =
            mare__http_read(&reader, message->written.at + at, message->written.size - at, &used);
        at += used;
        if (event == MARE__HTTP_HEAD)
            describe(&described, &reader.head);
        else if (event == MARE__HTTP_BODY)
            add(&body, reader.slice.at, reader.slice.size);
    } while (event == MARE__HTTP_HEAD || event == MARE__HTTP_BODY);
    if (event == MARE__HTTP_MORE)
        event = mare__http_read_end(&reader);
    assert(event == MARE__HTTP_END && at == message->written.size);
    assert(described.size == message->described.size && body.size == message->body.size);
    assert(described.size > 0 && memcmp(described.at, message->described.at, described.size) == 0);
    assert(body.size == 0 || memcmp(body.at, message->body.at, body.size) == 0);
    mare__http_reader_fini(&reader);
    mare__bytes_fini(&described);
    mare__bytes_fini(&body);
}

// ---- Reading ------------------------------------------------------------------------------------

struct run {
    struct mare__http_reader reader;
    struct mare__bytes transcript;
    struct message message;
    uint8_t how;
    bool write; // what is read is written again
    bool in_body, failed;
};

static void look_for_a_handshake(const struct mare__http_head *head)
{
    struct mare__span key = {0};
    if (head->status) {
        mare__ws_check_response(head, "dGhlIHNhbXBsZSBub25jZQ==", mare__span_of("a, b"));
    } else if (mare__ws_check_request(head, &key) == 0) {
        assert(key.size == MARE__WS_KEY);
        char accept[MARE__WS_ACCEPT + 1];
        mare__ws_make_accept(key, accept);
        assert(strlen(accept) == MARE__WS_ACCEPT);
    }
}

static void note_head(struct run *run)
{
    const struct mare__http_head *head = &run->reader.head;
    add(&run->transcript, "HEAD", 4);
    describe(&run->transcript, head);
    add_span(&run->transcript, head->reason);
    for (size_t i = 0; i < head->count; i++) {
        add_span(&run->transcript, head->fields[i].name);
        add_span(&run->transcript, head->fields[i].value);
    }
    look_for_a_handshake(head);
    if (run->write)
        begin_again(&run->message, &run->reader);
}

static void note(struct run *run, enum mare__http_event event)
{
    if (event == MARE__HTTP_BODY) {
        assert(run->reader.slice.size > 0);
        if (!run->in_body)
            add(&run->transcript, "BODY", 4);
        add(&run->transcript, run->reader.slice.at, run->reader.slice.size);
        if (run->write)
            go_on_again(&run->message, run->reader.slice);
    }
    run->in_body = event == MARE__HTTP_BODY;
    if (event == MARE__HTTP_HEAD)
        note_head(run);
    if (event == MARE__HTTP_END) {
        add(&run->transcript, "END", 3);
        if (run->write)
            end_again(&run->message, run->how);
    }
    if (event == MARE__HTTP_ERROR) {
        add(&run->transcript, "ERROR", 5);
        add(&run->transcript, &run->reader.error, sizeof run->reader.error);
        run->failed = true;
    }
}

static void read_piece(struct run *run, const uint8_t *data, size_t size)
{
    // Of exactly this size, so that AddressSanitizer sees the first byte read too far.
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    size_t at = 0, used, idle = 0;
    enum mare__http_event event;
    do {
        event = mare__http_read(&run->reader, copy + at, size - at, &used);
        assert(used <= size - at);
        at += used;
        idle = used ? 0 : idle + 1;
        assert(idle < 4); // it goes on, or says so
        if (event != MARE__HTTP_MORE)
            note(run, event);
    } while (event != MARE__HTTP_MORE && event != MARE__HTTP_ERROR);
    free(copy);
}

// Reads everything in pieces of up to `most` bytes; 0: at once.
static void read_all(struct run *run, const uint8_t *data, size_t size, uint32_t random,
                     size_t most)
{
    begin(&run->reader, run->how);
    for (size_t at = 0; at < size && !run->failed;) {
        random = random * 1664525 + 1013904223;
        size_t count = most ? 1 + (random >> 8) % most : size;
        count = count < size - at ? count : size - at;
        read_piece(run, data + at, count);
        at += count;
    }
    if (!run->failed)
        note(run, mare__http_read_end(&run->reader));
}

static void end_run(struct run *run)
{
    mare__http_reader_fini(&run->reader);
    mare__bytes_fini(&run->transcript);
    mare__bytes_fini(&run->message.described);
    mare__bytes_fini(&run->message.body);
    mare__bytes_fini(&run->message.written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 20000)
        return 0;
    static const size_t pieces[] = {1, 7, 100};
    struct run whole = {.how = data[0], .write = true};
    read_all(&whole, data + 2, size - 2, 0, 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct run cut = {.how = data[0]};
        read_all(&cut, data + 2, size - 2, data[1], pieces[i]);
        assert(cut.transcript.size == whole.transcript.size);
        assert(whole.transcript.size == 0 ||
               memcmp(cut.transcript.at, whole.transcript.at, whole.transcript.size) == 0);
        end_run(&cut);
    }
    end_run(&whole);
    return 0;
}
