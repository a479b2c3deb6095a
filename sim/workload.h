/* SPDX-License-Identifier: MIT */
#pragma once

/* Workloads: what the local applications want. One for each family, and others by name (a scenario
 * file is a workload too).
 *
 * To add one: a file workload_NAME.c with a mare_sim_workload, a declaration and a row in
 * workload.c. It lives from wake to wake: `see` looks on and may plan wakes by mare_sim_wake();
 * only `wake` may call mare_sim_request(). */

#include "sim/sim.h"

struct mare_sim_workload {
    const char *name;
    mare_coord_family family; /* the family whose usual workload it is, or MARE_COORD_FAMILIES */
    size_t (*size)(const mare_sim_options *options); /* of its state, which starts as zeros */
    void (*begin)(void *state, mare_sim *sim);       /* options->workload_context has its script */
    void (*see)(void *state, mare_sim *sim, const mare_sim_observation *seen);
    void (*wake)(void *state, mare_sim *sim, uint32_t process, uint32_t number);
    /* The second phase begins: plan what must still succeed. */
    void (*settle)(void *state, mare_sim *sim);
    /* Nonzero when all that must succeed has. Asked in the second phase after each wake: plan one
     * whenever there is reason to ask. */
    int (*settled)(void *state, mare_sim *sim);
    /* The bound has passed: report what is missing by mare_sim_violate(). */
    void (*overdue)(void *state, mare_sim *sim);
};

/* By name, or the family's own when the name is NULL; NULL when there is none. */
const mare_sim_workload *mare_sim_workload_find(const char *name, mare_coord_family family);

extern const mare_sim_workload mare_sim_workload_mutex;    /* workload_mutex.c */
extern const mare_sim_workload mare_sim_workload_election; /* workload_election.c */
extern const mare_sim_workload mare_sim_workload_order;    /* workload_order.c */

/* The value of a parameter, if the algorithm has it. */
int64_t mare_sim_param_of(const mare_coord_setup *setup, const char *name, int64_t otherwise);
