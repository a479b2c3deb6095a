/* SPDX-License-Identifier: MIT */

/* Logs for ShiViz (https://bestchai.bitbucket.io/shiviz/), which reads them with its default
 * pattern, `(?<event>.*)\n(?<host>\S*) (?<clock>{.*})`: a line that says what happened, a line with
 * the process and its vector clock as JSON. One step of a machine is one event; the clocks are the
 * simulator's own happened-before, so every algorithm has them. */

#include "sim/report.h"

#include <inttypes.h>

/* What the step did, on the same line: sends and news up to the next step. */
static void write_effects(const mare_sim_recording *r, size_t step, FILE *out)
{
    char what[200];
    const mare_sim_record *stepped = &r->record[step];
    for (size_t i = step + 1; i < r->count && r->record[i].process == stepped->process; i++) {
        const mare_sim_record *record = &r->record[i];
        if (record->sight == MARE_SIM_SENT) {
            mare_coord_describe(r->algorithm, r->bytes + record->data, record->length, what,
                                sizeof what);
            fprintf(out, "; to %s: %s", mare_sim_name(r, record->peer).text, what);
        } else if (record->sight == MARE_SIM_EFFECT) {
            fprintf(out, "; %s", mare_coord_effect_name(record->effect));
            if (record->effect == MARE_COORD_ELECTED)
                fprintf(out, " %s", mare_sim_name(r, record->peer).text);
        } else if (record->sight != MARE_SIM_LOST) {
            return;
        }
    }
}

static void write_clock(const mare_sim_recording *r, const mare_sim_record *record, FILE *out)
{
    const uint32_t *vector = (const uint32_t *)(const void *)(r->bytes + record->vector);
    const char *between = "";
    fprintf(out, "%s {", mare_sim_name(r, record->process).text);
    for (uint32_t i = 0; i < r->capacity; i++) {
        if (vector[i]) {
            fprintf(out, "%s\"%s\":%" PRIu32, between, mare_sim_name(r, i).text, vector[i]);
            between = ", ";
        }
    }
    fputs("}\n", out);
}

void mare_sim_write_shiviz(const mare_sim_recording *r, FILE *out)
{
    char what[200];
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *record = &r->record[i];
        if (record->sight != MARE_SIM_STEPPED || record->vector == MARE_SIM_NONE)
            continue;
        if (record->event == MARE_COORD_MESSAGE) {
            mare_coord_describe(r->algorithm, r->bytes + record->data, record->length, what,
                                sizeof what);
            fprintf(out, "from %s: %s", mare_sim_name(r, record->peer).text, what);
        } else {
            fputs(mare_coord_event_name(record->event), out);
            if (record->event >= MARE_COORD_PEER_DOWN)
                fprintf(out, " %s", mare_sim_name(r, record->peer).text);
        }
        if (record->status != MARE_COORD_OK)
            fprintf(out, " (%s)", mare_coord_status_name(record->status));
        write_effects(r, i, out);
        fputc('\n', out);
        write_clock(r, record, out);
    }
}
