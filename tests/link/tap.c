// SPDX-License-Identifier: MIT
#include "tests/link/tap.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "wire/link_inner.h"
#include "wire/pack.h"

static const char *const names[MARE__FRAME_KINDS] = {
    [MARE__FRAME_HELLO] = "HELLO",     [MARE__FRAME_WELCOME] = "WELCOME",
    [MARE__FRAME_REFUSE] = "REFUSE",   [MARE__FRAME_RESUME] = "RESUME",
    [MARE__FRAME_RESUMED] = "RESUMED", [MARE__FRAME_ACK] = "ACK",
    [MARE__FRAME_PING] = "PING",       [MARE__FRAME_PONG] = "PONG",
    [MARE__FRAME_QUIT] = "QUIT",       [MARE__FRAME_DATA] = "DATA",
    [MARE__FRAME_FIRST] = "FIRST",     [MARE__FRAME_REST] = "REST",
    [MARE__FRAME_OPEN] = "OPEN",       [MARE__FRAME_CREDIT] = "CREDIT",
    [MARE__FRAME_CLOSE] = "CLOSE",     [MARE__FRAME_END] = "END",
    [MARE__FRAME_BYE] = "BYE",
};

const char *tap_kind_name(unsigned kind)
{
    return kind < MARE__FRAME_KINDS ? names[kind] : NULL;
}

size_t tap_frame(const uint8_t *bytes, size_t size)
{
    if (size < MARE__LINK_PREFIX)
        return 0;
    size_t length = MARE__LINK_PREFIX + (size_t)mare__get32(bytes);
    return length <= size ? length : 0;
}

static void show_bytes(FILE *out, const uint8_t *bytes, uint32_t size)
{
    bool shown = size <= 60;
    for (uint32_t i = 0; i < size && shown; i++)
        shown = bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '\'';
    if (shown)
        fprintf(out, "'%.*s'", (int)size, (const char *)bytes);
    else
        fprintf(out, "<%" PRIu32 " bytes>", size);
}

// One object; false when it is none.
static bool show(FILE *out, const uint8_t **at, const uint8_t *end, unsigned depth)
{
    struct mare__token token;
    if (depth > 4 || !mare__unpack(at, end, &token))
        return false;
    switch (token.kind) {
    case MARE__TOKEN_INTEGER:
        fprintf(out, "%" PRId64, token.as.integer);
        return true;
    case MARE__TOKEN_UNSIGNED:
        fprintf(out, "%" PRIu64, (uint64_t)token.as.integer);
        return true;
    case MARE__TOKEN_STRING:
        show_bytes(out, *at, token.size);
        *at += token.size;
        return true;
    case MARE__TOKEN_ARRAY:
        fputc('[', out);
        for (uint32_t i = 0; i < token.size; i++) {
            if (i)
                fputc(' ', out);
            if (!show(out, at, end, depth + 1))
                return false;
        }
        fputc(']', out);
        return true;
    default:
        return false;
    }
}

void tap_describe(FILE *out, const uint8_t *frame, size_t size)
{
    const uint8_t *at = frame + MARE__LINK_PREFIX, *end = frame + size;
    struct mare__link_reader reader;
    unsigned kind;
    if (size < MARE__LINK_PREFIX || !mare__link_get_begin(&reader, at, end, &kind)) {
        fprintf(out, "no frame");
        return;
    }
    if (tap_kind_name(kind))
        fprintf(out, "%s", tap_kind_name(kind));
    else
        fprintf(out, "kind %u", kind);
    while (reader.left-- > 0) {
        fputc(' ', out);
        if (!show(out, &reader.at, end, 0)) {
            fprintf(out, "malformed");
            return;
        }
    }
}

void tap_bytes(FILE *out, const uint8_t *frame, size_t size)
{
    size_t shown = size < 64 ? size : 64;
    for (size_t i = 0; i < shown; i++)
        fprintf(out, "%s%02x%s", i % 24 == 0 ? "    | " : " ", frame[i],
                i % 24 == 23 && i + 1 < shown ? "\n" : "");
    fprintf(out, "%s\n", shown < size ? " ..." : "");
}
