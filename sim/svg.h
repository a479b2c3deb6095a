/* SPDX-License-Identifier: MIT */
#pragma once

/* Shared by svg.c (arrows, events, the whole), words.c (what is written beside them), spans.c (what
 * lasts) and html.c (the page). */

#include "sim/layout.h"

typedef struct mare_sim_drawing {
    mare_sim_layout layout;
    const mare_sim_options *options;
    const mare_sim_show *show;
    const mare_sim_outcome *outcome;
    int page; /* inside a page that has its own heading and shows its own hints */
    FILE *out;
    struct mare_sim_words *words; /* where they stand, while the drawing is made: words.c */
} mare_sim_drawing;

#define MARE_SIM_COLOURS 12u

void mare__sim_draw(mare_sim_drawing *d);

/* spans.c: shaded partitions; then lines, pauses, crashes, who waits, is inside, leads. */
void mare__sim_draw_cuts(const mare_sim_drawing *d);
void mare__sim_draw_spans(const mare_sim_drawing *d);

/* words.c: finds places for the words beside events, and draws the words of one record. Between
 * begin and forget, whoever writes something else takes its place; place comes when all who write
 * without asking have done so. */
void mare__sim_begin_words(mare_sim_drawing *d);
void mare__sim_place_words(mare_sim_drawing *d);
void mare__sim_forget_words(mare_sim_drawing *d);

/* Takes the place of a text that begins there. Returns 0 if it would overlap another text, or the
 * edge: then do not write it. */
int mare__sim_take_text(const mare_sim_drawing *d, double left, double base, const char *text,
                        double size, int bold);

/* Finds a place for a name along an arrow: which part of the way from the sender, and how far above
 * it. Returns 0 if there is none. */
int mare__sim_place_name(const mare_sim_drawing *d, double x1, double y1, double x2, double y2,
                         const char *name, double *part, double *above);
void mare__sim_draw_words(const mare_sim_drawing *d, size_t index);

/* Text for XML, and a moment as people write it. */
void mare__sim_escape(const char *text, FILE *out);
void mare__sim_write_time(const mare_sim_drawing *d, uint64_t time_us);

/* The style sheet of the drawing, for both colour schemes: style.c. */
extern const char mare__sim_style[];
extern const char mare__sim_page_style[];
extern const char mare__sim_page_script[];
