// SPDX-License-Identifier: MIT
// What a reader of HTTP tells of some bytes, as text that a test can be compared with:
//
//     HEAD GET /a?b HTTP/1.1 keep-alive body=length:3
//       Host: example.org
//     BODY abc
//     END
//     ERROR 400
//     CLOSED, CUT or ENDED: what the end of the bytes is
//
// The parts of a body are put together, so that the text is the same however the bytes were cut.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "unit.h"
#include "wire/http.h"

struct transcript {
    struct mare__bytes text;
    bool in_body;
    int errors;
};

static inline void transcript_add(struct transcript *transcript, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && length < (int)sizeof line);
    assert_int_equal(mare__bytes_add(&transcript->text, line, (size_t)length), 0);
}

static inline void transcript_span(struct transcript *transcript, const char *before,
                                   struct mare__span span)
{
    transcript_add(transcript, "%s", before);
    assert_int_equal(mare__bytes_add(&transcript->text, span.at, span.size), 0);
}

static inline void transcript_head(struct transcript *transcript,
                                   const struct mare__http_reader *reader)
{
    static const char *const bodies[] = {"none", "length", "chunked", "until-close"};
    const struct mare__http_head *head = &reader->head;
    if (head->status) {
        transcript_add(transcript, "HEAD %d", head->status);
        transcript_span(transcript, " ", head->reason);
    } else {
        transcript_span(transcript, "HEAD ", head->method);
        transcript_span(transcript, " ", head->target);
    }
    transcript_add(transcript, " HTTP/1.%d%s%s%s body=%s", head->minor,
                   head->keep_alive ? " keep-alive" : "", head->expect_continue ? " expect" : "",
                   head->interim ? " interim" : "", bodies[head->body]);
    if (head->body == MARE__HTTP_BODY_LENGTH)
        transcript_add(transcript, ":%llu", (unsigned long long)head->length);
    if (head->upgrade.size)
        transcript_span(transcript, " upgrade=", head->upgrade);
    transcript_add(transcript, "\n");
    for (size_t i = 0; i < head->count; i++) {
        transcript_span(transcript, "  ", head->fields[i].name);
        transcript_span(transcript, ": ", head->fields[i].value);
        transcript_add(transcript, "\n");
    }
}

static inline void transcript_event(struct transcript *transcript,
                                    const struct mare__http_reader *reader,
                                    enum mare__http_event event)
{
    if (event == MARE__HTTP_BODY) {
        assert_true(reader->slice.size > 0);
        transcript_span(transcript, transcript->in_body ? "" : "BODY ", reader->slice);
        transcript->in_body = true;
        return;
    }
    if (transcript->in_body)
        transcript_add(transcript, "\n");
    transcript->in_body = false;
    if (event == MARE__HTTP_HEAD)
        transcript_head(transcript, reader);
    else if (event == MARE__HTTP_END)
        transcript_add(transcript, "END\n");
    else if (event == MARE__HTTP_ERROR)
        transcript_add(transcript, "ERROR %d\n", reader->error.status);
}

// Gives the reader one piece, in a block of exactly its size, so that a sanitizer sees the first
// byte read too far. Returns how many were used.
static inline size_t transcript_piece(struct transcript *transcript,
                                      struct mare__http_reader *reader, const char *bytes,
                                      size_t size)
{
    char *copy = malloc(size ? size : 1);
    size_t at = 0, used;
    enum mare__http_event event = MARE__HTTP_MORE;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    do {
        event = mare__http_read(reader, copy + at, size - at, &used);
        assert_true(used <= size - at);
        if (event == MARE__HTTP_BODY)
            assert_true(reader->slice.at >= copy + at &&
                        reader->slice.at + reader->slice.size <= copy + at + used);
        at += used;
        if (event != MARE__HTTP_MORE)
            transcript_event(transcript, reader, event);
    } while (event != MARE__HTTP_MORE && event != MARE__HTTP_ERROR);
    transcript->errors += event == MARE__HTTP_ERROR;
    free(copy);
    return at;
}

static inline void transcript_end(struct transcript *transcript, struct mare__http_reader *reader)
{
    static const char *const words[] = {
        [MARE__HTTP_MORE] = "CLOSED\n", [MARE__HTTP_END] = "ENDED\n", [MARE__HTTP_ERROR] = "CUT\n"};
    if (transcript->errors)
        return;
    enum mare__http_event event = mare__http_read_end(reader);
    if (transcript->in_body)
        transcript_add(transcript, "\n");
    transcript->in_body = false;
    transcript_add(transcript, "%s", words[event]);
}

// ---- Running a reader ---------------------------------------------------------------------------

// How a case differs from the usual.
struct setup {
    enum mare__http_kind kind;
    const char *answers;             // the method, for responses
    const char *methods;             // more that are known, for requests
    struct mare__http_limits limits; // those that are not 0 are set
};

static inline void begin(struct mare__http_reader *reader, const struct setup *setup)
{
    mare__http_reader_init(reader, setup->kind);
    reader->methods = setup->methods;
    const struct mare__http_limits *from = &setup->limits;
    struct mare__http_limits *to = &reader->limits;
    to->start_line = from->start_line ? from->start_line : to->start_line;
    to->field_line = from->field_line ? from->field_line : to->field_line;
    to->head = from->head ? from->head : to->head;
    to->fields = from->fields ? from->fields : to->fields;
    to->extensions = from->extensions ? from->extensions : to->extensions;
    to->trailers = from->trailers ? from->trailers : to->trailers;
    to->body = from->body ? from->body : to->body;
    if (setup->answers)
        mare__http_reader_expect(reader, mare__span_of(setup->answers));
}

// The transcript of the bytes in pieces of `first`, then `others` each, with a zero at its end. The
// caller frees it.
static inline char *transcript_of(const struct setup *setup, const char *bytes, size_t size,
                                  size_t first, size_t others)
{
    struct mare__http_reader reader;
    struct transcript transcript = {0};
    begin(&reader, setup);
    size_t at = first < size ? first : size;
    transcript_piece(&transcript, &reader, bytes, at);
    while (at < size && !transcript.errors) {
        size_t count = others < size - at ? others : size - at;
        transcript_piece(&transcript, &reader, bytes + at, count);
        at += count;
    }
    transcript_end(&transcript, &reader);
    mare__http_reader_fini(&reader);
    assert_int_equal(mare__bytes_add(&transcript.text, "", 1), 0);
    return transcript.text.at;
}

static inline void check_cut(const struct setup *setup, const char *bytes, size_t size,
                             size_t first, size_t others, const char *expected)
{
    char *got = transcript_of(setup, bytes, size, first, others);
    if (strcmp(got, expected) != 0)
        print_error("cut at %zu, then every %zu:\n%s", first, others, bytes);
    assert_string_equal(got, expected);
    mare__free(got);
}

// The transcript is the expected one: of the bytes at once, cut once at every place, and one by
// one.
static inline void check(const struct setup *setup, const char *bytes, size_t size,
                         const char *expected)
{
    for (size_t first = 0; first <= size; first++)
        check_cut(setup, bytes, size, first, size ? size : 1, expected);
    check_cut(setup, bytes, size, 0, 1, expected);
}

static inline void check_requests(const char *bytes, const char *expected)
{
    check(&(struct setup){.kind = MARE__HTTP_REQUESTS}, bytes, strlen(bytes), expected);
}

static inline void check_responses(const char *bytes, const char *expected)
{
    check(&(struct setup){.kind = MARE__HTTP_RESPONSES}, bytes, strlen(bytes), expected);
}

#define BYTES(text) text, sizeof(text) - 1
