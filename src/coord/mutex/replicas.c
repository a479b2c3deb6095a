/* SPDX-License-Identifier: MIT */

/* The replicas of the voting algorithm: how many, where they are, and what their forgetting costs.
 * Functions of the set-up alone, so that every member finds the same coordinators without asking.
 *
 *     "name-0" "name-1" … ── hash ──▶ keys on a ring of 2^64 places, on which the founders lie too;
 *                                     the first founder at or after a key coordinates */

#include "coord/mutex/voting.h"

#define REPLICAS_INITIAL 32u

uint32_t mare__voting_replicas(const mare_coord_setup *setup)
{
    uint32_t n = (uint32_t)setup->param[MARE__VOTING_REPLICAS];
    if (n)
        return n;
    return setup->members < REPLICAS_INITIAL ? setup->members : REPLICAS_INITIAL;
}

uint32_t mare__voting_votes(const mare_coord_setup *setup)
{
    uint32_t n = mare__voting_replicas(setup), m = (uint32_t)setup->param[MARE__VOTING_VOTES];
    m = m ? m : n * 3 / 4;
    return m > n ? n : m > n / 2 ? m : n / 2 + 1;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* FNV-1a over the text, then the finish of splitmix64: names that are alike must lie far apart. */
static uint64_t hash(const char *text, uint32_t length)
{
    uint64_t z = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < length; i++)
        z = (z ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    return mix(z);
}

/* Writes a number, returns the length. */
static uint32_t write_number(char *out, uint64_t number)
{
    uint32_t digits = 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10)
        digits++;
    for (uint32_t i = digits; i > 0; i--, number /= 10)
        out[i - 1] = (char)('0' + number % 10);
    return digits;
}

uint32_t mare__voting_home(const mare_coord_setup *setup, uint32_t index)
{
    char text[48];
    uint32_t length = write_number(text, (uint64_t)setup->param[MARE__VOTING_NAME]);
    text[length++] = '-';
    length += write_number(text + length, index);
    uint64_t key = hash(text, length), nearest = UINT64_MAX;
    uint32_t home = 0;
    for (uint32_t i = 0; i < setup->members; i++) {
        uint64_t way = mix(i + 1) - key; /* round the ring, clockwise */
        if (way < nearest) {
            nearest = way;
            home = i;
        }
    }
    return home;
}

double mare__voting_risk(uint32_t n, uint32_t m, double p)
{
    double sum = 0;
    for (uint32_t k = 2 * m - n; k <= m; k++) {
        double term = 1; /* C(m, k) p^k (1 − p)^(m − k) */
        for (uint32_t i = 1; i <= k; i++)
            term *= p * (double)(m - k + i) / (double)i;
        for (uint32_t i = 0; i < m - k; i++)
            term *= 1 - p;
        sum += term;
    }
    return sum;
}
