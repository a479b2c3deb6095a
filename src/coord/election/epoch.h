/* SPDX-License-Identifier: MIT */
#pragma once

/* Epochs: a count, and a member as the remainder by the capacity of the group. So an epoch names
 * its leader, and one epoch cannot have two leaders.
 *
 * A member that lost its memory does not know which epochs it has led in. So counts belong to
 * lives: those that 8 does not divide to the founders' (life 0), the others to the later lives,
 * each of which has one in 2^34. However little a new life has heard, it cannot lead in an epoch of
 * an earlier one. Elections of later lives use up counts as fast as that. Epochs below
 * MARE__EPOCH_LIMIT are enough for 2^28 / capacity such elections, and no more.
 *
 *     count        1  2 … 7   8          9 … 15   16         17 …
 *     belongs to   founders   life 1     founders life 2     …         and so on, in cycles */

#include <stdint.h>

#define MARE__EPOCH_LIMIT (UINT64_C(1) << 62)
#define MARE__LIFE_LIMIT (UINT64_C(1) << 31) /* of incarnations: see mare_coord_setup */

/* The first count that belongs to this life, at `from` (not 0) or above. */
static inline uint64_t mare__epoch_count(uint64_t from, uint64_t life)
{
    const uint64_t stride = 8, cycle = stride * MARE__LIFE_LIMIT;
    if (life == 0)
        return from + (from % stride == 0);
    uint64_t count = from - from % cycle + life * stride;
    return count >= from ? count : count + cycle;
}

static inline uint64_t mare__epoch_make(uint64_t count, uint32_t leader, uint32_t capacity)
{
    return count * capacity + leader;
}

static inline int mare__epoch_names(uint64_t epoch, uint32_t leader, uint32_t capacity)
{
    return epoch % capacity == leader;
}

/* The first epoch of `leader` above this one. */
static inline uint64_t mare__epoch_above(uint64_t epoch, uint32_t leader, uint32_t capacity)
{
    uint64_t same_count = epoch - epoch % capacity + leader;
    return same_count > epoch ? same_count : same_count + capacity;
}
