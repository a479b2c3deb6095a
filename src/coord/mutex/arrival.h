/* SPDX-License-Identifier: MIT */
#pragma once

/* One that returns, or joins, among members that remember things: an epoch, a clock, who holds
 * what.
 *
 *     START ──▶ asks everybody ── all that are up have answered, one of them ready ──▶ ready
 *
 * Before that it must not act, for an old message could be taken for the present, and what it did
 * in an earlier life could be done again. One that is itself still asking has nothing to teach, so
 * one of those who answer has to be ready; who is alone need not ask. Founders are ready from the
 * beginning. When all that are up have answered and none is ready, it says so once (NO_GROUP): they
 * may all have been started as if somebody else had founded the group. The questions and answers
 * are messages of the algorithm's; an answer counts only for the life that asked.
 *
 * Assumes: DOWN is only said of the dead, and of those that are up at any moment one at least was
 * never down. Otherwise all could have forgotten, and nobody would be ready again. */

#include "coord/machine.h"

typedef struct mare__arrival {
    uint64_t life; /* incarnation and starts */
    uint32_t ready;
    uint16_t taught;     /* by somebody who was ready */
    uint16_t complained; /* that nobody is */
    mare__set told;      /* who has answered */
} mare__arrival;

/* The part of the machine's memory; see mare__carve(). */
void mare__arrival_lay_out(mare__arrival *a, mare__block *block, const mare_coord_setup *setup);

/* A life begins. Nonzero when the others have to be asked. */
int mare__arrival_start(const mare_coord *m, mare__arrival *a);

/* `from` has answered. Zero when that is of no interest: ready already, or another life asked. */
int mare__arrival_told(mare__arrival *a, uint32_t from, uint64_t life, int teaches);

/* Becomes ready, if nobody's answer is missing any more. Nonzero when it has. */
int mare__arrival_try(const mare_coord *m, mare__arrival *a, mare_coord_effects *fx);
