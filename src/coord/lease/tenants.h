/* SPDX-License-Identifier: MIT */
#pragma once

/* Machines under a lease: for a host that runs any number of them for one member of a group. For
 * its machines, a member without a lease is one that has crashed and keeps its memory:
 *
 *     suspended ── LEASED: START, then who is down ──▶ acts ── UNLEASED: REVOKED ──▶ suspended
 *
 * While suspended a machine is told nothing, and its application has been told that what it held is
 * lost. So whatever an algorithm keeps across a crash with memory, it keeps across the loss of a
 * lease; and the others say DOWN of it only when it is suspended (lease.c). What a machine sends
 * carries the epoch of the lease that it acts under: the host puts it on, and hands it over with
 * what arrives.
 *
 * The simulator's compositions (leased.c) and the live groups run this same code. Nothing here
 * allocates; a struct and what it points to belong to the caller, and to one thread at a time. */

#include "coord/lease/lease.h"

typedef struct mare__tenant {
    mare_coord *machine;
    struct mare__tenant *next; /* of the list; for the functions below */
    uint32_t acts;
} mare__tenant;

typedef struct mare__tenants {
    mare_coord *lease;
    mare__tenant *first;
    mare_coord_effects *lease_effects; /* with the room of the lease's steps */
    mare_coord_effects *effects;       /* with the room of any tenant's, and for another lease's */
    /* Carries out one effect: of a tenant, or (NULL) of the lease. It must not step anything. */
    void (*carry)(void *context, mare__tenant *tenant, const mare_coord_effect *effect);
    void *context;
} mare__tenants;

/* Steps the lease: with START, its messages and timers, JOIN and LEAVE. The tenants are told what
 * follows for them. */
mare_coord_status mare__tenants_step_lease(mare__tenants *t, const mare_coord_event *event);

/* Steps one tenant; for a MESSAGE, `epoch` is what came with it. REFUSED when this member holds no
 * lease at event->now_us, or the message was sent under one that is over. */
mare_coord_status mare__tenants_step(mare__tenants *t, mare__tenant *tenant,
                                     const mare_coord_event *event, uint64_t epoch);

/* Finds out what the time has done to the lease. The epoch of it, or 0: nothing may be done. */
uint64_t mare__tenants_epoch(mare__tenants *t, uint64_t now_us);

/* Takes in a machine that has not been started; it is started here if there is a lease. */
void mare__tenants_add(mare__tenants *t, mare__tenant *tenant, uint64_t now_us);

/* Lets one go. It is told nothing any more, and tells nothing. */
void mare__tenants_remove(mare__tenants *t, mare__tenant *tenant);
