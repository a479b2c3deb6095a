// SPDX-License-Identifier: MIT
// MessagePack-RPC. Messages have no length in front, so the reader finds their end by counting. A
// message is one object. An array adds as many objects as it says, a map twice as many, a string
// its bytes. When more bytes come, the count goes on where it stopped, so that each byte is looked
// at once. Each object takes at least one byte: a count beyond the limit is refused as soon as it
// is announced.
#include "wire/rpc.h"

#include "wire/pack.h"

enum { REQUEST = 0, ANSWER = 1, NOTIFICATION = 2, KEPT = 4096 };

void mare__rpc_reader_init(struct mare__rpc_reader *reader)
{
    *reader = (struct mare__rpc_reader){.limit = 1048576, .objects = 1};
}

void mare__rpc_reader_fini(struct mare__rpc_reader *reader)
{
    mare__bytes_fini(&reader->text);
}

static enum mare__rpc_event fail(struct mare__rpc_reader *reader, mare_err error,
                                 const char *reason)
{
    reader->failed = true;
    reader->error = error;
    reader->reason = reason;
    return MARE__RPC_ERROR;
}

// ---- Where a message ends -----------------------------------------------------------------------

enum scan { WHOLE, PART, BAD, TOO_BIG };

// Counts what a token announces.
static void promise(struct mare__rpc_reader *reader, const struct mare__token *token)
{
    reader->objects--;
    if (token->kind == MARE__TOKEN_ARRAY)
        reader->objects += token->size;
    else if (token->kind == MARE__TOKEN_MAP)
        reader->objects += 2 * (uint64_t)token->size;
    else if (token->kind == MARE__TOKEN_STRING || token->kind == MARE__TOKEN_EXT)
        reader->skip = token->size;
}

// Goes on through the message that begins at `bytes`, of which `size` bytes are here.
static enum scan scan(struct mare__rpc_reader *reader, const uint8_t *bytes, size_t size)
{
    while (reader->objects > 0 || reader->skip > 0) {
        size_t left = size - reader->at, some = reader->skip < left ? reader->skip : left;
        reader->at += some;
        reader->skip -= some;
        if (reader->skip > 0)
            return PART;
        if (reader->objects == 0)
            break;
        const uint8_t *cursor = bytes + reader->at;
        struct mare__token token;
        enum mare__head head = mare__unpack_head(&cursor, bytes + size, &token);
        if (head != MARE__HEAD_READ)
            return head == MARE__HEAD_SHORT ? PART : BAD;
        bool first = reader->at == 0;
        if (first && (token.kind != MARE__TOKEN_ARRAY || token.size < 3 || token.size > 4))
            return BAD;
        reader->at = (size_t)(cursor - bytes);
        promise(reader, &token);
        if (reader->at + reader->skip + reader->objects > reader->limit)
            return TOO_BIG;
    }
    return WHOLE;
}

// ---- What it says -------------------------------------------------------------------------------

static bool read_number(const uint8_t **at, const uint8_t *end, uint32_t *number)
{
    struct mare__token token;
    if (!mare__unpack(at, end, &token) || token.kind != MARE__TOKEN_INTEGER ||
        token.as.integer < 0 || token.as.integer > UINT32_MAX)
        return false;
    *number = (uint32_t)token.as.integer;
    return true;
}

static enum mare__rpc_event take(struct mare__rpc_reader *reader, const uint8_t *bytes, size_t size)
{
    const uint8_t *at = bytes, *end = bytes + size;
    struct mare__token token;
    uint32_t type;
    mare__unpack(&at, end, &token); // the array's header, which scan has checked
    uint32_t elements = token.size;
    if (!read_number(&at, end, &type) || type > NOTIFICATION)
        return fail(reader, MARE_BADMSG, "a message of a type that is not known");
    if (type == ANSWER)
        return fail(reader, MARE_BADMSG, "an answer, where nothing was asked");
    if (elements != (type == REQUEST ? 4 : 3))
        return fail(reader, MARE_BADMSG, "a message with too few or too many elements");
    if (type == REQUEST && !read_number(&at, end, &reader->id))
        return fail(reader, MARE_BADMSG, "a request whose identifier is no number of 32 bits");
    if (!mare__unpack(&at, end, &token) || token.kind != MARE__TOKEN_STRING)
        return fail(reader, MARE_BADMSG, "a method whose name is no string");
    reader->method = (struct mare__span){(const char *)at, token.size};
    at += token.size;
    reader->params = (struct mare__span){(const char *)at, (size_t)(end - at)};
    if (!mare__unpack(&at, end, &token) || token.kind != MARE__TOKEN_ARRAY)
        return fail(reader, MARE_BADMSG, "parameters that are no array");
    return type == REQUEST ? MARE__RPC_REQUEST : MARE__RPC_NOTIFICATION;
}

