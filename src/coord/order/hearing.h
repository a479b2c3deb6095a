/* SPDX-License-Identifier: MIT */
#pragma once

/* What a total order by Lamport's clocks knows of the others' clocks: heard[j] is a time, up to
 * which j will multicast nothing more, and all that j has multicast is here. */

#include "coord/machine.h"

typedef struct mare__hearing {
    uint64_t *heard;      /* by member: nothing at or before this time is missing */
    uint64_t *later;      /* by member: a time to be heard … */
    uint64_t *later_sent; /* … once its multicasts up to this one are here */
} mare__hearing;

/* The part of the machine's memory; see mare__carve(). */
static inline void mare__hearing_lay_out(mare__hearing *h, mare__block *block, uint32_t capacity)
{
    h->heard = mare__carve_array(block, capacity, sizeof *h->heard);
    h->later = mare__carve_array(block, capacity, sizeof *h->later);
    h->later_sent = mare__carve_array(block, capacity, sizeof *h->later_sent);
}

/* `from`, of whom `received` multicasts are here, was at `time` with `sent` of them behind it; a
 * time of 0 says nothing new, but what waited may count now. A time that has to wait is not given
 * up for a later one, which would have to wait longer. */
static inline void mare__hear(mare__hearing *h, uint32_t from, uint64_t received, uint64_t time,
                              uint64_t sent)
{
    if (received >= h->later_sent[from]) {
        h->heard[from] = h->heard[from] < h->later[from] ? h->later[from] : h->heard[from];
        h->later[from] = h->later_sent[from] = 0;
    }
    if (received >= sent) {
        h->heard[from] = h->heard[from] < time ? time : h->heard[from];
    } else if (!h->later_sent[from] && time) {
        h->later[from] = time;
        h->later_sent[from] = sent;
    }
}
