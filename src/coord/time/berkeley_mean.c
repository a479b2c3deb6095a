/* SPDX-License-Identifier: MIT */

/* The mean of Berkeley's algorithm. Clocks in order, a window of width `agree` slides over them,
 * and the fullest one counts: a clock far from most others is broken. */

#include <mare/coord_time.h>

static void sort(int64_t *list, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        int64_t next = list[i];
        uint32_t at = i;
        for (; at > 0 && list[at - 1] > next; at--)
            list[at] = list[at - 1];
        list[at] = next;
    }
}

int64_t mare_berkeley_mean(int64_t *sorted, uint32_t count, int64_t agree_ns)
{
    uint32_t first = 0, most = 1; /* there is the daemon itself */
    sort(sorted, count);
    for (uint32_t low = 0, high = 0; low < count; low++) {
        while (high < count && sorted[high] - sorted[low] <= agree_ns)
            high++;
        if (high - low > most) {
            most = high - low;
            first = low;
        }
    }
    int64_t whole = 0, rest = 0; /* quotients and remainders apart: the sum might not fit */
    for (uint32_t i = 0; i < most; i++) {
        whole += (sorted[first + i] - sorted[first]) / (int64_t)most;
        rest += (sorted[first + i] - sorted[first]) % (int64_t)most;
    }
    return sorted[first] + whole + rest / (int64_t)most;
}
