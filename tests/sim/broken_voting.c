/* SPDX-License-Identifier: MIT */

/* Voting with coordinators that do not take a vote back when it is returned. */

#include "tests/sim/broken.h"

#include "coord/mutex/ballot.h"

static inline void keep_it(mare__ballot *b, uint32_t from, uint64_t ticket)
{
    (void)b, (void)from, (void)ticket;
}

#define mare_coord_voting mare_broken_voting
#define mare__ballot_release keep_it
#include "coord/mutex/voting.c"
