/* SPDX-License-Identifier: MIT */
#pragma once

/* Algorithms that break their promises, for the checkers to catch. */

#include <mare/coord.h>

extern const mare_coord_algorithm mare_broken_ricart_tie;
extern const mare_coord_algorithm mare_broken_ricart_clock;
extern const mare_coord_algorithm mare_broken_central;
extern const mare_coord_algorithm mare_broken_token_blind;
extern const mare_coord_algorithm mare_broken_token_lost;
extern const mare_coord_algorithm mare_broken_voting;
extern const mare_coord_algorithm mare_broken_majority;
