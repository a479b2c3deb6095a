/* SPDX-License-Identifier: MIT */
#pragma once

/* One vote that is given to one member at a time: what a coordinator of the voting algorithms keeps
 * for each replica of a resource. It knows who asks for the vote (the latest ticket of each member,
 * with its Lamport stamp), who has it, and which tickets are over.
 *
 *     ask ──▶ waiting ── next: the oldest stamp ──▶ holder ── release ──▶ over
 *                ▲                                    │
 *                └──────────────── yield ─────────────┘
 *
 * Each giving has a number of its own, so that a vote that was returned cannot be counted when a
 * late copy of it arrives. Nothing but the holder's own word takes a vote away. */

#include "coord/machine.h"

typedef struct mare__ballot {
    uint64_t vote;    /* number of the last giving */
    uint32_t holder;  /* or NOBODY */
    uint64_t *ticket; /* by member: what it asks for or holds; 0: nothing */
    uint64_t *stamp;  /* by member: of that ticket */
    uint64_t *over;   /* by member: tickets up to here are of no interest */
} mare__ballot;

/* The part of the machine's memory; see mare__carve(). */
void mare__ballot_lay_out(mare__ballot *b, mare__block *block, uint32_t capacity);

/* Notes a request. 0: an old copy; 1: new; 2: known already. */
int mare__ballot_ask(mare__ballot *b, uint32_t from, uint64_t ticket, uint64_t stamp);

/* Gives the vote, if it is free, to the oldest request. The receiver, or NOBODY. */
uint32_t mare__ballot_next(mare__ballot *b, uint32_t capacity);

/* Whether somebody waits with an older stamp than the holder's. */
int mare__ballot_contested(const mare__ballot *b, uint32_t capacity);

/* The holder returns the vote and keeps asking. */
void mare__ballot_yield(mare__ballot *b, uint32_t from, uint64_t ticket, uint64_t vote);

/* The member's tickets up to this one are over. */
void mare__ballot_release(mare__ballot *b, uint32_t from, uint64_t ticket);

/* The member is not to wait for the vote: it was told no. */
void mare__ballot_turn_away(mare__ballot *b, uint32_t from);
