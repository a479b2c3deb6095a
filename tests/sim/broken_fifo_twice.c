/* SPDX-License-Identifier: MIT */

/* FIFO multicast that takes what is sent again for something new. */

#include "tests/sim/broken.h"

#include "coord/order/casts.h"

static int put_again(mare__casts *casts, uint32_t from, uint64_t seq, uint64_t stamp,
                     const uint8_t *data, uint32_t length)
{
    uint64_t next = casts->received[from] + 1;
    return mare__casts_put(casts, from, seq < next ? next : seq, stamp, data, length);
}

#define mare__fifo mare_broken_fifo_twice
#define mare__casts_put put_again
#include "coord/order/fifo.c"
