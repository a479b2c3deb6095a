/* SPDX-License-Identifier: MIT */
#pragma once

/* Runs as a seed draws them, for whoever compares or counts them. */

#include "sim/record.h"
#include "sim/sim.h"

/* To be ended with mare_sim_options_fini(). */
static inline void draw_options(mare_sim_options *options, const mare_coord_algorithm *algorithm,
                                uint64_t seed)
{
    mare_sim_options_init(options, algorithm, mare_sim_draw_members(seed));
    options->seed = seed;
    mare_sim_vary(options);
}

/* The trace as `mare sim --trace` writes it, to be freed. */
static inline char *trace_of(const mare_coord_algorithm *algorithm, uint64_t seed, size_t *length)
{
    mare_sim_options options;
    mare_sim_outcome outcome;
    mare_sim_recording recording;
    char *text = NULL;
    draw_options(&options, algorithm, seed);
    mare_sim_recording_init(&recording, algorithm, options.setup.capacity);
    mare_sim_observer *observers[] = {&recording.observer, NULL};
    mare_sim_run(&options, observers, &outcome);
    FILE *out = open_memstream(&text, length);
    mare_sim_recording_write_text(&recording, out);
    fclose(out);
    mare_sim_recording_fini(&recording);
    mare_sim_options_fini(&options);
    return text;
}
