// SPDX-License-Identifier: MIT
// The two clocks that a time client needs together: the oscillator, which nobody adjusts, and what
// the system shows as the time of day.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mare__wall {
    int64_t local_ns;  // of the oscillator
    int64_t utc_ns;    // of the system's clock, since 1970
    uint64_t width_ns; // they were read within this of each other
};

// Reads both, as close to each other as can be.
void mare__wall_read(struct mare__wall *wall);

// The oscillator alone. While the machine is suspended it stands still.
int64_t mare__wall_local_ns(void);

// For how long the machine has been suspended since it was booted.
int64_t mare__wall_suspended_ns(void);

// Whether it was suspended since `suspended_ns` was read, which is brought up to date: whatever was
// measured with the oscillator before is worth nothing then.
bool mare__wall_woke(int64_t *suspended_ns);
