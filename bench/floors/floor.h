// SPDX-License-Identifier: MIT
// What every floor program needs: a clock, its arguments, and one way to print a figure.
//
// A floor is what the same work costs when a C program drives bare Lua states by hand on one
// thread: no scheduler, no channel, no lock, nothing checked. A runtime cannot go below it with the
// same Lua, so the rows of the table are ratios to it.
#ifndef MARE_BENCH_FLOOR_H
#define MARE_BENCH_FLOOR_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double floor_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// The i-th command line argument as a count, or the default.
static inline long floor_count(int argc, char **argv, int i, long otherwise)
{
    return argc > i ? strtol(argv[i], NULL, 10) : otherwise;
}

// A figure is a line "name value"; bench/harness.py reads it.
static inline void floor_report(const char *name, double value)
{
    printf("%s %.6g\n", name, value);
}

static inline void floor_fail(const char *what)
{
    fprintf(stderr, "floor: %s\n", what);
    exit(1);
}

#endif
