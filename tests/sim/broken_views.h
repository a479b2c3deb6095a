/* SPDX-License-Identifier: MIT */
#pragma once

/* Virtual synchrony is three files that call each other: before they are included in a broken
 * variant, what they share is given names of that variant's own, BROKEN_VIEWS and an ending. */

#define VIEWS_PASTE(name, ending) name##_##ending
#define VIEWS_NAME(name, ending) VIEWS_PASTE(name, ending)
#define mare_coord_views BROKEN_VIEWS
#define mare__views_change VIEWS_NAME(BROKEN_VIEWS, change)
#define mare__views_consider VIEWS_NAME(BROKEN_VIEWS, consider)
#define mare__views_deliver_rest VIEWS_NAME(BROKEN_VIEWS, deliver_rest)
#define mare__views_end VIEWS_NAME(BROKEN_VIEWS, end)
#define mare__views_enter VIEWS_NAME(BROKEN_VIEWS, enter)
#define mare__views_lead VIEWS_NAME(BROKEN_VIEWS, lead)
#define mare__views_leader_of VIEWS_NAME(BROKEN_VIEWS, leader_of)
#define mare__views_leave VIEWS_NAME(BROKEN_VIEWS, leave)
#define mare__views_retry VIEWS_NAME(BROKEN_VIEWS, retry)
#define mare__views_say VIEWS_NAME(BROKEN_VIEWS, say)
#define mare__views_say_cast VIEWS_NAME(BROKEN_VIEWS, say_cast)
#define mare__views_say_here VIEWS_NAME(BROKEN_VIEWS, say_here)
#define mare__views_say_group VIEWS_NAME(BROKEN_VIEWS, say_group)
#define mare__views_ask VIEWS_NAME(BROKEN_VIEWS, ask)
#define mare__views_cast_own VIEWS_NAME(BROKEN_VIEWS, cast_own)
#define mare__views_is_wrapped VIEWS_NAME(BROKEN_VIEWS, is_wrapped)
#define mare__views_on_ask VIEWS_NAME(BROKEN_VIEWS, on_ask)
#define mare__views_on_cast VIEWS_NAME(BROKEN_VIEWS, on_cast)
#define mare__views_on_seen VIEWS_NAME(BROKEN_VIEWS, on_seen)
#define mare__views_order_clear VIEWS_NAME(BROKEN_VIEWS, order_clear)
#define mare__views_order_lay_out VIEWS_NAME(BROKEN_VIEWS, order_lay_out)
#define mare__views_place_bytes VIEWS_NAME(BROKEN_VIEWS, place_bytes)
#define mare__views_places VIEWS_NAME(BROKEN_VIEWS, places)
#define mare__views_stamp_of VIEWS_NAME(BROKEN_VIEWS, stamp_of)
#define mare__views_tell_time VIEWS_NAME(BROKEN_VIEWS, tell_time)
#define mare__views_waits VIEWS_NAME(BROKEN_VIEWS, waits)
#define mare__views_wrap VIEWS_NAME(BROKEN_VIEWS, wrap)
#include "coord/order/views.c"
#include "coord/order/views_change.c"
#include "coord/order/views_order.c"
