/* SPDX-License-Identifier: MIT */

/* Options: the calm defaults, and the variation of everything by the seed. */

#include "sim/sim.h"

#define VECTORS_MAX 512u /* larger groups do not keep happened-before unless told to */

void mare_sim_options_init(mare_sim_options *options, const mare_coord_algorithm *algorithm,
                           uint32_t processes)
{
    *options = (mare_sim_options){
        .seed = 1,
        .network = {.delay = MARE_SIM_UNIFORM, .delay_us = 1000},
        .detector = MARE_SIM_ACCURATE,
        .detect_us = 20000,
        .duration_us = 1000000,
        .settle_us = 2000000,
        .think_us = 5000,
        .hold_us = 1000,
        .no_vectors = processes > VECTORS_MAX,
    };
    mare_coord_setup_init(&options->setup, algorithm, processes);
}

void mare_sim_options_fini(mare_sim_options *options)
{
    mare_sim_faults_fini(&options->faults);
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
    options->faults.count = 0;
    mare_sim_faults_draw(&options->faults, &random, tolerated, options->setup.members,
                         options->setup.capacity, options->duration_us);
}
