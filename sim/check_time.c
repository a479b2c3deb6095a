/* SPDX-License-Identifier: MIT */

/* The checker of clocks that must agree. It reads them at every step, as an application would.
 *
 *   BACKWARDS   a clock shows less than it did, within one life.
 *   BOUND       two clocks that follow the same round differ by more than the sum of their
 * errors. */

#include "sim/check.h"

#include <mare/coord_time.h>

#include <inttypes.h>

typedef struct clocks {
    uint32_t n;
    int64_t shown_ns[]; /* by process: its last reading */
} clocks;

static size_t size(const mare_sim_options *options)
{
    return sizeof(clocks) + options->setup.capacity * sizeof(int64_t);
}

static void begin(void *state, mare_sim *sim)
{
    clocks *c = state;
    c->n = mare_sim_options_of(sim)->setup.capacity;
    for (uint32_t i = 0; i < c->n; i++)
        c->shown_ns[i] = INT64_MIN;
}

typedef struct sight {
    mare_time_reading reading;
    uint64_t epoch, round;
} sight;

/* Reads the clock of a process; 0 when there is none. */
static int look_at(const mare_sim *sim, uint32_t who, sight *seen)
{
    const mare_coord *machine = mare_sim_machine(sim, who);
    const mare_time_clock *clock =
        machine ? mare_berkeley_clock(machine, &seen->epoch, &seen->round) : NULL;
    if (!clock || !mare_sim_is_up(sim, who))
        return 0;
    mare_time_clock copy = *clock;
    seen->reading = mare_time_clock_read(&copy, (int64_t)mare_sim_local(sim, who) * 1000);
    return 1;
}

static void compare(mare_sim *sim, uint32_t a, const sight *one, uint32_t b, const sight *other)
{
    int64_t apart_ns = one->reading.time_ns - other->reading.time_ns;
    uint64_t most_ns = one->reading.error_ns + other->reading.error_ns;
    if ((uint64_t)(apart_ns < 0 ? -apart_ns : apart_ns) > most_ns)
        mare_sim_violate(sim, "BOUND",
                         "p%" PRIu32 " and p%" PRIu32 " follow round %" PRIu64 " of epoch %" PRIu64
                         " and are %" PRId64 " ns apart, where they say at most %" PRIu64,
                         a, b, one->round, one->epoch, apart_ns, most_ns);
}

static void see(void *state, mare_sim *sim, const mare_sim_observation *seen)
{
    clocks *c = state;
    sight mine, theirs;
    uint32_t who = seen->process;
    if (seen->sight == MARE_SIM_RESTARTED && !seen->number)
        c->shown_ns[who] = INT64_MIN; /* a new clock */
    if (seen->sight == MARE_SIM_JOINED)
        c->shown_ns[who] = INT64_MIN;
    if (seen->sight != MARE_SIM_STEPPED || !look_at(sim, who, &mine))
        return;
    if (mine.reading.time_ns < c->shown_ns[who])
        mare_sim_violate(sim, "BACKWARDS", "the clock of p%" PRIu32 " went back by %" PRId64 " ns",
                         who, c->shown_ns[who] - mine.reading.time_ns);
    c->shown_ns[who] = mine.reading.time_ns;
    for (uint32_t i = 0; mine.round && i < c->n; i++) {
        if (i != who && look_at(sim, i, &theirs) && theirs.epoch == mine.epoch &&
            theirs.round == mine.round)
            compare(sim, who, &mine, i, &theirs);
    }
}

const mare_sim_checker mare_sim_check_time = {
    .name = "time",
    .promises = MARE_COORD_AGREED_TIME,
    .size = size,
    .begin = begin,
    .see = see,
};