// ---- Reading ------------------------------------------------------------------------------------

// Begins a message: the one before is not needed any more.
static void begin(struct mare__rpc_reader *reader)
{
    reader->at = reader->skip = 0;
    reader->objects = 1;
    reader->text.size = 0;
    if (reader->text.capacity > KEPT)
        mare__bytes_fini(&reader->text);
}

// Adds bytes to a message that comes in pieces, up to its limit. False: no memory.
static bool keep(struct mare__rpc_reader *reader, const void *bytes, size_t size, size_t *used)
{
    size_t room = reader->limit - reader->text.size;
    *used = size < room ? size : room;
    return mare__bytes_add(&reader->text, bytes, *used) == MARE_OK;
}

enum mare__rpc_event mare__rpc_read(struct mare__rpc_reader *reader, const void *bytes, size_t size,
                                    size_t *used)
{
    *used = 0;
    if (reader->failed)
        return MARE__RPC_ERROR;
    if (reader->objects == 0 && reader->skip == 0)
        begin(reader);
    if (size == 0)
        return MARE__RPC_MORE;
    bool inside = reader->text.size > 0;
    if (inside && !keep(reader, bytes, size, used))
        return fail(reader, MARE_NOMEM, "not enough memory");
    const uint8_t *message = inside ? (const uint8_t *)reader->text.at : bytes;
    switch (scan(reader, message, inside ? reader->text.size : size)) {
    case WHOLE:
        *used = inside ? *used - (reader->text.size - reader->at) : reader->at;
        return take(reader, message, reader->at);
    case PART:
        if (!inside && !keep(reader, bytes, size, used))
            return fail(reader, MARE_NOMEM, "not enough memory");
        return *used == size ? MARE__RPC_MORE
                             : fail(reader, MARE_TOOBIG, "a message that is too large");
    case TOO_BIG:
        return fail(reader, MARE_TOOBIG, "a message that is too large");
    default:
        return fail(reader, MARE_BADMSG, "bytes that are no message");
    }
}

// ---- Answers ------------------------------------------------------------------------------------

static void put_object(struct mare__bytes *out, struct mare__span object)
{
    static const uint8_t nil = 0xc0;
    const void *at = object.size ? (const void *)object.at : &nil;
    size_t size = object.size ? object.size : 1;
    memcpy(out->at + out->size, at, size); // there is room
    out->size += size;
}

mare_err mare__rpc_put_answer(struct mare__bytes *out, uint32_t id, struct mare__span error,
                              struct mare__span result)
{
    uint8_t head[2 + MARE__PACK_MAX] = {0x94, ANSWER};
    size_t size = 2 + mare__pack_unsigned(head + 2, id);
    mare_err err = mare__bytes_reserve(out, size + error.size + result.size + 2);
    if (err)
        return err;
    memcpy(out->at + out->size, head, size);
    out->size += size;
    put_object(out, error);
    put_object(out, result);
    return MARE_OK;
}

mare_err mare__rpc_put_failure(struct mare__bytes *out, uint32_t id, struct mare__span text)
{
    uint8_t head[2 + 2 * MARE__PACK_MAX] = {0x94, ANSWER};
    size_t size = 2 + mare__pack_unsigned(head + 2, id);
    size += mare__pack_string_header(head + size, (uint32_t)text.size);
    mare_err err = mare__bytes_reserve(out, size + text.size + 1);
    if (err)
        return err;
    memcpy(out->at + out->size, head, size);
    out->size += size;
    if (text.size)
        memcpy(out->at + out->size, text.at, text.size);
    out->size += text.size;
    out->at[out->size++] = (char)0xc0;
    return MARE_OK;
}
