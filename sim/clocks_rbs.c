/* SPDX-License-Identifier: MIT */

/* Reference broadcasts in virtual time: a sender whose clock does not matter, and two receivers
 * that hear most of its messages, each with a delay of its own in the last step. */

#include "sim/clocks.h"

#define S UINT64_C(1000000000)
#define ROUNDS 80
#define QUESTIONS 3 /* readings after each broadcast */

typedef struct receiver {
    mare_sim_oscillator oscillator;
    int64_t mean_ppb; /* its rate strays around this */
} receiver;

static void wander(const mare_sim_clocks_options *o, mare_sim_random *random, receiver *r,
                   uint64_t true_ns)
{
    mare_sim_oscillator_turn(&r->oscillator, true_ns,
                             r->mean_ppb + mare_sim_either_way(random, o->wander_ppb));
}

/* Two readings of one instant: where the other clock is, by pairs and in truth. */
static void ask(const mare_sim_clocks_options *o, mare_sim_clocks_outcome *outcome,
                const mare_rbs *rbs, const receiver *pair, uint64_t true_ns)
{
    mare_rbs_offset offset;
    int64_t mine_ns = mare_sim_oscillator_read(&pair[0].oscillator, true_ns);
    int64_t apart_ns = mine_ns - mare_sim_oscillator_read(&pair[1].oscillator, true_ns);
    if (o->mean(rbs, mine_ns, &offset))
        mare_sim_clocks_judge(o, outcome, MARE_SIM_RBS_MEAN, 0, offset.offset_ns - apart_ns,
                              offset.error_ns);
    if (o->line(rbs, mine_ns, &offset))
        mare_sim_clocks_judge(o, outcome, MARE_SIM_RBS_LINE, 0, offset.offset_ns - apart_ns,
                              offset.error_ns);
}

void mare__sim_clocks_rbs(const mare_sim_clocks_options *o, mare_sim_clocks_outcome *outcome)
{
    mare_sim_random random = mare_sim_stream(o->seed, 42);
    receiver pair[2] = {{.mean_ppb = 0}};
    mare_rbs rbs;
    uint64_t now_ns = S, jitter_ns = 1 + o->jitter_ns / 10;
    /* Both rates stray by the wander. The truth is read in steps of a nanosecond. */
    uint64_t apart_ppb = 2 * o->wander_ppb + (o->wander_ppb ? o->wander_ppb / 100 + 1 : 0);
    mare_rbs_init(&rbs, jitter_ns + 2, o->drift_ppb + o->wander_ppb, apart_ppb);
    for (int i = 0; i < 2; i++) {
        pair[i].mean_ppb = mare_sim_either_way(&random, o->drift_ppb);
        pair[i].oscillator.local_ns = mare_sim_either_way(&random, UINT64_C(1) << 60);
        wander(o, &random, &pair[i], 0);
    }
    for (uint64_t k = 0; k < ROUNDS && !outcome->violation[0]; k++) {
        for (int q = 0; q < QUESTIONS; q++) {
            now_ns += 1 + mare_sim_below(&random, o->poll_ns);
            ask(o, outcome, &rbs, pair, now_ns);
        }
        int64_t heard[2];
        for (int i = 0; i < 2; i++) {
            wander(o, &random, &pair[i], now_ns);
            heard[i] = mare_sim_oscillator_read(&pair[i].oscillator,
                                                now_ns + mare_sim_below(&random, jitter_ns + 1));
        }
        now_ns += jitter_ns + 1;
        if (!mare_sim_chance(&random, o->loss_ppm))
            mare_rbs_hear(&rbs, k, heard[0]);
        if (!mare_sim_chance(&random, o->loss_ppm))
            mare_rbs_match(&rbs, k, heard[1]);
    }
}
