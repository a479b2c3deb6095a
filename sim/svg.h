/* SPDX-License-Identifier: MIT */
#pragma once

/* Shared by svg.c (arrows, events, the whole), spans.c (what lasts) and html.c (the page). */

#include "sim/layout.h"

typedef struct mare_sim_drawing {
    mare_sim_layout layout;
    const mare_sim_options *options;
    const mare_sim_show *show;
    const mare_sim_outcome *outcome;
    int page; /* inside a page that has its own heading and shows its own hints */
    FILE *out;
} mare_sim_drawing;

#define MARE_SIM_COLOURS 12u

void mare__sim_draw(mare_sim_drawing *d);

/* spans.c: shaded partitions; then lines, pauses, crashes, who waits, is inside, leads. */
void mare__sim_draw_cuts(const mare_sim_drawing *d);
void mare__sim_draw_spans(const mare_sim_drawing *d);

/* Text for XML, and a moment as people write it. */
void mare__sim_escape(const char *text, FILE *out);
void mare__sim_write_time(uint64_t time_us, FILE *out);

/* The style sheet of the drawing, for both colour schemes: style.c. */
extern const char mare__sim_style[];
extern const char mare__sim_page_style[];
extern const char mare__sim_page_script[];
