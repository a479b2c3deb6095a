/* SPDX-License-Identifier: MIT */
#pragma once

/* Fixed-point arithmetic on nanoseconds and parts in 10^9, without 128-bit numbers (small machines
 * have none) and without the compiler's helper functions. Internal to src/coord/time. */

#include <mare/coord_time.h>

#define MARE__PPB UINT64_C(1000000000)

/* span × ppb / 10^9, rounded towards zero. Whole seconds and the rest apart, so that nothing
 * overflows while |ppb| ≤ 10^9. */
static inline int64_t mare__part(int64_t span_ns, int64_t ppb)
{
    return span_ns / MARE_TIME_SECOND * ppb + span_ns % MARE_TIME_SECOND * ppb / MARE_TIME_SECOND;
}

/* The same for bounds: never too small. */
static inline uint64_t mare__part_up(uint64_t span_ns, uint64_t ppb)
{
    return span_ns / MARE__PPB * ppb + (span_ns % MARE__PPB * ppb + MARE__PPB - 1) / MARE__PPB;
}

static inline uint64_t mare__size(int64_t value)
{
    return value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value;
}

/* a + b, staying at UNKNOWN. */
static inline uint64_t mare__add_bound(uint64_t a, uint64_t b)
{
    return a > MARE_TIME_UNKNOWN - b ? MARE_TIME_UNKNOWN : a + b;
}

/* Half of a round trip, as a bound. */
static inline uint64_t mare__half_up(int64_t trip_ns)
{
    return trip_ns > 0 ? ((uint64_t)trip_ns + 1) / 2 : 0;
}

/* a × b / c, rounded towards zero, with the product in 128 bits; cut to 64 when it does not fit. */
int64_t mare__mul_div(int64_t a, int64_t b, uint64_t c);

/* By how much `elapsed` on an oscillator can differ from what has truly passed. The oscillator's
 * rate is within 1 ± ρ, so the truth is elapsed / (1 ± ρ): wrong by elapsed × ρ / (1 − ρ) at most,
 * which for ρ ≤ 1/2 is at most elapsed × (ρ + 2ρ²). One more for roundings. */
static inline uint64_t mare__drift_bound(uint64_t elapsed_ns, uint64_t drift_ppb)
{
    uint64_t first = mare__part_up(elapsed_ns, drift_ppb);
    return elapsed_ns ? first + mare__part_up(first, 2 * drift_ppb) + 1 : 0;
}
