/* SPDX-License-Identifier: MIT */
#pragma once

/* What majority.c, which votes and asks, shares with majority_kept.c, which keeps and forgets; and
 * with nobody else. */

#include "coord/mutex/ballot.h"
#include "coord/mutex/majority.h"

enum { REPAIR, RETRY_US, LEASE, CLOCK }; /* parameters */

/* What is kept of a vote: its number, whose, for which ticket and stamp, and the latest used. */
enum { VOTE, HOLDER, HELD_TICKET, HELD_STAMP, USED, USER, KEPT };

typedef struct majority {
    uint64_t clock, stamp;
    uint64_t ticket;      /* of my last request: incarnation and count */
    uint64_t none;        /* the one that others had used before this machine was made */
    uint32_t abstains;    /* has lost the memory of its votes */
    uint32_t complained;  /* that too few are left who vote */
    mare__ballot ballot;  /* my vote */
    uint64_t given[KEPT]; /* my last vote, as it is kept */
    uint64_t used;        /* the latest stamp that had it and did not yield it … */
    uint32_t user;        /* … and whose */
    uint64_t reserved;    /* stamps below this are used, for a later life */
    mare__set voted;      /* who has ever had my vote, also in an earlier life */
    mare__set asked;      /* who may still be inside by a vote of an earlier life */
    mare__set granted;    /* whose votes I have */
    mare__set abstained;  /* who has said that it has none to give */
    uint64_t *vote;       /* by member: its last vote for me … */
    uint64_t *yielded;    /* … and the last that I returned or refused */
} majority;

/* The handlers of majority_kept.c. */
uint32_t mare__majority_kept(const mare_coord_setup *setup);
void mare__majority_keep(const mare_coord *m, uint64_t *out);
mare_coord_status mare__majority_recall(mare_coord *m, const uint64_t *in);
