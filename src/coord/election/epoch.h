/* SPDX-License-Identifier: MIT */
#pragma once

/* Epochs of elections: a count, and the leader as the remainder by the capacity of the group. So an
 * epoch names its leader, and two leaders of one epoch cannot be. */

#include <stdint.h>

static inline uint64_t mare__epoch_make(uint64_t count, uint32_t leader, uint32_t capacity)
{
    return count * capacity + leader;
}

static inline int mare__epoch_names(uint64_t epoch, uint32_t leader, uint32_t capacity)
{
    return epoch % capacity == leader;
}
