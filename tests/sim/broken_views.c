/* SPDX-License-Identifier: MIT */

/* Virtual synchrony that does not pass on what some have and others lack when a view ends:
 * everybody is content with what it has. */

#include "tests/sim/broken.h"

#include "coord/order/casts.h"

static inline int has_enough(const mare__casts *casts, const uint64_t *cut, uint32_t capacity)
{
    (void)casts;
    (void)cut;
    (void)capacity;
    return 1;
}

#define mare_coord_views mare_broken_views
#define mare__views_change mare_broken_views_change
#define mare__views_consider mare_broken_views_consider
#define mare__views_deliver_upto mare_broken_views_deliver_upto
#define mare__views_enter mare_broken_views_enter
#define mare__views_lead mare_broken_views_lead
#define mare__views_leader_of mare_broken_views_leader_of
#define mare__views_leave mare_broken_views_leave
#define mare__views_retry mare_broken_views_retry
#define mare__views_say mare_broken_views_say
#define mare__views_say_cast mare_broken_views_say_cast
#define mare__views_say_group mare_broken_views_say_group
#define mare__casts_reach has_enough
#include "coord/order/views.c"
#include "coord/order/views_change.c"
