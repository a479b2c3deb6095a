/* SPDX-License-Identifier: MIT */
#pragma once

/* What a simulation shows of itself. Everything that looks at a run (checkers, the trace, drawings,
 * ShiViz logs, counters) sees the same sequence of observations, and nothing else. */

#include <mare/coord.h>

typedef enum mare_sim_sight {
    MARE_SIM_STEPPED, /* `process` was stepped with `event`; its effects follow. For a MESSAGE also
                       * `peer`, `message`, `data`: this is its arrival */
    MARE_SIM_SENT,    /* `process` sent message number `message` to `peer`; one for each receiver */
    MARE_SIM_LOST,    /* message `message` of `peer` to `process` is gone; `text` says how */
    MARE_SIM_EFFECT,  /* any other effect of the machine of `process`: `effect` */
    MARE_SIM_CRASHED, /* `process` is down */
    MARE_SIM_RESTARTED, /* `process` is back; `number` 1: as it was; 0: without memory, or saved */
    MARE_SIM_PAUSED,
    MARE_SIM_RESUMED,
    MARE_SIM_JOINED,
    MARE_SIM_DEPARTED,
    MARE_SIM_CUT,      /* a partition begins: `number` is the index of the fault */
    MARE_SIM_HEALED,   /* it ends */
    MARE_SIM_SETTLES,  /* the second phase begins */
    MARE_SIM_VIOLATED, /* `text` was violated; the last observation but the end */
    MARE_SIM_ENDED,
    MARE_SIM_SIGHTS
} mare_sim_sight;

typedef struct mare_sim_observation {
    mare_sim_sight sight;
    uint32_t process; /* MARE_COORD_NOBODY: the whole group */
    uint32_t peer;
    uint64_t time_us;
    uint64_t message; /* from 1; joins SENT with STEPPED or LOST; a duplicate has the same */
    uint64_t number;
    const mare_coord_event *event;   /* STEPPED */
    const mare_coord_effect *effect; /* EFFECT */
    mare_coord_status status;        /* STEPPED: what the machine made of it */
    const uint8_t *data;             /* of the message */
    uint32_t length;
    const char *text;
    const uint32_t *vector;    /* happened-before at `process`, one count each process, or NULL */
    const mare_coord *machine; /* of `process` after its step, or NULL */
} mare_sim_observation;

typedef struct mare_sim_observer mare_sim_observer;
struct mare_sim_observer {
    void (*see)(mare_sim_observer *self, const mare_sim_observation *seen);
};

const char *mare_sim_sight_name(mare_sim_sight sight);
