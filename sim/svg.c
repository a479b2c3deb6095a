/* SPDX-License-Identifier: MIT */

/* The space–time diagram as SVG.
 *
 *     axis      moments of virtual time; the scale bends, see layout.h
 *     cuts      partitions, shaded, the cut-off side darker
 *     spans     a line for each process while it lives; waiting, inside, leading
 *     arrows    messages, one colour each kind; lost ones end in a cross on the way
 *     events    a dot each step, with the logical clock above it; grants and elections named
 *
 * Each arrow names the steps that it joins (data-a, data-b) and each step its process, so that the
 * page can follow a message, and show all that happened before an event. */

#include "sim/svg.h"
#include "sim/boxes.h"
#include "sim/heap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VIOLATION_SIZE 14.0
#define NAMED 90u /* messages in a drawing whose arrows carry their names */

void mare__sim_escape(const char *text, FILE *out)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void mare__sim_write_time(const mare_sim_drawing *d, uint64_t time_us)
{
    uint64_t ns = time_us;
    if (d->show->real && ns < 1000000)
        fprintf(d->out, "%.*f µs", ns % 1000 ? 1 : 0, (double)ns / 1000);
    else if (d->show->real)
        fprintf(d->out, "%.*f ms", ns % 1000000 ? 3 : 0, (double)ns / 1000000);
    else if (time_us < 1000)
        fprintf(d->out, "%" PRIu64 " µs", time_us);
    else
        fprintf(d->out, "%.*f ms", time_us % 1000 ? 2 : 0, (double)time_us / 1000);
}

/* A hint: an attribute that the page's script shows, or a title that any viewer of SVG shows. */
static void open_hint(const mare_sim_drawing *d)
{
    fputs(d->page ? " data-t=\"" : "><title>", d->out);
}

static void close_hint(const mare_sim_drawing *d)
{
    fputs(d->page ? "\">" : "</title>", d->out);
}

static void draw_axis(const mare_sim_drawing *d)
{
    const mare_sim_layout *l = &d->layout;
    double last = -1000;
    fputs("<g class=\"axis\">", d->out);
    for (size_t i = 0; i < l->moments; i++) {
        if (l->x[i] < last + 92)
            continue;
        last = l->x[i];
        fprintf(d->out, "<path d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\">", last,
                MARE_SIM_TOP - 8, l->height, last, MARE_SIM_TOP - 16);
        mare__sim_write_time(d, l->time_us[i]);
        fputs("</text>", d->out);
    }
    fputs("</g>\n", d->out);
}

/* Arrows ------------------------------------------------------------------------------------- */

typedef struct arrow {
    const mare_sim_record *sent;
    const mare_sim_record *end; /* arrival or loss, or NULL: still on its way */
    size_t from_step, to_step;  /* records of the steps, or MARE_SIM_NONE */
    double x1, y1, x2, y2;
} arrow;

static uint32_t kind_of(const mare_sim_drawing *d, const mare_sim_record *record)
{
    const mare_sim_recording *r = d->layout.recording;
    return record->length > 1 ? r->bytes[record->data + 1] : 0;
}

static void describe(const mare_sim_drawing *d, const mare_sim_record *record, char *out,
                     size_t room)
{
    const mare_sim_recording *r = d->layout.recording;
    mare_coord_describe(r->algorithm, r->bytes + record->data, record->length, out, room);
}

static void hint_arrow(const mare_sim_drawing *d, const arrow *a)
{
    char what[200];
    const mare_sim_recording *r = d->layout.recording;
    describe(d, a->sent, what, sizeof what);
    open_hint(d);
    mare__sim_escape(what, d->out);
    fprintf(d->out, "\n#%" PRIu64 "  %s → %s\nsent ", a->sent->message,
            mare_sim_name(r, a->sent->process).text, mare_sim_name(r, a->sent->peer).text);
    mare__sim_write_time(d, a->sent->time_us);
    if (a->end && a->end->sight == MARE_SIM_LOST) {
        fputs("\nlost: ", d->out);
        mare__sim_escape((const char *)r->bytes + a->end->text, d->out);
    } else if (a->end) {
        fputs("\narrived ", d->out);
        mare__sim_write_time(d, a->end->time_us);
        fputs(", after ", d->out);
        mare__sim_write_time(d, a->end->time_us - a->sent->time_us);
        if (a->end->status != MARE_COORD_OK)
            fprintf(d->out, "\nnot taken: %s", mare_coord_status_name(a->end->status));
    } else {
        fputs("\nstill on its way", d->out);
    }
    close_hint(d);
}

