// SPDX-License-Identifier: MIT
// WebSocket without a connection, after RFC 6455: the handshake on top of HTTP (wire/http.h), a
// reader of frames, and writers that append to bytes that somebody else sends. Of extensions only
// the bit is known that says that a message is compressed (RFC 7692). Nothing here waits or draws a
// random number, and one thread at a time may use a reader or a writer's bytes.
//
//     while ((event = mare__ws_read(&reader, bytes, size, &used)) != MARE__WS_MORE) {
//         bytes += used, size -= used;
//         switch (event) {
//         case MARE__WS_DATA:  ... reader.data of a message; reader.last: that was all of it ...
//         case MARE__WS_PING:  ... mare__ws_put_frame(out, MARE__WS_OP_PONG, true, reader.data ...
//         case MARE__WS_PONG:  ...
//         case MARE__WS_CLOSE: ... mare__ws_put_close(out, reader.code ...) unless sent; close ...
//         case MARE__WS_ERROR: ... mare__ws_put_close(out, reader.code ...); close ...
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"
#include "wire/http.h"
#include "wire/utf8.h"

// ---- Frames -------------------------------------------------------------------------------------

enum mare__ws_opcode {
    MARE__WS_OP_CONTINUATION = 0x0,
    MARE__WS_OP_TEXT = 0x1,
    MARE__WS_OP_BINARY = 0x2,
    MARE__WS_OP_CLOSE = 0x8,
    MARE__WS_OP_PING = 0x9,
    MARE__WS_OP_PONG = 0xa,
    MARE__WS_COMPRESSED = 0x40, // with TEXT or BINARY: the message is compressed
};

enum {
    MARE__WS_CONTROL_MOST = 125, // bytes in a ping, a pong or a close
    MARE__WS_REASON_MOST = 123,  // bytes in the reason of a close
    MARE__WS_HEADER_MOST = 14,   // bytes of a frame before its data
    MARE__WS_NO_CODE = 1005,     // stands for a close that gives no code; never sent
};

enum mare__ws_event {
    MARE__WS_MORE,  // all bytes are used up
    MARE__WS_DATA,  // `data` is a part of a message; `text` and `last` tell more
    MARE__WS_PING,  // `data` is to be sent back in a pong
    MARE__WS_PONG,  // `data`
    MARE__WS_CLOSE, // `code`, and `data` is the reason. What follows is read and forgotten
    MARE__WS_ERROR, // `code` to close with, and `reason`; there is nothing more to be read
};

enum mare__ws_role {
    MARE__WS_SERVER, // reads what a client writes: masked
    MARE__WS_CLIENT, // reads what a server writes: not masked
};

struct mare__ws_reader {
    // More than this is an error with code 1009. May be set at any time; both are 1048576 at first.
    uint64_t frame_limit, message_limit;
    bool may_compress; // messages may be compressed; false at first

    struct mare__span data; // lies in the bytes given to mare__ws_read, or for PING, PONG and CLOSE
                            // in the reader: until the next read
    bool text;              // of a message: UTF-8, which has been checked, unless it is
    bool compressed;        // compressed
    bool last;              // the message ends with `data`, which may be empty only then
    uint16_t code;          // of CLOSE: as the peer sent it, or MARE__WS_NO_CODE. Of ERROR: 1002,
                            // 1007 or 1009
    const char *reason;     // of ERROR: a few words for a log; static

    // The rest is the reader's own.
    enum mare__ws_role role;
    uint8_t phase, header_size, control_size, opcode, mask_at;
    bool final, in_message;
    uint8_t header[14], mask[4];
    uint64_t left, message_size;
    struct mare__utf8 utf8;
    uint8_t control[MARE__WS_CONTROL_MOST];
};

// Makes a reader. It never allocates, so there is nothing to free.
void mare__ws_reader_init(struct mare__ws_reader *reader, enum mare__ws_role role);

// Reads some of the bytes, at most up to the next event, and says in `used` how many; the others
// are to be given again. The bytes are unmasked where they lie. However they are cut into pieces,
// the events are the same, but for where one DATA ends and the next begins, and how much of a text
// that is not UTF-8 was handed out before the ERROR.
enum mare__ws_event mare__ws_read(struct mare__ws_reader *reader, void *bytes, size_t size,
                                  size_t *used);

// Appends a frame, masked with the four bytes of `mask`, which a client must draw anew for each
// frame from a good source; NULL for a server. A message is one frame with `final`, or a TEXT or
// BINARY without and then CONTINUATIONs of which the last is final; text must be UTF-8 (wire/utf8.h
// can tell). MARE_NOMEM, or MARE_INVALID for an opcode that does not exist or a ping, pong or close
// that is too long or not final; then nothing was appended.
mare_err mare__ws_put_frame(struct mare__bytes *out, enum mare__ws_opcode opcode, bool final,
                            const void *data, size_t size, const uint8_t mask[4]);

// Writes the header of a frame that is a whole message of a server, TEXT or BINARY, with `size`
// bytes. Returns the header's size.
size_t mare__ws_header(uint8_t header[MARE__WS_HEADER_MOST], enum mare__ws_opcode opcode,
                       uint64_t size);

// Appends a close, with a reason that may be empty; MARE__WS_NO_CODE for none at all. MARE_NOMEM,
// or MARE_INVALID for a code that may not be sent or a reason that is too long or not UTF-8.
mare_err mare__ws_put_close(struct mare__bytes *out, uint16_t code, struct mare__span reason,
                            const uint8_t mask[4]);

// ---- The handshake ------------------------------------------------------------------------------

enum {
    MARE__WS_KEY = 24,    // characters of Sec-WebSocket-Key
    MARE__WS_ACCEPT = 28, // and of Sec-WebSocket-Accept
};

// A client's key from 16 random bytes, with a zero at its end.
void mare__ws_make_key(const uint8_t random[16], char key[MARE__WS_KEY + 1]);

// What a server answers to a key, with a zero at its end.
void mare__ws_make_accept(struct mare__span key, char accept[MARE__WS_ACCEPT + 1]);

// Looks at a request. 0: it is a handshake, and `key` is the client's. Else the status to answer
// with: 400, 405 for another method than GET, or 426 with "Sec-WebSocket-Version: 13" for another
// version. A request that does not ask for an upgrade to websocket is a 426, too.
int mare__ws_check_request(const struct mare__http_head *head, struct mare__span *key);

// Looks at the response to a handshake that was sent with this key and these protocols (empty:
// none). NULL if the connection is a WebSocket now, else why it is not, in a few words; static.
const char *mare__ws_check_response(const struct mare__http_head *head, const char *key,
                                    struct mare__span protocols);

// Appends the handshake's request: its fields are added to those of `request`, of which method,
// body, upgrade and keep_alive are not looked at. Protocols are comma-separated. The errors are
// those of mare__http_put_request.
mare_err mare__ws_put_request(struct mare__bytes *out, const struct mare__http_request *request,
                              const char *key, struct mare__span protocols);

// Appends the response that makes the connection a WebSocket. Of `response` only date and fields
// are looked at. `protocol` is one of those the client offered; empty for none.
mare_err mare__ws_put_response(struct mare__bytes *out, const struct mare__http_response *response,
                               struct mare__span key, struct mare__span protocol);
