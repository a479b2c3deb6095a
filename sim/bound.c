/* SPDX-License-Identifier: MIT */

/* How long progress may take in the second phase, in which nothing fails any more. The bound comes
 * from the run's network and the algorithm's timers.
 *
 *     bound = detection + 4 × timers + 16 × the longest that a message takes + work
 *                                      (elections: 24 ×)
 *
 *   detection   twice the time of the detector: once for the news, once for the answer to it
 *   timers      all timers of the algorithm, each four times: to notice that something was lost,
 *               and twice again where a wait is doubled
 *   messages    a message on its way must arrive. What it began must end, or be given up and begun
 *               again
 *   work        mutual exclusion: the entries that were asked for, one after the other. Each has a
 *               stay and six messages in a row, or eight where votes are called back.
 *               The others: the message times of the formula, four times. (Where only neighbours
 *               hear each other, the tree of an election may be a line of all members.) Multicasts
 *               add the pause before the first of each. Elections add the looks that must find
 *               agreement
 *
 *   A full window refuses a multicast until an earlier one has ended. So with narrow windows timers
 *   and pause count twice. They count three times where views order totally, because those have two
 *   windows, one after the other. The timers of multicasts count once more for the last message:
 *   nothing follows it that would show that it is missing. With narrow windows they count once for
 *   each member: its last message may have no place before those of the others are delivered.
 *
 * An algorithm that does not promise EM2 depends on luck: its rivals may back off at random. Then
 * the whole bound counts 32 times.
 *
 * How many steps a run may take: a thousand for each millisecond of the first phase and of one more
 * second. And for each pair of members a message to everybody; elections among many members that
 * all hear each other come near that. A run that works needs a small part of it. test_sim.c
 * measures that too.
 *
 * The factors are coarse. tests/sim/test_sim.c measures how much of the bound runs really take. It
 * fails if a fifth of the bound would do. */

#include "sim/sim.h"
#include "sim/workload.h"

#include <string.h>

#define MESSAGES 16u
#define MESSAGES_OF_ELECTION 24u
#define WAITS 4u
#define MESSAGES_PER_ENTRY 6u
#define CALLED_BACK 2u /* INQUIRE and YIELD of voting.c */
#define NARROW 8       /* a window that is full most of the time */
#define TOTAL 2        /* the order of views */
#define TURNS 4u
#define WAYS_OF_TREE 3u /* down, up and down again */
#define STEPS 1000u
#define SECOND_MS 1000u
#define LUCK 32u

#define PAUSE_US 200000u /* ten times the mean of workload_order.c */
#define LOOKS_US 120000u /* six of workload_election.c */

/* The longest that a message takes. If the delay has no limit, one message in a million takes
 * longer. */
static uint64_t longest_us(const mare_sim_options *options)
{
    static const uint64_t times[] = {[MARE_SIM_FIXED] = 1,
                                     [MARE_SIM_UNIFORM] = 2,
                                     [MARE_SIM_EXPONENTIAL] = 14,
                                     [MARE_SIM_SPIKY] = 40};
    const mare_sim_network *net = &options->network;
    uint64_t n = options->setup.capacity;
    return net->bus ? n * n * net->delay_us : times[net->delay] * net->delay_us;
}

/* How often a multicast is tried, counting all waits. */
static uint64_t tries(const mare_coord_setup *setup)
{
    if (mare_sim_param_of(setup, "window", NARROW) >= NARROW)
        return 1;
    return mare_sim_param_of(setup, "order", 0) == TOTAL ? 3 : 2;
}

static int is_timer(const char *name)
{
    static const char *const names[] = {"retry_us", "answer_us", "patience_us",
                                        "hop_us",   "gossip_us", "backoff_us",
                                        "rest_us",  "round_us",  "lease_us"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0)
            return 1;
    }
    return 0;
}

/* A hop is waited for at each member in turn. Gossip spreads from one member to the next. */
static uint64_t timers_us(const mare_coord_setup *setup)
{
    uint64_t sum_us = 0;
    for (int i = 0; i < MARE_COORD_PARAMS && setup->algorithm->params[i].name; i++) {
        const char *name = setup->algorithm->params[i].name;
        uint64_t times = strcmp(name, "hop_us") == 0      ? setup->capacity
                         : strcmp(name, "gossip_us") == 0 ? setup->capacity / 2 + 2
                                                          : 1;
        sum_us += is_timer(name) ? times * (uint64_t)setup->param[i] : 0;
    }
    return sum_us;
}

static uint64_t last_us(const mare_coord_setup *setup)
{
    int one_by_one = tries(setup) > 1 && setup->capacity > WAITS;
    uint64_t waits = one_by_one ? setup->capacity : WAITS;
    return setup->algorithm->family == MARE_COORD_ORDER ? waits * timers_us(setup) : 0;
}

static uint64_t work_us(const mare_sim_options *options)
{
    const mare_coord_setup *setup = &options->setup;
    uint64_t mean_us = options->network.delay_us;
    mean_us += options->network.delay == MARE_SIM_SPIKY ? mean_us : 0;
    uint64_t entries = setup->capacity;
    entries *= setup->algorithm->promises(setup) & MARE_COORD_EM2 ? 2 : 1;
    uint64_t messages =
        MESSAGES_PER_ENTRY + (mare_sim_param_of(setup, "queue", 0) ? CALLED_BACK : 0);
    if (setup->algorithm->family == MARE_COORD_MUTEX)
        return entries * (options->hold_us + messages * mean_us);
    mare_coord_cost cost;
    mare_coord_cost_of(setup, &cost);
    uint64_t turn_us = cost.delay_most == UINT64_MAX ? 0 : cost.delay_most * mean_us;
    if (options->hooks.linked) /* the formula is for a group in which everybody hears everybody */
        turn_us = WAYS_OF_TREE * (setup->capacity - 1) * mean_us;
    int multicasts = setup->algorithm->family == MARE_COORD_ORDER;
    return TURNS * turn_us + (multicasts ? tries(setup) * PAUSE_US : LOOKS_US);
}

uint64_t mare_sim_bound(const mare_sim_options *options)
{
    const mare_coord_setup *setup = &options->setup;
    int by_luck = setup->algorithm->family == MARE_COORD_MUTEX &&
                  !(setup->algorithm->promises(setup) & MARE_COORD_EM2);
    int election = setup->algorithm->family == MARE_COORD_ELECTION;
    uint64_t messages = election ? MESSAGES_OF_ELECTION : MESSAGES;
    uint64_t bound_us = 2 * options->detect_us + tries(setup) * WAITS * timers_us(setup) +
                        last_us(setup) + messages * longest_us(options) + work_us(options);
    return by_luck ? LUCK * bound_us : bound_us;
}

uint64_t mare_sim_budget(const mare_sim_options *options)
{
    uint64_t n = options->setup.capacity, each_ms = STEPS + n * n * n;
    uint64_t ms = SECOND_MS + options->duration_us / 1000;
    return each_ms > UINT64_MAX / ms ? UINT64_MAX : each_ms * ms;
}
