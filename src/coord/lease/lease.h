/* SPDX-License-Identifier: MIT */
#pragma once

/* The lease: under it a member may act for its group, and it says which others may not act any
 * more. lease.c has the protocol. It also says why DOWN then means that a member has given up
 * everything.
 *
 * The machine is stepped as any other is. Its news are LEASED, UNLEASED, DOWN and UP. What acts
 * under it (tenants.h) puts its epoch on every message, and asks here what to do with one that
 * arrives. */

#include <mare/coord.h>

extern const mare_coord_algorithm mare__lease;

/* The parameters, in their order, and the timer that says that the lease is over. */
enum { MARE__LEASE_US, MARE__LEASE_BEAT_US, MARE__LEASE_DRIFT_PPM };
enum { MARE__LEASE_BEAT, MARE__LEASE_END };

/* The epoch of the lease that this member holds, or 0. It holds it until `until_us` by its own
 * clock (may be NULL): a host that looks later than that, without having stepped it, holds nothing.
 */
uint64_t mare__lease_epoch(const mare_coord *lease, uint64_t *until_us);

/* Whether it is known to be down, as the last DOWN or UP said. */
int mare__lease_is_down(const mare_coord *lease, uint32_t peer);

/* Whether it has held no lease at a moment since this life began: a DOWN of it that came before
 * may be of an epoch that is older than what an earlier life of this member dealt with. */
int mare__lease_was_silent(const mare_coord *lease, uint32_t peer);

/* Whether the others may have counted this member as down before its first lease. */
int mare__lease_is_late(const mare_coord *lease);

/* A message arrived that `peer` sent under its lease `epoch`. Nonzero when it counts; 0 when it is
 * of a lease that is over. There may be effects: what the epoch says of the peer. */
int mare__lease_hear(mare_coord *lease, uint32_t peer, uint64_t epoch, mare_coord_effects *fx);
