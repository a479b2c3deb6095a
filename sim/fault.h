/* SPDX-License-Identifier: MIT */
#pragma once

/* Faults as data: a list that can be drawn from a seed, written on a command line, read back, and
 * shrunk by leaving rows out. Every fault has a beginning and, unless it lasts for ever, an end, so
 * that any sub-list is again a sensible schedule. */

#include "sim/random.h"

#include <mare/coord.h>

typedef enum mare_sim_fault_kind {
    MARE_SIM_CRASH,     /* of `process`; comes back with its memory */
    MARE_SIM_AMNESIA,   /* of `process`; comes back without memory */
    MARE_SIM_PAUSE,     /* `process` stands still; what arrives waits for it */
    MARE_SIM_PARTITION, /* nothing passes between `side` and the others */
    MARE_SIM_ONE_WAY,   /* nothing passes from `side` to the others */
    MARE_SIM_LEAVE,     /* `process` leaves the group; joins again at the end */
    MARE_SIM_JOIN,      /* `process`, not a founder, joins; leaves at the end */
    MARE_SIM_BURST,     /* `process` parts in a hundred of all messages are lost */
    MARE_SIM_FAULT_KINDS
} mare_sim_fault_kind;

#define MARE_SIM_SIDE_WORDS 4 /* processes from 256 on are always among "the others" */

typedef struct mare_sim_fault {
    mare_sim_fault_kind kind;
    uint32_t process;
    uint64_t at_us, for_us; /* for_us 0: for ever, and not mended for the second phase either */
    uint64_t side[MARE_SIM_SIDE_WORDS];
} mare_sim_fault;

typedef struct mare_sim_fault_list {
    mare_sim_fault *fault;
    uint32_t count, room;
} mare_sim_fault_list;

void mare_sim_faults_add(mare_sim_fault_list *list, const mare_sim_fault *fault);
void mare_sim_faults_fini(mare_sim_fault_list *list);

/* Draws a schedule for `processes` founders out of `capacity` slots: only kinds of which the
 * MARE_COORD_* bit is in `tolerated`, and, without MARE_COORD_ALL_CRASH, sparing one process.
 * Returns that one, or NOBODY. */
uint32_t mare_sim_faults_draw(mare_sim_fault_list *list, mare_sim_random *random,
                              unsigned tolerated, uint32_t processes, uint32_t capacity,
                              uint64_t duration_us);

/* Adds a fault, if an algorithm that tolerates these bits must bear it: not if its process is
 * `spared` (or NOBODY), nor while another fault of the process lasts. Returns whether it did. */
int mare_sim_faults_add_fair(mare_sim_fault_list *list, const mare_sim_fault *fault,
                             unsigned tolerated, uint32_t processes, uint32_t capacity,
                             uint32_t spared);

/* "crash:3@120000+50000,partition:0.1@…": what @when +for_how_long, in us. Writes at most `room`
 * bytes with the final zero; returns the length without cutting. */
size_t mare_sim_faults_write(const mare_sim_fault_list *list, char *out, size_t room);

/* Reads the same. Returns 0, or the place (from 1) of the first character it does not
 * understand. */
size_t mare_sim_faults_read(mare_sim_fault_list *list, const char *text);

/* Whether every fault can happen in a group of `processes` founders out of `capacity` slots, in a
 * phase with faults of `duration_us`. Returns 0, or nonzero after writing into `why` which cannot
 * and what could. */
int mare_sim_faults_refuse(const mare_sim_fault_list *list, uint32_t processes, uint32_t capacity,
                           uint64_t duration_us, char *why, size_t room);

/* Whether a message from `from` to `to` is stopped by this fault while it lasts. */
int mare_sim_fault_stops(const mare_sim_fault *fault, uint32_t from, uint32_t to);
