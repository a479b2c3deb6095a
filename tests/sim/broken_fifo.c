/* SPDX-License-Identifier: MIT */

/* FIFO multicast that holds nothing back: what is here is delivered, in the order in which it came,
 * as if every number were the next one. */

#include "tests/sim/broken.h"

#include "coord/order/casts.h"

static int put_as_next(mare__casts *casts, uint32_t from, uint64_t seq, uint64_t stamp,
                       const uint8_t *data, uint32_t length)
{
    (void)seq;
    return mare__casts_put(casts, from, casts->received[from] + 1, stamp, data, length);
}

#define mare_coord_fifo mare_broken_fifo
#define mare__casts_put put_as_next
#include "coord/order/fifo.c"
