/* SPDX-License-Identifier: MIT */

/* FIFO multicast that tells the application everything twice. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

static inline void deliver_twice(mare_coord_effects *fx, uint32_t from, uint64_t number,
                                 const uint8_t *data, uint32_t length)
{
    mare__deliver(fx, from, number, data, length);
    mare__deliver(fx, from, number, data, length);
}

#define mare_coord_fifo mare_broken_fifo_twice
#define mare__deliver deliver_twice
#include "coord/order/fifo.c"
