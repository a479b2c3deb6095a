// SPDX-License-Identifier: MIT
// HTTP/2 without a connection (RFC 9113), by nghttp2. A session takes bytes as they come, makes
// others that somebody else sends, and tells by events what has happened; the streams in it have
// what came and what is to go. Nothing here waits or knows the time, and one thread at a time may
// use a session.
//
//     bytes ──▶ receive ──▶ events: a head, a body, the end of a stream
//                  │
//     bytes ◀── take ◀── respond, ask, give, reset, say goodbye
//
// What a peer may do is bounded. There are limits for the size of a head and the number of streams;
// flow control limits the bytes that nobody has read yet. Frames that cost more to answer than to
// send are paid for from two purses, which time and honest work fill again (see http2_guard.c). A
// peer that has emptied one is told why, by GOAWAY.
#pragma once

#include "base/index.h"
#include "wire/http.h"

struct nghttp2_session;

enum mare__http2_kind {
    MARE__HTTP2_HEAD,    // a request, or an answer, has begun
    MARE__HTTP2_BODY,    // more of its body is there, or its end
    MARE__HTTP2_DRAINED, // all bytes that were given have been taken; not told just before CLOSED
    MARE__HTTP2_CLOSED,  // the stream is over
    MARE__HTTP2_GOODBYE, // the peer takes no more streams
};

struct mare__http2_event {
    enum mare__http2_kind kind;
    int32_t stream;
    uint32_t error; // of CLOSED and GOODBYE: the code of RFC 9113 section 7
};

// One request and its answer. Only `id` to `error` are for others to read.
struct mare__http2_stream {
    int32_t id;
    bool bodiless; // it has a head and no body
    bool ended;    // the peer has sent all of its body
    bool closed;   // it is over; `error` tells how
    bool answered; // an answer has been submitted, or has come
    uint32_t error;
    uint16_t refused;   // the status that refuses its head, or 0
    const char *reason; // why it is refused

    struct mare__index_entry entry;
    struct mare__http2_stream *next, **place;
    bool head_told, body_told, ignored, forgotten, swept;
    uint16_t interims;
    uint32_t count;             // fields of the head
    struct mare__bytes head;    // for each field its sizes, its name and its value
    struct mare__bytes cookies; // which may come in pieces (section 8.2.3)
    struct mare__bytes body;    // what has come from `taken` on and is not read yet
    size_t taken;
    const char *out; // what is to be sent; the bytes belong to the caller
    size_t left;
    bool last;               // nothing comes after it
    size_t moved, left_then; // bytes sent since the last sweep; bytes left at that sweep
};

// What is left of an allowance.
struct mare__http2_purse {
    double coins;
    uint64_t since; // when it was filled for the last time
};

struct mare__http2_settings {
    bool server;
    uint32_t streams;                // that the peer may have open at once
    uint32_t stream_window;          // the most bytes of a body that may come before it is asked
                                     // for
    uint32_t session_window;         // the same for all bodies together; at a client, bytes on
                                     // their way
    struct mare__http_limits limits; // of heads
};

struct mare__http2 {
    struct nghttp2_session *session;
    struct mare__http2_settings settings;
    struct mare__http2_stream *streams, *spare;
    struct mare__index index;
    uint32_t open; // streams that are not over
    uint32_t spares;
    bool going;       // the peer has said goodbye
    bool over;        // nothing more is read
    bool failed;      // the peer was told of an error, and
    char reason[120]; // why
    struct mare__bytes out;
    size_t sent; // bytes of `out` that have gone
    // Events that nobody has taken.
    struct mare__bytes events;
    size_t event;
    // Its guard's: how far the frames that come have been looked at.
    uint8_t header[9];
    uint8_t header_size, preface_left;
    bool in_head;
    uint32_t payload_left, continuations;
    size_t block; // bytes of a head as it is decoded
    struct mare__http2_purse controls, resets;
    // Used again and again.
    void *fields, *pairs;
    size_t field_room, pair_room;
    struct mare__bytes names;
};

// Makes a session that has something to say: its settings. MARE_NOMEM.
mare_err mare__http2_init(struct mare__http2 *http2, const struct mare__http2_settings *settings,
                          uint64_t now);
void mare__http2_fini(struct mare__http2 *http2);

