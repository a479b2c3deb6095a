/* SPDX-License-Identifier: MIT */
#pragma once

/* Where things stand in a space–time diagram: time runs to the right, processes are lines below
 * one another. Virtual time jumps (a retry waits a hundred times longer than a message travels), so
 * the scale bends: two moments with something between them are always apart, and a long silence
 * takes little more room than a short one. Order is exact, lengths are a hint. */

#include "sim/report.h"

typedef struct mare_sim_layout {
    const mare_sim_recording *recording;
    uint64_t from_us, to_us; /* the window, and whether it leaves anything out */
    int cut_before, cut_after;
    uint64_t *time_us; /* moments at which something is to be seen, in order */
    double *x;
    size_t moments;
    double width, height;
    uint32_t *row; /* by process: its line, or MARE_COORD_NOBODY */
    uint32_t rows;
    size_t *sent;      /* by message number: the record of its sending, or MARE_SIM_NONE */
    uint64_t messages; /* the largest message number */
    uint32_t shown;    /* messages inside the window */
} mare_sim_layout;

#define MARE_SIM_LEFT 64.0 /* names of the processes */
#define MARE_SIM_TOP 44.0  /* the axis */
#define MARE_SIM_LANE 74.0
#define MARE_SIM_VECTOR_MOST 12u /* members of a group whose vector clocks are written */

void mare_sim_layout_init(mare_sim_layout *layout, const mare_sim_recording *recording,
                          const mare_sim_show *show, int from_the_end);
void mare_sim_layout_fini(mare_sim_layout *layout);

double mare_sim_layout_x(const mare_sim_layout *layout, uint64_t time_us);
double mare_sim_layout_y(const mare_sim_layout *layout, uint32_t process);

/* The clock that was last written at a process: bytes of the recording, or NULL. */
typedef struct mare_sim_shown_clock {
    const uint8_t *bytes;
} mare_sim_shown_clock;

/* Whether a clock is written above a step: it has one that is not the one shown, the step is the
 * last of its process at that moment, and there is room for so large a vector. Then it is the one
 * shown. */
int mare_sim_layout_clock(const mare_sim_layout *layout, const mare_sim_record *record,
                          mare_sim_shown_clock *shown);

/* Whether a record falls into the window. */
int mare_sim_layout_has(const mare_sim_layout *layout, const mare_sim_record *record);
