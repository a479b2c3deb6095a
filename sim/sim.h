/* SPDX-License-Identifier: MIT */
#pragma once

/* The simulator: a group of machines (see mare/coord.h), a network and its faults, in virtual time,
 * in one thread, decided by one seed.
 *
 *     mare_sim_options options;
 *     mare_sim_options_init(&options, mare_coord_find("ricart"), 5);
 *     options.seed = 42;
 *     mare_sim_vary(&options);                       // faults and network drawn from the seed
 *     mare_sim_outcome outcome;
 *     mare_sim_run(&options, NULL, &outcome);        // outcome.violation says what was broken
 *     mare_sim_options_fini(&options);
 *
 * A run has two phases. In the first, until `duration_us`, faults strike and the checkers watch
 * that nothing forbidden happens. Then, even if nothing else is due any more, everything that can
 * be mended is mended, and the workload must make progress within `settle_us`. Without that phase
 * EM2 is violated if nothing is due any more and somebody still waits; if something is, the run
 * says nothing about EM2.
 *
 * What can be added without touching the engine, each in its own file:
 *   a checker   sim/check.h      a row in check.c      watches observations, reports violations
 *   a workload  sim/workload.h   a row in workload.c   makes the local requests of a family
 *   an output   sim/observe.h    mare_sim_observer     trace, drawing, ShiViz, counts …
 *
 * Nothing here is safe for two threads on one simulation; different ones are independent. */

#include "sim/fault.h"
#include "sim/observe.h"

typedef struct mare_sim mare_sim;
typedef struct mare_sim_workload mare_sim_workload; /* sim/workload.h */

typedef enum mare_sim_delay {
    MARE_SIM_FIXED,       /* always delay_us */
    MARE_SIM_UNIFORM,     /* between 0 and 2 × delay_us */
    MARE_SIM_EXPONENTIAL, /* mean delay_us */
    MARE_SIM_SPIKY,       /* uniform, and one in 32 takes twenty times as long */
} mare_sim_delay;

typedef struct mare_sim_network {
    mare_sim_delay delay;
    uint64_t delay_us;
    uint32_t loss_ppm, duplicate_ppm;
    int fifo; /* what one process sends to another arrives in order */
    int bus;  /* one message at a time on the whole network, as the book counts delays */
} mare_sim_network;

/* The failure detector: which deaths members are told of. */
typedef enum mare_sim_detector {
    MARE_SIM_NO_DETECTOR,
    MARE_SIM_ACCURATE, /* late, but never wrong */
    MARE_SIM_EAGER,    /* takes a partition for a death */
    MARE_SIM_HASTY,    /* … and a process that stands still */
} mare_sim_detector;

/* The kinds of faults that a seed draws: sim/profile.c says what each is for. */
typedef enum mare_sim_profile {
    MARE_SIM_USUAL,     /* spread over the run */
    MARE_SIM_CLUSTERED, /* crashes close together */
    MARE_SIM_JOINERS,   /* processes that join fail */
    MARE_SIM_SUSPECTED, /* paused processes are taken for dead */
    MARE_SIM_BRIEF,     /* stays are long, crashes short */
    MARE_SIM_QUIET,     /* some want nothing any more from some time on */
    MARE_SIM_PROFILES
} mare_sim_profile;

const char *mare_sim_profile_name(mare_sim_profile profile);
/* The profile of this name, or MARE_SIM_PROFILES when there is none. */
mare_sim_profile mare_sim_profile_find(const char *name);

/* What a scenario decides by hand. Any of them may be NULL. All must be functions of their
 * arguments and of virtual time, or the run cannot be repeated. */
typedef struct mare_sim_hooks {
    void *context;
    /* Parameters that differ from member to member: changes `setup` for setup->self. */
    void (*adjust)(void *context, mare_coord_setup *setup);
    /* Which pairs are neighbours (wireless, rings): the members that `a` knows are those present
     * and linked to it. When the answer changes, a workload says so by mare_sim_relink(). */
    int (*linked)(void *context, uint32_t a, uint32_t b);
    /* The fate of one message: returns 0 to lose it; may set its delay. Asked once a message. */
    int (*route)(void *context, uint64_t time_us, uint32_t from, uint32_t to, const uint8_t *data,
                 uint32_t length, uint64_t *delay_us);
} mare_sim_hooks;

#define MARE_SIM_DERIVED UINT64_MAX /* as mare_sim_bound() says */

typedef struct mare_sim_options {
    mare_coord_setup setup; /* algorithm, founders, capacity, parameters; self and seed are set */
    mare_sim_hooks hooks;
    uint64_t seed;
    mare_sim_network network;
    mare_sim_detector detector;
    uint64_t detect_us;
    mare_sim_profile profile; /* of what mare_sim_vary() draws */
    int quiet;                /* some fall silent: mare_sim_is_quiet() */
    mare_sim_fault_list faults;
    uint32_t drift_ppm;   /* clocks run wrong by up to this much, either way */
    uint64_t offset_us;   /* … and start apart by up to this much */
    uint64_t duration_us; /* of the phase with faults */
    uint64_t settle_us;   /* bound for progress after it; 0: no such phase; or MARE_SIM_DERIVED */
    const mare_sim_workload *workload; /* NULL: the family's own, by mare_sim_workload_find() */
    void *workload_context;            /* for a workload that brings its own script */
    uint32_t entrants; /* mutex: processes 0 … entrants − 1 make requests; 0: all */
    uint32_t rounds;   /* requests of each; 0: no limit */
    uint64_t think_us, hold_us;
    uint32_t abandon_ppm; /* requests with a short deadline */
    int no_vectors;       /* no happened-before: saves n² memory; checkers that need it rest */
    uint64_t steps_most; /* more are a runaway, which breaks BUDGET; 0: as mare_sim_budget() says */
    uint64_t bytes_most; /* … and so is more memory for messages and what is due */
} mare_sim_options;

