/* SPDX-License-Identifier: MIT */
#pragma once

/* Patience with an election that does not come to its end: is it lost, or is the network slow?
 *
 *     begin ──▶ waits ── the end comes ──▶ next time at least twice as long as that took
 *       ▲         │
 *       └─ failed ┘ waited in vain: next time twice as long
 *
 * Members remember how long an election took. Otherwise those for whom it has ended would wait as
 * at the beginning, and cut off the next one. Local clocks only. */

#include <stdint.h>

#define MARE__PATIENCE_DOUBLINGS 10u /* of the least, at most */

typedef struct mare__patience {
    uint64_t begun_us, least_us;
    uint64_t learnt_us;
} mare__patience;

/* An election begins. Returns how long to wait for its end, not less than `least_us`. */
static inline uint64_t mare__patience_begin(mare__patience *p, uint64_t now_us, uint64_t least_us)
{
    p->begun_us = now_us;
    p->least_us = least_us;
    return p->learnt_us > least_us ? p->learnt_us : least_us;
}

static inline void mare__patience_learn(mare__patience *p, uint64_t wait_us)
{
    uint64_t most_us = p->least_us << MARE__PATIENCE_DOUBLINGS;
    p->learnt_us = wait_us < most_us ? wait_us : most_us;
}

/* It was not worth it. */
static inline void mare__patience_failed(mare__patience *p)
{
    mare__patience_learn(p, 2 * (p->learnt_us > p->least_us ? p->learnt_us : p->least_us));
}

/* The end has come. One that was not awaited teaches nothing. */
static inline void mare__patience_rewarded(mare__patience *p, uint64_t now_us)
{
    if (p->begun_us)
        mare__patience_learn(p, 2 * (now_us - p->begun_us));
    p->begun_us = 0;
}
