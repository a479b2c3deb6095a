// SPDX-License-Identifier: MIT
// A world of two or three nodes that want to be linked, each with a host that does what src/node
// does: dials, judges, accepts, resumes, opens flows, sends, consumes, leaves. A seed decides how
// long bytes take, how they are cut into pieces, who dials when, and which faults there are:
// connections that break or fall silent, in one direction or both; nodes that freeze, or die and
// come back. After a while there are no more faults, and everything must come to a good end.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/link/machine.h"

enum { WORLD_NODES = 3 };

struct world_options {
    uint64_t seed;
    const struct link_machine *machines[WORLD_NODES];
    FILE *trace; // where to tell what happens; NULL: nowhere
};

struct world_outcome {
    const char *violation; // which promise was broken; NULL: none
    char detail[240];
    uint64_t accepted, delivered, resumed, lost, steps;
};

// The real machine in every node.
void world_options_init(struct world_options *options, uint64_t seed);

// One run. Returns whether all promises were kept.
bool world_run(const struct world_options *options, struct world_outcome *outcome);
