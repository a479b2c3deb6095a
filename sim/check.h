/* SPDX-License-Identifier: MIT */
#pragma once

/* Checkers: each watches the observations of a run and says when a promise was broken.
 *
 * To add one: a file check_NAME.c with a mare_sim_checker, a declaration and a row in check.c. It
 * runs whenever the algorithm promises one of its bits (see mare_coord_algorithm.promises). It must
 * cost little: it sees every step of every seed. And a test must show it a broken algorithm. */

#include "sim/sim.h"

typedef struct mare_sim_checker {
    const char *name;
    unsigned promises;                               /* runs for any of these; 0: always */
    size_t (*size)(const mare_sim_options *options); /* of its state, which starts as zeros */
    void (*begin)(void *state, mare_sim *sim);       /* or NULL */
    void (*see)(void *state, mare_sim *sim, const mare_sim_observation *seen);
    void (*end)(void *state, mare_sim *sim); /* or NULL; nothing more will happen */
} mare_sim_checker;

/* All of them; ends with NULL. */
extern const mare_sim_checker *const mare_sim_checkers[];

/* The names of everything that can be reported by mare_sim_violate(), which takes no other; ends
 * with NULL. Each has a broken algorithm in tests/sim/test_broken.c, or that test fails. */
extern const char *const mare_sim_promises[];
int mare_sim_is_promise(const char *name);

extern const mare_sim_checker mare_sim_check_mutex;  /* EM1, EM3, fencing: check_mutex.c */
extern const mare_sim_checker mare_sim_check_leader; /* one leader an epoch: check_leader.c */
extern const mare_sim_checker mare_sim_check_clock;  /* logical clocks against what happened */
extern const mare_sim_checker mare_sim_check_time;   /* clocks that agree: check_time.c */
extern const mare_sim_checker mare_sim_check_order;  /* deliveries and views: check_order.c */
