/* SPDX-License-Identifier: MIT */

/* Voting with coordinators that vote for the highest number instead of the oldest request: the
 * lowest is served only while nobody else asks. */

#include "tests/sim/broken.h"

#include "coord/mutex/ballot.h"

static inline int rank_it(mare__ballot *b, uint32_t from, uint64_t ticket, uint64_t stamp)
{
    (void)stamp;
    return mare__ballot_ask(b, from, ticket, UINT32_MAX - from);
}

#define mare_coord_voting mare_broken_voting_rank
#define mare__ballot_ask rank_it
#include "coord/mutex/voting.c"
