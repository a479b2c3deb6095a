/* SPDX-License-Identifier: MIT */
#pragma once

/* Physical clocks in virtual time: oscillators that drift and wander, links that are slow one way,
 * jitter, losses, copies and forgeries; NTP over three strata with liars among the servers, and
 * reference broadcasts. Every reading is held against the truth, which only the simulation knows.
 *
 *     mare_sim_clocks_options options;
 *     mare_sim_clocks_vary(&options, seed);
 *     mare_sim_clocks_outcome outcome;
 *     mare_sim_clocks_run(&options, &outcome);      // outcome.violation says what was broken
 *
 * What is checked:
 *   BOUND      the truth is within time ± error, at every reading
 *   BACKWARDS  no reading of a clock is less than one before it
 *   FILTER     no sample that a client holds has a smaller bound than its estimate
 *   SYNC       whoever has a majority of good servers gets to a time at all
 *   STUCK      whoever has servers that agree follows them, also when their strata have risen
 *
 * Berkeley's algorithm runs in the ordinary simulator (sim.h), with sim/check_time.c. */

#include "sim/random.h"

#include <mare/coord_ntp.h>

typedef enum mare_sim_method {
    MARE_SIM_NTP,      /* readings of disciplined clocks that follow servers */
    MARE_SIM_RBS_MEAN, /* the clock of another receiver, by the mean over pairs */
    MARE_SIM_RBS_LINE, /* … by the line */
    MARE_SIM_METHODS
} mare_sim_method;

typedef struct mare_sim_clocks_options {
    uint64_t seed;
    uint64_t duration_ns;
    uint64_t drift_ppb;  /* ρ of all oscillators, which the nodes know */
    uint64_t wander_ppb; /* receivers of broadcasts: how far a rate strays from its mean */
    uint64_t poll_ns;    /* between questions */
    uint64_t slew_ppb;
    uint64_t delay_ns, jitter_ns; /* of a link, at most; each way has its own */
    uint32_t loss_ppm, duplicate_ppm, spike_ppm;
    uint32_t references, liars; /* servers of stratum 1, and how many of them lie */
    uint32_t relays, leaves;    /* nodes of stratum 2 and of stratum 3 */
    int restless;               /* nonzero: the strata of references change, and some die */
    int keys;                   /* nonzero: everything is authenticated */
    /* What is under test; a test puts broken ones in their place. */
    int (*best)(const mare_ntp_client *client, int64_t local_ns, mare_ntp_estimate *estimate);
    void (*set)(mare_time_clock *clock, int64_t local_ns, int64_t time_ns, uint64_t error_ns);
    int (*follows)(uint32_t own, uint32_t now, uint32_t theirs); /* `now`: by the followed one */
    int (*mean)(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset);
    int (*line)(const mare_rbs *rbs, int64_t local_ns, mare_rbs_offset *offset);
    /* The part of its bound that a reading may use: less than 100 measures how much of the bound is
     * needed. */
    uint32_t bound_percent;
    /* Called for every reading, if not NULL. */
    void (*reading)(void *context, mare_sim_method method, uint64_t error_ns, uint64_t bound_ns);
    void *context;
} mare_sim_clocks_options;

typedef struct mare_sim_clocks_score {
    uint64_t readings;
    uint64_t error_ns, bound_ns; /* sums */
    uint64_t error_most_ns;
    uint64_t closest_ppm; /* the largest of error / bound */
} mare_sim_clocks_score;

typedef struct mare_sim_clocks_outcome {
    char violation[16];
    char detail[200];
    mare_sim_clocks_score score[MARE_SIM_METHODS];
    uint64_t packets, lost, verdicts[MARE_NTP_VERDICTS];
    uint64_t outliers; /* choices that left somebody out */
} mare_sim_clocks_outcome;

/* Draws everything from a seed. */
void mare_sim_clocks_vary(mare_sim_clocks_options *options, uint64_t seed);

/* Runs NTP, then reference broadcasts. Returns nonzero when nothing was violated. */
int mare_sim_clocks_run(const mare_sim_clocks_options *options, mare_sim_clocks_outcome *outcome);

const char *mare_sim_method_name(mare_sim_method method);

/* Shared by clocks.c (NTP) and clocks_rbs.c. */

/* An oscillator: straight pieces, each with a rate within what its maker promises. */
typedef struct mare_sim_oscillator {
    uint64_t true_ns; /* where the piece begins */
    int64_t local_ns;
    int64_t rate_ppb;
} mare_sim_oscillator;

int64_t mare_sim_oscillator_read(const mare_sim_oscillator *o, uint64_t true_ns);
void mare_sim_oscillator_turn(mare_sim_oscillator *o, uint64_t true_ns, int64_t rate_ppb);
int64_t mare_sim_either_way(mare_sim_random *random, uint64_t most);

/* Counts a reading. Reports BOUND if it is further from the truth than it says. */
void mare_sim_clocks_judge(const mare_sim_clocks_options *options, mare_sim_clocks_outcome *outcome,
                           mare_sim_method method, uint32_t who, int64_t wrong_ns,
                           uint64_t bound_ns);
__attribute__((format(printf, 3, 4))) void mare_sim_clocks_violate(mare_sim_clocks_outcome *outcome,
                                                                   const char *what,
                                                                   const char *format, ...);
void mare__sim_clocks_rbs(const mare_sim_clocks_options *options, mare_sim_clocks_outcome *outcome);
