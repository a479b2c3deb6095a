/* SPDX-License-Identifier: MIT */
#pragma once

/* Algorithms in which one rule at a time can be broken: what tests/sim/mutate.py makes of
 * tests/sim/mutants, for test_mutants.c. */

#include <mare/coord.h>

typedef struct mare_mutant_row {
    const mare_coord_algorithm *algorithm;
    int number;
    const char *rule;     /* in the words of the source */
    const char *promise;  /* what is reported when it is broken; "" when nothing is */
    const char *profile;  /* … by a seed of this profile … */
    uint64_t seed;        /* … not far from this one … */
    const char *settings; /* … with these settings: "repair=0 window=2" */
} mare_mutant_row;

/* Which rule is broken; 0: none. */
extern int mare_mutant;
