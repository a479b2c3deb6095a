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
    double *middle;    /* by row: where its line is */
    double lane;       /* how high a row is, if nothing is stacked in it */
    double left;       /* how wide the names are */
    size_t *sent;      /* by message number: the record of its sending, or MARE_SIM_NONE */
    uint64_t messages; /* the largest message number */
    uint32_t shown;    /* messages inside the window */
} mare_sim_layout;

#define MARE_SIM_LEFT 64.0       /* names of the processes, if they are short */
#define MARE_SIM_TOP 44.0        /* the axis */
#define MARE_SIM_VECTOR_MOST 12u /* members of a group whose vector clocks are written */
#define MARE_SIM_STACK_MOST 6u   /* deliveries of one moment, below each other */
#define MARE_SIM_STACK_STEP 11.0

/* Font sizes: style.c has the same. */
#define MARE_SIM_CLOCK_SIZE 10.0
#define MARE_SIM_WORD_SIZE 10.5
#define MARE_SIM_NAME_SIZE 10.0
#define MARE_SIM_LABEL_SIZE 11.0

void mare_sim_layout_init(mare_sim_layout *layout, const mare_sim_recording *recording,
                          const mare_sim_show *show, int from_the_end);
void mare_sim_layout_fini(mare_sim_layout *layout);

double mare_sim_layout_x(const mare_sim_layout *layout, uint64_t time_us);
double mare_sim_layout_y(const mare_sim_layout *layout, uint32_t process);

/* The clock that was last written at a process: bytes of the recording, or NULL. */
typedef struct mare_sim_shown_clock {
    const uint8_t *bytes;
} mare_sim_shown_clock;

/* Whether a clock is written above a step: it differs from the one shown last, the step is the last
 * of its process at that moment, and the vector is not too large. Then it becomes the one shown. */
int mare_sim_layout_clock(const mare_sim_layout *layout, const mare_sim_record *record,
                          mare_sim_shown_clock *shown);

/* How wide the clock of a step is when it is written. */
double mare_sim_layout_clock_width(const mare_sim_layout *layout, const mare_sim_record *record);

/* The words beside an effect (words.c); empty for most. Also how many of the same kind came before
 * it at this process and moment: they are drawn below each other. */
void mare__sim_words_of(const mare_sim_recording *r, const mare_sim_record *record, char *text,
                        size_t room);
uint32_t mare__sim_rank_of(const mare_sim_recording *r, const mare_sim_record *record);

/* Whether the words of an effect always stand at the same place: views above the line, deliveries
 * and stays below it, where one looks for them. */
int mare__sim_has_its_place(const mare_sim_recording *r, const mare_sim_record *record);

/* Whether a record falls into the window. */
int mare_sim_layout_has(const mare_sim_layout *layout, const mare_sim_record *record);