// Takes bytes of the peer's. False: nothing more is read, `reason` may tell why, and what is to be
// sent ends with a GOAWAY.
bool mare__http2_receive(struct mare__http2 *http2, const void *bytes, size_t size, uint64_t now);

// Whether a frame, or a head, has begun and is not whole.
bool mare__http2_begun(const struct mare__http2 *http2);

// The next event; false: there is none.
bool mare__http2_next(struct mare__http2 *http2, struct mare__http2_event *event);

// What is to be sent next, some 64 KiB at the most; empty: nothing. MARE_NOMEM, and the session
// cannot be used any more. mare__http2_used tells how many of the bytes were sent.
mare_err mare__http2_take(struct mare__http2 *http2, struct mare__span *bytes);
void mare__http2_used(struct mare__http2 *http2, size_t size);

// Whether there would be anything to send.
bool mare__http2_wants_write(const struct mare__http2 *http2);

// ---- Streams ------------------------------------------------------------------------------------

// NULL: there is none, or it was forgotten.
struct mare__http2_stream *mare__http2_find(struct mare__http2 *http2, int32_t id);

// The head of a stream, as HTTP/1.1 has it. False: `refused` and `reason` tell why not. `methods`
// are those known beside the usual ones. The spans hold until the stream's memory does, the fields
// until the next call.
bool mare__http2_request_head(struct mare__http2 *http2, struct mare__http2_stream *stream,
                              const char *methods, struct mare__http_head *head);
bool mare__http2_response_head(struct mare__http2 *http2, struct mare__http2_stream *stream,
                               struct mare__http_head *head);

// The part of its body that is here; then, how much of that was used, so that more may come.
struct mare__span mare__http2_body(const struct mare__http2_stream *stream);
void mare__http2_body_used(struct mare__http2 *http2, struct mare__http2_stream *stream,
                           size_t size);

struct mare__http2_answer {
    int status;
    struct mare__span date; // empty: none
    const struct mare__http_field *fields;
    size_t count;
    bool has_length, has_body; // a body is given later, or `text` is all of it
    uint64_t length;
    struct mare__span text; // somebody else's, until DRAINED or CLOSED
};

// Answers a request; an interim one (1xx) has neither fields nor body. MARE_INVALID: a field may
// not be sent, see mare__http_field_fault. MARE_CLOSED: the stream is over.
mare_err mare__http2_respond(struct mare__http2 *http2, struct mare__http2_stream *stream,
                             const struct mare__http2_answer *answer);

struct mare__http2_question {
    struct mare__span method, scheme, authority, target;
    const struct mare__http_field *fields;
    size_t count;
    bool has_length, has_body;
    uint64_t length;
    struct mare__span text;
};

// Begins a stream with a request. MARE_INVALID likewise; MARE_CLOSED: the session takes none.
mare_err mare__http2_ask(struct mare__http2 *http2, const struct mare__http2_question *question,
                         struct mare__http2_stream **stream);

// How many streams the peer lets be open at once.
uint32_t mare__http2_streams_most(const struct mare__http2 *http2);

// Gives the next part of a body, which stays somebody else's until DRAINED or CLOSED; `last`: there
// is no more. MARE_CLOSED: the stream is over.
mare_err mare__http2_give(struct mare__http2 *http2, struct mare__http2_stream *stream,
                          struct mare__span part, bool last);

// Ends a stream before its time; a code of section 7, as in nghttp2.h.
void mare__http2_reset(struct mare__http2 *http2, struct mare__http2_stream *stream,
                       uint32_t error);

// Nobody wants its body any more: what comes is thrown away.
void mare__http2_ignore(struct mare__http2 *http2, struct mare__http2_stream *stream);

// The user lets go of the stream: it is not found again, and is reset if it is not over.
void mare__http2_forget(struct mare__http2 *http2, struct mare__http2_stream *stream);

// Call this once in the time that a peer has to take something. Resets streams that still have
// bytes to send, and sent fewer than `least` since the last call. Returns how many.
size_t mare__http2_sweep(struct mare__http2 *http2, size_t least);

// Tells the peer that the session will end: first that no new streams should come, then (`last`)
// that none is taken. Streams that are open go on.
mare_err mare__http2_goodbye(struct mare__http2 *http2, bool last);

// Ends the session with an error, and a reason for the peer. Reads nothing more.
void mare__http2_refuse(struct mare__http2 *http2, uint32_t error, const char *reason);
