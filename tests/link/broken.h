// SPDX-License-Identifier: MIT
// Machines that break a rule each; tests/link/broken.py makes them.
#pragma once

#include "tests/link/machine.h"

struct link_rule {
    const char *name;
    const char *caught; // by a promise of tests/link/ledger.c, or a golden script; "": breaks none
    const char *does;
};

// Ends with a name of NULL.
extern const struct link_rule link_rules[];

// The rule that is broken now: its place in the list, from 1 on; 0: none.
extern int link_broken;
extern const struct link_machine link_broken_machine;
