// SPDX-License-Identifier: MIT
// The two clocks that a time client needs together: the oscillator, which nobody adjusts, and what
// the system shows as the time of day.
#pragma once

#include <stdint.h>

struct mare__wall {
    int64_t local_ns;  // of the oscillator
    int64_t utc_ns;    // of the system's clock, since 1970
    uint64_t width_ns; // they were read within this of each other
};

// Reads both, as close to each other as can be.
void mare__wall_read(struct mare__wall *wall);

// The oscillator alone.
int64_t mare__wall_local_ns(void);
