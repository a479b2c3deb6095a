// SPDX-License-Identifier: MIT
// Golden scripts, whatever their language: a file of blocks, each of which is commands, a line of
// dashes, the output that is expected, an empty line. With MARE_GOLDEN=write in the environment the
// expected parts are written anew.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "support/unit.h"

struct golden_language {
    // Runs a command, which it may change, and writes what comes of it. False: not understood.
    bool (*run)(void *script, char *line, FILE *out);
    // What is to be done, and written, when the commands of a block are over; or NULL.
    void (*finish)(void *script, FILE *out);
};

// Runs the script of a file. Returns 0 when the output is as expected; otherwise prints the
// difference, unless it is to be quiet.
int golden_run(const char *path, const struct golden_language *language, void *script, bool quiet);

// A main function: a case for each argument, which is the path of a script and the case's state.
int golden_main(int argc, char **argv, CMUnitTestFunction run);
