// SPDX-License-Identifier: MIT
// The frames of a link: four bytes of length, then an array of MessagePack whose first element is
// the kind. The array's header and the kind take one byte each, so that the first bytes tell what a
// frame is. Other numbers are written in their shortest unsigned form, and read in any form.
// Unknown elements at the end are skipped: a later version may add some.
#include "wire/link_inner.h"
#include "wire/pack.h"

// ---- Writing ------------------------------------------------------------------------------------

void mare__link_put_begin(struct mare__link_writer *writer, uint8_t *out, unsigned kind,
                          unsigned elements)
{
    writer->start = out;
    out[MARE__LINK_PREFIX] = (uint8_t)(0x90 | elements);
    out[MARE__LINK_PREFIX + 1] = (uint8_t)kind;
    writer->at = out + MARE__LINK_PREFIX + 2;
}

void mare__link_put_array(struct mare__link_writer *writer, unsigned elements)
{
    *writer->at++ = (uint8_t)(0x90 | elements);
}

void mare__link_put_number(struct mare__link_writer *writer, uint64_t number)
{
    writer->at += mare__pack_unsigned(writer->at, number);
}

void mare__link_put_text(struct mare__link_writer *writer, struct mare__span text)
{
    writer->at += mare__pack_string_header(writer->at, (uint32_t)text.size);
    if (text.size)
        memcpy(writer->at, text.at, text.size);
    writer->at += text.size;
}

void mare__link_put_bytes(struct mare__link_writer *writer, const void *bytes, size_t size)
{
    writer->at += mare__pack_binary_header(writer->at, (uint32_t)size);
    if (size)
        memcpy(writer->at, bytes, size);
    writer->at += size;
}

size_t mare__link_put_end(struct mare__link_writer *writer, uint32_t payload)
{
    size_t size = (size_t)(writer->at - writer->start);
    mare__put32(writer->start, (uint32_t)(size - MARE__LINK_PREFIX) + payload);
    return size;
}

// ---- Reading ------------------------------------------------------------------------------------

static struct mare__token get_token(struct mare__link_reader *reader)
{
    struct mare__token token = {.kind = MARE__TOKEN_NIL};
    if (reader->bad || reader->left == 0 || !mare__unpack(&reader->at, reader->end, &token)) {
        reader->bad = true;
        return (struct mare__token){.kind = MARE__TOKEN_NIL};
    }
    reader->left--;
    return token;
}

uint64_t mare__link_get_number(struct mare__link_reader *reader)
{
    struct mare__token token = get_token(reader);
    bool fits = token.kind == MARE__TOKEN_UNSIGNED ||
                (token.kind == MARE__TOKEN_INTEGER && token.as.integer >= 0);
    reader->bad |= !fits;
    return fits ? (uint64_t)token.as.integer : 0;
}

struct mare__span mare__link_get_text(struct mare__link_reader *reader, size_t most)
{
    struct mare__token token = get_token(reader);
    if (token.kind != MARE__TOKEN_STRING || token.size > most) {
        reader->bad = true;
        return (struct mare__span){0};
    }
    struct mare__span text = {(const char *)reader->at, token.size};
    reader->at += token.size;
    return text;
}

struct mare__link_reader mare__link_get_array(struct mare__link_reader *reader)
{
    struct mare__token token = get_token(reader);
    if (token.kind != MARE__TOKEN_ARRAY)
        return (struct mare__link_reader){.bad = reader->bad = true};
    return (struct mare__link_reader){reader->at, reader->end, token.size, false};
}

void mare__link_get_array_end(struct mare__link_reader *reader, struct mare__link_reader *inner)
{
    for (; inner->left > 0 && !inner->bad; inner->left--)
        inner->bad = !mare__unpack_skip(&inner->at, inner->end, true);
    reader->bad |= inner->bad;
    reader->at = inner->at;
}

bool mare__link_get_begin(struct mare__link_reader *reader, const uint8_t *at, const uint8_t *end,
                          unsigned *kind)
{
    if (end - at < 2 || (at[0] & 0xf0) != 0x90 || at[0] == 0x90 || at[1] >= MARE__FRAME_KINDS)
        return false;
    *reader = (struct mare__link_reader){at + 2, end, (at[0] & 0x0fu) - 1, false};
    *kind = at[1];
    return true;
}

bool mare__link_get_end(struct mare__link_reader *reader)
{
    struct mare__link_reader outer = {.end = reader->end, .bad = reader->bad};
    mare__link_get_array_end(&outer, reader);
    return !outer.bad && outer.at == outer.end;
}
