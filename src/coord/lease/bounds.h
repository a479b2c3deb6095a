/* SPDX-License-Identifier: MIT */
#pragma once

/* For a host that runs many locks of one algorithm under one lease: what each keeps is a bound (the
 * latest epoch or clock that it knows of), so the largest of them is right for all. A lock that
 * knows of too late an epoch opens a later one, or has a later clock, and that is all. */

#include <mare/coord.h>

/* What such locks have kept when none has kept anything: writes it, and returns its length, or 0
 * when that is more than `room`. */
uint32_t mare__bounds_begin(const mare_coord_setup *setup, uint8_t *out, uint32_t room);

/* Takes what one lock SAVEs into what all of them have kept. 0: all of it was there. */
int mare__bounds_merge(uint8_t *into, const uint8_t *saved, uint32_t length);

/* Whether it is something that was saved by such a lock of this member. */
int mare__bounds_fit(const uint8_t *begun, const uint8_t *saved, uint32_t length);
