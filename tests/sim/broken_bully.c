/* SPDX-License-Identifier: MIT */

/* The bully with epochs that are only counted and do not name their leader: two that win at the
 * same time, each unheard by the other, lead in one epoch. */

#include "tests/sim/broken.h"

#include "coord/machine.h"

#define mare__bully mare_broken_bully_epoch
#define NEXT_EPOCH(seen, capacity, self) ((seen) + 1)
#define NAMES_LEADER(epoch, capacity, leader) 1
#include "coord/election/bully.c"
