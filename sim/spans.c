/* SPDX-License-Identifier: MIT */

/* What lasts, in a drawing: partitions behind everything; the line of each process, dashed while it
 * stands still and gone while it is down; under the line who waits, is inside, leads. Each span is
 * opened by the record that begins it and drawn by the one that ends it. */

#include "sim/svg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIVES, PAUSED, WAITS, INSIDE, LEADS, SPANS };

static const char *const span_names[SPANS] = {"lives", "paused", "waits", "inside", "leads"};

typedef struct open_span {
    uint64_t since_us;
    uint64_t number; /* the fencing number, or the epoch */
    int open;
} open_span;

typedef struct spans {
    const mare_sim_drawing *d;
    open_span (*process)[SPANS];
    int lines; /* the first pass draws the lines, the second what lies on them */
} spans;

/* Cuts --------------------------------------------------------------------------------------- */

static int on_side(const mare_sim_fault *fault, uint32_t process)
{
    return process < 64 * MARE_SIM_SIDE_WORDS && fault->side[process / 64] >> (process % 64) & 1;
}

/* A seed may draw a side with nobody, or with all: then nothing is cut. */
static int divides(const mare_sim_layout *l, const mare_sim_fault *fault)
{
    uint32_t inside = 0;
    for (uint32_t i = 0; i < l->recording->capacity; i++)
        inside += l->row[i] != MARE_COORD_NOBODY && on_side(fault, i);
    return inside > 0 && inside < l->rows;
}

static void draw_cut(const mare_sim_drawing *d, const mare_sim_fault *fault, uint64_t from_us,
                     uint64_t to_us)
{
    const mare_sim_layout *l = &d->layout;
    if (to_us < l->from_us || from_us > l->to_us || !divides(l, fault))
        return;
    double x1 = mare_sim_layout_x(l, from_us);
    double x2 = to_us == UINT64_MAX ? l->width : mare_sim_layout_x(l, to_us);
    fprintf(d->out, "<g class=\"cut\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
            x1, MARE_SIM_TOP, x2 - x1, l->height - MARE_SIM_TOP);
    for (uint32_t i = 0; i < l->recording->capacity; i++) {
        if (l->row[i] != MARE_COORD_NOBODY && on_side(fault, i))
            fprintf(d->out,
                    "<rect class=\"side\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>",
                    x1, mare_sim_layout_y(l, i) - l->lane / 2, x2 - x1, l->lane);
    }
    const char *word =
        fault->kind == MARE_SIM_ONE_WAY ? "nothing leaves the dark side" : "partition";
    if (mare__sim_take_text(d, x1 + 6, MARE_SIM_TOP + 14, word, MARE_SIM_LABEL_SIZE, 1))
        fprintf(d->out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", x1 + 6, MARE_SIM_TOP + 14, word);
    fputs("</g>\n", d->out);
}

void mare__sim_draw_cuts(const mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *cut = &r->record[i];
        uint64_t to_us = UINT64_MAX;
        if (cut->sight != MARE_SIM_CUT)
            continue;
        for (size_t j = i + 1; j < r->count && to_us == UINT64_MAX; j++) {
            if (r->record[j].sight == MARE_SIM_HEALED && r->record[j].number == cut->number)
                to_us = r->record[j].time_us;
        }
        draw_cut(d, &d->options->faults.fault[cut->number], cut->time_us, to_us);
    }
}

/* Spans -------------------------------------------------------------------------------------- */