static void draw_head(const mare_sim_drawing *d, const arrow *a, int lost)
{
    double dx = a->x2 - a->x1, dy = a->y2 - a->y1, length = sqrt(dx * dx + dy * dy);
    double ux = length > 0 ? dx / length : 1, uy = length > 0 ? dy / length : 0;
    if (lost) {
        fprintf(d->out, "<path class=\"x\" d=\"M%.1f %.1fl9 9m0 -9l-9 9\"/>", a->x2 - 4.5,
                a->y2 - 4.5);
        return;
    }
    double x = a->x2 - 4 * ux, y = a->y2 - 4 * uy;
    fprintf(d->out, "<path class=\"h\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fz\"/>", x, y,
            x - 9 * ux + 3.6 * uy, y - 9 * uy - 3.6 * ux, x - 9 * ux - 3.6 * uy,
            y - 9 * uy + 3.6 * ux);
}

static void draw_name(const mare_sim_drawing *d, const arrow *a)
{
    const mare_coord_form *forms = d->layout.recording->algorithm->forms;
    uint32_t kind = kind_of(d, a->sent), count = 0;
    while (forms[count].name)
        count++;
    if (kind >= count)
        return;
    double angle = atan2(a->y2 - a->y1, a->x2 - a->x1) * 180 / 3.14159265358979;
    double part, above;
    if (!mare__sim_place_name(d, a->x1, a->y1, a->x2, a->y2, forms[kind].name, &part, &above))
        return;
    fprintf(
        d->out,
        "<text class=\"n\" transform=\"translate(%.1f %.1f) rotate(%.1f)\" dy=\"%.0f\">%s</text>",
        a->x1 + part * (a->x2 - a->x1), a->y1 + part * (a->y2 - a->y1), angle, above,
        forms[kind].name);
}

static void draw_arrow(const mare_sim_drawing *d, arrow *a)
{
    const mare_sim_layout *l = &d->layout;
    int lost = a->end && a->end->sight == MARE_SIM_LOST;
    if (l->row[a->sent->process] == MARE_COORD_NOBODY || l->row[a->sent->peer] == MARE_COORD_NOBODY)
        return;
    a->x1 = mare_sim_layout_x(l, a->sent->time_us);
    a->y1 = mare_sim_layout_y(l, a->sent->process);
    a->x2 = a->end ? mare_sim_layout_x(l, a->end->time_us) : l->width - 40;
    a->y2 = mare_sim_layout_y(l, a->sent->peer);
    if (lost && a->end->time_us == a->sent->time_us) { /* lost at once: a stump */
        a->x2 = a->x1 + 11;
        a->y2 = a->y1 + (a->y2 > a->y1 ? 30 : -30);
    }
    uint32_t kind = kind_of(d, a->sent);
    fprintf(d->out, "<g class=\"m f%u k%u%s\"", kind, kind % MARE_SIM_COLOURS,
            lost                              ? " lost"
            : !a->end                         ? " way"
            : a->end->status != MARE_COORD_OK ? " no"
                                              : "");
    if (a->from_step != MARE_SIM_NONE)
        fprintf(d->out, " data-a=\"%zu\"", a->from_step);
    if (a->to_step != MARE_SIM_NONE)
        fprintf(d->out, " data-b=\"%zu\"", a->to_step);
    hint_arrow(d, a);
    fprintf(d->out, "<path class=\"t\" d=\"M%.1f %.1fL%.1f %.1f\"/>", a->x1, a->y1, a->x2, a->y2);
    fprintf(d->out, "<path class=\"l\" d=\"M%.1f %.1fL%.1f %.1f\"/>", a->x1, a->y1, a->x2, a->y2);
    draw_head(d, a, lost);
    if (l->shown <= NAMED && !lost)
        draw_name(d, a);
    fputs("</g>\n", d->out);
}

/* Where the steps were that sent each message; a message's ends come after its sending. */
static void draw_arrows(const mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    const mare_sim_layout *l = &d->layout;
    size_t *step = mare_sim_realloc(NULL, (r->capacity + 1) * sizeof *step);
    size_t *sender = mare_sim_realloc(NULL, (l->messages + 1) * sizeof *sender);
    uint8_t *ended = calloc(l->messages + 1, 1);
    for (uint32_t i = 0; i < r->capacity; i++)
        step[i] = MARE_SIM_NONE;
    for (uint64_t i = 0; i <= l->messages; i++)
        sender[i] = MARE_SIM_NONE;
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *record = &r->record[i];
        int arrived = record->sight == MARE_SIM_STEPPED && record->event == MARE_COORD_MESSAGE;
        if (record->sight == MARE_SIM_STEPPED)
            step[record->process] = i;
        if (record->sight == MARE_SIM_SENT)
            sender[record->message] = step[record->process];
        if ((!arrived && record->sight != MARE_SIM_LOST) ||
            l->sent[record->message] == MARE_SIM_NONE)
            continue;
        ended[record->message] = 1;
        arrow a = {.sent = &r->record[l->sent[record->message]],
                   .end = record,
                   .from_step = sender[record->message],
                   .to_step = arrived ? i : MARE_SIM_NONE};
        if (mare_sim_layout_has(l, record) || mare_sim_layout_has(l, a.sent))
            draw_arrow(d, &a);
    }
    for (uint64_t i = 1; i <= l->messages; i++) {
        if (ended[i] || l->sent[i] == MARE_SIM_NONE)
            continue;
        arrow a = {
            .sent = &r->record[l->sent[i]], .from_step = sender[i], .to_step = MARE_SIM_NONE};
        if (mare_sim_layout_has(l, a.sent))
            draw_arrow(d, &a);
    }
    free(step);
    free(sender);
    free(ended);
}

