/* SPDX-License-Identifier: MIT */

/* Options: the calm defaults, and the variation of everything by the seed. */

#include "coord/lease/leased.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BYTES_MOST (UINT64_C(1) << 30)
#define VECTORS_MAX 512u /* larger groups do not keep happened-before unless told to */

/* What seeds draw: mostly groups of 2 to 8, one in so many larger; mostly delays far below the
 * algorithm's timers, one in so many up to some times as long. */
#define FEW_MOST 8u
#define MANY_MOST 40u
#define MANY_IN 64u
#define SLOW_IN 16u
#define SLOW_TIMES 4u
#define SLOW_DURATION 10u
#define DURATION_US 1000000u
#define LEASE_US 60000u
#define LEASE_DELAYS 100u

static int param_index(const mare_coord_setup *setup, const char *name)
{
    for (int i = 0; i < MARE_COORD_PARAMS && setup->algorithm->params[i].name; i++) {
        if (strcmp(setup->algorithm->params[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* "ricart has no parameter 'x', but repair, retry_us" */
static void list_params(const mare_coord_setup *setup, const char *name, char *why, size_t room)
{
    const mare_coord_param *param = setup->algorithm->params;
    size_t used = (size_t)snprintf(why, room, "%s has no parameter '%s'%s", setup->algorithm->name,
                                   name, param->name ? ", but" : "");
    for (int i = 0; i < MARE_COORD_PARAMS && param[i].name && used < room; i++)
        used += (size_t)snprintf(why + used, room - used, "%s %s", i ? "," : "", param[i].name);
}

int mare_sim_set_param(mare_coord_setup *setup, const char *name, int64_t value, char *why,
                       size_t room)
{
    if (mare_coord_setup_set(setup, name, value) == MARE_COORD_OK)
        return 0;
    int at = param_index(setup, name);
    if (at < 0)
        list_params(setup, name, why, room);
    else
        snprintf(why, room, "'%s' of %s is %" PRId64 " to %" PRId64 ", not %" PRId64, name,
                 setup->algorithm->name, setup->algorithm->params[at].least,
                 setup->algorithm->params[at].most, value);
    return 1;
}

static void set_unless_chosen(mare_coord_setup *setup, const char *name, int64_t value)
{
    int at = param_index(setup, name);
    if (at >= 0 && setup->param[at] == setup->algorithm->params[at].initial)
        mare_coord_setup_set(setup, name, value);
}

static uint64_t timer_us(const mare_coord_setup *setup)
{
    static const char *const names[] = {"retry_us", "answer_us", "gossip_us"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int at = param_index(setup, names[i]);
        if (at >= 0)
            return (uint64_t)setup->param[at];
    }
    return 0;
}

const mare_coord_algorithm *mare_sim_find(const char *name)
{
    const mare_coord_algorithm *algorithm = mare_coord_find(name);
    return algorithm ? algorithm : mare__leased_find(name);
}

void mare_sim_options_init(mare_sim_options *options, const mare_coord_algorithm *algorithm,
                           uint32_t processes)
{
    *options = (mare_sim_options){
        .seed = 1,
        .network = {.delay = MARE_SIM_UNIFORM, .delay_us = 1000},
        .detector = MARE_SIM_ACCURATE,
        .detect_us = 20000,
        .duration_us = DURATION_US,
        .settle_us = MARE_SIM_DERIVED,
        .think_us = 5000,
        .hold_us = 1000,
        .no_vectors = processes > VECTORS_MAX,
        .bytes_most = BYTES_MOST,
    };
    mare_coord_setup_init(&options->setup, algorithm, processes);
    options->setup.keeps = 1;
    /* Under a lease all members can have been away at once. An algorithm that does not tolerate
     * that promises no progress. */
    if (mare__leased_find(algorithm->name) &&
        !(algorithm->promises(&options->setup) & MARE_COORD_EM2))
        options->settle_us = 0;
}

void mare_sim_options_fini(mare_sim_options *options)
{
    mare_sim_faults_fini(&options->faults);
}

void mare_sim_make_room_to_join(mare_sim_options *options)
{
    for (uint32_t i = 0; i < options->faults.count; i++) {
        const mare_sim_fault *fault = &options->faults.fault[i];
        if (fault->kind == MARE_SIM_JOIN && fault->process >= options->setup.capacity &&
            fault->process < MARE_COORD_MEMBERS_MAX)
            options->setup.capacity = fault->process + 1;
    }
}

uint32_t mare_sim_draw_members(uint64_t seed)
{
    mare_sim_random random = mare_sim_stream(seed, 6);
    int many = mare_sim_below(&random, MANY_IN) == 0;
    return many ? FEW_MOST + 1 + (uint32_t)mare_sim_below(&random, MANY_MOST - FEW_MOST)
                : 2 + (uint32_t)(seed % (FEW_MOST - 1));
}

/* Sometimes messages take longer than the algorithm waits for them. Then the run is longer, so that
 * as much happens. In large groups much happens in a short time. A duration that the user has
 * chosen is kept. */
static void vary_scale(mare_sim_options *options)
{
    mare_sim_random random = mare_sim_stream(options->seed, 7);
    int slow = mare_sim_below(&random, SLOW_IN) == 0;
    uint64_t delay_us = mare_sim_below(&random, SLOW_TIMES * timer_us(&options->setup) + 1);
    slow &= options->setup.members <= FEW_MOST;
    options->network.delay_us += slow ? delay_us : 0;
    if (options->duration_us != DURATION_US)
        return;
    if (options->setup.members > FEW_MOST)
        options->duration_us = options->duration_us * FEW_MOST / options->setup.members;
    else if (slow)
        options->duration_us += SLOW_DURATION * delay_us;
}

/* A circle that hardly has places for all, or many more; superpeers for each or for all. Settings
 * that were chosen are left alone. */
static void vary_circle(mare_sim_options *options)
{
    mare_sim_random random = mare_sim_stream(options->seed, 8);
    uint64_t bits = 3 + mare_sim_below(&random, 14), prefix = mare_sim_below(&random, bits + 1);
    set_unless_chosen(&options->setup, "bits", (int64_t)bits);
    set_unless_chosen(&options->setup, "prefix", (int64_t)prefix);
    set_unless_chosen(&options->setup, "salt", (int64_t)mare_sim_below(&random, 1000));
}

/* A useful lease is longer than the slowest round trip. Half of the seeds have one that is not:
 * then it is lost again and again, and nobody promises progress. */
static void vary_lease(mare_sim_options *options)
{
    mare_sim_random random = mare_sim_stream(options->seed, 10);
    uint64_t lease_us = LEASE_US + LEASE_DELAYS * options->network.delay_us;
    if (param_index(&options->setup, "lease_us") < 0)
        return;
    if (mare_sim_below(&random, 2)) {
        options->settle_us = 0;
        return;
    }
    set_unless_chosen(&options->setup, "lease_us", (int64_t)lease_us);
    set_unless_chosen(&options->setup, "beat_us", (int64_t)lease_us / 5);
}

void mare_sim_vary(mare_sim_options *options)
{
    mare_sim_random random = mare_sim_stream(options->seed, 4);
    unsigned tolerated = options->setup.algorithm->tolerates(&options->setup);
    mare_sim_network *net = &options->network;
    net->delay = (mare_sim_delay)mare_sim_below(&random, 4);
    net->delay_us = 1 + mare_sim_below(&random, 5000);
    net->fifo = !(tolerated & MARE_COORD_REORDER) || mare_sim_below(&random, 2);
    uint32_t loss = (uint32_t)mare_sim_below(&random, 200000);
    uint32_t duplicate = (uint32_t)mare_sim_below(&random, 200000);
    net->loss_ppm = tolerated & MARE_COORD_LOSS && mare_sim_below(&random, 2) ? loss : 0;
    net->duplicate_ppm =
        tolerated & MARE_COORD_DUPLICATION && mare_sim_below(&random, 2) ? duplicate : 0;
    options->think_us = mare_sim_below(&random, 20000);
    options->hold_us = mare_sim_below(&random, 5000);
    options->detect_us = 1 + mare_sim_below(&random, 50000);
    options->abandon_ppm = mare_sim_below(&random, 2) ? 125000 : 0;
    options->drift_ppm = tolerated & MARE_COORD_DRIFT ? (uint32_t)mare_sim_below(&random, 500) : 0;
    mare_sim_random offset = mare_sim_stream(options->seed, 5);
    options->offset_us = mare_sim_below(&offset, 2) * mare_sim_below(&offset, 1000000);
    if (tolerated & MARE_COORD_CHURN)
        options->setup.capacity = options->setup.members + 2;
    if (tolerated & MARE_COORD_SUSPECTS && mare_sim_below(&random, 2))
        options->detector = MARE_SIM_EAGER;
    vary_scale(options);
    vary_lease(options);
    vary_circle(options);
    options->faults.count = 0;
    uint32_t spared =
        mare_sim_faults_draw(&options->faults, &random, tolerated, options->setup.members,
                             options->setup.capacity, options->duration_us);
    mare_sim_profile_draw(options, tolerated, spared);
}
