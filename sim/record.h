/* SPDX-License-Identifier: MIT */
#pragma once

/* The recording of a run: an observer that keeps every observation, for whatever is made of it
 * afterwards (the text below, drawings, ShiViz logs). One recording, many writers.
 *
 *     mare_sim_recording recording;
 *     mare_sim_recording_init(&recording, algorithm, capacity);
 *     mare_sim_observer *observers[] = {&recording.observer, NULL};
 *     mare_sim_run(&options, observers, &outcome);
 *     mare_sim_recording_write_text(&recording, stdout);
 *     mare_sim_recording_fini(&recording);
 *
 * The recording holds copies only: it outlives the run. */

#include "sim/observe.h"

#include <stdio.h>

/* One observation, flat. Offsets are into recording.bytes (NONE: nothing). */
#define MARE_SIM_NONE SIZE_MAX

typedef struct mare_sim_record {
    mare_sim_sight sight;
    uint32_t process, peer;
    uint64_t time_us, message, number;
    mare_coord_event_kind event;   /* STEPPED */
    mare_coord_status status;      /* STEPPED */
    mare_coord_effect_kind effect; /* EFFECT */
    size_t data;                   /* of the message, or delivered */
    uint32_t length;
    size_t text;   /* a string */
    size_t vector; /* `capacity` u32, happened-before; only with STEPPED */
    /* What mare_coord_look() showed after the step. */
    const char *phase;
    uint64_t lamport, epoch;
    size_t clock; /* its vector clock: `capacity` u64; only with STEPPED, and in small groups */
    int unborn;   /* STEPPED before its START: what the group is, no news */
    int ticked;   /* the Lamport clock differs from what the step before it showed */
    uint32_t leader;
    int inside, waiting;
} mare_sim_record;

/* What a scenario adds for its readers: names of processes, and remarks at moments of the run. The
 * remarks stand before the first thing that happens at that time or later. */
typedef struct mare_sim_note {
    uint64_t at_us;
    const char *text; /* one line or several */
} mare_sim_note;

typedef struct mare_sim_captions {
    const char *const *name; /* one for each process, NULL for "p3"; or NULL */
    const mare_sim_note *note;
    size_t notes;
} mare_sim_captions;

typedef struct mare_sim_recording {
    mare_sim_observer observer; /* first, so that the observer is the recording */
    const mare_coord_algorithm *algorithm;
    uint32_t capacity;
    mare_sim_record *record;
    size_t count, room;
    uint8_t *bytes;
    size_t bytes_count, bytes_room;
    uint64_t *lamport;                 /* by process: as last seen */
    uint8_t *born;                     /* by process: has started */
    const mare_sim_captions *captions; /* of the caller, or NULL */
} mare_sim_recording;

void mare_sim_recording_init(mare_sim_recording *recording, const mare_coord_algorithm *algorithm,
                             uint32_t capacity);
void mare_sim_recording_fini(mare_sim_recording *recording);

/* What a process is called: "p3", or the name that the captions give it. */
typedef struct mare_sim_label {
    char text[48];
} mare_sim_label;

mare_sim_label mare_sim_name(const mare_sim_recording *recording, uint32_t process);

/* How wide the widest name is, at least 4. */
int mare_sim_name_width(const mare_sim_recording *recording);

/* A vector clock that was kept: "(1,0,2)". */
void mare_sim_write_vector(const mare_sim_recording *recording, size_t clock, FILE *out);

/* The trace as text, one line each: time, process, what. Same run, same bytes. */
void mare_sim_recording_write_text(const mare_sim_recording *recording, FILE *out);
