/* SPDX-License-Identifier: MIT */
#pragma once

/* Network coordinates on a matrix of round trips: every node probes one random other in a cycle,
 * and knows only what its own probes told it. Used by `mare place`, the Lua module and the tests.
 *
 * Relative error of a pair = |estimate - measured| / measured, over all ordered pairs. */

#include <mare/coord_place.h>
#include <stdio.h>

/* Round trips in milliseconds, row i column j from i to j. A value that is not above zero was not
 * measured. */
typedef struct mare_sim_matrix {
    uint32_t n;
    double *rtt;
} mare_sim_matrix;

static inline double mare_sim_matrix_at(const mare_sim_matrix *matrix, uint32_t i, uint32_t j)
{
    return matrix->rtt[(size_t)i * matrix->n + j];
}

/* Reads a square matrix, a row a line, separated by blanks, tabs or commas; "nan", "-" and what is
 * negative are measurements that are missing. Returns NULL, or what is wrong with it, in `why`. */
const char *mare_sim_matrix_read(mare_sim_matrix *matrix, FILE *file, char why[100]);

/* Networks that can be made; matrix_make.c says what they are like. */
typedef enum mare_sim_network {
    MARE_SIM_MADE,   /* towns on a plane, ways to the net and detours with heavy tails */
    MARE_SIM_NOISY,  /* most triangles broken, asymmetric, rounded to 10 ms */
    MARE_SIM_CENTRE, /* one data centre, about 0.2 ms */
    MARE_SIM_SITES,  /* six data centres: 0.3 ms within, up to 250 ms between */
    MARE_SIM_NETWORKS
} mare_sim_network;

/* "made", "noisy", … */
const char *mare_sim_network_name(mare_sim_network network);

/* A matrix of such a network, decided by the seed alone. Returns 0 when there is no memory. */
int mare_sim_matrix_make(mare_sim_matrix *matrix, mare_sim_network network, uint32_t n,
                         uint64_t seed);
void mare_sim_matrix_fini(mare_sim_matrix *matrix);

/* The part of triples drawn at random in which one side is longer than the other two together. */
double mare_sim_matrix_broken(const mare_sim_matrix *matrix, uint64_t seed);

/* A run of Vivaldi. Lengths of the liars are in hundredths of the matrix's median round trip. */
typedef struct mare_sim_vivaldi {
    uint32_t dimensions, neighbours, cycles; /* 0: the usual; 1,000 cycles */
    uint64_t seed;
    int springs;      /* the algorithm of springs.h instead of ours, to compare with */
    uint32_t liars;   /* the first so many nodes say that they are somewhere else, with certainty */
    int steady;       /* liars always say the same place, and answer faster than anybody */
    double spikes;    /* the part of measurements that come out up to ten times too long */
    uint32_t joining; /* the last so many join when the cycles are over, one at a time */
    uint32_t leaving; /* the last so many are gone from half of the cycles on */
} mare_sim_vivaldi;

/* Figures over pairs. */
typedef struct mare_sim_errors {
    size_t count;
    double *sorted; /* relative errors, of the caller to free */
    double median, p90, p99;
    double within_2; /* the part of pairs estimated within a factor of two */
} mare_sim_errors;

/* What a run left. */
typedef struct mare_sim_placed {
    uint32_t n;
    mare_coord_place *place; /* by node */
    uint32_t
        *probes; /* by node that joined: after how many it came within 1.25 of its last error */
} mare_sim_placed;

/* Runs; the outcome is freed by mare_sim_placed_fini(). Returns 0 when there is no memory. */
int mare_sim_vivaldi_run(const mare_sim_vivaldi *run, const mare_sim_matrix *matrix,
                         mare_sim_placed *placed);
void mare_sim_placed_fini(mare_sim_placed *placed);

/* A run of GNP: landmarks are chosen and place themselves, then every node does. */
typedef struct mare_sim_gnp {
    uint32_t dimensions, landmarks; /* 0: 7 and 20 */
    uint64_t seed;
    double robust; /* as in mare_coord_gnp_setup */
} mare_sim_gnp;

/* As above; nodes that measured too few landmarks are left at the origin with an error of 1.5. */
int mare_sim_gnp_run(const mare_sim_gnp *run, const mare_sim_matrix *matrix,
                     mare_sim_placed *placed);

/* The errors over the pairs of nodes from `first` up to `end`. Returns 0 when there is no memory.
 */
int mare_sim_errors_of(const mare_sim_placed *placed, const mare_sim_matrix *matrix, uint32_t first,
                       uint32_t end, mare_sim_errors *errors);
void mare_sim_errors_fini(mare_sim_errors *errors);

/* The value below which `part` of the sorted errors lie. */
double mare_sim_errors_at(const mare_sim_errors *errors, double part);

/* Draws the nodes by their first two dimensions as a self-contained SVG, `replicas` of them marked.
 * Returns 0 when it could not be written. */
int mare_sim_map_write(const mare_sim_placed *placed, const uint32_t *replica, uint32_t replicas,
                       FILE *out);
