// SPDX-License-Identifier: MIT
// Lets test_oracles.py use the readers and the writers of HTTP and WebSocket. A job is a letter, a
// length of four bytes, the most significant first, and so many bytes; the answer is a length and a
// text of lines, in which bytes are hexadecimal.
//
//     Q, S   reads requests, responses        HEAD method target | HEAD status, FIELD name value,
//                                             BODY bytes, END, ERROR
//     q, s   the same, and WRITTEN bytes for each message: what our writers make of it
//     C, V   reads frames as a client, as a   DATA text|binary bytes last|, PING bytes, PONG bytes,
//            server                           CLOSE code bytes, ERROR code
//     c, v   the same, and WRITTEN bytes for each frame, as the other side would send it
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "wire/websocket.h"

static struct mare__bytes answer;

static void add(struct mare__bytes *bytes, const void *data, size_t size)
{
    if (mare__bytes_add(bytes, data, size))
        abort();
}

static void say(const char *word)
{
    add(&answer, word, strlen(word));
}

static void say_bytes(const void *data, size_t size)
{
    say(" ");
    for (size_t i = 0; i < size; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", ((const uint8_t *)data)[i]);
        say(digits);
    }
}

static void say_span(struct mare__span span)
{
    say_bytes(span.at, span.size);
}

static void say_number(unsigned number)
{
    char digits[16];
    snprintf(digits, sizeof digits, " %u", number);
    say(digits);
}

// ---- HTTP ---------------------------------------------------------------------------------------

static void write_head(struct mare__bytes *out, const struct mare__http_head *head)
{
    static const char *const made_here[] = {"connection", "content-length",    "date",   "expect",
                                            "host",       "transfer-encoding", "upgrade"};
    struct mare__http_field *fields = malloc((head->count + 1) * sizeof *fields);
    size_t count = 0;
    if (!fields)
        abort();
    for (size_t i = 0; i < head->count; i++) {
        bool ours = false;
        for (size_t j = 0; j < sizeof made_here / sizeof *made_here; j++)
            ours |= strlen(made_here[j]) == head->fields[i].name.size &&
                    !strncasecmp(head->fields[i].name.at, made_here[j], strlen(made_here[j]));
        if (!ours)
            fields[count++] = head->fields[i];
    }
    struct mare__http_request request = {.method = head->method,
                                         .target = head->target,
                                         .host = head->host,
                                         .fields = fields,
                                         .count = count,
                                         .body = head->body,
                                         .length = head->length,
                                         .keep_alive = head->keep_alive,
                                         .expect_continue = head->expect_continue};
    struct mare__http_response response = {.status = head->status,
                                           .reason = head->reason,
                                           .fields = fields,
                                           .count = count,
                                           .body = head->body,
                                           .length = head->length,
                                           .minor = 1,
                                           .keep_alive = head->keep_alive};
    if (head->status ? mare__http_put_response(out, &response)
                     : mare__http_put_request(out, &request))
        abort();
    free(fields);
}

static void tell_head(const struct mare__http_head *head)
{
    say("HEAD");
    if (head->status) {
        say_number((unsigned)head->status);
    } else {
        say_span(head->method);
        say_span(head->target);
    }
    say("\n");
    for (size_t i = 0; i < head->count; i++) {
        say("FIELD");
        say_span(head->fields[i].name);
        say_span(head->fields[i].value);
        say("\n");
    }
}

static void tell_http(struct mare__http_reader *reader, enum mare__http_event event,
                      struct mare__bytes *written)
{
    bool chunked = reader->head.body == MARE__HTTP_BODY_CHUNKED;
    if (event == MARE__HTTP_HEAD) {
        tell_head(&reader->head);
        written->size = 0;
        write_head(written, &reader->head);
    } else if (event == MARE__HTTP_BODY) {
        say("BODY");
        say_span(reader->slice);
        say("\n");
        if (chunked)
            mare__http_put_chunk(written, reader->slice.at, reader->slice.size);
        else
            add(written, reader->slice.at, reader->slice.size);
    } else if (event == MARE__HTTP_END) {
        say("END\n");
        if (chunked)
            mare__http_put_last_chunk(written);
    } else if (event == MARE__HTTP_ERROR) {
        say("ERROR");
        say_number((unsigned)reader->error.status);
        say("\n");
    }
}

