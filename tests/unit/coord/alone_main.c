/* SPDX-License-Identifier: MIT */

/* Runs alone.c, and prints what it cannot. */

#include "alone.h"

#include <stdio.h>

int main(void)
{
    alone_report report[8] = {{0}};
    int line = coord_alone(report);
    for (const alone_report *r = report; r->algorithm; r++)
        printf("%-8s %4u bytes a member of five: machine %u, effects %u, messages %u\n",
               r->algorithm, (unsigned)(r->machine + r->effects + r->bytes), (unsigned)r->machine,
               (unsigned)r->effects, (unsigned)r->bytes);
    if (line)
        printf("failed at alone.c:%d\n", line);
    return line != 0;
}
