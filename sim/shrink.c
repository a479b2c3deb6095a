/* SPDX-License-Identifier: MIT */

/* Shrinking: from a schedule that breaks a promise to a small one that still does.
 *
 * Delta debugging on the list of faults (Zeller and Hildebrandt, 2002): leave out ever smaller
 * pieces, keep what still fails. Then the network is made quieter, one property at a time, and the
 * run shorter. Every attempt is a whole run of the same seed; only the same violation counts. */

#include "sim/sim.h"

#include <string.h>

typedef struct search {
    mare_sim_options *options;
    const char *violation;
    unsigned runs, budget;
} search;

static int still_fails(search *s)
{
    mare_sim_outcome outcome;
    if (s->runs >= s->budget)
        return 0;
    s->runs++;
    mare_sim_run(s->options, NULL, &outcome);
    return strcmp(outcome.violation, s->violation) == 0;
}

/* Tries without faults [from, from + count). Returns nonzero when they were not needed. */
static int leave_out(search *s, uint32_t from, uint32_t count)
{
    mare_sim_fault_list *list = &s->options->faults;
    mare_sim_fault_list whole = {0};
    for (uint32_t i = 0; i < list->count; i++)
        mare_sim_faults_add(&whole, &list->fault[i]);
    memmove(&list->fault[from], &list->fault[from + count],
            (list->count - from - count) * sizeof *list->fault);
    list->count -= count;
    int fails = still_fails(s);
    if (!fails) {
        memcpy(list->fault, whole.fault, whole.count * sizeof *list->fault);
        list->count = whole.count;
    }
    mare_sim_faults_fini(&whole);
    return fails;
}

static void shrink_list(search *s)
{
    const mare_sim_fault_list *list = &s->options->faults;
    uint32_t piece = list->count;
    while (piece > 0) {
        int progress = 0;
        for (uint32_t from = 0; from < list->count;) {
            uint32_t count = list->count - from < piece ? list->count - from : piece;
            if (leave_out(s, from, count))
                progress = 1;
            else
                from += count;
        }
        if (piece == 1 && !progress)
            break;
        piece = piece > 1 ? piece / 2 : 1;
        if (list->count == 0)
            break;
    }
}

static void try_smaller_u32(search *s, uint32_t *value, uint32_t smaller)
{
    uint32_t before = *value;
    if (before == smaller)
        return;
    *value = smaller;
    if (!still_fails(s))
        *value = before;
}

unsigned mare_sim_shrink(mare_sim_options *options, const char *violation, unsigned budget)
{
    search s = {.options = options, .violation = violation, .budget = budget};
    shrink_list(&s);
    try_smaller_u32(&s, &options->network.duplicate_ppm, 0);
    try_smaller_u32(&s, &options->network.loss_ppm, 0);
    try_smaller_u32(&s, &options->abandon_ppm, 0);
    try_smaller_u32(&s, &options->drift_ppm, 0);
    shrink_list(&s);
    return s.runs;
}
