/* SPDX-License-Identifier: MIT */
#pragma once

/* Epochs: a count, and a member as the remainder by the capacity of the group. So an epoch names
 * its leader, and two leaders of one epoch cannot be. */

#include <stdint.h>

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