/* The algorithm of this name, also one under a lease ("ricart+lease"); NULL when there is none. */
const mare_coord_algorithm *mare_sim_find(const char *name);

void mare_sim_options_init(mare_sim_options *options, const mare_coord_algorithm *algorithm,
                           uint32_t processes);
void mare_sim_options_fini(mare_sim_options *options);

/* Makes room for processes that join. A group has as many slots as founders, unless faults let
 * others join. */
void mare_sim_make_room_to_join(mare_sim_options *options);

/* How many processes a run of this seed has, when nobody says: mostly a few, seldom up to 40. */
uint32_t mare_sim_draw_members(uint64_t seed);

/* Draws network, faults and pace from options->seed, within what the algorithm tolerates, and as
 * options->profile says. */
void mare_sim_vary(mare_sim_options *options);

/* The part of it that the profile adds, `spared` being the process that must not die, or NOBODY. */
void mare_sim_profile_draw(mare_sim_options *options, unsigned tolerated, uint32_t spared);

/* Whether this process makes no more requests. The seed draws for which processes that is so, and
 * from when on. At least one founder goes on. */
int mare_sim_is_quiet(const mare_sim_options *options, uint32_t process, uint64_t now_us);

typedef struct mare_sim_outcome {
    char violation[16]; /* "EM1" … or empty */
    char detail[200];
    uint64_t time_us; /* virtual, at the end */
    uint64_t steps, sent, delivered, lost, duplicated;
    uint64_t requests, grants, revoked, deliveries, elections;
    uint64_t wait_us, wait_most_us; /* from request to grant: sum, longest */
    uint64_t waiting;               /* still, at the end of a run without second phase */
    uint64_t by_kind[256];          /* messages sent, by kind */
} mare_sim_outcome;

/* How long progress may take when nothing fails any more: sim/bound.c has the rule. */
uint64_t mare_sim_bound(const mare_sim_options *options);

/* How many steps a run may take: far more than any that works takes. sim/bound.c has the rule. */
uint64_t mare_sim_budget(const mare_sim_options *options);

/* Sets a parameter by name. Returns 0, or nonzero after writing into `why` what there is instead:
 * the algorithm's parameters, or the limits of this one. */
int mare_sim_set_param(mare_coord_setup *setup, const char *name, int64_t value, char *why,
                       size_t room);

/* Whether options make no sense: a machine that cannot be made, a fault that cannot happen. Returns
 * 0, or nonzero after writing the reason into `why`. */
int mare_sim_options_refuse(const mare_sim_options *options, char *why, size_t room);

/* Runs one simulation. `observers` ends with a NULL, or is NULL. Returns nonzero when nothing was
 * violated. Options that make no sense are not run, and reported as a violation of "SET-UP". */
int mare_sim_run(const mare_sim_options *options, mare_sim_observer *const *observers,
                 mare_sim_outcome *outcome);

/* Takes faults away from options->faults as long as the same thing is violated, then tries a
 * quieter network. `budget` bounds the number of runs. Returns how many runs it took. */
unsigned mare_sim_shrink(mare_sim_options *options, const char *violation, unsigned budget);

/* For observers, checkers and workloads, while a simulation runs ------------------------------ */

const mare_sim_options *mare_sim_options_of(const mare_sim *sim);
uint64_t mare_sim_now(const mare_sim *sim);
/* What the local oscillator of a process shows now; see drift_ppm and offset_us. */
uint64_t mare_sim_local(const mare_sim *sim, uint32_t process);
const mare_coord *mare_sim_machine(const mare_sim *sim, uint32_t process);

/* Up and a member: takes part. A paused process is up. */
int mare_sim_is_up(const mare_sim *sim, uint32_t process);

/* Nonzero in the second phase. */
int mare_sim_settling(const mare_sim *sim);

/* Reports that a promise (one of the names in sim/check.h) was broken; the first report ends the
 * run. */
__attribute__((format(printf, 3, 4))) void mare_sim_violate(mare_sim *sim, const char *promise,
                                                            const char *format, ...);

/* For workloads: calls the workload's `wake` for the process after a while. Never from a process
 * that is down: then it is not called. */
void mare_sim_wake(mare_sim *sim, uint32_t process, uint64_t after_us, uint32_t number);

/* For workloads, from `wake` only: a local request at this moment. */
mare_coord_status mare_sim_request(mare_sim *sim, uint32_t process, mare_coord_event_kind kind,
                                   uint64_t number, const uint8_t *data, uint32_t length);

/* For workloads, from `wake` only: hooks.linked answers differently now; tells the members. */
void mare_sim_relink(mare_sim *sim);

mare_sim_random *mare_sim_workload_random(mare_sim *sim);
