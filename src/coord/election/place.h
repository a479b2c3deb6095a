/* SPDX-License-Identifier: MIT */
#pragma once

/* Where nodes are in a space of several dimensions, 0 … 1023 in each: a function of the node's
 * number, so that all know where all are; or what a host has measured. */

#include <mare/coord.h>
#include <stdint.h>

#define MARE__PLACE_SIDE 1024

static inline int64_t mare__place_of(uint64_t salt, uint32_t member, uint32_t dimension)
{
    uint64_t z = (salt * 0x10001 + member) * UINT64_C(0x9e3779b97f4a7c15) + dimension * 77777 + 1;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ (z >> 31)) % MARE__PLACE_SIDE);
}

/* The square of the distance between two nodes. */
static inline int64_t mare__place_square(uint64_t salt, uint32_t a, uint32_t b, uint32_t dimensions)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < dimensions; i++) {
        int64_t d = mare__place_of(salt, a, i) - mare__place_of(salt, b, i);
        sum += d * d;
    }
    return sum;
}

/* For a machine of `superpeer-tokens` on nodes that know where they are: `places` has `dimensions`
 * numbers for each member, one member after the other. It belongs to the host, which may change it
 * between two steps. */
void mare__superpeer_places(mare_coord *m, const int32_t *places);
