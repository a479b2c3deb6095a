// SPDX-License-Identifier: MIT
// What the parts of `mare clock` in C share.
#pragma once

// The number that an option has, or 1 for a flag that is there; `otherwise` when it is left out.
// All have been checked. argv[1] is the subcommand.
double mare__clock_option(int argc, char **argv, const char *name, double otherwise);

// The only subcommand that needs no network, and no Lua.
int mare__clock_simulate(int argc, char **argv);
