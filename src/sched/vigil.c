// SPDX-License-Identifier: MIT
#include "sched/vigil.h"

enum {
    SHORT_NS = 500000, // a rest below this is short
    VIGIL_NS = 100000, // the length of a vigil
    LONG_NS = 250000,  // of one that would have paid if it had been longer
    TAKEN_NS = 150000, // a look that took longer: the processor was somebody else's
    AFTER = 4,         // short rests before the first
    AFTER_MOST = 1 << 16,
};

void mare__vigil_init(struct mare__vigil *vigil, bool allowed)
{
    *vigil = (struct mare__vigil){.needed = allowed ? AFTER : 0, .length = VIGIL_NS};
}

void mare__vigil_rested(struct mare__vigil *vigil, uint64_t ns)
{
    if (ns >= SHORT_NS)
        vigil->short_rests = 0;
    else if (vigil->short_rests < AFTER_MOST)
        vigil->short_rests++;
    if (vigil->in_vain && ns < LONG_NS - VIGIL_NS)
        vigil->length = LONG_NS;
    vigil->in_vain = false;
}

bool mare__vigil_begin(struct mare__vigil *vigil, uint64_t now)
{
    vigil->until = now + vigil->length;
    vigil->looked = now;
    return vigil->needed && vigil->short_rests >= vigil->needed;
}

bool mare__vigil_goes_on(struct mare__vigil *vigil, uint64_t now)
{
    bool taken = now - vigil->looked > TAKEN_NS;
    vigil->looked = now;
    if (!taken && now < vigil->until)
        return true;
    vigil->short_rests = 0;
    vigil->in_vain = !taken && vigil->length == VIGIL_NS;
    vigil->length = VIGIL_NS;
    if (taken && vigil->needed < AFTER_MOST)
        vigil->needed *= 4;
    return false;
}

void mare__vigil_paid(struct mare__vigil *vigil)
{
    if (vigil->needed > AFTER)
        vigil->needed /= 2;
}
