/* SPDX-License-Identifier: MIT */
#pragma once

/* The simulator's pseudo-random numbers: splitmix64, integers only, so that every compiler and
 * machine draws the same run from the same seed. Each concern (network, faults, workload, machines)
 * has its own stream, so that taking a fault away does not reshuffle the rest. */

#include <stdint.h>

typedef struct mare_sim_random {
    uint64_t state;
} mare_sim_random;

static inline uint64_t mare_sim_draw(mare_sim_random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The stream `which` of a seed. */
static inline mare_sim_random mare_sim_stream(uint64_t seed, uint64_t which)
{
    mare_sim_random random = {seed * UINT64_C(0xd1342543de82ef95) + which};
    random.state = mare_sim_draw(&random);
    return random;
}

/* Below `limit`, which is not 0. The bias of the multiplication is below limit / 2^64. */
static inline uint64_t mare_sim_below(mare_sim_random *random, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)mare_sim_draw(random) * limit) >> 64);
}

/* Nonzero with `ppm` parts in a million. */
static inline int mare_sim_chance(mare_sim_random *random, uint32_t ppm)
{
    return ppm && mare_sim_below(random, 1000000) < ppm;
}

/* Exponentially distributed around `mean`, in fixed point: −ln(u) from the binary logarithm of a
 * 64-bit draw, found bit by bit (12 bits of fraction). */
static inline uint64_t mare_sim_exponential(mare_sim_random *random, uint64_t mean)
{
    uint64_t u = mare_sim_draw(random) | 1;
    uint64_t whole = (uint64_t)__builtin_clzll(u);
    uint64_t x = u << whole >> 32; /* 1 ≤ x / 2^31 < 2 */
    uint64_t log2 = (63 - whole) << 12;
    for (int bit = 11; bit >= 0; bit--) {
        x = x * x >> 31;
        if (x >> 32) {
            x >>= 1;
            log2 |= UINT64_C(1) << bit;
        }
    }
    uint64_t minus_log2 = (UINT64_C(64) << 12) - log2;
    return (uint64_t)((unsigned __int128)mean * minus_log2 * 2839 >> 24); /* ln 2 ≈ 2839 / 4096 */
}
