// SPDX-License-Identifier: MIT
// When a worker that has nothing to do keeps looking for events instead of sleeping.
//
// A peer that is asked answers within microseconds; to wake a sleeping processor takes longer than
// that. So a worker whose last rests were short keeps a vigil before the next: it looks again and
// again for a while, and gives the processor to any other thread that wants it in between.
//
//     short rests ──▶ vigil ──▶ something came: the next vigil at once
//          ▲            ├─────▶ nothing came: after a few short rests again
//          └────────────┴─────▶ somebody else used the processor: after four times as many
//
// Nothing here reads a clock or waits. Its worker's thread alone uses it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mare__vigil {
    unsigned short_rests, needed; // needed 0: never keeps one
    uint64_t until, looked, length;
    bool in_vain; // the last one has just ended too early, maybe
};

void mare__vigil_init(struct mare__vigil *vigil, bool allowed);

// A rest is over that took so long.
void mare__vigil_rested(struct mare__vigil *vigil, uint64_t ns);

// False: it shall rest.
bool mare__vigil_begin(struct mare__vigil *vigil, uint64_t now);

// It has looked, and found nothing. False: it shall rest.
bool mare__vigil_goes_on(struct mare__vigil *vigil, uint64_t now);

// It has found something.
void mare__vigil_paid(struct mare__vigil *vigil);
