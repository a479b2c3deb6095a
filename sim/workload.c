/* SPDX-License-Identifier: MIT */

/* The table of workloads. */

#include "sim/workload.h"
#include "sim/script.h"

#include <string.h>

static const mare_sim_workload *const table[] = {
    &mare_sim_workload_mutex,
    &mare_sim_workload_election,
    &mare_sim_workload_order,
    &mare_sim_workload_script,
};

const mare_sim_workload *mare_sim_workload_find(const char *name, mare_coord_family family)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (name ? strcmp(table[i]->name, name) == 0 : table[i]->family == family)
            return table[i];
    }
    return NULL;
}

int64_t mare_sim_param_of(const mare_coord_setup *setup, const char *name, int64_t otherwise)
{
    for (int i = 0; i < MARE_COORD_PARAMS && setup->algorithm->params[i].name; i++) {
        if (strcmp(setup->algorithm->params[i].name, name) == 0)
            return setup->param[i];
    }
    return otherwise;
}
