// SPDX-License-Identifier: MIT
// Bytes that grow, and bytes that belong to somebody else: what the text protocols of src/wire read
// from and write to.
#pragma once

#include <stddef.h>
#include <string.h>

#include <mare.h>

// Bytes of somebody else, without a zero at the end. Zero everywhere is empty.
struct mare__span {
    const char *at;
    size_t size;
};

// A C string without its zero.
static inline struct mare__span mare__span_of(const char *string)
{
    return (struct mare__span){string, strlen(string)};
}

// Bytes that grow at the end. Zero everywhere is empty; set `size` to 0 to use the memory again.
struct mare__bytes {
    char *at;
    size_t size, capacity;
};

// Makes room for `more` bytes after the last: MARE_NOMEM, and then nothing has changed.
mare_err mare__bytes_reserve(struct mare__bytes *bytes, size_t more);

// Appends: MARE_NOMEM, and then nothing has changed.
static inline mare_err mare__bytes_add(struct mare__bytes *bytes, const void *data, size_t size)
{
    if (size == 0)
        return MARE_OK;
    mare_err err =
        size > bytes->capacity - bytes->size ? mare__bytes_reserve(bytes, size) : MARE_OK;
    if (err)
        return err;
    memcpy(bytes->at + bytes->size, data, size);
    bytes->size += size;
    return MARE_OK;
}

// Gives the memory back; the bytes are empty then, and may be used again.
void mare__bytes_fini(struct mare__bytes *bytes);
