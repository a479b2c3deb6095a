// SPDX-License-Identifier: MIT
// Oscillator and time of day on Linux.
#include "platform/wall.h"

#include <stdio.h>
#include <time.h>

enum { TRIES = 4, NAP_NS = 10000000 }; // a shorter one is how far apart two clocks were read

#define STALE_NS INT64_C(10000000000) // nothing waits so long to be read
#define SLEWED                                                                                     \
    10 // the kernel runs the system's clock faster or slower by a tenth at most (ADJ_TICK)

static int64_t read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t local_ns(void)
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
        int64_t before = local_ns(), utc = read_ns(CLOCK_REALTIME);
        int64_t steady = read_ns(CLOCK_MONOTONIC), after = local_ns();
        if ((uint64_t)(after - before) >= wall->width_ns)
            continue;
        wall->local_ns = before + (after - before) / 2;
        wall->utc_ns = utc;
        wall->ahead_ns = utc - steady;
        wall->width_ns = (uint64_t)(after - before) + 1;
    }
}

void mare__arrivals_init(struct mare__arrivals *arrivals)
{
    *arrivals = (struct mare__arrivals){.trusted_ns = INT64_MIN};
    mare__wall_read(&arrivals->seen);
}

static int64_t size(int64_t span_ns)
{
    return span_ns < 0 ? -span_ns : span_ns;
}

// By how much the monotonic clock is ahead of the oscillator.
static int64_t slewed(const struct mare__wall *wall)
{
    return wall->utc_ns - wall->ahead_ns - wall->local_ns;
}

// The system's clock and the monotonic one are slewed together: what changes their difference is a
// clock that was set, a leap second, or a suspended machine. Stamps from before may still be in the
// queue, so that for a while none is believed. A change that two looks are too wide to show is
// taken off the age, and so is all slewing since the last look, of which the age is a part.
int64_t mare__wall_age_ns(struct mare__arrivals *arrivals, const struct mare__wall *now,
                          int64_t stamp_ns)
{
    const struct mare__wall seen = arrivals->seen;
    int64_t unsure_ns = (int64_t)(now->width_ns + seen.width_ns);
    if (size(now->ahead_ns - seen.ahead_ns) > unsure_ns)
        arrivals->trusted_ns = now->local_ns + STALE_NS;
    arrivals->seen = *now;
    if (stamp_ns <= 0 || now->local_ns < arrivals->trusted_ns)
        return 0;
    int64_t age_ns = now->utc_ns - stamp_ns - unsure_ns;
    if (age_ns <= 0 || age_ns >= STALE_NS)
        return 0;
    int64_t most_ns = age_ns / SLEWED, found_ns = size(slewed(now) - slewed(&seen));
    return age_ns - (found_ns < most_ns ? found_ns : most_ns);
}

void mare__wall_text(int64_t utc_ns, char text[MARE__WALL_TEXT])
{
    time_t seconds = (time_t)(utc_ns / 1000000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t length = strftime(text, MARE__WALL_TEXT, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, MARE__WALL_TEXT - length, ".%03dZ", (int)(utc_ns / 1000000 % 1000));
}