/* Events ------------------------------------------------------------------------------------- */

/* The results of a step, even if there was no room to write them beside the dot. */
static void hint_words(const mare_sim_drawing *d, const mare_sim_record *step)
{
    const mare_sim_recording *r = d->layout.recording;
    char text[80];
    for (const mare_sim_record *i = step + 1; i < r->record + r->count; i++) {
        if (i->sight != MARE_SIM_EFFECT && i->sight != MARE_SIM_SENT)
            return;
        if (i->sight != MARE_SIM_EFFECT || i->process != step->process)
            continue;
        mare__sim_words_of(r, i, text, sizeof text);
        if (text[0]) {
            fputs("\n", d->out);
            mare__sim_escape(text, d->out);
        }
    }
}

static void hint_step(const mare_sim_drawing *d, const mare_sim_record *record)
{
    const mare_sim_recording *r = d->layout.recording;
    open_hint(d);
    fprintf(d->out, "%s at ", mare_sim_name(r, record->process).text);
    mare__sim_write_time(d, record->time_us);
    fprintf(d->out, "\n%s", mare_coord_event_name(record->event));
    if (record->event == MARE_COORD_MESSAGE) {
        char what[200];
        describe(d, record, what, sizeof what);
        fprintf(d->out, " from %s: ", mare_sim_name(r, record->peer).text);
        mare__sim_escape(what, d->out);
    } else if (record->event >= MARE_COORD_PEER_DOWN) {
        fprintf(d->out, " %s", mare_sim_name(r, record->peer).text);
    }
    hint_words(d, record);
    if (record->phase)
        fprintf(d->out, "\n%s", record->phase);
    if (record->lamport)
        fprintf(d->out, ", clock %" PRIu64, record->lamport);
    if (record->clock != MARE_SIM_NONE) {
        fputs(", clock ", d->out);
        mare_sim_write_vector(r, record->clock, d->out);
    }
    close_hint(d);
}

static void draw_step(const mare_sim_drawing *d, size_t index)
{
    const mare_sim_record *record = &d->layout.recording->record[index];
    double x = mare_sim_layout_x(&d->layout, record->time_us);
    double y = mare_sim_layout_y(&d->layout, record->process);
    int request = record->event >= MARE_COORD_ENTER && record->event <= MARE_COORD_MULTICAST;
    const char *shape = request                               ? "asks"
                        : record->event == MARE_COORD_MESSAGE ? "got"
                        : record->event == MARE_COORD_TIMER   ? "timer"
                                                              : "told";
    fprintf(d->out, "<g class=\"e %s\" id=\"e%zu\" data-p=\"%" PRIu32 "\"", shape, index,
            record->process);
    hint_step(d, record);
    if (request)
        fprintf(d->out, "<path d=\"M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5 -5.5z\"/>", x, y - 5.5);
    else
        fprintf(d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"/>", x, y,
                record->event == MARE_COORD_MESSAGE ? "3.6" : "3");
    fputs("</g>", d->out);
}

/* The logical clock, where it differs from the one drawn before. */
static void draw_clock(const mare_sim_drawing *d, const mare_sim_record *record,
                       mare_sim_shown_clock *shown)
{
    if (!mare_sim_layout_clock(&d->layout, record, &shown[record->process]))
        return;
    fprintf(d->out, "<text class=\"c\" x=\"%.1f\" y=\"%.1f\">",
            mare_sim_layout_x(&d->layout, record->time_us),
            mare_sim_layout_y(&d->layout, record->process) - 11);
    if (record->clock != MARE_SIM_NONE)
        mare_sim_write_vector(d->layout.recording, record->clock, d->out);
    else
        fprintf(d->out, "%" PRIu64, record->lamport);
    fputs("</text>", d->out);
}

