/* SPDX-License-Identifier: MIT */
#pragma once

/* What the voting algorithm can say about itself before it runs. */

#include <mare/coord.h>

/* Places of these parameters in the set-up. */
enum { MARE__VOTING_REPLICAS = 2, MARE__VOTING_VOTES, MARE__VOTING_NAME };

/* How many replicas the resource has and how many votes an entry takes, as the set-up has them. */
uint32_t mare__voting_replicas(const mare_coord_setup *setup);
uint32_t mare__voting_votes(const mare_coord_setup *setup);

/* Which founder coordinates replica `index`: the first on the ring of nodes at or after the hash of
 * "name-index". */
uint32_t mare__voting_home(const mare_coord_setup *setup, uint32_t index);

/* The probability that mutual exclusion is violated during one stay: that of the m coordinators
 * that have voted at least 2m − n restart, each with probability p, and forget it. m > n/2. */
double mare__voting_risk(uint32_t n, uint32_t m, double p);
