/* SPDX-License-Identifier: MIT */
#pragma once

/* Where nodes stand on the circle of 2^bits identifiers: a function of the node's number, so that
 * all know where all are. Each round permutes the circle: numbers below 2^bits have different
 * places, as if by chance. */

#include <stdint.h>

static inline uint64_t mare__dht_place(uint32_t bits, uint64_t salt, uint32_t member)
{
    uint64_t last = (UINT64_C(1) << bits) - 1, place = member;
    for (int round = 0; round < 4; round++) {
        place = ((place + salt) * UINT64_C(0x9e3779b97f4a7c15) + 1) & last;
        place ^= place >> (bits / 2 + 1);
    }
    return place;
}
