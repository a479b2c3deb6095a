/* SPDX-License-Identifier: MIT */
#pragma once

/* Virtual synchrony is two files that call each other: before they are included in a broken
 * variant, what they share is given names of that variant's own, BROKEN_VIEWS and an ending. */

#define VIEWS_PASTE(name, ending) name##_##ending
#define VIEWS_NAME(name, ending) VIEWS_PASTE(name, ending)
#define mare_coord_views BROKEN_VIEWS
#define mare__views_change VIEWS_NAME(BROKEN_VIEWS, change)
#define mare__views_consider VIEWS_NAME(BROKEN_VIEWS, consider)
#define mare__views_deliver_upto VIEWS_NAME(BROKEN_VIEWS, deliver_upto)
#define mare__views_enter VIEWS_NAME(BROKEN_VIEWS, enter)
#define mare__views_lead VIEWS_NAME(BROKEN_VIEWS, lead)
#define mare__views_leader_of VIEWS_NAME(BROKEN_VIEWS, leader_of)
#define mare__views_leave VIEWS_NAME(BROKEN_VIEWS, leave)
#define mare__views_retry VIEWS_NAME(BROKEN_VIEWS, retry)
#define mare__views_say VIEWS_NAME(BROKEN_VIEWS, say)
#define mare__views_say_cast VIEWS_NAME(BROKEN_VIEWS, say_cast)
#define mare__views_say_group VIEWS_NAME(BROKEN_VIEWS, say_group)
#include "coord/order/views.c"
#include "coord/order/views_change.c"
