/* SPDX-License-Identifier: MIT */
#pragma once

/* What people get from a run: the trace, a table beside the formulas, JSON, drawings, ShiViz logs,
 * and the line that repeats it. All write to a FILE and change nothing. */

#include "sim/record.h"
#include "sim/sim.h"

typedef struct mare_sim_show {
    const char *title;  /* of the drawing; NULL: the algorithm's */
    const char *about;  /* a paragraph below it, or NULL */
    const char *draw;   /* a file: .svg, or HTML with the same drawing to move about in */
    const char *shiviz; /* a file for ShiViz */
    int trace, json;
    const mare_sim_captions *captions; /* names and remarks, or NULL */
    uint64_t from_us, to_us;           /* of the drawing; to_us 0: as much as can be read */
    int real; /* the run of a program, not of the simulator: all times are nanoseconds */
} mare_sim_show;

/* Runs once and shows. Returns 0 when nothing was violated, 1 when something was, 2 when a file
 * could not be written, after saying so on stderr. */
int mare_sim_show_run(const mare_sim_options *options, const mare_sim_show *show, FILE *out,
                      mare_sim_outcome *outcome);

/* The promises that a run without violation has shown to be kept; without those that it did not
 * test, or could not check. */
unsigned mare_sim_kept(const mare_sim_options *options, const mare_sim_outcome *outcome);

/* Each one alone. */
void mare_sim_write_summary(const mare_sim_options *options, const mare_sim_outcome *outcome,
                            FILE *out);
void mare_sim_write_json(const mare_sim_options *options, const mare_sim_outcome *outcome,
                         FILE *out);
/* The options of `mare sim NAME` that repeat the run: "--n 3 --seed 1 …". */
void mare_sim_write_replay(const mare_sim_options *options, FILE *out);
void mare_sim_write_shiviz(const mare_sim_recording *recording, FILE *out);
void mare_sim_write_svg(const mare_sim_recording *recording, const mare_sim_options *options,
                        const mare_sim_show *show, const mare_sim_outcome *outcome, FILE *out);
void mare_sim_write_html(const mare_sim_recording *recording, const mare_sim_options *options,
                         const mare_sim_show *show, const mare_sim_outcome *outcome, FILE *out);

/* Messages and delays without faults or rivals, measured beside the formulas, for groups of 2 … 200
 * or, if `n` is not 0, of n. An algorithm that gives no costs has no rows. `as_json`: an object
 * instead of lines. Returns nonzero when a count differs from its formula. */
int mare_sim_write_table(const mare_coord_setup *setup, uint32_t n, int as_json, FILE *out);

/* A JSON string, with its quotes. */
void mare_sim_write_quoted(const char *text, FILE *out);

/* "EM1 EM2 fencing" of the promises' bits, "loss crash" of the faults'. */
void mare_sim_write_promises(unsigned bits, FILE *out);
void mare_sim_write_tolerates(unsigned bits, FILE *out);
