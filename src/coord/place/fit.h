/* SPDX-License-Identifier: MIT */
#pragma once

/* One place from measurements to places that are known: the small least-squares problem that GPS,
 * GNP and a newcomer to Vivaldi have in common.
 *
 *     residual of sample i = |x - x_i| + height + height_i - measured_i
 *
 * is to be small in the sum of weight_i * residual². For GPS the height is the clock's bias, for
 * GNP it is left out. */

#include <mare/coord_place.h>

/* A measurement to a known place. */
struct mare__sample {
    double x[MARE_COORD_DIMENSIONS];
    double height;
    double measured;
    double weight;
};

enum { MARE__FIT_UNKNOWNS = MARE_COORD_DIMENSIONS + 1 };

struct mare__fit {
    const struct mare__sample *sample;
    uint32_t count, dimensions;
    int with_height;    /* the height is one of the unknowns */
    double least;       /* the height is not below this */
    double robust;      /* relative residuals beyond this pull no harder; 0: all pull */
    double hold;        /* how strongly it is held at `at`, as a weight; 0: not at all */
    double hold_height; /* the same for the height */
    mare_coord_place at;
    uint32_t steps;   /* at most */
    double tolerance; /* done when a step is shorter than this */
    double gain;      /* or when it changes the sum by no more than this part of it; 0: never */
};

/* How it ended. */
struct mare__fit_end {
    uint32_t steps;
    double cost; /* the weighted sum of squares, robust weights included */
    int settled; /* the last step was within the tolerance, or gained no more than `gain` */
    /* The normal matrix without damping and holding at the end, rows of MARE__FIT_UNKNOWNS. */
    double normal[MARE__FIT_UNKNOWNS][MARE__FIT_UNKNOWNS];
};

/* Improves `place` by Levenberg-Marquardt steps. */
void mare__fit_run(const struct mare__fit *fit, mare_coord_place *place, struct mare__fit_end *end);

/* Solves the symmetric positive system of n rows by Cholesky's method in place: `matrix` becomes
 * its factor, `right` the solution. Returns 0 when the matrix is not positive to working precision:
 * a pivot has lost all but `least` of its diagonal. */
int mare__solve(double matrix[][MARE__FIT_UNKNOWNS], double *right, uint32_t n, double least);

static inline double mare__square_root(double x)
{
    /* An instruction on every processor this is built for; -fno-math-errno keeps it one. */
    return __builtin_sqrt(x);
}

static inline double mare__distance(const double *a, const double *b, uint32_t dimensions)
{
    double sum = 0;
    for (uint32_t i = 0; i < dimensions; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return mare__square_root(sum);
}

/* The next number of a stream that depends on *state alone (splitmix64). */
static inline uint64_t mare__place_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Evenly between -1 and 1. */
static inline double mare__place_uniform(uint64_t *state)
{
    return (double)(int64_t)mare__place_random(state) / 9223372036854775808.0;
}
