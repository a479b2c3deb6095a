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
    uint32_t leader;
    int inside, waiting;
} mare_sim_record;

typedef struct mare_sim_recording {
    mare_sim_observer observer; /* first, so that the observer is the recording */
    const mare_coord_algorithm *algorithm;
    uint32_t capacity;
    mare_sim_record *record;
    size_t count, room;
    uint8_t *bytes;
    size_t bytes_count, bytes_room;
} mare_sim_recording;

void mare_sim_recording_init(mare_sim_recording *recording, const mare_coord_algorithm *algorithm,
                             uint32_t capacity);
void mare_sim_recording_fini(mare_sim_recording *recording);

/* The trace as text, one line each: time, process, what. Same run, same bytes. */
void mare_sim_recording_write_text(const mare_sim_recording *recording, FILE *out);
