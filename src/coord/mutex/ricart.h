/* SPDX-License-Identifier: MIT */
#pragma once

/* For a host that runs many locks by `ricart` under one lease, and forgets those that nobody wants:
 * as mutex/majority.h has it. */

#include <mare/coord.h>

/* What machines leave behind that were forgotten: the latest of any, which is right for any other
 * lock of the member, because too late is safe. */
typedef struct mare__ricart_past {
    uint64_t clock, ticket, life;
} mare__ricart_past;

/* Nonzero when nobody waits here or is inside, and nobody waits for an answer: then the machine may
 * be thrown away, and `past` has what must not be forgotten. */
int mare__ricart_forget(const mare_coord *m, mare__ricart_past *past);

/* For a machine that was just made, and has loaded what it should. `reserved` is the bound that all
 * locks of the member have on the disk: with it this one needs no write of its own. */
void mare__ricart_follow(mare_coord *m, const mare__ricart_past *past, uint64_t reserved);
