/* SPDX-License-Identifier: MIT */
#pragma once

/* Whole numbers as bytes, little endian: how everything that travels is written. */

#include <stddef.h>
#include <stdint.h>

/* Writes the lowest `bytes` bytes of a number; returns where the next one goes. */
static inline uint8_t *mare__put_number(uint8_t *out, uint64_t number, uint32_t bytes)
{
    for (uint32_t b = 0; b < bytes; b++)
        *out++ = (uint8_t)(number >> (8 * b));
    return out;
}

/* Reads a number of so many bytes. */
static inline uint64_t mare__get_number(const uint8_t *in, uint32_t bytes)
{
    uint64_t number = 0;
    for (uint32_t b = 0; b < bytes; b++)
        number |= (uint64_t)in[b] << (8 * b);
    return number;
}

/* The same for arrays of `count` numbers, eight bytes each. */
static inline uint8_t *mare__put_numbers(uint8_t *out, const uint64_t *array, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        out = mare__put_number(out, array[i], 8);
    return out;
}

static inline void mare__get_numbers(uint64_t *array, const uint8_t *in, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        array[i] = mare__get_number(in + (size_t)8 * i, 8);
}
