/* SPDX-License-Identifier: MIT */

/* The workload that does what a script says, at the times it says. Wakes below the script's length
 * are its rows; those from there on are exits, and count which stay they end. Wakes do not survive
 * a crash, so a process that comes back plans the rest of its rows again. */

#include "sim/script.h"

#include <inttypes.h>

typedef struct member {
    uint64_t hold_us;
    uint32_t stay;    /* counts entries */
    uint32_t waiting; /* asked, not yet granted or revoked */
} member;

static const mare_sim_script *script_of(const mare_sim *sim)
{
    return mare_sim_options_of(sim)->workload_context;
}

static size_t size(const mare_sim_options *options)
{
    return options->setup.capacity * sizeof(member);
}

static void plan_rows(mare_sim *sim, uint32_t process)
{
    const mare_sim_script *script = script_of(sim);
    uint64_t now_us = mare_sim_now(sim);
    for (uint32_t i = 0; i < script->count; i++) {
        const mare_sim_script_row *row = &script->row[i];
        if (row->process == process && row->at_us >= now_us)
            mare_sim_wake(sim, process, row->at_us - now_us, i);
    }
}

static void begin(void *state, mare_sim *sim)
{
    (void)state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.members; i++)
        plan_rows(sim, i);
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    if (seen->process == MARE_COORD_NOBODY)
        return;
    member *who = &((member *)state)[seen->process];
    switch (seen->sight) {
    case MARE_SIM_EFFECT:
        if (seen->effect->kind == MARE_COORD_GRANTED) {
            who->waiting = 0;
            who->stay++;
            if (who->hold_us != MARE_SIM_STAYS)
                mare_sim_wake(sim, seen->process, who->hold_us, script_of(sim)->count + who->stay);
        } else if (seen->effect->kind == MARE_COORD_REVOKED) {
            who->waiting = 0;
        }
        break;
    case MARE_SIM_CRASHED:
    case MARE_SIM_DEPARTED:
        who->waiting = 0;
        who->stay++;
        break;
    case MARE_SIM_RESTARTED:
    case MARE_SIM_JOINED:
        plan_rows(sim, seen->process);
        break;
    default:
        break;
    }
}

static void wake(void *state, mare_sim *sim, uint32_t process, uint32_t number)
{
    const mare_sim_script *script = script_of(sim);
    member *who = &((member *)state)[process];
    if (number >= script->count) {
        if (number == script->count + who->stay)
            mare_sim_request(sim, process, MARE_COORD_EXIT, 0, NULL, 0);
        return;
    }
    const mare_sim_script_row *row = &script->row[number];
    uint64_t hold_us = who->hold_us;
    if (row->kind == MARE_COORD_ENTER) {
        who->hold_us = row->hold_us; /* before the request: it may be granted at once */
        who->waiting = 1;
    }
    mare_coord_status status =
        mare_sim_request(sim, process, row->kind, row->number, row->data, row->length);
    if (row->kind == MARE_COORD_ENTER && status != MARE_COORD_OK) {
        who->hold_us = hold_us;
        who->waiting = 0;
    }
}

static void settle(void *state, mare_sim *sim)
{
    (void)state;
    (void)sim;
}

static int settled(void *state, mare_sim *sim)
{
    const member *all = state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (all[i].waiting && mare_sim_is_up(sim, i))
            return 0;
    }
    return 1;
}

static void overdue(void *state, mare_sim *sim)
{
    const member *all = state;
    for (uint32_t i = 0; i < mare_sim_options_of(sim)->setup.capacity; i++) {
        if (all[i].waiting && mare_sim_is_up(sim, i)) {
            mare_sim_violate(sim, "EM2", "p%" PRIu32 " asked and is not served", i);
            return;
        }
    }
}

const mare_sim_workload mare_sim_workload_script = {
    .name = "script",
    .family = MARE_COORD_FAMILIES,
    .size = size,
    .begin = begin,
    .see = see,
    .wake = wake,
    .settle = settle,
    .settled = settled,
    .overdue = overdue,
};
