/* SPDX-License-Identifier: MIT */
#pragma once

/* The program that takes the library home alone, and what it says of itself: plain numbers, for it
 * has nothing to print with. */

#include <stdint.h>

typedef struct alone_report {
    const char *algorithm;
    uint32_t machine; /* bytes of a member */
    uint32_t effects; /* … of its list of effects */
    uint32_t bytes;   /* … of the messages in them */
} alone_report;

/* Runs all that it has. Fills in a report for each algorithm, ended by a NULL name; returns 0, or
 * the line at which something was not as it should be. */
int coord_alone(alone_report report[8]);
