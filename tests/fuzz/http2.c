// SPDX-License-Identifier: MIT
// Any frames through a session of HTTP/2, a server's or a client's, that answers, reads and forgets
// as lua/mare/http does. However they are cut, what is kept stays within its bounds, and nothing is
// left in the end.
//
//     how (see below) | how to cut | what a peer sends, after how it must begin
#include <assert.h>
#include <stdlib.h>

#include "wire/http2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The bits of the first byte.
enum { CLIENT = 1, SMALL = 2, RAW = 4, IN_PARTS = 8, LAZY = 16 };

enum { WINDOW = 20000, TEXT = 70000 };

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const uint8_t settings_frame[9] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
static char text[TEXT];

struct run {
    struct mare__http2 http2;
    uint8_t how;
    size_t unread;
    uint64_t now;
};

static void look_at_head(struct run *run, struct mare__http2_stream *stream)
{
    struct mare__http_head head;
    struct mare__http2_answer answer = {.status = 200, .has_body = true};
    bool good = run->how & CLIENT ? mare__http2_response_head(&run->http2, stream, &head)
                                  : mare__http2_request_head(&run->http2, stream, "QUERY", &head);
    assert(good || (stream->refused >= 400 && stream->reason));
    for (size_t i = 0; good && i < head.count; i++)
        assert(head.fields[i].name.size > 0 && head.fields[i].name.at[0] != ':');
    if (good && !(run->how & CLIENT))
        assert(head.method.size > 0 && head.host.size <= 70000 && head.target.size > 0);
    if (run->how & CLIENT)
        return;
    if (!good)
        answer.status = stream->refused;
    if (!(run->how & IN_PARTS))
        answer.text = (struct mare__span){text, sizeof text};
    mare_err err = mare__http2_respond(&run->http2, stream, &answer);
    assert(err == MARE_OK || err == MARE_CLOSED);
}

static void take_event(struct run *run, const struct mare__http2_event *event)
{
    struct mare__http2_stream *stream = mare__http2_find(&run->http2, event->stream);
    if (!stream)
        return;
    switch (event->kind) {
    case MARE__HTTP2_HEAD:
        look_at_head(run, stream);
        if ((run->how & IN_PARTS) && !(run->how & CLIENT))
            mare__http2_give(&run->http2, stream, (struct mare__span){text, 1000}, false);
        break;
    case MARE__HTTP2_BODY:
        if (!(run->how & LAZY))
            mare__http2_body_used(&run->http2, stream, mare__http2_body(stream).size);
        else if (stream->ended)
            mare__http2_ignore(&run->http2, stream);
        break;
    case MARE__HTTP2_DRAINED:
        if ((run->how & IN_PARTS) && !(run->how & CLIENT))
            mare__http2_give(&run->http2, stream, (struct mare__span){text, 10}, true);
        break;
    case MARE__HTTP2_CLOSED:
        mare__http2_forget(&run->http2, stream);
        break;
    default:
        break;
    }
}

// Takes what has happened, and what is to be sent; then nothing is beyond its bounds.
static void settle(struct run *run)
{
    struct mare__http2_event event;
    struct mare__span bytes;
    size_t unread = 0;
    do {
        while (mare__http2_next(&run->http2, &event))
            take_event(run, &event);
        if (mare__http2_take(&run->http2, &bytes))
            abort();
        assert(bytes.size < 100000);
        mare__http2_used(&run->http2, bytes.size);
    } while (bytes.size > 0);
    for (struct mare__http2_stream *one = run->http2.streams; one; one = one->next)
        unread += mare__http2_body(one).size;
    assert(run->how & CLIENT || unread <= WINDOW + 65535); // what was on its way at first
    assert(run->http2.open <= 10 + 3);
}

static void ask(struct run *run)
{
    struct mare__http2_question question = {.method = mare__span_of("POST"),
                                            .scheme = mare__span_of("https"),
                                            .authority = mare__span_of("a"),
                                            .target = mare__span_of("/"),
                                            .has_body = true,
                                            .text = {text, 100}};
    struct mare__http2_stream *stream;
    for (int i = 0; i < 3; i++)
        if (mare__http2_ask(&run->http2, &question, &stream))
            abort();
}

static void feed(struct run *run, const uint8_t *data, size_t size)
{
    // Of exactly this size, so that AddressSanitizer sees the first byte read too far.
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    run->now += 1000000;
    mare__http2_receive(&run->http2, copy, size, run->now);
    free(copy);
    settle(run);
}

static void run_all(const uint8_t *data, size_t size, size_t most)
{
    struct run run = {.how = data[0], .now = 1};
    struct mare__http2_settings settings = {
        .server = !(data[0] & CLIENT),
        .streams = 10,
        .stream_window = WINDOW,
        .session_window = 65535 + WINDOW,
        .limits = {.start_line = 8192, .field_line = 8192, .head = 32768, .fields = 100}};
    if (data[0] & SMALL)
        settings.limits = (struct mare__http_limits){
            .start_line = 20, .field_line = 30, .head = 120, .fields = 4};
    if (mare__http2_init(&run.http2, &settings, run.now))
        abort();
    settle(&run);
    if (!(data[0] & RAW)) {
        if (settings.server)
            feed(&run, (const uint8_t *)preface, sizeof preface - 1);
        feed(&run, settings_frame, sizeof settings_frame);
    }
    if (!settings.server)
        ask(&run);
    for (size_t at = 2; at < size && !run.http2.over;) {
        size_t part = most && size - at > most ? most : size - at;
        feed(&run, data + at, part);
        at += part;
    }
    mare__http2_sweep(&run.http2, 1000);
    mare__http2_sweep(&run.http2, 1000);
    mare__http2_goodbye(&run.http2, data[1] & 1);
    settle(&run);
    mare__http2_fini(&run.http2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 100000)
        return 0;
    memset(text, 'x', sizeof text);
    run_all(data, size, 0);
    run_all(data, size, 1 + data[1]);
    return 0;
}
