/* SPDX-License-Identifier: MIT */
#pragma once

/* For a host that runs many locks by `majority` under one lease: what must outlive a crash is small
 * enough to be one thing for all of them. */

#include <mare/coord.h>

/* What is kept with a lease: numbers, the last ones a set of members. */
enum { MARE__MAJORITY_BOUND, MARE__MAJORITY_ABSTAINS, MARE__MAJORITY_VOTED };

/* `saved` is the data of a SAVE of one lock, `into` that of all so far (at first, as many zeros).
 * Takes it in. 0: all of it was there, and the disk need not hear of it. Each lock of the next life
 * loads what is in `into`, with the head of a SAVE. */
int mare__majority_merge(uint8_t *into, const uint8_t *saved, uint32_t length);

/* What a machine leaves behind that was forgotten: numbers that are right for any other lock of the
 * member, because too large is safe. A lock that begins later in this life begins behind them. */
typedef struct mare__majority_past {
    uint64_t clock, ticket, vote; /* the latest of any */
    uint64_t used;                /* no stamp up to this one is voted for again … */
    uint32_t user;                /* … of this member */
} mare__majority_past;

/* Nonzero when nobody waits here, nobody has this vote, and no life before is asked about: then the
 * machine may be thrown away, and `past` has what must not be forgotten. */
int mare__majority_forget(const mare_coord *m, mare__majority_past *past);

/* For a machine that was just made, and has loaded what it should. */
void mare__majority_follow(mare_coord *m, const mare__majority_past *past);
