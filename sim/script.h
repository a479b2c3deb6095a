/* SPDX-License-Identifier: MIT */
#pragma once

/* Requests by hand: the workload of scenario files, and of tables that want one request alone.
 *
 *     mare_sim_script_row row[] = {{.process = 0, .kind = MARE_COORD_ENTER, .at_us = 1000}};
 *     mare_sim_script script = {.row = row, .count = 1};
 *     options.workload = &mare_sim_workload_script;
 *     options.workload_context = &script;
 *
 * A process that is granted entry leaves by itself after hold_us, unless that is MARE_SIM_STAYS. A
 * request of one that is down at the time is not made. */

#include "sim/workload.h"

#define MARE_SIM_STAYS UINT64_MAX

typedef struct mare_sim_script_row {
    uint64_t at_us;
    uint32_t process;
    mare_coord_event_kind kind; /* ENTER, EXIT, ABANDON, ELECT or MULTICAST */
    uint64_t number;            /* ENTER: gives up after so many us; 0: never */
    uint64_t hold_us;
    const uint8_t *data;
    uint32_t length;
} mare_sim_script_row;

typedef struct mare_sim_script {
    const mare_sim_script_row *row;
    uint32_t count;
} mare_sim_script;

extern const mare_sim_workload mare_sim_workload_script;
