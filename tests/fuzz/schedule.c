// SPDX-License-Identifier: MIT
// Every coordination algorithm of the table in the simulator, with a schedule that the input makes:
// who crashes, forgets, pauses, joins or leaves and when, which parts of the network are cut, how
// long each single message takes and which are lost, all within what the algorithm tolerates. Every
// checker watches, and after it the group must get going again: no promise may be broken.
//
//   algorithm, settings, members, seed, spared | faults, 6 bytes each | a byte for each message
//
// A schedule that breaks something is told as `mare sim` would.
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FAULTS_MOST = 12,
    UNIT_US = 1000,
    DURATION_US = 300 * UNIT_US,
    SETTLE_US = 2000 * UNIT_US,
    SLOWEST_US = 65 * UNIT_US,
    LOST_FROM = 240,
};

struct input {
    const uint8_t *at, *end;
    int may_lose;
    uint64_t slowest_us;
};

static uint8_t next_byte(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

// Settings that an algorithm does not have are left alone.
static void choose_settings(mare_coord_setup *setup, uint8_t bits)
{
    mare_coord_setup_set(setup, "repair", !(bits & 1));
    mare_coord_setup_set(setup, "acks", !(bits & 2));
    mare_coord_setup_set(setup, "queue", !(bits & 4));
    mare_coord_setup_set(setup, "single", !(bits & 8));
    mare_coord_setup_set(setup, "majority", bits >> 4 & 1);
    mare_coord_setup_set(setup, "order", bits % 3);
    if (bits & 32 && !(bits & 1)) // without repair a message that leaves the window behind is lost
        mare_coord_setup_set(setup, "window", 2);
}

static void choose_network(mare_sim_options *options, uint8_t bits, unsigned tolerated)
{
    options->network.delay = MARE_SIM_FIXED;
    options->network.fifo = !(tolerated & MARE_COORD_REORDER) || bits & 1;
    if (bits & 2 && tolerated & MARE_COORD_DUPLICATION)
        options->network.duplicate_ppm = 200000;
    if (bits & 4 && tolerated & MARE_COORD_SUSPECTS)
        options->detector = MARE_SIM_EAGER;
    if (bits & 8 && tolerated & MARE_COORD_DRIFT)
        options->drift_ppm = 500;
    options->detect_us = bits & 16 ? 500 : 20000;
    options->abandon_ppm = bits & 32 ? 125000 : 0;
}

static void choose_faults(mare_sim_options *options, struct input *in, unsigned tolerated,
                          uint32_t spared)
{
    const mare_coord_setup *setup = &options->setup;
    for (uint8_t left = next_byte(in) % (FAULTS_MOST + 1); left; left--) {
        mare_sim_fault fault = {.kind =
                                    (mare_sim_fault_kind)(next_byte(in) % MARE_SIM_FAULT_KINDS)};
        fault.at_us = UNIT_US * (uint64_t)next_byte(in);
        fault.for_us = UNIT_US / 4 * (uint64_t)next_byte(in); // 0: for ever
        if (fault.at_us + fault.for_us >= DURATION_US)
            fault.for_us = DURATION_US - 1 - fault.at_us;
        if (fault.kind == MARE_SIM_PARTITION || fault.kind == MARE_SIM_ONE_WAY)
            fault.side[0] = next_byte(in) & ((UINT64_C(1) << setup->members) - 1);
        else
            fault.process = fault.kind == MARE_SIM_BURST ? 1u + next_byte(in) % 100u
                                                         : next_byte(in) % setup->capacity;
        mare_sim_faults_add_fair(&options->faults, &fault, tolerated, setup->members,
                                 setup->capacity, spared);
    }
}

// The fate of a message, as long as the first phase and the input last.
static int route(void *context, uint64_t time_us, uint32_t from, uint32_t to, const uint8_t *data,
                 uint32_t length, uint64_t *delay_us)
{
    struct input *in = context;
    (void)from, (void)to, (void)data, (void)length;
    if (time_us >= DURATION_US || in->at == in->end)
        return 1;
    uint8_t byte = next_byte(in);
    if (byte >= LOST_FROM && in->may_lose)
        return 0;
    *delay_us = in->slowest_us * byte * byte / (255 * 255);
    return 1;
}

static void tell(const mare_sim_options *options, const mare_sim_outcome *out)
{
    char faults[2000];
    mare_sim_faults_write(&options->faults, faults, sizeof faults);
    fprintf(stderr, "%s of %" PRIu32 " breaks %s: %s\nfaults: %s\n", options->setup.algorithm->name,
            options->setup.members, out->violation, out->detail, faults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .end = data + size};
    size_t count;
    const mare_coord_algorithm *const *table = mare_coord_table(&count);
    mare_sim_options options;
    mare_sim_outcome out;
    const mare_coord_algorithm *algorithm = table[next_byte(&in) % count];
    uint8_t settings = next_byte(&in), network = next_byte(&in), members = next_byte(&in);
    mare_sim_options_init(&options, algorithm, 2 + members % 5u);
    choose_settings(&options.setup, settings);
    options.seed = next_byte(&in);
    options.duration_us = DURATION_US;
    options.settle_us = SETTLE_US; // what the input slows down is no part of the network
    options.think_us = 2000u * (members >> 5);
    unsigned tolerated = algorithm->tolerates(&options.setup);
    if (tolerated & MARE_COORD_CHURN)
        options.setup.capacity++;
    in.may_lose = (tolerated & MARE_COORD_LOSS) != 0;
    in.slowest_us = in.may_lose ? SLOWEST_US : SLOWEST_US / 8; // no window is left behind
    choose_network(&options, network, tolerated);
    uint32_t spared = next_byte(&in) % options.setup.members;
    choose_faults(&options, &in, tolerated,
                  tolerated & MARE_COORD_ALL_CRASH ? MARE_COORD_NOBODY : spared);
    options.hooks = (mare_sim_hooks){.context = &in, .route = route};
    if (!mare_sim_run(&options, NULL, &out)) {
        tell(&options, &out);
        abort();
    }
    mare_sim_options_fini(&options);
    return 0;
}
