// SPDX-License-Identifier: MIT
// Bytes that grow: the capacity doubles, so that appending costs the same however many there are.
#include "wire/bytes.h"

#include "base/alloc.h"
#include "mare_limits.h"

mare_err mare__bytes_reserve(struct mare__bytes *bytes, size_t more)
{
    if (more <= bytes->capacity - bytes->size)
        return MARE_OK;
    if (more > SIZE_MAX / 2 - bytes->size)
        return MARE_NOMEM;
    size_t capacity = bytes->capacity ? bytes->capacity : MARE__BYTES_FIRST;
    while (capacity < bytes->size + more)
        capacity *= 2;
    char *at = mare__realloc(bytes->at, capacity);
    if (!at)
        return MARE_NOMEM;
    bytes->at = at;
    bytes->capacity = capacity;
    return MARE_OK;
}

void mare__bytes_fini(struct mare__bytes *bytes)
{
    mare__free(bytes->at);
    *bytes = (struct mare__bytes){0};
}
