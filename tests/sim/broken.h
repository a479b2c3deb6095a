/* SPDX-License-Identifier: MIT */
#pragma once

/* Algorithms that break their promises, for the checkers to catch. */

#include <mare/coord.h>

extern const mare_coord_algorithm mare_broken_ricart_tie;
extern const mare_coord_algorithm mare_broken_ricart_clock;
extern const mare_coord_algorithm mare_broken_central;
extern const mare_coord_algorithm mare_broken_fifo;
extern const mare_coord_algorithm mare_broken_causal;
extern const mare_coord_algorithm mare_broken_total;
extern const mare_coord_algorithm mare_broken_views;
