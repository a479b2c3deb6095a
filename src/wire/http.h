// SPDX-License-Identifier: MIT
// HTTP/1.1 without a connection, after RFC 9110 and RFC 9112. A reader takes bytes as they come and
// tells what they are; writers append to bytes that somebody else sends. Nothing here waits, and
// one thread at a time may use a reader or a writer's bytes.
//
// Where the RFCs allow a recipient to be lenient, this reader is strict. If two parties are lenient
// in different ways, they disagree about where a message ends, and an attacker can smuggle requests
// through the gap.
//
//     while ((event = mare__http_read(&reader, bytes, size, &used)) != MARE__HTTP_MORE) {
//         bytes += used, size -= used;
//         switch (event) {
//         case MARE__HTTP_HEAD:  ... reader.head; reader.body_limit may be set ...
//         case MARE__HTTP_BODY:  ... reader.slice, a part of `bytes` ...
//         case MARE__HTTP_END:   ... answer, then go on: the next message may have come, too
//         case MARE__HTTP_ERROR: ... answer reader.error.status and close
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"

enum { MARE__HTTP_HEAD_MOST = 65535 }; // what limits.head cannot exceed

// How much a peer may send. Each line names the default, which mare__http_reader_init sets, and the
// status that answers a request beyond it.
struct mare__http_limits {
    uint32_t start_line; // bytes of the first line:              8192, else 414
    uint32_t field_line; // bytes of a header line:               8192, else 431
    uint32_t head;       // bytes of all of them:                32768, else 431
    uint32_t fields;     // header lines; trailer lines as well:   100, else 431
    uint32_t extensions; // bytes of a body's chunk extensions:   1024, else 413
    uint32_t trailers;   // bytes of the lines after a body:      4096, else 431
    uint64_t body;       // bytes of a body, to INT64_MAX:     1048576, else 413
};

// How the end of a body is known.
enum mare__http_body {
    MARE__HTTP_BODY_NONE,
    MARE__HTTP_BODY_LENGTH,      // Content-Length
    MARE__HTTP_BODY_CHUNKED,     // Transfer-Encoding: chunked
    MARE__HTTP_BODY_UNTIL_CLOSE, // responses only: the connection's end
};

// A header line. A value that was read has no white space around it.
struct mare__http_field {
    struct mare__span name, value;
};

// What stands before a body. The spans lie in the reader, and `path` may be a constant "/".
struct mare__http_head {
    // Of a request. The target is as it was sent: "/path?query", "http://host/path", "*" for
    // OPTIONS, or "host:port" for CONNECT, which alone has no path. Nothing is decoded.
    struct mare__span method, target, path;
    struct mare__span query; // without its '?'; at NULL when there is none
    struct mare__span host;  // from an absolute target, else from Host; empty if neither
    bool expect_continue;    // the client waits for a 100 before it sends the body

    // Of a response.
    int status; // 100 to 999
    struct mare__span reason;
    bool interim; // 1xx but 101: the response proper is still to come

    const struct mare__http_field *fields; // as they were sent, in their order
    size_t count;
    uint8_t minor;             // of the version, HTTP/1.minor
    bool keep_alive;           // the connection may be used for another message
    struct mare__span upgrade; // the protocols asked for or switched to; empty if none
    enum mare__http_body body;
    uint64_t length; // of a BODY_LENGTH, INT64_MAX at the most; else 0
};

enum mare__http_event {
    MARE__HTTP_MORE,  // all bytes are used up, or no more will be: see mare__http_read
    MARE__HTTP_HEAD,  // `head` is there
    MARE__HTTP_BODY,  // `slice` is a part of the body, one byte at least
    MARE__HTTP_END,   // the message has ended, trailers and all
    MARE__HTTP_ERROR, // `error`; there is nothing more to be read
};

enum mare__http_kind {
    MARE__HTTP_REQUESTS,  // what a server reads
    MARE__HTTP_RESPONSES, // what a client reads
};

struct mare__http_reader {
    struct mare__http_limits limits; // may be set before a message begins
    const char *methods;             // likewise: more that are known, with spaces between; or NULL

    struct mare__http_head head; // from HEAD until the read after END
    struct mare__span slice;     // of BODY; lies in the bytes given to mare__http_read
    uint64_t body_limit;         // limits.body; after HEAD it may be set for this message alone
    struct {
        mare_err code;      // MARE_BADMSG, MARE_TOOBIG or MARE_NOMEM
        int status;         // to answer a request with; 502 for a response
        const char *reason; // a few words for a log; static
    } error;

