/* SPDX-License-Identifier: MIT */
#pragma once

/* For a host that runs many locks by `central` under one lease, and forgets those that nobody
 * wants: as mutex/majority.h has it.
 *
 * A coordinator that comes back to a lock opens another epoch. It would be one more for each lock
 * that was forgotten, and each would be written to the disk. So the epoch that this member serves
 * others in may be opened again, while its lease lasts: nobody else can have opened a later one,
 * and its grants are counted on. */

#include <mare/coord.h>

/* What machines leave behind that were forgotten, right for any other lock of the member. */
typedef struct mare__central_past {
    uint64_t epoch;  /* the latest of any … */
    uint64_t lease;  /* … and under which lease this member served in it, or 0 … */
    uint64_t grants; /* … and how often at the most it has granted there */
    uint64_t ticket, life;
} mare__central_past;

/* Nonzero when nobody waits here or is inside, and nobody holds it or waits for it by what the
 * coordinator knows: then the machine may be thrown away, and `past` has what must not be
 * forgotten. `lease` is the epoch of this member's lease. */
int mare__central_forget(const mare_coord *m, uint64_t lease, mare__central_past *past);

/* For a machine that was just made, and has loaded what it should: it must have, if the epoch of
 * the past is later than that in which the founders begin. */
void mare__central_follow(mare_coord *m, uint64_t lease, const mare__central_past *past);
