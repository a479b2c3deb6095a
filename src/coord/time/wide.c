/* SPDX-License-Identifier: MIT */

/* A product of 64 bits by 64, divided again, with plain arithmetic: 128-bit numbers do not exist on
 * small machines, and where they do, dividing them calls a function of the compiler's library. */

#include "coord/time/fixed.h"

typedef struct wide {
    uint64_t high, low;
} wide;

static wide multiply(uint64_t a, uint64_t b)
{
    uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
    uint64_t cross = a1 * b0 + (a0 * b0 >> 32);
    uint64_t other = a0 * b1 + (cross & 0xffffffff);
    return (wide){.high = a1 * b1 + (cross >> 32) + (other >> 32), .low = a * b};
}

/* Long division, bit by bit; the quotient fits because high < c. */
static uint64_t divide(wide n, uint64_t c)
{
    uint64_t rest = n.high, quotient = 0;
    if (n.high == 0)
        return n.low / c;
    for (int bit = 63; bit >= 0; bit--) {
        uint64_t over = rest >> 63;
        rest = rest << 1 | (n.low >> bit & 1);
        if (over || rest >= c) {
            rest -= c;
            quotient |= UINT64_C(1) << bit;
        }
    }
    return quotient;
}

int64_t mare__mul_div(int64_t a, int64_t b, uint64_t c)
{
    wide product = multiply(mare__size(a), mare__size(b));
    int negative = (a < 0) != (b < 0);
    uint64_t quotient = product.high < c ? divide(product, c) : UINT64_MAX;
    if (quotient > INT64_MAX)
        quotient = INT64_MAX;
    return negative ? -(int64_t)quotient : (int64_t)quotient;
}