static void draw_span(const spans *s, uint32_t who, int what, uint64_t to_us)
{
    const mare_sim_layout *l = &s->d->layout;
    FILE *out = s->d->out;
    const open_span *span = &s->process[who][what];
    if (to_us < l->from_us || span->since_us > l->to_us || s->lines != (what == LIVES))
        return;
    double x1 = mare_sim_layout_x(l, span->since_us), y = mare_sim_layout_y(l, who);
    double x2 = to_us == UINT64_MAX ? l->width - 36 : mare_sim_layout_x(l, to_us);
    if (what == LIVES && span->since_us == 0)
        x1 = l->left - 4;
    fprintf(out, "<g class=\"s %s\">", span_names[what]);
    if (what == LIVES || what == PAUSED)
        fprintf(out, "<path d=\"M%.1f %.1fH%.1f\"/>", x1, y, x2);
    else if (what == INSIDE)
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"18\" rx=\"9\"/>", x1 - 6,
                y - 9, x2 - x1 + 12);
    else
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"4\" rx=\"2\"/>", x1,
                what == WAITS ? y - 2 : y + 12, x2 - x1);
    if (what == INSIDE && span->number && span->since_us >= l->from_us)
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">inside · %" PRIu64 "</text>", x1 + 2, y + 27,
                span->number);
    if (what == LEADS && mare__sim_take_text(s->d, x1 - 11, y + 18, "★", MARE_SIM_LABEL_SIZE, 0))
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">★</text>", x1 - 11, y + 18);
    fputs("</g>", out);
}

static void change(spans *s, uint32_t who, int what, int open, uint64_t time_us, uint64_t number)
{
    open_span *span = &s->process[who][what];
    if (span->open == open)
        return;
    if (!open)
        draw_span(s, who, what, time_us);
    *span = (open_span){.since_us = time_us, .number = number, .open = open};
}

static void close_all(spans *s, uint32_t who, uint64_t time_us)
{
    for (int i = 0; i < SPANS; i++)
        change(s, who, i, 0, time_us, 0);
}

static void draw_cross(const spans *s, const mare_sim_record *record, const char *word)
{
    const mare_sim_layout *l = &s->d->layout;
    if (s->lines || !mare_sim_layout_has(l, record))
        return;
    double x = mare_sim_layout_x(l, record->time_us), y = mare_sim_layout_y(l, record->process);
    fprintf(s->d->out,
            "<g class=\"crash\"><path d=\"M%.1f %.1fl12 12m0 -12l-12 12\"/><text x=\"%.1f\" "
            "y=\"%.1f\">%s</text></g>",
            x - 6, y - 6, x + 10, y - 8, word); /* above: lost messages end on the line */
}

static void note_step(spans *s, const mare_sim_record *record)
{
    uint32_t who = record->process;
    change(s, who, LIVES, 1, record->time_us, 0);
    change(s, who, WAITS, record->waiting, record->time_us, 0);
    change(s, who, INSIDE, record->inside, record->time_us, 0);
    change(s, who, LEADS, record->leader == who, record->time_us, record->epoch);
}

static void note(spans *s, const mare_sim_record *record)
{
    uint32_t who = record->process;
    if (who == MARE_COORD_NOBODY)
        return;
    switch (record->sight) {
    case MARE_SIM_STEPPED:
        note_step(s, record);
        break;
    case MARE_SIM_EFFECT:
        if (record->effect == MARE_COORD_GRANTED)
            s->process[who][INSIDE].number = record->number;
        break;
    case MARE_SIM_CRASHED:
        close_all(s, who, record->time_us);
        draw_cross(s, record, "crashed");
        break;
    case MARE_SIM_DEPARTED:
        close_all(s, who, record->time_us);
        draw_cross(s, record, s->d->show->real ? "ended" : "left");
        break;
    case MARE_SIM_PAUSED:
    case MARE_SIM_RESUMED:
        change(s, who, PAUSED, record->sight == MARE_SIM_PAUSED, record->time_us, 0);
        break;
    case MARE_SIM_RESTARTED:
    case MARE_SIM_JOINED:
        change(s, who, LIVES, 1, record->time_us, 0);
        break;
    default:
        break;
    }
}

void mare__sim_draw_spans(const mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    spans s = {.d = d, .process = calloc(r->capacity, sizeof *s.process)};
    for (s.lines = 1; s.process && s.lines >= 0; s.lines--) {
        for (size_t i = 0; i < r->count; i++)
            note(&s, &r->record[i]);
        for (uint32_t i = 0; i < r->capacity; i++)
            close_all(&s, i, UINT64_MAX);
    }
    fputc('\n', d->out);
    free(s.process);
}
