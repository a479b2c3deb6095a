/* SPDX-License-Identifier: MIT */
#pragma once

/* For a host that runs many locks by `majority` under one lease: what must outlive a crash is small
 * enough to be one thing for all of them. */

#include <stdint.h>

/* What is kept with a lease: numbers, the last ones a set of members. */
enum { MARE__MAJORITY_BOUND, MARE__MAJORITY_ABSTAINS, MARE__MAJORITY_VOTED };

/* `saved` is the data of a SAVE of one lock, `into` that of all so far (at first, as many zeros).
 * Takes it in. 0: all of it was there, and the disk need not hear of it. Each lock of the next life
 * loads what is in `into`, with the head of a SAVE. */
int mare__majority_merge(uint8_t *into, const uint8_t *saved, uint32_t length);
