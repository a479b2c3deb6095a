// SPDX-License-Identifier: MIT
// MessagePack-RPC without a connection, the server's side: what a guest, a program in another
// language that speaks no link, sends and is answered. Its messages follow each other without any
// frame: requests [0, id, method, params] and notifications [2, method, params]; an answer is
// [1, id, error, result]. Nothing here waits, and one thread at a time may use a reader.
//
//     while ((event = mare__rpc_read(&reader, bytes, size, &used)) != MARE__RPC_MORE) {
//         bytes += used, size -= used;
//         switch (event) {
//         case MARE__RPC_REQUEST:      ... reader.id, reader.method, reader.params
//         case MARE__RPC_NOTIFICATION: ... reader.method, reader.params: no answer is expected
//         case MARE__RPC_ERROR:        ... reader.error, reader.reason: close
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wire/bytes.h"

enum mare__rpc_event {
    MARE__RPC_MORE, // all bytes are used up
    MARE__RPC_REQUEST,
    MARE__RPC_NOTIFICATION,
    MARE__RPC_ERROR, // where the next message begins cannot be known: there is nothing more to read
};

struct mare__rpc_reader {
    uint32_t limit; // bytes of a message, 1048576 at first; may be set between two

    uint32_t id;              // of a request
    struct mare__span method; // these two lie in the bytes that were given, or in the reader: until
    struct mare__span params; // the next read. An array of MessagePack, well formed
    mare_err error;           // MARE_BADMSG, MARE_TOOBIG or MARE_NOMEM
    const char *reason;       // a few words for a log; static

    // The rest is the reader's own.
    struct mare__bytes text; // a message that came in pieces
    size_t at, skip;         // how far it was looked at; bytes of a string that follow
    uint64_t objects;        // that are still to come
    bool failed;
};

// Makes a reader that holds no memory yet. It is freed with mare__rpc_reader_fini.
void mare__rpc_reader_init(struct mare__rpc_reader *reader);
void mare__rpc_reader_fini(struct mare__rpc_reader *reader);

// Reads some of the bytes, at most up to the next event, and says in `used` how many; the others
// are to be given again. A message that is there as a whole is not copied. However the bytes are
// cut into pieces, the events are the same. A reader never holds more than twice its limit.
enum mare__rpc_event mare__rpc_read(struct mare__rpc_reader *reader, const void *bytes, size_t size,
                                    size_t *used);

// Appends an answer. `error` and `result` are one object of MessagePack each, or empty for nil:
// clients take what is not nil for an error. MARE_NOMEM, and then nothing has changed.
mare_err mare__rpc_put_answer(struct mare__bytes *out, uint32_t id, struct mare__span error,
                              struct mare__span result);

// The same with a text for an error.
mare_err mare__rpc_put_failure(struct mare__bytes *out, uint32_t id, struct mare__span text);
