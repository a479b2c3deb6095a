/* SPDX-License-Identifier: MIT */

/* The disciplined clock: a broken line over the local oscillator that only rises.
 *
 *     shown ▲            . target            At each correction the line gets a new corner where it
 *           │        . ´ ▁▁▁▁──              is, at (local_ns, shown_ns), with a gap to where it
 *           │    . ´ ▁──╱                    should be. From there it runs a little faster or
 * slower │. ´  ╱╱╱   slewing              than the oscillator until the gap is closed, then
 *           └──────────────────▶ local       beside it. As the slew rate is below 1, it rises.
 *
 * The error bound of a reading is the error of the target when it was set, plus what the oscillator
 * may have drifted since, plus what is left of the gap. */

#include "coord/time/fixed.h"

#define RATE_MOST UINT64_C(500000000) /* of drift and of slewing */
#define TUNE_MOST UINT64_C(400000000) /* slewing back on top of it, the line must still rise */

static uint64_t cut(uint64_t ppb)
{
    return ppb < RATE_MOST ? ppb : RATE_MOST;
}

void mare_time_clock_init(mare_time_clock *clock, uint64_t drift_ppb, uint64_t slew_ppb)
{
    *clock = (mare_time_clock){.drift_ppb = cut(drift_ppb),
                               .slew_ppb = cut(slew_ppb),
                               .error_ns = MARE_TIME_UNKNOWN,
                               .last_ns = INT64_MIN};
}

static int64_t elapsed(const mare_time_clock *clock, int64_t local_ns)
{
    return local_ns > clock->local_ns ? local_ns - clock->local_ns : 0;
}

/* What the oscillator counted, at the rate that it was tuned to. */
static int64_t corrected(const mare_time_clock *clock, int64_t local_span_ns)
{
    return local_span_ns + mare__part(local_span_ns, clock->rate_ppb);
}

/* The drift is that of the corrected rate, so it is counted on corrected spans; the correction is
 * rounded to a nanosecond. */
static uint64_t drifted(const mare_time_clock *clock, int64_t corrected_ns)
{
    uint64_t bound = mare__drift_bound((uint64_t)corrected_ns, clock->drift_ppb);
    return corrected_ns && clock->rate_ppb ? bound + 1 : bound;
}

int64_t mare_time_clock_gap(const mare_time_clock *clock, int64_t local_ns)
{
    uint64_t most = mare__size(clock->gap_ns);
    int64_t done = mare__part(elapsed(clock, local_ns), (int64_t)clock->slew_ppb);
    if ((uint64_t)done >= most)
        return 0;
    return clock->gap_ns < 0 ? clock->gap_ns + done : clock->gap_ns - done;
}

mare_time_reading mare_time_clock_target(const mare_time_clock *clock, int64_t local_ns)
{
    if (!clock->set)
        return (mare_time_reading){.time_ns = local_ns, .error_ns = MARE_TIME_UNKNOWN};
    int64_t passed = corrected(clock, elapsed(clock, local_ns));
    return (mare_time_reading){.time_ns = clock->shown_ns + clock->gap_ns + passed,
                               .error_ns =
                                   mare__add_bound(clock->error_ns, drifted(clock, passed))};
}

/* Starts a new piece of the line at `local_ns`, where the old one has come to. */
static void turn(mare_time_clock *clock, int64_t local_ns)
{
    mare_time_reading target = mare_time_clock_target(clock, local_ns);
    int64_t gap_ns = mare_time_clock_gap(clock, local_ns);
    if (clock->local_ns < local_ns)
        clock->local_ns = local_ns;
    clock->shown_ns = target.time_ns - gap_ns;
    clock->gap_ns = gap_ns;
    clock->error_ns = target.error_ns;
}

void mare_time_clock_set(mare_time_clock *clock, int64_t local_ns, int64_t time_ns,
                         uint64_t error_ns)
{
    if (clock->set) {
        /* A finding about an instant before the last corner is carried forward to it. */
        int64_t late =
            corrected(clock, clock->local_ns > local_ns ? clock->local_ns - local_ns : 0);
        turn(clock, local_ns);
        clock->gap_ns = time_ns + late - clock->shown_ns;
        clock->error_ns = mare__add_bound(error_ns, drifted(clock, late));
        return;
    }
    clock->set = 1;
    clock->local_ns = local_ns;
    clock->shown_ns = clock->read && clock->last_ns > time_ns ? clock->last_ns : time_ns;
    clock->gap_ns = time_ns - clock->shown_ns;
    clock->error_ns = error_ns;
}

void mare_time_clock_move(mare_time_clock *clock, int64_t local_ns, int64_t by_ns,
                          uint64_t error_ns)
{
    if (!clock->set)
        mare_time_clock_set(clock, local_ns, local_ns, 0);
    mare_time_reading target = mare_time_clock_target(clock, local_ns);
    mare_time_clock_set(clock, local_ns, target.time_ns + by_ns, error_ns);
}

int mare_time_clock_tune(mare_time_clock *clock, int64_t local_ns, int64_t rate_ppb,
                         uint64_t drift_ppb)
{
    if (mare__size(rate_ppb) > TUNE_MOST || drift_ppb > RATE_MOST)
        return 0;
    if (clock->set)
        turn(clock, local_ns);
    clock->rate_ppb = rate_ppb;
    clock->drift_ppb = drift_ppb;
    return 1;
}

mare_time_reading mare_time_clock_read(mare_time_clock *clock, int64_t local_ns)
{
    mare_time_reading reading = mare_time_clock_target(clock, local_ns);
    int64_t gap_ns = clock->set ? mare_time_clock_gap(clock, local_ns) : 0;
    reading.time_ns -= gap_ns;
    if (clock->read && reading.time_ns < clock->last_ns) {
        gap_ns -= clock->last_ns - reading.time_ns;
        reading.time_ns = clock->last_ns;
    }
    reading.error_ns = mare__add_bound(reading.error_ns, mare__size(gap_ns));
    clock->last_ns = reading.time_ns;
    clock->read = 1;
    return reading;
}
