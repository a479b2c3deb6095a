// SPDX-License-Identifier: MIT
// Any bytes through the reader of WebSocket's frames. However they are cut, the events are the
// same; and every message, ping, pong and close that it reads can be written, with a mask and
// without, in one frame and in several, and is read again as what it was.
//
//     how (see below) | how to cut | what a peer sends
#include <assert.h>
#include <stdlib.h>

#include "wire/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The bits of the first byte.
enum { CLIENT = 1, SMALL = 2, COMPRESSES = 4 };

static void add(struct mare__bytes *bytes, const void *data, size_t size)
{
    if (mare__bytes_add(bytes, data, size))
        abort();
}

// What a reader has told: a line for each event, with the parts of a message put together. What was
// handed out of a message that turned out to be bad is forgotten.
struct run {
    struct mare__ws_reader reader;
    struct mare__bytes transcript, message;
    bool write; // what is read is written again
    bool failed;
};

static void write_again(enum mare__ws_event event, bool text, uint16_t code,
                        struct mare__span payload);

static void note(struct run *run, enum mare__ws_event event, struct mare__span payload)
{
    uint16_t code = event >= MARE__WS_CLOSE ? run->reader.code : run->reader.text;
    uint8_t word = (uint8_t)event;
    add(&run->transcript, &word, 1);
    add(&run->transcript, &code, sizeof code);
    add(&run->transcript, &payload.size, sizeof payload.size);
    add(&run->transcript, payload.at, payload.size);
    bool compressed = event == MARE__WS_DATA && run->reader.compressed; // who knows whether UTF-8
    if (run->write && event != MARE__WS_ERROR && !compressed)
        write_again(event, run->reader.text, run->reader.code, payload);
}

static void take(struct run *run, enum mare__ws_event event)
{
    if (event == MARE__WS_DATA) {
        assert(run->reader.data.size > 0 || run->reader.last);
        add(&run->message, run->reader.data.at, run->reader.data.size);
        assert(run->message.size <= run->reader.message_limit);
        if (run->reader.last) {
            note(run, event, (struct mare__span){run->message.at, run->message.size});
            run->message.size = 0;
        }
    } else if (event == MARE__WS_ERROR) {
        note(run, event, (struct mare__span){0});
        run->failed = true;
    } else {
        note(run, event, run->reader.data);
    }
}

static void read_piece(struct run *run, const void *data, size_t size)
{
    // Of exactly this size, so that AddressSanitizer sees the first byte touched too far.
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    size_t at = 0, used;
    enum mare__ws_event event;
    do {
        event = mare__ws_read(&run->reader, copy + at, size - at, &used);
        assert(used <= size - at);
        assert(used > 0 || event == MARE__WS_MORE || event == MARE__WS_ERROR);
        at += used;
        if (event != MARE__WS_MORE)
            take(run, event);
    } while (event != MARE__WS_MORE && event != MARE__WS_ERROR);
    assert(event == MARE__WS_ERROR || at == size);
    free(copy);
}

static void begin(struct run *run, uint8_t how)
{
    mare__ws_reader_init(&run->reader, how & CLIENT ? MARE__WS_CLIENT : MARE__WS_SERVER);
    if (how & SMALL) {
        run->reader.frame_limit = 8;
        run->reader.message_limit = 16;
    }
    run->reader.may_compress = how & COMPRESSES;
}

static void end(struct run *run)
{
    mare__bytes_fini(&run->transcript);
    mare__bytes_fini(&run->message);
}

// ---- Writing again ------------------------------------------------------------------------------

static void put(struct mare__bytes *out, enum mare__ws_opcode opcode, bool final,
                struct mare__span payload, const uint8_t *mask)
{
    mare_err err = mare__ws_put_frame(out, opcode, final, payload.at, payload.size, mask);
    assert(err == MARE_OK);
}

// A message in three frames, with a ping between them.
static void put_message(struct mare__bytes *out, bool text, struct mare__span payload,
                        const uint8_t *mask)
{
    static const char nothing[1];
    const char *at = payload.size ? payload.at : nothing; // an empty one may be nowhere
    size_t third = payload.size / 3;
    struct mare__span first = {at, third}, second = {at + third, third};
    struct mare__span last = {at + 2 * third, payload.size - 2 * third};
    put(out, text ? MARE__WS_OP_TEXT : MARE__WS_OP_BINARY, false, first, mask);
    put(out, MARE__WS_OP_CONTINUATION, false, second, mask);
    put(out, MARE__WS_OP_PING, true, (struct mare__span){0}, mask);
    put(out, MARE__WS_OP_CONTINUATION, true, last, mask);
}

static void write_again(enum mare__ws_event event, bool text, uint16_t code,
                        struct mare__span payload)
{
    static const uint8_t key[4] = {0x37, 0xfa, 0x21, 0x3d};
    for (int masked = 0; masked < 2; masked++) {
        const uint8_t *mask = masked ? key : NULL;
        struct run again = {0}, expected = {0};
        struct mare__bytes out = {0};
        begin(&again, masked ? 0 : CLIENT);
        again.reader.frame_limit = again.reader.message_limit = UINT64_MAX;
        if (event == MARE__WS_CLOSE) {
            mare_err err = mare__ws_put_close(&out, code, payload, mask);
            assert(err == MARE_OK);
        } else if (event == MARE__WS_DATA) {
            expected.reader.text = text; // the ping of put_message comes before the message ends
            note(&expected, MARE__WS_PING, (struct mare__span){0});
            put_message(&out, text, payload, mask);
        } else {
            put(&out, event == MARE__WS_PING ? MARE__WS_OP_PING : MARE__WS_OP_PONG, true, payload,
                mask);
        }
        expected.reader.code = code;
        expected.reader.text = event == MARE__WS_DATA && text;
        note(&expected, event, payload);
        read_piece(&again, out.at, out.size);
        assert(again.transcript.size == expected.transcript.size);
        assert(memcmp(again.transcript.at, expected.transcript.at, expected.transcript.size) == 0);
        mare__bytes_fini(&out);
        end(&again);
        end(&expected);
    }
}

// ---- Reading ------------------------------------------------------------------------------------

// Reads everything in pieces of up to `most` bytes; 0: at once.
static void read_all(struct run *run, const uint8_t *data, size_t size, uint8_t how,
                     uint32_t random, size_t most)
{
    begin(run, how);
    for (size_t at = 0; at < size && !run->failed;) {
        random = random * 1664525 + 1013904223;
        size_t count = most ? 1 + (random >> 8) % most : size;
        count = count < size - at ? count : size - at;
        read_piece(run, data + at, count);
        at += count;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 200000)
        return 0;
    static const size_t pieces[] = {1, 7, 100};
    struct run whole = {.write = true};
    read_all(&whole, data + 2, size - 2, data[0], 0, 0);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct run cut = {0};
        read_all(&cut, data + 2, size - 2, data[0], data[1], pieces[i]);
        assert(cut.transcript.size == whole.transcript.size);
        assert(whole.transcript.size == 0 ||
               memcmp(cut.transcript.at, whole.transcript.at, whole.transcript.size) == 0);
        end(&cut);
    }
    end(&whole);
    return 0;
}