static void read_http(enum mare__http_kind kind, bool again, const char *bytes, size_t size)
{
    struct mare__http_reader reader;
    struct mare__bytes written = {0};
    enum mare__http_event event;
    size_t used;
    mare__http_reader_init(&reader, kind);
    do {
        event = mare__http_read(&reader, bytes, size, &used);
        bytes += used;
        size -= used;
        if (event == MARE__HTTP_MORE)
            event = mare__http_read_end(&reader);
        tell_http(&reader, event, &written);
        if (event == MARE__HTTP_END && again) {
            say("WRITTEN");
            say_bytes(written.at, written.size);
            say("\n");
        }
    } while (event != MARE__HTTP_MORE && event != MARE__HTTP_ERROR);
    mare__http_reader_fini(&reader);
    mare__bytes_fini(&written);
}

// ---- WebSocket ----------------------------------------------------------------------------------

static void write_frame(struct mare__bytes *out, const struct mare__ws_reader *reader,
                        enum mare__ws_event event, bool first)
{
    static const uint8_t key[4] = {0xa1, 0xb2, 0xc3, 0xd4};
    const uint8_t *mask = reader->role == MARE__WS_SERVER ? key : NULL;
    enum mare__ws_opcode opcode = event == MARE__WS_PING   ? MARE__WS_OP_PING
                                  : event == MARE__WS_PONG ? MARE__WS_OP_PONG
                                  : !first                 ? MARE__WS_OP_CONTINUATION
                                  : reader->text           ? MARE__WS_OP_TEXT
                                                           : MARE__WS_OP_BINARY;
    bool final = event != MARE__WS_DATA || reader->last;
    mare_err err =
        event == MARE__WS_CLOSE
            ? mare__ws_put_close(out, reader->code, reader->data, mask)
            : mare__ws_put_frame(out, opcode, final, reader->data.at, reader->data.size, mask);
    if (err)
        abort();
}

static void tell_frame(const struct mare__ws_reader *reader, enum mare__ws_event event)
{
    static const char *const words[] = {
        [MARE__WS_DATA] = "DATA",   [MARE__WS_PING] = "PING",   [MARE__WS_PONG] = "PONG",
        [MARE__WS_CLOSE] = "CLOSE", [MARE__WS_ERROR] = "ERROR", [MARE__WS_MORE] = ""};
    say(words[event]);
    if (event == MARE__WS_DATA)
        say(reader->text ? " text" : " binary");
    if (event == MARE__WS_CLOSE || event == MARE__WS_ERROR)
        say_number(reader->code);
    if (event != MARE__WS_ERROR)
        say_span(reader->data);
    if (event == MARE__WS_DATA && reader->last)
        say(" last");
    say("\n");
}

static void read_frames(enum mare__ws_role role, bool again, char *bytes, size_t size)
{
    struct mare__ws_reader reader;
    struct mare__bytes written = {0};
    enum mare__ws_event event;
    bool first = true;
    size_t used;
    mare__ws_reader_init(&reader, role);
    while ((event = mare__ws_read(&reader, bytes, size, &used)) != MARE__WS_MORE) {
        bytes += used;
        size -= used;
        tell_frame(&reader, event);
        if (event == MARE__WS_ERROR)
            break;
        if (again) {
            written.size = 0;
            write_frame(&written, &reader, event, first);
            say("WRITTEN");
            say_bytes(written.at, written.size);
            say("\n");
        }
        if (event == MARE__WS_DATA)
            first = reader.last;
    }
    mare__bytes_fini(&written);
}

// ---- Jobs ---------------------------------------------------------------------------------------

static void do_job(char letter, char *bytes, size_t size)
{
    bool again = letter >= 'a';
    switch (letter) {
    case 'Q':
    case 'q':
        read_http(MARE__HTTP_REQUESTS, again, bytes, size);
        break;
    case 'S':
    case 's':
        read_http(MARE__HTTP_RESPONSES, again, bytes, size);
        break;
    case 'C':
    case 'c':
        read_frames(MARE__WS_CLIENT, again, bytes, size);
        break;
    default:
        read_frames(MARE__WS_SERVER, again, bytes, size);
    }
}

int main(void)
{
    uint8_t header[5];
    while (fread(header, 1, sizeof header, stdin) == sizeof header) {
        size_t size =
            (size_t)header[1] << 24 | (size_t)header[2] << 16 | (size_t)header[3] << 8 | header[4];
        char *bytes = malloc(size ? size : 1);
        if (!bytes || fread(bytes, 1, size, stdin) != size)
            abort();
        answer.size = 0;
        do_job((char)header[0], bytes, size);
        free(bytes);
        for (int shift = 24; shift >= 0; shift -= 8)
            putchar((int)(answer.size >> shift & 0xff));
        fwrite(answer.at, 1, answer.size, stdout);
        fflush(stdout);
    }
    mare__bytes_fini(&answer);
    return 0;
}
