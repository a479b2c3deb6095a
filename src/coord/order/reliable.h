/* SPDX-License-Identifier: MIT */
#pragma once

/* What FIFO and causal multicast have in common: each multicast is a CAST with its number, to all.
 * With `repair` = 1 each is acknowledged to its sender, who sends it again until then. With
 * `repair` = 0 nothing is lost, and an ACK for each half window that was delivered says where there
 * is room: a sender with `window` multicasts for which somebody may have no place waits.
 *
 *     cast ──▶ CAST 7, to all ──▶ put in its place ──▶ ACK: I have all up to 7
 *                 ▲  not confirmed by somebody: once more, after `retry_us`
 *
 * An algorithm's state begins with a mare__reliable; when to deliver is its own affair. Source and
 * assumptions are those of the algorithms; the sliding window with cumulative acknowledgements is
 * that of any transport. */

#include "coord/order/casts.h"

enum { REPAIR, WINDOW, BYTES, RETRY_US }; /* parameters */
enum { RETRY };                           /* timers */
enum { CAST, ACK };                       /* messages */
enum { SEQ, UPTO = 0 };                   /* fields */

typedef struct mare__reliable {
    uint64_t delivered;
    mare__casts casts;
} mare__reliable;

/* The part of the machine's memory, for casts of at most so many bytes; see mare__carve(). */
void mare__reliable_lay_out(mare__reliable *r, mare__block *block, const mare_coord_setup *setup,
                            uint32_t bytes);

/* Multicasts. REFUSED when it is too long, or `window` are not yet with everybody. */
mare_coord_status mare__reliable_cast(mare_coord *m, const uint8_t *data, uint32_t length,
                                      mare_coord_effects *fx);

/* Starts the timer, when something of mine may have to be sent again. */
void mare__reliable_arm(mare_coord *m, mare_coord_effects *fx);

/* Tells a sender how much of its is here (`repair` = 1). */
void mare__reliable_acknowledge(mare_coord *m, uint32_t to, mare_coord_effects *fx);

/* One more of `from` was delivered: tells it, when that makes room for half a window (`repair` =
 * 0).
 */
void mare__reliable_free(mare_coord *m, uint32_t from, mare_coord_effects *fx);

/* An ACK has come. */
mare_coord_status mare__reliable_confirm(mare_coord *m, uint32_t from,
                                         const mare_coord_message *msg);

/* Rows of the table that are the same for both. `bytes` of room is that of the longest cast. */
extern const mare_coord_param mare__reliable_params[];
extern const mare_coord_form mare__reliable_forms[];
void mare__reliable_start(mare_coord *m, mare_coord_effects *fx);
void mare__reliable_timer(mare_coord *m, uint32_t which, mare_coord_effects *fx);
unsigned mare__reliable_tolerates(const mare_coord_setup *setup);
uint64_t mare__reliable_messages(const mare_coord_setup *setup);
void mare__reliable_cost(const mare_coord_setup *setup, mare_coord_cost *cost);
