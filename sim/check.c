/* SPDX-License-Identifier: MIT */

/* The table of checkers. */

#include "sim/check.h"

const mare_sim_checker *const mare_sim_checkers[] = {
    &mare_sim_check_mutex,
    &mare_sim_check_clock,
    &mare_sim_check_leader,
    &mare_sim_check_order,
    &mare_sim_check_time,
    NULL,
};
