/* SPDX-License-Identifier: MIT */

/* FIFO multicast that delivers all but the last byte, which is not what anybody multicast. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void all_but_one(mare_coord_effects *fx, uint32_t from, uint64_t number,
                               const uint8_t *data, uint32_t length)
{
    mare__deliver(fx, from, number, data, length - 1);
}

#define mare_coord_fifo mare_broken_fifo_short
#define mare__deliver all_but_one
#include "coord/order/fifo.c"