static void draw_events(const mare_sim_drawing *d)
{
    const mare_sim_recording *r = d->layout.recording;
    mare_sim_shown_clock *shown = calloc(r->capacity, sizeof *shown);
    fputs("<g class=\"events\">", d->out);
    for (size_t i = 0; i < r->count; i++) {
        const mare_sim_record *record = &r->record[i];
        if (!mare_sim_layout_has(&d->layout, record))
            continue;
        if (record->sight == MARE_SIM_STEPPED) {
            draw_step(d, i);
            draw_clock(d, record, shown);
        } else if (record->sight == MARE_SIM_EFFECT) {
            mare__sim_draw_words(d, i);
        }
    }
    fputs("</g>\n", d->out);
    free(shown);
}

/* The whole ---------------------------------------------------------------------------------- */

static void draw_names(const mare_sim_drawing *d)
{
    const mare_sim_layout *l = &d->layout;
    fprintf(d->out, "<g id=\"names\"%s><rect class=\"gutter\" width=\"%.0f\" height=\"%.1f\"/>",
            mare_sim_name_width(l->recording) > 5 ? " class=\"long\"" : "", l->left - 10,
            l->height);
    double middle = l->left > MARE_SIM_LEFT ? (l->left - 10) / 2 : MARE_SIM_LEFT - 24;
    for (uint32_t i = 0; i < l->recording->capacity; i++) {
        if (l->row[i] != MARE_COORD_NOBODY)
            fprintf(d->out, "<text x=\"%.0f\" y=\"%.1f\">%s</text>", middle,
                    mare_sim_layout_y(l, i) + 5, mare_sim_name(l->recording, i).text);
    }
    fputs("</g>\n", d->out);
}

/* Remarks: numbers at the top, with the words as hints; the page has them in full. */
static void draw_notes(const mare_sim_drawing *d)
{
    const mare_sim_captions *captions = d->layout.recording->captions;
    for (size_t i = 0; captions && i < captions->notes; i++) {
        const mare_sim_note *note = &captions->note[i];
        if (note->at_us < d->layout.from_us || note->at_us > d->layout.to_us)
            continue;
        fputs("<g class=\"note\"", d->out);
        open_hint(d);
        mare__sim_escape(note->text, d->out);
        close_hint(d);
        double x = mare_sim_layout_x(&d->layout, note->at_us);
        fprintf(d->out,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"8\"/><text x=\"%.1f\" y=\"%.1f\">%zu</text>"
                "</g>\n",
                x, MARE_SIM_TOP - 2, x, MARE_SIM_TOP + 2, i + 1);
    }
}

static void draw_violation(const mare_sim_drawing *d)
{
    const mare_sim_layout *l = &d->layout;
    if (!d->outcome->violation[0] || l->cut_after)
        return;
    double x = mare_sim_layout_x(l, d->outcome->time_us), base = l->height - 4;
    double width = mare_sim_text_width(d->outcome->violation, VIOLATION_SIZE, 1);
    double left = x + 6 + width > l->width ? x - 6 - width : x + 6;
    mare__sim_take_text(d, left, base, d->outcome->violation, VIOLATION_SIZE, 1);
    fprintf(d->out,
            "<g class=\"broken\"><path d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>"
            "</g>\n",
            x, MARE_SIM_TOP - 8, l->height, left, base, d->outcome->violation);
}

void mare__sim_draw(mare_sim_drawing *d)
{
    const mare_sim_layout *l = &d->layout;
    fprintf(d->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"mare\" id=\"d\" viewBox=\"0 0 %.1f "
            "%.1f\" width=\"%.1f\" height=\"%.1f\">\n",
            l->width, l->height, l->width, l->height);
    if (!d->page)
        fprintf(d->out, "<style>%s</style>\n", mare__sim_style);
    fprintf(d->out, "<rect class=\"paper\" width=\"%.1f\" height=\"%.1f\"/>\n", l->width,
            l->height);
    mare__sim_begin_words(d);
    mare__sim_draw_cuts(d);
    draw_axis(d);
    draw_violation(d);
    mare__sim_place_words(d);
    mare__sim_draw_spans(d);
    draw_arrows(d);
    draw_events(d);
    draw_notes(d);
    draw_names(d);
    fputs("</svg>\n", d->out);
    mare__sim_forget_words(d);
}

void mare_sim_write_svg(const mare_sim_recording *recording, const mare_sim_options *options,
                        const mare_sim_show *show, const mare_sim_outcome *outcome, FILE *out)
{
    mare_sim_drawing d = {.options = options, .show = show, .outcome = outcome, .out = out};
    mare_sim_layout_init(&d.layout, recording, show, outcome->violation[0] != '\0');
    mare__sim_draw(&d);
    mare_sim_layout_fini(&d.layout);
}
