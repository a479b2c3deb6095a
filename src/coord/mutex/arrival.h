/* SPDX-License-Identifier: MIT */
#pragma once

/* A member that returns to others, or joins them, while these remember things: an epoch, a clock,
 * who holds what.
 *
 *     START ──▶ asks everybody ── all that are up have answered, one of them ready ──▶ ready
 *                                 └─ under a lease: or more than half of the group remember ──▶ ┘
 *
 * Before that it must not act. It could take an old message for a new one, and do again what it did
 * in an earlier life. A member that is itself still asking has nothing to teach, so one of those
 * that answer has to be ready. A single member need not ask. Founders are ready from the beginning.
 * When all that are up have answered and none is ready, it says so once (NO_GROUP): they may all
 * have been started as if somebody else had founded the group. The questions and answers are
 * messages of the algorithm's; an answer counts only for the life that asked.
 *
 * One that goes down without having answered may have acted until then, with the permission of
 * those who had answered before, and without that of the one that asks, if no message got from one
 * to the other. Where a clock is asked for, and not an epoch, all are then asked anew.
 *
 * Assumes: DOWN is only said of the dead, and of those that are up at any moment one at least was
 * never down. Otherwise all could have forgotten, and nobody would be ready again.
 *
 * Under a lease (`quorum`) all can be away at once, and often are: a cable is pulled. There the
 * algorithm lets nothing count that more than half of the founders do not remember: a grant, a
 * coordinator's epoch, a token's. So those who return need nobody that is ready, if more than half
 * of the founders answer who have forgotten nothing: one of them knows the latest of all. A member
 * that is up and has not answered may be inside, so all of those are waited for as before. The
 * memory is on the disk (SAVE). A member that has lost it (`forgot`) takes part, but does not
 * count. */

#include "coord/machine.h"

typedef struct mare__arrival {
    uint64_t life;     /* incarnation, and how often the others were asked */
    uint64_t asked_us; /* … for the last time */
    uint32_t ready;
    uint16_t taught;     /* by somebody who was ready */
    uint16_t complained; /* that nobody is */
    uint16_t quorum;     /* under a lease */
    uint16_t forgot;     /* what earlier lives knew */
    mare__set told;      /* who has answered … */
    mare__set recalls;   /* … that it is not ready either, but has forgotten nothing */
} mare__arrival;

/* What an answer says of its sender. */
enum { MARE__ARRIVAL_FORGOT, MARE__ARRIVAL_READY, MARE__ARRIVAL_RECALLS };

/* The part of the machine's memory; see mare__carve(). */
void mare__arrival_lay_out(mare__arrival *a, mare__block *block, const mare_coord_setup *setup);

/* A life begins. Nonzero when the others have to be asked. */
int mare__arrival_start(const mare_coord *m, mare__arrival *a);

/* One that is up no more: nonzero when the others have to be asked anew. */
int mare__arrival_misses(const mare_coord *m, mare__arrival *a, uint32_t member);

/* What to answer to one that asks. */
uint64_t mare__arrival_answer(const mare__arrival *a);

/* `from` has answered. Zero when that is of no interest: ready already, or another life asked. */
int mare__arrival_told(mare__arrival *a, uint32_t from, uint64_t life, uint64_t answer);

/* Becomes ready, if nobody's answer is missing any more. Nonzero when it has. */
int mare__arrival_try(const mare_coord *m, mare__arrival *a, mare_coord_effects *fx);

/* What is kept under a lease: the latest epoch or clock that this member knows of, and whether it
 * has forgotten what was kept before. */
enum { MARE__ARRIVAL_LATEST, MARE__ARRIVAL_LOST, MARE__ARRIVAL_KEPT };
void mare__arrival_keep(const mare__arrival *a, uint64_t latest, uint64_t *out);
/* MALFORMED unless the latest is below the limit. */
mare_coord_status mare__arrival_recall(mare__arrival *a, uint64_t limit, const uint64_t *in,
                                       uint64_t *latest);

/* Whether it has said NO_GROUP, and is not ready since. */
int mare__arrival_is_stuck(const mare__arrival *a);

/* Whether more than half of the founders are in the set; without a lease that is not asked. */
int mare__arrival_enough(const mare_coord *m, const mare__arrival *a, mare__set set);
