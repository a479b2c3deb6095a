/* SPDX-License-Identifier: MIT */
#pragma once

/* Algorithms that break their promises, for the checkers to catch. */

#include <mare/coord.h>

extern const mare_coord_algorithm mare_broken_bully_count;
extern const mare_coord_algorithm mare_broken_bully_epoch;
extern const mare_coord_algorithm mare_broken_bully_silent;
extern const mare_coord_algorithm mare_broken_causal;
extern const mare_coord_algorithm mare_broken_causal_clock;
extern const mare_coord_algorithm mare_broken_central;
extern const mare_coord_algorithm mare_broken_fifo;
extern const mare_coord_algorithm mare_broken_fifo_short;
extern const mare_coord_algorithm mare_broken_fifo_twice;
extern const mare_coord_algorithm mare_broken_majority;
extern const mare_coord_algorithm mare_broken_ricart_clock;
extern const mare_coord_algorithm mare_broken_ricart_fall;
extern const mare_coord_algorithm mare_broken_ricart_fence;
extern const mare_coord_algorithm mare_broken_ricart_order;
extern const mare_coord_algorithm mare_broken_ricart_restart;
extern const mare_coord_algorithm mare_broken_ricart_room;
extern const mare_coord_algorithm mare_broken_ricart_stamp;
extern const mare_coord_algorithm mare_broken_ricart_tie;
extern const mare_coord_algorithm mare_broken_ring;
extern const mare_coord_algorithm mare_broken_superpeer_dht;
extern const mare_coord_algorithm mare_broken_superpeer_tokens;
extern const mare_coord_algorithm mare_broken_token_blind;
extern const mare_coord_algorithm mare_broken_token_lost;
extern const mare_coord_algorithm mare_broken_total;
extern const mare_coord_algorithm mare_broken_views;
extern const mare_coord_algorithm mare_broken_views_list;
extern const mare_coord_algorithm mare_broken_views_number;
extern const mare_coord_algorithm mare_broken_views_self;
extern const mare_coord_algorithm mare_broken_views_shy;
extern const mare_coord_algorithm mare_broken_voting;
extern const mare_coord_algorithm mare_broken_wireless;
extern const mare_coord_algorithm mare_broken_berkeley_bound;
extern const mare_coord_algorithm mare_broken_berkeley_step;