    // The rest is the reader's own.
    enum mare__http_kind kind;
    uint8_t phase, state, answers;
    bool blank_line;
    uint32_t line_size, line_count, extension_size;
    uint64_t left, received;
    struct mare__bytes text;
    struct mare__http_field *fields;
    size_t field_capacity;
};

// Makes a reader that holds no memory yet. It is freed with mare__http_reader_fini.
void mare__http_reader_init(struct mare__http_reader *reader, enum mare__http_kind kind);
void mare__http_reader_fini(struct mare__http_reader *reader);

// Whether no message is being read: none has begun, or the last has ended.
bool mare__http_reader_idle(const struct mare__http_reader *reader);

// Gives back the memory that a message needed, while none is being read; it comes again with the
// next. For connections that are idle for long.
void mare__http_reader_trim(struct mare__http_reader *reader);

// Tells a reader of responses which method the next response answers: answers to HEAD and CONNECT
// have no body. Holds until a response that is not interim has ended; then it is as if GET had been
// told.
void mare__http_reader_expect(struct mare__http_reader *reader, struct mare__span method);

// Reads some of the bytes, at most up to the next event, and says in `used` how many; the others
// are to be given again. A message without a body needs no bytes for its END, so read until MORE,
// with `size` 0 if need be. The events do not depend on how the bytes are cut into pieces, except
// where one BODY ends and the next begins.
//
// After a message that is not `keep_alive` whatever comes is read and forgotten, as RFC 9112
// section 9.6 wants it. After a response that switches protocols nothing is read: MORE, `used` 0.
// When a *request* for an upgrade is granted, the bytes after its END are the new protocol's.
enum mare__http_event mare__http_read(struct mare__http_reader *reader, const void *bytes,
                                      size_t size, size_t *used);

// Tells that there was no memory for what was read last: the next read is an ERROR.
void mare__http_reader_lose(struct mare__http_reader *reader);

// Tells that the peer has closed its end. MORE: between messages, as it should be. END: the body
// that lasts until close is complete. ERROR: a message was cut short.
enum mare__http_event mare__http_read_end(struct mare__http_reader *reader);

// The value of the first field of that name, in any case. False if there is none.
bool mare__http_find(const struct mare__http_head *head, const char *name,
                     struct mare__span *value);

// Whether the comma-separated lists in all fields of that name have the token, in any case.
bool mare__http_has_token(const struct mare__http_head *head, const char *name, const char *token);

// ---- Writers ------------------------------------------------------------------------------------
// Each appends to `out`, or leaves it as it was and returns MARE_NOMEM, or MARE_INVALID for what
// may not stand where it should: a name that is no token; a value, target or reason with a line
// break, a zero or another control character in it; or one of the fields that are made here from
// the structure (Connection, Content-Length, Transfer-Encoding, Upgrade; a request's Host and
// Expect; a response's Date).

struct mare__http_response {
    int status;               // 100 to 999
    struct mare__span reason; // empty: the usual one
    struct mare__span date;   // for Date, as RFC 9110 section 5.6.7 has it; empty: none
    const struct mare__http_field *fields; // written in this order
    size_t count;
    // BODY_NONE says Content-Length: 0 where a body could be. 1xx and 204 must have it. To answer
    // HEAD, describe the body that GET would get, and send none.
    enum mare__http_body body;
    uint64_t length;           // of BODY_LENGTH
    struct mare__span upgrade; // for Upgrade; empty: none
    uint8_t minor;             // of the request's version: 0 cannot be answered BODY_CHUNKED
    bool keep_alive;           // BODY_UNTIL_CLOSE always says close
};

struct mare__http_request {
    struct mare__span method, target;
    struct mare__span host; // for Host: may be empty, if the target has none
    const struct mare__http_field *fields;
    size_t count;
    enum mare__http_body body; // not BODY_UNTIL_CLOSE
    uint64_t length;
    struct mare__span upgrade;
    bool keep_alive, expect_continue;
};

// Why a caller's field is refused: static words that can follow its name; NULL: it is fine.
const char *mare__http_field_fault(const struct mare__http_field *field, enum mare__http_kind kind);

// A whole head, with the empty line that ends it.
mare_err mare__http_put_response(struct mare__bytes *out,
                                 const struct mare__http_response *response);
mare_err mare__http_put_request(struct mare__bytes *out, const struct mare__http_request *request);

// A chunk of a BODY_CHUNKED. Nothing for a size of 0, for an empty chunk would end the body.
mare_err mare__http_put_chunk(struct mare__bytes *out, const void *data, size_t size);

// The end of a BODY_CHUNKED, without trailers.
mare_err mare__http_put_last_chunk(struct mare__bytes *out);

// The usual words for a status, or "" if there are none. Static.
const char *mare__http_phrase(int status);
