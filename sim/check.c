/* SPDX-License-Identifier: MIT */

/* The tables of checkers and of what they, the workloads and the engine can report. */

#include "sim/check.h"

#include <string.h>

const mare_sim_checker *const mare_sim_checkers[] = {
    &mare_sim_check_mutex, &mare_sim_check_clock, &mare_sim_check_leader,
    &mare_sim_check_order, &mare_sim_check_time,  NULL,
};

const char *const mare_sim_promises[] = {
    "EM1",        /* at most one inside */
    "EM2",        /* every request is granted in the end */
    "EM3",        /* grants follow happened-before */
    "FENCING",    /* fencing numbers only grow */
    "CLOCK",      /* logical clocks agree with what happened */
    "ONE-LEADER", /* at most one leader in an epoch */
    "EPOCH",      /* what a member is told of leaders does not go back */
    "INVENTION",  /* what is delivered was multicast */
    "DUPLICATE",  /* … and is delivered once */
    "FIFO",       /* … in the order of its sender */
    "CAUSAL",     /* … after all that it depends on */
    "TOTAL",      /* … in one order everywhere */
    "VIEW",       /* views are one sequence of lists */
    "ATOMIC",     /* those that go on together delivered the same */
    "AGREEMENT",  /* in the end all have the same leader, or deliver each other's multicasts */
    "BOUND",      /* clocks are no further apart than they say */
    "BACKWARDS",  /* a clock that is read never goes back */
    "ROOM",       /* a step makes no more effects than were declared */
    "BUDGET",     /* a run has an end */
    NULL,
};

int mare_sim_is_promise(const char *name)
{
    for (uint32_t i = 0; mare_sim_promises[i]; i++) {
        if (strcmp(mare_sim_promises[i], name) == 0)
            return 1;
    }
    return 0;
}
