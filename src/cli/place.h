// SPDX-License-Identifier: MIT
// Shared by the files of `mare place`: what was asked for.
#pragma once

#include <stdbool.h>

#include "sim/place.h"

enum { PLACE_WORDS = 4 };

enum place_algorithm { PLACE_VIVALDI, PLACE_SPRINGS, PLACE_GNP };

struct place_arguments {
    const char *word[PLACE_WORDS]; // what is no option: the command's own
    int words;
    enum place_algorithm algorithm;
    bool json, distribution, steady;
    long dimensions, cycles, landmarks, replicas, seed, seeds, joining, leaving, liars;
    double spikes;
};

// As --algorithm has it.
const char *mare__place_algorithm(const struct place_arguments *args);

// Reads a whole number, and nothing but that, within limits.
bool mare__place_read(const char *text, long least, long most, long *value);

// One run as the arguments say. Returns false after saying why not.
bool mare__place_run(const struct place_arguments *args, const mare_sim_matrix *matrix,
                     uint64_t seed, mare_sim_placed *placed);

// The commands on a matrix. They return exit codes.
int mare__place_evaluate(const struct place_arguments *args, const mare_sim_matrix *matrix);
int mare__place_replicas(const struct place_arguments *args, const mare_sim_matrix *matrix);
int mare__place_distance(const struct place_arguments *args, const mare_sim_matrix *matrix);
int mare__place_map(const struct place_arguments *args, const mare_sim_matrix *matrix);
