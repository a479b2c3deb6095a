// SPDX-License-Identifier: MIT
// Oscillator and time of day on Linux.
#include "platform/wall.h"

#include <time.h>

enum { TRIES = 4, NAP_NS = 10000000 }; // a shorter one is how far apart two clocks were read

static int64_t read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t mare__wall_local_ns(void)
{
    return read_ns(CLOCK_MONOTONIC_RAW);
}

int64_t mare__wall_suspended_ns(void)
{
    int64_t awake = read_ns(CLOCK_MONOTONIC);
    return read_ns(CLOCK_BOOTTIME) - awake;
}

// Between two reads this thread may have had to wait, which looks like a nap: the shortest of a
// few.
bool mare__wall_woke(int64_t *suspended_ns)
{
    int64_t found = mare__wall_suspended_ns();
    for (int i = 1; i < TRIES && found - *suspended_ns > NAP_NS; i++) {
        int64_t again = mare__wall_suspended_ns();
        found = again < found ? again : found;
    }
    bool woke = found - *suspended_ns > NAP_NS;
    if (woke || found < *suspended_ns)
        *suspended_ns = found;
    return woke;
}

// The time of day between two looks at the oscillator; of several tries, the one that was disturbed
// least.
void mare__wall_read(struct mare__wall *wall)
{
    wall->width_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = mare__wall_local_ns(), utc = read_ns(CLOCK_REALTIME);
        int64_t after = mare__wall_local_ns();
        if ((uint64_t)(after - before) >= wall->width_ns)
            continue;
        wall->local_ns = before + (after - before) / 2;
        wall->utc_ns = utc;
        wall->width_ns = (uint64_t)(after - before) + 1;
    }
}
