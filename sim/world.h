/* SPDX-License-Identifier: MIT */
#pragma once

/* The inside of a simulation, shared by world.c (events, steps, effects), network.c (what becomes
 * of a message) and life.c (crashes, membership, the failure detector). Nobody else includes
 * this. */

#include "sim/check.h"
#include "sim/heap.h"
#include "sim/sim.h"
#include "sim/workload.h"

#define MARE_SIM_CHECKERS_MAX 8

/* What can be due. */
enum {
    DUE_MESSAGE, /* index: slot of the message */
    DUE_TIMER,   /* index: the timer; serial: of its setting */
    DUE_WAKE,    /* of the workload; index: its number; serial: life of the process */
    DUE_LOOK,    /* the detector at `process` looks at peer `index` */
    DUE_NEWS,    /* membership, for one that was paused: index: peer; serial: life, event kind */
    DUE_FAULT,   /* index: begins */
    DUE_MEND,    /* index: ends */
    DUE_SETTLE,  /* the second phase begins */
};

typedef enum presence { AWAY, DOWN, UP, PAUSED } presence; /* AWAY: not a member */

typedef struct process {
    mare_coord *machine;
    presence presence;
    uint64_t incarnation;
    uint32_t life; /* counts ends; wakes of an earlier one are void */
    int32_t drift_ppm;
    uint64_t offset_us;
    uint64_t resume_us;
    uint32_t news; /* changes of membership that wait for it, in order */
    uint32_t timer_serial[MARE_COORD_TIMERS];
    uint32_t *vector;
    uint64_t *told_down; /* one bit a peer: what the detector last said */
    uint8_t *saved;      /* what it has on its disk … */
    uint32_t saved_length;
} process;

typedef struct message {
    uint32_t from, to, length, room;
    uint64_t number;
    uint8_t *data;
    uint32_t *vector; /* happened-before at the sending */
    uint32_t next_free;
} message;

struct mare_sim {
    const mare_sim_options *options;
    uint64_t now_us, bus_free_us;
    mare_sim_heap heap;
    mare_sim_random network_random, workload_random, life_random;
    uint32_t capacity;
    process *process;

    message *message;
    uint32_t messages, free_message;        /* slots made; first free one */
    uint64_t message_number, message_bytes; /* the last one; memory of all slots */
    uint64_t *last_arrival; /* for fifo: by sender, or by sender and receiver in small groups */

    uint8_t *fault_active;
    uint32_t cuts, burst_percent;
    int settling, over;

    mare_coord_effects effects;
    mare_sim_observer *const *observers;
    const mare_sim_checker *checker[MARE_SIM_CHECKERS_MAX];
    void *checker_state[MARE_SIM_CHECKERS_MAX];
    uint32_t checkers;
    const mare_sim_workload *workload;
    void *workload_state;
    uint64_t *asked_us; /* by process: when its pending request was made */
    mare_sim_outcome *outcome;
};

/* world.c */
void mare__sim_see(mare_sim *sim, mare_sim_observation *seen);
void mare__sim_see_plain(mare_sim *sim, mare_sim_sight sight, uint32_t who, uint64_t number);
mare_coord_status mare__sim_step(mare_sim *sim, uint32_t who, mare_coord_event event,
                                 const message *arrived);

/* network.c */
void mare__sim_send(mare_sim *sim, uint32_t from, uint32_t to, const uint8_t *data,
                    uint32_t length);
void mare__sim_message_free(mare_sim *sim, uint32_t slot);
void mare__sim_lose(mare_sim *sim, const message *lost, const char *how);

/* life.c */
void mare__sim_populate(mare_sim *sim);
void mare__sim_depopulate(mare_sim *sim);
void mare__sim_begin_fault(mare_sim *sim, uint32_t index);
void mare__sim_end_fault(mare_sim *sim, uint32_t index);
void mare__sim_look(mare_sim *sim, uint32_t watcher, uint32_t watched);
void mare__sim_tell_news(mare_sim *sim, uint32_t who, mare_coord_event_kind kind, uint32_t about);
void mare__sim_mend_all(mare_sim *sim);
