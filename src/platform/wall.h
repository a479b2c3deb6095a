// SPDX-License-Identifier: MIT
// The two clocks that a time client needs together: the oscillator, which nobody adjusts, and what
// the system shows as the time of day.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mare__wall {
    int64_t local_ns; // of the oscillator
    int64_t utc_ns;   // of the system's clock, since 1970
    int64_t ahead_ns; // utc_ns minus the monotonic clock: changed by a set clock or a suspend alone
    uint64_t width_ns; // they were read within this of each other
};

// Reads both, as close to each other as can be.
void mare__wall_read(struct mare__wall *wall);

// A time since 1970 as "2026-11-16T13:20:01.123Z".
enum { MARE__WALL_TEXT = 32 };
void mare__wall_text(int64_t utc_ns, char text[MARE__WALL_TEXT]);

// Makes sense of the kernel's stamps of arrivals, which are by the system's clock: that may be set
// between a stamp and the look at it.
struct mare__arrivals {
    struct mare__wall seen; // at the last look
    int64_t trusted_ns;     // by the oscillator: until then no stamp is worth anything
};

// Begins. No datagram that was there before must be asked about.
void mare__arrivals_init(struct mare__arrivals *arrivals);

// How long before `now` a datagram came that the kernel gave this stamp: never more than it was, so
// that nothing seems to have come before it did, but less by what the kernel may have slewed the
// clock since the last look, and by how well the clocks can be read. 0 when there is no stamp (0),
// when it makes no sense, or the system's clock was set or the machine suspended a moment ago.
int64_t mare__wall_age_ns(struct mare__arrivals *arrivals, const struct mare__wall *now,
                          int64_t stamp_ns);

// For how long the machine has been suspended since it was booted.
int64_t mare__wall_suspended_ns(void);

// Whether it was suspended since `suspended_ns` was read, which is brought up to date: whatever was
// measured with the oscillator before is worth nothing then.
bool mare__wall_woke(int64_t *suspended_ns);
